"""Data types and fill values, as in a ``zarr.json``.

Sources: the Zarr v3 specification, "Data types" and "Fill value list", and the extension types of
zarr-extensions that zarr-python 3 writes.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.formats.values import LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = frozenset(
    {"bool", "float16", "float32", "float64", "complex64", "complex128"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)

STRINGS, BYTES = "string", "variable_length_bytes"
"""The types of variable length: strings, and byte strings, which can only be read."""

_TIMES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}

_LENGTHS = {
    "fixed_length_utf32": ("U", 4),
    "null_terminated_bytes": ("S", 1),
    "raw_bytes": ("V", 1),
}
"""Types with a length in bytes: NumPy's kind, and the bytes of a character."""

_UNITS = frozenset({"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as"})


def parse_type(value: object, where: str) -> np.dtype[Any]:
    """Return the type of an element in memory; objects for types of variable length.

    Raises
    ------
    MetadataError
        If the type is unknown.

    Examples
    --------
    >>> parse_type("uint16", "here"), parse_type("r24", "here")
    (dtype('uint16'), dtype('V3'))
    """
    try:
        name, members = named(value)
        dtype = _dtype(name, members, where)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise MetadataError(f"{where}: 'data_type' is {_shown(value)}: {error}") from error
    if dtype is None:
        raise MetadataError(
            f"{where}: 'data_type' is {_shown(value)}, which is not supported; read the array "
            "with the program that wrote it"
        )
    if not 0 < dtype.itemsize <= LARGEST:
        raise MetadataError(f"{where}: 'data_type' has elements of {dtype.itemsize} bytes")
    return dtype


def named(value: object, *, strict: bool = True) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the configuration of an extension; a string is a name alone.

    Raises
    ------
    ValueError
        If it is neither a string nor an object with a name, unless `strict` is false.
    """
    match value:
        case str():
            return value, {}
        case {"name": str(name), **others}:
            members = others.get("configuration")
            if members is None or isinstance(members, dict):
                return name, members or {}
    if not strict:
        return str(value)[:200], {}
    raise ValueError("expected a name, or an object with a 'name' and a 'configuration'")


def _dtype(name: str, members: Mapping[str, Any], where: str) -> np.dtype[Any] | None:
    if name in _PLAIN:
        return np.dtype(name)
    if raw := re.fullmatch(r"r(\d{1,8})", name):
        bits = int(raw[1])
        if bits % 8:
            raise ValueError("expected a multiple of 8 bits for a raw type")
        return np.dtype(f"V{bits // 8}")
    if name in _TIMES:
        return _time(_TIMES[name], members)
    if name in _LENGTHS:
        kind, width = _LENGTHS[name]
        length = members["length_bytes"]
        if type(length) is not int or not 0 < length <= LARGEST or length % width:
            raise ValueError(f"'length_bytes' is {length!r}")
        return np.dtype(f"{kind}{length // width}")
    if name in {STRINGS, BYTES, "bytes"}:
        return np.dtype(object)
    return _structure(members["fields"], where) if name in {"structured", "struct"} else None


def _time(kind: str, members: Mapping[str, Any]) -> np.dtype[Any]:
    unit, scale = members["unit"], members.get("scale_factor", 1)
    if unit == "generic":
        return np.dtype(kind)
    if unit not in _UNITS or type(scale) is not int or not 0 < scale < 1 << 31:
        raise ValueError(f"NumPy does not support the unit {unit!r} and scale factor {scale!r}")
    return np.dtype(f"{kind}[{scale}{'us' if unit == 'μs' else unit}]")


def _structure(fields: Any, where: str) -> np.dtype[Any]:
    pairs = [(f["name"], f["data_type"]) if isinstance(f, dict) else tuple(f) for f in fields]
    made = np.dtype([(str(name), parse_type(kind, where)) for name, kind in pairs])
    if made.hasobject:
        raise ValueError("fields of variable length are not supported")
    return made


def type_to_json(dtype: np.dtype[Any], where: str) -> Any:
    """Return the ``data_type`` of a new array.

    >>> type_to_json(np.dtype("m8[10s]"), "here")["configuration"]
    {'unit': 's', 'scale_factor': 10}
    """
    if dtype.name in _PLAIN:
        return dtype.name
    if dtype.kind == "O":
        return STRINGS
    if dtype.kind in "mM":
        unit, scale = np.datetime_data(dtype)
        return extension(f"numpy.{dtype.type.__name__}", unit=unit, scale_factor=scale)
    if dtype.names is not None:
        fields = [[n, type_to_json(dtype[n].newbyteorder("="), where)] for n in dtype.names]
        if all(dtype[name].subdtype is None for name in dtype.names):
            return extension("structured", fields=fields)
    for name, (kind, _) in _LENGTHS.items():
        if dtype.kind == kind and dtype.subdtype is None and dtype.names is None:
            return extension(name, length_bytes=dtype.itemsize)
    raise MetadataError(f"{where}: Zarr v3 cannot store elements of {dtype}; convert with astype()")


def extension(name: str, **configuration: Any) -> dict[str, Any]:
    """Return the name and the configuration of a type or a codec, as in JSON."""
    return {"name": name, "configuration": configuration}


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:200]
