"""The public :func:`chunk_map`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.access import io_of
from xarray_n5.arrays.open import open_array
from xarray_n5.model.keywords import suggest_keywords
from xarray_n5.writing.chunk_table import (
    dims_of_grid,
    on_grid,
    whole_grid,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr


@suggest_keywords
def chunk_map(
    url: object, path: str = "", *, storage_options: Mapping[str, Any] | None = None
) -> xr.DataArray:
    """Return which chunks of an array are stored, with one listing.

    Parameters
    ----------
    url, path, storage_options
        As in :func:`open_array`.

    Returns
    -------
    xarray.DataArray
        Booleans on the chunk grid, with the array's dimensions; the coordinates ``bytes`` (0 for
        missing chunks) and ``written`` (the time, NaT if unknown).

    Raises
    ------
    NodeNotFoundError, MetadataError
        As in :func:`open_array`.
    """
    array = open_array(url, path, storage_options=storage_options)
    box = whole_grid(array)
    rows = []
    io = io_of(array)
    for index, found in io.container.list_chunk_info(io.path, io.metadata):
        if index in array.grid:
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


def _time(seconds: float) -> np.datetime64:
    return np.datetime64(round(seconds * 1e9), "ns")
