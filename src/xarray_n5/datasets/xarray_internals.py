"""Undocumented names of xarray; no other file imports them."""

from typing import Any

import numpy as np
import xarray as xr
from xarray.backends.common import ensure_dtype_not_object
from xarray.backends.zarr import encode_zarr_variable
from xarray.coding.strings import CharacterArrayCoder, EncodedStringCoder
from xarray.coding.times import _cleanup_netcdf_time_units as cleanup_netcdf_time_units
from xarray.conventions import (
    CF_RELATED_DATA,
    cf_encoder,
    decode_cf_variable,
    decode_cf_variables,
    encode_dataset_coordinates,
)
from xarray.core.indexing import (
    CopyOnWriteArray,
    ExplicitIndexer,
    ImplicitToExplicitIndexingAdapter,
    IndexingSupport,
    LazilyIndexedArray,
    LazilyVectorizedIndexedArray,
    MemoryCachedArray,
    VectorizedIndexer,
    explicit_indexing_adapter,
)
from xarray.namedarray.parallelcompat import get_chunked_array_type


def is_of_chunk_manager(data: Any) -> bool:
    """Return whether a Dask collection has the array type of xarray's chunk manager for it."""
    return isinstance(data, get_chunked_array_type(data).array_cls)


def is_in_memory(variable: xr.Variable) -> bool:
    """Return whether the values of a variable are in memory, without reading them."""
    return isinstance(variable._data, np.ndarray)  # noqa: SLF001
