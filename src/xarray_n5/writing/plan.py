"""Plan the write of one array: run all checks without writing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import plan_array
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.records import (
    REPAIR,
    Record,
    Row,
    State,
    began,
    claim_of,
    is_token,
    look,
    new_attempt,
    read,
    stated,
)
from xarray_n5.arrays.spec import (
    as_dtype,
    check_agreement,
    completed,
    resolve_chunks,
)
from xarray_n5.errors import N5Error, NodeExistsError, ResumeError
from xarray_n5.formats.missing import not_found
from xarray_n5.model.chunking import check_region, touched
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.stores import together
from xarray_n5.writing.differences import explain, is_as_written
from xarray_n5.writing.inputs import check_independent
from xarray_n5.writing.request import Template, aligned_blocks, fingerprint, region_start
from xarray_n5.writing.tasks import ArrayWrite

if TYPE_CHECKING:
    import dask.array as da

    from xarray_n5.arrays.create import ArrayPlan
    from xarray_n5.arrays.spec import ArraySpec
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.receipts import Receipts
    from xarray_n5.writing.request import Identity, WriteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The checked write of one array, and the state when it was checked."""

    request: WriteRequest
    source: da.Array
    """The blocks, which do not share stored chunks."""
    write: ArrayWrite
    """What tasks get."""
    record: Record
    """The record that the write will have."""
    identity: Identity
    state: State = field(default_factory=State)
    """The records that were there."""
    documents: tuple[bytes | None, ...] = ()
    """The documents that were there."""
    array: ArrayPlan | None = None
    """The array to create or change first; None if it exists unchanged."""
    earlier: tuple[Record, ...] = ()
    """The records of earlier attempts at this write, which the new one replaces."""
    resumes: bool = False
    """Whether this attempt continues an earlier one; otherwise, it begins."""
    is_done: bool = False
    """Whether this very write has finished before, and nothing has changed since."""
    before: Receipts | None = None
    """The receipts of chunks that earlier attempts have stored, when the write has begun."""

    @property
    def creates(self) -> bool:
        """Whether the write creates the array, so that all stored chunks are its own."""
        return self.array is not None and self.array.overwrite is not None

    @property
    def count(self) -> int:
        """The number of chunks to write."""
        return math.prod(map(len, self.write.box))

    @property
    def remaining(self) -> int:
        """The number of pending chunks."""
        return 0 if self.is_done else self.count - len(self.before or ())

    @property
    def row(self) -> Row:
        """The row that the write leaves when it has finished."""
        return Row(self.record.token, self.record.box)

    @property
    def row_facts(self) -> dict[str, Any]:
        """What the row states."""
        written = {} if self.array is None else self.array.attributes
        stored = fingerprint(self.write.target.metadata, written)
        sparse = not self.request.options.write_empty_chunks
        return {**self.identity.facts, **stored, "sparse": sparse}

    @property
    def keeps_digests(self) -> bool:
        """Whether digests of all chunks are stored."""
        return self.request.options.checksums and self.request.region is None

    @property
    def others(self) -> list[Record]:
        """The unfinished writes of others whose chunks meet these, or that are replaced."""
        state = self.state
        records = sorted(state.opens) if self.creates else state.meeting(self.record.box)
        others = [record for record in records if record not in self.earlier]
        return [record for record in others if record.token != REPAIR]


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
    options, source, path = request.options, request.source, request.path
    looks: list[Any] = [
        partial(look, options.store, path, rows=bool(options.resume)),
        partial(documents_of, options.container, path),
    ]
    state, documents = together(options.store, looks)
    target, start = _target(request)
    spec = _sized(request, target)
    sides: Any = spec.shards or spec.chunks
    if request.region is not None and target is not None and options.safe_chunks:
        names = request.dims if request.target is not None else ()
        check_region(
            start, source.shape, target.shape, target.grid.chunks, url=target.url, names=names
        )
    identity = request.identity(start)
    token = _named_token(request, state) or identity.token
    earlier = tuple(sorted(record for record in state.opens if record.token == token))
    if options.resume and target is not None and token in state.templates:
        request = replace(request, template=request.template or Template(identity))
    template = request.template
    attempt = template.attempt if template and template.attempt else new_attempt()
    record = Record(token, attempt, stated(tuple(map(touched, start, source.shape, sides))))
    write = ArrayWrite(
        target=(planned_array(request, spec) if target is None else target).node.bare(),
        start=start,
        shape=source.shape,
        claim=claim_of(options.store, path, record),
        fresh=not (request.keeps_array or template or options.checksums),
    )
    plan = WritePlan(
        request=request,
        source=aligned_blocks(source, sides, start),
        write=write,
        record=record,
        identity=identity,
        state=state,
        documents=documents,
        earlier=earlier,
    )
    if options.resume and target is not None:
        if _is_believed(plan, target):
            return replace(plan, is_done=True)
        if (facts := _resumable(plan, target)) is not None:
            if request.region is None and not is_as_written(facts, target.node.metadata, plan):
                wanted = planned_array(request, spec).node.metadata
                check_agreement(target.node.metadata, wanted, target.url, chunks_matter=False)
            claim = claim_of(options.store, path, record, facts.get("began", earlier[0].attempt))
            write = replace(write, claim=claim, fresh=facts.get("fresh", write.fresh))
            return replace(plan, resumes=True, write=write)
    _check_others(plan, target)
    if template is not None and target is not None:
        return plan
    if target is not None or spec.mode == "w":
        check_independent(source, [options.container.identity(path)])
    if target is not None and request.region is not None:
        return plan
    array = plan_array(options.container, spec, source.shape, source.dtype, options.opening)
    return replace(plan, write=replace(write, target=array.node.bare()), array=array)


