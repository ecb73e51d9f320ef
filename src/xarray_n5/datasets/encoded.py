"""Variables in the form of stored arrays, as xarray's CF conventions encode them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.access import io_of
from xarray_n5.model.roundtrip_attrs import is_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.array import Array

NAMELESS = "__values__"
"""The name of the array for a variable whose name is None, as in xarray's netCDF."""


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
    if is_native(array, found) and io_of(array).metadata.masks:
        mask = getattr(io_of(array).metadata.layout, "mask", array.fill_value)
        found.setdefault("_FillValue", mask)
    return found


def is_native(array: Array, attributes: Mapping[str, Any]) -> bool:
    """Return whether xarray reads an array as a variable without this package."""
    return io_of(array).format.native_to_xarray and "_ARRAY_DIMENSIONS" in attributes
