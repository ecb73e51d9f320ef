"""Write arrays of a group as one: they are finished when all of them are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.records import (
    Record,
    append_name,
    began,
    claim_of,
    delete_records,
    look,
    new_attempt,
    provenance,
    read,
)
from xarray_n5.errors import NodeExistsError, ResumeError
from xarray_n5.model.alerts import warn
from xarray_n5.stores import together
from xarray_n5.writing.deferred import DeferredWrite
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import short_hash
from xarray_n5.writing.run import write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xarray_n5.arrays.records import Claim, State
    from xarray_n5.writing.options import WriteOptions
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.report import WriteReport
    from xarray_n5.writing.request import WriteRequest


def _nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWrite:
    """Arrays of a group, and what is done before and after them."""

    options: WriteOptions
    path: str
    """The path of the group."""
    requests: Mapping[str, WriteRequest]
    """The arrays to write, by their names in the report."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What else is written, such as attributes of groups: the same call has the same."""
    check: Callable[[bool], None] = _nothing
    """Raise if something must stay; called with whether an earlier attempt is continued."""
    prepare: Callable[[], object] = _nothing
    """Create groups and remove what is replaced; it may be repeated."""
    closing: Callable[[], None] = _nothing
    """What follows when all data are stored; it may be repeated, and is sent with tasks."""
    closes_early: bool = True
    """Whether it also comes at once where data are computed later, as in xarray."""
    in_turn: bool = False
    """Whether each array is computed from the one before."""
    exclusive: bool | None = None
    """Whether the group is this write's alone, not its arrays only; by default by the mode."""

    @property
    def is_exclusive(self) -> bool:
        """Whether the group is this write's alone, with what is in it."""
        return self.options.mode in {"w-", "w"} if self.exclusive is None else self.exclusive

    def write(self) -> WriteReport | DeferredWrite:
        """Check everything, write the arrays, and return their reports; or defer Dask arrays."""
        return self.plan().run()

    def plan(self) -> PlannedGroup:
        """Run all checks; nothing is written."""
        options, state = self.options, look(self.options.store, self.path)
        if not options.resume:
            self._check_others(state.opens)
            self.check(False)  # noqa: FBT003 - nothing is continued
        group = short_hash(dict(self.attributes))
        requests = [replace(request, group=group) for request in self.requests.values()]
        planned = together(options.store, [partial(plan_write, request) for request in requests])
        plans = dict(zip(self.requests, planned, strict=True))
        arrays = {name: plan.identity.token for name, plan in plans.items()}
        token = short_hash({"arrays": arrays, "group": group}, 8)
        tokens = {token, options.resume} if options.resume and self.is_exclusive else ()
        earlier = frozenset(record for record in state.opens if record.token in tokens)
        if options.resume:
            self._check_others(state.opens - earlier)
            self.check(bool(earlier) or not any(plan.creates for plan in planned))
        return PlannedGroup(group=self, plans=plans, token=token, state=state, earlier=earlier)

    def _check_others(self, others: frozenset[Record]) -> None:
        """Raise if another write of the whole group is unfinished, unless it is replaced."""
        if not others or self.options.mode == "w":
            return
        url = self.options.container.url
        when = began(read(self.options.store, self.path, min(others).name) or {})
        if self.options.resume:
            why = "it is a write of something else: repeat that, or start again with mode='w'"
            raise ResumeError(url, self.path, when, why)
        hint = f"a write of it that began {when} is unfinished: repeat it with resume=True"
        raise NodeExistsError(url, self.path, "a group", hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """The checked write of a group, and the records that were there."""

    group: GroupWrite
    plans: Mapping[str, WritePlan]
    token: str
    """The name of the write in records."""
    state: State
    earlier: frozenset[Record]
    """The records of earlier attempts, or of the write that the user names."""

    @property
    def is_done(self) -> bool:
        """Whether this very write has finished before."""
        return not self.earlier and all(plan.is_done for plan in self.plans.values())

    def run(self) -> WriteReport | DeferredWrite:
        """Write the arrays and return their reports; or defer Dask arrays."""
        group, claim = self.group, None if self.is_done and self.plans else self._prepare()
        if not group.options.deferred:
            return write_all(self.plans, group.closing, claim, in_turn=group.in_turn)
        later = {name: plan for name, plan in self.plans.items() if not plan.request.in_memory}
        now = {name: plan for name, plan in self.plans.items() if name not in later}
        reports = write_all(now).arrays
        deferred = DeferredWrite.of(later, reports, group.closing)
        if group.closes_early and not self.is_done:
            group.closing()
        if claim is not None:
            claim.check(trusted=False)
            claim.end()
        return deferred

    def _prepare(self) -> Claim | None:
        """Store the record of the group, and create or empty it."""
        group, claim = self.group, None
        if group.is_exclusive:
            if group.options.format.one_writer:  # a new file has no records
                create_group(group.options.container, group.path, mode="a")
            if group.path:  # a new container is recognised before there is anything in it
                create_group(group.options.container, group.path.rpartition("/")[0], mode="a")
            claim = self._claim()
        group.prepare()
        if claim is not None:
            claim.check()
        return claim

    def _claim(self) -> Claim:
        """Store the record of the group, look once more, and delete those that it replaces."""
        options, path, state = self.group.options, self.group.path, self.state
        store, record = options.store, Record(self.token, new_attempt(), ())
        claim = claim_of(store, path, record)
        claim.begin(provenance())
        if look(store, path).opens != state.opens | {record}:
            delete_records(store, path, [claim.name])
            why = "another write of this group has begun at the same moment; repeat the call"
            raise ResumeError(options.container.url, path, "just now", why)
        if state.opens - self.earlier or state.appends:
            warn(f"mode='w' replaces an unfinished write of {path or '/'!r} in {store.url!r}")
        replaced = [*(record.name for record in state.opens), *map(append_name, state.appends)]
        delete_records(store, path, replaced)
        return claim
