"""Writes that begin and finish together: several arrays, or one."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import xarray as xr
from dask.base import compute

from xarray_n5.graph import is_divisible, reduce_all
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import join
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import together
from xarray_n5.writing.finish import end, end_all, report_of
from xarray_n5.writing.resume import is_finished, remember
from xarray_n5.writing.tasks import stopping, write_in_batches, write_lazily, write_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.formats.containers import Container
    from xarray_n5.graph import DelayedReport
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteOptions

Report = xr.Dataset

_LARGE, _BATCH = 50_000, 10_000
"""The number of blocks up to which a write is one graph, and that of the batches of larger ones."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run of the same transaction, if this one resumes it."""

    facts: Mapping[str, Any] | None = None
    """The facts of its marker; None if there is no marker."""
    has_ended: bool = False
    """Whether it has finished, and nothing has changed since."""

    @classmethod
    def of(cls, marker: WriteMarker, how: WriteOptions) -> EarlierRun:
        """Return the earlier run of a write with a marker and options."""
        if not how.resume:
            return cls()
        facts = marker.facts() or marker.planned()
        return cls(facts, facts is None and how.mode == "w-" and is_finished(marker, how.container))

    @property
    def exists(self) -> bool:
        """Whether there is one, whose nodes this run may replace."""
        return self.facts is not None or self.has_ended

    @property
    def is_done(self) -> bool:
        """Whether all data are written, and only its finish was interrupted."""
        return bool(self.facts and self.facts.get("done"))

    @property
    def written(self) -> Sequence[str]:
        """The paths of arrays that need not be written again."""
        found: Sequence[str] = (self.facts or {}).get("written", [])
        return found


