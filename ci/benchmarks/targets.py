"""What the package is to reach, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.benchmarks.limit import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci.benchmarks.table import Row


@dataclass(frozen=True)
class Target:
    """How many times as fast as its peers the package is to be, in every row of a kind."""

    text: str
    section: str
    peers: tuple[str, ...]
    factor: float
    compressions: tuple[str, ...] = ()
    """All, where there are none."""
    by: tuple[str, ...] = ("cpu", "wall")
    """What is to reach it."""

    def figures(self, rows: Iterable[Row], by: str) -> list[tuple[float, str]]:
        """Return the ratios that it is about, and where each is from; the least is first."""
        found = [
            (row.ratio(peer, by), f"{row.contest.title}, {peer}")
            for row in rows
            if row.contest.section == self.section
            and (not self.compressions or row.contest.compression in self.compressions)
            for peer in self.peers
            if peer in row.costs and "ours" in row.costs
        ]
        return sorted(found)


BEST = ("TensorStore", "z5py")

TARGETS = (
    Target("reads, 64³: the best of TensorStore and z5py", "reads", BEST, 1.0, by=("cpu",)),
    Target("reads, 64³, gzip: TensorStore", "reads", ("TensorStore",), 1.3, ("gzip",), ("cpu",)),
    Target("reads, 64³, raw: TensorStore", "reads", ("TensorStore",), 2.0, ("raw",), ("cpu",)),
    Target("reads, 64³: 1.2 times the limit", "reads", (LIMIT,), 0.83, by=("cpu",)),
    Target("reads, 16³: the best of TensorStore and z5py", "small reads", BEST, 1.0, by=("cpu",)),
    Target("reads, 16³: TensorStore", "small reads", ("TensorStore",), 0.9, by=("wall",)),
    Target("sums: the best of TensorStore and z5py", "totals", BEST, 1.0, by=("cpu",)),
    Target("cutouts: the best of TensorStore and z5py", "cutouts", BEST, 1.0, by=("cpu",)),
    Target("writes, gzip: the best", "writes", BEST, 1.0, ("gzip", "gzip-1"), ("cpu",)),
    Target("writes, raw: TensorStore", "writes", ("TensorStore",), 1.0, ("raw",)),
    Target("writes, blosc: TensorStore", "writes", ("TensorStore",), 1.0, ("blosc-lz4",)),
)
"""Figures that are kept, by the least ratio of all rows that they are about."""

HEADER = ("target", "times", "by CPU, at least", "by wall, at least", "where by CPU", "met")


def judged(rows: list[Row]) -> Iterator[tuple[str, ...]]:
    """Return a line of a table for each target."""
    for target in TARGETS:
        least = {by: target.figures(rows, by)[:1] for by in ("cpu", "wall")}
        if not least["cpu"]:
            yield (target.text, f"{target.factor}", "", "", "", "not run")
            continue
        (cpu, where), (wall, _) = least["cpu"][0], least["wall"][0]
        reached = [by for by, each in least.items() if each[0][0] >= target.factor]
        missed = [by for by in target.by if by not in reached]
        met = "no, by " + " and ".join(missed).replace("cpu", "CPU") if missed else "yes"
        yield (target.text, f"{target.factor}", f"{cpu:.2f}", f"{wall:.2f}", where, met)
