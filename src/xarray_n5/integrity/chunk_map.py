"""The public :func:`chunk_map`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.open import open_array
from xarray_n5.writing.report import dims_of_grid, on_grid, whole_grid

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr


def chunk_map(
    url: object, path: str = "", *, storage_options: Mapping[str, Any] | None = None
) -> xr.DataArray:
    """Find which chunks of an array are stored, with one listing.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of the array in the container; by default the container itself.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.

    Returns
    -------
    xarray.DataArray
        Booleans on the chunk grid, with the dimensions of the array; the coordinates ``bytes``
        (int64, 0 for missing chunks) and ``written`` (the time, datetime64, NaT if unknown).

    Raises
    ------
    NodeNotFoundError
        If no array exists at `path`.
    MetadataError
        If its metadata are invalid.

    Examples
    --------
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=2)
    >>> array[0] = 7
    >>> stored = xarray_n5.chunk_map("cells.n5", "raw")
    >>> stored.values
    array([[ True,  True,  True],
           [False, False, False]])
    >>> int(stored.bytes.sum())
    117
    """
    array = open_array(url, path, storage_options=storage_options)
    box, io = whole_grid(array), array.node
    listing = io.container.list_chunk_info(io.path, io.metadata)
    stored = {index: info for index, info in listing if index in array.grid}
    times = [None if info.time is None else round(info.time * 1e9) for info in stored.values()]
    columns = {
        "stored": np.ones(len(stored), bool),
        "bytes": np.array([info.size for info in stored.values()], np.int64),
        "written": np.array(times, "M8[ns]"),
    }
    fill = {"stored": False, "bytes": 0, "written": np.datetime64("NaT", "ns")}
    indices = np.array([*stored], np.int64).reshape(len(stored), array.ndim)
    table = on_grid(indices, columns, box, dims_of_grid(array), fill)
    return table.set_coords(["bytes", "written"])["stored"]
