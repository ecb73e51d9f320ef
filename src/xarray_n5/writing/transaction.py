"""Writes that begin and finish together: several arrays, or one."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.graph import reduce_all
from xarray_n5.model.paths import join
from xarray_n5.stores.together import together
from xarray_n5.writing.completed import remember
from xarray_n5.writing.finish import end
from xarray_n5.writing.progress import expect
from xarray_n5.writing.tasks import run, write_lazily

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.graph import DelayedReport
    from xarray_n5.writing.plan import WritePlan

Report = xr.Dataset


@dataclass(frozen=True, slots=True)
class Transaction:
    """Planned writes under one marker, which records when all of them have finished."""

    plans: Mapping[str, WritePlan]
    """The writes, by their names in the report."""
    marker: WriteMarker
    """The marker of the group that the arrays are in."""
    ends: Sequence[WriteMarker] = ()
    """The markers of finished writes that an interrupted finish has left."""
    remembered: bool = False
    """Whether resuming it again after its finish finds nothing to do."""
    closing: Callable[[], None] | None = None
    """The action after all data are written, before the marker is removed: it may be repeated, and
    is sent with the tasks."""
    ending: Mapping[str, Any] = field(default_factory=dict)
    """The facts that the marker keeps until the action is done."""

    def begin(self) -> Transaction:
        """Create the markers of the writes and their arrays."""
        return replace(self, plans=begin_all(self.plans, self.marker))

    @property
    def _markers(self) -> list[tuple[WriteMarker, bool]]:
        """The markers of the writes, and whether they may have records."""
        begun = [(plan.write.marker, plan.write.journal) for plan in self.plans.values()]
        return [*((marker, True) for marker in self.ends), *begun]

    def compute(self) -> xr.DataTree:
        """Compute the writes and finish them here, so that a lost worker cannot have done so."""
        expect(self.plans.values())
        reports = self._run(self._lazy(_unchanged))
        return self._finish(reports)

    def compute_in_turn(self) -> xr.DataTree:
        """Compute the writes level by level, where each reads the result of the one before."""
        expect(self.plans.values())
        stages: dict[str, dict[str, WritePlan]] = {}
        for name, plan in self.plans.items():
            stages.setdefault(name.rpartition("/")[2], {})[name] = plan
        reports: dict[str, Report] = {}
        for plans in stages.values():
            part = replace(self, plans=plans)
            reports |= part._run(part._lazy(_unchanged))  # noqa: SLF001
        return self._finish(reports)

    def _finish(self, reports: Mapping[str, Report]) -> xr.DataTree:
        """Finish the writes, and record that if wanted."""
        tree = self._last()(reports)
        for marker in (
            (*(each for each, _ in self._markers), self.marker) if self.remembered else ()
        ):
            remember(marker)
        return tree

    def delayed(self) -> DelayedReport:
        """Write data in memory, and return a computation of the other writes that finishes them."""
        now = {name: plan for name, plan in self.plans.items() if not plan.write.deferred}
        later = {name: plan for name, plan in self.plans.items() if plan.write.deferred}
        if not self.plans:
            return self._lazy(self._last())
        reports = replace(self, plans=now)._compute_part() if now else {}  # noqa: SLF001
        if not later:
            if self.closing is not None:
                self.closing()
            self.marker.end()
            return reduce_all([], partial(_given, reports=reports), _name())
        rest = replace(self, plans=later)
        markers = rest._markers  # noqa: SLF001
        if all(plan.write.planned for plan in later.values()):
            parts = [[marker.path, marker.token] for marker, _ in markers]
            self.marker.postpone({**(self.marker.facts() or {}), "parts": parts})
        return rest._lazy(rest._last(reports))  # noqa: SLF001

    def _last(self, before: Mapping[str, Report] | None = None) -> Callable[[Any], xr.DataTree]:
        """Return the function that finishes the writes, given their reports."""
        return partial(
            _end,
            marker=self.marker,
            markers=self._markers,
            before=before,
            ending=self.ending,
            closing=self.closing,
        )

    def _compute_part(self) -> dict[str, Report]:
        """Compute and finish these writes; the report of a resumed write has the same names."""
        expect(self.plans.values())
        reports: dict[str, Report] = self._run(self._lazy(_unchanged))
        written = [marker.path for marker, _ in self._markers]
        self.marker.begin({**(self.marker.facts() or {}), "written": written})
        together(self.marker.store, [partial(each.end, records=r) for each, r in self._markers])
        return reports

    def _run(self, lazy: DelayedReport) -> Any:
        return run(lazy, [plan.write for plan in self.plans.values()])

    def _lazy(self, last: Callable[[dict[str, Any]], Any]) -> DelayedReport:
        named = partial(_named, names=list(self.plans), last=last)
        return reduce_all(map(_lazily, self.plans.values()), named, _name())


def begin_all(
    plans: Mapping[str, WritePlan], marker: WriteMarker, *besides: Callable[[], object]
) -> dict[str, WritePlan]:
    """Begin writes of one transaction, and do something `besides`: together, or in this order."""
    writes = [plan.write for plan in plans.values()]
    alone = [replace(p, write=p.write.without_sources(writes)) for p in plans.values()]
    begin: Any = [partial(plan.begin, marker) for plan in alone]
    begun: list[Any] = together(marker.store, [*begin, *besides])
    return dict(zip(plans, begun, strict=False))


def resume_end(
    marker: WriteMarker, facts: Mapping[str, Any], closing: Callable[[], None] | None = None
) -> Transaction:
    """Begin the rest of a transaction whose finish was interrupted, and return it."""
    marker.begin(facts)
    ends = [replace(marker, path=path, token=token) for path, token in facts.get("parts", ())]
    ending = {key: facts[key] for key in ("start", "grows") if key in facts}
    return Transaction({}, marker, ends, closing=closing, ending=ending)


def compute_alone(plan: WritePlan) -> Report:
    """Compute a write that has begun and is not part of a transaction, and finish it here."""
    expect([plan])
    write = replace(plan.write, part=True)
    report: Report = run(write_lazily(plan.source, write, plan.before), [write])
    end(write)
    return report


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


def _end(
    reports: Mapping[str, Report],
    marker: WriteMarker,
    markers: Sequence[tuple[WriteMarker, bool]],
    before: Mapping[str, Report] | None,
    ending: Mapping[str, Any],
    closing: Callable[[], None] | None,
) -> xr.DataTree:
    """Finish writes: once their marker records that nothing is pending, they have finished."""
    marker.check()
    marker.done({**ending, "parts": [[each.path, each.token] for each, _ in markers]})
    if closing is not None:
        closing()
    store, ends = marker.store, [partial(e.ending, records=r, part=True) for e, r in markers]
    # The other writes into the group are looked for while the markers of arrays are removed.
    calls: list[Any] = [*together(store, ends), partial(marker.ending, records=False)]
    together(store, calls)[-1]()
    return xr.DataTree.from_dict({**(before or {}), **reports})
