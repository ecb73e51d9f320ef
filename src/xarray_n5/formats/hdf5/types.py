"""Check HDF5's types before h5py passes the names in them to NumPy."""

from __future__ import annotations

from typing import Any

from xarray_n5.model.times import check_time_units

_NUMPY = b"NUMPY:"
"""The start of an opaque type's tag that names a type of NumPy, as h5py writes times."""


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
