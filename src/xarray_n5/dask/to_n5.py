"""Store Dask arrays: each stored chunk is written by one task, once, whole.

Modules that write are imported on first use, to keep the import fast for readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import dask.array as da
    import numpy.typing as npt
    import xarray as xr

    from xarray_n5.arrays.node import EdgeChunks
    from xarray_n5.arrays.spec import Mode
    from xarray_n5.formats import FormatName
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.metadata import Compression
    from xarray_n5.writing.deferred import DeferredWrite
    from xarray_n5.writing.report import WriteReport

    class _Options(TypedDict, total=False):
        """The keywords that do not change what :func:`to_n5` returns."""

        mode: Mode
        chunks: Sequence[int] | int | Literal["auto"] | None
        compression: str | Mapping[str, Any] | Compression | None
        attributes: Mapping[str, Any] | None
        axes: Iterable[Axis | str | None] | Geometry | None
        safe_chunks: bool
        write_empty_chunks: bool
        edge_chunks: EdgeChunks
        format: FormatName | None
        dialect: str | Iterable[str] | None
        layout: Mapping[str, Any] | None
        resume: bool | str
        shards: Sequence[int] | int | Literal["auto"] | None


@overload
def to_n5(
    arr: da.Array | xr.DataArray | npt.ArrayLike,
    url: object,
    component: str | None = ...,
    storage_options: Mapping[str, Any] | None = ...,
    region: slice | Sequence[slice] | None = ...,
    compute: Literal[True] = ...,
    **options: Unpack[_Options],
) -> WriteReport: ...


@overload
def to_n5(
    arr: da.Array | xr.DataArray | npt.ArrayLike,
    url: object,
    component: str | None = ...,
    storage_options: Mapping[str, Any] | None = ...,
    region: slice | Sequence[slice] | None = ...,
    *,
    compute: Literal[False],
    **options: Unpack[_Options],
) -> DeferredWrite: ...


@overload
def to_n5(
    arr: da.Array | xr.DataArray | npt.ArrayLike,
    url: object,
    component: str | None = ...,
    storage_options: Mapping[str, Any] | None = ...,
    region: slice | Sequence[slice] | None = ...,
    *,
    compute: bool,
    **options: Unpack[_Options],
) -> WriteReport | DeferredWrite: ...


def to_n5(
    arr: da.Array | xr.DataArray | npt.ArrayLike,
    url: object,
    component: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    region: slice | Sequence[slice] | None = None,
    compute: bool = True,
    mode: Mode = "w-",
    *,
    chunks: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "gzip",
    attributes: Mapping[str, Any] | None = None,
    axes: Iterable[Axis | str | None] | Geometry | None = None,
    safe_chunks: bool = True,
    write_empty_chunks: bool = True,
    edge_chunks: EdgeChunks = "truncate",
    format: FormatName | None = None,
    dialect: str | Iterable[str] | None = None,
    layout: Mapping[str, Any] | None = None,
    resume: bool | str = False,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
) -> WriteReport | DeferredWrite:
    """Store a Dask array: one task writes each stored chunk, once and whole.

    Metadata are written at once, chunks when the result is computed. Blocks that cut stored chunks
    are merged or split on the stored grid first. Until the last chunk is written, a record in a
    hidden folder of the array says that the write is unfinished. After ``import xarray_n5``, it is
    also ``dask.array.to_n5``.

    Parameters
    ----------
    arr : dask.array.Array, xarray.DataArray or array_like
        The values. A DataArray brings the names, the regular coordinates and the units of its axes,
        unless `axes` are given.
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    component : str, optional
        The path of the array in the container; by default the container itself.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    region : slice or sequence of slice, optional
        The part of an existing array to write into: a slice of step 1 for each axis.
    compute : bool, default: True
        Whether to compute now. Otherwise the array is created, and remains a template until its
        first block is computed: regions may be written into it meanwhile. What is returned can be
        computed by Dask, or saved for processes that compute shares of it.
    mode : {"w-", "w", "a", "r+"}, default: "w-"
        "w-" creates the array, and raises if something exists; "w" replaces an existing array; "a"
        creates the array, or writes into an existing one of the same shape, dtype and chunks (if
        given), and adds the attributes; "r+" does only the latter. With `region`, always "r+".
    chunks : sequence of int, int or "auto", optional
        The shape of a stored chunk; "auto" for about 2^20 elements. By default that of the Dask
        blocks (the largest along each axis), or of the existing array; "auto" for other arrays than
        Dask's. One side, and "auto", are for the axes of space, if `axes` names them: along those
        of time, channels and others, a chunk has one sample.
    compression : str, mapping, Compression or None, default: "gzip"
        A name, such as "zstd"; the JSON object of ``attributes.json``, such as ``{"type": "gzip",
        "level": 1}``; a compression; or None for uncompressed chunks.
    attributes : mapping, optional
        The attributes of the user; JSON values.
    axes : iterable of Axis, str or None, or Geometry, optional
        For each axis, in C order, an :class:`Axis`, a name or None.
    safe_chunks : bool, default: True
        Whether to refuse a region whose edges cut stored chunks, except at the end of the array:
        another process may be writing the rest of such a chunk. Otherwise these chunks are read,
        merged and replaced, each by one task; no other write of them may run meanwhile. Blocks of
        Dask never share stored chunks: they are merged or split first.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros. Where Zarr defines no fill value, all
        are stored.
    edge_chunks : {"truncate", "pad"}, default: "truncate"
        "truncate" stores chunks at the ends of the array clipped to it; "pad" stores them at full
        size.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; by default that of an existing container. For a new one, it is
        guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
    dialect : str or iterable of str, optional
        The metadata dialects to write `axes` in; by default those that TensorStore, Neuroglancer
        and Fiji read.
    layout : mapping, optional
        How the format stores elements, in its own terms, such as "fill_value" in Zarr; see
        :func:`create_array`.
    resume : bool or str, default: False
        Resume an interrupted write: blocks whose chunks have been written are not computed again. A
        write that has not begun begins as `mode` says; one that has finished returns its report at
        once. Data, axes, attributes, options and the files with your functions must be the same in
        each run. If the Dask name of the data is not, give a string instead of True; the token of
        an unfinished write, which errors name, continues it as it is.
    shards : sequence of int, int or "auto", optional
        The shape of shards, files that hold several chunks, in Zarr v3; see :func:`create_array`.
        One task writes each shard, from one block.

    Returns
    -------
    WriteReport or DeferredWrite
        The report: its `written` and `kept` chunks, its `nbytes` and `seconds`, and the receipt of
        each chunk in ``report.to_datatree()``. With ``compute=False``, a Delayed that computes to
        it.

    Raises
    ------
    AlignmentError
        If a region cuts stored chunks, and `safe_chunks` is True.
    ResumeError
        If the unfinished write is another one than that to `resume`.
    NodeExistsError
        If something exists that `mode` does not allow to replace. Nothing was written.
    MetadataError
        If the format cannot hold the array, or the existing array does not agree. Nothing was
        written.

    Examples
    --------
    >>> values = da.arange(24, chunks=6).reshape(4, 6).astype("uint8")
    >>> report = xarray_n5.to_n5(values, "cells.n5", "raw", chunks=(2, 3))
    >>> report.written
    4
    >>> xarray_n5.open_array("cells.n5", "raw")[1]
    array([ 6,  7,  8,  9, 10, 11], dtype=uint8)

    Write a region, and later:

    >>> write = xarray_n5.to_n5(
    ...     da.zeros((2, 6), dtype="uint8"),
    ...     "cells.n5",
    ...     "raw",
    ...     region=(slice(2, 4), slice(0, 6)),
    ...     compute=False,
    ... )
    >>> _ = write.compute()
    """
    from xarray_n5.arrays.spec import ArraySpec
    from xarray_n5.writing.deferred import DeferredWrite
    from xarray_n5.writing.options import WriteOptions
    from xarray_n5.writing.plan import plan_write
    from xarray_n5.writing.request import WriteRequest
    from xarray_n5.writing.run import write_all

    options = WriteOptions.into(
        url,
        storage_options=storage_options,
        format=format,
        computed=compute,
        mode=mode,
        safe_chunks=safe_chunks,
        write_empty_chunks=write_empty_chunks,
        edge_chunks=edge_chunks,
        resume=resume,
    )
    spec = ArraySpec(
        path=options.path(component or ""),
        mode=mode,
        chunks=chunks,
        shards=shards,
        compression=compression,
        axes=axes,
        dialect=dialect,
        attributes=attributes,
        layout=layout,
    )
    request = WriteRequest.of(arr, spec, options, region=region)
    plans = {"": plan_write(request)}
    return write_all(plans) if compute else DeferredWrite.of(plans, {}, None)
