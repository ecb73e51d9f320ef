"""Plan the write of one array: run all checks without writing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.changes import began
from xarray_n5.arrays.claims import REPAIR, Record, Row, State, look, new_attempt, read, stated
from xarray_n5.arrays.create import plan_array
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.open import open_array
from xarray_n5.arrays.spec import (
    as_dtype,
    check_agreement,
    chunk_shape,
    completed,
    with_shards,
)
from xarray_n5.errors import MetadataError, N5Error, NodeExistsError, ResumeError
from xarray_n5.model.chunking import check_region, touched
from xarray_n5.model.indexing import normalize
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.writing.differences import explain, is_as_written
from xarray_n5.writing.request import aligned_blocks
from xarray_n5.writing.self_reads import check_independent

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da

    from xarray_n5.arrays.claims import Box
    from xarray_n5.arrays.create import ArrayPlan
    from xarray_n5.formats.containers import Container
    from xarray_n5.writing.request import Identity, WriteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The checked write of one array, and what was there when it was checked."""

    request: WriteRequest
    source: da.Array
    """The blocks, which do not share stored chunks."""
    target: Array
    """The array to write, as it will be."""
    start: tuple[int, ...]
    """The element of the array at which the source starts."""
    record: Record
    """The record that the write will have."""
    identity: Identity
    state: State
    """The records that were there."""
    documents: tuple[bytes | None, ...]
    """The documents that were there."""
    array: ArrayPlan | None = None
    """The array to create or change first; None if it exists unchanged."""
    own: tuple[Record, ...] = ()
    """The records of earlier attempts at this write, which the new one replaces."""
    resumed: Mapping[str, Any] | None = None
    """What the record of the attempt states that this one continues; None if it begins anew."""
    is_done: bool = False
    """Whether this very write has finished before, and nothing has changed since."""

    @property
    def creates(self) -> bool:
        """Whether the write creates the array, so that all stored chunks are its own."""
        return self.array is not None and self.array.overwrite is not None

    @property
    def begins_anew(self) -> bool:
        """Whether chunks that are stored are not those of this write."""
        return self.resumed is None

    @property
    def count(self) -> int:
        """The number of chunks to write."""
        return math.prod(map(len, self.box))

    @property
    def box(self) -> Box:
        """The chunks to write, along each axis; the record's name may not state them."""
        chunks = self.target.node.metadata.chunks
        return tuple(map(touched, self.start, self.source.shape, chunks))


def documents_of(container: Container, path: str) -> tuple[bytes | None, ...]:
    """Return the documents of a node as they are stored."""
    keys = [join(path, name) for name in sorted(container.documents)]
    return tuple(container.store.get_many(keys)) if keys else ()


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
    sides, inner = _sides(request, target)
    if request.region is not None and target is not None and options.partial_chunks == "error":
        names = request.dims if request.target is not None else ()
        check_region(
            start, source.shape, target.shape, target.grid.chunks, url=target.url, names=names
        )
    aligned = source
    if request.light is None:
        aligned = aligned_blocks(source, sides, start, strict=not options.align_chunks)
    identity, state = (
        request.identity(start),
        look(options.store, request.path, rows=bool(options.resume)),
    )
    token = options.resume if _names_a_token(options.resume, state) else identity.token
    if token in state.templates and target is not None and options.resume:
        request = replace(request, placed=True)
    box = stated(tuple(map(touched, start, source.shape, sides)))
    attempt = new_attempt() if request.light is None else request.light.attempt
    record = Record(str(token), attempt, box)
    own = tuple(sorted(each for each in state.opens if each.token == token))
    plan = WritePlan(
        request=request,
        source=aligned,
        target=planned_array(request) if target is None else target,
        start=start,
        record=record,
        identity=identity,
        state=state,
        documents=documents_of(options.container, request.path),
        own=own,
    )
    if options.resume and target is not None:
        if _is_believed(plan, target):
            return replace(plan, target=Array(target.node.bare()), is_done=True)
        if own and not _is_mixed(plan) and not any(each.attempt in state.clears for each in own):
            _check_same(request, target)
            facts = read(options.store, request.path, own[0].name) or {}
            return replace(plan, target=Array(target.node.bare()), resumed=facts)
    if request.placed and target is not None:
        _check_others(plan, target)
        return replace(plan, target=Array(target.node.bare()))
    replaces = target is not None or request.spec.mode == "w"
    if replaces and not request.appends and request.light is None:
        check_independent(source, [options.container.identity(request.path)])
    _check_others(plan, target)
    array = None
    if target is None or request.region is None:
        array = _plan_array(request, sides, inner)
        target = array.array
    return replace(plan, target=Array(target.node.bare()), array=array)


