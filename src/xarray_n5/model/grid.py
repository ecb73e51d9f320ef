"""Chunk grids, and selections: NumPy-style keys, normalised, and the chunks that they touch.

Integers only, in C order. Index arrays select orthogonally.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from itertools import product
from operator import le
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

AxisIndex: TypeAlias = "slice | np.ndarray"
"""One axis of a selection, normalised: a slice of positive step, or an array of positions."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A normalised basic or orthogonal index."""

    axes: tuple[AxisIndex, ...]
    """One index per axis of the array."""
    view: tuple[slice | int, ...]
    """The index that reverses or drops axes of the selected array."""
    newaxes: tuple[int, ...]
    """Where the result has axes of length one that the array does not have."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of positions selected along each axis of the array."""
        return tuple(_length(axis) for axis in self.axes)


def normalize(key: object, shape: Sequence[int]) -> Selection:
    """Return the normalised selection of `key` in an array of `shape`.

    Parameters
    ----------
    key
        Integers, slices, an ellipsis, ``None``, and one-dimensional arrays of integers or
        booleans, which select orthogonally, as in xarray; also ``numpy.ix_`` arrays.
    shape
        The array's shape.

    Raises
    ------
    IndexError
        If the key does not fit the shape.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    items = fill_ellipsis(items, len(shape))
    axes: list[AxisIndex] = []
    view: list[slice | int] = []
    newaxes: list[int] = []
    position = 0
    for item in items:
        if item is None:
            newaxes.append(position)
            position += 1
            continue
        axis, seen = _normalize_axis(item, len(axes), shape[len(axes)])
        axes.append(axis)
        view.append(seen)
        position += not isinstance(seen, int)
    return Selection(tuple(axes), tuple(view), tuple(newaxes))


def fill_ellipsis(items: list[object], ndim: int) -> list[object]:
    """Return `items` with full slices for an ellipsis and for missing axes."""
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    given = sum(item is not None and item is not Ellipsis for item in items)
    if len(dots) > 1 or given > ndim:
        raise IndexError(f"too many indices: the array has {ndim} axes, got {given} in {items!r}")
    at = dots[0] if dots else len(items)
    return items[:at] + [slice(None)] * (ndim - given) + items[at + len(dots) :]


def _normalize_axis(item: object, axis: int, size: int) -> tuple[AxisIndex, slice | int]:
    if isinstance(item, slice):
        positions = range(*item.indices(size))
        if positions.step > 0:
            return slice(
                positions.start, max(positions.start, positions.stop), positions.step
            ), slice(None)
        if not positions:
            return slice(0, 0, 1), slice(None)
        return slice(positions[-1], positions[0] + 1, -positions.step), slice(None, None, -1)
    if isinstance(item, (list, np.ndarray)) and np.ndim(item) > 0:
        return _normalize_array(np.asarray(item), axis, size), slice(None)
    try:
        # True is an index to Python, but a mask to numpy.
        number = operator.index(None if isinstance(item, (bool, np.bool_)) else item)  # type: ignore[arg-type]
    except TypeError:
        raise IndexError(
            f"cannot index axis {axis} with {item!r}; use integers, slices or 1-d arrays"
        ) from None
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {size}")
    number %= size
    return slice(number, number + 1, 1), 0


def _normalize_array(item: np.ndarray, axis: int, size: int) -> np.ndarray:
    if item.size != max(item.shape):
        raise IndexError(
            f"cannot index axis {axis} with an array of shape {item.shape}; use a 1-d array"
        )
    item = item.ravel()
    if item.dtype == bool:
        if item.size != size:
            raise IndexError(f"the mask for axis {axis} has {item.size} elements, expected {size}")
        return np.flatnonzero(item)
    if item.size == 0:
        return item.astype(np.intp)
    if item.dtype.kind not in "iu":
        raise IndexError(
            f"cannot index axis {axis} with an array of {item.dtype}; use integers or booleans"
        )
    low, high = int(item.min()), int(item.max())
    if low < -size or high >= size:
        raise IndexError(
            f"index {low if low < -size else high} is out of bounds for axis {axis} of size {size}"
        )
    item = item.astype(np.intp)
    return np.where(item < 0, item + size, item)


def outer(axes: Sequence[AxisIndex]) -> tuple[AxisIndex, ...]:
    """Return `axes` as an orthogonal index for NumPy, by ``numpy.ix_`` if need be."""
    if sum(not isinstance(axis, slice) for axis in axes) <= 1:
        return tuple(axes)
    positions = [
        np.arange(axis.start, axis.stop, axis.step) if isinstance(axis, slice) else axis
        for axis in axes
    ]
    return np.ix_(*positions)


def _length(axis: AxisIndex) -> int:
    if isinstance(axis, slice):
        return len(range(axis.start, axis.stop, axis.step))
    return int(axis.size)


def broadcast(value: object, selection: Selection, dtype: np.dtype[Any]) -> np.ndarray:
    """Return `value` broadcast to the shape of the selection's axes, a view if possible."""
    values = as_numbers(value, dtype)
    kept = [i for i, seen in enumerate(selection.view) if isinstance(seen, slice)]
    shape = [selection.shape[i] for i in kept]
    for position in selection.newaxes:
        shape.insert(position, 1)
    values = np.broadcast_to(values, shape)
    values = values.squeeze(selection.newaxes) if selection.newaxes else values
    view: Any = [seen if isinstance(seen, slice) else slice(None) for seen in selection.view]
    part: np.ndarray = values.reshape(selection.shape)[(*view, ...)]  # an array without axes, too
    return part


def as_numbers(value: object, dtype: np.dtype[Any]) -> np.ndarray:
    """Return `value` as numbers that NumPy can assign to an array of `dtype`."""
    if np.ma.is_masked(value):
        raise TypeError("masked values cannot be stored; fill them with value.filled(...)")
    plain = isinstance(value, (bool, int, float)) and dtype.kind in "biufc"
    values = np.asarray(value, dtype if plain or dtype.hasobject else None)
    if dtype.hasobject:
        return as_texts(values)
    if values.dtype.names is not None and values.dtype.names == dtype.names:
        return values.astype(dtype, casting="same_kind")
    numbers = values.dtype.kind in "biuf" and dtype.kind in "biufc"
    # Other types unchanged: they would be truncated or read differently.
    same = values.dtype.kind == dtype.kind and np.can_cast(values.dtype, dtype, "same_kind")
    fits = values.dtype.itemsize <= dtype.itemsize or dtype.kind not in "SUV"
    if not numbers and not (same and fits):
        raise TypeError(f"cannot write {values.dtype} into an array of {dtype}; convert it first")
    return values


def as_texts(values: np.ndarray) -> np.ndarray:
    """Check that an array holds only strings, and return it."""
    for text in values.flat:
        if not isinstance(text, str):
            raise TypeError(f"cannot write {text!r} as a string; convert it with str()")
    return values


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
    numbers = [[piece.chunk for piece in axis] for axis in pieces]
    return [range(min(axis), max(axis) + 1) if axis else range(0) for axis in numbers]


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
