"""The memory of the client and the scheduler of a cluster during a write in batches.

``python -m tests.benchmarks.batches FOLDER 200000 10000`` writes so many blocks of 8 bytes in
batches, on two workers, and prints the memory after each batch, and of what Dask's scheduler keeps
of tasks that have ended. Each process is one of its own.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
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
