"""Dask arrays from stored chunks and back: one task a chunk, or several whole ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, cast

import dask.array as da
import numpy as np
import xarray as xr
from dask.array.core import PerformanceWarning, normalize_chunks
from dask.base import compute as compute_now
from dask.base import is_dask_collection, tokenize
from dask.layers import ArraySliceDep
from dask.utils import parse_bytes

from xarray_n5.alerts import warn
from xarray_n5.array import Array
from xarray_n5.coordinates import geometry_from
from xarray_n5.creation import chunk_shape
from xarray_n5.errors import MetadataError
from xarray_n5.graphs import check_independent
from xarray_n5.group import create_array, open_array, open_existing
from xarray_n5.paths import normalize_path
from xarray_n5.planning import align, group_chunks
from xarray_n5.selection import normalize
from xarray_n5.storage import open_container

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dask.delayed import Delayed

    from xarray_n5.array import AxisOrder
    from xarray_n5.axes import Axis, Geometry
    from xarray_n5.chunks import EdgeChunks, Missing
    from xarray_n5.compression import Compression
    from xarray_n5.nodes import LabelMultisets

_AUTO = 1 << 26
"""The most bytes of a block that ``chunks="auto"`` chooses: 64 MiB."""

_MOST_BLOCKS = 1 << 24
"""The most blocks along an axis: dask keeps the size of each."""


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
        None for the stored chunks; "auto", or a number of bytes such as "16 MiB", for whole
        multiples of them; or what dask takes.
    name
        The name of the array in the graph; by default made of the place, the metadata and the
        time of their last change. Chunks that change later do not change it.
    inline_array
        Whether each task holds the (small) array handle itself, which keeps slicing cheap.
    format, axis_order, missing, metadata, label_multisets
        As in :func:`~xarray_n5.open_array`.
    asarray
        As in :func:`dask.array.from_array`.

    Returns
    -------
    dask.array.Array

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
    blocks = _blocks(chunks, array)
    source = array.bare()
    built: da.Array = da.from_array(
        source,
        chunks=blocks,
        name=name or f"from-n5-{tokenize(source, array.stamp(), blocks)}",
        inline_array=inline_array,
        asarray=asarray,
        fancy=True,
        lock=False,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )
    return built


def _blocks(chunks: Any, array: Array) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of dask's blocks along each axis."""
    if isinstance(chunks, str):
        limit = _AUTO if chunks == "auto" else parse_bytes(chunks)
        chunks = group_chunks(array.chunks, array.shape, array.dtype.itemsize, limit)
    stored = array.chunks if chunks is None else chunks
    if max(array.grid.counts, default=0) > _MOST_BLOCKS and not isinstance(chunks, tuple):
        raise ValueError(
            f"{array.url} has {array.grid.counts} chunks along its axes, too many for one graph; "
            "give larger chunks, or select a part with open_array(...)[...]"
        )
    blocks = normalize_chunks(
        stored, array.shape, dtype=array.dtype, previous_chunks=array.chunks, limit=_AUTO
    )
    for axis, (sizes, side) in enumerate(zip(blocks, array.chunks, strict=True)):
        cut = next((size for size in sizes[:-1] if size % side), None)
        if cut is not None:
            warn(
                f"along axis {axis}, blocks of {cut} cut stored chunks of {side}, which are then "
                f"read several times; choose multiples of {side}",
                PerformanceWarning,
            )
    return cast("tuple[tuple[int, ...], ...]", blocks)


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
    write_empty_chunks: bool = True,
    edge_chunks: EdgeChunks = "truncate",
    format: str | None = None,  # noqa: A002
    dialect: str | Iterable[str] | None = None,
) -> da.Array | Delayed | None:
    """Store a dask array, each chunk by one task, once, whole.

    The metadata are written at once, the chunks when the result is computed. Blocks that cut
    stored chunks are merged or split on the stored grid first.

    Parameters
    ----------
    arr
        A dask array, or anything that becomes one. A DataArray brings the names, the regular
        coordinates and the units of its axes, unless `axes` are given.
    url, component, storage_options, format
        As in :func:`from_n5`.
    region
        Where in an array that exists `arr` goes: a slice of step 1 for each axis. Chunks at
        its ends that it cuts are read, merged and replaced.
    compute
        Whether to compute now.
    return_stored
        Whether to return the stored array instead.
    mode
        As in :func:`~xarray_n5.create_array`; with `region`, always "r+".
    chunks
        The shape of a stored chunk; "auto" for about 2^20 elements; by default that of dask's
        blocks (the largest along each axis), or of the array that exists. What is no dask array
        has no blocks, and gets "auto".
    compression, attributes, axes, dialect
        As in :func:`~xarray_n5.create_array`.
    align_chunks
        Whether blocks may be merged or split on the stored grid.
    write_empty_chunks, edge_chunks
        As in :func:`~xarray_n5.open_array`.

    Returns
    -------
    None, Delayed or dask.array.Array
        Nothing if computed; with ``compute=False``, what computes to the number of chunks that
        were written; with `return_stored`, the stored array (of which ``compute=False`` writes
        each block when it is first computed).

    Raises
    ------
    AlignmentError
        If blocks cut stored chunks, and `align_chunks` is false.
    NodeExistsError, MetadataError
        As in :func:`~xarray_n5.create_array`. Nothing was written then.
    """
    if axes is None and region is None and isinstance(arr, xr.DataArray):
        axes = geometry_from(arr)
    source = arr if isinstance(arr, da.Array) else da.asarray(getattr(arr, "data", arr))
    if any(math.isnan(size) for size in source.shape):
        raise ValueError(
            "the array has blocks of unknown size; call its compute_chunk_sizes() first"
        )
    path = component or ""
    options: dict[str, Any] = {
        "storage_options": storage_options,
        "format": format,
        "write_empty_chunks": write_empty_chunks,
        "edge_chunks": edge_chunks,
    }
    start = (0,) * source.ndim
    if region is not None:
        fixed = {"chunks": chunks, "attributes": attributes, "axes": axes, "dialect": dialect}
        given = [name for name, value in fixed.items() if value is not None]
        if given:
            raise ValueError(f"a region goes into an array as it is; {given} cannot change it")
        target = open_array(url, path, mode="r+", **options)
        where = (region,) if isinstance(region, slice) else tuple(region)
        if not all(isinstance(item, slice) for item in where):
            raise ValueError(f"the region is {region!r}; one slice for each axis is needed")
        start = _region_start(where, source, target)
        aligned = _aligned(source, target.chunks, start, strict=not align_chunks)
    else:
        existing = open_existing(url, path, mode, **options)
        if chunks is None and existing is None and not is_dask_collection(arr):
            chunks = "auto"
        shape = _stored_shape(source, chunks, existing)
        if mode == "w":
            store, inner = open_container(url, normalize_path(path), storage_options)
            check_independent(source, [store.place(inner)])
        aligned = _aligned(source, shape, start, strict=not align_chunks)
        target = create_array(
            url,
            path,
            shape=source.shape,
            dtype=source.dtype,
            chunks=shape,
            compression=compression,
            axes=axes,
            attributes=attributes,
            mode=mode,
            dialect=dialect,
            **options,
        )
    return _run(aligned, target, start, compute=compute, return_stored=return_stored)


