"""How long graphs take to build over arrays of many chunks, of which one is stored."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from dask.base import optimize

import xarray_n5
from ci.benchmarks.clock import Quartiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDE = 64

COUNTS = {"10³": (10, 10, 10), "10⁶": (100, 100, 100), "10⁷": (1000, 100, 100)}
"""The chunks along each axis."""


def many_chunks(folder: Path, name: str) -> Path:
    """Return a container whose array "a" has so many chunks; the first is stored."""
    place = folder / f"chunks-{'x'.join(map(str, COUNTS[name]))}.n5"
    if not place.exists():
        shape = [count * SIDE for count in COUNTS[name]]
        array = xarray_n5.create_array(place, "a", shape=shape, dtype="u1", chunks=(SIDE,) * 3)
        array[:SIDE, :SIDE, :SIDE] = np.ones((SIDE,) * 3, "u1")
    return place


def one_chunk(array: Any) -> None:
    """Select a chunk, optimise the graph, and compute it."""
    part = array[:SIDE, :SIDE, :SIDE]
    (part,) = optimize(part)
    assert part.compute().all()


def open_lazily(place: Path) -> None:
    """Open a Dataset of dask arrays."""
    xr.open_dataset(place, engine="n5", chunks={}).close()


def works(folder: Path) -> list[tuple[str, float, Callable[[], Any]]]:
    """Return what is done, and the milliseconds that it may take."""
    small, large = many_chunks(folder, "10³"), many_chunks(folder, "10⁷")
    array = xarray_n5.from_n5(large, "a")
    lazily = functools.partial(open_lazily, many_chunks(folder, "10⁶"))
    return [
        ("`from_n5`, 10³ chunks", 20, functools.partial(xarray_n5.from_n5, small, "a")),
        ("`from_n5`, 10⁷ chunks", 20, functools.partial(xarray_n5.from_n5, large, "a")),
        ("one chunk of 10⁷ selected, optimised, computed", 50, lambda: one_chunk(array)),
        ("`open_dataset(chunks={})`, 10⁶ chunks", 100, lazily),
    ]


def milliseconds(work: Callable[[], Any], times: int) -> Quartiles:
    """Return how long it takes, after one run to warm up."""
    work()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(1000 * (time.perf_counter() - start))
    return Quartiles.of(found)
