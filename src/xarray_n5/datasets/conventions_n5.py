"""Datasets in N5 and HDF5: numbers, with regular coordinates in their axes, and a note."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import dask.array as da
import numpy as np

from xarray_n5.datasets.attributes import encode_attributes
from xarray_n5.datasets.encoded import EncodedVariable
from xarray_n5.datasets.xarray_internals import (
    CharacterArrayCoder,
    EncodedStringCoder,
    cf_encoder,
    ensure_dtype_not_object,
)
from xarray_n5.errors import MetadataError
from xarray_n5.model.roundtrip_attrs import NOTE, note_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array

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

    def fit(self, name: str, encoded: EncodedVariable, array: Array) -> EncodedVariable:  # noqa: ARG002
        """Pad strings to the length of the stored ones, their characters in one block."""
        if not encoded.is_string:
            return encoded
        data = encoded.data
        short = array.shape[-1] - data.shape[-1]
        if short > 0:
            pad: Any = da.pad if isinstance(data, da.Array) else np.pad
            data = pad(data, [(0, 0)] * (data.ndim - 1) + [(0, short)], mode="constant")
        return replace(encoded, data=data.rechunk({-1: -1}) if isinstance(data, da.Array) else data)


def _with_note(attributes: Mapping[Any, Any], where: str, note: dict[str, Any]) -> dict[str, Any]:
    plain, note = encode_attributes(attributes, where, note)
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
