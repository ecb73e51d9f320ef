"""Append Datasets to stored ones: data first, the shapes of arrays last (docs/writing.md)."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dask.base import tokenize

from xarray_n5.arrays.appends import appends_in, attempt_of, name_of, read_appends
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
from xarray_n5.datasets.commit import Commit, changes_of, save_changes
from xarray_n5.datasets.overwrite import ExistingGroup
from xarray_n5.datasets.region import check_not_appended
from xarray_n5.datasets.update import nothing_to_append, open_stored, plan_update
from xarray_n5.errors import (
    FinishedAppendError,
    N5Error,
    NodeNotFoundError,
    ResumeError,
    StaleTaskError,
)
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.writing.begin import Begun, CrossedError
from xarray_n5.writing.group import tree_of
from xarray_n5.writing.request import aligned_blocks, short_hash
from xarray_n5.writing.run import compute_writes, report_of
from xarray_n5.writing.write import ArrayWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da
    import xarray as xr

    from xarray_n5.arrays.claims import Record
    from xarray_n5.datasets.update import Update
    from xarray_n5.writing.request import WriteOptions, WriteRequest

_TRIES = 3
"""The number of times that an append which meets another beginning is planned."""

_PAUSE = 0.5
"""The maximum number of seconds before it is planned again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Append:
    """An append that is checked, and what it has found."""

    plan: Update
    dim: str
    path: str
    """The path of the group."""
    requests: Mapping[str, WriteRequest]
    sources: Mapping[str, da.Array]
    """The blocks of each array, which do not share stored chunks."""
    token: str
    others: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """The records of unfinished appends, by attempt."""

    @property
    def how(self) -> WriteOptions:
        return self.plan.how

    @property
    def growing(self) -> dict[str, tuple[list[int], list[int]]]:
        """The stored shapes of the arrays, by path in the group, now and after the append."""
        shapes = {}
        for name in self.plan.encoded:
            node = self.plan.arrays[name].node
            new = node.with_shape(self.plan.shape_of(name)).metadata.shape
            shapes[self.inner(name)] = ([*node.metadata.shape], [*new])
        return shapes

    def inner(self, name: str) -> str:
        """Return the path of an array in the group."""
        return self.plan.arrays[name].path.removeprefix(self.path).strip("/")


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
    for left in reversed(range(_TRIES)):
        try:
            return _append(_plan(dataset, path, how, dim, discard=discard))
        except CrossedError as error:
            if not left:
                raise ResumeError(how.container.url, path, "just now", str(error)) from None
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - no secret
            how = _renewed(how)
    raise AssertionError  # pragma: no cover


def _renewed(how: WriteOptions) -> WriteOptions:
    return replace(how, container=how.container.uncached().cached())


def _plan(dataset: xr.Dataset, path: str, how: WriteOptions, dim: str, *, discard: bool) -> _Append:
    """Check an append against the stored arrays, and against other appends."""
    state = look(how.store, path)
    for record in sorted(state.opens):
        raise _unfinished(how, path, record)
    others = read_appends(how.store, path, state.appends)
    if not others and state.notes:
        sweep_notes(how.store, path)
    if committed := {key: facts for key, facts in others.items() if facts.get("commit")}:
        try:
            Commit.take(how, path, committed).finish()
        except StaleTaskError as error:  # by another helper
            raise CrossedError(str(error)) from None
        return _plan(dataset, path, _renewed(how), dim, discard=discard)
    try:
        existing = ExistingGroup(open_stored(path, how))
    except NodeNotFoundError as error:
        raise nothing_to_append(error) from error
    plan = plan_update(dataset, existing, how, append_dim=dim)
    requests = plan.requests
    append = _Append(
        plan=plan,
        dim=dim,
        path=path,
        requests=requests,
        sources={name: _aligned(plan, name, requests[name]) for name in requests},
        token=_token(plan, requests, how),
        others=others,
    )
    foreign = {key: facts for key, facts in others.items() if facts.get("token") != append.token}
    if discard:
        delete_records(how.store, path, map(name_of, others))
        return replace(append, others={})
    mine = {} if how.resume else {k: facts for k, facts in others.items() if k not in foreign}
    for facts in (foreign | mine).values():
        why = (
            "it is an append: repeat that call with resume=True, or pass discard=True to give it up"
        )
        raise ResumeError(how.container.url, path, began(facts), why)
    if how.resume and not others:
        _check_row(append)
        check_not_appended(plan.dataset, plan.stored, dim, plan.group.url, None)
    return append


