"""Facts about chunks as xarray objects, with the chunk grid for their dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.errors import MetadataError
from xarray_n5.group import open_array

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.array import Array


MOST = 1 << 28
"""The most chunks of a map."""


def chunk_map(
    url: object, path: str = "", *, storage_options: Mapping[str, Any] | None = None
) -> xr.DataArray:
    """Return which chunks of an array are stored, by one listing.

    Parameters
    ----------
    url, path, storage_options
        As in :func:`open_array`.

    Returns
    -------
    xarray.DataArray
        Booleans on the chunk grid, whose dimensions are called like the array's and count chunks;
        with ``bytes`` (0 where there is none) and ``written`` (when; NaT where unknown) as
        coordinates.

    Raises
    ------
    NodeNotFoundError, MetadataError
        As in :func:`open_array`.
    """
    array = open_array(url, path, storage_options=storage_options)
    box = whole_grid(array)
    rows = []
    for found in array.container.survey(array.path):
        index = array.chunk_index(found.key)
        if index is not None and index in array.grid:
            rows.append((index, found.size, found.time))
    indices = np.array([row[0] for row in rows], np.int64).reshape(len(rows), array.ndim)
    times = [np.datetime64("NaT") if row[2] is None else _time(row[2]) for row in rows]
    columns = {
        "stored": np.ones(len(rows), bool),
        "bytes": np.array([row[1] for row in rows], np.int64),
        "written": np.array(times, "M8[ns]"),
    }
    fill = {"stored": False, "bytes": 0, "written": np.datetime64("NaT")}
    found_all = on_grid(indices, columns, box, dims_of_grid(array), fill)
    return found_all.set_coords(["bytes", "written"])["stored"]


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


def _time(seconds: float) -> np.datetime64:
    return np.datetime64(round(seconds * 1e9), "ns")


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
