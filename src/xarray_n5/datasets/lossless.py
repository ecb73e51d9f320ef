"""Check that a Dataset can be stored, and that encoded numbers decode to the original values."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.datasets.encoded import EncodedVariable
from xarray_n5.datasets.xarray_internals import CF_RELATED_DATA, cf_encoder, decode_cf_variable
from xarray_n5.errors import MetadataError
from xarray_n5.graph import as_graph, source_of
from xarray_n5.model.alerts import ODD
from xarray_n5.model.axes import SAME
from xarray_n5.model.conversions import are_same
from xarray_n5.model.paths import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping


CF = frozenset(
    {
        *("dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "units"),
        *("calendar", "coordinates", "_Unsigned", "_Encoding", "char_dim_name"),
        *CF_RELATED_DATA,
    }
)
"""The encodings of xarray's own coders."""

_VALUES = CF - {"coordinates", "char_dim_name", *CF_RELATED_DATA}
"""The encodings that determine how values are stored."""

_NUMBERS = frozenset("biufc")
"""The kinds of types that are checked, besides times."""

_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

_MOMENT = np.timedelta64(1, "ms")
"""The precision of times that are stored as floats."""


def fitting(
    variable: xr.Variable, wished: Mapping[str, Any], types: tuple[type[str | bytes], ...]
) -> dict[str, Any]:
    """Return the encoding of a variable without what it has from other values, as those of a file.

    Strings have their own width, and an encoding only as padded `types`. Of blocks of Dask, only
    the type is known; of times, none of the values, so that they keep their units only if they are
    those of the file.
    """
    encoding = {key: value for key, value in wished.items() if key not in variable.attrs}
    used, dtype = _VALUES & encoding.keys(), encoding.get("dtype")
    lazy = is_dask_collection(variable.data)
    if is_string(variable):
        used &= {"dtype", "_Encoding"}
        if str(encoding.get("char_dim_name", "")).startswith("string"):
            del encoding["char_dim_name"]  # xarray's name for the width
        fits = str in types and is_characters(dtype)
        if encoding.get("_Encoding", "utf-8") != "utf-8":
            fits &= not lazy and "".join(map(str, variable.data.flat)).isascii()
    else:
        same = not used or (used == {"dtype"} and dtype == variable.dtype)
        fits = same or _fits(variable, encoding)
    encoding = encoding if fits else {k: v for k, v in encoding.items() if k not in used}
    if lazy and variable.dtype.kind in "Mm" and "units" not in encoding:
        # xarray's own choice for blocks, unless these are bounds of times with other units.
        unit = _UNITS[np.datetime_data(variable.dtype)[0]]
        since = " since 1970-01-01" if variable.dtype.kind == "M" else ""
        encoding |= {"units": f"{unit}{since}", "dtype": np.dtype("i8")}
    return encoding


def _fits(variable: xr.Variable, encoding: dict[str, Any]) -> bool:
    """Return whether an encoding represents a variable: its values, or in blocks, its type."""
    data, dtype = variable.data, variable.dtype
    lazy = is_dask_collection(data)
    if lazy and (dtype.kind == "O" or (dtype.kind in "Mm" and source_of(data) is None)):
        return False
    data = np.zeros((0,) * data.ndim, dtype) if lazy else data
    tried = xr.Variable(variable.dims, data, variable.attrs, encoding)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stored: xr.Variable = cf_encoder({"": tried}, {})[0][""]
            encoded = EncodedVariable(stored.data, (), dict(stored.attrs))
            check(tried, encoded, "", rounds="scale_factor" in encoding)
            decoded = _decoded("", stored, dtype)
    except ODD:
        return False
    if dtype.kind == "O":
        return np.array_equal(decoded, data)
    return decoded.dtype == dtype or dtype.kind in "Mm"


def is_characters(dtype: Any) -> bool:
    """Return whether strings of this type, as xarray calls them, have their own width."""
    return isinstance(dtype, type | str | np.dtype) and dtype in (str, "S1")


def is_string(variable: xr.Variable) -> bool:
    """Return whether values are strings, rather than numbers, or times as objects."""
    return variable.dtype.kind in "OSU" and "units" not in variable.encoding


def check(
    variable: xr.Variable,
    encoded: EncodedVariable,
    name: str,
    *,
    masks: bool = False,
    rounds: bool = True,
) -> EncodedVariable:
    """Check that encoded numbers decode to the original values.

    Floats may be rounded to the precision of their type. Blocks of Dask are checked when they are
    computed.

    Parameters
    ----------
    variable, encoded, name
        The values, in both forms.
    masks
        Whether a number may be the fill value itself.
    rounds
        Whether integers may be rounded, by half a step of their scale.

    Raises
    ------
    MetadataError
        The error names the variable and the first value that would change.
    """
    if variable.dtype.kind not in _NUMBERS | {"M", "m"}:
        return encoded
    if encoded.is_string or encoded.data.dtype.kind not in _NUMBERS:
        raise MetadataError(
            f"variable {name!r} of type {variable.dtype} cannot be stored as {encoded.data.dtype}; "
            "convert it with astype()"
        )
    # Attributes of the variable itself describe numbers that are already encoded.
    keys = CF - variable.attrs.keys()
    attributes = {key: value for key, value in encoded.cf_attributes.items() if key in keys}
    if variable.dtype == encoded.data.dtype and not attributes:
        return encoded
    if variable.dtype.kind in "Mm" and "units" not in attributes:
        return encoded  # bounds, in the units of their times
    masks = masks and variable.dtype.kind in _NUMBERS
    stored = _Stored(name, attributes, encoded.data.dtype, masks, rounds)
    data = encoded.data
    if not is_dask_collection(data):
        stored.check(data, np.asarray(variable.data).reshape(data.shape))
        return encoded
    values = as_graph(variable.data).reshape(data.shape).rechunk(data.chunks)
    meta = np.empty((0,) * data.ndim, data.dtype)
    return replace(encoded, data=da.map_blocks(stored.check, data, values, meta=meta))