def _is_mixed(plan: WritePlan) -> bool:
    """Return whether others have written an array since this write has begun to create it.

    Whoever was killed before the look at other records may have left one where another write has
    begun, and has removed and stored chunks.
    """
    request, token, box = plan.request, plan.record.token, plan.record.box
    if request.keeps_array or request.placed:
        return False
    others = {record.token for record in plan.state.meeting(box)}
    others |= {row.token for row in plan.state.rows_meeting(box)}
    return bool(others - {token, REPAIR})


def _names_a_token(resume: object, state: State) -> bool:
    """Return whether a user names the token of an unfinished write, to continue it as it is."""
    return any(record.token == resume for record in state.opens)


def _is_believed(plan: WritePlan, target: Array) -> bool:
    """Return whether the row of this write is there, and the array as the write left it."""
    row, options = Row(plan.record.token, plan.record.box), plan.request.options
    if not plan.state.believes(row):
        return False
    facts = read(options.store, plan.request.path, row.name)
    return facts is not None and is_as_written(facts, target.node.metadata, plan)


def _check_others(plan: WritePlan, target: Array | None) -> None:
    """Raise if the write would meet another one, or has begun and is not resumed."""
    request, state = plan.request, plan.state
    options, url, path = request.options, request.options.container.url, request.path
    keeps = (request.keeps_array or request.placed) and target is not None
    others = [
        each
        for each in (state.meeting(plan.record.box) if keeps else sorted(state.opens))
        if each not in plan.own and each.token != REPAIR
    ]
    replaces = "w" == request.spec.mode == options.mode  # mode "a" replaces finished ones only
    if replaces and request.region is None and not request.placed:
        return
    if others:
        facts = read(options.store, path, others[0].name) or {}
        raise ResumeError(url, path, began(facts), explain(plan, facts, target, others[0].token))
    if keeps or request.spec.mode != "w-":
        return
    if plan.own and not options.resume:
        hint = "its write is unfinished: use resume=True, or mode='w' to replace it"
        raise NodeExistsError(url, path, "an array", hint)
    if options.resume and target is not None and not plan.own:
        _refuse_ended(plan, target)


def _refuse_ended(plan: WritePlan, target: Array) -> NoReturn:
    """Raise if an array exists without an unfinished write, and is not the result of this one."""
    request, source = plan.request, plan.request.source
    container, rows = request.options.container, plan.state.rows_meeting(plan.record.box)
    shown = f"an array, {target.shape} {target.dtype}"
    hint = "no write of it is unfinished: choose another path, or replace it with mode='w'"
    if (target.shape, target.dtype) != (source.shape, as_dtype(source.dtype, target.url)):
        hint = (
            f"no write of it is unfinished, and the new array is {source.shape} {source.dtype}; "
            "choose another path, or replace it with mode='w'"
        )
    elif rows:
        facts = read(request.options.store, request.path, rows[0].name) or {}
        hint = explain(plan, facts, target, None)
    raise NodeExistsError(container.url, request.path, shown, hint)


def planned_array(request: WriteRequest) -> Array:
    """Return the array that a request describes, for those who will read it; nothing is checked."""
    request = _with_chunks(request)
    sides, inner = _sides(request, None)
    chunks, shards = (sides, None) if inner is None else (inner, sides)
    spec = replace(request.spec, chunks=chunks, shards=shards, axes=None)
    options, source = request.options, request.source
    where = join(options.container.url, request.path)
    metadata = spec.metadata(source.shape, source.dtype, where)
    metadata = completed(options.format, metadata, spec.layout, where)
    node = OpenOptions(writable=True).node(options.container, request.path, metadata)
    return Array(node.bare())


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
    (node,) = options.container.nodes([request.path], verify=False)
    if isinstance(node, N5Error) or not isinstance(node.metadata, ArrayMetadata):
        return None  # without an error, whose hint takes several requests
    if options.resume:
        # A finished write is recognised by its records, in few requests.
        opening = OpenOptions(
            writable=True, write_empty=options.write_empty_chunks, edges=options.edge_chunks
        )
        return Array(opening.node(options.container, request.path, node.metadata))
    return open_array(options.container, request.path, mode="r+", **options.opening)


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


def _target(request: WriteRequest) -> tuple[Array | None, tuple[int, ...]]:
    """Return the array to write to, if it exists, and the start of the write in it."""
    options = request.options
    if request.region is None:
        existing = _existing(
            request, "a" if options.resume or request.placed else request.spec.mode
        )
        return existing, (0,) * request.source.ndim
    target = request.target
    if target is None and options.resume:
        target = _existing(request, "r+")
    if target is None:
        target = open_array(options.container, request.path, mode="r+", **options.opening)
    return target, _region_start(request.region, request.source, target)


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
