"""Attributes that HDF5 and netCDF keep for themselves: dimension scales, and names of axes.

Source: the HDF5 dimension scale specification, and netCDF-4's file format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST_READ = 1 << 24
"""How many bytes an attribute may take to be read."""

SCALE = frozenset({"CLASS", "NAME", "REFERENCE_LIST"})
"""What HDF5 itself keeps on the coordinates of other datasets."""

LABELS = "DIMENSION_LABELS"
"""The attribute with the names of a dataset's axes."""

_ALONG = "DIMENSION_LIST"
"""The attribute with the datasets that are a dataset's coordinates."""

_EMPTY_SCALE = b"This is a netCDF dimension but not a netCDF variable"

NETCDF = frozenset({"_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict"})
"""What netCDF keeps for itself."""


def value_of(node: Any, key: str) -> Any:
    """Return an attribute's value, unless a damaged file claims more than there can be."""
    import h5py

    name = key.encode("utf-8", "surrogateescape")
    size = h5py.h5a.open(node.id, name).get_storage_size()
    if size > _LARGEST_READ:
        raise ValueError(f"{key!r} has {size} bytes")
    return node.attrs[key]


def _plain(node: Any, name: str) -> bytes:
    """Return a string attribute's bytes; none if it is missing or of another type."""
    try:
        found = value_of(node, name) if name in node.attrs else b""
    except FAILURES:
        return b""
    if isinstance(found, str):
        return found.encode("utf-8", "replace")
    return bytes(found) if isinstance(found, bytes) else b""


def is_scale(node: Any) -> bool:
    """Return whether a dataset is the coordinate of others."""
    return hasattr(node, "shape") and _plain(node, "CLASS") == b"DIMENSION_SCALE"


def is_empty_scale(dataset: Any) -> bool:
    """Return whether a dataset only represents a netCDF dimension that has no coordinate."""
    return is_scale(dataset) and _plain(dataset, "NAME").startswith(_EMPTY_SCALE)


def labels_of(dataset: Any) -> list[str]:
    """Return what a dataset's axes are called: by labels, or by the datasets along them.

    HDF5's own functions for that are not called: they read beyond lists that are too short.
    """
    shape = dataset.shape or ()
    if is_scale(dataset) and len(shape) == 1:
        return [dataset.name.rpartition("/")[2]]
    labels, along = _each(dataset, LABELS, len(shape)), _each(dataset, _ALONG, len(shape))
    names = [text_of(label) for label in labels if isinstance(label, str | bytes)]
    if len(names) != len(shape):
        names = [""] * len(shape)
    behind = [_name_of(dataset, refs) for refs in along] or names
    names = [name or other for name, other in zip(names, behind, strict=True)]
    return names if any(names) else []


def _each(dataset: Any, key: str, count: int) -> list[Any]:
    """Return the items of an attribute that has one for each axis; none of another one."""
    if key not in dataset.attrs:
        return []
    try:
        found = value_of(dataset, key)
    except FAILURES:
        return []
    return list(found) if isinstance(found, np.ndarray) and found.shape == (count,) else []


def _name_of(dataset: Any, references: Any) -> str:
    """Return the name of the first dataset that references point to, or nothing."""
    import h5py

    first = references[0] if isinstance(references, np.ndarray) and references.size else None
    if not isinstance(first, h5py.h5r.Reference):
        return ""
    try:
        name = h5py.h5r.get_name(first, dataset.file.id) or b""
    except FAILURES:
        return ""
    return str(text_of(name)).rpartition("/")[2]


def text_of(value: Any) -> str:
    """Return a string that may be bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def check_reserved(attributes: Mapping[str, Any], where: str, ndim: int | None) -> None:
    """Raise where an attribute would make HDF5, or netCDF, misread its node."""
    for key, value in attributes.items():
        expected = None
        if key in {_ALONG, "REFERENCE_LIST"} | NETCDF:
            expected = "nothing: HDF5 and netCDF write it themselves"
        elif key == "CLASS" and (not isinstance(value, str) or value == "DIMENSION_SCALE"):
            expected = "a string other than 'DIMENSION_SCALE'"
        elif key == "NAME" and not isinstance(value, str):
            expected = "a string"
        elif key == LABELS and ndim is not None and not _are_labels(value, ndim):
            expected = f"a list of {ndim} strings, one for each axis"
        if expected is not None:
            raise MetadataError(
                f"{where}: HDF5 reserves the attribute {key!r} for {expected}; got {value!r}. "
                "Choose another name"
            )


def _are_labels(value: object, ndim: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == ndim
        and all(isinstance(each, str) and "\0" not in each for each in value)
    )
