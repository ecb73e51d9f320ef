"""Check that a Dataset can be stored, and that encoded numbers decode to the original values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.datasets.xarray_internals import CF_RELATED_DATA, decode_cf_variable
from xarray_n5.errors import MetadataError
from xarray_n5.graph import as_graph
from xarray_n5.model.paths import check_name
from xarray_n5.model.tolerances import SAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from xarray_n5.datasets.encoded import EncodedVariable

CF = frozenset(
    {
        *("dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "units"),
        *("calendar", "coordinates", "_Unsigned", "_Encoding", "char_dim_name"),
        *CF_RELATED_DATA,
    }
)
"""The encodings of xarray's own coders."""


def check_update(variable: xr.Variable, encoded: EncodedVariable, name: str) -> EncodedVariable:
    """Check that integers in an array's existing encoding decode to the new values.

    Scales may round, by half a step. Blocks of Dask are checked when they are computed.

    Raises
    ------
    ValueError
        The error names the variable and the first value that would change.
    """
    if encoded.data.dtype.kind not in "iu" or variable.dtype.kind not in "iufMm":
        return encoded
    if variable.dtype == encoded.data.dtype and not encoded.cf_attributes.keys() & CF:
        return encoded
    attributes = {key: value for key, value in encoded.cf_attributes.items() if key in CF}
    if variable.dtype.kind in "Mm" and "units" not in attributes:
        return encoded  # bounds, in the units of their times
    stored = _Stored(name, attributes, encoded.data.dtype)
    return _check_blocks(variable, encoded, stored.check_updated)


def check_new(variable: xr.Variable, encoded: EncodedVariable, name: str) -> EncodedVariable:
    """Check that new integers did not overflow: NaN without ``_FillValue``, or values out of range.

    Scales may round, and a value may be the fill value itself. Blocks of Dask are checked when they
    are computed.

    Raises
    ------
    MetadataError
        The error names the variable and the first value that would change.
    """
    if encoded.data.dtype.kind not in "iu" or variable.dtype.kind not in "iuf":
        return encoded
    # Attributes of the variable itself describe numbers that are already encoded.
    keys = CF - {"units", "calendar"} - {str(key) for key in variable.attrs}
    attributes = {key: value for key, value in encoded.cf_attributes.items() if key in keys}
    if variable.dtype == encoded.data.dtype and not attributes:
        return encoded
    stored = _Stored(name, attributes, encoded.data.dtype)
    return _check_blocks(variable, encoded, stored.check_not_wrapped)


def check_strings(data: np.ndarray, name: str, types: tuple[type[str | bytes], ...]) -> np.ndarray:
    """Return strings; raise if one ends with NUL, which is indistinguishable from padding."""
    for value in np.ravel(data):
        if isinstance(value, types) and value[-1:] in {"\0", b"\0"}:
            raise MetadataError(
                f"variable {name!r} has {value!r}: NUL at the end of a string would be lost; "
                "strip it, or store the bytes as numbers"
            )
    return data


def _check_blocks(
    variable: xr.Variable,
    encoded: EncodedVariable,
    check: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> EncodedVariable:
    """Apply a check of encoded numbers and values: now for NumPy's, in the graph for Dask's."""
    data = encoded.data
    if not is_dask_collection(data):
        check(data, np.asarray(variable.data).reshape(data.shape))
        return encoded
    values = as_graph(variable.data).reshape(data.shape).rechunk(data.chunks)
    meta = np.empty((0,) * data.ndim, data.dtype)
    return replace(encoded, data=da.map_blocks(check, data, values, meta=meta))


@dataclass(frozen=True, slots=True)
class _Stored:
    """The encoding of a variable, against which its blocks are checked."""

    name: str
    attributes: Mapping[str, Any]
    dtype: np.dtype[Any]

    def check_updated(self, data: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return encoded numbers, in the promised type; raise if they decode differently.

        xarray leaves the conversion to the computation of a block.
        """
        with np.errstate(invalid="ignore"):
            data = data.astype(self.dtype)
        decoded = self._decode(data, (), decode_timedelta=values.dtype.kind == "m")
        same = self._are_same(decoded, values)
        if not same.all():
            at = _first(~same)
            raise ValueError(
                f"{self.name!r} has {values[at]}, which would be read back as {decoded[at]} in "
                f"the stored encoding ({self.dtype}, {self.attributes}); rewrite it with another "
                "encoding"
            )
        return data

    def check_not_wrapped(self, data: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return encoded numbers, converted alike; raise if values have overflowed."""
        with np.errstate(invalid="ignore"):
            data = data.astype(self.dtype)
        same, decoded = np.zeros(data.shape, bool), data
        for ignored in ((), ("_FillValue", "missing_value")):
            decoded = self._decode(data, ignored, decode_times=False)
            same |= self._are_same(decoded, values)
        if not same.all():
            at = _first(~same)
            raise MetadataError(
                f"variable {self.name!r} has {values[at]}, which {self.dtype} with "
                f"{self.attributes or 'no fill value'} cannot represent: it would be read back as "
                f"{decoded[at]}; set another dtype, _FillValue or scale_factor in its encoding"
            )
        return data

    def _decode(self, data: np.ndarray, ignored: Collection[str], **how: Any) -> np.ndarray:
        kept = {key: value for key, value in self.attributes.items() if key not in ignored}
        stored = xr.Variable([f"d{axis}" for axis in range(data.ndim)], data, kept)
        decoded: np.ndarray = decode_cf_variable(self.name, stored, **how).to_numpy()
        return decoded

    def _are_same(self, decoded: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Compare decoded values with the original ones: floats to half a step of their scale."""
        same: np.ndarray
        if values.dtype.kind == "f" or decoded.dtype.kind == "f":
            one, other = decoded.astype("f8"), values.astype("f8")
            step = abs(float(self.attributes.get("scale_factor", 1)))
            near = 0.5 * step * (1 + SAME) + SAME * np.abs(one)
            same = (np.abs(one - other) <= near) | (np.isnan(one) & np.isnan(other))
        else:
            nat = (decoded != decoded) & (values != values)  # noqa: PLR0124
            same = (decoded == values) | nat
        return same


def _first(where: np.ndarray) -> tuple[int, ...]:
    return tuple(int(each[0]) for each in np.nonzero(where))


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
