"""Variables in the form of stored arrays, as xarray's CF conventions encode them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.xarray_internals import decode_cf_variables
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.roundtrip_attrs import is_text
from xarray_n5.model.times import check_time_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import xarray as xr

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
    encoded: bool,
) -> tuple[Mapping[str, xr.Variable], Mapping[str, Any], Iterable[str]]:
    """Decode variables; return them, the remaining attributes and the names of coordinates.

    By default, only variables that xarray wrote (`encoded`) are decoded: in others, ``_FillValue``
    and ``scale_factor`` may have other meanings. Variables that cannot be decoded are returned as
    stored, with a warning, unless a decoder was requested.
    """
    chosen: dict[str, Any] = {
        "concat_characters": encoded,
        "mask_and_scale": encoded,
        "decode_times": encoded,
        "decode_coords": encoded,
        "use_cftime": None,
        "decode_timedelta": None if encoded else False,
        **{key: value for key, value in decoders.items() if value is not None},
    }
    if not any(chosen.values()):
        return variables, attributes, ()
    decoder: Any = decode_cf_variables
    decodable = dict(variables)
    for name, variable in variables.items():
        try:
            _check(variable.attrs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about references to other variables
                decoder({name: variable.copy(deep=False)}, {}, **chosen)
        except ODD as error:
            if any(decoders.values()):
                raise
            del decodable[name]
            warn(
                f"{name!r} is not decoded: its attributes {list(variable.attrs)} are invalid "
                f"({error})"
            )
    decoded, kept, coordinates = decoder(decodable, attributes, **chosen)
    return {**variables, **decoded}, kept, coordinates


def _check(attributes: Mapping[str, Any]) -> None:
    """Raise for attributes that xarray would pass on to NumPy, then or when values are read."""
    dtype = attributes.get("dtype")
    if isinstance(dtype, str) and dtype.startswith("timedelta64"):
        check_time_units(dtype)
    for key in ("scale_factor", "add_offset"):
        if np.asarray(attributes.get(key, 1)).dtype.kind not in "biuf":
            raise ValueError(f"{key!r} is {attributes[key]!r:.100}; expected a number")