def _start(plan: Update, name: str) -> tuple[int, ...]:
    """Return the element of an array at which an append begins."""
    axis = plan.stored.variables[name].dims.index(plan.append_dim)
    end = plan.slices[str(plan.append_dim)].start
    return tuple(end if at == axis else 0 for at in range(plan.arrays[name].ndim))


def _aligned(plan: Update, name: str, request: WriteRequest) -> da.Array:
    chunks, strict = plan.arrays[name].node.metadata.chunks, not plan.how.align_chunks
    return aligned_blocks(request.source, chunks, _start(plan, name), strict=strict)


def _token(plan: Update, requests: Mapping[str, WriteRequest], how: WriteOptions) -> str:
    """Return the name of an append in records: the same call has the same, wherever arrays end."""
    arrays: dict[str, Any] = {}
    code: dict[str, str] = {}
    for name, request in requests.items():
        data = how.resume if isinstance(how.resume, str) else request.source.name
        arrays[name] = [data, request.source.shape, str(request.source.dtype)]
        code |= request.code
    places = {dim: tokenize(plan.dataset[dim].to_numpy()) for dim in plan.in_axes}
    return short_hash({"dim": plan.append_dim, "is": arrays, "code": code, "axes": places}, 8)


def _check_unfinished(append: _Append) -> None:
    """Raise if the first write of an array, or another one at its end, is unfinished."""
    store, plan = append.how.store, append.plan
    nodes = {name: plan.arrays[name].node for name in plan.encoded}
    listings = store.list_many([join(node.path, HIDDEN) for node in nodes.values()])
    for (name, node), listing in zip(nodes.items(), listings, strict=True):
        state, counts = state_of(listing), node.metadata.grid.counts
        axis = plan.stored.variables[name].dims.index(append.dim)
        end = tuple(
            range(max(0, n - 1) if at == axis else 0, max(1, n)) for at, n in enumerate(counts)
        )
        for record in sorted(state.opens) if state.clears else state.meeting(end):
            raise _unfinished(append.how, node.path, record)


def _unfinished(how: WriteOptions, path: str, record: Record) -> ResumeError:
    facts = read(how.store, path, record.name) or {}
    why = "the first write of this series is unfinished: repeat it with resume=True"
    return ResumeError(how.container.url, path, began(facts), why)


def _row(append: _Append) -> str:
    return f"done/append-{append.token}"


def _check_row(append: _Append) -> None:
    """Raise FinishedAppendError if an array has the row of this append."""
    paths = [append.plan.arrays[name].path for name in append.plan.encoded]
    keys = [join(path, HIDDEN, _row(append)) for path in paths]
    if any(data is not None for data in append.how.store.get_many(keys)):
        start = append.plan.slices[append.dim].start
        size = append.plan.dataset.sizes[append.dim]
        url = append.how.container.url
        raise FinishedAppendError(url, append.dim, slice(start - size, start))


def _append(append: _Append) -> xr.DataTree:
    """Append: the record, the ends, the data, the commit, the documents, in this order."""
    how, plan = append.how, append.plan
    claim, facts = _claim(append)
    growing = append.growing
    if "grows" not in facts:
        facts = {**facts, "grows": growing}
        _check_ends(append, claim)
        claim.begin(facts)
    commit = Commit(how=how, path=append.path, claim=claim, facts=facts, row=_row(append))
    moved = plan.moved
    changes = changes_of(plan, moved)
    if changes:
        save_changes(claim, changes)
        facts = {**facts, "changes": True}
    if how.format.one_writer:
        commit.grow()
    writes = {
        append.inner(name): _begun(append, name, claim, number)
        for number, name in enumerate(sorted(append.requests))
    }
    receipts = compute_writes(writes)
    _look(append, claim)
    if not how.format.one_writer:
        _check_ends(append, claim)
    commit = replace(commit, facts={**facts, "commit": True})
    claim.begin(commit.facts)
    with suppress(StaleTaskError):  # whoever has taken over finishes it
        commit.finish()
    return tree_of({name: report_of(receipts[name], writes[name]) for name in writes})


