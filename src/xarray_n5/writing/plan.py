"""Plan the write of one array: run all checks without writing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from dask.base import tokenize

from xarray_n5.arrays.array import Array, OpenOptions
from xarray_n5.arrays.create import plan_array
from xarray_n5.arrays.marker import WriteMarker
from xarray_n5.arrays.open import open_array
from xarray_n5.arrays.overwrite import NOT_UNFINISHED, hint_of_growth
from xarray_n5.arrays.spec import as_dtype, check_agreement, chunk_shape, with_shards
from xarray_n5.codecs import resolve
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.model.chunking import check_region
from xarray_n5.model.indexing import normalize
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.writing.changed import code_of
from xarray_n5.writing.chunk_table import dims_or_numbers
from xarray_n5.writing.progress import expect
from xarray_n5.writing.request import aligned_blocks
from xarray_n5.writing.resume import done_when_finished, forget_overlapped, renew, resume
from xarray_n5.writing.self_reads import check_independent
from xarray_n5.writing.write import Write

if TYPE_CHECKING:
    import dask.array as da

    from xarray_n5.arrays.create import ArrayPlan
    from xarray_n5.model.receipts import Receipts
    from xarray_n5.writing.request import WriteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The checked write of one array; after :meth:`begin`, it has started."""

    request: WriteRequest
    source: da.Array
    """The blocks, which do not share stored chunks."""
    target: Array
    """The array to write, as it will be."""
    write: Write
    array: ArrayPlan | None = None
    """The array to create or change first; None if it exists unchanged."""
    before: Receipts | None = None
    """The receipts of an earlier, interrupted run."""
    resumed: bool = False
    ended: bool = False
    """Whether this very write has finished before; chunks that have been removed are pending."""

    @property
    def is_done(self) -> bool:
        """Whether this very write has finished before, and nothing has changed since."""
        return self.ended and not self.remaining

    @property
    def remaining(self) -> int:
        """The number of pending chunks."""
        return math.prod(map(len, self.write.box)) - len(self.before or ())

    def expect(self) -> None:
        """Show the progress of the write, if a progress bar is in use."""
        unit = "chunks" if self.target.shards is None else "shards"
        expect(self.remaining, len(self.before or ()), unit, self.write.marker.token)

    def begin(self, whole: WriteMarker | None = None, *, marked: bool = True) -> WritePlan:
        """Create the marker, then the array.

        Parameters
        ----------
        whole
            The marker of the transaction that the write is part of.
        marked
            Whether the write has a finish that removes its marker.
        """
        if self.is_done:
            return self
        request, write = self.request, replace(self.write, whole=whole)
        options = request.options
        vacant = self.array is not None and self.array.new is not None and self.array.new[0].vacant
        if options.resume:
            swept = vacant or write.left is not None  # which `renew` removes
            options.container.sweep(request.path.rpartition("/")[0] if swept else request.path)
        write = replace(write, marker=replace(write.marker, first=vacant and not write.deferred))

        def mark() -> Write:
            if self.resumed:
                return renew(write, deferred=request.deferred)
            begins = replace(write, planned=marked and write.deferred)
            if marked:
                begins.leave_mark()
            return begins

        write = mark() if self.array is None else self.array.create_marked(mark)
        if marked and not write.fresh:
            forget_overlapped(write)
        return replace(self, write=write)


def plan_write(request: WriteRequest) -> WritePlan:
    """Run all checks of a write that are possible before anything is written.

    Raises
    ------
    AlignmentError, MetadataError, NodeExistsError, ResumeError, ValueError
        As in :func:`xarray_n5.to_n5`.
    """
    request = _with_chunks(request)
    options, source = request.options, request.source
    target, start = _target(request)
    if (target is not None or request.spec.mode == "w") and (options.resume or not request.appends):
        identity = options.container.identity(request.path)
        check_independent(source, [identity])
    sides, inner = _sides(request, target)
    if request.region is not None and target is not None and options.partial_chunks == "error":
        names = request.dims if request.target is not None else ()
        check_region(
            start, source.shape, target.shape, target.grid.chunks, url=target.url, names=names
        )
    aligned = aligned_blocks(source, sides, start, strict=not options.align_chunks)
    token = _token(request, (sides, inner) if inner else sides, start, target)
    if target is not None and options.resume:
        write = _write(request, target, token, aligned, start, fresh=not request.keeps_array)
        if (found := resume(write, appends=request.appends)) is not None:
            _check_same(request, target)
            write, before = found
            return WritePlan(
                request=request,
                source=aligned,
                target=Array(target.node.bare()),
                write=write,
                before=before,
                resumed=True,
            )
        if request.spec.mode == "w-" and request.region is None:
            return _ended(request, aligned, target, token)
    array = None
    if target is None or request.region is None:
        array = _plan_array(request, sides, inner)
        target = array.array
    fresh = array is not None and array.existing is None
    write = _write(request, target, token, aligned, start, fresh=fresh)
    return WritePlan(
        request=request, source=aligned, target=Array(target.node.bare()), write=write, array=array
    )


def _with_chunks(request: WriteRequest) -> WriteRequest:
    """Return a request with chunks "auto" if neither blocks nor an array determine them."""
    given = request.spec.chunks is not None or request.spec.shards is not None
    if given or request.region is not None or not request.in_memory:
        return request
    if _existing(request, request.spec.mode) is not None:
        return request
    return replace(request, spec=replace(request.spec, chunks="auto"))


