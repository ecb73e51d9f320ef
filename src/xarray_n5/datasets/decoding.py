"""Decode times, scales and fill values with xarray's decoders."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.xarray_internals import decode_cf_variables
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.times import check_time_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import xarray as xr


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
