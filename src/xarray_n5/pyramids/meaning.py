"""The meaning of stored numbers: what masks, scales and types the samples of all levels alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.datasets.encoded import cf_attributes, convention_of, decode_attributes
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.model.roundtrip_attrs import note_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.formats.protocol import Format
    from xarray_n5.pyramids.reduce import Method

_NAMES = "_ARRAY_DIMENSIONS"
"""The attribute of xarray's variables, which are decoded."""

_KEYS = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "dtype")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The attributes with which xarray decodes stored numbers; none if they mean themselves."""

    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_bool(self) -> bool:
        """Whether the numbers are booleans."""
        return bool(self.attributes.get("dtype") == "bool")

    @property
    def masks(self) -> tuple[Any, ...]:
        """The numbers that mean missing samples."""
        found = [self.attributes.get(key) for key in ("_FillValue", "missing_value")]
        return tuple(each for mask in found if mask is not None for each in np.ravel(mask).tolist())

    def view(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in which numbers of a type are compared."""
        kind = {"true": "u", "false": "i"}.get(str(self.attributes.get("_Unsigned", "")).lower())
        if kind is None or dtype.kind not in "iu":
            return dtype
        return np.dtype(f"{kind}{dtype.itemsize}")

    def method(self, method: Method) -> Method:
        """Return the method for stored numbers, whose order a negative scale reverses."""
        if float(np.ravel(self.attributes.get("scale_factor", 1))[0]) > 0:
            return method
        opposite: dict[Method, Method] = {"max": "min", "min": "max"}
        return opposite.get(method, method)

    def stored(
        self, dims: Sequence[str], dtype: np.dtype[Any], form: Format
    ) -> tuple[dict[str, Any], Any]:
        """Return the attributes of each level, and the fill value that masks in Zarr."""
        if not self.attributes:
            return {}, None
        convention = convention_of(form)
        empty = xr.Variable(dims, np.zeros((0,) * len(dims), dtype), dict(self.attributes))
        encoded = convention.encode("level", convention.encode_together({"level": empty})["level"])
        found = convention.array_attributes(encoded, (), placed=True)
        key = convention.roundtrip_key
        note = {name: each for name, each in note_of(found).items() if name != "axes"}
        found = {name: each for name, each in found.items() if name != key}
        return {**found, **({key: note} if note else {})}, encoded.fill_value


def meaning_of(array: Array) -> Meaning:
    """Return the meaning of a stored array; numbers that xarray did not encode have none."""
    if _NAMES not in array.attrs:
        return Meaning()
    attributes = decode_attributes(cf_attributes(array), array.url)
    has_units = units_of_values(array.attrs) or "units" in note_of(array.attrs).get(
        "attributes", {}
    )
    keys = (*_KEYS, "units", "calendar") if has_units else _KEYS
    return Meaning({key: attributes[key] for key in keys if key in attributes})
