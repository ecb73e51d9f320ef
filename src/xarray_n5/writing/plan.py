"""How a write begins: its array is found, made or gone on with, all checked before a byte goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.create import (
    ArrayPlan,
    as_dtype,
    check_agreement,
    chunk_shape,
    plan_array,
)
from xarray_n5.arrays.detect import open_place
from xarray_n5.arrays.group import open_array, open_existing
from xarray_n5.arrays.marker import WriteMarker
from xarray_n5.codecs import resolve
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.formats import FORMATS
from xarray_n5.model.chunking import check_region
from xarray_n5.model.indexing import normalize
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.writing.finished import NOT_UNFINISHED, is_finished
from xarray_n5.writing.inputs import aligned_blocks, blocks_of, names_of
from xarray_n5.writing.resume import (
    forget_overlapped,
    renew,
    resume,
    sweep_documents,
)
from xarray_n5.writing.self_reads import check_independent, check_one_process
from xarray_n5.writing.writes import Write

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.receipts import Receipts
    from xarray_n5.writing.request import WriteRequest


@dataclass(frozen=True, slots=True)
class Begun:
    """A write that can be computed."""

    source: da.Array
    """Blocks that share no chunks."""
    target: Array
    start: tuple[int, ...]
    write: Write | None = None
    """None where nobody will know of its end."""
    before: Receipts | None = None
    """What an earlier run has done."""


def start(
    arr: Any,
    url: object,
    path: str,
    order: WriteRequest,
    *,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool = False,
    marked: bool = True,
    only_check: bool = False,
    computed: bool = False,
) -> Begun:
    """Begin to write anything that becomes a dask array, at a place that a user names.

    Raises
    ------
    ValueError
        If the array's shape is not known; else as :func:`begin`.
    """
    axes = order.axes
    if axes is None and order.region is None and isinstance(arr, xr.DataArray):
        axes = geometry_from(arr)
    source = blocks_of(arr)
    store, path = open_place(url, path, storage_options, order.format, writable=True)
    if computed and store.one_writer:
        check_one_process(store.url, source)
    chunks = order.chunks
    if chunks is None and order.region is None and not is_dask_collection(arr):
        there = open_existing(store, path, order.mode, format=order.format)
        chunks = "auto" if there is None else None
    complete = replace(
        order,
        store=store.with_fsync() if fsync else store,
        path=path,
        axes=axes,
        chunks=chunks,
        dims=order.dims or names_of(arr, axes, source.ndim),
    )
    begun = begin(source, complete, marked=marked, only_check=only_check)
    if begun.write is not None and not only_check and not begun.write.fresh:
        forget_overlapped(begun.write)
    return begun


def begin(
    source: da.Array, order: WriteRequest, *, marked: bool = True, only_check: bool = False
) -> Begun:
    """Find or make the array of a write, and leave its mark.

    Parameters
    ----------
    source
        What is written.
    order
        Where and how.
    marked
        Whether the write has an end at which its mark is removed.
    only_check
        Whether only to look for unfinished writes that this one must not meet.

    Raises
    ------
    AlignmentError, MetadataError, NodeExistsError, ResumeError, ValueError
        As :func:`xarray_n5.to_n5` says. Nothing was written then.
    """
    if order.resume and not only_check:
        documents = [name for form in FORMATS.values() for name in form.documents]
        sweep_documents(order.store, order.path, documents)
    there, start = _find(source, order)
    again = order.resume and there is not None
    if (there is not None or order.mode == "w") and (order.resume or not order.adds):
        place = order.store.identity(order.path)
        check_independent(source, [place], exists=lambda: _is_there(order))
    sides = _sides(source, order, there)
    if order.region is not None and there is not None and order.partial_chunks == "error":
        check_region(start, source.shape, there.shape, there.chunks, url=there.url)
    aligned = aligned_blocks(source, sides, start, strict=not order.align_chunks)
    token = _token(source, order, sides, start, there)
    found = _go_on(there, source, aligned, order, token, start)
    if found is not None and found.write is not None and not only_check:
        renew(found.write, deferred=order.deferred)
    if found is not None or only_check:
        return found or Begun(aligned, cast("Array", there), start)
    if again and there is not None and order.mode == "w-" and order.region is None:
        return _ended(source, aligned, order, there, token)
    plan = _planned(source, order, sides, there)
    if plan.existing is None:
        plan = plan.make_room()
        write = _mark(plan.array, order, token, aligned, start, fresh=True) if marked else None
        target = plan.create()
    else:
        target = plan.create()
        write = _mark(target, order, token, aligned, start, fresh=False) if marked else None
    return Begun(aligned, target.bare(), start, write)


def _mark(
    target: Array,
    order: WriteRequest,
    token: str,
    source: da.Array,
    start: tuple[int, ...],
    *,
    fresh: bool,
) -> Write:
    """Return a write that begins, having left its marker."""
    write = _write(target, order, token, source, start, fresh=fresh)
    write = replace(write, planned=write.deferred)
    write.leave_mark()
    return write


def _is_there(order: WriteRequest) -> bool:
    return open_existing(order.store, order.path, "a") is not None


def _ended(
    source: da.Array, aligned: da.Array, order: WriteRequest, there: Array, token: str
) -> Begun:
    """Return a write that has ended, with nothing left to do; raise if it is not known to be it."""
    start = (0,) * source.ndim
    write = _write(there, order, token, aligned, start, fresh=True)
    if not is_finished(write.underway):
        _refuse_ended(source, order, there)
    write.underway.begin({**write.facts(), "done": True})
    return Begun(aligned, there.bare(), start, *cast("tuple[Any, Any]", resume(write)))


def _refuse_ended(source: da.Array, order: WriteRequest, there: Array) -> NoReturn:
    """Raise where an array is there, and no write of it is under way."""
    found = f"an array, {there.shape} {there.dtype}"
    if (there.shape, there.dtype) == (source.shape, as_dtype(source.dtype, there.url)):
        raise NodeExistsError(order.store.url, order.path, found, NOT_UNFINISHED)
    hint = (
        f"nothing of it is unfinished, and it is another than {source.shape} {source.dtype}: "
        "choose another path, or replace it with mode='w'"
    )
    raise NodeExistsError(order.store.url, order.path, found, hint)


def _planned(
    source: da.Array, order: WriteRequest, sides: tuple[int, ...], there: Array | None
) -> ArrayPlan:
    """Plan an array, or the one that is there."""
    if there is not None and order.region is not None:
        return ArrayPlan(array=there, existing=there)
    return plan_array(
        order.store,
        order.path,
        shape=source.shape,
        dtype=source.dtype,
        chunks=sides,
        compression=order.compression,
        axes=order.axes,
        attributes=order.attributes,
        mode=order.mode,
        dialect=order.dialect,
        layout=order.layout,
        **order.opening,
    )


def _token(
    source: da.Array,
    order: WriteRequest,
    sides: tuple[int, ...],
    start: tuple[int, ...],
    there: Array | None,
) -> str:
    """Return what tells this write from every other into the array."""
    stays = there is not None and order.stays
    kept = there.metadata.compression if there is not None and stays else resolve(order.compression)
    return tokenize(
        *(order.resume if isinstance(order.resume, str) else source.name, source.shape),
        *(str(source.dtype), sides, start, repr(kept), order.checksums, order.opening),
        *([] if order.layout is None else [repr(sorted(order.layout.items()))]),
    )


def _go_on(
    there: Array | None,
    source: da.Array,
    aligned: da.Array,
    order: WriteRequest,
    token: str,
    start: tuple[int, ...],
) -> Begun | None:
    """Return the write that has begun already; None where it has not."""
    if there is None or not order.resume:
        return None
    found = resume(_write(there, order, token, aligned, start, fresh=not order.stays))
    if found is None:
        return None
    _check_same(source, there, order)
    return Begun(aligned, there.bare(), start, *found)


def _find(source: da.Array, order: WriteRequest) -> tuple[Array | None, tuple[int, ...]]:
    """Return the array that is there, if the write may go into it, and where in it it begins."""
    if order.region is None:
        mode = "a" if order.resume else order.mode
        return open_existing(order.store, order.path, mode, **order.opening), (0,) * source.ndim
    target = open_array(order.store, order.path, mode="r+", **order.opening)
    where = (order.region,) if isinstance(order.region, slice) else tuple(order.region)
    if not all(isinstance(item, slice) for item in where):
        raise ValueError(f"the region is {order.region!r}; one slice for each axis is needed")
    return target, _region_start(where, source, target)


def _write(
    target: Array,
    order: WriteRequest,
    token: str,
    source: da.Array,
    start: tuple[int, ...],
    *,
    fresh: bool,
) -> Write:
    return Write(
        target=target.bare(),
        start=start,
        shape=source.shape,
        underway=WriteMarker(store=order.store, path=order.path, token=token),
        fresh=fresh,
        # Where nothing tells that a chunk is this write's, or what it holds, records do.
        journal=not fresh or order.checksums or not order.write_empty_chunks,
        checksums=order.checksums,
        deferred=order.deferred,
        whole=order.whole,
        dims=order.dims,
    )


def _check_same(source: da.Array, there: Array, order: WriteRequest) -> None:
    """Raise where the array that is there is not the one that goes on."""
    wanted = ArrayMetadata(
        shape=there.shape if order.region is not None else source.shape,
        chunks=there.chunks,
        dtype=as_dtype(source.dtype, there.url),
        compression=there.metadata.compression,
    )
    check_agreement(there.metadata, wanted, there.url, chunks_matter=False)


def _sides(source: da.Array, order: WriteRequest, there: Array | None) -> tuple[int, ...]:
    """Return the chunk shape to write: what was asked for, what is there, or dask's blocks."""
    if order.chunks is not None:
        return chunk_shape(order.chunks, source.shape)
    if there is not None and order.stays:
        return there.chunks
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
    if target.dtype != as_dtype(source.dtype, target.url):
        raise MetadataError(
            f"{target.url} holds {target.dtype}, not {source.dtype}; convert with astype()"
        )
    return tuple(axis.start for axis in selection.axes if isinstance(axis, slice))
