"""Read points, each chunk once."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.transfer import blocks
from xarray_n5.model.indexing import Selection, normalize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.arrays.transfer import Cache
    from xarray_n5.model.grid import Index


def read_points(chunks: ChunkIO, key: Sequence[object], cache: Cache | None = None) -> np.ndarray:
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
    chunks: ChunkIO,
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
