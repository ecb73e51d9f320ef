"""Tables of chunks: facts about each as variables on the chunk grid."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.indexes import PandasIndex

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from xarray_n5.arrays.array import Array

_FEW = 4096
"""The maximum number of indices in coordinates that are kept."""

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
    given = tuple(dims or (None,) * ndim)
    return distinct([name or f"dim_{axis}" for axis, name in enumerate(given)], ())


def distinct(dims: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Return names of dimensions made distinct from each other and from the variables' `names`."""
    found: list[str] = []
    for dim in dims:
        name = dim
        while name in names or name in found or (name != dim and name in dims):
            name += "_"
        found.append(name)
    return tuple(found)


def coordinates(box: Sequence[range], dims: Sequence[str]) -> xr.Coordinates:
    """Return the coordinates of a part of the chunk grid: the chunks' indices along each axis."""
    sides, names = tuple(box), tuple(dims)
    few = sum(map(len, sides)) <= _FEW
    return _shared(sides, names) if few else _new(sides, names)


def _new(box: tuple[range, ...], dims: tuple[str, ...]) -> xr.Coordinates:
    indexes: dict[Hashable, PandasIndex] = {}
    variables: dict[Hashable, xr.Variable] = {}
    for dim, side in zip(dims, box, strict=True):
        numbers = np.asarray(side)
        numbers.flags.writeable = False
        indexes[dim] = PandasIndex(numbers, dim)
        variables |= indexes[dim].create_variables(
            {dim: xr.Variable((dim,), numbers, {"long_name": "chunk"})}
        )
    return xr.Coordinates(variables, indexes)


_shared = functools.lru_cache(maxsize=64)(_new)
"""Coordinates that several Datasets share: their indexes take most of the time of a report."""


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
    shape = tuple(map(len, box))
    spots = tuple(indices[:, axis] - side.start for axis, side in enumerate(box))
    arrays = {}
    for name, column in columns.items():
        whole = np.full(shape, fill[name], column.dtype)
        if len(column):
            whole[spots] = column if spots else column[-1]
        arrays[name] = xr.Variable(dims, whole, (attributes or {}).get(name))
    return xr.Dataset(arrays, coordinates(box, dims))