@dataclass(frozen=True, slots=True)
class Transaction:
    """Planned writes under one marker, which records when all of them have finished."""

    plans: Mapping[str, WritePlan]
    """The writes, by their names in the report."""
    marker: WriteMarker
    """The marker of the group that the arrays are in."""
    ends: Sequence[WriteMarker] = ()
    """The markers of finished writes that an interrupted finish has left."""
    remembered: Container | None = None
    """The container, if repeating it after its finish is to find nothing to do."""
    has_ended: bool = False
    """Whether all of it has finished before, so that nothing was begun."""
    closing: Callable[[], None] | None = None
    """The action after all data are written, before the marker is removed: it may be repeated, and
    is sent with the tasks."""
    ending: Mapping[str, Any] = field(default_factory=dict)
    """The facts that the marker keeps until the action is done."""

    def begin(self, *besides: Callable[[], object]) -> Transaction:
        """Create the markers of the writes and their arrays, and do something `besides`."""
        return replace(self, plans=begin_all(self.plans, self.marker, *besides))

    @property
    def _markers(self) -> list[tuple[WriteMarker, bool]]:
        """The markers of the writes, and whether they may have records."""
        writes = [plan.write for plan in self.plans.values() if not plan.is_done]
        begun = [(write.marker, write.journal or write.resumed) for write in writes]
        return [*((marker, True) for marker in self.ends), *begun]

    def compute(self) -> xr.DataTree:
        """Compute the writes and finish them here, so that a lost worker cannot have done so."""
        if self.has_ended:
            return xr.DataTree.from_dict(self._reports())
        for plan in self.plans.values():
            plan.expect()
        return self._finish(self._reports())

    def compute_in_turn(self) -> xr.DataTree:
        """Compute the writes level by level, where each reads the result of the one before."""
        for plan in self.plans.values():
            plan.expect()
        stages: dict[str, dict[str, WritePlan]] = {}
        for name, plan in self.plans.items():
            stages.setdefault(name.rpartition("/")[2], {})[name] = plan
        reports: dict[str, Report] = {}
        for plans in stages.values():
            reports |= replace(self, plans=plans)._reports()  # noqa: SLF001
        return self._finish(reports)

    def _finish(self, reports: Mapping[str, Report]) -> xr.DataTree:
        """Finish the writes, and record that if wanted, before their markers are removed."""
        if self.remembered is None:
            return self._last()(reports)
        nodes: list[tuple[WriteMarker, Report | None]] = [(each, None) for each in self.ends]
        writes = [(name, plan.write) for name, plan in self.plans.items()]
        nodes += [(write.own or write.marker, reports[name]) for name, write in writes]
        records: list[Any] = [
            partial(remember, marker, self.remembered, report)
            for marker, report in (*nodes, (self.marker, None))
        ]
        return self._last(records=records)(reports)

    def delayed(self) -> DelayedReport:
        """Write data in memory, and return a computation of the other writes that finishes them."""
        later = {n: p for n, p in self.plans.items() if p.write.deferred and not p.is_done}
        now = {name: plan for name, plan in self.plans.items() if name not in later}
        if self.has_ended:
            return reduce_all([], partial(_given, reports=self._reports()), _name())
        if not self.plans:
            return self._lazy(self._last())
        reports = replace(self, plans=now)._compute_part() if now else {}  # noqa: SLF001
        if not later:
            if self.closing is not None:
                self.closing()
            self.marker.end(appends="grows" in self.ending)
            return reduce_all([], partial(_given, reports=reports), _name())
        rest = replace(self, plans=later)
        markers = rest._markers  # noqa: SLF001
        if all(plan.write.planned for plan in later.values()):
            parts = [[marker.path, marker.token] for marker, _ in markers]
            self.marker.postpone({**(self.marker.facts() or {}), "parts": parts})
        return rest._lazy(rest._last(reports))  # noqa: SLF001

    def _last(
        self,
        before: Mapping[str, Report] | None = None,
        records: Sequence[Callable[[], None]] = (),
    ) -> Callable[[Any], xr.DataTree]:
        """Return the function that finishes the writes, given their reports."""
        return partial(
            end_all,
            marker=self.marker,
            markers=self._markers,
            before=before,
            ending=self.ending,
            closing=self.closing,
            records=records,
        )

    def _compute_part(self) -> dict[str, Report]:
        """Compute and finish these writes; the report of a resumed write has the same names."""
        for plan in self.plans.values():
            plan.expect()
        reports = self._reports()
        written = [marker.path for marker, _ in self._markers]
        self.marker.update({**(self.marker.facts() or {}), "written": written})
        together(self.marker.store, [partial(each.end, records=r) for each, r in self._markers])
        return reports

    def _reports(self) -> dict[str, Report]:
        """Compute the writes, large ones in batches, and return their reports."""
        pending = {name: plan for name, plan in self.plans.items() if not plan.is_done}
        reports = {n: _report_again(p) for n, p in self.plans.items() if n not in pending}
        with stopping(plan.write for plan in pending.values()):
            for plans, size in _submitted(pending):
                if size is None:
                    lazily = replace(self, plans=plans)._lazy  # noqa: SLF001
                    reports |= write_now(plans) or compute(lazily(_unchanged))[0]
                else:
                    reports |= {name: _in_batches(plan, size) for name, plan in plans.items()}
        return {name: reports[name] for name in self.plans}

    def _lazy(self, last: Callable[[dict[str, Any]], Any]) -> DelayedReport:
        named = partial(_named, names=list(self.plans), last=last)
        return reduce_all(map(_lazily, self.plans.values()), named, _name())


def begin_all(
    plans: Mapping[str, WritePlan], marker: WriteMarker, *besides: Callable[[], object]
) -> dict[str, WritePlan]:
    """Begin writes of one transaction, and do something `besides`: together, or in this order."""
    begin: Any = [partial(plan.begin, marker) for plan in plans.values()]
    begun: list[Any] = together(marker.store, [*begin, *besides])
    return dict(zip(plans, begun, strict=False))


