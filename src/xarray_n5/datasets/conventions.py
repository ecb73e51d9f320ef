"""Conventions that convert variables of a Dataset to arrays of a format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import dask.array as da
import numpy as np

from xarray_n5.datasets.encoded import (
    EncodedVariable,
    encode_attributes,
    hide,
)
from xarray_n5.datasets.xarray_internals import (
    CharacterArrayCoder,
    EncodedStringCoder,
    cf_encoder,
    encode_zarr_variable,
    ensure_dtype_not_object,
)
from xarray_n5.dialects import all_keys
from xarray_n5.errors import MetadataError
from xarray_n5.model.roundtrip_attrs import HIDDEN, NOTE, NOTES, note_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.formats.protocol import Format

_KINDS = "biufcSUO"
"""The kinds of types that Zarr v2 supports; objects are strings of any length."""

_TOO_WIDE = frozenset({"float128", "complex256"})

_N5_KEYS = frozenset({"n5", "dimensions", "blockSize", "dataType", "compression"})


@dataclass(frozen=True, slots=True)
class ZarrConvention:
    """Types, axes and fill values are Zarr's own; names of dimensions make arrays a Dataset."""

    roundtrip_key: ClassVar[str] = HIDDEN
    """The attribute that only this package needs to restore a Dataset."""
    coordinates_in_axes: ClassVar[bool] = False
    """Whether regular coordinates are stored in the axes of arrays, rather than as arrays."""
    null_padded: ClassVar[tuple[type[str | bytes], ...]] = (bytes,)
    """The types of strings that lose trailing NULs."""

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
        if data.dtype.kind not in _KINDS or data.dtype.name in _TOO_WIDE:
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
            _attributes(attributes, f"variable {name!r}", {}),
            dict(encoded.encoding),
            fill,
        )

    def group_attributes(
        self, attributes: Mapping[Any, Any], where: str, *, empty: bool
    ) -> dict[str, Any]:
        """Encode a group's attributes; without arrays, mark it as a Dataset."""
        note = {"dataset": True} if empty else {}
        return _attributes(attributes, where, note, of_group=True)

    def array_attributes(
        self,
        encoded: EncodedVariable,
        axis_coords: Collection[str],  # noqa: ARG002
        *,
        placed: bool,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return an array's attributes, with the names of its dimensions."""
        return {**encoded.attributes, "_ARRAY_DIMENSIONS": list(encoded.dims)}


def _attributes(
    attributes: Mapping[Any, Any], where: str, note: Mapping[str, Any], *, of_group: bool = False
) -> dict[str, Any]:
    """Return attributes as JSON; others go to a note that xarray hides.

    The note also lists attributes that a dialect would interpret as metadata of axes. An array's
    `units` are known to be those of its values; those of a group are not.
    """
    encoded, restored = encode_attributes(attributes, where)
    plain, note = hide(encoded, {**note, **restored}, NOTES | {"_ARRAY_DIMENSIONS"})
    ambiguous = plain.keys() & all_keys()
    own = sorted(key for key in ambiguous if of_group or not _is_unit(key, plain[key]))
    note |= {"own": own} if own else {}
    return plain | ({HIDDEN: note} if note else {})


def _is_unit(key: str, value: Any) -> bool:
    return key == "units" and isinstance(value, str)


_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))

_TYPES |= {"float32", "float64"}

_CODERS: tuple[Any, ...] = (
    EncodedStringCoder(allows_unicode=False),  # type: ignore[no-untyped-call]
    CharacterArrayCoder(),
)


@dataclass(frozen=True, slots=True)
class N5Convention:
    """xarray's coders convert everything to numbers and bytes; a note has the original types."""

    roundtrip_key: ClassVar[str] = NOTE
    coordinates_in_axes: ClassVar[bool] = True
    null_padded: ClassVar[tuple[type[str | bytes], ...]] = (str, bytes)

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
        if data.dtype.newbyteorder("=").name not in _TYPES:
            raise MetadataError(_advice(name, data.dtype))
        if not variable.dims:
            data = data.reshape((1,))
        attributes = _with_note(variable.attrs, f"variable {name!r}", note)
        dims = tuple(map(str, variable.dims))
        return EncodedVariable(data, dims, attributes, dict(variable.encoding))

    def group_attributes(
        self,
        attributes: Mapping[Any, Any],
        where: str,
        *,
        empty: bool,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Encode a group's attributes, and mark it as a Dataset."""
        return _with_note(attributes, where, {"dataset": True})

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


def _with_note(attributes: Mapping[Any, Any], where: str, note: dict[str, Any]) -> dict[str, Any]:
    encoded, restored = encode_attributes(attributes, where)
    reserved = {key for key in encoded if not _is_unit(key, encoded[key])} & (
        all_keys() | NOTES | _N5_KEYS
    )
    plain, note = hide(encoded, {**note, **restored}, reserved)
    return plain | ({NOTE: note} if note else {})


def _advice(name: str, dtype: np.dtype[Any]) -> str:
    hints = {
        "c": "store its real and imaginary parts as two variables",
        "f": "convert it with astype('float32') or astype('float64')",
        "O": "convert it to numbers, or to strings with astype(str)",
        "M": "xarray did not encode it as numbers; set 'units' in its encoding",
    }
    return (
        f"N5 cannot store variable {name!r} of type {dtype}: "
        f"{hints.get(dtype.kind, 'convert it to one of ' + ', '.join(sorted(_TYPES)))}"
    )


Convention: TypeAlias = N5Convention | ZarrConvention
"""The storage of xarray's types, coordinates and attributes in a format that may lack them."""

_N5, _ZARR = N5Convention(), ZarrConvention()


def convention_of(form: Format) -> Convention:
    """Return the convention for a format."""
    return _ZARR if form.native_to_xarray else _N5
