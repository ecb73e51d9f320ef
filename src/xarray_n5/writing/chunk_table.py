"""Tables of chunks: facts about each as variables on the chunk grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.arrays.array import Array

MOST = 1 << 28
"""The maximum number of chunks in a table."""


def whole_grid(array: Array) -> tuple[range, ...]:
    """Return the ranges of the whole chunk grid; raise if it is too large for a table."""
    counts = array.grid.counts
    if array.grid.size > MOST:
        raise MetadataError(
            f"{array.url} has {counts} chunks, too many for a table; check single chunks with "
            "open_array(...).chunk_exists(index)"
        )
    return tuple(map(range, counts))


def dims_of_grid(array: Array) -> tuple[str, ...]:
    """Return the dimension names of an array's chunk grid."""
    names = [axis.name for axis in array.axes]
    return dims_or_numbers(names if len(set(names)) == len(names) else None, array.ndim)


def dims_or_numbers(dims: Sequence[str | None] | None, ndim: int) -> tuple[str, ...]:
    """Return names of dimensions, with numbers for unnamed ones."""
    names = tuple(dims or (None,) * ndim)
    return distinct([name or f"dim_{axis}" for axis, name in enumerate(names)], ())


def distinct(dims: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Return names of dimensions made distinct from each other and from the variables' `names`.

    >>> distinct(["bytes", "x", "x"], ["bytes"])
    ('bytes_', 'x', 'x_')
    """
    taken = [*names]
    for dim in dims:
        name = dim
        while name in taken or (name != dim and name in dims):
            name += "_"
        taken.append(name)
    return tuple(taken[len(names) :])


def coordinates(box: Sequence[range], dims: Sequence[str]) -> dict[str, xr.Variable]:
    """Return the coordinates of a part of the chunk grid: the chunks' indices along each axis."""
    return {
        dim: xr.Variable(dim, np.arange(side.start, side.stop), {"long_name": "chunk"})
        for dim, side in zip(dims, box, strict=True)
    }


def on_grid(
    indices: np.ndarray,
    columns: Mapping[str, np.ndarray],
    box: Sequence[range],
    dims: Sequence[str],
    fill: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> xr.Dataset:
    """Convert a table with a row for each chunk to arrays on a part of the grid.

    Parameters
    ----------
    indices
        The chunks' coordinates, a row each.
    columns
        The columns of the table by name.
    box
        The part of the grid.
    dims
        The names of its axes.
    fill
        The value of each column for the other chunks.
    attributes
        The attributes of variables.
    """
    dims = distinct(dims, columns)
    spots = tuple(indices[:, axis] - side.start for axis, side in enumerate(box))
    variables = {}
    for name, column in columns.items():
        whole = np.full(tuple(map(len, box)), fill[name], column.dtype)
        if len(column):
            whole[spots] = column if spots else column[-1]
        variables[name] = xr.Variable(dims, whole, (attributes or {}).get(name))
    return xr.Dataset(variables, coordinates(box, dims))
