"""A write that takes its time, in a process that can be killed: python -m tests.support.killing."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, cast

import dask
import dask.array as da
import numpy as np
import xarray as xr

import xarray_n5
from tests.support.processes import START
from xarray_n5.arrays.records import Record, claim_of, look, new_attempt, provenance
from xarray_n5.formats.containers import open_container

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import Popen

    from tests.support.processes import Python

SHAPE, BLOCKS = (40, 36, 20), (10, 9, 20)

COUNT = 16
"""The number of blocks."""


def slowly(block: np.ndarray, log: str, pause: float) -> np.ndarray:
    """Return a block, having noted that it was computed."""
    with (Path(log) / f"{int(block.flat[0]):06d}").open("a") as file:
        file.write("x")
    time.sleep(pause)
    wait_while_held(log)
    return block


def hold(log: Path, count: int = COUNT) -> Path:
    """Let a write wait at its last block, or at another one, as long as the returned file exists.

    However late it is killed, it is under way.
    """
    held = log.with_name("held")
    held.write_text(str(count))
    return held


def wait_while_held(log: str | Path) -> None:
    """Wait as long as writes are held, if so many blocks are noted."""
    held, blocks = Path(log).with_name("held"), Path(log)
    with suppress(FileNotFoundError):
        while len(list(blocks.iterdir())) >= int(held.read_text()):
            time.sleep(0.01)


def source(log: str | Path, pause: float = 0.0) -> da.Array:
    """Numbers from 1 on, in 16 blocks; their name does not depend on `pause`."""
    numbers = da.arange(1, 40 * 36 * 20 + 1, chunks=-1, dtype="u4").reshape(SHAPE)
    blocks = numbers.rechunk(BLOCKS)
    name = f"slow-{log}"
    slow: Any = blocks.map_blocks(slowly, str(log), pause, dtype="u4", name=name, meta=numbers)
    return cast("da.Array", slow)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (5, 9, 10)},
    "misaligned": {"chunks": (7, 5, 6), "compression": "zstd"},
    "checksums": {"chunks": (5, 9, 10)},
    "sparse": {"chunks": (5, 9, 10), "write_empty_chunks": False},
    "shards": {"format": "zarr3", "chunks": (5, 3, 5), "shards": (10, 9, 10)},
    "region": {"region": (slice(3, 43), slice(0, 36), slice(5, 25)), "safe_chunks": False},
}
"""Ways to write it."""


def prepare(place: Path, how: str) -> None:
    """Make the array that a region goes into."""
    if how == "region":
        values = np.full((50, 40, 30), 7, "u4")
        xarray_n5.to_n5(values, place, "a", chunks=(8, 8, 8))


def files(place: Path) -> dict[str, bytes | str]:
    """All that is stored, but for the records of writes: links by where they lead, too."""
    stored: dict[str, bytes | str] = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if ".xn5" in name.split("/"):
            continue
        if path.is_symlink():
            stored[name] = str(path.readlink())
        elif path.is_file():
            stored[name] = path.read_bytes()
    return stored


def begin(url: object, path: str = "") -> None:
    """Begin the deferred write of an array as its first task does, and stop there."""
    container, path = open_container(url, path)
    for token in look(container.store, path).templates:
        claim = claim_of(container.store, path, Record(token, new_attempt(), None))
        claim.begin({**provenance(), "fresh": False})


def when(condition: Callable[[], bool], process: Popen[Any] | Python) -> None:
    """Wait until a condition holds or a process has ended, and leave it the processor."""
    while process.poll() is None and not condition():
        with suppress(TimeoutExpired):
            process.wait(0.005)


def kill(process: Popen[Any] | Python) -> bool:
    """Kill a process of its own session, and wait for all in it; return whether it had not ended.

    Workers, too, must be gone: what they still stored would be new to who looks at once.
    """
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()  # until nobody has its output
    return alive


def refuse(*_: object) -> None:
    """Stand in for os.link, as some network mounts do."""
    raise PermissionError("links are refused here")


def store_project(place: str | Path, log: str | Path, pause: float = 0.0, **options: Any) -> None:
    """Add a time point to the project whose XML lies beside the container."""
    stack: Any = xr.DataArray(source(log, pause), dims=("z", "y", "x"), name="a")
    xml = Path(place).with_suffix(".xml")
    stack.assign_coords(t=1).n5.to_bdv(xml, place, mode="a", **options)


def main(place: str, log: str, how: str, scheduler: str) -> None:
    """Write; with a cluster, tell the workers' process ids first."""
    vars(os)["link"] = refuse
    if how == "project":
        with dask.config.set(scheduler="threads", num_workers=2):
            store_project(place, log, pause=0.01)
        return
    data = source(log, pause=0.02)
    xarray_n5.set_options(checksums=how == "checksums")
    if scheduler == "threads":
        with dask.config.set(scheduler="threads", num_workers=2):
            xarray_n5.to_n5(data, place, "a", **OPTIONS[how])
        return
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.worker.multiprocessing-method": START}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        print(json.dumps(list(client.run(os.getpid).values())), flush=True)  # noqa: T201
        xarray_n5.to_n5(data, place, "a", **OPTIONS[how])


if __name__ == "__main__":
    main(*sys.argv[1:])
