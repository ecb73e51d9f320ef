"""Plain text and HTML tables for descriptions, safe to print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask.utils import format_bytes

from xarray_n5.arrays.repr_html import table, titled
from xarray_n5.codecs import to_json
from xarray_n5.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression


def as_text(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title, and a line for each row, safe to print.

    >>> print(as_text("<Thing>", [("size", "3"), ("colour", "red")]))
    <Thing>
        size    3
        colour  red
    """
    lines = [(printable(label), printable(text)) for label, text in rows]
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join([printable(title), *(f"    {one:{width}}  {more}" for one, more in lines)])


def as_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title and a table as HTML; strings are escaped.

    >>> as_html("<Thing>", [])
    '<div><strong>&lt;Thing&gt;</strong></div>'
    """
    return titled(title, table(rows))


def times(sizes: Sequence[int]) -> str:
    """Return a shape in words.

    >>> times((2, 3)), times(())
    ('2 x 3', 'one number')
    """
    return " x ".join(map(str, sizes)) or "one number"


def amount(count: int, nbytes: int, thing: str = "chunk") -> str:
    """Return the number of chunks, or of shards, and the size of one in words.

    >>> amount(1, 2048), amount(24, 131072)
    ('1 chunk of 2.00 kiB', '24 chunks of 128.00 kiB')
    """
    return f"{count} {thing}{'s' * (count != 1)} of {format_bytes(nbytes)}"


def show_geometry(geometry: Geometry) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for axes, with the source of each fact."""
    rows = []
    for axis in geometry.with_names().axes:
        name, _, where = str(axis).partition(": ")
        rows.append((name, where))
    return f"<xarray_n5.Geometry, {geometry.ndim} axes>", rows + geometry_rows(geometry)


def axes_line(geometry: Geometry) -> str:
    """Return the axes and the positions of their samples in a line.

    >>> from xarray_n5.model.axes import Axis, Geometry
    >>> axes_line(Geometry((Axis(), Axis(unit="nm", offset=3.0), Axis(unit="um", scale=2.0))))
    'z; y: start 3, step 1 nm; x: start 0, step 2 µm'
    """
    axes = geometry.with_names().axes
    return "; ".join(str(axis) if axis.placed else str(axis.name) for axis in axes)


def show_compression(compression: Compression) -> str:
    """Return the name of a compression and its parameters, except those that are false.

    >>> from xarray_n5.codecs import resolve
    >>> show_compression(resolve("gzip")), show_compression(resolve(None))
    ('gzip (level=6)', 'raw')
    """
    members = to_json(compression)
    name = [members.pop(key) for key in ("type", "id") if key in members][-1]
    shown = [f"{k}={v}" for k, v in members.items() if v is not None and v is not False]
    return f"{name} ({', '.join(shown)})" if shown else str(name)


def geometry_rows(geometry: Geometry) -> list[tuple[str, str]]:
    """Return rows for facts of several axes: the affine, the sources."""
    rows = [("affine", ", ".join(f"{n:g}" for n in row)) for row in geometry.affine or ()]
    return rows + [(fact, f"from {where}") for fact, where in geometry.sources.items()]
