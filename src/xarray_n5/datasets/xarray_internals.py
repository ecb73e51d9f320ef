"""Undocumented names of xarray; no other file imports them."""

from typing import Any

from xarray.backends.common import ensure_dtype_not_object
from xarray.backends.zarr import encode_zarr_variable
from xarray.coding.strings import CharacterArrayCoder, EncodedStringCoder
from xarray.conventions import (
    CF_RELATED_DATA,
    cf_encoder,
    decode_cf_variable,
    decode_cf_variables,
    encode_dataset_coordinates,
)
from xarray.core.indexing import (
    ExplicitIndexer,
    IndexingSupport,
    LazilyIndexedArray,
    VectorizedIndexer,
    explicit_indexing_adapter,
)
from xarray.namedarray.parallelcompat import get_chunked_array_type

__all__ = [
    "CF_RELATED_DATA",
    "CharacterArrayCoder",
    "EncodedStringCoder",
    "ExplicitIndexer",
    "IndexingSupport",
    "LazilyIndexedArray",
    "VectorizedIndexer",
    "cf_encoder",
    "decode_cf_variable",
    "decode_cf_variables",
    "encode_dataset_coordinates",
    "encode_zarr_variable",
    "ensure_dtype_not_object",
    "explicit_indexing_adapter",
    "is_of_chunk_manager",
]


def is_of_chunk_manager(data: Any) -> bool:
    """Return whether a Dask collection has the array type of xarray's chunk manager for it."""
    return isinstance(data, get_chunked_array_type(data).array_cls)
