"""Import h5py with the HDF5 filters of hdf5plugin, when they are needed."""

from __future__ import annotations

import functools
from typing import Any

from xarray_n5.errors import MissingPackageError

FAILURES = (OSError, RuntimeError, ValueError, TypeError, LookupError, OverflowError, MemoryError)
"""Errors of h5py for damaged files and unsupported types."""


def import_h5py(purpose: str = "HDF5 files", *, filters: bool = False) -> Any:
    """Return h5py.

    Parameters
    ----------
    purpose
        The name of what needs it, for the error.
    filters
        Whether hdf5plugin is required; otherwise it is used if it is installed.

    Raises
    ------
    MissingPackageError
        If a package is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingPackageError(purpose, "hdf5", error) from error
    try:
        import hdf5plugin
    except ImportError as error:
        if filters:
            raise MissingPackageError(purpose, "hdf5", error) from error
    else:
        _register(hdf5plugin)
    return h5py


@functools.cache
def _register(hdf5plugin: Any) -> None:
    """Replace filters of others by those of hdf5plugin.

    netCDF4 sets the plugin path to filters of its own HDF5, which fail in h5py's. hdf5plugin keeps
    such filters unless it is forced to replace them.
    """
    found = hdf5plugin.get_config().registered_filters
    if strange := tuple(name for name, path in found.items() if path == "unknown"):
        hdf5plugin.register(strange, force=True)
