"""Append Datasets to stored ones: data first, the shapes of arrays last (docs/writing.md)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from dask.base import tokenize

from xarray_n5.arrays.records import (
    Append,
    Claim,
    Record,
    append_name,
    began,
    claim_of,
    delete_all_notes,
    delete_records,
    look,
    new_attempt,
    parse,
    provenance,
    read,
    read_appends,
    state_of,
)
from xarray_n5.datasets.region import find_samples
from xarray_n5.datasets.update import open_stored, plan_again, plan_update
from xarray_n5.datasets.write import ExistingGroup
from xarray_n5.errors import FinishedAppendError, NodeNotFoundError, ResumeError, StaleTaskError
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.stores import together
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.plan import WritePlan
from xarray_n5.writing.report import WriteReport
from xarray_n5.writing.request import aligned_blocks, short_hash
from xarray_n5.writing.run import CrossedError, compute_writes, renewed, report_of, tried
from xarray_n5.writing.tasks import ArrayWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.update import Update
    from xarray_n5.writing.request import Identity


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
        return plan_again(partial(_plan, dataset, path, dim, discard), how).run()

    return tried(partial(call, how), lambda: call(how.renewed()), how.container.url, path)


def _plan(dataset: xr.Dataset, path: str, dim: str, discard: bool, how: WriteOptions) -> _Append:
    """Check an append against the stored arrays, and against other appends."""
    state = look(how.store, path)
    for record in sorted(state.opens):
        raise _unfinished(how, path, record)
    records = read_appends(how.store, path, state.appends)
    if not records and state.notes:
        delete_all_notes(how.store, path, state)
    try:
        if complete(how, path, records):
            return _plan(dataset, path, dim, discard, how.renewed())
    except StaleTaskError as error:  # by another helper
        raise CrossedError(str(error)) from None
    try:
        existing = ExistingGroup(open_stored(path, how), appends=[*records.values()])
    except NodeNotFoundError as error:
        hint = "there is nothing to append to: omit append_dim in the first write"
        raise NodeNotFoundError(error.url, error.path, error.expected, hint) from error
    plan = plan_update(dataset, existing, how, append_dim=dim)
    append = _Append.of(plan, {} if discard else records)
    if discard:  # the data beyond the ends are never read
        for facts in records.values() if how.format.one_writer else ():
            Commit(how=how, claim=append.claim, facts=facts).shrink()
        delete_records(how.store, path, map(append_name, records))
    append.check_earlier()
    return append


def _unfinished(how: WriteOptions, path: str, record: Record) -> ResumeError:
    facts = read(how.store, path, record.name) or {}
    why = "the first write of this series is unfinished: repeat it with resume=True"
    return ResumeError(how.container.url, path, began(facts), why)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Append:
    """An append that is checked, and the records of earlier attempts."""

    plan: Update
    claim: Claim
    writes: Mapping[str, WritePlan]
    """The writes of its arrays beyond their ends, by name."""
    records: Mapping[str, dict[str, Any]]
    """The records of earlier attempts that are continued."""

    @classmethod
    def of(cls, plan: Update, records: Mapping[str, dict[str, Any]]) -> Self:
        """Return an append whose blocks do not share stored chunks."""
        how = plan.how
        earlier = max(records.values(), key=lambda facts: "grows" in facts, default={})
        starts = {
            name: tuple(side.start for side in request.region or ())
            for name, request in sorted(plan.requests.items())
        }
        identities = {name: plan.requests[name].identity(start) for name, start in starts.items()}
        token = _token(plan, identities)
        record = Append(token, new_attempt())
        claim = claim_of(how.store, plan.existing.group.path, record, earlier.get("began"))
        writes = {}
        for number, (name, start) in enumerate(starts.items()):
            request = plan.requests[name]
            target: Any = request.target
            write = ArrayWrite(
                target=target.bare(),
                start=start,
                shape=request.source.shape,
                claim=claim,
                fresh=False,
                kept=tuple(plan.grows[name][0]),
                prefix=f"{number}-",
            )
            writes[name] = WritePlan(
                request=request,
                source=aligned_blocks(request.source, target.metadata.chunks, start),
                write=write,
                identity=identities[name],
            )
        return cls(plan=plan, claim=claim, writes=writes, records=records)

    @property
    def how(self) -> WriteOptions:
        """The options of the write."""
        return self.plan.how

    def check_earlier(self) -> None:
        """Raise unless unfinished appends are earlier attempts to resume, and none has finished."""
        claim, dim = self.claim, str(self.plan.append_dim)
        tokens = [facts.get("token") for facts in self.records.values()]
        if self.how.resume and claim.token not in tokens:
            self._check_not_finished()
        for facts in self.records.values():
            if not self.how.resume or facts.get("token") != claim.token:
                why = "it is an append: repeat that call with resume=True, or pass discard=True"
            elif facts.get("grows", self.plan.grows) != self.plan.grows:
                why = f"{dim!r} has changed its length since: pass discard=True to append again"
            else:
                continue
            raise ResumeError(self.how.container.url, claim.path, began(facts), why)

    def _check_not_finished(self) -> None:
        """Raise FinishedAppendError if an array has the row of this append, or its samples."""
        plan, dim = self.plan, str(self.plan.append_dim)
        stored, samples = plan.existing.dataset, None
        with suppress(ValueError):  # they are not there, or have no coordinate
            samples = find_samples(plan.dataset, stored, dim)
        row = f"{HIDDEN}/done/append-{self.claim.token}"
        keys = [join(self.claim.path, name, row) for name in self.writes]
        for name, document in zip(self.writes, self.how.store.get_many(keys), strict=True):
            if samples is None and document is not None:
                axis = stored.variables[name].dims.index(dim)
                before, after = parse(document).get("grows", {}).get(name, plan.grows[name])
                samples = slice(before[axis], after[axis])
        if samples is not None:
            raise FinishedAppendError(plan.existing.group.url, dim, samples)

    def run(self) -> WriteReport:
        """Append: the record, the ends, the data, the commit, the documents, in this order."""
        writes, commit = self.writes, self._begin()
        if self.how.format.one_writer:
            commit.grow()
        if self.records:
            writes = {name: renewed(write) for name, write in writes.items()}
        receipts = compute_writes(writes)
        try:
            self._look(first=False)
        except CrossedError:
            self.claim.end()
            raise
        commit = replace(commit, facts={**commit.facts, "commit": True})
        self.claim.begin(commit.facts)
        with suppress(StaleTaskError):  # whoever has taken over finishes it
            commit.finish()
        return WriteReport({name: report_of(receipts[name], writes[name]) for name in writes})

    def _begin(self) -> Commit:
        """Store the record, look once more, and take over those of earlier attempts."""
        store, claim = self.how.store, self.claim
        facts: dict[str, Any] = {**provenance(), "dim": self.plan.append_dim}
        claim.begin(facts)
        try:
            self._look(first=True)
        except BaseException:
            delete_records(store, claim.path, [claim.name])
            raise
        commit = Commit(how=self.how, claim=claim, facts={**facts, "grows": self.plan.grows})
        claim.begin(commit.facts)
        delete_records(store, claim.path, map(append_name, self.records))
        return commit

    def _look(self, *, first: bool) -> None:
        """Raise unless the records of writes and the ends of the arrays are as they were planned.

        Before the `first` change, other writes to the chunks at the ends are refused.
        """
        how, claim, store = self.how, self.claim, self.how.store
        places = [join(claim.path, name) for name in self.plan.grows]
        folders = [join(path, HIDDEN) for path in (claim.path, *(places if first else ()))]
        calls: list[Any] = [
            partial(store.list_many, folders),
            partial(how.container.fresh().nodes, places, verify=False),
        ]
        listings, nodes = together(store, calls)
        attempts = state_of(listings[0]).appends
        others = {attempt for attempt in attempts if append_name(attempt) != claim.name}
        records = read_appends(store, claim.path, others)
        same = [facts for facts in records.values() if facts.get("token") == claim.token]
        if others == attempts or (same and not first):
            raise CrossedError("another process has taken over this append, and continues it")
        committed = any(facts.get("commit") for facts in same)  # by a slow owner
        if first and (committed or records.keys() != self.records.keys()):
            raise CrossedError("another append has begun, or ended")
        for name, place, listing in zip(self.plan.grows, places, listings[1:], strict=False):
            state, box = state_of(listing), self.writes[name].write.box
            ends = tuple(range(max(0, side.start - 1), side.stop) for side in box)
            for record in sorted(state.opens) if state.clears else state.meeting(ends):
                raise _unfinished(how, place, record)
        may_have_grown = self.records or how.format.one_writer
        for node, (old, new) in zip(nodes, self.plan.grows.values(), strict=True):
            if [*_shape(node)] not in ([old, new] if may_have_grown else [old]):
                why = f"{self.plan.append_dim!r} of {node.path!r} has changed its length meanwhile"
                raise CrossedError(why)


def _token(plan: Update, identities: Mapping[str, Identity]) -> str:
    """Return the name of an append in records: the same call has the same, wherever arrays end."""
    arrays: dict[str, Any] = {}
    code: dict[str, str] = {}
    for name, identity in identities.items():
        arrays[name] = [identity.parts[key] for key in ("data", "shape", "type")]
        code |= identity.code
    places = {dim: tokenize(plan.dataset[dim].to_numpy()) for dim in plan.in_axes}
    return short_hash({"dim": plan.append_dim, "is": arrays, "code": code, "axes": places}, 8)


def _shape(node: Any) -> tuple[int, ...]:
    """Return the shape of a node; none if it is not an array."""
    return getattr(getattr(node, "metadata", None), "shape", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The rest of an append, which may be repeated."""

    how: WriteOptions
    claim: Claim
    facts: Mapping[str, Any]
    """What the record states."""

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
        pairs = [map(tuple, pair) for pair in grows.values()]
        return {p: (_shape(node), *pair) for p, node, pair in zip(paths, nodes, pairs, strict=True)}

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
    """Take over and finish an append that has stored all its data; return if there was one."""
    committed = {key: dict(facts) for key, facts in records.items() if facts.get("commit")}
    if committed:
        facts = next(iter(committed.values()))
        record = Append(str(facts.pop("token", "")), new_attempt())
        claim = claim_of(how.store, path, record, facts.pop("began", None))
        claim.begin(facts)
        now = look(how.store, path).appends
        delete_records(how.store, path, [append_name(key) for key in now if key in committed])
        Commit(how=how, claim=claim, facts=facts).finish()
    return bool(committed)


def complete_appends(array: Array) -> None:
    """Finish appends to the group of an array that have stored all of their data."""
    container = array.node.container.uncached()
    if array.path:
        group = array.path.rpartition("/")[0]
        how = WriteOptions(container=container, mode="r+", consolidated=False)
        attempts = look(container.store, group).appends
        complete(how, group, read_appends(container.store, group, attempts))
