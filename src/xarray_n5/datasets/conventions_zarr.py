"""Datasets in Zarr v2 as xarray's Zarr engine stores them, with a note that xarray hides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.arrays.attributes import as_json
from xarray_n5.datasets.attributes import dialect_keys, exact_attributes
from xarray_n5.datasets.encoded import EncodedVariable
from xarray_n5.datasets.xarray_internals import encode_zarr_variable
from xarray_n5.errors import MetadataError
from xarray_n5.model.roundtrip_attrs import HIDDEN, NOTES

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array

_KINDS = "biufcSUO"
"""The kinds of types that Zarr v2 supports; objects are strings of any length."""

_TOO_WIDE = frozenset({"float128", "complex256"})

_SCALES = frozenset({"scale_factor", "add_offset"})
"""Attributes whose own type determines that of the decoded values."""


@dataclass(frozen=True, slots=True)
class ZarrConvention:
    """Types, axes and fill values are Zarr's own; names of dimensions make arrays a Dataset."""

    roundtrip_key: ClassVar[str] = HIDDEN
    coordinates_in_axes: ClassVar[bool] = False
    null_padded: ClassVar[tuple[type[str | bytes], ...]] = (bytes,)

    def encode_together(
        self, variables: Mapping[Hashable, xr.Variable]
    ) -> dict[Hashable, xr.Variable]:
        """Return variables unchanged: for Zarr, xarray encodes them one by one."""
        return dict(variables)

    def encode(self, name: str, variable: xr.Variable) -> EncodedVariable:
        """Encode a variable as xarray's Zarr writer does."""
        encoded: Any = encode_zarr_variable(_without_stored_width(variable), name=name)
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

    def fit(self, name: str, encoded: EncodedVariable, array: Array) -> EncodedVariable:
        """Convert strings to the stored type; raise ValueError if they are longer."""
        data, stored = encoded.data, array.dtype
        if stored.kind == data.dtype.kind == "O" or stored.kind not in "SUO":
            return encoded
        if stored.kind == "O" and data.dtype.kind == "U":
            return replace(encoded, data=data.astype(object))
        if data.dtype.kind == "O" and stored.kind == "U":
            data = np.asarray(data).astype(str)
        if data.dtype.kind != stored.kind or data.dtype.itemsize > stored.itemsize:
            raise ValueError(
                f"{name!r} is stored as strings of type {stored}, too short for those of type "
                f"{data.dtype}; rewrite it with mode='w', or as objects"
            )
        return replace(encoded, data=data.astype(stored))


def _without_stored_width(variable: xr.Variable) -> xr.Variable:
    """Return strings without the width, or the character encoding, of the file.

    xarray would truncate them, or store their bytes. NumPy's variable-width strings become objects,
    which preserve a trailing NUL.
    """
    found, encoding = variable.copy(deep=False), dict(variable.encoding)
    if variable.dtype.kind == "T":
        found = found.astype(object)
    opened = "n5_compression" in encoding and variable.dtype.kind in "OUT"
    if opened or _is_other_width(encoding.get("dtype"), variable.dtype):
        encoding.pop("dtype", None)
    for key in ("_Encoding", "char_dim_name") if opened else ():
        encoding.pop(key, None)
    found.encoding = encoding
    return found


def _is_other_width(requested: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether a requested type is strings of the same kind, possibly of another width."""
    kinds = {"T": "TSU", "S": "S", "U": "U"}.get(dtype.kind, "")
    return requested not in {None, str} and np.dtype(requested).kind in kinds


def _attributes(
    attributes: Mapping[Any, Any], where: str, note: Mapping[str, Any], *, of_group: bool = False
) -> dict[str, Any]:
    """Return attributes as JSON; others go to a note that xarray hides.

    The note also lists attributes that a dialect would interpret as metadata of axes. An array's
    `units` are known to be those of its values; those of a group are not.
    """
    plain: dict[str, Any] = {}
    hidden: dict[str, Any] = {}
    for key, exact in exact_attributes(attributes, where).items():
        if key in NOTES or key == "_ARRAY_DIMENSIONS":
            hidden[key] = exact
            continue
        try:
            plain |= as_json({key: attributes[key]}, where)
        except MetadataError:
            hidden[key] = exact
            continue
        if key in _SCALES and plain[key] != exact:
            hidden[key] = exact
    ambiguous = plain.keys() & dialect_keys()
    own = sorted(key for key in ambiguous if of_group or not _is_unit(key, plain[key]))
    note = {
        **note,
        **({"attributes": hidden} if hidden else {}),
        **({"own": own} if own else {}),
    }
    return plain | ({HIDDEN: note} if note else {})


def _is_unit(key: str, value: Any) -> bool:
    return key == "units" and isinstance(value, str)
