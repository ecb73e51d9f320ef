"""Variables as N5 can hold them, and back: ten numeric types, at least one axis, JSON.

xarray's own coders turn times, masks, scales, booleans and texts into numbers and bytes; what is
left over is noted in one attribute of ours, beside those that everybody reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.unpacking import MARK
from xarray_n5.datasets.xarray_internals import CharacterArrayCoder, EncodedStringCoder
from xarray_n5.dialects import DIALECTS
from xarray_n5.errors import MetadataError
from xarray_n5.model.roundtrip_attrs import NOTE, NOTES, is_text

if TYPE_CHECKING:
    from collections.abc import Collection

    import xarray as xr

    from xarray_n5.arrays.array import Array

NAMELESS = "__values__"
"""The array of a variable whose name is None; xarray's netCDF has the same."""

_WIDEST = 8
"""How many bytes a number of JSON holds."""

_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
_TYPES |= {"float32", "float64"}

_CODERS: tuple[Any, ...] = (
    EncodedStringCoder(allows_unicode=False),  # type: ignore[no-untyped-call]
    CharacterArrayCoder(),
)

_GROUPS = frozenset(
    {"multiscales", "scales", "downsamplingFactors", "ome", "omero", "multiScale", "multichannel"}
)
"""What groups say of axes, besides what arrays say of them."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A variable as it is stored."""

    data: Any
    """Numbers with at least one axis: a numpy or a Dask array."""
    dims: tuple[str, ...]
    """The variable's dimensions: none where it is one number."""
    attributes: dict[str, Any]
    """What stands in the document; without ``_ARRAY_DIMENSIONS``."""
    encoding: dict[str, Any] = field(default_factory=dict)
    """What is asked for of the way it is stored."""
    fill: Any = None
    """The fill value that the format itself names, which is that of a mask; None for none."""

    @property
    def is_text(self) -> bool:
        """Whether the numbers are characters, and the last axis theirs."""
        return is_text(self.attributes)

    @property
    def told(self) -> dict[str, Any]:
        """The attributes, and the fill value among them."""
        return {**self.attributes, **({} if self.fill is None else {"_FillValue": self.fill})}


def pack(name: str, variable: xr.Variable) -> Packed:
    """Return a variable, encoded by xarray's CF coders already, as it is stored.

    Raises
    ------
    MetadataError
        If N5 has no type for it, or JSON none for an attribute.
    """
    try:
        for coder in _CODERS:
            variable = coder.encode(variable, name=name)
    except TypeError as error:
        raise MetadataError(_advice(name, variable.dtype)) from error
    data, note = variable.data, {}
    if data.dtype == np.dtype("S1"):
        data, note = data.view("u1"), {"dtype": "S1"}
    if data.dtype.newbyteorder("=").name not in _TYPES:
        raise MetadataError(_advice(name, data.dtype))
    if not variable.dims:
        data = data.reshape((1,))
    attributes = pack_attributes(variable.attrs, f"variable {name!r}", note)
    return Packed(data, tuple(map(str, variable.dims)), attributes, dict(variable.encoding))


def pack_attributes(
    attributes: Mapping[Any, Any], where: str, note: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return attributes as JSON: those that others would misread, or JSON cannot hold, in a note.

    Raises
    ------
    MetadataError
        If there is no way to hold one.
    """
    taken = owned()
    plain: dict[str, Any] = {}
    noted: dict[str, Any] = {}
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise TypeError(f"{where}: the attribute {key!r} has a name that is no text")
        text = key == "units" and isinstance(value, str)
        try:
            exact = to_json(value)
        except TypeError as error:
            raise MetadataError(f"{where}: the attribute {key!r} is {value!r}: {error}") from error
        if key not in taken or text:
            simple = _plain(exact)
            if simple is not None or exact is None:
                plain[key] = simple
            if simple == exact:
                continue
        noted[key] = exact
    whole = {**(note or {}), **({"attributes": noted} if noted else {})}
    return plain | ({NOTE: whole} if whole else {})


def told_of(array: Array) -> dict[str, Any]:
    """Return an array's attributes; as xarray's own Zarr keeps it, the fill value among them."""
    told = dict(array.attrs)
    if is_native(array) and array.metadata.layout.filled:
        told.setdefault("_FillValue", array.metadata.fill_value)
    return told


def is_native(array: Array) -> bool:
    """Return whether an array is a variable as xarray's own Zarr keeps it."""
    return "_ARRAY_DIMENSIONS" in array.attrs and hasattr(array.metadata.layout, "filled")


def heard() -> set[str]:
    """Return the attributes that mean something to a dialect."""
    return {key for dialect in DIALECTS.values() for key in dialect.keys} | _GROUPS


def owned() -> Collection[str]:
    """Return the attributes that mean something else to a dialect or to N5."""
    return heard() | NOTES | {"n5", "dimensions", "blockSize", "dataType", "compression"}


def to_json(value: Any) -> Any:
    """Return a value as JSON, with its type where JSON has none of it."""
    if isinstance(value, np.str_ | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray | np.generic):
        return _numbers(value)
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return {MARK: "bytes" if isinstance(value, bytes) else "float", "value": _texts(value)}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the keys of its mappings must be texts")
        inner = {key: to_json(item) for key, item in value.items()}
        return {MARK: "mapping", "value": list(inner.items())} if MARK in inner else inner
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"attributes cannot be {type(value).__name__}")


def _numbers(value: np.ndarray | np.generic) -> Any:
    wide = value.dtype.kind == "f" and value.dtype.itemsize > _WIDEST
    if value.dtype.kind not in "biufSU" or wide:
        raise TypeError(f"attributes cannot be {value.dtype}")
    inner = _texts(value.tolist())
    natural = value.dtype.name in {"int64", "float64", "bool"} or value.dtype.kind == "U"
    simple = natural and inner == value.tolist()
    shape = {"shape": value.shape} if value.ndim > 1 and not value.size else {}
    return inner if simple and not shape else {MARK: value.dtype.str, "value": inner, **shape}


def _texts(value: Any) -> Any:
    """Return nested lists with texts for what JSON has no numbers for, and for bytes."""
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _plain(value: Any) -> Any:
    """Return what of a value JSON holds without notes, or None."""
    if isinstance(value, dict) and MARK in value:
        if value[MARK] == "mapping":
            return None
        value = value["value"]
        bare = value
        while isinstance(bare, list) and bare:
            bare = bare[0]
        return None if isinstance(bare, str) else value
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return (
            items
            if all(a is not None or b is None for a, b in zip(items, value, strict=True))
            else None
        )
    if isinstance(value, dict):
        found = {key: _plain(item) for key, item in value.items()}
        return found if all(found[key] is not None or value[key] is None for key in value) else None
    return value


def _advice(name: str, dtype: np.dtype[Any]) -> str:
    hints = {
        "c": "store its real and imaginary parts as two variables",
        "f": "convert it with astype('float32') or astype('float64')",
        "O": "convert it to numbers, or to texts with astype(str)",
        "M": "xarray's coders should have made numbers of it; give a unit in its encoding",
    }
    return (
        f"N5 cannot hold variable {name!r} of type {dtype}: "
        f"{hints.get(dtype.kind, 'convert it to one of ' + ', '.join(sorted(_TYPES)))}"
    )
