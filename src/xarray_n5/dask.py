"""Dask arrays from stored chunks and back: one task a chunk, or several whole ones."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import dask.array as da
import numpy as np
from dask.array import core
from dask.array.core import getter
from dask.base import tokenize

from xarray_n5.array import Array
from xarray_n5.block_sizes import check_sizes, choose
from xarray_n5.blocks import in_one_layer, label, slices_of, spell
from xarray_n5.group import open_array
from xarray_n5.sparse import read_stored
from xarray_n5.writing.beginning import start
from xarray_n5.writing.finished import remember
from xarray_n5.writing.orders import Order
from xarray_n5.writing.storing import end, run, write_lazily, write_when_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import xarray as xr
    from dask.delayed import Delayed

    from xarray_n5.array import AxisOrder
    from xarray_n5.axes import Axis, Geometry
    from xarray_n5.chunks import EdgeChunks, Missing
    from xarray_n5.compression import Compression
    from xarray_n5.nodes import LabelMultisets
    from xarray_n5.writing.orders import PartialChunks


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
        ``array.chunk-size``, where that is less); a number of bytes such as "16 MiB" for whole
        multiples of up to that; or what dask takes, in which these may stand for single axes.
    name
        The name of the array in the graph; by default made of the place, the metadata and the
        time of their last change. Chunks that change later do not change it.
    inline_array
        Whether each task holds the (small) array handle itself, which keeps slicing cheap.
    format, axis_order, missing, metadata, label_multisets
        As in :func:`~xarray_n5.open_array`.
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
    source = array.bare()
    token = tokenize(source, array.stamp(), spell(blocks))
    named = name or f"{label('from_n5', array.name)}-{token}"
    if skip_missing:
        # What is listed later may be something else: so is the name.
        return read_stored(source, blocks, name or f"{named}-{uuid.uuid4().hex[:8]}")
    if inline_array and da.Array is core.Array:  # which array expressions replace
        options = {} if asarray else {"asarray": False, "lock": False}
        where = slices_of(blocks)
        return in_one_layer(named, getter, source, where, blocks, array.dtype, **options)
    built: da.Array = da.from_array(
        source,
        chunks=blocks,
        name=named,
        inline_array=inline_array,
        asarray=asarray,
        fancy=True,
        lock=False,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )
    return built


def to_n5(
    arr: Any,
    url: object,
    component: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    region: slice | Sequence[slice] | None = None,
    compute: bool = True,
    return_stored: bool = False,
    mode: Literal["w-", "w", "a", "r+"] = "w-",
    *,
    chunks: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "gzip",
    attributes: Mapping[str, Any] | None = None,
    axes: Iterable[Axis | str | None] | Geometry | None = None,
    align_chunks: bool = True,
    partial_chunks: PartialChunks = "error",
    write_empty_chunks: bool = True,
    edge_chunks: EdgeChunks = "truncate",
    format: str | None = None,  # noqa: A002
    dialect: str | Iterable[str] | None = None,
    layout: Mapping[str, Any] | None = None,
    resume: bool | str = False,
    checksums: bool = False,
    fsync: bool = False,
) -> xr.Dataset | da.Array | Delayed:
    """Store a dask array, each chunk by one task, once, whole.

    The metadata are written at once, the chunks when the result is computed. Blocks that cut
    stored chunks are merged or split on the stored grid first. Until the last chunk is written, a
    hidden folder in the array's tells that the write goes on.

    Parameters
    ----------
    arr
        A dask array, or anything that becomes one. A DataArray brings the names, the regular
        coordinates and the units of its axes, unless `axes` are given.
    url, component, storage_options, format
        As in :func:`from_n5`.
    region
        Where in an array that exists `arr` goes: a slice of step 1 for each axis.
    compute
        Whether to compute now. Otherwise the write is only planned until its first block is
        computed: other writes may go into the array, and revoke what was planned of their chunks.
    return_stored
        Whether to return the stored array instead.
    mode
        As in :func:`~xarray_n5.create_array`; with `region`, always "r+".
    chunks
        The shape of a stored chunk; "auto" for about 2^20 elements; by default that of dask's
        blocks (the largest along each axis), or of the array that exists. What is no dask array
        has no blocks, and gets "auto".
    compression, attributes, axes, dialect, layout
        As in :func:`~xarray_n5.create_array`.
    align_chunks
        Whether blocks may be merged or split on the stored grid.
    partial_chunks
        "error" refuses a region whose edges cut stored chunks, except at the end of the array:
        another process may be writing the rest of such a chunk. "merge" reads these chunks, merges
        and replaces them, each by one task; no other write of the same chunks may run meanwhile.
    write_empty_chunks, edge_chunks
        As in :func:`~xarray_n5.open_array`.
    resume
        Whether to resume an interrupted write: blocks whose chunks have been written are not
        computed again. A write that has not begun begins as `mode` says; one that has ended returns
        its report, if nothing has changed since. The array's name in Dask must be the same in
        each run, as it is where its parts are known to Dask; otherwise give a string instead.
    checksums
        Whether to keep a digest of each chunk beside the data, for :func:`verify`.
    fsync
        Whether each chunk is flushed to disk before the next: it outlives a power cut then.

    Returns
    -------
    xarray.Dataset, Delayed or dask.array.Array
        Receipts on the chunk grid: each chunk's stored ``bytes``, the ``digest`` of its elements
        (xxh64 of them in C order, little-endian, as far as the array reaches), the ``seconds``
        that it took and the ``worker`` that wrote it. With ``compute=False``, what computes to
        them; with `return_stored`, the stored array (of which ``compute=False`` writes each block
        when it is first computed).

    Raises
    ------
    AlignmentError
        If blocks cut stored chunks, and `align_chunks` is false; if a region cuts stored chunks,
        and `partial_chunks` is "error".
    ResumeError
        If an unfinished write is there, but another one than that to `resume`.
    NodeExistsError, MetadataError
        As in :func:`~xarray_n5.create_array`. Nothing was written then.
    """
    marked = compute or not return_stored
    if not marked and (resume or checksums):
        raise ValueError("a write whose blocks are returned has no end: no resume, no checksums")
    begun = start(
        arr,
        url,
        component or "",
        marked=marked,
        computed=compute,
        storage_options=storage_options,
        fsync=fsync,
        order=Order(
            mode=mode,
            region=region,
            chunks=chunks,
            compression=compression,
            attributes=attributes,
            axes=axes,
            dialect=dialect,
            layout=layout,
            align_chunks=align_chunks,
            partial_chunks=partial_chunks,
            write_empty_chunks=write_empty_chunks,
            edge_chunks=edge_chunks,
            format=format,
            resume=resume,
            checksums=checksums,
            deferred=not compute,
        ),
    )
    if begun.write is None:
        return write_when_read(begun.source, begun.target, begun.start)
    if not compute:
        return write_lazily(begun.source, begun.write, begun.before)
    # Ended here: no worker can be lost that had ended it.
    write = replace(begun.write, part=True)
    receipts = run(write_lazily(begun.source, write, begun.before), [write])
    end(write)
    if resume and mode == "w-" and region is None:
        remember(write.underway)
    if not return_stored:
        return cast("xr.Dataset", receipts)
    where = tuple(slice(s, s + n) for s, n in zip(begun.start, begun.source.shape, strict=True))
    return cast("da.Array", _lazy(begun.target, choose(None, begun.target))[where])
