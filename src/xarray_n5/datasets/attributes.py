"""Convert attributes to JSON and back; a note restores what JSON, or a dialect, would change.

The note may come from anybody, so its types and sizes are checked when it is decoded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from xarray_n5.dialects import DIALECTS
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.roundtrip_attrs import NOTES, note_of, odd_members

_MARK = "$"
"""The member of a JSON object with the type of its value."""

_WIDEST = 8
"""The number of bytes of the widest number in JSON."""

_MOST_BYTES = 1 << 26
"""The maximum size of a node's decoded note, in bytes."""

_TYPE = re.compile(r"[<>|=]?([biufSU])(\d{1,9})", re.ASCII)
"""The types of encoded attributes, with the length of strings."""

_SHOWN = 3
"""The maximum number of invalid attributes that a warning names."""

_GROUP_KEYS = frozenset(
    {"multiscales", "scales", "downsamplingFactors", "ome", "omero", "multiScale", "multichannel"}
)
"""Attributes of groups that describe axes, in addition to those of arrays."""

_N5_KEYS = frozenset({"n5", "dimensions", "blockSize", "dataType", "compression"})


def dialect_keys() -> set[str]:
    """Return the names of attributes that a dialect would interpret."""
    return {key for dialect in DIALECTS.values() for key in dialect.keys} | _GROUP_KEYS


def encode_attributes(
    attributes: Mapping[Any, Any], where: str, note: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return attributes as JSON, and the note beside them.

    Values that other readers would misinterpret, or JSON cannot represent exactly, are in the note.

    Raises
    ------
    MetadataError
        If a value cannot be encoded.
    """
    reserved = dialect_keys() | NOTES | _N5_KEYS
    plain: dict[str, Any] = {}
    hidden: dict[str, Any] = {}
    for key, exact in exact_attributes(attributes, where).items():
        if key not in reserved or (key == "units" and isinstance(exact, str)):
            simple = _plain(exact)
            if simple is not None or exact is None:
                plain[key] = simple
            if simple == exact:
                continue
        hidden[key] = exact
    return plain, {**(note or {}), **({"attributes": hidden} if hidden else {})}


def exact_attributes(attributes: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Return attributes as JSON that records types which JSON lacks; see :func:`to_json`.

    Raises
    ------
    MetadataError
        If a value cannot be encoded.
    """
    exact = {}
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise TypeError(f"{where}: names of attributes must be strings, got {key!r}")
        try:
            exact[key] = to_json(value)
        except TypeError as error:
            raise MetadataError(f"{where}: the attribute {key!r} is {value!r}: {error}") from error
    return exact


def decode_attributes(attributes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return attributes as they were before :func:`encode_attributes`.

    Values in the note that cannot be decoded, or are too large, are ignored with a warning.
    """
    plain = {key: value for key, value in attributes.items() if key not in NOTES}
    invalid = {key: f"{value!r:.80}" for key, value in odd_members(attributes).items()}
    left = _MOST_BYTES
    for key, value in note_of(attributes).get("attributes", {}).items():
        try:
            left -= _size(value)
            if left < 0:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
            plain[key] = _from_json(value)
        except ODD as error:
            invalid[key] = f"{type(error).__name__}: {error}"
    if invalid:
        shown = ", ".join(f"{key!r} ({why})" for key, why in islice(invalid.items(), _SHOWN))
        warn(f"{where}: {len(invalid)} invalid values in the attributes' note are ignored: {shown}")
    return plain


def to_json(value: Any) -> Any:
    """Return a value as JSON; types that JSON lacks become objects that name them.

    Raises
    ------
    TypeError
        If the value cannot be encoded.
    """
    if isinstance(value, np.str_ | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray | np.generic):
        return _array_to_json(value)
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return {_MARK: "bytes" if isinstance(value, bytes) else "float", "value": _strings(value)}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the keys of mappings must be strings")
        inner = {key: to_json(item) for key, item in value.items()}
        return {_MARK: "mapping", "value": list(inner.items())} if _MARK in inner else inner
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"attributes cannot be {type(value).__name__}")


def _array_to_json(value: np.ndarray | np.generic) -> Any:
    too_wide = value.dtype.kind == "f" and value.dtype.itemsize > _WIDEST
    if value.dtype.kind not in "biufSU" or too_wide:
        raise TypeError(f"attributes cannot be {value.dtype}")
    inner = _strings(value.tolist())
    natural = value.dtype.name in {"int64", "float64", "bool"} or value.dtype.kind == "U"
    simple = natural and inner == value.tolist()
    shape = {"shape": value.shape} if value.ndim > 1 and not value.size else {}
    return inner if simple and not shape else {_MARK: value.dtype.str, "value": inner, **shape}


def _strings(value: Any) -> Any:
    """Replace bytes and non-finite numbers in nested lists by strings."""
    if isinstance(value, list):
        return [_strings(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _plain(value: Any) -> Any:
    """Return the part of an encoded value that is plain JSON, or None."""
    if isinstance(value, dict) and _MARK in value:
        if value[_MARK] == "mapping":
            return None
        value = value["value"]
        scalar = value
        while isinstance(scalar, list) and scalar:
            scalar = scalar[0]
        return None if isinstance(scalar, str) else value
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        complete = all(a is not None or b is None for a, b in zip(items, value, strict=True))
        return items if complete else None
    if isinstance(value, dict):
        found = {key: _plain(item) for key, item in value.items()}
        return found if all(found[key] is not None or value[key] is None for key in value) else None
    return value


def _size(value: Any) -> int:
    """Return the maximum size of a decoded value, in bytes."""
    if isinstance(value, list):
        return sum(map(_size, value), _WIDEST)
    if not isinstance(value, dict):
        return len(value) if isinstance(value, str) else _WIDEST
    kind = value.get(_MARK)
    wide = _TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if wide is None:
        return sum(map(_size, value.values()), _WIDEST)
    return _count(value.get("value")) * int(wide[2]) * (4 if wide[1] == "U" else 1)


def _count(value: Any) -> int:
    return sum(map(_count, value)) if isinstance(value, list) else 1


def _from_json(value: Any) -> Any:  # noqa: PLR0911 - a line for each kind
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_MARK)
    if kind is None:
        return {key: _from_json(item) for key, item in value.items()}
    if kind == "mapping":
        return {key: _from_json(item) for key, item in value["value"]}
    if kind == "float":
        return float(value["value"])
    if kind == "bytes":
        return str(value["value"]).encode("latin-1")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise ValueError(f"unknown type of attribute {kind!r:.40}")
    dtype = np.dtype(kind)
    items = value["value"]
    if dtype.kind == "S":
        items = _bytes(items)
    return np.array(items, dtype=dtype).reshape(value.get("shape", np.shape(items)))[()]


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes(item) for item in value]
    return str(value).encode("latin-1")
