"""What a cluster's scheduler holds for each task, beside that of ``dask.array.from_zarr``.

``python -m tests.benchmarks.scheduler FOLDER 200000 10000`` writes so many blocks of 8 bytes in
batches, on two workers, and prints the memory of the client and the scheduler after each batch,
and of what Dask's scheduler keeps of tasks that have ended. Each process is one of its own.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import resource
import sys
import time
import tracemalloc
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask.array as da
import numpy as np
from dask.base import compute
from dask.utils import key_split
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster

import xarray_n5
from tests.benchmarks.machine import machine
from tests.benchmarks.table import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIDE, COUNT = 64, (20, 20, 25)
"""A chunk's side, and the chunks along each axis: 10⁴ in all."""


def containers(folder: Path) -> dict[Any, Path]:
    """Return the same empty array in two formats."""
    shape = [count * SIDE for count in COUNT]
    places: dict[Any, Path] = {"n5": folder / "tasks.n5", "zarr2": folder / "tasks.zarr"}
    for kind, place in places.items():
        options: dict[str, Any] = {"shape": shape, "dtype": "u2", "chunks": (SIDE,) * 3}
        xarray_n5.create_array(place, "a", format=kind, **options)
    return places


def arrays(folder: Path) -> dict[str, Callable[[], da.Array]]:
    """Return what makes an array, by name."""
    places = containers(folder)
    return {
        "`from_n5`, N5": lambda: xarray_n5.from_n5(places["n5"], "a"),
        '`from_n5`, N5, chunks="auto"': lambda: xarray_n5.from_n5(places["n5"], "a", chunks="auto"),
        "`from_n5`, Zarr v2": lambda: xarray_n5.from_n5(places["zarr2"], "a"),
        "`dask.array.from_zarr`, Zarr v2": lambda: da.from_zarr(str(places["zarr2"]), "a"),
    }


@dataclass(frozen=True)
class Held:
    """What a scheduler has."""

    tasks: int
    nbytes: int


def held(dask_scheduler: Any = None) -> Held:
    """Return what the scheduler has, when it is asked on the scheduler."""
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    gc.collect()
    return Held(len(dask_scheduler.tasks), tracemalloc.get_traced_memory()[0])


HEADER = ("", "chunks", "tasks", "for a task", "for a chunk")


def lines(folder: Path) -> Iterator[tuple[str, ...]]:
    """Return, for each way to make an array, tasks, and what each takes of the scheduler."""
    chunks = int(np.prod(COUNT))
    # Without workers: what it holds is what it was sent.
    with SubprocessCluster(n_workers=0) as cluster, Client(cluster) as client:
        for name, make in arrays(folder).items():
            before = client.run_on_scheduler(held)
            kept = client.persist(make())
            after = before
            while after.tasks < before.tasks + kept.npartitions:
                time.sleep(0.5)
                after = client.run_on_scheduler(held)
            tasks, nbytes = after.tasks - before.tasks, after.nbytes - before.nbytes
            each = f"{nbytes / tasks:,.0f} bytes"
            yield (name, f"{chunks:,}", f"{tasks:,}", each, f"{nbytes / chunks:,.0f} bytes")
            del kept
            while client.run_on_scheduler(held).tasks > before.tasks:
                time.sleep(0.1)


def size_of(*roots: Any) -> int:
    """Return the bytes of objects and of all that they refer to, without code."""
    seen: set[int] = set()
    left, total = [*roots], 0
    while left:
        found = left.pop()
        if id(found) in seen or isinstance(found, type | ModuleType | FunctionType):
            continue
        seen.add(id(found))
        plain = type(found).__module__ in {"builtins", "collections"}
        total += sys.getsizeof(found) if plain else object.__sizeof__(found)
        left.extend(gc.get_referents(found))
    return total


def resident(process: int) -> float:
    """Return the memory of a process in MB."""
    pages = Path(f"/proc/{process}/statm").read_text("ascii").split()[1]
    return int(pages) * resource.getpagesize() / 2**20


def kept(dask_scheduler: Any = None) -> list[float]:
    """Return the memory of what the scheduler keeps of ended tasks, in MB."""
    messages = [[*each.recent_message_log] for each in dask_scheduler.stream_comms.values()]
    return [size_of(each) / 2**20 for each in (key_split, messages)]


def growth(folder: Path, count: int, batch: int) -> None:
    """Write so many blocks, and print the memory after each batch."""
    shape = tuple(2 * side for side in (count // 1000, 40, 25))
    source = da.ones(shape, chunks=2, dtype="u1").map_blocks(np.negative, dtype="u1")
    done = itertools.count(batch, batch)
    workers: dict[str, Any] = {"n_workers": 2, "worker_kwargs": {"nthreads": 1}}
    with SubprocessCluster(**workers) as cluster, Client(cluster) as client:
        processes = os.getpid(), client.run_on_scheduler(os.getpid)
        began = time.perf_counter()

        def note(what: str) -> None:
            here, there = map(resident, processes)
            seconds = time.perf_counter() - began
            show([f"{what}: client {here:.1f}, scheduler {there:.1f}, {seconds:.0f} s"])

        def computed(lazy: Any) -> Any:
            result = compute(lazy)
            note(f"{next(done):,} blocks")
            return result

        with mock.patch("xarray_n5.writing.tasks.compute", computed):
            xarray_n5.to_n5(source, folder / "growth.n5", "a", batch_size=batch, mode="w")
        note("finished")
        names, messages = client.run_on_scheduler(kept)
    show([f"of which the scheduler keeps names of tasks {names:.1f}, messages {messages:.1f}"])


def main() -> None:
    """Print the memory after each batch of a write."""
    parser = argparse.ArgumentParser(description="Print the memory after batches, in MB.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int, help="the number of blocks")
    parser.add_argument("batch", type=int, help="the number of blocks in a batch")
    asked = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("dask", "distributed"))
    show([f"MB. {versions}; {machine()}"])
    growth(asked.folder, asked.count, asked.batch)


if __name__ == "__main__":
    main()
