"""What a cluster's scheduler holds for each task, and what works on two processes cost."""

from __future__ import annotations

import gc
import shutil
import statistics
import time
import tracemalloc
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import tensorstore as ts
import xarray as xr
import zarr
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster

import xarray_n5
from ci.benchmarks.data import volume
from ci.benchmarks.machine import machine
from ci.benchmarks.peers import Sliced

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
            each = [_size(nbytes / count) for count in (tasks, chunks)]
            yield (name, f"{chunks:,}", f"{tasks:,}", *each)
            del kept
            while client.run_on_scheduler(held).tasks > before.tasks:
                time.sleep(0.1)


def _size(nbytes: float) -> str:
    return f"{nbytes:,.0f} bytes" if nbytes > 0 else "too little to measure"


# Works on two processes

CHUNK, SHARD = 32, 64
"""The side of a chunk, of 32 KiB, and of a shard."""

PART = (slice(4 * CHUNK), slice(4 * CHUNK), slice(8 * CHUNK))
"""128 blocks for functions with overlap, of which Dask makes about forty tasks a block."""

ROWS = ("", "blocks", "by", "clock", "workers", "scheduler", "scheduler's memory", "worker's peak")
"""Milliseconds a block by the clock, and of CPU; bytes a block; the peak of a worker's memory."""


class Ours:
    """This package."""

    @staticmethod
    def lazy(place: Path, blocks: Any) -> Any:
        """Return the stored volume."""
        return xarray_n5.from_n5(place / "v.zarr", "a", chunks=blocks)

    @staticmethod
    def overlap(place: Path) -> Any:
        """Return the volume after a function with overlap."""
        raw = xr.open_dataset(place / "v.zarr", engine="n5", group="a", chunks={})["a"][PART]
        smooth = xarray_n5.map_overlap(brighter, raw, depth=2, boundary="reflect", chunks=CHUNK)
        return smooth.data

    @staticmethod
    def write(source: da.Array, new: Path) -> None:
        """Store what is computed."""
        xarray_n5.to_n5(source, new, "a", chunks=CHUNK, format="zarr3", compression="raw")

    @staticmethod
    def convert(place: Path, new: Path) -> None:
        """Copy N5 to Zarr v3 with shards."""
        what: Any = {"format": "zarr3", "shards": SHARD, "compression": "raw"}
        xarray_n5.copy(f"{place}/v.n5/a", f"{new}/a", **what)


class Zarr:
    """zarr-python under Dask, by Dask's own functions; it converts Zarr v3, as it reads no N5."""

    @staticmethod
    def lazy(place: Path, blocks: Any) -> Any:
        """Return the stored volume."""
        return da.from_zarr(str(place / "v.zarr"), "a", chunks=blocks, inline_array=True)

    @classmethod
    def overlap(cls, place: Path) -> Any:
        """Return the volume after a function with overlap."""
        return cls.lazy(place, CHUNK)[PART].map_overlap(brighter, depth=2, boundary="reflect")

    @staticmethod
    def write(source: da.Array, new: Path, shards: tuple[int, ...] | None = None) -> None:
        """Store what is computed."""
        layout: Any = {"chunks": (CHUNK,) * 3, "shards": shards, "compressors": None}
        target: Any = zarr.create_array(new, shape=source.shape, dtype=source.dtype, **layout)
        da.store(source, target, lock=False)

    @classmethod
    def convert(cls, place: Path, new: Path) -> None:
        """Copy Zarr v3 to Zarr v3 with shards, a shard a task."""
        cls.write(cls.lazy(place, SHARD), new, (SHARD,) * 3)


class TensorStore(Zarr):
    """TensorStore under Dask."""

    @staticmethod
    def open(place: Path, driver: str, metadata: Any = None) -> Any:
        """Return an array, to be indexed; create it if there are metadata."""
        spec: Any = {"driver": driver, "kvstore": {"driver": "file", "path": str(place)}}
        spec |= {"context": {"file_io_sync": False}}
        spec |= {"metadata": metadata, "create": True} if metadata else {}
        return Sliced(ts.open(spec).result())

    @classmethod
    def lazy(cls, place: Path, blocks: Any) -> Any:
        """Return the stored volume."""
        source = cls.open(place / "v.zarr/a", "zarr3")
        return da.from_array(source, blocks, lock=False, asarray=False, inline_array=True)

    @classmethod
    def write(cls, source: da.Array, new: Path, shards: tuple[int, ...] | None = None) -> None:
        """Store what is computed."""
        inner = [{"name": "bytes", "configuration": {"endian": "little"}}]
        sharding = {"chunk_shape": [CHUNK] * 3, "codecs": inner}
        sides = list(shards or (CHUNK,) * 3)
        metadata = {
            "shape": source.shape,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": sides}},
            "data_type": source.dtype.name,
            "codecs": [{"name": "sharding_indexed", "configuration": sharding}]
            if shards
            else inner,
        }
        da.store(source, cls.open(new, "zarr3", metadata), lock=False)

    @classmethod
    def convert(cls, place: Path, new: Path) -> None:
        """Copy N5 to Zarr v3 with shards, a shard a task."""
        source: Any = Sliced(cls.open(place / "v.n5/a", "n5").store.T)
        lazy = da.from_array(source, SHARD, lock=False, asarray=False, inline_array=True)
        cls.write(lazy, new, (SHARD,) * 3)


