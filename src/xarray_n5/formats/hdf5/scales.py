"""Attributes that HDF5 and netCDF reserve: dimension scales and names of axes.

Source: the HDF5 dimension scale specification, and netCDF-4's file format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES, check_type
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_BYTES = 1 << 24
"""The maximum size of an attribute that is read."""

SCALE = frozenset({"CLASS", "NAME", "REFERENCE_LIST"})
"""Attributes of HDF5 itself on dimension scales, the coordinates of other datasets."""

LABELS = "DIMENSION_LABELS"
"""The attribute with the names of a dataset's axes."""

_SCALES = "DIMENSION_LIST"
"""The attribute with a dataset's dimension scales."""

_NO_COORDINATE = "This is a netCDF dimension but not a netCDF variable"

NETCDF = frozenset({"_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict"})
"""Attributes of netCDF itself."""


def value_of(node: Any, key: str) -> Any:
    """Return an attribute's value; raise if it is too large, as in a damaged file."""
    import h5py

    name = key.encode("utf-8", "surrogateescape")
    attribute = h5py.h5a.open(node.id, name)
    check_type(attribute.get_type())
    size = attribute.get_storage_size()
    if size > _MAX_BYTES:
        raise ValueError(f"{key!r} has {size} bytes")
    return node.attrs[key]


def _optional(node: Any, key: str) -> Any:
    """Return an attribute's value; None if it is missing or unreadable."""
    try:
        return value_of(node, key) if key in node.attrs else None
    except FAILURES:
        return None


def text_of(value: Any) -> str:
    """Return a string that may be bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def is_scale(node: Any) -> bool:
    """Return whether a node is a dimension scale."""
    kind = _optional(node, "CLASS") if hasattr(node, "shape") else None
    return isinstance(kind, str | bytes) and text_of(kind) == "DIMENSION_SCALE"


def is_empty_scale(dataset: Any) -> bool:
    """Return whether a dataset only represents a netCDF dimension without a coordinate."""
    name = _optional(dataset, "NAME") if is_scale(dataset) else None
    return isinstance(name, str | bytes) and text_of(name).startswith(_NO_COORDINATE)


def labels_of(dataset: Any) -> list[str]:
    """Return the names of a dataset's axes, from its labels or its dimension scales.

    HDF5's own functions read beyond lists that are too short, so they are not used.
    """
    shape = dataset.shape or ()
    if is_scale(dataset) and len(shape) == 1:
        return [dataset.name.rpartition("/")[2]]
    labels = [text_of(each) for each in _per_axis(dataset, LABELS) if isinstance(each, str | bytes)]
    scales = [_scale_name(dataset, each) for each in _per_axis(dataset, _SCALES)]
    blank = [""] * len(shape)
    labels = labels if len(labels) == len(shape) else blank
    names = [label or scale for label, scale in zip(labels, scales or blank, strict=True)]
    return names if any(names) else []


def _per_axis(dataset: Any, key: str) -> list[Any]:
    """Return the items of an attribute with one for each axis; nothing of other attributes."""
    found, shape = _optional(dataset, key), dataset.shape or ()
    return list(found) if isinstance(found, np.ndarray) and found.shape == (len(shape),) else []


def _scale_name(dataset: Any, references: Any) -> str:
    """Return the name of the first dataset that references point to; "" if there is none."""
    import h5py

    first = references[0] if isinstance(references, np.ndarray) and references.size else None
    if not isinstance(first, h5py.h5r.Reference):
        return ""
    try:
        name = h5py.h5r.get_name(first, dataset.file.id) or b""
    except FAILURES:
        return ""
    return text_of(name).rpartition("/")[2]


def check_reserved(attributes: Mapping[str, Any], where: str, ndim: int | None) -> None:
    """Raise if an attribute would make HDF5 or netCDF misread its node."""
    for key, value in attributes.items():
        expected = None
        if key in {_SCALES, "REFERENCE_LIST"} | NETCDF:
            expected = "nothing (HDF5 and netCDF write it)"
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
