"""Variables and attributes as they are stored, and back.

Variables have the form of stored arrays, as xarray's CF conventions encode them. Attributes become
JSON; a note restores what JSON, or a dialect, would change. The note may come from anybody, so it
is checked when it is decoded.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from itertools import islice
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.xarray_internals import decode_cf_variables
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.json import as_json, parse_json
from xarray_n5.model.roundtrip_attrs import NOTES, invalid_notes, is_text, note_of
from xarray_n5.model.times import check_time_units

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array

NAMELESS = "__values__"
"""The name of the array for a variable whose name is None, as in xarray's netCDF."""

_TYPED = frozenset({"_FillValue", "missing_value", "scale_factor", "add_offset"})
"""Attributes whose own type determines that of the decoded values."""

_SHOWN = 3
"""The maximum number of invalid attributes that a warning names."""


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


def encode_attributes(
    attributes: Mapping[Any, Any], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return attributes as JSON, and the members of the note that restore the rest.

    NumPy's scalars and arrays become numbers and lists, as in xarray's Zarr. The note has values
    that are not finite, as text, and the types of numbers that determine those of decoded values.

    Raises
    ------
    MetadataError
        If JSON cannot represent a value.
    """
    plain: dict[str, Any] = {}
    text: dict[str, str] = {}
    dtypes: dict[str, str] = {}
    raw: dict[str, str] = {}
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise TypeError(f"{where}: names of attributes must be strings, got {key!r}")
        if key in _TYPED and isinstance(value, bytes):  # the fill value of strings
            raw[key] = value.decode("latin-1")
            continue
        try:
            plain |= as_json({key: value}, where)
        except MetadataError as error:
            if not isinstance(error.__cause__, ValueError):
                raise
            text[key] = _with_nan(value, error)
        dtype = getattr(value, "dtype", None)
        if key in _TYPED and isinstance(dtype, np.dtype) and dtype.kind in "iuf":
            dtypes[key] = dtype.str
    members = {"text": text, "dtypes": dtypes, "bytes": raw}
    return plain, {name: member for name, member in members.items() if member}


def _with_nan(value: Any, error: MetadataError) -> str:
    """Return JSON with numbers that are not finite, as Python reads it; raise if it is invalid."""
    try:
        return json.dumps(value, default=methodcaller("tolist"))
    except (TypeError, ValueError, AttributeError):
        raise error from error.__cause__


def hide(
    plain: dict[str, Any], note: Mapping[str, Any], hidden: Container[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return attributes, and their note with those that other readers would misinterpret."""
    aside = {key: value for key, value in plain.items() if key in hidden}
    rest = {key: value for key, value in plain.items() if key not in aside}
    return rest, {**note, **({"attributes": aside} if aside else {})}


def decode_attributes(attributes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return attributes as they were before :func:`encode_attributes`.

    Values in the note that cannot be decoded are ignored with a warning.
    """
    note = note_of(attributes)
    plain = {key: value for key, value in attributes.items() if key not in NOTES}
    plain |= note.get("attributes", {})
    invalid = {key: f"{value!r:.80}" for key, value in invalid_notes(attributes).items()}
    for key, text in note.get("text", {}).items():
        try:
            plain[key] = parse_json(text, where)
        except MetadataError as error:
            invalid[key] = str(error)
    for key, text in note.get("bytes", {}).items():
        try:
            plain[key] = text.encode("latin-1")
        except ODD as error:
            invalid[key] = f"{type(error).__name__}: {error}"
    for key, dtype in note.get("dtypes", {}).items():
        try:
            plain[key] = np.array(plain[key], dtype)[()]
        except ODD as error:
            invalid[key] = f"{type(error).__name__}: {error}"
    if invalid:
        shown = ", ".join(f"{key!r} ({why})" for key, why in islice(invalid.items(), _SHOWN))
        warn(f"{where}: {len(invalid)} invalid values in the attributes' note are ignored: {shown}")
    return plain
