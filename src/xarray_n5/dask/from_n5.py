"""Dask arrays from stored chunks: one task per chunk, or per several whole chunks."""

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
    """Open a stored array as a Dask array, by default with one block for each stored chunk.

    Takes milliseconds however many chunks there are; nothing but metadata is read. After ``import
    xarray_n5``, it is also ``dask.array.from_n5``.

    Parameters
    ----------
    url : str, os.PathLike, store or Array
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store. Or an open :class:`Array`.
    component : str, optional
        The path of the array in the container; by default the container itself.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    chunks : None, "auto", int, str, tuple or dict, optional
        None for the stored chunks; "auto" for whole multiples of them of 16 to 32 MiB (or Dask's
        ``array.chunk-size``, if that is less), and for whole shards that are no larger than that
        setting; a number of bytes such as "16 MiB" for whole multiples of up to that; or anything
        that Dask accepts, in which these may be given for single axes.
    name : str, optional
        The name of the array in the graph; by default made of its URL, its metadata and the time of
        their last change. Chunks that change later do not change the name.
    inline_array : bool, default: True
        Whether each task holds the (small) array handle itself, which keeps slicing cheap.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; detected by default.
    axis_order : {"C", "F"}, default: "C"
        "F" reverses the order of axes: that of ``dimensions``, as in Java.
    attribute_order : {"auto", "C", "N5"}, default: "auto"
        The order of lists of axes in attributes, such as ``resolution``: "C" for the order of
        NumPy, "N5" for x first; "auto" for that of the programs that write the dialect. It is
        passed to :func:`open_array`; a Dask array has no coordinates.
    missing : {"fill", "error"}, default: "fill"
        "fill" reads chunks that are not stored as the fill value; "error" raises for them.
    metadata : mapping, optional
        Members of ``attributes.json`` (in N5 order) that the array must have exactly.
    asarray : bool, default: True
        Whether blocks are converted to NumPy arrays, as in :func:`dask.array.from_array`.
    label_multisets : {"error", "argmax", "count"}, default: "error"
        How to read Paintera's label multisets: "argmax" as their most frequent labels (uint64),
        "count" as the numbers of votes for these labels (int32); "error" raises.
    skip_missing : bool, default: False
        Whether to list the stored chunks now, and to read no others later: a reduction of a sparse
        volume then requests existing files only. Chunks that are written after that are not seen.

    Returns
    -------
    dask.array.Array
        The array, lazily.

    Raises
    ------
    NodeNotFoundError
        If no array exists at this path.
    MetadataError
        If its metadata are invalid, or differ from `metadata`, or `chunks` has a size of 0 or less.
    ChunkError
        When it is computed: if a chunk cannot be decoded.

    Warns
    -----
    dask.array.PerformanceWarning
        If blocks cut stored chunks, or there are over a thousand of less than 1 MiB: a task costs
        Dask a fraction of a millisecond, and a cluster several times that.

    Examples
    --------
    >>> _ = xarray_n5.create_array("cells.n5", "raw", shape=(8, 6), dtype="uint8", chunks=(2, 3))
    >>> lazy = xarray_n5.from_n5("cells.n5", "raw")
    >>> lazy.chunks
    ((2, 2, 2, 2), (3, 3))
    >>> xarray_n5.from_n5("cells.n5", "raw", chunks=(4, -1)).numblocks
    (2, 1)
    >>> int(lazy.sum().compute())
    0
    """
    if isinstance(url, Array):
        if component or storage_options or format or metadata:
            raise TypeError(
                "an Array is already open: options can only be passed with a path or URL"
            )
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
    """Return an array as a Dask array with these blocks."""
    source = bare(array)
    token = tokenize(source, io_of(array).etag(), spell(blocks))
    named = name or f"{label('from_n5', array.name)}-{token}"
    if skip_missing:
        # A later listing may differ, and so must the name.
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
    """Return an object that slices index as a Dask array with these blocks, one task per block."""
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
