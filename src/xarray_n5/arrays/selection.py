"""Selections of an array in the user's order of axes."""

from __future__ import annotations

import operator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.transfer import blocks, read
from xarray_n5.model.indexing import Selection, as_numbers, broadcast, fill_ellipsis, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xarray_n5.arrays.node import ArrayNode
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


def read_selection(io: ArrayNode, key: object, cache: Cache | None) -> Any:
    """Return a basic or orthogonal selection."""
    shape = io.metadata.shape
    selection = normalize(key, shape[::-1] if io.transposed else shape)
    alone = None if io.transposed or cache is not None else _whole_chunk(io, selection.axes)
    if alone is not None:
        result = io.block(alone, check=True)  # in the memory of what was decoded
    else:
        result = np.empty(selection.shape, io.metadata.dtype)
        axes = selection.axes[::-1] if io.transposed else selection.axes
        read(io, axes, result.T if io.transposed else result, cache)
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


def stored_order(
    io: ArrayNode, key: object, value: object
) -> tuple[tuple[AxisIndex, ...], np.ndarray]:
    """Return a normalised selection and the values for it, in the stored order of axes."""
    shape = io.metadata.shape
    selection = normalize(key, shape[::-1] if io.transposed else shape)
    values = broadcast(value, selection, io.metadata.dtype)
    return (selection.axes[::-1], values.T) if io.transposed else (selection.axes, values)


def read_vectorized(io: ArrayNode, cache: Cache | None, key: object) -> np.ndarray:
    """Return a vectorized selection: points first, then slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = fill_ellipsis(items, len(io.metadata.shape))
    if all(isinstance(item, slice) for item in items):
        found: np.ndarray = read_selection(io, tuple(items), cache)
        return found
    if not io.transposed:
        return read_points(io, items, cache)
    found = read_points(io, items[::-1], cache)
    slices = sum(isinstance(item, slice) for item in items)
    points = tuple(range(found.ndim - slices))
    return found.transpose(*points, *reversed(range(found.ndim - slices, found.ndim)))


def stored_index(io: ArrayNode, index: Sequence[int]) -> Index:
    """Return a chunk's coordinates in the stored order of axes.

    Raises
    ------
    IndexError
        If the grid has no such chunk.
    """
    given, grid = tuple(map(operator.index, index)), io.metadata.grid
    found = given[::-1] if io.transposed else given
    if found not in grid:
        counts = grid.counts[::-1] if io.transposed else grid.counts
        raise IndexError(f"{io.url!r} has no chunk {given}; the grid has {counts} chunks")
    return found


def chunk_values(io: ArrayNode, index: Index, block: object) -> np.ndarray:
    """Return the values of a chunk in the stored order of axes.

    Raises
    ------
    ValueError
        If they do not have the shape of the array there.
    """
    values, extent = as_numbers(block, io.metadata.dtype), io.metadata.grid.extent(index)
    shape, at = (extent[::-1], index[::-1]) if io.transposed else (extent, index)
    if values.shape != shape:
        raise ValueError(f"chunk {at} of {io.url!r}: expected shape {shape}, got {values.shape}")
    return values.T if io.transposed else values


def read_points(chunks: ArrayNode, key: Sequence[object], cache: Cache | None = None) -> np.ndarray:
    """Return the elements at points: index arrays that are broadcast together, and slices.

    Parameters
    ----------
    chunks
        The chunks of an array, in C order.
    key
        An item for each axis: a slice, an int or an array of ints, at least one of them an array.

    Returns
    -------
    numpy.ndarray
        The axes of the index arrays first, then one for each slice, in order.

    Raises
    ------
    IndexError
        If the key does not fit the array.
    """
    shape = chunks.metadata.shape
    if len(key) != len(shape):
        raise IndexError(f"expected {len(shape)} indices, one for each axis, got {len(key)}")
    sliced = [axis for axis, item in enumerate(key) if isinstance(item, slice)]
    pointed = [axis for axis, item in enumerate(key) if not isinstance(item, slice)]
    around = normalize(
        tuple(item if isinstance(item, slice) else slice(0, 1) for item in key), shape
    )
    arrays = np.broadcast_arrays(*(_positions(key[axis], axis, shape[axis]) for axis in pointed))
    result = np.empty(
        (arrays[0].size, *(around.shape[axis] for axis in sliced)), chunks.metadata.dtype
    )
    points = np.stack([a.ravel() for a in arrays])
    wanted = list(_wanted(chunks, points, around, pointed, sliced))
    found = blocks(chunks, [index for index, _, _ in wanted], cache)
    for block, (_, target, inside) in zip(found, wanted, strict=True):
        result[target] = block.transpose(*pointed, *sliced)[inside]
    result = result[(slice(None), *(around.view[axis] for axis in sliced))]
    return result.reshape(arrays[0].shape + result.shape[1:])


def _positions(item: object, axis: int, size: int) -> np.ndarray:
    """Return the positions in an index array, counted from the start of the axis."""
    array = np.asarray(item)
    flat = normalize(array.reshape(-1) if array.ndim else array.reshape(1), (size,)).axes[0]
    if isinstance(flat, slice):
        raise IndexError(f"cannot index axis {axis} with {item!r}; use integers, slices or arrays")
    if array.dtype == bool:
        return flat
    return flat.reshape(array.shape)


def _wanted(
    chunks: ArrayNode,
    points: np.ndarray,
    around: Selection,
    pointed: Sequence[int],
    sliced: Sequence[int],
) -> Iterator[tuple[Index, tuple[Any, ...], tuple[Any, ...]]]:
    """Iterate over the chunks with points: the targets of their elements, and their positions.

    The positions assume that the axes of index arrays come first in the chunk.
    """
    if not points.size:
        return
    grid = chunks.metadata.grid
    sides = np.array([grid.chunks[axis] for axis in pointed])[:, None]
    homes, which = np.unique(points // sides, axis=1, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(which.reshape(-1)))[:-1])
    pieces = grid.project(around.axes)
    for home, rows in zip(homes.T, groups, strict=True):
        inside = tuple(points[:, rows] - home[:, None] * sides)
        for parts in product(*(pieces[axis] for axis in sliced)):
            numbers = dict(zip(pointed, map(int, home), strict=True))
            numbers |= {axis: part.chunk for axis, part in zip(sliced, parts, strict=True)}
            yield (
                tuple(numbers[axis] for axis in range(len(grid.shape))),
                (rows, *(part.target for part in parts)),
                (*inside, *(part.inside for part in parts)),
            )
