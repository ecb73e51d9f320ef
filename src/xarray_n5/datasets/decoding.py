"""xarray's own decoding of times, scales and fill values, where it is wanted."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from xarray_n5.datasets.xarray_internals import decode_cf_variables
from xarray_n5.model.alerts import ODD, warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import xarray as xr


def decode(
    variables: Mapping[str, xr.Variable],
    attributes: dict[str, Any],
    asked: Mapping[str, bool | None],
    *,
    encoded: bool,
) -> tuple[Mapping[str, xr.Variable], Mapping[str, Any], Iterable[str]]:
    """Return variables, attributes and names of coordinates, decoded as xarray decodes them.

    What xarray cannot decode stays as it is, with a warning, unless decoding was asked for.
    """
    chosen = _decoders(asked, encoded)
    if not any(chosen.values()):
        return variables, attributes, ()
    decoder: Any = decode_cf_variables
    whole = dict(variables)
    for name, variable in variables.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the others, which it does not see alone
                decoder({name: variable.copy(deep=False)}, {}, **chosen)
        except ODD as error:
            if any(asked.values()):
                raise
            del whole[name]
            warn(
                f"{name!r} is left as it is stored: its attributes {list(variable.attrs)} cannot "
                f"be decoded ({error})"
            )
    decoded, kept, named = decoder(whole, attributes, **chosen)
    return {**variables, **decoded}, kept, named


def _decoders(asked: Mapping[str, bool | None], encoded: bool) -> dict[str, Any]:
    """Return xarray's decoders: what was asked for, else all of them where xarray wrote the file.

    A foreign ``_FillValue`` or ``scale_factor`` means whatever its writer meant by it.
    """
    unset: dict[str, Any] = {
        "concat_characters": encoded,
        "mask_and_scale": encoded,
        "decode_times": encoded,
        "decode_coords": encoded,
        "use_cftime": None,
        "decode_timedelta": None if encoded else False,
    }
    return {**unset, **{key: value for key, value in asked.items() if value is not None}}
