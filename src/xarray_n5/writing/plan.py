"""Plan the write of one array: run all checks without writing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.context import context_of
from xarray_n5.arrays.create import plan_array
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
from xarray_n5.arrays.spec import check_agreement
from xarray_n5.dialects import geometry_of
from xarray_n5.errors import N5Error, NodeExistsError, ResumeError
from xarray_n5.formats.keyed import not_found
from xarray_n5.model.axes import as_geometry
from xarray_n5.model.chunking import check_region, touched
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.stores import together
from xarray_n5.writing.inputs import check_independent
from xarray_n5.writing.request import aligned_blocks, fingerprint, planned_node, region_start, sized
from xarray_n5.writing.tasks import ArrayWrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import dask.array as da

    from xarray_n5.arrays.create import ArrayPlan
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.arrays.records import Append
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
    def record(self) -> Record | Append:
        """The record that the write will have."""
        return self.write.claim.record

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

    def facts(self, name: str) -> dict[str, Any] | None:
        """Return the content of a record or row; None without one, nothing if it is damaged."""
        return read(self.request.options.store, self.request.path, name)

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
    spec = sized(request, None if target is None else target.metadata)
    sides: Any = spec.shards or spec.chunks
    if request.region is not None and target is not None and options.safe_chunks:
        names, stored = request.dims if request.target is not None else (), target.metadata
        check_region(start, source.shape, stored.shape, stored.chunks, url=target.url, names=names)
    identity = request.identity(start)
    token = _named_token(request, state) or identity.token
    if options.resume and target is not None and token in state.templates:
        request = replace(request, template=identity)
    record = Record(
        token,
        (request.template and request.template.attempt) or new_attempt(),
        stated(tuple(map(touched, start, source.shape, sides))),
    )
    write = ArrayWrite(
        target=(target or planned_node(request, spec)).bare(),
        start=start,
        shape=source.shape,
        claim=claim_of(options.store, path, record),
        fresh=not (request.keeps_array or request.template or options.checksums),
    )
    plan = _continued(
        WritePlan(
            request=request,
            source=aligned_blocks(source, sides, start),
            write=write,
            identity=identity,
            state=state,
            documents=documents,
            earlier=tuple(sorted(record for record in state.opens if record.token == token)),
        ),
        target,
    )
    if plan.is_done or plan.resumes:
        return plan
    _check_others(plan, target)
    if request.template is not None and target is not None:
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


def _target(request: WriteRequest) -> tuple[ArrayNode | None, tuple[int, ...]]:
    """Return the array to write to, if it exists, and the start of the write in it."""
    options, target = request.options, request.target
    if target is None and (request.keeps_array or options.resume or request.template):
        (node,) = options.container.nodes([request.path], verify=False)
        if not isinstance(node, N5Error) and isinstance(node.metadata, ArrayMetadata):
            target = options.opening.node(options.container, request.path, node.metadata)
    if request.region is None:
        return target, (0,) * request.source.ndim
    if target is None:
        raise not_found(options.container, options.container.node(request.path), "array")
    return target, region_start(request.region, request.source, target)


# What is there


def _continued(plan: WritePlan, target: ArrayNode | None) -> WritePlan:
    """Return a write that has finished before, or continues an earlier attempt, or begins.

    An attempt whose source has changed since, or whose call sets other attributes of the group, is
    another write, unless it is named. Whoever was killed before the look at other records may have
    left one where another write has begun, and has removed and stored chunks: then a stored chunk
    proves nothing.
    """
    request, write, state, token = plan.request, plan.write, plan.state, plan.record.token
    if not request.options.resume or target is None:
        return plan
    row = plan.facts(plan.row.name) if state.believes(plan.row) else None
    around = plan.identity.changed_around
    if row is not None and not around(row) and is_as_written(row, target, plan):
        return replace(plan, is_done=True)
    if not plan.earlier:
        return plan
    facts = plan.facts(plan.earlier[0].name) or {"fresh": False}  # damaged
    if around(facts) and request.options.resume not in {token, facts.get("of")}:
        return replace(plan, earlier=())
    cleared = any(record.attempt in state.clears for record in plan.earlier)
    if cleared or (facts.get("fresh") and not state.is_alone(token, plan.record.box)):
        return plan
    if request.region is None and not is_as_written(facts, target, plan):
        wanted = planned_node(request, sized(request, target.metadata)).metadata
        check_agreement(target.metadata, wanted, target.url, chunks_matter=False)
    first = facts.get("began", plan.earlier[0].attempt)
    claim = claim_of(write.claim.store, request.path, plan.record, first)
    fresh = facts.get("fresh", write.fresh)
    return replace(plan, resumes=True, write=replace(write, claim=claim, fresh=fresh))


def _check_others(plan: WritePlan, target: ArrayNode | None) -> None:
    """Raise if the write would meet another one, or has begun and is not resumed."""
    request, options = plan.request, plan.request.options
    url, path, resume = options.container.url, request.path, options.resume
    keeps = (request.keeps_array or request.template is not None) and target is not None
    # In a group, mode "a" replaces arrays whose writes have finished.
    if not keeps and "w" == request.spec.mode == options.mode:
        return
    opens = plan.others if keeps else sorted(plan.state.opens.difference(plan.earlier))
    if others := [record for record in opens if record.token != REPAIR]:
        facts = plan.facts(others[0].name) or {}
        why = explain(plan, facts, target, facts.get("of", others[0].token))
        raise ResumeError(url, path, began(facts), why)
    if keeps or request.spec.mode != "w-":
        return
    if plan.earlier and not resume:
        hint = "its write is unfinished: use resume=True, or mode='w' to replace it"
        raise NodeExistsError(url, path, "an array", hint)
    if resume and target is not None and not plan.earlier:
        rows = plan.state.rows_meeting(plan.record.box)
        hint = "no write of it is unfinished: choose another path, or replace it with mode='w'"
        hint = explain(plan, plan.facts(rows[0].name) or {}, target, None) if rows else hint
        shown = f"an array, {target.metadata.shape} {target.metadata.dtype}"
        raise NodeExistsError(url, path, shown, hint)


_SHOWN = 3
"""The maximum number of differences that an error names."""

_AROUND = {
    "source": "chunks of its source have changed since",
    "group": "other attributes of the group",
}
"""Differences in what is not the array's."""


