"""Rows of Markdown: what a contest gave, by CPU and by wall."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.benchmarks.clock import Cost, Quartiles
from ci.benchmarks.contests import ZARR2
from ci.benchmarks.limit import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci.benchmarks.contests import Contest

COLUMNS = ("ours", "TensorStore", "z5py", ZARR2, LIMIT)

HEADER = ("", "by", *COLUMNS)


@dataclass(frozen=True)
class Row:
    """What a contest gave."""

    contest: Contest
    costs: dict[str, list[Cost]]
    failed: dict[str, str]
    """Why some have no costs."""

    def figures(self, name: str, by: str) -> list[float]:
        """Return the seconds that each run took."""
        return [getattr(cost, by) for cost in self.costs[name]]

    def ratio(self, peer: str, by: str) -> float:
        """Return how many times as long the peer takes: above 1, ours is faster."""
        theirs, ours = self.figures(peer, by), self.figures("ours", by)
        return statistics.median(theirs) / statistics.median(ours)

    def spread(self, peer: str, by: str) -> str:
        """Return the ratio, and the quartiles of the ratios of each turn."""
        pairs = zip(self.figures(peer, by), self.figures("ours", by), strict=True)
        turns = Quartiles.of([theirs / max(ours, 1e-9) for theirs, ours in pairs])
        return f"{self.ratio(peer, by):.2f} ({turns.low:.2f}-{turns.high:.2f})"

    def cell(self, name: str, by: str) -> str:
        """Return what a table shows: milliseconds of ours, and ratios of others."""
        if name == LIMIT and (by == "wall" or name not in self.costs):
            return ""  # it has one thread, and is not of every work
        if name in self.failed:
            return self.failed[name] if self.failed[name] == "other values" else "fails"
        if name not in self.costs:
            return "not run"
        if name != "ours":
            return self.spread(name, by) if "ours" in self.costs else ""
        times = Quartiles.of([1000 * each for each in self.figures(name, by)])
        return f"{times.middle:.0f} ms ({times.low:.0f}-{times.high:.0f})"

    def size(self, name: str) -> str:
        """Return how large what was stored is."""
        size = self.contest.sizes.get(name)
        return "" if size is None or name in self.failed else f"{size / (1 << 20):.1f} MiB"

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Return the lines of the table."""
        for by, shown in (("cpu", "CPU"), ("wall", "wall")):
            yield (self.contest.title, shown, *(self.cell(name, by) for name in COLUMNS))
            for name in sorted(self.costs.keys() - set(COLUMNS)):
                # Another way of ours: it is compared with ours, as the peers are.
                blank = ("",) * (len(COLUMNS) - 1)
                yield (
                    f"{self.contest.title}: {name}",
                    shown,
                    f"{self.spread(name, by)} times ours",
                    *blank,
                )
        if self.contest.sizes:
            yield (self.contest.title, "size", *(self.size(name) for name in COLUMNS))


def markdown(header: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Return a table, line by line, as its lines come."""
    for cells in (header, ("---",) * len(header)):
        yield "| " + " | ".join(cells) + " |"
    for cells in lines:
        yield "| " + " | ".join(cells) + " |"


def show(lines: Iterable[str]) -> None:
    """Print lines as they come."""
    for line in lines:
        print(line, flush=True)
