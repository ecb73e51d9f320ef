"""What a cluster's scheduler holds for each task, beside that of ``dask.array.from_zarr``."""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster

import xarray_n5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
