"""Append Datasets to stored ones: data first, the shapes of arrays last (docs/writing.md)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from dask.base import tokenize

from xarray_n5.arrays.records import (
    Claim,
    append_name,
    began,
    delete_all_notes,
    delete_records,
    look,
    new_attempt,
    provenance,
    read,
    read_appends,
    state_of,
)
from xarray_n5.datasets.overwrite import ExistingGroup
from xarray_n5.datasets.region import stored_samples
from xarray_n5.datasets.update import open_stored, plan_update, update
from xarray_n5.errors import FinishedAppendError, NodeNotFoundError, ResumeError, StaleTaskError
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.stores import together
from xarray_n5.writing.begin import Begun, CrossedError, tried
from xarray_n5.writing.blocks import aligned_blocks
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.report import WriteReport
from xarray_n5.writing.request import short_hash
from xarray_n5.writing.run import compute_writes, report_of
from xarray_n5.writing.tasks import ArrayWrite
from xarray_n5.writing.user_code import code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.records import Record
    from xarray_n5.datasets.region import Region
    from xarray_n5.datasets.update import Update
    from xarray_n5.writing.deferred import DeferredWrite
    from xarray_n5.writing.options import Encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class _Append:
    """An append that is checked, and the records of earlier attempts."""

    plan: Update
    claim: Claim
    writes: Mapping[str, Begun]
    """The writes of its arrays beyond their ends, by their paths in the group."""
    grows: Mapping[str, list[list[int]]]
    """The shapes of the arrays, before and after."""
    records: Mapping[str, dict[str, Any]]
    """The records of earlier attempts that are continued."""


def change(
    dataset: xr.Dataset,
    path: str,
    how: WriteOptions,
    encoding: Encoding | None,
    append_dim: str | None,
    region: Region | None,
    *,
    discard: bool,
) -> WriteReport | DeferredWrite:
    """Write a Dataset into existing arrays: all of their values, a region, or beyond their ends."""
    if encoding or how.mode == "w" or (append_dim is not None and region is not None):
        raise ValueError(
            "append_dim, region and mode='r+' write into existing arrays: they exclude "
            "encoding, mode='w' and each other"
        )
    if append_dim is not None and how.mode == "r+":
        raise ValueError("append_dim makes arrays larger, which mode='r+' does not; use 'a'")
    if append_dim is not None:
        return append(dataset, path, how, append_dim, discard=discard)
    return update(dataset, path, how, region=region).write()


def append(
    dataset: xr.Dataset, path: str, how: WriteOptions, dim: str, *, discard: bool = False
) -> WriteReport:
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

    def call(how: WriteOptions) -> WriteReport:
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
        delete_all_notes(how.store, path, state)
    try:
        if complete(how, path, records):
            return _plan(dataset, path, _renewed(how), dim, discard=discard)
    except StaleTaskError as error:  # by another helper
        raise CrossedError(str(error)) from None
    try:
        existing = ExistingGroup(open_stored(path, how), appends=[*records.values()])
    except NodeNotFoundError as error:
        hint = "there is nothing to append to: omit append_dim in the first write"
        raise NodeNotFoundError(error.url, error.path, error.expected, hint) from error
    try:
        plan = plan_update(dataset, existing, how, append_dim=dim)
    except ValueError as error:
        if _has_changed(existing, path, how, records):
            raise CrossedError("another append has begun, or ended") from error
        raise
    append = _checked(plan, {} if discard else records)
    if discard:
        _discard(append, records)
    _check_earlier(append)
    return append


def _has_changed(
    existing: ExistingGroup, path: str, how: WriteOptions, records: Mapping[str, dict[str, Any]]
) -> bool:
    """Return whether an append may have grown some arrays, and not yet others, while we read."""
    if look(how.store, path).appends != records.keys():
        return True
    now = ExistingGroup(open_stored(path, _renewed(how)), appends=[*records.values()])
    return any(
        name not in now.arrays or now.arrays[name].shape != array.shape
        for name, array in existing.arrays.items()
    )


def _checked(plan: Update, records: Mapping[str, dict[str, Any]]) -> _Append:
    """Return an append whose blocks do not share stored chunks."""
    how, attempt, grows = plan.how, new_attempt(), plan.shapes
    earlier = max(records.values(), key=lambda facts: "grows" in facts, default={})
    path, first = plan.existing.group.path, earlier.get("began", attempt)
    claim = Claim(how.store, path, append_name(attempt), _token(plan), first)
    writes = {}
    for number, (name, request) in enumerate(sorted(plan.requests.items())):
        target: Any = request.target
        start = tuple(side.start for side in request.region or ())
        write = ArrayWrite(
            target=target.node.bare(),
            start=start,
            shape=request.source.shape,
            claim=claim,
            fresh=False,
            kept=tuple(grows[name][0]),
            dims=request.dims,
            prefix=f"{number}-",
        )
        source = aligned_blocks(request.source, target.node.metadata.chunks, start)
        writes[name] = Begun(source=source, write=write, batch_size=how.batch_size)
    return _Append(plan=plan, claim=claim, writes=writes, grows=grows, records=records)


def _token(plan: Update) -> str:
    """Return the name of an append in records: the same call has the same, wherever arrays end."""
    arrays: dict[str, Any] = {}
    code: dict[str, str] = {}
    for name, request in plan.requests.items():
        arrays[name] = [request.values, request.source.shape, str(request.source.dtype)]
        code |= code_of(request.source.dask)
    places = {dim: tokenize(plan.dataset[dim].to_numpy()) for dim in plan.in_axes}
    return short_hash({"dim": plan.append_dim, "is": arrays, "code": code, "axes": places}, 8)


def _discard(append: _Append, records: Mapping[str, dict[str, Any]]) -> None:
    """Give up unfinished appends of others: their data beyond the ends are never read."""
    how = append.plan.how
    for facts in records.values() if how.format.one_writer else ():
        Commit(how=how, claim=append.claim, facts=facts).shrink()
    delete_records(how.store, append.claim.path, map(append_name, records))


def _check_earlier(append: _Append) -> None:
    """Raise unless unfinished appends are earlier attempts to resume, and none has finished."""
    how, dim = append.plan.how, str(append.plan.append_dim)
    tokens = [facts.get("token") for facts in append.records.values()]
    if how.resume and append.claim.token not in tokens:
        _check_not_finished(append)
    for facts in append.records.values():
        if not how.resume or facts.get("token") != append.claim.token:
            why = "it is an append: repeat that call with resume=True, or pass discard=True"
            raise ResumeError(how.container.url, append.claim.path, began(facts), why)
        if facts.get("grows", append.grows) != append.grows:
            why = f"{dim!r} has changed its length since: pass discard=True to append again"
            raise ResumeError(how.container.url, append.claim.path, began(facts), why)


def _check_not_finished(append: _Append) -> None:
    """Raise FinishedAppendError if an array has the row of this append, or its samples."""
    plan, dim = append.plan, str(append.plan.append_dim)
    samples = stored_samples(plan.dataset, plan.existing.dataset, dim)
    row = f"{HIDDEN}/done/append-{append.claim.token}"
    keys = [join(append.claim.path, name, row) for name in append.writes]
    if samples is None and any(data is not None for data in plan.how.store.get_many(keys)):
        end = plan.slices[dim].start
        samples = slice(end - plan.dataset.sizes[dim], end)
    if samples is not None:
        raise FinishedAppendError(plan.existing.group.url, dim, samples)


def _unfinished(how: WriteOptions, path: str, record: Record) -> ResumeError:
    facts = read(how.store, path, record.name) or {}
    why = "the first write of this series is unfinished: repeat it with resume=True"
    return ResumeError(how.container.url, path, began(facts), why)


def _append(append: _Append) -> WriteReport:
    """Append: the record, the ends, the data, the commit, the documents, in this order."""
    claim, writes, commit = append.claim, append.writes, _begin(append)
    if append.plan.how.format.one_writer:
        commit.grow()
    if append.records:
        writes = {name: begun.renewed() for name, begun in writes.items()}
    receipts = compute_writes(writes)
    try:
        _look(append, first=False)
    except CrossedError:
        claim.end()
        raise
    commit = replace(commit, facts={**commit.facts, "commit": True})
    claim.begin(commit.facts)
    with suppress(StaleTaskError):  # whoever has taken over finishes it
        commit.finish()
    return WriteReport({name: report_of(receipts[name], writes[name]) for name in writes})


def _begin(append: _Append) -> Commit:
    """Store the record of an append, look once more, and take over those of earlier attempts."""
    how, claim = append.plan.how, append.claim
    facts: dict[str, Any] = {**provenance(), "dim": append.plan.append_dim}
    claim.begin(facts)
    try:
        _look(append, first=True)
    except BaseException:
        delete_records(how.store, claim.path, [claim.name])
        raise
    commit = Commit(how=how, claim=claim, facts={**facts, "grows": append.grows})
    claim.begin(commit.facts)
    delete_records(how.store, claim.path, map(append_name, append.records))
    return commit


def _look(append: _Append, *, first: bool) -> None:
    """Raise unless the records of writes and the ends of the arrays are as they were planned.

    Before the `first` change, other writes to the chunks at the ends are refused.
    """
    how, claim = append.plan.how, append.claim
    store, container = how.store, how.container.fresh()
    places = [join(claim.path, name) for name in append.grows]
    folders = [join(path, HIDDEN) for path in (claim.path, *(places if first else ()))]
    calls: list[Any] = [
        partial(store.list_many, folders),
        partial(container.nodes, places, verify=False),
    ]
    listings, nodes = together(store, calls)
    attempts = state_of(listings[0]).appends
    others = {attempt for attempt in attempts if append_name(attempt) != claim.name}
    records = read_appends(store, claim.path, others)
    mine = [facts for facts in records.values() if facts.get("token") == claim.token]
    if others == attempts or (mine and not first):
        raise CrossedError("another process has taken over this append, and continues it")
    committed = any(facts.get("commit") for facts in mine)  # by a slow owner
    if first and (committed or records.keys() != append.records.keys()):
        raise CrossedError("another append has begun, or ended")
    for name, place, listing in zip(append.grows, places, listings[1:], strict=False):
        state, box = state_of(listing), append.writes[name].write.box
        ends = tuple(range(max(0, side.start - 1), side.stop) for side in box)
        for record in sorted(state.opens) if state.clears else state.meeting(ends):
            raise _unfinished(how, place, record)
    may_have_grown = append.records or how.format.one_writer
    for node, (old, new) in zip(nodes, append.grows.values(), strict=True):
        shape = getattr(getattr(node, "metadata", None), "shape", ())
        if [*shape] not in ([old, new] if may_have_grown else [old]):
            why = f"{append.plan.append_dim!r} of {node.path!r} has changed its length meanwhile"
            raise CrossedError(why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The rest of an append, which may be repeated."""

    how: WriteOptions
    claim: Claim
    facts: Mapping[str, Any]
    """What the record states."""

    @classmethod
    def take(cls, how: WriteOptions, path: str, records: Mapping[str, Mapping[str, Any]]) -> Self:
        """Take over an append that has been committed by others."""
        attempt, facts = new_attempt(), dict(next(iter(records.values())))
        token, first = str(facts.pop("token", "")), str(facts.pop("began", attempt))
        claim = Claim(how.store, path, append_name(attempt), token, first)
        claim.begin(facts)
        now = look(how.store, path).appends
        delete_records(how.store, path, [append_name(key) for key in now if key in records])
        return cls(how=how, claim=claim, facts=facts)

    def grow(self) -> None:
        """Resize the arrays that still have their former shapes, but no consolidated metadata.

        Raises
        ------
        ResumeError
            If an array has another shape than before or after the append; none was resized then.
        """
        calls = []
        for path, (shape, old, new) in self._shapes().items():
            if shape not in {old, new}:
                why = f"{path!r} has the shape {shape} now, before the append it was {old}"
                url = self.how.container.url
                raise ResumeError(url, self.claim.path, began(dict(self.facts)), why)
            if shape == old:
                calls.append(partial(self.how.container.quiet().resize, path, new))
        if calls:
            self.claim.check()
            together(self.claim.store, calls)

    def shrink(self) -> None:
        """Resize the arrays to their former shapes, as HDF5 needs it to give up an append."""
        for path, (shape, old, new) in self._shapes().items():
            if shape == new:
                self.how.container.resize(path, old)

    def _shapes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return the shapes of the arrays as stored, and before and after, by path."""
        grows = self.facts.get("grows", {})
        paths = [join(self.claim.path, name) for name in grows]
        nodes = self.how.container.fresh().nodes(paths, verify=False)
        stored = [getattr(getattr(node, "metadata", None), "shape", ()) for node in nodes]
        pairs = [map(tuple, pair) for pair in grows.values()]
        return {p: (s, *pair) for p, s, pair in zip(paths, stored, pairs, strict=True)}

    def finish(self) -> None:
        """Resize the arrays, consolidate, leave the rows, and remove the record."""
        how, claim, grows = self.how, self.claim, self.facts.get("grows", {})
        self.grow()
        how.consolidate(claim.path, default=True)
        how.container.renew([claim.path, *(join(claim.path, name) for name in grows)])
        calls: list[Callable[[], Any]] = []
        for name, pair in grows.items():
            array, row = replace(claim, path=join(claim.path, name)), f"done/append-{claim.token}"
            calls.append(partial(array.finish, row, {"grows": {name: pair}}))
        together(claim.store, calls)
        claim.end(notes=True)


def complete(how: WriteOptions, path: str, records: Mapping[str, Mapping[str, Any]]) -> bool:
    """Finish an append that has stored all its data; return whether there was one."""
    committed = {key: facts for key, facts in records.items() if facts.get("commit")}
    if committed:
        Commit.take(how, path, committed).finish()
    return bool(committed)


def complete_appends(array: Array) -> None:
    """Finish appends to the group of an array that have stored all of their data."""
    container = array.node.container.uncached()
    if array.path:
        group = array.path.rpartition("/")[0]
        how = WriteOptions(container=container, mode="r+", consolidated=False)
        attempts = look(container.store, group).appends
        complete(how, group, read_appends(container.store, group, attempts))
