"""Attributes of HDF5 objects as JSON values, and back, in the encoding of n5-hdf5.

Numbers, strings, and lists of one or two axes of these are native attributes; all others are in one
string, ``N5_JSON_ROOT``. A string with a JSON object or list is parsed.
Source: n5-hdf5 2.2.1; 1.4.2 stores each object as a string of its own. HDF5 and netCDF reserve some
attributes, for dimension scales and names of axes. Source: the HDF5 dimension scale specification,
and netCDF-4's file format.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES, check_type
from xarray_n5.errors import MetadataError
from xarray_n5.model.json import MOST_NESTED, is_deep, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = "N5_JSON_ROOT"
"""The attribute for values without an HDF5 type."""

VERSION = "n5"
"""The attribute with n5-hdf5's version, on the root of its files."""

_MAX_AXES = 2
"""The maximum number of axes of a list that n5-hdf5 reads."""

_MAX_BYTES = 64_000
"""The maximum size of an attribute."""


_MAX_READ = 1 << 24
"""The maximum size of an attribute that is read."""

SCALE = frozenset({"CLASS", "NAME", "REFERENCE_LIST"})
"""Attributes of HDF5 itself on dimension scales, the coordinates of other datasets."""

LABELS = "DIMENSION_LABELS"
"""The attribute with the names of a dataset's axes."""

_SCALES = "DIMENSION_LIST"
"""The attribute with a dataset's dimension scales."""

_NO_COORDINATE = "This is a netCDF dimension but not a netCDF variable"

_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""xarray's attribute with the names of a variable's dimensions."""

_PROPERTIES = "_NCProperties"
"""The attribute of the root of files that netCDF has written."""

NETCDF = frozenset({_PROPERTIES, "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict"})
"""Attributes of netCDF itself."""


def read_attributes(node: Any) -> dict[str, Any]:
    """Return a node's attributes as JSON values, without those that cannot be.

    Those of netCDF are as xarray's engines show them, with xarray's names of dimensions.
    """
    outer: dict[str, Any] = {}
    inner: Any = {}
    hidden = set(NETCDF) | ({VERSION} if node.name == "/" else set())
    hidden |= SCALE if is_scale(node) else set()
    is_netcdf = _optional(node.file, _PROPERTIES) is not None
    for key in node.attrs:
        if key in hidden or not isinstance(key, str):
            continue  # names that are not UTF-8 are bytes
        try:
            given = value_of(node, key)
            # netCDF stores each number as a list.
            alone = is_netcdf and np.shape(given) == (1,) and key not in {_DIMENSIONS, LABELS}
            value = _as_json(given[0] if alone else given)
        except FAILURES:
            continue  # references, structures, types without a NumPy equivalent, damaged ones
        if key == ROOT and isinstance(value, dict):
            inner = value
        else:
            outer[key] = value
    if hasattr(node, "shape") and (labels := labels_of(node)):
        outer[_DIMENSIONS if is_netcdf else LABELS] = labels
    return {**inner, **outer}


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _parsed(value)
    array = np.asarray(value)
    if array.dtype == "S1" and array.ndim == 1 and not array.tobytes().isascii():
        return [*array.tobytes().decode("utf-8", "replace")]  # a text as single bytes
    if array.dtype.kind in "OSU":
        if not all(isinstance(item, str | bytes) for item in array.flat):
            raise TypeError("not strings")
        strings = np.array([text_of(item) for item in array.flat], object)
        return strings.reshape(array.shape).tolist()
    if array.dtype.kind not in "biuf" or type(value).__name__ == "Empty":
        raise TypeError(f"{array.dtype} has no JSON value")
    return array.tolist()


def _parsed(string: str) -> Any:
    """Parse a string that holds a JSON object or list; return others unchanged."""
    if string[:1] in {"{", "["}:
        try:
            return parse_json(string, "")
        except MetadataError:
            return string
    return string


def write_attributes(node: Any, wanted: Mapping[str, Any], where: str) -> None:
    """Replace a node's attributes; unchanged ones, and those without a JSON value, are kept.

    Raises
    ------
    MetadataError
        If HDF5 cannot store an attribute, or reserves its name; `where` names the node.
    """
    before, names = read_attributes(node), set(node.attrs)
    names -= {VERSION} if node.name == "/" else set()
    changed = {k: v for k, v in wanted.items() if k not in before or not _same(before[k], v)}
    ndim = len(node.shape or ()) if hasattr(node, "shape") else None
    native, rest = split_attributes(changed, where, ndim)
    if node.name == "/" and VERSION in native:
        rest[VERSION] = changed[VERSION]  # on the root, that name is n5-hdf5's
        del native[VERSION]
    inner = {key: value for key, value in before.items() if key not in names}
    if LABELS not in names:  # the names of dimension scales
        inner.pop(_DIMENSIONS if _PROPERTIES in node.file.attrs else LABELS, None)
    rest |= {key: value for key, value in inner.items() if key in wanted and key not in changed}
    _check_size(rest, where)
    for key in names & before.keys():
        if key not in wanted or key in rest:
            del node.attrs[key]
    for key, value in native.items():
        node.attrs[key] = value
    if rest and (rest != inner or ROOT not in names):
        node.attrs[ROOT] = json.dumps(rest)
    elif not rest and ROOT in names:
        del node.attrs[ROOT]


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)


def split_attributes(
    attributes: Mapping[str, Any], where: str, ndim: int | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes with native HDF5 types, and the others.

    Parameters
    ----------
    attributes
        JSON values.
    where
        The node, for errors.
    ndim
        The number of axes; None for a group.

    Raises
    ------
    MetadataError
        If they are too large, or a name is reserved by HDF5 or netCDF.
    """
    check_reserved(attributes, where, ndim)
    native: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in attributes.items():
        stored = _native(value)
        named = key and _is_plain(key) and key != ROOT
        if stored is None or not named or _size(stored) > _MAX_BYTES:
            rest[key] = value
        else:
            native[key] = stored
    _check_size(rest, where)
    return native, rest


