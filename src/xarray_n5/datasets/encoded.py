"""Variables and attributes as they are stored, and back.

Variables have the form of stored arrays, as xarray's CF conventions encode them. Attributes become
JSON; a note restores what JSON, or a dialect, would change. The note may come from anybody, so its
types and sizes are checked when it is decoded.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.xarray_internals import decode_cf_variables
from xarray_n5.dialects import DIALECTS
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.roundtrip_attrs import NOTES, invalid_notes, is_text, note_of
from xarray_n5.model.times import check_time_units

if TYPE_CHECKING:
    from collections.abc import Container

    import xarray as xr

    from xarray_n5.arrays.array import Array

NAMELESS = "__values__"
"""The name of the array for a variable whose name is None, as in xarray's netCDF."""

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


@dataclass(frozen=True, slots=True)
class EncodedVariable:
    """A variable in the form of a stored array."""

    data: Any
    """A NumPy or Dask array, with at least one axis if the format requires it."""
    dims: tuple[str, ...]
    """The variable's dimensions; empty for a scalar."""
    attributes: dict[str, Any]
    """The attributes to be stored, without ``_ARRAY_DIMENSIONS``."""
    encoding: dict[str, Any] = field(default_factory=dict)
    """The storage that the user chose: chunks, compression, layout."""
    fill_value: Any = None
    """The fill value for formats that store one themselves, if it masks values."""

    @property
    def is_string(self) -> bool:
        """Whether the numbers are characters along the last axis."""
        return is_text(self.attributes)

    @property
    def cf_attributes(self) -> dict[str, Any]:
        """The attributes, with the fill value as ``_FillValue``."""
        return self.attributes | (
            {} if self.fill_value is None else {"_FillValue": self.fill_value}
        )


def cf_attributes(array: Array, attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an array's attributes, with a masking fill value as ``_FillValue``."""
    found = dict(array.attrs) if attributes is None else dict(attributes)
    if is_native(array, found) and array.node.metadata.masks:
        mask = getattr(array.node.metadata.layout, "mask", array.fill_value)
        found.setdefault("_FillValue", mask)
    return found


def is_native(array: Array, attributes: Mapping[str, Any]) -> bool:
    """Return whether xarray reads an array as a variable without this package."""
    return array.node.format.native_to_xarray and "_ARRAY_DIMENSIONS" in attributes


def decode(
    variables: Mapping[str, xr.Variable],
    attributes: dict[str, Any],
    decoders: Mapping[str, bool | None],
    *,
    encoded: Container[str],
) -> tuple[dict[str, xr.Variable], Mapping[str, Any], set[Any]]:
    """Decode variables; return them, the remaining attributes and the names of coordinates.

    By default, only variables that xarray wrote (`encoded`) are decoded: in others, ``_FillValue``
    and ``scale_factor`` may have other meanings. Variables that cannot be decoded are returned as
    stored, with a warning, unless a decoder was requested.
    """
    decoded, coordinates = dict(variables), set[Any]()
    kept: Any = attributes
    usual = ("concat_characters", "mask_and_scale", "decode_times", "decode_coords")
    for written in (True, False):
        chosen: dict[str, Any] = {
            **dict.fromkeys(usual, written),
            "use_cftime": None,
            "decode_timedelta": None if written else False,
            **{key: value for key, value in decoders.items() if value is not None},
        }
        part = {key: value for key, value in variables.items() if (key in encoded) is written}
        if any(chosen.values()) and part:
            part = _decodable(part, chosen, requested=any(decoders.values()))
            found, kept, named = decode_cf_variables(part, kept, **chosen)
            decoded |= found
            coordinates |= named
    return decoded, kept, coordinates


def _decodable(
    variables: Mapping[str, xr.Variable], chosen: dict[str, Any], *, requested: bool
) -> dict[str, xr.Variable]:
    """Return the variables that can be decoded; warn of others, or raise if it was requested."""
    decodable = dict(variables)
    for name, variable in variables.items():
        try:
            _check(variable.attrs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about references to other variables
                decode_cf_variables({name: variable.copy(deep=False)}, {}, **chosen)
        except ODD as error:
            if requested:
                raise
            del decodable[name]
            warn(
                f"{name!r} is not decoded: its attributes {list(variable.attrs)} are invalid "
                f"({error})"
            )
    return decodable


def _check(attributes: Mapping[str, Any]) -> None:
    """Raise for attributes that xarray would pass on to NumPy, then or when values are read."""
    dtype = attributes.get("dtype")
    if isinstance(dtype, str) and dtype.startswith("timedelta64"):
        check_time_units(dtype)
    for key in ("scale_factor", "add_offset"):
        if np.asarray(attributes.get(key, 1)).dtype.kind not in "biuf":
            raise ValueError(f"{key!r} is {attributes[key]!r:.100}; expected a number")


def dialect_keys() -> set[str]:
    """Return the names of attributes that a dialect would interpret."""
    return {key for dialect in DIALECTS.values() for key in dialect.keys} | _GROUP_KEYS


def encode_attributes(
    attributes: Mapping[Any, Any], where: str, note: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return attributes as JSON, and the note next to them.

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
    invalid = {key: f"{value!r:.80}" for key, value in invalid_notes(attributes).items()}
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
