"""How many rounds of requests to a store far away: python -m tests.benchmarks.rounds."""

from __future__ import annotations

import argparse
import statistics
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tests.benchmarks.machine import machine
from tests.benchmarks.table import markdown, show
from tests.support.far_work import WORKERS, WORKS, bucket, counted, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.remote import Bucket

HEADER = ("", "rounds", "requests", "time", "Zarr: rounds", "requests", "time")

LIBRARIES = ("xarray-n5", "xarray", "zarr", "fsspec", "dask")


def cells(
    work: Callable[[Bucket], Any] | None, latency: float, turns: int, *, theirs: bool
) -> tuple[str, str, str]:
    """Return the rounds, the requests and the seconds of some work."""
    if work is None:
        return "", "", ""
    run(work, bucket(theirs=theirs))  # imports, and what is kept
    fs = counted(work, theirs=theirs)
    took = []
    for _ in range(turns):
        late = bucket(theirs=theirs)
        late.latency = latency
        start = time.perf_counter()
        run(work, late)
        took.append(time.perf_counter() - start)
    return str(fs.rounds), str(len(fs.log)), f"{statistics.median(took):.2f} s"


def lines(latency: float, turns: int) -> Iterator[tuple[str, ...]]:
    """Return the lines of the table."""
    for work in WORKS:
        ours = cells(work.ours, latency, turns, theirs=False)
        theirs = cells(work.theirs, latency, turns, theirs=True)
        yield (work.title, *ours, *theirs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Count rounds of requests to a store far away.")
    parser.add_argument("--latency", type=int, default=50, help="milliseconds (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="runs of each (%(default)s)")
    asked = parser.parse_args()
    show(markdown(HEADER, lines(asked.latency / 1000, asked.turns)))
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    what = f"{asked.latency} ms for each request, {WORKERS} threads of Dask"
    show(["", f"Medians of {asked.turns} runs, {what}. {versions}; {machine()}", ""])
    show(f"- {work.title}: {work.why}." for work in WORKS)


if __name__ == "__main__":
    main()
