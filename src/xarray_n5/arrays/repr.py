"""What a person wants to know of an object, as text and as HTML."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from dask.utils import format_bytes

from xarray_n5.arrays.repr_html import side_by_side, table, text, titled
from xarray_n5.arrays.repr_svg import chunk_picture
from xarray_n5.errors import printable
from xarray_n5.formats.unfinished import unfinished

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.model.axes import Geometry

SHOWN = 40
"""How many nodes of a group, or attributes, are shown."""


def as_text(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title, and a line for each row, all of it safe to print.

    >>> print(as_text("<Thing>", [("size", "3"), ("colour", "red")]))
    <Thing>
        size    3
        colour  red
    """
    lines = [(printable(label), printable(text)) for label, text in rows]
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join([printable(title), *(f"    {one:{width}}  {more}" for one, more in lines)])


def as_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title and a table; nothing in it is taken for markup.

    >>> as_html("<Thing>", [])
    '<div><strong>&lt;Thing&gt;</strong></div>'
    """
    return titled(title, table(rows))


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
    rows = _facts(array, unfinished=bool(unfinished_among([array])))
    return f"<xarray_n5.Array {array.url!r}>", [*rows, *show_geometry(geometry)[1]]


def show_group(group: Group) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for a group: what is directly in it."""
    names, rows = iter(group), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        children = group.nodes(islice(names, SHOWN))
    stopped = unfinished_among(children.values())
    for name, child in children.items():
        if isinstance(child, Mapping):
            rows.append((f"{name}/", "group"))
        else:
            size = f"{times(child.shape)} in chunks of {times(child.chunks)}"
            state = ", unfinished" if child.path in stopped else ""
            rows.append((name, f"{child.dtype}, {size}, {child.metadata.compression}{state}"))
    if more := sum(1 for _ in names):
        rows.append(("...", f"{more} more"))
    if attributes := ", ".join(group.attrs):
        rows.append(("attributes", attributes))
    return f"<xarray_n5.Group {group.url!r}>", rows


def unfinished_among(nodes: Iterable[Array | Group]) -> set[str]:
    """Return the paths of arrays of one container whose write has not ended; one batch."""
    arrays = [node for node in nodes if not isinstance(node, Mapping)]
    paths = [array.path for array in arrays]
    return unfinished(arrays[0].container, paths) if arrays else set()


def show_geometry(geometry: Geometry) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for axes, and where each fact of them was read."""
    rows = []
    for axis in geometry.with_names().axes:
        name, _, where = str(axis).partition(": ")
        rows.append((name, where))
    return f"<xarray_n5.Geometry, {geometry.ndim} axes>", rows + _rest(geometry)


def array_body(array: Array, geometry: Geometry | None, *, unfinished: bool = False) -> str:
    """Return an array's facts, axes and a picture of its chunks as HTML.

    Parameters
    ----------
    array, geometry
        The array, and its axes where they are known.
    """
    rows = list(zip(array.shape, array.chunks, strict=True))
    about = table(_facts(array, unfinished=unfinished))
    if geometry is None:
        axes = table([(f"axis {n}", str(s), str(c)) for n, (s, c) in enumerate(rows)], _HEAD[:3])
        return side_by_side(
            table(_facts(array, unfinished=unfinished)) + axes, _picture(array, None)
        )
    named = geometry.with_names()
    lines = [
        (str(axis.name), str(size), str(chunk), str(axis).partition(": ")[2])
        for axis, (size, chunk) in zip(named.axes, rows, strict=True)
    ]
    facts = about + (table(lines, _HEAD) if lines else "")
    sources = text("; ".join(" ".join(row) for row in _rest(geometry)), faint=True)
    return side_by_side(facts, _picture(array, named)) + sources


_HEAD = ("axis", "size", "chunk", "sample i lies at")


def _facts(array: Array, *, unfinished: bool = False) -> list[tuple[str, str]]:
    state = "unfinished: a write has begun and not ended; other chunks read as fill values"
    chunk = math.prod(array.chunks) * array.dtype.itemsize
    return [
        ("shape", f"{times(array.shape)}, {array.dtype}, {format_bytes(array.nbytes)}"),
        ("chunks", f"{times(array.chunks)}, {amount(math.prod(array.grid.counts), chunk)}"),
        ("compression", str(array.metadata.compression)),
        *([("state", state)] if unfinished else []),
    ]


def _rest(geometry: Geometry) -> list[tuple[str, str]]:
    rows = [("affine", ", ".join(f"{n:g}" for n in row)) for row in geometry.affine or ()]
    return rows + [(fact, f"from {where}") for fact, where in geometry.sources.items()]


def _picture(array: Array, geometry: Geometry | None) -> str:
    """Return the chunk grid, as it looks in the world where all axes have one unit."""
    axes = geometry.axes[-3:] if geometry else ()
    alike = len({axis.unit for axis in axes}) == 1 and all(axis.scale for axis in axes)
    steps = [axis.step for axis in axes] if alike else [1.0] * len(array.shape[-3:])
    lengths = [size * step for size, step in zip(array.shape[-3:], steps, strict=True)]
    names = [str(axis.name) for axis in geometry.axes] if geometry else [""] * array.ndim
    return chunk_picture(names, array.shape, array.chunks, lengths)
