"""Whether packed numbers tell the values that they stand for."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.datasets.xarray_internals import CF_RELATED_DATA, decode_cf_variable
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.datasets.attributes import Packed

CF = frozenset(
    {
        *("dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "units"),
        *("calendar", "coordinates", "_Unsigned", "_Encoding", "char_dim_name"),
        *CF_RELATED_DATA,
    }
)
"""What xarray's own coders take."""


def check_values(variable: xr.Variable, packed: Packed, name: str) -> Packed:
    """Return a packed variable; raise where its whole numbers do not tell the values.

    Scales may round, to half a step. Blocks of Dask are looked at when they are computed.

    Raises
    ------
    ValueError
        Naming the variable.
    """
    if packed.data.dtype.kind not in "iu" or variable.dtype.kind not in "iufMm":
        return packed
    if variable.dtype == packed.data.dtype and not set(packed.told) & CF:
        return packed
    told = {key: value for key, value in packed.told.items() if key in CF}
    if variable.dtype.kind in "Mm" and "units" not in told:
        return packed  # bounds, in the units of their times
    # xarray leaves it to whoever computes a block to make it of the type that it promises.
    check = functools.partial(_same_values, name=name, told=told, dtype=packed.data.dtype)
    if not is_dask_collection(packed.data):
        check(packed.data, np.asarray(variable.data).reshape(packed.data.shape))
        return packed
    meta = np.empty((0,) * packed.data.ndim, packed.data.dtype)
    before = variable.data.reshape(packed.data.shape).rechunk(packed.data.chunks)
    return replace(packed, data=da.map_blocks(check, packed.data, before, meta=meta))


def check_first(variable: xr.Variable, packed: Packed, name: str) -> Packed:
    """Return a packed variable that is written for the first time; raise where values are wrapped.

    That is so where NaN has no ``_FillValue``, or where numbers are beyond the type that the
    encoding asks for. Scales may round, and a value may be the fill value itself.

    Raises
    ------
    MetadataError
        Naming the variable.
    """
    if packed.data.dtype.kind not in "iu" or variable.dtype.kind not in "iuf":
        return packed
    # What stands among the attributes is about numbers that are encoded already.
    keys = CF - {"units", "calendar"} - {str(key) for key in variable.attrs}
    told = {key: value for key, value in packed.told.items() if key in keys}
    if variable.dtype == packed.data.dtype and not told:
        return packed
    check = functools.partial(_not_wrapped, name=name, told=told, dtype=packed.data.dtype)
    if not is_dask_collection(packed.data):
        check(packed.data, np.asarray(variable.data).reshape(packed.data.shape))
        return packed
    meta = np.empty((0,) * packed.data.ndim, packed.data.dtype)
    before = variable.data.reshape(packed.data.shape).rechunk(packed.data.chunks)
    return replace(packed, data=da.map_blocks(check, packed.data, before, meta=meta))


def _not_wrapped(
    packed: np.ndarray,
    before: np.ndarray,
    *,
    name: str,
    told: Mapping[str, Any],
    dtype: np.dtype[Any],
) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        packed = packed.astype(dtype)
    step = abs(float(told.get("scale_factor", 1)))
    same = np.zeros(packed.shape, bool)
    for hidden in ((), ("_FillValue", "missing_value")):
        kept = {key: value for key, value in told.items() if key not in hidden}
        stored = xr.Variable([f"d{axis}" for axis in range(packed.ndim)], packed, kept)
        again = decode_cf_variable(name, stored, decode_times=False).to_numpy()
        if before.dtype.kind == "f" or again.dtype.kind == "f":
            wide = again.astype("f8")
            near = np.abs(wide - before) <= 0.5 * step * (1 + 1e-6) + 1e-6 * np.abs(wide)
            same |= near | (np.isnan(wide) & np.isnan(before.astype("f8")))
        else:
            same |= again == before
    if not same.all():
        at = tuple(int(each[0]) for each in np.nonzero(~same))
        raise MetadataError(
            f"variable {name!r} holds {before[at]}, which {dtype} with {told or 'no fill value'} "
            f"cannot hold: it would be read back as {again[at]}; give it another dtype, "
            "_FillValue or scale_factor in its encoding"
        )
    return packed


def check_strings(data: np.ndarray, name: str, cut: tuple[type[str | bytes], ...]) -> np.ndarray:
    """Return strings; raise where one ends with NUL, which nothing tells from its padding."""
    for text in np.ravel(data):
        if isinstance(text, cut) and text[-1:] in {"\0", b"\0"}:
            raise MetadataError(
                f"variable {name!r} holds {text!r}: NUL at the end of a string would be lost; "
                "strip it, or store the bytes as numbers"
            )
    return data


def _same_values(
    packed: np.ndarray,
    before: np.ndarray,
    *,
    name: str,
    told: Mapping[str, Any],
    dtype: np.dtype[Any],
) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        packed = packed.astype(dtype)
    dims = [f"d{axis}" for axis in range(packed.ndim)]
    stored = xr.Variable(dims, packed, told)
    decoder: Any = decode_cf_variable
    again = decoder(name, stored, decode_timedelta=before.dtype.kind == "m").to_numpy()
    if before.dtype.kind == "f" or again.dtype.kind == "f":
        # Half a step, and what float32 makes of it.
        step = abs(float(told.get("scale_factor", 1)))
        near = np.abs(again - before.astype("f8")) <= 0.5 * step * (1 + 1e-6) + 1e-6 * np.abs(again)
        same = near | (np.isnan(again.astype("f8")) & np.isnan(before.astype("f8")))
    else:
        same = (again == before) | ((again != again) & (before != before))  # NaT  # noqa: PLR0124
    if not same.all():
        at = tuple(int(each[0]) for each in np.nonzero(~same))
        raise ValueError(
            f"{name!r} holds {before[at]}, which would be read back as {again[at]} as it is stored "
            f"({packed.dtype}, {told}); write all of it anew with another encoding"
        )
    return packed