def _stored_shape(
    source: da.Array,
    chunks: Sequence[int] | int | Literal["auto"] | None,
    existing: Array | None,
) -> tuple[int, ...]:
    """Return the chunk shape to write: what was asked for, what is there, or dask's blocks."""
    if chunks is not None:
        return chunk_shape(chunks, source.shape)
    if existing is not None:
        return existing.chunks
    return tuple(max(1, *sizes) for sizes in source.chunks)


def _region_start(region: tuple[slice, ...], source: da.Array, target: Array) -> tuple[int, ...]:
    """Return where `region` begins in `target`, having made sure that `source` fits into it."""
    selection = normalize(region, target.shape)
    plain = all(item.step in {None, 1} for item in region)
    if not plain or selection.shape != source.shape:
        raise ValueError(
            f"the region {region} of {target.url}, whose shape is {target.shape}, covers "
            f"{selection.shape}, not the {source.shape} of the array; resize or select "
            "to fit, with steps of 1"
        )
    if target.dtype != source.dtype.newbyteorder("="):
        raise MetadataError(
            f"{target.url} holds {target.dtype}, not {source.dtype}; convert with astype()"
        )
    return tuple(axis.start for axis in selection.axes if isinstance(axis, slice))


def _aligned(
    source: da.Array, chunks: tuple[int, ...], start: tuple[int, ...], *, strict: bool
) -> da.Array:
    """Return `source` in blocks of which no two share a stored chunk."""
    blocks = tuple(
        align(sizes, side, first, axis=axis, strict=strict)
        for axis, (sizes, side, first) in enumerate(zip(source.chunks, chunks, start, strict=True))
    )
    return source if blocks == source.chunks else source.rechunk(blocks)


def _run(
    source: da.Array, target: Array, start: tuple[int, ...], *, compute: bool, return_stored: bool
) -> da.Array | Delayed | None:
    token = tokenize(source.name, target, start)
    # dask turns an ArraySliceDep among the arguments into each block's own slices.
    arguments: Any = (target.bare(), ArraySliceDep(source.chunks))
    if return_stored and not compute:
        name, meta = f"stored-n5-{token}", source._meta  # noqa: SLF001 - map_blocks asks for it
        writing: Any = source.map_blocks(
            cast("Any", _write_and_return), *arguments, start=start, name=name, meta=meta
        )
        return cast("da.Array", writing)
    counts: Any = source.map_blocks(
        cast("Any", _write),
        *arguments,
        start=start,
        name=f"to-n5-{token}",
        dtype=np.int64,
        chunks=tuple((1,) * len(sizes) for sizes in source.chunks),
        meta=np.empty((0,) * source.ndim, np.int64),
    )
    # A flat tree: few tasks more, and a lost worker takes few receipts with it.
    total = cast("Delayed", counts.sum(split_every=1000).to_delayed().item())
    if not compute:
        return total
    compute_now(total)
    if not return_stored:
        return None
    where = tuple(slice(s, s + n) for s, n in zip(start, source.shape, strict=True))
    return cast("da.Array", from_n5(target)[where])


def _write(
    block: np.ndarray, target: Array, where: tuple[slice, ...], start: tuple[int, ...]
) -> np.ndarray:
    """Write a block; return how many chunks it became, in an array of one."""
    target.check_visible()
    place = tuple(slice(w.start + s, w.stop + s) for w, s in zip(where, start, strict=True))
    ends = zip(place, target.shape, target.chunks, strict=True)
    if any(each.stop == size and size % side for each, size, side in ends):
        target = target.renewed()  # its last chunks reach further where it has grown
    return np.full((1,) * block.ndim, target.write(place, block), np.int64)


def _write_and_return(
    block: np.ndarray, target: Array, where: tuple[slice, ...], start: tuple[int, ...]
) -> np.ndarray:
    """Write a block; return it as it is stored."""
    _write(block, target, where, start)
    return block