def _named_token(request: WriteRequest, state: State) -> str | None:
    """Return the token of the unfinished write that a user names, to continue it as it is.

    The token is that of the array, or of the group that is written as one.
    """
    options = request.options
    for record in sorted(state.opens) if is_token(options.resume) else ():
        facts = read(options.store, request.path, record.name) or {}
        if options.resume in {record.token, facts.get("of")}:
            return record.token
    return None


def _target(request: WriteRequest) -> tuple[Array | None, tuple[int, ...]]:
    """Return the array to write to, if it exists, and the start of the write in it."""
    options, target = request.options, request.target
    start = (0,) * request.source.ndim
    if target is None and (request.keeps_array or options.resume or request.template):
        (node,) = options.container.nodes([request.path], verify=False)
        if not isinstance(node, N5Error) and isinstance(node.metadata, ArrayMetadata):
            target = Array(options.opening.node(options.container, request.path, node.metadata))
    if request.region is None:
        return target, start
    if target is None:
        raise not_found(options.container, options.container.node(request.path), "array")
    return target, region_start(request.region, request.source, target)


def _sized(request: WriteRequest, target: Array | None) -> ArraySpec:
    """Return the array to store, with the shapes of chunks and shards.

    These are as requested, those of an array that is kept, or those of Dask's blocks.
    """
    spec, source = request.spec, request.source
    kept = target if request.keeps_array else None
    if kept is not None and spec.chunks is spec.shards is None:
        return replace(spec, chunks=kept.chunks, shards=kept.shards)
    chunks: Any = spec.chunks
    if chunks is None and kept is not None:
        chunks = kept.chunks
    elif chunks is None:
        chunks = "auto" if request.in_memory else request.blocks
    chunks, shards = resolve_chunks(chunks, spec.shards, source.shape, source.dtype, spec.apart)
    return replace(spec, chunks=chunks, shards=shards)


def planned_array(request: WriteRequest, spec: ArraySpec | None = None) -> Array:
    """Return the array that a request describes, for those who will read it; nothing is checked."""
    options, source, spec = request.options, request.source, spec or _sized(request, None)
    where = join(options.container.url, request.path)
    metadata = replace(spec, axes=None).metadata(source.shape, source.dtype, where)
    metadata = completed(options.format, metadata, spec.layout, where)
    node = OpenOptions(writable=True).node(options.container, request.path, metadata)
    return Array(node.bare())


def _is_believed(plan: WritePlan, target: Array) -> bool:
    """Return whether the row of this write is there, and the array as the write left it."""
    request, believed = plan.request, plan.state.believes(plan.row)
    facts = read(request.options.store, request.path, plan.row.name) if believed else None
    return (
        facts is not None
        and not plan.identity.changed_around(facts)
        and is_as_written(facts, target.node.metadata, plan)
    )


def _resumable(plan: WritePlan, target: Array) -> dict[str, Any] | None:
    """Return the content of the record of an earlier attempt, if that can be continued.

    Raise if the source, or what the call sets of the group, has changed since, unless the
    unfinished write is replaced, or is named.

    Whoever was killed before the look at other records may have left one where another write has
    begun, and has removed and stored chunks: then a stored chunk proves nothing.
    """
    state, token, box = plan.state, plan.record.token, plan.record.box
    if not plan.earlier or any(record.attempt in state.clears for record in plan.earlier):
        return None
    facts = read(plan.request.options.store, plan.request.path, plan.earlier[0].name)
    facts = facts or {"fresh": False}  # damaged
    request = plan.request
    named = request.options.resume in {token, facts.get("of")}
    if plan.identity.changed_around(facts) and not named:
        if request.spec.mode == "w":
            return None
        why = explain(plan, facts, target, facts.get("of", token))
        raise ResumeError(request.options.container.url, request.path, began(facts), why)
    return None if facts.get("fresh") and not state.is_alone(token, box) else facts


def _check_others(plan: WritePlan, target: Array | None) -> None:
    """Raise if the write would meet another one, or has begun and is not resumed."""
    request, options = plan.request, plan.request.options
    url, path, resume = options.container.url, request.path, options.resume
    keeps = (request.keeps_array or request.template is not None) and target is not None
    # In a group, mode "a" replaces arrays whose writes have finished.
    if not keeps and "w" == request.spec.mode == options.mode:
        return
    opens = plan.others if keeps else sorted(plan.state.opens.difference(plan.earlier))
    if others := [record for record in opens if record.token != REPAIR]:
        facts = read(options.store, path, others[0].name) or {}
        why = explain(plan, facts, target, facts.get("of", others[0].token))
        raise ResumeError(url, path, began(facts), why)
    if keeps or request.spec.mode != "w-":
        return
    if plan.earlier and not resume:
        hint = "its write is unfinished: use resume=True, or mode='w' to replace it"
        raise NodeExistsError(url, path, "an array", hint)
    if resume and target is not None and not plan.earlier:
        _refuse_ended(plan, target)


def _refuse_ended(plan: WritePlan, target: Array) -> NoReturn:
    """Raise if an array exists without an unfinished write, and is not the result of this one."""
    request, source = plan.request, plan.request.source
    rows = plan.state.rows_meeting(plan.record.box)
    wanted = (source.shape, as_dtype(source.dtype, target.url))
    differs = (target.shape, target.dtype) != wanted
    new = f", and the new array is {wanted[0]} {wanted[1]}" if differs else ""
    hint = f"no write of it is unfinished{new}: choose another path, or replace it with mode='w'"
    if rows and not differs:
        facts = read(request.options.store, request.path, rows[0].name) or {}
        hint = explain(plan, facts, target, None)
    shown = f"an array, {target.shape} {target.dtype}"
    raise NodeExistsError(request.options.container.url, request.path, shown, hint)
