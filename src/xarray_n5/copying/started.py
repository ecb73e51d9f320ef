"""Copies that have started: what is pending, and how it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import xarray as xr

from xarray_n5.copying.compare import Comparison
from xarray_n5.writing.transaction import Transaction, compute_alone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.copying.archives import Packing
    from xarray_n5.writing.plan import WritePlan


@dataclass(frozen=True, slots=True)
class Copy:
    """A started copy: groups and arrays exist, and their chunks are pending."""

    transaction: Transaction | None = None
    """The writes of a group's arrays; None for an array alone."""
    alone: WritePlan | None = None
    repairs: Mapping[str, WritePlan] = field(default_factory=dict)
    """Pending writes of chunks that :func:`xarray_n5.repair` removed from a finished copy."""
    comparison: Comparison | None = None
    """The comparison of the finished copy with its source, if requested."""
    packing: Packing | None = None
    """The archive that the finished copy becomes, if that is its target."""

    @property
    def ended(self) -> bool:
        """Whether the copy to resume had ended."""
        pending = (self.transaction, self.alone, self.packing)
        return all(each is None for each in pending) and not self.repairs

    @property
    def chunks(self) -> int:
        """The number of pending chunks."""
        plans = [] if self.transaction is None else list(self.transaction.plans.values())
        plans += [] if self.alone is None else [self.alone]
        plans += self.repairs.values()
        return sum(plan.remaining for plan in plans)

    def compute(self) -> xr.DataTree | xr.Dataset:
        """Compute and finish the copy, and return the report as :func:`xarray_n5.to_n5` does.

        Raises
        ------
        DifferenceError
            If it is compared with its source, and chunks differ.
        """
        report, comparison = self._write(), self.comparison
        archive = None if self.packing is None else self.packing.finish()
        if comparison is not None:
            comparison = replace(comparison, container=archive or comparison.container)
            report.attrs["verified"] = comparison.compute()
        return report

    def compared(self) -> Copy:
        """Return the copy with a comparison of all that it writes."""
        plans = [] if self.transaction is None else [*self.transaction.plans.values()]
        if not plans:
            raise ValueError(
                "a copy of a project that has finished cannot be compared again with verify=True; "
                "compare the digests of its arrays: xarray_n5.digest(url, path)"
            )
        sources = [(plan.request.path, plan.source) for plan in plans]
        return replace(self, comparison=Comparison(plans[0].request.options.container, sources))

    def _write(self) -> xr.DataTree | xr.Dataset:
        if self.transaction is not None:
            return self.transaction.compute()
        if self.alone is not None:
            return compute_alone(self.alone)
        reports = {inner: compute_alone(plan) for inner, plan in self.repairs.items()}
        return xr.DataTree.from_dict(reports)
