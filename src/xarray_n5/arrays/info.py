"""Descriptions of arrays and groups for people: plain text, and HTML that unfolds."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from dask.utils import format_bytes

from xarray_n5.arrays.repr import (
    amount,
    as_text,
    chunk_picture,
    fold,
    geometry_rows,
    show_geometry,
    side_by_side,
    table,
    text,
    times,
    titled,
)
from xarray_n5.errors import printable
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes

SHOWN = 40
"""The maximum number of nodes of a group, or of attributes, that are shown."""

_FEW = 8
"""The maximum number of nodes of a group that is shown unfolded."""

_HEAD = ("axis", "size", "chunk", "coordinates")

Rows: TypeAlias = "list[tuple[str, str]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayInfo:
    """The description of an array at one time."""

    url: str
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    compression: str
    shards: tuple[int, ...] | None = None
    """The shape of shards, if there are any."""
    attributes: Attributes = field(default_factory=dict)
    geometry: Geometry | None = None
    """The axes; None if they were not read."""
    unfinished: bool = False
    """Whether the array has an unfinished write."""

    @property
    def nbytes(self) -> int:
        """The size of all elements in memory, in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def nchunks(self) -> int:
        """The number of chunks in the grid, stored or not."""
        return math.prod(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))

    @property
    def title(self) -> str:
        """The heading of the description."""
        return f"<xarray_n5.Array {self.url!r}>"

    @property
    def rows(self) -> Rows:
        """Labels and values, those of the axes last."""
        return self._facts + (show_geometry(self.geometry)[1] if self.geometry else [])

    @property
    def _facts(self) -> Rows:
        state = "unfinished: missing chunks read as fill values; resume the write"
        chunk = math.prod(self.chunks) * self.dtype.itemsize
        return [
            ("shape", times(self.shape)),
            ("dtype", str(self.dtype)),
            ("size", f"{format_bytes(self.nbytes)} in memory"),
            ("chunks", f"{times(self.chunks)}, {amount(self.nchunks, chunk)}"),
            *([("shards", self._shards)] if self.shards else []),
            ("compression", self.compression),
            *([("state", state)] if self.unfinished else []),
        ]

    @property
    def _shards(self) -> str:
        shards = self.shards or self.chunks
        count = math.prod(-(-n // s) for n, s in zip(self.shape, shards, strict=True))
        shard = math.prod(shards) * self.dtype.itemsize
        return f"{times(shards)}, {amount(count, shard, 'shard')}"

    @property
    def summary(self) -> str:
        """The description in one line."""
        shards = "" if self.shards is None else f", shards {times(self.shards)}"
        name = self.compression.partition(" ")[0]
        state = ", unfinished" if self.unfinished else ""
        chunks = f"chunks {times(self.chunks)}{shards}"
        return f"{times(self.shape)} {self.dtype}, {chunks}, {name}{state}"

    def __repr__(self) -> str:
        return as_text(self.title, self.rows)

    def _repr_html_(self) -> str:
        return titled(self.title, self.body + _attributes(self.attributes))

    @property
    def body(self) -> str:
        """The description, axes and a picture of the chunks as HTML."""
        sizes = list(zip(self.shape, self.chunks, strict=True))
        if self.geometry is None:
            lines = [(f"axis {n}", str(s), str(c)) for n, (s, c) in enumerate(sizes)]
            return side_by_side(table(self._facts) + table(lines, _HEAD[:3]), self._picture)
        named = [
            (str(axis.name), str(size), str(chunk), str(axis).partition(": ")[2])
            for axis, (size, chunk) in zip(self.geometry.with_names().axes, sizes, strict=True)
        ]
        facts = table(self._facts) + (table(named, _HEAD) if named else "")
        sources = "; ".join(" ".join(row) for row in geometry_rows(self.geometry))
        return side_by_side(facts, self._picture) + text(sources, faint=True)

    @property
    def _picture(self) -> str:
        """The chunk grid, in physical proportions if all axes have one unit."""
        geometry = self.geometry.with_names() if self.geometry else None
        axes = geometry.axes[-3:] if geometry else ()
        units = [axis.unit for axis in axes if axis.scale]
        alike = len(units) == len(self.shape[-3:]) and same_unit(*units)
        steps = [axis.step for axis in axes] if alike else [1.0] * len(self.shape[-3:])
        lengths = [size * step for size, step in zip(self.shape[-3:], steps, strict=True)]
        names = [str(axis.name) for axis in geometry.axes] if geometry else [""] * len(self.shape)
        return chunk_picture(names, self.shape, self.chunks, lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """The description of a group, and of the nodes in it, at one time."""

    url: str
    path: str
    attributes: Attributes = field(default_factory=dict)
    children: Mapping[str, ArrayInfo | GroupInfo] | None = None
    """The nodes in the group by name; None if they were not read."""
    more: int = 0
    """The number of nodes beyond `children`."""

    @property
    def title(self) -> str:
        """The heading of the description."""
        return f"<xarray_n5.Group {self.url!r}>"

    @property
    def rows(self) -> Rows:
        """The nodes in the group with their descriptions, the names of the attributes last."""
        rows = []
        for name, child in (self.children or {}).items():
            if isinstance(child, GroupInfo):
                rows.append((f"{name}/", "group"))
            else:
                rows.append((name, child.summary))
        if self.more:
            rows.append(("...", f"{self.more} more"))
        if self.attributes:
            rows.append(("attributes", ", ".join(self.attributes)))
        return rows

    def __repr__(self) -> str:
        return as_text(self.title, self.rows)

    def _repr_html_(self) -> str:
        return titled(self.title, self._body)

    @property
    def _body(self) -> str:
        children = (self.children or {}).items()
        parts = [_folded_group(n, c) for n, c in children if isinstance(c, GroupInfo)]
        parts += [_folded_array(n, c) for n, c in children if isinstance(c, ArrayInfo)]
        if self.more:
            parts.append(f"<div>{text(f'... {self.more} more', faint=True)}</div>")
        return "".join(parts) + _attributes(self.attributes)


@dataclass(frozen=True, slots=True)
class Tree:
    """A group and the nodes below it, as plain text and as HTML."""

    info: GroupInfo

    def __repr__(self) -> str:
        return "\n".join(map(printable, [self.info.path or "/", *_lines(self.info, "")]))

    def _repr_html_(self) -> str:
        return self.info._repr_html_()


def _lines(info: GroupInfo, indent: str) -> Iterator[str]:
    """Iterate over the lines of a tree."""
    children = list((info.children or {}).items())
    more = [f"{info.more} more"] if info.more else []
    last = len(children) + len(more) - 1
    for number, (name, child) in enumerate(children):
        corner, bar = ("└── ", "    ") if number == last else ("├── ", "│   ")
        if isinstance(child, ArrayInfo):
            yield f"{indent}{corner}{name}  {child.summary}"
        else:
            unread = " ..." if child.children is None else ""
            yield f"{indent}{corner}{name}/{unread}"
            yield from _lines(child, indent + bar)
    yield from (f"{indent}└── ... {each}" for each in more)


def _folded_group(name: str, info: GroupInfo) -> str:
    if info.children is None:
        return fold(f"{text(f'{name}/')} {text('group, not looked into', faint=True)}", "")
    count = len(info.children) + info.more
    label = f"{text(f'{name}/')} {text(f'group of {count}' if count else 'group', faint=True)}"
    return fold(label, info._body, unfolded=count <= _FEW)  # noqa: SLF001 - its own kind


def _folded_array(name: str, info: ArrayInfo) -> str:
    label = f"{text(name)} {text(info.summary, faint=True)}"
    return fold(label, info.body + _attributes(info.attributes))


def _attributes(attributes: Attributes) -> str:
    if not attributes:
        return ""
    shown = islice(attributes.items(), SHOWN)
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in shown]
    if (more := len(attributes) - SHOWN) > 0:
        rows.append(("...", f"{more} more"))
    return fold(f"attributes {text(f'({len(attributes)})', faint=True)}", table(rows))
