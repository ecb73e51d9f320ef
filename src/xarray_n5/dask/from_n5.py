"""Dask arrays from stored chunks: one task for each chunk, or for several whole ones."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from xarray_n5.arrays.access import bare, io_of
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import open_array
from xarray_n5.dask.block_sizes import check_sizes, choose
from xarray_n5.dask.sparse import read_stored
from xarray_n5.graph import ARRAY_EXPRESSIONS, getter, in_one_layer, label, slices_of, spell
from xarray_n5.model.keywords import suggest_keywords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.array import AxisOrder
    from xarray_n5.arrays.chunk_io import Missing
    from xarray_n5.arrays.options import LabelMultisets
    from xarray_n5.dask.block_sizes import Chunked
    from xarray_n5.dialects.protocol import AttributeOrder


@suggest_keywords
def from_n5(
    url: object,
    component: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    chunks: Any = None,
    name: str | None = None,
    inline_array: bool = True,
    *,
    format: str | None = None,  # noqa: A002
    axis_order: AxisOrder = "C",
    attribute_order: AttributeOrder = "auto",
    missing: Missing = "fill",
    metadata: Mapping[str, Any] | None = None,
    asarray: bool = True,
    label_multisets: LabelMultisets = "error",
    skip_missing: bool = False,
) -> da.Array:
    """Return a stored array as a dask array, one block for each stored chunk.

    Building takes milliseconds however many chunks there are; nothing but metadata is read.

    Parameters
    ----------
    url
        The container: a path, an fsspec URL, a store, or an :class:`~xarray_n5.Array`.
    component
        The array's path in the container.
    storage_options
        What fsspec's filesystem takes.
    chunks
        None for the stored chunks; "auto" for whole multiples of them of 16 to 32 MiB (or dask's
        ``array.chunk-size``, where that is less), and for whole shards that are no larger than
        that setting; a number of bytes such as "16 MiB" for whole multiples of up to that; or what
        dask takes, in which these may stand for single axes.
    name
        The name of the array in the graph; by default made of the place, the metadata and the
        time of their last change. Chunks that change later do not change it.
    inline_array
        Whether each task holds the (small) array handle itself, which keeps slicing cheap.
    format, axis_order, missing, metadata, label_multisets
        As in :func:`~xarray_n5.open_array`.
    attribute_order
        As in :func:`~xarray_n5.open_array`, which it is passed to; a dask array has no coordinates.
    asarray
        As in :func:`dask.array.from_array`.
    skip_missing
        Whether to list the chunks that are stored now, and to read no others later: of a sparse
        volume, a reduction then asks for existing files alone. A chunk that is written after
        that is not seen.

    Returns
    -------
    dask.array.Array

    Warns
    -----
    dask.array.PerformanceWarning
        If blocks cut stored chunks, or there are over a thousand of less than 1 MiB: a task costs
        Dask a fraction of a millisecond, and a cluster several times that.

    Raises
    ------
    NodeNotFoundError, MetadataError
        As in :func:`~xarray_n5.open_array`.
    """
    if isinstance(url, Array):
        if component or storage_options or format or metadata:
            raise TypeError("an Array is open already; options are for places only")
        array = url
    else:
        array = open_array(
            url,
            component or "",
            storage_options=storage_options,
            format=format,
            metadata=metadata,
            axis_order=axis_order,
            attribute_order=attribute_order,
            missing=missing,
            label_multisets=label_multisets,
        )
    blocks = choose(chunks, array)
    check_sizes(blocks, array)
    return _lazy(array, blocks, name, skip_missing, inline_array=inline_array, asarray=asarray)


def _lazy(
    array: Array,
    blocks: tuple[tuple[int, ...], ...],
    name: str | None = None,
    skip_missing: bool = False,
    *,
    inline_array: bool = True,
    asarray: bool = True,
) -> da.Array:
    """Return an array as a dask array of such blocks."""
    source = bare(array)
    token = tokenize(source, io_of(array).etag(), spell(blocks))
    named = name or f"{label('from_n5', array.name)}-{token}"
    if skip_missing:
        # What is listed later may be something else: so is the name.
        return read_stored(source, blocks, name or f"{named}-{uuid.uuid4().hex[:8]}")
    return as_blocks(source, blocks, named, inline_array=inline_array, asarray=asarray)


def as_blocks(
    source: Chunked,
    blocks: tuple[tuple[int, ...], ...],
    name: str,
    *,
    inline_array: bool = True,
    asarray: bool = True,
) -> da.Array:
    """Return what is indexed by slices as a dask array of such blocks, one task for each."""
    if inline_array and not ARRAY_EXPRESSIONS:
        options = {} if asarray else {"asarray": False, "lock": False}
        where = slices_of(blocks)
        return in_one_layer(name, getter, source, where, blocks, source.dtype, **options)
    built: da.Array = da.from_array(
        source,
        chunks=blocks,
        name=name,
        inline_array=inline_array,
        asarray=asarray,
        fancy=True,
        lock=False,
        meta=np.empty((0,) * source.ndim, source.dtype),
    )
    return built