def check_strings(
    data: np.ndarray, name: str, types: tuple[type[str | bytes], ...], dtype: Any = None
) -> np.ndarray:
    """Return strings; raise if a `dtype` is too narrow, or one ends with NUL, like padding."""
    for value in np.ravel(data) if data.dtype.kind == "O" else ():
        if isinstance(value, types) and value[-1:] in {"\0", b"\0"}:
            raise MetadataError(
                f"variable {name!r} has {value!r}: NUL at the end of a string would be lost; "
                "strip it, or store the bytes as numbers"
            )
    try:
        fits = dtype is None or (data.astype(dtype).astype(data.dtype) == data).all()
    except UnicodeError:
        fits = False
    if not fits:
        raise MetadataError(
            f"variable {name!r} has strings for which {dtype} is too short; omit the dtype from "
            "its encoding, or rewrite what is stored with mode='w'"
        )
    return data


@dataclass(frozen=True, slots=True)
class _Stored:
    """The encoding of a variable, against which its blocks are checked."""

    name: str
    attributes: Mapping[str, Any]
    dtype: np.dtype[Any]
    masks: bool
    rounds: bool

    def check(self, data: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return encoded numbers, in the promised type; raise if they decode differently.

        xarray leaves the conversion to the computation of a block.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            data = data.astype(self.dtype)
        decoded = self._decode(data, values.dtype)
        same = self._are_same(decoded, values)
        if self.masks and not same.all():
            plain = self._decode(data, values.dtype, "_FillValue", "missing_value")
            same |= self._are_same(plain, values)
        if not same.all():
            at = tuple(int(along[0]) for along in np.nonzero(~same))
            raise MetadataError(
                f"variable {self.name!r} has {values[at]}, which {self.dtype} with "
                f"{self.attributes or 'no fill value'} cannot represent: it would be read back as "
                f"{decoded[at]}; set another dtype, _FillValue, scale_factor or units in its "
                "encoding"
            )
        return data

    def _decode(self, data: np.ndarray, dtype: np.dtype[Any], *ignored: str) -> np.ndarray:
        kept = {key: value for key, value in self.attributes.items() if key not in ignored}
        dims = [f"d{axis}" for axis in range(data.ndim)]
        return _decoded(self.name, xr.Variable(dims, data, kept), dtype)

    def _are_same(self, decoded: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Compare decoded values with the original ones, but for what may be rounded."""
        kinds = {decoded.dtype.kind, values.dtype.kind}
        if kinds & {"M", "m"}:
            same: np.ndarray = np.zeros(values.shape, bool)
            if len(kinds) == 1:
                same = (decoded == values) | (np.isnat(decoded) & np.isnat(values))
                same |= (self.dtype.kind == "f") & (np.abs(decoded - values) <= _MOMENT)
            return same
        if self.dtype.kind not in "iu" or kinds & {"b", "c"} or "f" not in kinds:
            return are_same(values, decoded)
        is_scaled = self.attributes.keys() & {"scale_factor", "add_offset"}
        step = abs(float(self.attributes.get("scale_factor", 1)))
        close: np.ndarray = np.isclose(
            values.astype("f8"),
            decoded.astype("f8"),
            rtol=SAME if is_scaled else 0,
            atol=0.5 * step * (1 + SAME) * self.rounds,
            equal_nan=True,
        )
        return close


def _decoded(name: str, stored: xr.Variable, dtype: np.dtype[Any]) -> np.ndarray:
    """Return values as they are read back, times in the unit of a type."""
    times: Any = dtype.kind in "mO"
    if dtype.kind == "M":
        unit: Any = np.datetime_data(dtype)[0]
        times = xr.coders.CFDatetimeCoder(time_unit=unit)
    spans = dtype.kind == "m"
    decoded = decode_cf_variable(name, stored, decode_times=times, decode_timedelta=spans)
    values: np.ndarray = decoded.to_numpy()
    return values


def check_names(dataset: xr.Dataset) -> None:
    """Raise if a variable or dimension cannot have its name, or a variable its type."""
    for name, variable in dataset.variables.items():
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the variable {name!r} must have a string or None for a name")
        if name == "":
            raise ValueError("a variable cannot be called '': a string must be length 1 or more")
        if name is not None:
            check_name(name, "variable")
        dims = variable.dims
        if len(set(dims)) != len(dims) or not all(isinstance(dim, str) and dim for dim in dims):
            raise ValueError(f"expected unique strings as the dimensions of {name!r}, got {dims}")
        if not isinstance(variable.dtype, np.dtype):
            raise MetadataError(
                f"variable {name!r} has the pandas type {variable.dtype}; convert it to a NumPy "
                "type with astype()"
            )
