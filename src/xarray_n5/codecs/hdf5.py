"""Import h5py with the HDF5 filters of hdf5plugin; check datasets before h5py reads them."""

from __future__ import annotations

import functools
from typing import Any

from xarray_n5.errors import MissingPackageError
from xarray_n5.model.units import check_time_units

FAILURES = (OSError, RuntimeError, ValueError, TypeError, LookupError, OverflowError, MemoryError)
"""Errors of h5py for damaged files and unsupported types."""

BLOSC = 32001
"""HDF5's number of Blosc, a plugin."""

_OF_LIBRARY = frozenset({*range(1, 7), 32000})
"""The filters that are parts of HDF5 and h5py."""

_NUMPY = b"NUMPY:"
"""The start of an opaque type's tag that names a type of NumPy, as h5py writes times."""


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
    filters = hdf5plugin.get_config().registered_filters
    if strange := tuple(name for name, path in filters.items() if path == "unknown"):
        hdf5plugin.register(strange, force=True)


def plugins_of(dataset: Any) -> frozenset[int]:
    """Return the filters of an h5py dataset that are not a part of HDF5 or h5py."""
    properties = dataset.id.get_create_plist()
    filters = (properties.get_filter(position) for position in range(properties.get_nfilters()))
    return frozenset(number for number, *_ in filters) - _OF_LIBRARY


def check_type(kind: Any) -> None:
    """Raise if a type, or a part of one, is a time with an invalid unit.

    Raises
    ------
    ValueError
        If it is.
    """
    import h5py

    if isinstance(kind, h5py.h5t.TypeOpaqueID):
        tag = kind.get_tag()
        if tag.startswith(_NUMPY):
            check_time_units(tag.removeprefix(_NUMPY).decode("latin-1"))
    elif isinstance(kind, h5py.h5t.TypeCompoundID):
        for number in range(kind.get_nmembers()):
            check_type(kind.get_member_type(number))
    elif isinstance(kind, h5py.h5t.TypeArrayID | h5py.h5t.TypeVlenID):
        check_type(kind.get_super())