def _existing(request: WriteRequest, mode: str) -> Array | None:
    """Return the array that a write with `mode` would change; None if it creates a new one."""
    options = request.options
    if mode not in {"a", "r+"}:
        return None
    if not isinstance(options.container.node(request.path).metadata, ArrayMetadata):
        return None  # without an error, whose hint takes several requests
    return open_array(options.container, request.path, mode="r+", **options.opening)


def _ended(request: WriteRequest, aligned: da.Array, target: Array, token: str) -> WritePlan:
    """Return the plan of a finished write; raise if the array may not be its result."""
    write = _write(request, target, token, aligned, (0,) * aligned.ndim, fresh=True)
    before = done_when_finished(write)
    if before is None:
        _refuse_ended(request, target)
    return WritePlan(
        request=request,
        source=aligned,
        target=Array(target.node.bare()),
        write=replace(write, resumed=True),
        before=before,
        ended=True,
    )


def _refuse_ended(request: WriteRequest, target: Array) -> NoReturn:
    """Raise if an array exists without an unfinished write."""
    source, container = request.source, request.options.container
    found = f"an array, {target.shape} {target.dtype}"
    hint = NOT_UNFINISHED
    if (target.shape, target.dtype) != (source.shape, as_dtype(source.dtype, target.url)):
        hint = (
            f"no write of it is unfinished, and the new array is {source.shape} {source.dtype}; "
            "choose another path, or replace it with mode='w'"
        )
        if target.dtype == source.dtype and target.ndim == source.ndim:
            dims = dims_or_numbers(request.dims, source.ndim)
            hint = hint_of_growth(dims, source.shape, target.shape) or hint
    raise NodeExistsError(container.url, request.path, found, hint)


def _plan_array(
    request: WriteRequest, sides: tuple[int, ...], inner: tuple[int, ...] | None
) -> ArrayPlan:
    source, options = request.source, request.options
    chunks, shards = (sides, None) if inner is None else (inner, sides)
    spec = replace(request.spec, chunks=chunks, shards=shards)
    opening = OpenOptions(
        writable=True, write_empty=options.write_empty_chunks, edges=options.edge_chunks
    )
    return plan_array(options.container, spec, source.shape, source.dtype, opening)


def _token(
    request: WriteRequest, sides: object, start: tuple[int, ...], target: Array | None
) -> str:
    """Return a string that distinguishes this write from all other writes to the array."""
    options, source = request.options, request.source
    compression = resolve(request.spec.compression)
    if target is not None and request.keeps_array:
        compression = target.compression
    return tokenize(
        *(options.resume if isinstance(options.resume, str) else source.name, source.shape),
        *(str(source.dtype), sides, start, repr(compression), options.checksums, options.opening),
        *([] if request.spec.layout is None else [repr(sorted(request.spec.layout.items()))]),
    )


def _target(request: WriteRequest) -> tuple[Array | None, tuple[int, ...]]:
    """Return the array to write to, if it exists, and the start of the write in it."""
    options = request.options
    if request.region is None:
        existing = _existing(request, "a" if options.resume else request.spec.mode)
        return existing, (0,) * request.source.ndim
    target = request.target
    if target is None:
        target = open_array(options.container, request.path, mode="r+", **options.opening)
    return target, _region_start(request.region, request.source, target)


def _write(
    request: WriteRequest,
    target: Array,
    token: str,
    source: da.Array,
    start: tuple[int, ...],
    *,
    fresh: bool,
) -> Write:
    options = request.options
    return Write(
        target=target.node.bare(),
        start=start,
        shape=source.shape,
        marker=WriteMarker(store=options.store, path=request.path, token=token),
        fresh=fresh,
        # If a stored chunk is not evidence that this write stored it, records are.
        journal=not fresh or options.checksums or not options.write_empty_chunks,
        checksums=options.checksums,
        deferred=request.deferred,
        dims=request.dims,
        code=code_of(request.source.dask),
    )


def _check_same(request: WriteRequest, target: Array) -> None:
    """Raise if the array is not the one that the interrupted write was creating."""
    wanted = ArrayMetadata(
        shape=target.shape if request.region is not None else request.source.shape,
        chunks=target.grid.chunks,
        dtype=as_dtype(request.source.dtype, target.url),
        compression=target.compression,
    )
    check_agreement(target.node.metadata, wanted, target.url, chunks_matter=False)


def _sides(
    request: WriteRequest, target: Array | None
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the shape of a stored file, and that of the chunks in it if it is a shard.

    These are as requested, those of the array, or those of Dask's blocks.
    """
    source = request.source
    if request.spec.chunks is not None or request.spec.shards is not None:
        chunks = _chunks(request, target)
        automatic = isinstance(chunks, str)
        sides = chunk_shape(chunks, source.shape)
        return with_shards(
            sides, request.spec.shards, source.shape, source.dtype, automatic=automatic
        )
    if target is not None and request.keeps_array:
        return target.grid.chunks, target.node.metadata.inner
    return _blocks(source), None


def _chunks(request: WriteRequest, target: Array | None) -> Any:
    """Return the requested chunks, or those that shards consist of: a shape, or "auto"."""
    if request.spec.chunks is not None:
        return request.spec.chunks
    if target is not None and request.keeps_array:
        return target.chunks
    return "auto" if request.in_memory else _blocks(request.source)


def _blocks(source: da.Array) -> tuple[int, ...]:
    return tuple(max(1, *sizes) for sizes in source.chunks)


def _region_start(region: tuple[slice, ...], source: da.Array, target: Array) -> tuple[int, ...]:
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
