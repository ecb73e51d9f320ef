"""Datasets by N5's rules: numbers with axes, regular places in the axes, all else in a note."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import dask.array as da
import numpy as np

from xarray_n5.datasets.attributes import pack, pack_attributes
from xarray_n5.datasets.xarray_internals import cf_encoder, ensure_dtype_not_object
from xarray_n5.model.roundtrip_attrs import NOTE, note_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.attributes import Packed


@dataclass(frozen=True, slots=True)
class Noted:
    """Whatever N5 has no type for becomes one of its ten, and a note tells what it was."""

    note: ClassVar[str] = NOTE
    in_axes: ClassVar[bool] = True
    cut: ClassVar[tuple[type[str | bytes], ...]] = (str, bytes)

    def encode(self, variables: Mapping[Hashable, xr.Variable]) -> dict[Hashable, xr.Variable]:
        """Return variables as xarray encodes them for netCDF."""
        encoded, _ = cf_encoder(dict(variables), {})
        return dict(encoded)

    def pack(self, name: str, variable: xr.Variable) -> Packed:
        """Return a variable as ten types of numbers hold it."""
        return pack(name, ensure_dtype_not_object(variable, name=name))

    def pack_group(
        self,
        attributes: Mapping[Any, Any],
        where: str,
        *,
        empty: bool,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return a group's attributes, which say that it is a Dataset."""
        return pack_attributes(attributes, where, {"dataset": True})

    def described(self, packed: Packed, told: Collection[str], *, placed: bool) -> dict[str, Any]:
        """Return the attributes of an array whose axes tell some coordinates."""
        attributes, note = dict(packed.attributes), dict(note_of(packed.attributes))
        if placed and "units" in attributes:
            # N5's units are those of the axes.
            note["attributes"] = {**note.get("attributes", {}), "units": attributes.pop("units")}
        note["axes"] = list(told)
        return {**attributes, NOTE: note, "_ARRAY_DIMENSIONS": list(packed.dims)}

    def fit(self, name: str, packed: Packed, array: Array) -> Packed:  # noqa: ARG002
        """Return texts as wide as those that are there at least, their characters in one block."""
        if not packed.is_text:
            return packed
        data = packed.data
        short = array.shape[-1] - data.shape[-1]
        if short > 0:
            pad: Any = da.pad if isinstance(data, da.Array) else np.pad
            data = pad(data, [(0, 0)] * (data.ndim - 1) + [(0, short)], mode="constant")
        return replace(packed, data=data.rechunk({-1: -1}) if isinstance(data, da.Array) else data)
