"""Datasets as xarray's own Zarr v2 has them: each variable an array of its very type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.arrays.attributes import as_json
from xarray_n5.datasets.attributes import Packed, heard, to_json
from xarray_n5.datasets.xarray_internals import encode_zarr_variable
from xarray_n5.errors import MetadataError
from xarray_n5.model.roundtrip_attrs import HIDDEN, NOTES

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array

_KINDS = "biufcSU"
"""The types of a stored variable, beside texts of any length."""


_SCALES = frozenset({"scale_factor", "add_offset"})
"""Attributes whose very type makes that of the values."""


@dataclass(frozen=True, slots=True)
class Native:
    """Types, axes and fill values are Zarr's own; names of dimensions make arrays a Dataset."""

    note: ClassVar[str] = HIDDEN
    in_axes: ClassVar[bool] = False
    cut: ClassVar[tuple[type[str | bytes], ...]] = (bytes,)

    def encode(self, variables: Mapping[Hashable, xr.Variable]) -> dict[Hashable, xr.Variable]:
        """Return variables as they are: xarray encodes them one by one."""
        return dict(variables)

    def pack(self, name: str, variable: xr.Variable) -> Packed:
        """Return a variable as xarray's Zarr writer encodes it."""
        encoded: Any = encode_zarr_variable(_as_long_as_it_is(variable), name=name)
        data, attributes = encoded.data, dict(encoded.attrs)
        if data.dtype.kind in "SU" and data.dtype.itemsize <= 1:
            # Zarr has no texts without length, and xarray joins those of one byte to one text.
            data = data.astype("S2" if data.dtype.kind == "S" else "U1")
        if data.dtype.kind not in f"{_KINDS}O" or data.dtype.name in {"float128", "complex256"}:
            raise MetadataError(
                f"Zarr cannot hold variable {name!r} of type {data.dtype}; convert it with astype()"
            )
        fill = attributes.pop("_FillValue", None)
        return Packed(
            data,
            tuple(map(str, encoded.dims)),
            _attributes(attributes, f"variable {name!r}", {}),
            dict(encoded.encoding),
            None if fill is None else _filling(fill, data.dtype),
        )

    def pack_group(
        self, attributes: Mapping[Any, Any], where: str, *, empty: bool
    ) -> dict[str, Any]:
        """Return a group's attributes; where it has no arrays, it says that it is a Dataset."""
        note = {"dataset": True} if empty else {}
        return _attributes(attributes, where, note, of_group=True)

    def described(
        self,
        packed: Packed,
        told: Collection[str],  # noqa: ARG002
        *,
        placed: bool,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return the attributes of an array."""
        return {**packed.attributes, "_ARRAY_DIMENSIONS": list(packed.dims)}

    def fit(self, name: str, packed: Packed, array: Array) -> Packed:
        """Return texts of fixed size in the size that is there; raise where they are longer."""
        data, there = packed.data, array.dtype
        if there.kind == data.dtype.kind == "O" or there.kind not in "SUO":
            return packed
        if there.kind == "O" and data.dtype.kind == "U":
            return replace(packed, data=data.astype(object))
        if data.dtype.kind == "O" and there.kind == "U":
            data = np.asarray(data).astype(str)
        if data.dtype.kind != there.kind or data.dtype.itemsize > there.itemsize:
            raise ValueError(
                f"{name!r} is stored as texts of type {there}, which cannot hold those of type "
                f"{data.dtype}; write all of it anew with mode='w', or as objects"
            )
        return replace(packed, data=data.astype(there))


def _as_long_as_it_is(variable: xr.Variable) -> xr.Variable:
    """Return texts without what a file said of them: their size, or that they were characters.

    xarray would cut them, or store their bytes. numpy's own texts of any length become objects,
    which keep a NUL at their end.
    """
    found, encoding = variable.copy(deep=False), dict(variable.encoding)
    if variable.dtype.kind == "T":
        found = found.astype(object)
    opened = "n5_compression" in encoding and variable.dtype.kind in "OUT"
    if opened or _is_size(encoding.get("dtype"), variable.dtype):
        encoding.pop("dtype", None)
    for key in ("_Encoding", "char_dim_name") if opened else ():
        encoding.pop(key, None)
    found.encoding = encoding
    return found


def _is_size(asked: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether what is asked for are texts of such a kind, in another size perhaps."""
    kinds = {"T": "TSU", "S": "S", "U": "U"}.get(dtype.kind, "")
    return asked not in {None, str} and np.dtype(asked).kind in kinds


def _attributes(
    attributes: Mapping[Any, Any], where: str, note: Mapping[str, Any], *, of_group: bool = False
) -> dict[str, Any]:
    """Return attributes as JSON, those that it cannot hold in a note, which xarray does not show.

    The note also lists those that a dialect would take for metadata of axes. An array's `units`
    are known to be those of its values; those of a group are not.
    """
    plain: dict[str, Any] = {}
    noted: dict[str, Any] = {}
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise TypeError(f"{where}: the attribute {key!r} has a name that is no text")
        try:
            exact = to_json(value)
        except TypeError as error:
            raise MetadataError(f"{where}: the attribute {key!r} is {value!r}: {error}") from error
        try:
            if key in NOTES or key == "_ARRAY_DIMENSIONS":
                noted[key] = exact
            else:
                plain |= as_json({key: value}, where)
                if key in _SCALES and plain[key] != exact:
                    noted[key] = exact
        except MetadataError:
            noted[key] = exact
    misread = plain.keys() & heard()
    own = sorted(key for key in misread if of_group or not _is_unit(key, plain[key]))
    whole = {
        **note,
        **({"attributes": noted} if noted else {}),
        **({"own": own} if own else {}),
    }
    return plain | ({HIDDEN: whole} if whole else {})


def _is_unit(key: str, value: Any) -> bool:
    return key == "units" and isinstance(value, str)


def _filling(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as a number of the array's type."""
    return value if dtype.kind == "O" else np.array(value, dtype)[()]
