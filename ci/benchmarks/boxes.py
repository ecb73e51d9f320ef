"""Functions with overlap and interpolation, here and by Dask and xarray.

``bash ci/bench boxes`` prints the table. Each row has a process of its own, whose peak memory is
measured: ``python -m ci.benchmarks.boxes WORK VOLUME``.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import xarray as xr
from dask.base import optimize
from scipy.ndimage import gaussian_filter

import xarray_n5
from ci.benchmarks.machine import machine
from ci.benchmarks.table import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HEADER = ("", "by", "tasks", "seconds", "peak memory")

LIBRARIES = ("xarray-n5", "xarray", "dask", "scipy")

SIDE, CHUNK = 256, 64

FINE = 1.4
"""The number of samples of the fine grid for each one of the volume, along each axis."""


def overlap_here(raw: xr.DataArray) -> Any:
    """Return the volume after a filter, in blocks of one chunk."""
    smooth = raw.n5.map_overlap(gaussian_filter, depth=8, boundary="reflect", sigma=2, chunks=CHUNK)
    return smooth.data


def overlap_by_dask(raw: xr.DataArray) -> Any:
    """Return the same by Dask."""
    return raw.data.map_overlap(gaussian_filter, depth=8, boundary="reflect", sigma=2)


def targets() -> dict[str, np.ndarray]:
    """Return the coordinates of the fine grid."""
    return {dim: np.linspace(0, SIDE - 1, round(FINE * SIDE)) for dim in "zyx"}


def interp_here(raw: xr.DataArray) -> Any:
    """Return the volume on the fine grid."""
    return raw.n5.interp(targets(), chunks=CHUNK).data


def interp_by_xarray(raw: xr.DataArray) -> Any:
    """Return the same by xarray."""
    return raw.interp({dim: xr.DataArray(at, dims=dim) for dim, at in targets().items()}).data


WORKS: dict[str, tuple[str, str, Callable[[xr.DataArray], Any]]] = {
    "overlap": ("`map_overlap`, depth 8", "ours", overlap_here),
    "overlap-dask": ("", "Dask", overlap_by_dask),
    "interp": ("`interp` on 1.4 times the samples", "ours", interp_here),
    "interp-xarray": ("", "xarray", interp_by_xarray),
}


def make(place: Path) -> None:
    """Store a volume of noise."""
    axes = [xarray_n5.Axis(name=dim, scale=1.0) for dim in "zyx"]
    shape = (SIDE,) * 3
    array = xarray_n5.create_array(
        place, "raw", shape=shape, dtype="u1", chunks=CHUNK, axes=axes, compression="zstd"
    )
    array[...] = np.random.default_rng(1).integers(0, 99, shape, "u1")


def measure(place: str, name: str) -> None:
    """Print the tasks, the seconds and the peak memory of some work, and the sum of the result."""
    raw = xr.open_dataset(place, engine="n5", group="raw", chunks={})["raw"]
    start = time.perf_counter()
    (array,) = optimize(WORKS[name][2](raw))
    tasks = len(dict(array.__dask_graph__()))
    with dask.config.set(scheduler="threads", num_workers=2):
        total = float(array.sum(dtype="f8").compute())
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    show([json.dumps([tasks, seconds, peak, total])])


def lines(folder: Path, turns: int) -> Iterator[tuple[str, ...]]:
    """Return the lines of the table; works of both sides take turns."""
    place = folder / "boxes.n5"
    make(place)
    found: dict[str, list[Any]] = {name: [] for name in WORKS}
    for _ in range(turns):
        for name in WORKS:
            command = [sys.executable, "-m", "ci.benchmarks.boxes", name, str(place)]
            text = subprocess.check_output(command, text=True)  # noqa: S603
            found[name].append(json.loads(text.splitlines()[-1]))
    for name, (title, by, _) in WORKS.items():
        tasks, seconds, peak, total = zip(*found[name], strict=True)
        first = found[name.partition("-")[0]][0][3]
        assert abs(total[0] - first) <= 1e-6 * abs(first), "the results differ"
        took, most = statistics.median(seconds), statistics.median(peak)
        yield title, by, f"{tasks[0]:,}", f"{took:.1f}", f"{most:.0f} MB"


def settings(turns: int) -> str:
    """Return what the numbers are of."""
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    what = f"{SIDE}³ bytes in chunks of {CHUNK}³ (zstd), two threads, the sum of the result"
    return f"Medians of {turns} runs: {what}. {versions}; {machine()}"


def main() -> None:
    """Do one of the works on a volume."""
    parser = argparse.ArgumentParser(description="Print the figures of one work.")
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("place", help="the volume")
    asked = parser.parse_args()
    measure(asked.place, asked.work)


if __name__ == "__main__":
    main()
