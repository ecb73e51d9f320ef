"""Describe arrays, groups and axes for people: as plain text, and as a plain HTML table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from dask.utils import format_bytes

from xarray_n5.codecs import to_json
from xarray_n5.errors import printable
from xarray_n5.model.grid import ChunkGrid

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Compression

Rows: TypeAlias = "list[tuple[str, str]]"
"""Labels and values."""

_LONGEST = 200
"""The maximum number of characters of a value in a table, and of a list of names."""

_CELL = "text-align: left; vertical-align: top; padding: 0 1em 0 0; white-space: pre-wrap"


@dataclass(frozen=True, slots=True)
class Description:
    """An array or a group at one time: printed as text, shown as a table in notebooks."""

    title: str
    rows: Rows
    """Facts and their values; for a group, the nodes in it."""
    attributes: Collection[str] = ()
    """The names of the attributes."""
    unfinished: bool = False
    """Whether an array has an unfinished write."""

    def __repr__(self) -> str:
        return as_text(self.title, self._all_rows)

    def _repr_html_(self) -> str:
        return as_html(self.title, self._all_rows)

    @property
    def _all_rows(self) -> Rows:
        names = [("attributes", _shorten(", ".join(self.attributes)))] if self.attributes else []
        return self.rows + names


def describe_array(array: Array) -> Description:
    """Return the description of an array."""
    shape, chunks, shards, itemsize = array.shape, array.chunks, array.shards, array.dtype.itemsize
    metadata, unfinished = array.node.metadata, array.node.is_unfinished()
    state = "unfinished: missing chunks read as fill values; resume the write"
    rows = [
        ("shape", times(shape)),
        ("dtype", str(array.dtype)),
        ("size", f"{format_bytes(math.prod(shape) * itemsize)} in memory"),
        ("chunks", _grid("chunk", ChunkGrid(shape, chunks), itemsize)),
        *([("shards", _grid("shard", ChunkGrid(shape, shards), itemsize))] if shards else []),
        ("compression", metadata.other_filters or _compression(metadata.compression)),
        *([("state", state)] if unfinished else []),
        *geometry_rows(array.geometry()),
    ]
    title = f"<xarray_n5.Array {array.url!r}>"
    return Description(title, rows, tuple(metadata.attributes), unfinished)


def summary(array: Array, *, unfinished: bool) -> str:
    """Return the description of an array in one line."""
    filters, compression = array.node.metadata.other_filters, _compression(array.compression)
    parts = [f"{times(array.shape)} {array.dtype}", f"chunks {times(array.chunks)}"]
    parts += [f"shards {times(array.shards)}"] if array.shards else []
    parts.append(filters or compression.partition(" ")[0])
    return ", ".join([*parts, *(["unfinished"] if unfinished else [])])


def as_text(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title, and a line for each row, safe to print.

    >>> print(as_text("<Thing>", [("size", "3"), ("colour", "red")]))
    <Thing>
        size    3
        colour  red
    """
    lines = [(printable(label), printable(value)) for label, value in rows]
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join(
        [printable(title), *(f"    {label:{width}}  {value}" for label, value in lines)]
    )


def as_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title and a table as HTML; strings are escaped, and truncated if they are long.

    >>> as_html("<Thing>", [])
    '<div><strong>&lt;Thing&gt;</strong></div>'
    """
    lines = [
        f'<tr><th style="{_CELL}">{_escape(label)}</th>'
        f'<td style="{_CELL}">{_escape(value)}</td></tr>'
        for label, value in rows
    ]
    table = f'<table style="margin: 0">{"".join(lines)}</table>' if lines else ""
    return f"<div><strong>{_escape(title)}</strong>{table}</div>"


def times(sizes: Sequence[int]) -> str:
    """Return a shape in words.

    >>> times((2, 3)), times(())
    ('2 x 3', 'one number')
    """
    return " x ".join(map(str, sizes)) or "one number"


def geometry_rows(geometry: Geometry) -> Rows:
    """Return a row for each axis, and others for the affine and the source of each fact."""
    rows = []
    for axis in geometry.with_names().axes:
        name, _, where = str(axis).partition(": ")
        rows.append((name, where))
    rows += [("affine", ", ".join(f"{n:g}" for n in row)) for row in geometry.affine or ()]
    return rows + [(fact, f"from {where}") for fact, where in geometry.sources.items()]


def axes_line(geometry: Geometry) -> str:
    """Return the axes and the positions of their samples in a line.

    >>> from xarray_n5.model.axes import Axis, Geometry
    >>> axes_line(Geometry((Axis(), Axis(unit="nm", offset=3.0), Axis(unit="um", scale=2.0))))
    'z; y: start 3, step 1 nm; x: start 0, step 2 µm'
    """
    axes = geometry.with_names().axes
    return "; ".join(str(axis) if axis.placed else str(axis.name) for axis in axes)


def _grid(thing: str, grid: ChunkGrid, itemsize: int) -> str:
    """Return the shape of chunks or shards, their number and their size in words."""
    nbytes = format_bytes(math.prod(grid.chunks) * itemsize)
    return f"{times(grid.chunks)}, {grid.size} {thing}{'s' * (grid.size != 1)} of {nbytes}"


def _compression(compression: Compression) -> str:
    """Return the name of a compression and its parameters, except those that are false.

    >>> from xarray_n5.codecs import resolve
    >>> _compression(resolve("gzip")), _compression(resolve(None))
    ('gzip (level=6)', 'raw')
    """
    members = to_json(compression)
    name = [members.pop(key) for key in ("type", "id") if key in members][-1]
    shown = [f"{k}={v}" for k, v in members.items() if v is not None and v is not False]
    return f"{name} ({', '.join(shown)})" if shown else str(name)


def _escape(text: str) -> str:
    return escape(printable(_shorten(text)))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
