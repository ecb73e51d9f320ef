"""How fast volumes are read and written, here and by others: python -m ci.benchmarks.speed."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import dask

from ci.benchmarks import boxes, latency, scheduler, targets, zarr2
from ci.benchmarks.clock import in_turns
from ci.benchmarks.contests import SECTIONS, Place
from ci.benchmarks.graphs import milliseconds, works
from ci.benchmarks.machine import cores, machine
from ci.benchmarks.table import HEADER, Row, markdown, show

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = ("xarray-n5", "tensorstore", "z5py", "dask", "xarray", "numpy", "deflate", "numcodecs")

KINDS = (*SECTIONS, "graphs", "scheduler", "cluster", "latency", "boxes")


def options() -> argparse.Namespace:
    """Return what the user asks for."""
    parser = argparse.ArgumentParser(
        description="Compare how fast volumes are read and written.",
        epilog="A ratio above 1 says how many times as long a peer takes.",
    )
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--size", type=int, default=64, help="MiB of a volume (%(default)s)")
    parser.add_argument("--turns", type=int, default=7, help="runs of each (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where containers are made, and removed")
    found = parser.parse_args()
    unknown = set(found.sections) - set(KINDS)
    if unknown or found.turns < 2 or found.size < 1:
        parser.error(f"sections are of {KINDS}, turns at least 2, sizes at least 1 MiB")
    return found


def contested(section: str, place: Place, turns: int, rows: list[Row]) -> Iterator[tuple[str, ...]]:
    """Run the contests of a section; return the lines of its table."""
    for contest in SECTIONS[section][1](place):
        row = Row(contest, *in_turns(contest.runs, turns))
        rows.append(row)
        yield from row.lines()


def graph_lines(folder: Path, turns: int) -> Iterator[tuple[str, ...]]:
    """Return how long graphs take."""
    for text, most, work in works(folder):
        took = milliseconds(work, turns)
        yield (text, f"{took} ms", f"{most} ms", "yes" if took.middle < most else "no")


def failures(rows: list[Row], folder: Path) -> Iterator[str]:
    """Return why some have no figures."""
    for row in rows:
        for name, why in row.failed.items():
            what = f"{row.contest.section}, {row.contest.title}, {name}"
            yield f"\n{what}: {why.replace(f'{folder}/', '')}"


def settings(place: Place, turns: int) -> str:
    """Return what the numbers are of."""
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    theirs = f"zarr {zarr2.version()}" if place.worker else "zarr 2 not run"
    return (
        f"Volumes of {place.mebibytes} MiB, {turns} turns, {cores()} threads for each; "
        "milliseconds of ours, and how many times as long others take: medians (quartiles). "
        f"{versions}, "
        f"{theirs}; {machine()}"
    )


def compare(place: Place, sections: list[str], turns: int) -> None:
    """Print the tables."""
    rows: list[Row] = []
    for section in SECTIONS:
        if section in sections:
            show(["", f"### {SECTIONS[section][0]}", ""])
            show(markdown(HEADER, contested(section, place, turns, rows)))
    if "graphs" in sections:
        show(["", "### Graphs", ""])
        header = ("", "took", "may take", "met")
        show(markdown(header, graph_lines(place.folder, turns)))
    if "scheduler" in sections:
        show(["", "### What a cluster's scheduler holds", ""])
        show(markdown(scheduler.HEADER, scheduler.lines(place.folder)))
    if "cluster" in sections:
        show(["", "### A cluster of two processes", ""])
        show(markdown(scheduler.ROWS, scheduler.cluster_lines(place.folder, turns)))
        show(["", scheduler.settings(turns)])
    if "latency" in sections:
        show(["", "### A server whose answers are late", ""])
        show(markdown(latency.HEADER, latency.lines(turns)))
        show(["", latency.settings(turns)])
    if "boxes" in sections:
        show(["", "### Functions with overlap, and other grids", ""])
        show(markdown(boxes.HEADER, boxes.lines(place.folder, turns)))
        show(["", boxes.settings(turns)])
    show(["", "### Targets", ""])
    show(markdown(targets.HEADER, targets.judged(rows)))
    show(failures(rows, place.folder))
    show(["", settings(place, turns)])


def main() -> None:
    """Make the containers, compare, and remove them."""
    asked = options()
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="n5-speed-", dir=asked.folder))
    threads = {"scheduler": "threads", "num_workers": cores()}
    try:
        with zarr2.working() as worker, dask.config.set(threads):
            place = Place(folder, asked.size, worker)
            compare(place, asked.sections or list(KINDS), asked.turns)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
