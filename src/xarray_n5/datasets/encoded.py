"""Variables and attributes as they are stored, by the conventions of xarray's Zarr and of N5.

Variables have the form of stored arrays, as xarray's CF conventions encode them. Attributes become
JSON; a note restores what JSON, or a dialect, would change. The note may come from anybody, so it
is checked when it is decoded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import dask.array as da
import numpy as np

from xarray_n5.datasets.xarray_internals import (
    CharacterArrayCoder,
    EncodedStringCoder,
    cf_encoder,
    encode_zarr_variable,
    ensure_dtype_not_object,
)
from xarray_n5.dialects import all_keys
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.json import as_json, parse_json
from xarray_n5.model.metadata import (
    HIDDEN,
    NOTE,
    NOTES,
    invalid_notes,
    is_text,
    note_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.formats.protocol import Format

NAMELESS = "__values__"
"""The name of the array for a variable whose name is None, as in xarray's netCDF."""

_TYPED = frozenset({"_FillValue", "missing_value", "scale_factor", "add_offset"})
"""Attributes whose own type determines that of the decoded values."""

_SHOWN = 3
"""The maximum number of invalid attributes that a warning names."""

_ZARR_KINDS = "biufcSUO"
"""The kinds of types that Zarr v2 supports; objects are strings of any length."""

_TOO_WIDE = frozenset({"float128", "complex256"})

_N5_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {
    "float32",
    "float64",
}

_CODERS: tuple[Any, ...] = (
    EncodedStringCoder(allows_unicode=False),  # type: ignore[no-untyped-call]
    CharacterArrayCoder(),
)


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
    def names(self) -> tuple[str, ...]:
        """The names of all axes; none if one has only characters, or the sample of a scalar."""
        return self.dims if len(self.dims) == self.data.ndim else ()

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
    kept = dict(array.attrs) if attributes is None else dict(attributes)
    if is_native(array, kept) and array.node.metadata.masks:
        mask = getattr(array.node.metadata.layout, "mask", array.fill_value)
        kept.setdefault("_FillValue", mask)
    return kept


def is_native(array: Array, attributes: Mapping[str, Any]) -> bool:
    """Return whether xarray reads an array as a variable without this package."""
    return array.node.format.native_to_xarray and "_ARRAY_DIMENSIONS" in attributes


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


def stored_attributes(
    convention: Convention,
    attributes: Mapping[Any, Any],
    where: str,
    note: Mapping[str, Any],
    *,
    of_group: bool = False,
) -> dict[str, Any]:
    """Return attributes as JSON, with a note of what JSON, or a dialect, would change.

    Those that a dialect would interpret as metadata of axes are moved to the note, or listed in it,
    as the convention says. An array's `units` are known to be those of its values; in Zarr, those
    of a group are not.
    """
    plain, restored = encode_attributes(attributes, where)
    of_values = isinstance(plain.get("units"), str) and not (of_group and convention.lists_own)
    ambiguous = plain.keys() & all_keys() - ({"units"} if of_values else set())
    hidden, note = plain.keys() & convention.reserved, {**note, **restored}
    if not convention.lists_own:
        hidden |= ambiguous
    elif ambiguous - hidden:
        note["own"] = sorted(ambiguous - hidden)
    if hidden:
        note["attributes"] = {name: value for name, value in plain.items() if name in hidden}
    rest = {name: value for name, value in plain.items() if name not in hidden}
    return rest | ({convention.roundtrip_key: note} if note else {})