def _claim(append: _Append) -> tuple[Claim, dict[str, Any]]:
    """Store the record of an append, look once more, and take over records of the same token."""
    store, path, attempt = append.how.store, append.path, new_attempt()
    earlier = _best(append.others)
    claim = Claim(
        store=store,
        path=path,
        name=name_of(attempt),
        token=append.token,
        began=earlier.get("began", attempt),
    )
    facts: dict[str, Any] = {**provenance(), "dim": append.dim}
    facts |= {key: earlier[key] for key in ("grows", "changes") if key in earlier}
    claim.begin(facts)
    try:
        now = appends_in(store, path, attempt)
        _check_others(append, now)
        if not append.others and append.how.resume:
            _check_row(append)
        _check_unfinished(append)
    except BaseException:
        delete_records(store, path, [claim.name])
        raise
    # What a slow owner has stated since it was planned is final now: it stops at its next look.
    latest = _best(now)
    if latest.get("grows") != earlier.get("grows") or latest.get("commit"):
        facts |= {key: latest[key] for key in ("grows", "changes", "commit") if key in latest}
        claim.begin(facts)
    delete_records(store, path, map(name_of, append.others))
    return claim, facts


def _check_others(append: _Append, now: Mapping[str, Any]) -> None:
    if set(now) != {*append.others}:
        raise CrossedError("another append has begun, or ended")


def _best(records: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the record of several that has come furthest."""
    ranked = sorted(records.values(), key=lambda facts: ("commit" in facts, "grows" in facts))
    return ranked[-1] if ranked else {}


def _look(append: _Append, claim: Claim) -> None:
    """Stop if another process has taken over the append."""
    state = state_of(claim.store.list(join(claim.path, HIDDEN)))
    mine = attempt_of(claim.name)
    others = read_appends(claim.store, claim.path, state.appends - {mine})
    taken = any(facts.get("token") == append.token for facts in others.values())
    if taken or mine not in state.appends:
        claim.end()
        raise CrossedError("another process has taken over this append, and continues it")


def _check_ends(append: _Append, claim: Claim) -> None:
    """Raise if arrays have been resized since the append was planned; withdraw."""
    nodes = [append.plan.arrays[name].node for name in append.plan.encoded]
    found = append.how.container.fresh().nodes([node.path for node in nodes], verify=False)
    for node, now in zip(nodes, found, strict=True):
        metadata = None if isinstance(now, N5Error) else now.metadata
        if getattr(metadata, "shape", None) != node.metadata.shape:
            claim.end(notes=True)
            raise CrossedError(f"{append.dim!r} of {node.path!r} has changed its length meanwhile")


def _begun(append: _Append, name: str, claim: Claim, number: int) -> Begun:
    """Return the write of one array, whose chunks beyond the end nobody reads yet."""
    request, array = append.requests[name], append.plan.arrays[name]
    old = array.node.metadata.shape
    node, how = array.node.with_shape(append.plan.shape_of(name)), append.how
    options = replace(node.options, write_empty=how.write_empty_chunks, edges=how.edge_chunks)
    write = ArrayWrite(
        target=replace(node, options=options).bare(),
        start=_start(append.plan, name),
        shape=request.source.shape,
        claim=claim,
        fresh=False,
        kept=old,
        dims=request.dims,
        prefix=f"{number}-",
    )
    source = append.sources[name]
    begun = Begun(request=request, source=source, write=write, row=Row("", None), facts={})
    return begun.renewed() if append.others else begun
