"""Attributes of HDF5 objects as JSON, and back, as n5-hdf5 keeps them.

Numbers, texts, and lists of one or two axes of them are attributes of HDF5's own; all else is in
one text, ``N5_JSON_ROOT``. A text that is a JSON object or list is read as that.
Source: n5-hdf5 2.2.1; 1.4.2 keeps objects as texts of their own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import MetadataError
from xarray_n5.formats.hdf5.scales import (
    LABELS,
    NETCDF,
    SCALE,
    check_reserved,
    is_scale,
    labels_of,
    text_of,
    value_of,
)
from xarray_n5.model.json import MOST_NESTED, is_deep, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = "N5_JSON_ROOT"
"""The attribute that holds what HDF5 has no type for."""

VERSION = "n5"
"""The attribute of a file that n5-hdf5 wrote, on its root."""

LEVEL = "downsamplingFactors"
"""What BigDataViewer's factors are called as an attribute; in HDF5 they are a dataset."""

_LARGEST = 64_000
"""How many bytes fit into an attribute."""


def read_attributes(node: Any) -> dict[str, Any]:
    """Return an object's attributes as JSON values; those that are none are left out."""
    found: dict[str, Any] = {}
    inner: Any = {}
    hidden = set(NETCDF) | ({VERSION} if node.name == "/" else set())
    hidden |= SCALE if is_scale(node) else set()
    for key in node.attrs:
        if key in hidden or not isinstance(key, str):
            continue  # names that are not UTF-8 are bytes
        try:
            value = _as_json(value_of(node, key))
        except FAILURES:
            continue  # references, structures, types that numpy does not have, damaged ones
        if key == ROOT and isinstance(value, dict):
            inner = value
        else:
            found[key] = value
    if hasattr(node, "shape") and (labels := labels_of(node)):
        found[LABELS] = labels
    return {**inner, **found}


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _parsed(value)
    array = np.asarray(value)
    if array.dtype.kind == "O" or array.dtype.kind in "SU":
        if not all(isinstance(item, str | bytes) for item in array.flat):
            raise TypeError("not texts")
        texts = np.array([text_of(item) for item in array.flat], object)
        return texts.reshape(array.shape).tolist()
    if array.dtype.kind not in "biuf" or type(value).__name__ == "Empty":
        raise TypeError(f"{array.dtype} is no JSON")
    return array.tolist()


def _parsed(text: str) -> Any:
    if text[:1] in {"{", "["}:
        try:
            return parse_json(text, "")
        except MetadataError:
            return text
    return text


def write_attributes(node: Any, wanted: Mapping[str, Any]) -> None:
    """Make an object's attributes those that are `wanted`.

    What stays the same is left as it is, to the letter, and so is what is no JSON.

    Raises
    ------
    MetadataError
        If there is more than HDF5 has room for.
    """
    before, names = read_attributes(node), set(node.attrs)
    names -= {VERSION} if node.name == "/" else set()
    changed = {k: v for k, v in wanted.items() if k not in before or not _same(before[k], v)}
    ndim = len(node.shape or ()) if hasattr(node, "shape") else None
    native, rest = split_attributes(changed, str(node.name), ndim)
    if node.name == "/" and VERSION in native:
        rest[VERSION] = changed[VERSION]  # n5-hdf5 takes that on the root for its own
        del native[VERSION]
    inner = {key: value for key, value in before.items() if key not in names}
    inner.pop(LABELS, None)  # those of datasets along the axes
    rest |= {key: value for key, value in inner.items() if key in wanted and key not in changed}
    _check_room(rest, str(node.name))
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
    """Return which attributes HDF5 has types for, as such, and the others.

    Parameters
    ----------
    attributes
        JSON values.
    where
        The node, for errors.
    ndim
        The number of axes; None of a group.

    Raises
    ------
    MetadataError
        If there is more than HDF5 has room for, or if HDF5 or netCDF reserve a name.
    """
    check_reserved(attributes, where, ndim)
    native: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in attributes.items():
        found = _native(value)
        if found is None or not key or not _is_plain(key) or key == ROOT or _size(found) > _LARGEST:
            rest[key] = value
        else:
            native[key] = found
    _check_room(rest, where)
    return native, rest


def _check_room(rest: Mapping[str, Any], where: str) -> None:
    if len(text := json.dumps(rest)) > _LARGEST:
        raise MetadataError(
            f"{where}: the attributes {sorted(rest)} take {len(text)} bytes as JSON, and HDF5 has "
            f"room for {_LARGEST}; keep them elsewhere"
        )
    if is_deep(rest):
        raise MetadataError(
            f"{where}: the attributes {sorted(rest)} are nested more than {MOST_NESTED} deep; "
            "write them less deep"
        )


def _size(value: Any) -> int:
    """Return how many bytes a value has in the file, or at most."""
    if isinstance(value, str):
        return len(value.encode())
    array = np.asarray(value)
    return sum(map(_size, array.flat)) if array.dtype.kind == "O" else int(array.nbytes)


def _native(value: Any) -> Any:
    """Return what HDF5 stores and gives back as the very same, or None."""
    match value:
        case str():
            return value if _is_plain(value) and _parsed(value) is value else None
        case bool() | float():
            return np.asarray(value)[()]
        case int():
            return _integers(value)
        case [_, *_]:
            return _native_list(value)
    return None


def _native_list(value: list[Any]) -> Any:
    rows = value if all(isinstance(row, list) for row in value) else [value]
    items = [item for row in rows for item in row]
    if not items or len({len(row) for row in rows}) != 1:
        return None
    kinds = {type(item) for item in items}
    if kinds == {int}:
        return _integers(value)
    if kinds == {float}:
        return np.array(value, np.float64)
    if kinds == {str} and rows == [value] and all(map(_is_plain, items)):
        return np.array(value, object)
    return None


def _is_plain(text: str) -> bool:
    """Return whether HDF5 can hold a text: NUL ends it there, and it must be UTF-8."""
    try:
        return "\0" not in text and bool(text.encode() or not text)
    except UnicodeEncodeError:
        return False


def _integers(value: Any) -> Any:
    """Return whole numbers as int64 or uint64, or None where they are too large."""
    try:
        found = np.array(value, np.int64)
    except OverflowError:
        try:
            found = np.array(value, np.uint64)
        except OverflowError:
            return None
    return found[()] if found.ndim == 0 else found