LIBRARIES: dict[str, Any] = {"ours": Ours, "zarr-python": Zarr, "TensorStore": TensorStore}


def brighter(block: np.ndarray) -> np.ndarray:
    """Return a block, changed at next to no cost."""
    return block + 1


def works(kind: Any, place: Path, new: Path, auto: Any) -> dict[str, Callable[[], Any]]:
    """Return what one library does, by its title."""
    source = da.full(tuple(map(sum, auto)), 7, dtype="u1", chunks=CHUNK)
    return {
        "sum": lambda: kind.lazy(place, CHUNK).sum(dtype="u8").compute(),
        'sum, `chunks="auto"`': lambda: kind.lazy(place, auto).sum(dtype="u8").compute(),
        "write": lambda: kind.write(source, new),
        "N5 to Zarr v3 with shards": lambda: kind.convert(place, new),
        "`map_overlap`": lambda: kind.overlap(place).sum(dtype="u8").compute(),
    }


def reset_peak() -> None:
    """Forget the peak of this process's memory (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> float:
    """Return the peak of this process's memory since then, in bytes."""
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in s)
    return float(line.split()[1]) * 1024


def reset_traced() -> int:
    """Return what the scheduler holds, and forget its peak, when it is asked on the scheduler."""
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    gc.collect()
    tracemalloc.reset_peak()
    return tracemalloc.get_traced_memory()[0]


def traced_peak() -> int:
    """Return the most that the scheduler held, when it is asked on the scheduler."""
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def cluster_lines(folder: Path, turns: int, mebibytes: int = 32) -> Iterator[tuple[str, ...]]:
    """Return the lines of works on two processes: all do a work in turns."""
    place = folder / "cluster"
    values = volume("em", mebibytes)
    blocks = values.size // CHUNK**3
    for name, form in (("v.zarr", "zarr3"), ("v.n5", "n5")):
        where: Any = {"chunks": CHUNK, "format": form, "compression": "raw"}
        xarray_n5.to_n5(values, place / name, "a", **where)
    auto = Ours.lazy(place, "auto").chunks
    new = place / "new.zarr"
    with SubprocessCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
        doers = {name: works(kind, place, new, auto) for name, kind in LIBRARIES.items()}
        for title in doers["ours"]:
            runs: dict[str, list[tuple[float, ...]]] = {name: [] for name in doers}
            held: dict[str, float] = {}
            for turn in range(turns + 1):
                for name, by_title in doers.items():
                    shutil.rmtree(new, ignore_errors=True)
                    if turn:
                        runs[name].append(measured(client, by_title[title]))
                        continue
                    # The first run warms up, and is traced, which takes time.
                    before = client.run_on_scheduler(reset_traced)
                    by_title[title]()
                    held[name] = client.run_on_scheduler(traced_peak) - before
            count = 128 if "overlap" in title else blocks
            for name, found in runs.items():
                *seconds, most = map(statistics.median, zip(*found, strict=True))
                each = [f"{1000 * part / count:.2f} ms" for part in seconds]
                nbytes, worst = f"{held[name] / count:,.0f} bytes", f"{most / 1e6:.0f} MB"
                yield (title, f"{count:,}", name, *each, nbytes, worst)


def measured(client: Client, work: Callable[[], Any]) -> tuple[float, float, float, float]:
    """Return the seconds by the clock, of workers and of the scheduler, and a worker's peak."""

    def cpu() -> tuple[float, float]:
        workers = client.run(time.process_time)
        return sum(workers.values()), client.run_on_scheduler(time.process_time)

    client.run(reset_peak)
    (before, scheduler), start = cpu(), time.perf_counter()
    work()
    clock, (after, later) = time.perf_counter() - start, cpu()
    return clock, after - before, later - scheduler, max(client.run(peak).values())


def settings(turns: int) -> str:
    """Return what the numbers are of."""
    names = ("xarray-n5", "tensorstore", "zarr", "dask", "distributed")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    what = f"uncompressed chunks of {CHUNK}³ bytes, two workers of one thread, {turns} turns"
    return f"Medians: {what}. {versions}; {machine()}"
