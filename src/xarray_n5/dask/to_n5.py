"""Store Dask arrays: each stored chunk is written by one task, once, whole.

What writes is imported when it is called, so that those who only read need not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from dask.base import is_dask_collection

from xarray_n5.dask.block_sizes import choose
from xarray_n5.dask.from_n5 import _lazy
from xarray_n5.model.keywords import suggest_keywords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import dask.array as da
    import xarray as xr
    from dask.delayed import Delayed

    from xarray_n5.arrays.chunk_io import EdgeChunks
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.writing.request import PartialChunks


@suggest_keywords
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
    shards: Sequence[int] | int | Literal["auto"] | None = None,
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
    compression, attributes, axes, dialect, layout, shards
        As in :func:`~xarray_n5.create_array`. A shard is written by one task, from one block.
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
        (XXH3 of them in C order, little-endian, as far as the array reaches), the ``seconds``
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
    from xarray_n5.writing.completed import remember
    from xarray_n5.writing.plan import plan_write
    from xarray_n5.writing.request import WriteOptions, WriteRequest
    from xarray_n5.writing.tasks import write_lazily, write_when_read
    from xarray_n5.writing.transaction import compute_alone

    marked = compute or not return_stored
    if not marked and (resume or checksums):
        raise ValueError("a write whose blocks are returned has no end: no resume, no checksums")
    options = WriteOptions.into(
        url,
        storage_options=storage_options,
        format=format,
        computed=compute,
        fsync=fsync,
        sources=[arr] if is_dask_collection(arr) else [],
        mode=mode,
        align_chunks=align_chunks,
        partial_chunks=partial_chunks,
        write_empty_chunks=write_empty_chunks,
        edge_chunks=edge_chunks,
        resume=resume,
        checksums=checksums,
    )
    request = WriteRequest.of(
        arr,
        options.path(component or ""),
        options,
        mode=mode,
        region=region,
        chunks=chunks,
        shards=shards,
        compression=compression,
        attributes=attributes,
        axes=axes,
        dialect=dialect,
        layout=layout,
        deferred=not compute,
    )
    plan = plan_write(request).begin(marked=marked)
    if not marked:
        return write_when_read(plan.source, plan.write.target, plan.write.start)
    if not compute:
        return write_lazily(plan.source, plan.write, plan.before)
    report = compute_alone(plan)
    if resume and mode == "w-" and region is None:
        remember(plan.write.marker)
    if not return_stored:
        return report
    where = tuple(slice(s, s + n) for s, n in zip(plan.write.start, plan.source.shape, strict=True))
    return cast("da.Array", _lazy(plan.target, choose(None, plan.target))[where])