def _check_size(rest: Mapping[str, Any], where: str) -> None:
    if len(text := json.dumps(rest)) > _MAX_BYTES:
        raise MetadataError(
            f"{where}: the attributes {sorted(rest)} are {len(text)} bytes of JSON, but HDF5 "
            f"stores at most {_MAX_BYTES}; store large attributes as arrays"
        )
    if is_deep(rest):
        raise MetadataError(
            f"{where}: the attributes {sorted(rest)} are nested more than {MOST_NESTED} levels "
            "deep; flatten them"
        )


def _size(value: Any) -> int:
    """Return the number of bytes of a value in the file."""
    if isinstance(value, str):
        return len(value.encode())
    array = np.asarray(value)
    return sum(map(_size, array.flat)) if array.dtype.kind == "O" else int(array.nbytes)


def _native(value: Any) -> Any:
    """Return a value that HDF5 stores and reads back equal; None if there is no such type."""
    if isinstance(value, str):
        return value if _is_plain(value) and _parsed(value) is value else None
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        return None  # lists of different lengths
    if array.dtype.kind == "U" and array.ndim == 1:
        return array.astype(object) if all(map(_is_plain, value)) else None
    suits = array.dtype.kind in "iuf" and array.size and array.ndim <= _MAX_AXES
    suits = suits or isinstance(value, bool)
    return array[()] if suits and _same(array.tolist(), value) else None


def _is_plain(value: Any) -> bool:
    """Return whether HDF5 can store a string: UTF-8 without NUL, which would end it."""
    try:
        return isinstance(value, str) and "\0" not in value and value.encode() is not None
    except UnicodeEncodeError:
        return False


def value_of(node: Any, key: str) -> Any:
    """Return an attribute's value; raise if it is too large, as in a damaged file."""
    import h5py

    name = key.encode("utf-8", "surrogateescape")
    attribute = h5py.h5a.open(node.id, name)
    check_type(attribute.get_type())
    size = attribute.get_storage_size()
    if size > _MAX_READ:
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
    labels = [text_of(item) for item in _per_axis(dataset, LABELS) if isinstance(item, str | bytes)]
    scales = [_scale_name(dataset, item) for item in _per_axis(dataset, _SCALES)]
    blank = [""] * len(shape)
    labels = labels if len(labels) == len(shape) else blank
    names = [label or scale for label, scale in zip(labels, scales or blank, strict=True)]
    return names if any(names) else []


def _per_axis(dataset: Any, key: str) -> list[Any]:
    """Return the items of an attribute with one for each axis; nothing of other attributes."""
    items, shape = _optional(dataset, key), dataset.shape or ()
    return list(items) if isinstance(items, np.ndarray) and items.shape == (len(shape),) else []


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
        and all(isinstance(label, str) and "\0" not in label for label in value)
    )