def resume_end(
    marker: WriteMarker,
    facts: Mapping[str, Any],
    closing: Callable[[], None] | None = None,
    remembered: Container | None = None,
) -> Transaction:
    """Begin the rest of a transaction whose finish was interrupted, and return it."""
    marker.begin(facts)
    ends = [replace(marker, path=path, token=token) for path, token in facts.get("parts", ())]
    ending = {key: facts[key] for key in ("start", "grows") if key in facts}
    return Transaction({}, marker, ends, remembered, closing=closing, ending=ending)


def compute_alone(plan: WritePlan, remembered: Container | None = None) -> Report:
    """Compute a write that has begun and is not part of a transaction, and finish it here.

    With `remembered`, its container, repeating it finds nothing to do.
    """
    if plan.is_done:
        return _report_again(plan)
    plan.expect()
    write = replace(plan.write, part=True)
    size = batch_size_of(plan)
    with stopping([write]):
        if size is not None:
            report = _in_batches(plan, size)
        elif found := write_now({"": plan}):
            report = found[""]
        else:
            (report,) = compute(write_lazily(plan.source, write, plan.before))
    if remembered is not None:
        remember(write.own or write.marker, remembered, report)
    end(write)
    return report


def _report_again(plan: WritePlan) -> Report:
    """Return the report of a write that has finished before."""
    before = Receipts.of([], plan.source.ndim, "") if plan.before is None else plan.before
    return report_of(before, plan.write)


def _in_batches(plan: WritePlan, size: int) -> Report:
    return write_in_batches(plan.source, replace(plan.write, part=True), plan.before, size)


def _submitted(
    plans: Mapping[str, WritePlan],
) -> Iterator[tuple[dict[str, WritePlan], int | None]]:
    """Iterate over the writes to submit together, and the size of the batches of a large one."""
    several: dict[str, WritePlan] = {}
    total = 0
    for name, plan in plans.items():
        if (size := batch_size_of(plan)) is not None:
            yield {name: plan}, size
            continue
        count = math.prod(plan.source.numblocks)
        if several and total + count > (plan.request.options.batch_size or _LARGE):
            yield several, None
            several, total = {}, 0
        several[name] = plan
        total += count
    if several:
        yield several, None


def batch_size_of(plan: WritePlan) -> int | None:
    """Return the number of blocks to submit at a time, or None for all at once."""
    wanted, count = plan.request.options.batch_size, math.prod(plan.source.numblocks)
    if count <= (_LARGE if wanted is None else wanted):
        return None
    if is_divisible(plan.source):
        return _BATCH if wanted is None else wanted
    warn(
        f"the {count} blocks to write to {plan.target.url!r} are computed from each other, so that "
        "their graph cannot be divided into batches: it needs about 4 kB of memory a block. Store "
        "an intermediate result first, and open that"
    )
    return None


def compute_each(transactions: Sequence[tuple[str, Transaction]]) -> DelayedReport:
    """Return a computation of transactions by the paths of groups; each finishes by itself."""
    paths = [path for path, _ in transactions]
    joined = partial(join_reports, paths)
    return reduce_all([each.delayed() for _, each in transactions], joined, _name())


def join_reports(paths: Sequence[str], reports: Sequence[xr.DataTree]) -> xr.DataTree:
    """Merge the reports of several transactions by the paths of their groups."""
    return xr.DataTree.from_dict(
        {
            join(path, node.path.strip("/")): node.to_dataset()
            for path, report in zip(paths, reports, strict=True)
            for node in report.subtree
            if node.has_data
        }
    )


def _lazily(plan: WritePlan) -> DelayedReport:
    return write_lazily(plan.source, replace(plan.write, part=True), plan.before)


def _name() -> str:
    return f"to_n5-{uuid.uuid4().hex}"


def _given(_: list[Any], reports: dict[str, Report]) -> xr.DataTree:
    return xr.DataTree.from_dict(reports)


def _named(results: list[Any], names: list[str], last: Callable[[dict[str, Any]], Any]) -> Any:
    return last(dict(zip(names, results, strict=True)))


def _unchanged(reports: dict[str, Report]) -> dict[str, Report]:
    return reports
