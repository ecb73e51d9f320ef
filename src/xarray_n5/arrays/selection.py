"""Selections of an array in the user's order of axes."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.points import read_points
from xarray_n5.arrays.transfer import read
from xarray_n5.model.indexing import as_numbers, broadcast, fill_ellipsis, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.arrays.transfer import Cache
    from xarray_n5.model.grid import Index
    from xarray_n5.model.indexing import AxisIndex


class Indexer:
    """An object to be indexed, such as ``array.oindex`` and ``array.vindex``."""

    def __init__(
        self,
        get: Callable[[object], Any],
        set: Callable[[object, object], None] | None = None,  # noqa: A002
    ) -> None:
        self._get, self._set = get, set

    def __getitem__(self, key: object) -> Any:
        return self._get(key)

    def __setitem__(self, key: object, value: object) -> None:
        if self._set is None:
            raise TypeError("cannot assign to points; use slices, or oindex for index arrays")
        self._set(key, value)


def read_selection(io: ChunkIO, key: object, cache: Cache | None, *, transposed: bool) -> Any:
    """Return a basic or orthogonal selection; `transposed` if the user's axes are reversed."""
    shape = io.metadata.shape
    selection = normalize(key, shape[::-1] if transposed else shape)
    alone = None if transposed or cache is not None else _whole_chunk(io, selection.axes)
    if alone is not None:
        result = io.block(alone, check=True)  # in the memory of what was decoded
    else:
        result = np.empty(selection.shape, io.metadata.dtype)
        axes = selection.axes[::-1] if transposed else selection.axes
        read(io, axes, result.T if transposed else result, cache)
    if selection.newaxes:
        return np.expand_dims(result[(*selection.view, ...)], selection.newaxes)
    return result[selection.view]


def _whole_chunk(io: ChunkIO, axes: Sequence[AxisIndex]) -> Index | None:
    """Return the index of the chunk that equals a selection, clipped to the array, or None."""
    metadata = io.metadata
    index = []
    for axis, size, side in zip(axes, metadata.shape, metadata.chunks, strict=True):
        if not isinstance(axis, slice) or axis.step != 1 or axis.start % side:
            return None
        if not axis.start < axis.stop == min(axis.start + side, size):
            return None
        index.append(axis.start // side)
    return tuple(index) if metadata.inner is None else None


def stored_order(
    io: ChunkIO, key: object, value: object, *, transposed: bool
) -> tuple[tuple[AxisIndex, ...], np.ndarray]:
    """Return a normalised selection and the values for it, in the stored order of axes."""
    shape = io.metadata.shape
    selection = normalize(key, shape[::-1] if transposed else shape)
    values = broadcast(value, selection, io.metadata.dtype)
    return (selection.axes[::-1], values.T) if transposed else (selection.axes, values)


def read_vectorized(
    io: ChunkIO, cache: Cache | None, key: object, *, transposed: bool
) -> np.ndarray:
    """Return a vectorized selection: points first, then slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = fill_ellipsis(items, len(io.metadata.shape))
    if all(isinstance(item, slice) for item in items):
        found: np.ndarray = read_selection(io, tuple(items), cache, transposed=transposed)
        return found
    if not transposed:
        return read_points(io, items, cache)
    found = read_points(io, items[::-1], cache)
    slices = sum(isinstance(item, slice) for item in items)
    points = tuple(range(found.ndim - slices))
    return found.transpose(*points, *reversed(range(found.ndim - slices, found.ndim)))


def stored_index(io: ChunkIO, index: Sequence[int], *, transposed: bool) -> Index:
    """Return a chunk's coordinates in the stored order of axes.

    Raises
    ------
    IndexError
        If the grid has no such chunk.
    """
    given, grid = tuple(map(operator.index, index)), io.metadata.grid
    found = given[::-1] if transposed else given
    if found not in grid:
        counts = grid.counts[::-1] if transposed else grid.counts
        raise IndexError(f"{io.url} has no chunk {given}; the grid has {counts} chunks")
    return found


def chunk_values(io: ChunkIO, index: Index, block: object, *, transposed: bool) -> np.ndarray:
    """Return the values of a chunk in the stored order of axes.

    Raises
    ------
    ValueError
        If they do not have the shape of the array there.
    """
    values, extent = as_numbers(block, io.metadata.dtype), io.metadata.grid.extent(index)
    shape, at = (extent[::-1], index[::-1]) if transposed else (extent, index)
    if values.shape != shape:
        raise ValueError(f"chunk {at} of {io.url}: expected shape {shape}, got {values.shape}")
    return values.T if transposed else values
