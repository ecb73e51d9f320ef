"""Append Datasets to stored ones: data first, the shapes of arrays last (docs/writing.md)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dask.base import tokenize

from xarray_n5.arrays.appends import name_of, read_appends
from xarray_n5.arrays.changes import began
from xarray_n5.arrays.claims import (
    Claim,
    Row,
    delete_records,
    look,
    new_attempt,
    provenance,
    read,
    state_of,
    sweep_notes,
)
from xarray_n5.datasets.commit import Commit, row_of
from xarray_n5.datasets.grow import changes_of
from xarray_n5.datasets.overwrite import ExistingGroup
from xarray_n5.datasets.region import stored_samples
from xarray_n5.datasets.update import nothing_to_append, open_stored, plan_update
from xarray_n5.errors import FinishedAppendError, NodeNotFoundError, ResumeError, StaleTaskError
from xarray_n5.model.chunking import touched
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.stores import together
from xarray_n5.writing.begin import Begun, CrossedError, tried
from xarray_n5.writing.group import tree_of
from xarray_n5.writing.request import aligned_blocks, short_hash
from xarray_n5.writing.run import compute_writes, report_of
from xarray_n5.writing.write import ArrayWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from xarray_n5.arrays.claims import Record, State
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.datasets.update import Update
    from xarray_n5.writing.request import WriteOptions, WriteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Append:
    """An append that is checked, and what was there."""

    plan: Update
    requests: Mapping[str, WriteRequest]
    """Its arrays, by their paths in the group, in blocks that do not share stored chunks."""
    token: str
    grows: Mapping[str, list[list[int]]]
    """The shapes of the arrays, before and after."""
    records: Mapping[str, dict[str, Any]]
    """The records of earlier attempts that are continued."""

    @property
    def path(self) -> str:
        """The path of the group."""
        return self.plan.group.path

    @property
    def dim(self) -> str:
        """The dimension along which the arrays grow."""
        return str(self.plan.append_dim)

    def paths(self, *parts: str) -> list[str]:
        """Return the paths of the arrays, or of something in each."""
        return [join(request.path, *parts) for request in self.requests.values()]


def append(
    dataset: xr.Dataset, path: str, how: WriteOptions, dim: str, *, discard: bool = False
) -> xr.DataTree:
    """Append a Dataset along a dimension, and return the reports of its arrays.

    With `discard`, an unfinished append of others is given up: its data beyond the ends of arrays
    are never read.

    Raises
    ------
    FinishedAppendError
        If an append to resume has finished before.
    ResumeError
        If another append, or the first write, is unfinished; nothing was changed.
    ValueError
        If the dataset does not fit, or the append would be computed later.
    """
    if how.deferred:
        raise ValueError("append_dim is computed at once; omit compute=False")

    def call(how: WriteOptions) -> xr.DataTree:
        return _append(_plan(dataset, path, how, dim, discard=discard))

    return tried(partial(call, how), lambda: call(_renewed(how)), how.container.url, path)


def _renewed(how: WriteOptions) -> WriteOptions:
    return replace(how, container=how.container.uncached().cached())


def _plan(dataset: xr.Dataset, path: str, how: WriteOptions, dim: str, *, discard: bool) -> _Append:
    """Check an append against the stored arrays, and against other appends."""
    state = look(how.store, path)
    for record in sorted(state.opens):
        raise _unfinished(how, path, record)
    records = read_appends(how.store, path, state.appends)
    if not records and state.notes:
        sweep_notes(how.store, path)
    if committed := {key: facts for key, facts in records.items() if facts.get("commit")}:
        try:
            Commit.take(how, path, committed).finish()
        except StaleTaskError as error:  # by another helper
            raise CrossedError(str(error)) from None
        return _plan(dataset, path, _renewed(how), dim, discard=discard)
    try:
        existing = ExistingGroup(open_stored(path, how), appends=[*records.values()])
    except NodeNotFoundError as error:
        raise nothing_to_append(error) from error
    append = _checked(plan_update(dataset, existing, how, append_dim=dim), records)
    if discard:
        _discard(append)
        return replace(append, records={})
    _check_records(append)
    return append


def _check_records(append: _Append) -> None:
    """Raise unless unfinished appends are earlier attempts at this one, and are to be resumed."""
    how, path, dim = append.plan.how, append.path, append.dim
    for facts in append.records.values():
        if not how.resume or facts.get("token") != append.token:
            why = "it is an append: repeat that call with resume=True, or give it up: discard=True"
            raise ResumeError(how.container.url, path, began(facts), why)
        if facts.get("grows", append.grows) != append.grows:
            why = f"{dim!r} has changed its length since: pass discard=True to append again"
            raise ResumeError(how.container.url, path, began(facts), why)
    if how.resume and not append.records:
        _check_not_finished(append)


def _checked(plan: Update, records: Mapping[str, dict[str, Any]]) -> _Append:
    """Return an append whose blocks do not share stored chunks."""
    requests = {}
    for name, request in plan.requests.items():
        chunks, start = _chunks_of(request), _start_of(request)
        strict = not plan.how.align_chunks
        blocks = aligned_blocks(request.source, chunks, start, strict=strict)
        requests[name] = replace(request, source=blocks)
    return _Append(
        plan=plan, requests=requests, token=_token(plan), grows=plan.shapes, records=records
    )


def _node_of(request: WriteRequest) -> ArrayNode:
    """Return an array with the shape that it will have."""
    target: Any = request.target
    node: ArrayNode = target.node
    return node


def _chunks_of(request: WriteRequest) -> tuple[int, ...]:
    return _node_of(request).metadata.chunks


def _start_of(request: WriteRequest) -> tuple[int, ...]:
    """Return the element of an array at which an append begins."""
    return tuple(side.start for side in request.region or ())


def _token(plan: Update) -> str:
    """Return the name of an append in records: the same call has the same, wherever arrays end."""
    arrays: dict[str, Any] = {}
    code: dict[str, str] = {}
    for name, request in plan.requests.items():
        data = plan.how.resume if isinstance(plan.how.resume, str) else request.source.name
        arrays[name] = [data, request.source.shape, str(request.source.dtype)]
        code |= request.code
    places = {dim: tokenize(plan.dataset[dim].to_numpy()) for dim in plan.in_axes}
    return short_hash({"dim": plan.append_dim, "is": arrays, "code": code, "axes": places}, 8)


def _discard(append: _Append) -> None:
    """Give up unfinished appends of others: their data beyond the ends are never read."""
    how = append.plan.how
    for attempt, facts in append.records.items() if how.format.one_writer else ():
        claim = Claim(store=how.store, path=append.path, name=name_of(attempt), token="", began="")
        Commit(how=how, claim=claim, facts=facts).grow(back=True)
    delete_records(how.store, append.path, map(name_of, append.records))


def _check_not_finished(append: _Append) -> None:
    """Raise FinishedAppendError if an array has the row of this append, or its samples."""
    plan, dim = append.plan, append.dim
    samples = stored_samples(plan.dataset, plan.stored, dim)
    rows = plan.how.store.get_many(append.paths(HIDDEN, row_of(append.token)))
    if samples is None and any(row is not None for row in rows):
        end = plan.slices[dim].start
        samples = slice(end - plan.dataset.sizes[dim], end)
    if samples is not None:
        raise FinishedAppendError(plan.group.url, dim, samples)


def _unfinished(how: WriteOptions, path: str, record: Record) -> ResumeError:
    facts = read(how.store, path, record.name) or {}
    why = "the first write of this series is unfinished: repeat it with resume=True"
    return ResumeError(how.container.url, path, began(facts), why)


def _append(append: _Append) -> xr.DataTree:
    """Append: the record, the ends, the data, the commit, the documents, in this order."""
    commit = _begin(append)
    claim = commit.claim
    if append.plan.how.format.one_writer:
        commit.grow()
    writes = {
        name: _begun(append, name, claim, prefix=f"{number}-")
        for number, name in enumerate(sorted(append.requests))
    }
    receipts = compute_writes(writes)
    try:
        _look(append, claim, first=False)
    except CrossedError:
        claim.end()
        raise
    commit = replace(commit, facts={**commit.facts, "commit": True})
    claim.begin(commit.facts)
    with suppress(StaleTaskError):  # whoever has taken over finishes it
        commit.finish()
    return tree_of({name: report_of(receipts[name], writes[name]) for name in writes})


def _begin(append: _Append) -> Commit:
    """Store the record of an append, look once more, and take over those of earlier attempts."""
    how, path, attempt = append.plan.how, append.path, new_attempt()
    ranked = sorted(append.records.values(), key=lambda facts: "grows" in facts)
    earlier = ranked[-1] if ranked else {}
    claim = Claim(
        store=how.store,
        path=path,
        name=name_of(attempt),
        token=append.token,
        began=earlier.get("began", attempt),
    )
    facts: dict[str, Any] = {**provenance(), "dim": append.dim}
    claim.begin({**facts, **{k: earlier[k] for k in ("grows", "changes") if k in earlier}})
    try:
        _look(append, claim, first=True)
    except BaseException:
        delete_records(how.store, path, [claim.name])
        raise
    changes = changes_of(append.plan)
    facts |= {"grows": append.grows, **({"changes": True} if changes else {})}
    commit = Commit(how=how, claim=claim, facts=facts)
    if changes:
        commit.keep(changes)
    claim.begin(facts)
    delete_records(how.store, path, map(name_of, append.records))
    return commit


def _look(append: _Append, claim: Claim, *, first: bool) -> None:
    """Raise unless the records of writes and the ends of the arrays are as they were planned.

    Before the `first` change, other writes to the chunks at the ends are refused.
    """
    how, path = append.plan.how, append.path
    store, container = how.store, how.container.fresh()
    folders = [join(at, HIDDEN) for at in (path, *(append.paths() if first else ()))]
    places = [join(path, name) for name in append.grows]
    calls: list[Any] = [
        partial(store.list_many, folders),
        partial(container.nodes, places, verify=False),
    ]
    listings, nodes = together(store, calls)
    attempts = state_of(listings[0]).appends
    others = {attempt for attempt in attempts if name_of(attempt) != claim.name}
    records = read_appends(store, path, others)
    if others == attempts or (not first and _are_of(append.token, records)):
        raise CrossedError("another process has taken over this append, and continues it")
    if first and (records.keys() != append.records.keys() or _differ(append, records)):
        raise CrossedError("another append has begun, or ended")
    for request, listing in zip(append.requests.values(), listings[1:], strict=first):
        _check_ends(request, state_of(listing))
    may_have_grown = append.records or how.format.one_writer
    for node, pair in zip(nodes, append.grows.values(), strict=True):
        shape = getattr(getattr(node, "metadata", None), "shape", ())
        if [*shape] not in (pair if may_have_grown else pair[:1]):
            raise CrossedError(f"{append.dim!r} of {node.path!r} has changed its length meanwhile")


def _are_of(token: str, records: Mapping[str, Any]) -> bool:
    return any(facts.get("token") == token for facts in records.values())


def _differ(append: _Append, records: Mapping[str, Any]) -> bool:
    """Return whether slow owners of records have gone on since the append was planned."""
    return any(
        facts.get("commit") or facts.get("grows", append.grows) != append.grows
        for facts in records.values()
    )


def _check_ends(request: WriteRequest, state: State) -> None:
    """Raise if the first write of an array, or another one at its end, is unfinished."""
    sides = map(touched, _start_of(request), request.source.shape, _chunks_of(request))
    ends = tuple(range(max(0, side.start - 1), side.stop) for side in sides)
    for record in sorted(state.opens) if state.clears else state.meeting(ends):
        raise _unfinished(request.options, request.path, record)


def _begun(append: _Append, name: str, claim: Claim, *, prefix: str) -> Begun:
    """Return the write of one array, whose chunks beyond the end nobody reads yet."""
    request, how = append.requests[name], append.plan.how
    node = replace(_node_of(request), write_empty=how.write_empty_chunks, edges=how.edge_chunks)
    write = ArrayWrite(
        target=node.bare(),
        start=_start_of(request),
        shape=request.source.shape,
        claim=claim,
        fresh=False,
        kept=tuple(append.grows[name][0]),
        dims=request.dims,
        prefix=prefix,
    )
    source = request.source
    begun = Begun(request=request, source=source, write=write, row=Row("", None), facts={})
    return begun.renewed() if append.records else begun
