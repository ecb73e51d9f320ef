"""map_overlap in a process that can be killed: python -m tests.support.overlapping."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import dask
import numpy as np
import xarray as xr

import xarray_n5
from tests.support.killing import wait_while_held
from tests.support.processes import START

SHAPE, BLOCKS = (24, 18, 16), (6, 6, 8)

COUNT = 24
"""The number of blocks."""


def smooth(block: np.ndarray, log: str, block_id: Any = None) -> np.ndarray:
    """Return means of neighbours along each axis, having noted the block and the process."""
    if block_id is not None:
        with (Path(log) / "-".join(map(str, block_id))).open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.02)
        wait_while_held(log)
    found = block.astype("f4")
    for axis in range(block.ndim):
        found = (np.roll(found, 1, axis) + found + np.roll(found, -1, axis)) / 3
    return found


def values() -> np.ndarray:
    """The numbers in the stored array."""
    return np.random.default_rng(0).integers(0, 200, SHAPE).astype("u1")


def prepare(url: Path) -> None:
    """Store the numbers."""
    axes = [xarray_n5.Axis(name=name, unit="um", scale=0.5, offset=3.0) for name in "zyx"]
    chunks = (6, 3, 4)
    array = xarray_n5.create_array(url, "raw", shape=SHAPE, dtype="u1", chunks=chunks, axes=axes)
    array[...] = values()


def smoothed(url: Path, log: Path) -> xr.DataArray:
    """Open the array, and smooth it lazily."""
    raw = xr.open_dataset(url, engine="n5", group="raw")["raw"]
    found: xr.DataArray = raw.n5.map_overlap(
        smooth, depth=1, boundary="reflect", chunks=BLOCKS, log=str(log)
    )
    return found


def main(url: str, log: str, scheduler: str) -> None:
    """Write; with a cluster, tell the workers' process ids first."""
    lazy = smoothed(Path(url), Path(log))
    if scheduler == "threads":
        with dask.config.set(scheduler="threads", num_workers=2):
            lazy.n5.to_n5(url, "smooth", resume=True)
        return
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.worker.multiprocessing-method": START}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        print(json.dumps(list(client.run(os.getpid).values())), flush=True)  # noqa: T201
        lazy.n5.to_n5(url, "smooth", resume=True)


if __name__ == "__main__":
    # A function of __main__ is another one than that of this module.
    importlib.import_module("tests.support.overlapping").main(*sys.argv[1:])
