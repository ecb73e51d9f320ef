"""What a person wants to know of an object, as text and as HTML."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from dask.utils import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.array import Array
    from xarray_n5.axes import Geometry
    from xarray_n5.group import Group

_SHOWN = 40
"""How many nodes of a group are shown."""

_STYLE = "text-align: left; vertical-align: top; padding: 0 1em 0 0"


def as_text(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title, and a line for each row.

    >>> print(as_text("<Thing>", [("size", "3"), ("colour", "red")]))
    <Thing>
        size    3
        colour  red
    """
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join([title, *(f"    {label:{width}}  {text}" for label, text in rows)])


def as_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title and a table; nothing in it is taken for markup.

    >>> as_html("<Thing>", [])
    '<div><strong>&lt;Thing&gt;</strong><table></table></div>'
    """
    cells = [f'<{tag} style="{_STYLE}">{{}}</{tag}>' for tag in ("th", "td")]
    line = f"<tr>{''.join(cells)}</tr>"
    lines = (line.format(escape(label), escape(text)) for label, text in rows)
    return f"<div><strong>{escape(title)}</strong><table>{''.join(lines)}</table></div>"


def times(sizes: Sequence[int]) -> str:
    """Return a shape as one says it.

    >>> times((2, 3)), times(())
    ('2 x 3', 'one number')
    """
    return " x ".join(map(str, sizes)) or "one number"


def amount(count: int, nbytes: int) -> str:
    """Return how many chunks there are, and how large one is.

    >>> amount(1, 2048), amount(24, 131072)
    ('1 chunk of 2.00 kiB', '24 chunks of 128.00 kiB')
    """
    return f"{count} chunk{'s' * (count != 1)} of {format_bytes(nbytes)}"


def show_array(array: Array) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for an array; its axes are looked up once more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who opens it hears of what is odd
        geometry = array.geometry()
    chunk = math.prod(array.chunks) * array.dtype.itemsize
    rows = [
        ("shape", f"{times(array.shape)}, {array.dtype}, {format_bytes(array.nbytes)}"),
        ("chunks", f"{times(array.chunks)}, {amount(math.prod(array.grid.counts), chunk)}"),
        ("compression", str(array.metadata.compression)),
        *show_geometry(geometry)[1],
    ]
    return f"<xarray_n5.Array {array.url!r}>", rows


def show_group(group: Group) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for a group: what is directly in it."""
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        children = group.children()
    for name, child in children.items():
        if isinstance(child, Mapping):
            rows.append((f"{name}/", "group"))
        else:
            size = f"{times(child.shape)} in chunks of {times(child.chunks)}"
            rows.append((name, f"{child.dtype}, {size}, {child.metadata.compression}"))
    if len(rows) > _SHOWN:
        rows = [*rows[:_SHOWN], ("...", f"{len(rows) - _SHOWN} more")]
    if attributes := ", ".join(group.attrs):
        rows.append(("attributes", attributes))
    return f"<xarray_n5.Group {group.url!r}>", rows


def show_geometry(geometry: Geometry) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for axes, and where each fact of them was read."""
    rows = []
    for axis in geometry.with_names().axes:
        name, _, text = str(axis).partition(": ")
        rows.append((name, text))
    rows += [("affine", ", ".join(f"{n:g}" for n in row)) for row in geometry.affine or ()]
    rows += [(field, f"from {where}") for field, where in geometry.sources.items()]
    return f"<xarray_n5.Geometry, {geometry.ndim} axes>", rows