def decode_attributes(attributes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return attributes as they were before :func:`encode_attributes`.

    Values in the note that cannot be decoded are ignored with a warning.
    """
    note = note_of(attributes)
    plain = {key: value for key, value in attributes.items() if key not in NOTES}
    plain |= note.get("attributes", {})
    invalid = {key: f"{value!r:.80}" for key, value in invalid_notes(attributes).items()}
    for member in ("text", "bytes", "dtypes"):
        for key, stored in note.get(member, {}).items():
            try:
                plain[key] = _restored(member, stored, plain, key)
            except ODD as error:
                invalid[key] = f"{type(error).__name__}: {error}"
    if invalid:
        shown = ", ".join(f"{key!r} ({why})" for key, why in islice(invalid.items(), _SHOWN))
        warn(f"{where}: {len(invalid)} invalid values in the attributes' note are ignored: {shown}")
    return plain


def _restored(member: str, stored: str, plain: Mapping[str, Any], key: str) -> Any:
    """Return the value of an attribute by a member of the note."""
    if member == "text":
        return parse_json(stored, key)
    if member == "bytes":
        return stored.encode("latin-1")
    return np.array(plain[key], stored)[()]


@dataclass(frozen=True, slots=True)
class ZarrConvention:
    """Types, axes and fill values are Zarr's own; names of dimensions make arrays a Dataset."""

    roundtrip_key: ClassVar[str] = HIDDEN
    """The attribute that only this package needs to restore a Dataset."""
    coordinates_in_axes: ClassVar[bool] = False
    """Whether regular coordinates are stored in the axes of arrays, rather than as arrays."""
    null_padded: ClassVar[tuple[type[str | bytes], ...]] = (bytes,)
    """The types of strings that lose trailing NULs."""
    reserved: ClassVar[frozenset[str]] = NOTES | {"_ARRAY_DIMENSIONS"}
    """The names of attributes that are the format's own."""
    lists_own: ClassVar[bool] = True
    """Whether attributes that dialects would interpret are listed in the note, or moved to it."""

    def encode_together(
        self, variables: Mapping[Hashable, xr.Variable]
    ) -> dict[Hashable, xr.Variable]:
        """Return variables unchanged: for Zarr, xarray encodes them one by one."""
        return dict(variables)

    def encode(self, name: str, variable: xr.Variable) -> EncodedVariable:
        """Encode a variable as xarray's Zarr writer does."""
        encoded: Any = encode_zarr_variable(variable, name=name)
        data, attributes = encoded.data, dict(encoded.attrs)
        if data.dtype.kind in "SU" and data.dtype.itemsize <= 1:
            # Zarr has no strings of length 0, and xarray joins those of one byte into one string.
            data = data.astype("S2" if data.dtype.kind == "S" else "U1")
        if data.dtype.kind not in _ZARR_KINDS or data.dtype.name in _TOO_WIDE:
            raise MetadataError(
                f"Zarr cannot store variable {name!r} of type {data.dtype}; convert it with "
                "astype()"
            )
        fill = attributes.pop("_FillValue", None)
        if fill is not None and data.dtype.kind != "O":
            fill = np.array(fill, data.dtype)[()]
        return EncodedVariable(
            data,
            tuple(map(str, encoded.dims)),
            stored_attributes(self, attributes, f"variable {name!r}", {}),
            dict(encoded.encoding),
            fill,
        )

    def array_attributes(
        self,
        encoded: EncodedVariable,
        axis_coords: Collection[str],  # noqa: ARG002
        *,
        placed: bool,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return an array's attributes, with the names of its dimensions."""
        return {**encoded.attributes, "_ARRAY_DIMENSIONS": list(encoded.dims)}


@dataclass(frozen=True, slots=True)
class N5Convention:
    """xarray's coders convert everything to numbers and bytes; a note has the original types."""

    roundtrip_key: ClassVar[str] = NOTE
    coordinates_in_axes: ClassVar[bool] = True
    null_padded: ClassVar[tuple[type[str | bytes], ...]] = (str, bytes)
    reserved: ClassVar[frozenset[str]] = NOTES | {
        *("n5", "dimensions", "blockSize", "dataType", "compression"),
    }
    lists_own: ClassVar[bool] = False

    def encode_together(
        self, variables: Mapping[Hashable, xr.Variable]
    ) -> dict[Hashable, xr.Variable]:
        """Encode variables as xarray does for netCDF."""
        encoded, _ = cf_encoder(dict(variables), {})
        return dict(encoded)

    def encode(self, name: str, variable: xr.Variable) -> EncodedVariable:
        """Encode a variable as one of N5's ten types, with at least one axis.

        Raises
        ------
        MetadataError
            If N5 has no type for it, or JSON none for an attribute.
        """
        variable = ensure_dtype_not_object(variable, name=name)
        try:
            for coder in _CODERS:
                variable = coder.encode(variable, name=name)
        except TypeError as error:
            raise MetadataError(_advice(name, variable.dtype)) from error
        data, note = variable.data, {}
        if data.dtype == np.dtype("S1"):
            data, note = data.view("u1"), {"dtype": "S1"}
        if data.dtype.newbyteorder("=").name not in _N5_TYPES:
            raise MetadataError(_advice(name, data.dtype))
        if not variable.dims:
            data = data.reshape((1,))
        attributes = stored_attributes(self, variable.attrs, f"variable {name!r}", note)
        dims = tuple(map(str, variable.dims))
        return EncodedVariable(data, dims, attributes, dict(variable.encoding))

    def array_attributes(
        self, encoded: EncodedVariable, axis_coords: Collection[str], *, placed: bool
    ) -> dict[str, Any]:
        """Return an array's attributes, with the note of the coordinates in its axes."""
        attributes, note = dict(encoded.attributes), dict(note_of(encoded.attributes))
        if placed and "units" in attributes:
            # In N5, `units` are those of the axes.
            note["attributes"] = {**note.get("attributes", {}), "units": attributes.pop("units")}
        note["axes"] = list(axis_coords)
        return {**attributes, NOTE: note, "_ARRAY_DIMENSIONS": list(encoded.dims)}


def fit(encoded: EncodedVariable, array: Array) -> EncodedVariable:
    """Pad strings of N5 to the length of the stored ones, their characters in one block."""
    if not encoded.is_string:
        return encoded
    data = encoded.data
    short = array.shape[-1] - data.shape[-1]
    if short > 0:
        pad: Any = da.pad if isinstance(data, da.Array) else np.pad
        data = pad(data, [(0, 0)] * (data.ndim - 1) + [(0, short)], mode="constant")
    return replace(encoded, data=data.rechunk({-1: -1}) if isinstance(data, da.Array) else data)


def _advice(name: str, dtype: np.dtype[Any]) -> str:
    hints = {
        "c": "store its real and imaginary parts as two variables",
        "f": "convert it with astype('float32') or astype('float64')",
        "O": "convert it to numbers, or to strings with astype(str)",
        "M": "xarray did not encode it as numbers; set 'units' in its encoding",
    }
    return (
        f"N5 cannot store variable {name!r} of type {dtype}: "
        f"{hints.get(dtype.kind, 'convert it to one of ' + ', '.join(sorted(_N5_TYPES)))}"
    )


Convention: TypeAlias = N5Convention | ZarrConvention
"""The storage of xarray's types, coordinates and attributes in a format that may lack them."""

_N5, _ZARR = N5Convention(), ZarrConvention()


def convention_of(form: Format) -> Convention:
    """Return the convention for a format."""
    return _ZARR if form.native_to_xarray else _N5
