"""Anything array-like as blocks of Dask, which do not share stored chunks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.spec import as_dtype
from xarray_n5.errors import MetadataError
from xarray_n5.graph import as_graph
from xarray_n5.model.chunking import align
from xarray_n5.model.grid import as_texts, normalize

if TYPE_CHECKING:
    from xarray_n5.arrays.array import Array


def blocks_of(arr: Any) -> da.Array:
    """Convert anything array-like to a Dask array.

    Raises
    ------
    ValueError
        If the size of a block is unknown.
    MetadataError
        If there are objects that are not strings, masked values, or no NumPy arrays to be had.
    """
    plain = as_graph(_unmasked(values_of(arr)[0]))
    source: da.Array = plain if is_dask_collection(plain) else as_graph(_as_dask(plain))
    if any(math.isnan(size) for size in source.shape):
        raise ValueError(
            "the array has blocks of unknown size; call its compute_chunk_sizes() first"
        )
    return source


def values_of(arr: Any, what: str = "the array") -> tuple[Any, str | None]:
    """Return the values of xarray's objects and of quantities, and the unit of quantities.

    Raises
    ------
    MetadataError
        If NumPy cannot have the values, or only all of them at once.
    """
    data = arr.data if isinstance(arr, xr.DataArray | xr.Variable) else arr
    unit = None
    # Quantities of pint, or those of astropy and unyt, which are arrays of NumPy.
    value = getattr(data, "value" if isinstance(data, np.ndarray) else "magnitude", None)
    if value is not None and (unit := getattr(data, "units", getattr(data, "unit", None))):
        data, unit = value, str(unit)
    sample = getattr(data, "_meta", None) if is_dask_collection(data) else data
    kind = f"{type(sample).__module__}.{type(sample).__qualname__}"
    chunks, shape = (getattr(sample, name, None) for name in ("chunks", "shape"))
    if isinstance(chunks, tuple) and any(isinstance(sizes, tuple) for sizes in chunks):
        raise MetadataError(
            f"{what} is chunked by another library than Dask ({kind}), and would be loaded "
            "whole; open it with Dask, in xarray with chunked_array_type='dask', or pass compute()"
        )
    if shape is not None and not hasattr(sample, "chunks"):
        dense = _as_dense(sample)
        if dense.shape != shape:
            raise MetadataError(
                f"{what}: expected values that NumPy can read, got {kind}; convert it to a NumPy "
                "array, such as with its toarray() or todense(), in Dask with map_blocks"
            )
        data = dense if sample is data else data
    return data, unit


def _as_dense(arr: Any) -> np.ndarray:
    """Return an array as NumPy sees it: an object without axes if it is refused a conversion."""
    try:
        return np.asanyarray(arr)
    except (RuntimeError, TypeError, ValueError):
        return np.array(None)


def _unmasked(arr: Any) -> Any:
    """Return values without a mask; raise if it masks any, since masks cannot be stored."""
    if isinstance(getattr(arr, "_meta", None), np.ma.MaskedArray):
        raise MetadataError(
            "the array is masked, and masks cannot be stored; fill it with "
            "dask.array.ma.filled(x, value)"
        )
    if not isinstance(arr, np.ma.MaskedArray):
        return arr
    if np.ma.is_masked(arr):
        raise MetadataError(
            "the array has masked values, and masks cannot be stored; fill them with "
            "x.filled(value)"
        )
    return arr.data


def _as_dask(arr: Any) -> da.Array:
    """Return an array as a Dask array; strings, whose size varies, in one block."""
    if not (isinstance(arr, np.ndarray) and arr.dtype.hasobject):
        # Dask's own name depends on what is imported; a resume compares names.
        return cast("da.Array", da.asarray(arr, name=f"array-{tokenize(arr)}"))
    try:
        return cast("da.Array", da.from_array(as_texts(arr), chunks=arr.shape))
    except TypeError as error:
        raise MetadataError(str(error)) from error


def aligned_blocks(source: da.Array, chunks: tuple[int, ...], start: tuple[int, ...]) -> da.Array:
    """Return `source` rechunked so that blocks do not share stored chunks."""
    blocks = tuple(map(align, source.chunks, chunks, start))
    return source if blocks == source.chunks else cast("da.Array", source.rechunk(blocks))


def region_start(region: tuple[slice, ...], source: da.Array, target: Array) -> tuple[int, ...]:
    """Return the start of `region` in `target`, after checking that `source` fits into it."""
    selection = normalize(region, target.shape)
    plain = all(item.step in {None, 1} for item in region)
    if not plain or selection.shape != source.shape:
        raise ValueError(
            f"expected a region of shape {source.shape}, the shape of the array; {region} of "
            f"{target.url!r}, whose shape is {target.shape}, has shape {selection.shape}; resize "
            "or select to fit, with steps of 1"
        )
    if target.dtype != as_dtype(source.dtype, target.url):
        raise MetadataError(
            f"{target.url} has type {target.dtype}, got {source.dtype}; convert with astype()"
        )
    return tuple(axis.start for axis in selection.axes if isinstance(axis, slice))
