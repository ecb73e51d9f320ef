"""What runs cost, in turns, so that what else the machine does strikes all alike."""

from __future__ import annotations

import statistics
import textwrap
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    wall: float
    """Seconds on the clock."""
    cpu: float
    """Seconds of all threads of the process that did the work."""


@dataclass(frozen=True)
class Done:
    """One run: its cost, and what tells its result from others."""

    cost: Cost
    result: object


def timed(work: Callable[[], Any], told: Callable[[Any], object]) -> Done:
    """Do the work in this process; what `told` takes to tell of the result is not counted."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    cost = Cost(time.perf_counter() - wall, time.process_time() - cpu)
    return Done(cost, told(result))


def checksum(values: Any) -> int:
    """Return what arrays of the same values share: the sum of their bits, as whole numbers."""
    array = np.ascontiguousarray(values)
    return int(array.view(f"u{array.dtype.itemsize}").sum(dtype="u8"))


@dataclass(frozen=True)
class Quartiles:
    """The middle of some figures, and where the half around it lies."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Quartiles:
        """Return the quartiles of two figures or more."""
        return cls(*statistics.quantiles(figures, n=4, method="inclusive"))

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}-{self.high:.2f})"


def in_turns(
    runs: Mapping[str, Callable[[], Done]], times: int
) -> tuple[dict[str, list[Cost]], dict[str, str]]:
    """Run all, first once to warm up, then `times` in turns; return costs, and why some have none.

    Whoever raises, or finds other values than the first, is left out from then on.
    """
    failed: dict[str, str] = {}
    results: dict[str, object] = {}
    for name, run in runs.items():
        try:
            results[name] = run().result
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is told
            failed[name] = textwrap.shorten(f"{type(error).__name__}: {error}", 240)
    right = next(iter(results.values()), None)
    failed |= {name: "other values" for name, each in results.items() if each != right}
    left = [name for name in runs if name not in failed]
    costs: dict[str, list[Cost]] = {name: [] for name in left}
    for turn in range(times):
        first = turn % max(1, len(left))
        for name in left[first:] + left[:first]:
            costs[name].append(runs[name]().cost)
    return costs, failed
