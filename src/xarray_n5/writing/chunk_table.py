"""Facts about chunks as xarray variables on the chunk grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.arrays.array import Array

MOST = 1 << 28
"""The most chunks of a map."""


def whole_grid(array: Array) -> tuple[range, ...]:
    """Return the whole chunk grid, if it is one that memory holds."""
    counts = array.grid.counts
    if array.grid.size > MOST:
        raise MetadataError(
            f"{array.url} has {counts} chunks, too many for a map of all; "
            "open_array(...).stored_chunks() lists those that are stored"
        )
    return tuple(map(range, counts))


def dims_of_grid(array: Array) -> tuple[str, ...]:
    """Return what an array's chunk grid calls its axes."""
    names = [axis.name for axis in array.axes]
    return dims_or_numbers(names if len(set(names)) == len(names) else None, array.ndim)


def dims_or_numbers(dims: Sequence[str | None] | None, ndim: int) -> tuple[str, ...]:
    """Return names for dimensions, numbers standing for those that nobody named."""
    given = tuple(dims or (None,) * ndim)
    return apart([name or f"dim_{axis}" for axis, name in enumerate(given)], ())


def apart(dims: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Return names of dimensions, all different, and none of them a variable's."""
    found: list[str] = []
    for dim in dims:
        name = dim
        while name in names or name in found or (name != dim and name in dims):
            name += "_"
        found.append(name)
    return tuple(found)


def places(box: Sequence[range], dims: Sequence[str]) -> dict[str, xr.Variable]:
    """Return the coordinates of a part of the chunk grid: the chunks' own, along each axis."""
    told = {"long_name": "chunk"}
    return {
        dim: xr.Variable((dim,), np.asarray(side), told)
        for dim, side in zip(dims, box, strict=True)
    }


def on_grid(
    indices: np.ndarray,
    columns: Mapping[str, np.ndarray],
    box: Sequence[range],
    dims: Sequence[str],
    fill: Mapping[str, Any],
) -> xr.Dataset:
    """Return rows, of which each is about one chunk, as arrays over a part of the grid.

    Parameters
    ----------
    indices
        The chunks' coordinates, a row each.
    columns
        What is known of them, by name.
    box
        The part of the grid.
    dims
        The names of its axes.
    fill
        What stands for chunks of which nothing is known.
    """
    dims = apart(dims, columns)
    shape = tuple(map(len, box))
    spots = tuple(indices[:, axis] - side.start for axis, side in enumerate(box))
    arrays = {}
    for name, column in columns.items():
        whole = np.full(shape, fill[name], column.dtype)
        if len(column):
            whole[spots] = column if spots else column[-1]
        arrays[name] = (tuple(dims), whole)
    return xr.Dataset(arrays, places(box, dims))