def is_as_written(facts: Mapping[str, Any], target: ArrayNode, plan: WritePlan) -> bool:
    """Return whether an array is as a finished write has left it, or has grown since."""
    shape = target.metadata.shape
    now, before = _now(target), facts.get("attributes", {})
    ends = zip(plan.write.start, plan.source.shape, shape, strict=False)
    return (
        facts.get("stored") == now["stored"]
        and len(shape) == plan.source.ndim
        and all(start + size <= end for start, size, end in ends)
        and before.items() <= now["attributes"].items()
    )


def explain(
    plan: WritePlan, facts: Mapping[str, Any], target: ArrayNode | None, token: str | None
) -> str:
    """Return in what a write differs from that of a record or row, and what to do."""
    code, before, now = facts.get("code", {}), facts.get("is", {}), plan.identity
    changed = sorted(name for name in {*code, *now.code} if code.get(name) != now.code.get(name))
    differences = [f"{name} has changed since {facts.get('at', 'then')}" for name in changed]
    for name, part in now.parts.items():
        if before.get(name, part) != part:
            differences += [*_differences(name, plan.request, target)] or [f"other {name}"]
    differences = differences or [_AROUND[key] for key in now.changed_around(facts)]
    if not before:
        differences = ["it is the write of something else"]
    elif not differences and target is not None and "stored" in facts:
        differences = _changed_array(facts, target)
    differences = [*dict.fromkeys(differences)]
    shown = differences[:_SHOWN] or ["something else has been written there since"]
    text = "; ".join(shown) + ("; ..." if len(differences) > _SHOWN else "")
    ways = "undo that, or start again with mode='w'"
    if token is not None:
        ways += f", or resume={token!r} to continue the unfinished write as it is"
    return f"{text}: {ways}"


def _now(target: ArrayNode) -> dict[str, Any]:
    """Return the fingerprint of a stored array."""
    return fingerprint(target.metadata, target.metadata.attributes)


def _changed_array(facts: Mapping[str, Any], target: ArrayNode) -> list[str]:
    """Return the changes of an array since a write of it has finished."""
    now, before = _now(target), facts.get("attributes", {})
    changed = [
        f"the attribute {key!r}" for key in before if now["attributes"].get(key) != before[key]
    ]
    if facts.get("stored") != now["stored"]:
        changed.append("how the array is stored")
    return [f"{what} has changed since" for what in changed]


def _differences(name: str, request: WriteRequest, target: ArrayNode | None) -> Iterator[str]:
    """Iterate over differences of a part, with values of the stored array where it shows them."""
    if target is not None and name == "attributes":
        wanted, have = request.spec.attributes or {}, target.metadata.attributes
        for key in [key for key in wanted if have.get(key) != wanted[key]]:
            yield f"the attribute {key!r} is {wanted[key]!r:.60}, stored is {have.get(key)!r:.60}"
    if name == "mode":
        yield "one creates the array, the other changes an existing one"
    if target is not None and name in {"shape", "type"}:
        new, old = request.source, target.metadata
        yield f"the array is {new.shape} {new.dtype}, stored is {old.shape} {old.dtype}"
    if target is not None and name == "axes":
        yield from _axes(request, target)


def _axes(request: WriteRequest, target: ArrayNode) -> Iterator[str]:
    """Iterate over the differences between the axes to write and the stored ones."""
    try:
        axes = as_geometry(request.spec.axes or (), len(target.metadata.shape)).axes
        stored = geometry_of(context_of(target)).axes
    except ValueError:
        return
    for new, old in zip(axes, stored, strict=False):
        if new.name != old.name:
            yield f"an axis is {new.name!r}, stored is {old.name!r}"
        for what in ("scale", "offset"):
            pair = [(getattr(axis, what), axis.unit or "") for axis in (new, old)]
            if pair[0] != pair[1]:
                (one, unit), (other, its) = pair
                yield f"the {what} along {new.name} is {one} {unit}, stored is {other} {its}"
