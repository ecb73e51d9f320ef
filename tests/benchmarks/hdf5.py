"""How fast HDF5 is read with two threads, here and by h5py: python -m tests.benchmarks.hdf5."""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import h5py
import numpy as np

import xarray_n5
from tests.benchmarks.machine import machine

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE, CHUNKS = (384, 384, 384), (64, 64, 64)

FILTERS: dict[str, dict[str, Any]] = {
    "gzip 4": {"compression": "gzip", "compression_opts": 4},
    "shuffle, gzip 4": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
    "none": {},
}

HEADER = ("uint16, chunks of 64 cubed", "h5py, its lock", "h5py without Dask", "ours", "ratio")


def volume() -> np.ndarray:
    """Return something like a light-sheet volume: smooth blobs, and the noise of a camera."""
    random = np.random.default_rng(0)
    z, y, x = (np.linspace(0, 12, size, dtype="f4") for size in SHAPE)
    blobs = np.sin(z)[:, None, None] * np.sin(y)[:, None] * np.sin(x)
    noise = random.normal(100, 6, SHAPE).astype("f4")
    return np.asarray((blobs.clip(0) * 2000 + noise).clip(0), "u2")


def seconds(read: Callable[[], np.ndarray]) -> float:
    """Return how long it takes."""
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


def rows(path: Path, runs: int) -> list[tuple[str, ...]]:
    """Read every dataset by every reader, in turns."""
    threads: dict[str, Any] = {"scheduler": "threads", "num_workers": 2}
    table = []
    with h5py.File(path) as file:
        for name in FILTERS:
            stored = file[name]
            # Dask locks what h5py has opened: HDF5 must not be called by several threads.
            locked = da.from_array(stored, chunks=stored.chunks, lock=True)
            direct = xarray_n5.from_n5(path, name)
            assert bool((locked == direct).all().compute(**threads))
            readers: list[Callable[[], np.ndarray]] = [
                functools.partial(locked.compute, **threads),
                functools.partial(stored.__getitem__, ...),
                functools.partial(direct.compute, **threads),
            ]
            times = [tuple(map(seconds, readers)) for _ in range(runs)]
            middle = [statistics.median(each) for each in zip(*times, strict=True)]
            ratio = statistics.median(ours / theirs for theirs, _, ours in times)
            shown = (f"{1000 * each:.0f} ms" for each in middle)
            table.append((name, *shown, f"{ratio:.2f}"))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare how fast HDF5 volumes are read.")
    parser.add_argument("runs", nargs="?", type=int, default=7)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        path, data = Path(folder, "volume.h5"), volume()
        with h5py.File(path, "w") as file:
            for name, options in FILTERS.items():
                file.create_dataset(name, data=data, chunks=CHUNKS, **options)
        table = rows(path, runs)
    for cells in (HEADER, ("---",) * len(HEADER), *table):
        print("|", " | ".join(cells), "|")  # noqa: T201
    peers = ", ".join(f"{name} {version(name)}" for name in ("h5py", "dask", "xarray-n5"))
    print(  # noqa: T201
        f"\nMedians of {runs} runs in turns, two threads; {peers}, "
        f"HDF5 {h5py.version.hdf5_version}; {machine()}"
    )


if __name__ == "__main__":
    main()
