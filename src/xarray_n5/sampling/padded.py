"""Arrays with samples of one value around them, of which only what is inside is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from xarray.backends import BackendArray

from xarray_n5.datasets.xarray_internals import (
    ExplicitIndexer,
    IndexingSupport,
    explicit_indexing_adapter,
    is_in_memory,
    lazily_indexed,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import xarray as xr


def default_fill(dtype: np.dtype[Any]) -> Any:
    """Return the value of samples outside an array: NaN or NaT if the type has one, or zero.

    >>> default_fill(np.dtype("f4")), default_fill(np.dtype("u1"))
    (nan, np.uint8(0))
    """
    if dtype.kind in "fc":
        return np.nan
    if dtype.kind in "mM":
        return np.array("NaT", dtype)[()]
    return np.zeros((), dtype)[()] if dtype.kind != "O" else None


def fill_for(dtype: np.dtype[Any], fill_value: object) -> Any:
    """Return the value of samples outside an array, of the array's type.

    Raises
    ------
    ValueError
        If the type cannot represent `fill_value`.
    """
    if fill_value is None:
        return default_fill(dtype)
    given = np.asarray(fill_value)
    if given.ndim:
        raise ValueError(f"fill_value is {fill_value!r}; expected one value")
    with np.errstate(invalid="ignore", over="ignore"):
        same = given.astype(dtype)
    inexact = dtype.kind in "fc" and given.dtype.kind in "biufc"
    if not (inexact or np.array_equal(same, given)):
        raise ValueError(
            f"fill_value is {fill_value!r}, which arrays of {dtype} cannot hold; choose another "
            "value, or convert the array with astype first"
        )
    return same[()]


def pad(
    variable: xr.Variable, widths: Mapping[Hashable, tuple[int, int]], fill_value: object
) -> xr.Variable:
    """Return a variable with more samples before and after its own; values are read later.

    Parameters
    ----------
    variable
        A variable in memory, of Dask, or lazily indexed: the result is alike.
    widths
        The numbers of samples to add, by dimension.
    fill_value
        The value of these samples; None for the default of the type.
    """
    own = {dim: width for dim, width in widths.items() if dim in variable.dims and any(width)}
    fill = fill_for(variable.dtype, fill_value)
    if not own:
        return variable
    if variable.chunks is not None and not variable.size:
        shape = [size + sum(own.get(dim, (0, 0))) for dim, size in variable.sizes.items()]
        # Dask cannot pad an array without samples.
        return variable._replace(data=da.full(shape, fill, dtype=variable.dtype))
    if variable.chunks is not None or is_in_memory(variable):
        padded: xr.Variable = variable.pad(own, mode="constant", constant_values=fill)
        padded.encoding = dict(variable.encoding)
        return padded.astype(variable.dtype, copy=False, keep_attrs=True)
    data = lazily_indexed(PaddedArray(variable, own, fill))
    return variable._replace(data=data)


class PaddedArray(BackendArray):
    """A lazily indexed variable with samples of one value around it.

    Parameters
    ----------
    inner
        The variable, which is only indexed.
    widths
        The numbers of samples before and after it, by dimension.
    fill
        The value of these samples.
    """

    def __init__(
        self, inner: xr.Variable, widths: Mapping[Hashable, tuple[int, int]], fill: object
    ) -> None:
        self.inner, self.fill = inner, fill
        self.before = tuple(widths.get(dim, (0, 0))[0] for dim in inner.dims)
        self.shape = tuple(n + sum(widths.get(d, (0, 0))) for d, n in inner.sizes.items())
        self.dtype = inner.dtype

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        """Return the selection `key`; nothing is read for samples outside."""
        found = explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)
        return np.asarray(found)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        chosen = [np.arange(n)[index] for n, index in zip(self.shape, key, strict=True)]
        result = np.full([each.size for each in chosen], self.fill, self.dtype)
        inside, wanted = [], []
        for each, first, size in zip(chosen, self.before, self.inner.shape, strict=True):
            at = np.atleast_1d(each) - first
            valid = np.flatnonzero((at >= 0) & (at < size))
            inside.append(valid)
            wanted.append(as_slice(at[valid]))
        if all(each.size for each in inside):
            result[np.ix_(*inside)] = self.inner[tuple(wanted)].to_numpy()
        return result.reshape([n for each in chosen for n in each.shape])


def as_slice(positions: np.ndarray) -> slice | np.ndarray:
    """Return positions as a slice if they are evenly spaced and ascend.

    >>> as_slice(np.array([4, 5, 6])), as_slice(np.array([4, 5, 7]))
    (slice(4, 7, 1), array([4, 5, 7]))
    """
    if not positions.size:
        return slice(0, 0)
    step = int(positions[1] - positions[0]) if positions.size > 1 else 1
    even = step > 0 and bool((np.diff(positions) == step).all())
    return slice(int(positions[0]), int(positions[-1]) + 1, step) if even else positions
