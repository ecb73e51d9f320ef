"""Read selections of an array."""

from __future__ import annotations

import operator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.transfer import blocks, read
from xarray_n5.model.indexing import normalize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.arrays.transfer import Cache
    from xarray_n5.model.grid import ChunkGrid, Index
    from xarray_n5.model.indexing import AxisIndex


def read_selection(io: ArrayNode, key: object, cache: Cache | None) -> Any:
    """Return a basic or orthogonal selection."""
    selection = normalize(key, io.metadata.shape)
    alone = None if cache is not None else _whole_chunk(io, selection.axes)
    if alone is not None:
        result = io.block(alone, check=True)  # in the memory of what was decoded
    else:
        result = np.empty(selection.shape, io.metadata.dtype)
        read(io, selection.axes, result, cache)
    if selection.newaxes:
        return np.expand_dims(result[(*selection.view, ...)], selection.newaxes)
    return result[selection.view]


def _whole_chunk(io: ArrayNode, axes: Sequence[AxisIndex]) -> Index | None:
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


def checked_index(io: ArrayNode, index: Sequence[int]) -> Index:
    """Return a chunk's coordinates.

    Raises
    ------
    IndexError
        If the grid has no such chunk.
    """
    chunk, grid = tuple(map(operator.index, index)), io.metadata.grid
    if chunk not in grid:
        raise IndexError(f"{io.url!r} has no chunk {chunk}; the grid has {grid.counts} chunks")
    return chunk


def read_points(io: ArrayNode, key: Sequence[Any]) -> np.ndarray:
    """Return the elements at points: index arrays that are broadcast together, and slices.

    Only the chunks with points are read: an outer selection around scattered points would read all
    chunks between them.

    Parameters
    ----------
    io
        The array.
    key
        A slice or an array of integers for each axis, at least one of them an array.

    Returns
    -------
    numpy.ndarray
        The axes of the index arrays first, then one for each slice, in order.

    Raises
    ------
    IndexError
        If a position is out of bounds.
    """
    grid, items = io.metadata.grid, list(key)
    pointed = [axis for axis, item in enumerate(items) if not isinstance(item, slice)]
    sliced = [axis for axis, item in enumerate(items) if isinstance(item, slice)]
    arrays = np.broadcast_arrays(*(items[axis] for axis in pointed))
    for axis, array in zip(pointed, arrays, strict=True):
        items[axis] = array.ravel()
    selection = normalize(tuple(items), grid.shape)
    points = np.stack([np.asarray(selection.axes[axis]) for axis in pointed])
    parts = list(_point_parts(grid, points, selection.axes, pointed, sliced))
    sizes = [selection.shape[axis] for axis in sliced]
    result = np.empty((points.shape[1], *sizes), io.metadata.dtype)
    chunks = blocks(io, [index for index, _, _ in parts])
    for chunk, (_, target, inside) in zip(chunks, parts, strict=True):
        result[target] = chunk.transpose(*pointed, *sliced)[inside]
    result = result[(slice(None), *(selection.view[axis] for axis in sliced))]
    return result.reshape(arrays[0].shape + result.shape[1:])


def _point_parts(
    grid: ChunkGrid,
    points: np.ndarray,
    axes: Sequence[AxisIndex],
    pointed: Sequence[int],
    sliced: Sequence[int],
) -> Iterator[tuple[Index, tuple[Any, ...], tuple[Any, ...]]]:
    """Iterate over the chunks with points: where their elements go, and which they are.

    The axes of index arrays come first, in the result and in the chunk.
    """
    sides = np.array([grid.chunks[axis] for axis in pointed])[:, None]
    numbers, chunk_of = np.unique(points // sides, axis=1, return_inverse=True)
    counts = np.bincount(chunk_of.ravel(), minlength=1)
    rows_of = np.split(np.argsort(chunk_of.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    pieces = grid.project(axes)
    for number, rows in zip(numbers.T, rows_of, strict=False):  # without points, rows alone
        inside = tuple(points[:, rows] - number[:, None] * sides)
        for parts in product(*(pieces[axis] for axis in sliced)):
            index = dict(zip(pointed, number.tolist(), strict=True))
            index |= {axis: part.chunk for axis, part in zip(sliced, parts, strict=True)}
            yield (
                tuple(index[axis] for axis in range(len(axes))),
                (rows, *(part.target for part in parts)),
                (*inside, *(part.inside for part in parts)),
            )
