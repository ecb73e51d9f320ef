"""The chunk grid: the extents of chunks, and the chunks that a selection touches.

Integers only, in C order.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import product
from operator import le
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.model.indexing import AxisIndex

Index: TypeAlias = tuple[int, ...]
"""A chunk's coordinates in the grid."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of one chunk's extent along one axis that a selection touches."""

    chunk: int
    """The chunk's coordinate along the axis."""
    inside: AxisIndex
    """Positions within the chunk."""
    target: AxisIndex
    """The same positions within the result."""
    whole: bool
    """Whether the piece selects every position of the chunk along the axis, once and in order."""


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """A regular grid of chunks over an array.

    >>> grid = ChunkGrid((5, 4), (3, 3))
    >>> grid.counts, grid.extent((1, 1))
    ((2, 2), (2, 1))
    """

    shape: tuple[int, ...]
    """The array's shape."""
    chunks: tuple[int, ...]
    """The shape of a chunk that no edge clips."""

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.chunks):
            raise ValueError(
                f"expected one chunk size per axis, got shape {self.shape}, chunks {self.chunks}"
            )
        if any(size < 0 for size in self.shape) or any(size < 1 for size in self.chunks):
            raise ValueError(
                "expected a shape of at least 0 and chunks of at least 1, got shape "
                f"{self.shape} and chunks {self.chunks}"
            )

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of chunks along each axis."""
        return tuple(-(-s // c) for s, c in zip(self.shape, self.chunks, strict=True))

    @property
    def size(self) -> int:
        """The number of chunks."""
        return math.prod(self.counts)

    def __contains__(self, index: Sequence[int]) -> bool:
        """Whether `index` names a chunk of the grid."""
        return len(index) == len(self.shape) and all(
            0 <= i < n for i, n in zip(index, self.counts, strict=True)
        )

    def __iter__(self) -> Iterator[Index]:
        """Iterate over the indices of all chunks, in C order."""
        return product(*map(range, self.counts))

    def extent(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of chunk `index`, clipped to the array."""
        return tuple(
            min(c, s - i * c) for i, s, c in zip(index, self.shape, self.chunks, strict=True)
        )

    def fits(self, index: Sequence[int], shape: Sequence[int]) -> bool:
        """Return whether a chunk of this shape has its extent, and no more than a full chunk."""
        return all(map(le, self.extent(index), shape)) and all(map(le, shape, self.chunks))

    def slices(self, index: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices of the array that chunk `index` covers."""
        return tuple(
            slice(i * c, min(s, (i + 1) * c))
            for i, s, c in zip(index, self.shape, self.chunks, strict=True)
        )

    def project(self, axes: Sequence[AxisIndex]) -> tuple[list[Piece], ...]:
        """Return, for each axis, the pieces of the chunks that a normalised selection touches.

        The chunks of the selection are the product of the axes' pieces.
        """
        return tuple(
            _project_slice(axis, size, chunk)
            if isinstance(axis, slice)
            else _project_array(axis, size, chunk)
            for axis, size, chunk in zip(axes, self.shape, self.chunks, strict=True)
        )


def span(pieces: Sequence[Sequence[Piece]]) -> list[range]:
    """Return, for each axis, the range of chunks from the first piece to the last."""
    numbers = [[piece.chunk for piece in each] for each in pieces]
    return [range(min(each), max(each) + 1) if each else range(0) for each in numbers]


def _project_slice(axis: slice, size: int, chunk: int) -> list[Piece]:
    start, stop, step = axis.start, axis.stop, axis.step
    if start >= stop:
        return []
    pieces = []
    position, done = start, 0
    while position < stop:
        number = position // chunk
        low, high = number * chunk, min((number + 1) * chunk, size)
        last = min(high, stop)
        count = -(-(last - position) // step)
        pieces.append(
            Piece(
                number,
                slice(position - low, last - low, step),
                slice(done, done + count),
                whole=count == high - low,
            )
        )
        position += count * step
        done += count
    return pieces


def _project_array(axis: np.ndarray, size: int, chunk: int) -> list[Piece]:
    numbers = axis // chunk
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    pieces = []
    for target in np.split(order, cuts) if axis.size else ():
        number = int(numbers[target[0]])
        inside = axis[target] - number * chunk
        extent = min(chunk, size - number * chunk)
        whole = inside.size == extent and bool(np.array_equal(inside, np.arange(extent)))
        pieces.append(Piece(number, inside, target, whole=whole))
    return pieces


def index_of(parts: Sequence[str], ndim: int) -> Index | None:
    """Return the index in the parts of a key, or None if they are not `ndim` numbers.

    >>> index_of(["1", "20"], 2), index_of(["0"], 0), index_of(["01", "2"], 2)
    ((1, 20), (), None)
    """
    if len(parts) != max(1, ndim):
        return None
    if not all(re.fullmatch(r"0|[1-9]\d*", part, re.ASCII) for part in parts):
        return None
    return tuple(map(int, parts)) if ndim else ()
