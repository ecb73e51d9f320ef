"""Change the shape of a stored array, chunks included."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import ArrayMetadata


def check_shape(shape: Sequence[int] | int, ndim: int, url: str) -> tuple[int, ...]:
    """Return the new shape of an array with `ndim` axes.

    Raises
    ------
    ValueError
        If `shape` has another number of axes or a negative size.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    new = tuple(map(operator.index, sizes))
    if len(new) != ndim or any(size < 0 for size in new):
        raise ValueError(
            f"{url!r} has {ndim} axes: expected as many sizes of at least 0, got {sizes}"
        )
    return new


def resize(io: ArrayNode, shape: tuple[int, ...]) -> ArrayNode:
    """Change the shape of an array, in the stored order of axes; return the resized array.

    The shape is changed between two steps, so that readers never see wrong elements.
    """
    before = io.metadata
    if not before.content.is_writable:
        raise ValueError(f"{io.url!r} has {before.content.value}, which cannot be written")
    stored = list(io.stored_indices())
    _fill_up(io, shape, stored)
    io.container.resize(io.path, shape)
    after = io.with_shape(shape)
    _trim(after, before, stored)
    return after


def _fill_up(io: ArrayNode, shape: tuple[int, ...], stored: Sequence[Index]) -> None:
    """Prepare the `stored` chunks for the new `shape`.

    Readers see no change yet. Chunks beyond the array's present ends are removed: an interrupted
    resize, or another program, may have left them, and a larger array would show them. Chunks that
    will cover more of the array are filled up with the fill value.
    """
    grid, after = io.metadata.grid, replace(io.metadata, shape=shape).grid
    if stale := [index for index in stored if index not in grid]:
        io.delete(stale)
    growing = [axis for axis, size in enumerate(shape) if size > grid.shape[axis]]
    for index in stored:
        if index not in grid:
            continue
        extent = grid.extent(index)
        if not any(extent[axis] < grid.chunks[axis] for axis in growing):
            continue
        reach = tuple(map(max, extent, after.extent(index) if index in after else extent))
        block = io.decoded(index, io.get(index))
        if block is not None and _is_unfit(io, block, extent, reach):
            full = np.full(reach, io.metadata.fill_value, io.metadata.dtype)
            overlap = tuple(map(slice, map(min, block.shape, extent)))
            full[overlap] = block[overlap]
            io.save(index, full)


def _is_unfit(
    io: ArrayNode, block: np.ndarray, extent: tuple[int, ...], reach: tuple[int, ...]
) -> bool:
    """Return whether a stored block ends before `reach`, or has elements beyond `extent`."""
    if any(map(operator.lt, block.shape, reach)):
        return True
    beyond = block.astype(io.metadata.dtype)
    beyond[tuple(map(slice, extent))] = io.metadata.fill_value
    return not io.is_empty(beyond)


def _trim(io: ArrayNode, before: ArrayMetadata, stored: Sequence[Index]) -> None:
    """Remove elements beyond the array's ends from the `stored` chunks."""
    grid = io.metadata.grid
    io.delete(index for index in stored if index not in grid)
    for index in stored:
        if index not in grid or index not in before.grid:
            continue
        if any(map(operator.lt, grid.extent(index), before.grid.extent(index))):
            io.save(index, io.filled().block(index))
