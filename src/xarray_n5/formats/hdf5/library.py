"""h5py, which only those need who have HDF5 files, with the filters of hdf5plugin."""

from __future__ import annotations

import functools
from typing import Any

from xarray_n5.errors import MissingPackageError

FAILURES = (OSError, RuntimeError, ValueError, TypeError, LookupError, OverflowError, MemoryError)
"""What h5py raises of damaged files, and of types that numpy does not have."""


def hdf5(what: str, *, filters: bool = False) -> Any:
    """Return h5py.

    Parameters
    ----------
    what
        What needs it, for the error.
    filters
        Whether hdf5plugin is needed, too; else it is used where it is installed.

    Raises
    ------
    MissingPackageError
        If something is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingPackageError(what, "hdf5", error) from error
    try:
        import hdf5plugin
    except ImportError as error:
        if filters:
            raise MissingPackageError(what, "hdf5", error) from error
    else:
        _register(hdf5plugin)
    return h5py


@functools.cache
def _register(hdf5plugin: Any) -> None:
    """Register hdf5plugin's filters in place of others.

    netCDF4 says on import where its own are, which are made for its own HDF5 and fail in h5py's.
    hdf5plugin leaves such ones alone, unless it is told otherwise.
    """
    found = hdf5plugin.get_config().registered_filters
    if strange := tuple(name for name, path in found.items() if path == "unknown"):
        hdf5plugin.register(strange, force=True)
