"""What opening, reading and graphs cost, counted: requests, calls, tasks, layers, bytes, copies."""

from __future__ import annotations

import gc
import importlib.util
import pickle
import subprocess
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import xarray as xr
from dask.array.core import PerformanceWarning
from dask.base import optimize
from dask.callbacks import Callback

from tests.support.memory import peak
from tests.support.memory_store import MemoryStore
from tests.support.stores import CountingStore
from xarray_n5 import create_array, from_n5, open_array, to_n5

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FEW, MANY = (1280,) * 3, (27_648,) * 3
"""Shapes of 10^3 and of 10^7 chunks of 128^3."""

MIB = 1 << 20


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls, the second time: a first one fills caches.

    Garbage of earlier tests is not collected meanwhile: that calls functions, too.
    """
    work()
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def volume(folder: Path, shape: tuple[int, ...], name: str = "em/raw") -> Path:
    """A container with an array of chunks of 2 MiB, of which none is stored."""
    place = folder / f"{shape[0]}.n5"
    create_array(place, name, shape=shape, dtype="u1", chunks=(128,) * len(shape))
    return place


# Graphs


def test_graphs_cost_the_same_at_any_number_of_chunks(tmp_path: Path) -> None:
    few, many = volume(tmp_path, FEW), volume(tmp_path, MANY)
    assert from_n5(many, "em/raw").npartitions == 216**3
    corner = (slice(0, 128),) * 3
    for work in (
        lambda place: from_n5(place, "em/raw"),
        lambda place: from_n5(place, "em/raw")[corner],
        lambda place: optimize(from_n5(place, "em/raw")[corner]),
        lambda place: from_n5(place, "em/raw")[corner].compute(scheduler="sync"),
        lambda place: xr.open_dataset(place, engine="n5", group="em/raw", chunks={}),
    ):
        # Dask adds up the blocks along each axis: a few calls for each of 216 instead of 10.
        assert calls(lambda: work(many)) < calls(lambda: work(few)) + 3000  # noqa: B023


def test_a_graph_is_one_layer_that_pickles_small(tmp_path: Path) -> None:
    lazy = from_n5(volume(tmp_path, MANY), "em/raw")
    (layer,) = lazy.dask.layers.values()
    assert not layer.is_materialized()
    assert len(pickle.dumps(lazy.dask)) < 5000


@pytest.mark.parametrize("options", [{}, {"chunks": "auto"}, {"skip_missing": True}])
def test_every_way_to_read_is_one_task_a_block(tmp_path: Path, options: dict[str, Any]) -> None:
    lazy = from_n5(volume(tmp_path, (512,) * 3), "em/raw", **options)
    (whole,) = optimize(lazy)
    assert len(whole.__dask_graph__()) == lazy.npartitions
    (doubled,) = optimize(lazy * 2)
    assert len(doubled.__dask_graph__()) == lazy.npartitions
    # By this a scheduler knows not to begin more of them than there are threads.
    assert all(task.data_producer for task in dict(lazy.dask).values())


def test_a_task_pickles_small(tmp_path: Path) -> None:
    place = volume(tmp_path, (256,) * 3)
    tasks = dict(from_n5(place, "em/raw").dask)
    assert max(len(pickle.dumps(task)) for task in tasks.values()) < 1200
    dataset = xr.open_dataset(place, engine="n5", group="em/raw", chunks={}, inline_array=True)
    assert max(len(pickle.dumps(task)) for task in dict(dataset["raw"].data.dask).values()) < 1800


# Blocks of several chunks


@pytest.mark.parametrize(
    ("shape", "chunks", "dtype"),
    [
        ((4096, 4096, 4096), (64, 64, 64), "u1"),
        ((4096, 4096, 4096), (16, 16, 16), "u2"),
        ((100_000, 300, 300), (1, 300, 300), "u1"),
        ((3, 40_000, 50_000), (1, 100, 700), "f4"),
        ((1 << 30,), (1000,), "f8"),
    ],
)
def test_auto_blocks_are_whole_chunks_of_16_to_32_mib(
    shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str
) -> None:
    store = MemoryStore()
    create_array(store, "a", shape=shape, chunks=chunks, dtype=dtype)
    lazy = from_n5(store, "a", chunks="auto")
    assert all(block % side == 0 for block, side in zip(lazy.chunksize, chunks, strict=True))
    assert 16 * MIB <= np.prod(lazy.chunksize) * lazy.dtype.itemsize < 32 * MIB


def test_auto_blocks_are_no_larger_than_dask_is_told_to_make_them() -> None:
    store = MemoryStore()
    create_array(store, "a", shape=(1024,) * 3, chunks=(64,) * 3, dtype="u1")
    for size, most in (("2 MiB", 2 * MIB), (4 * MIB, 4 * MIB), ("1 GiB", 16 * MIB)):
        with dask.config.set({"array.chunk-size": size}):
            assert np.prod(from_n5(store, "a", chunks="auto").chunksize) == most
            assert np.prod(from_n5(store, "a", chunks="8 MiB").chunksize) == 8 * MIB


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ((128, "auto", "auto"), (128, 512, 256)),
        ({0: "auto", 1: 64, 2: -1}, (256, 64, 1024)),
        (((64, 960), "auto", "auto"), (960, 256, 128)),
        (("1 MiB", 64, None), (16, 64, 1024)),
    ],
)
def test_single_axes_can_be_left_to_choose(chunks: Any, expected: tuple[int, ...]) -> None:
    store = MemoryStore()
    create_array(store, "a", shape=(1024,) * 3, chunks=(16,) * 3, dtype="u1")
    assert from_n5(store, "a", chunks=chunks).chunksize == expected


def test_many_small_tasks_are_warned_of_with_the_way_out() -> None:
    store = MemoryStore()
    create_array(store, "a", shape=(512,) * 3, chunks=(32,) * 3, dtype="u2")
    with pytest.warns(PerformanceWarning, match=r'4096 tasks of less than 1 MiB.* chunks="auto"'):
        from_n5(store, "a")
    from_n5(store, "a", chunks="auto")
    from_n5(store, "a", chunks="1 MiB")
    # Few are no matter, be they small, and large ones none, be they many.
    create_array(store, "b", shape=(320,) * 3, chunks=(32,) * 3, dtype="u2")
    from_n5(store, "b")
    create_array(store, "c", shape=(4096,) * 3, chunks=(128,) * 3, dtype="u2")
    from_n5(store, "c")


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((1000,) * 3, (64,) * 3),
        ((5000, 2000, 2000), (1, 512, 512)),
        ((3, 4000, 5000), (1, 90, 700)),
    ],
)
def test_xarrays_own_choice_is_whole_chunks_too(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    create_array(tmp_path / "x.n5", "a", shape=shape, chunks=chunks, dtype="u2")
    lazy = xr.open_dataset(tmp_path / "x.n5", engine="n5", group="a", chunks="auto")["a"]
    for sizes, side in zip(lazy.data.chunks, chunks, strict=True):
        assert not any(size % side for size in sizes[:-1])


# Requests


def test_a_graph_asks_for_metadata_alone_and_a_task_for_its_chunks_alone() -> None:
    store = CountingStore()
    made = create_array(store, "a", shape=(8, 8), dtype="u2", chunks=(4, 4))
    made[...] = 1
    store.requests()
    lazy = from_n5(store, "a")
    assert store.requests() == {"get_many": 1, "list": 1, "stamp": 1}  # the list of records
    lazy[:4, :4].compute(scheduler="sync")
    lazy[2, 2].compute(scheduler="sync")
    assert store.requests() == {"get": 2}
    from_n5(made, chunks="auto").compute(scheduler="sync")
    assert store.requests() == {"stamp": 1, "get_many": 1}


# Copies


@pytest.mark.matrix(4)
@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("compression", ["raw", "gzip", "zstd", "blosc", "lz4"])
def test_a_chunk_is_held_twice_while_it_is_read(
    tmp_path: Path, compression: str, form: Any, dtype: str
) -> None:
    """As it is stored, and as it is decoded, which becomes the result."""
    values = np.random.default_rng(0).integers(0, 255, (96,) * 3, "u1").view(dtype)
    place = tmp_path / "x"
    to_n5(values, place, "a", chunks=values.shape, compression=compression, format=form)
    array = open_array(place, "a")
    lazy = from_n5(array).max()
    with dask.config.set(scheduler="sync"):
        for read in (lambda: array[...], lazy.compute):
            # Some is of the first call in a process: three copies would be 860 kB more.
            assert peak(read) < 2 * values.nbytes + 400_000


@pytest.mark.parametrize("compression", ["raw", "gzip"])
def test_an_array_of_many_chunks_is_held_once(tmp_path: Path, compression: str) -> None:
    values = np.random.default_rng(0).integers(0, 255, (256,) * 3, "u1")
    to_n5(values, tmp_path / "x.n5", "a", chunks=32, compression=compression)
    array = open_array(tmp_path / "x.n5", "a")
    assert peak(lambda: array[...]) < 1.3 * values.nbytes
    lazy = from_n5(array, chunks="auto")
    assert lazy.npartitions == 1
    # Dask copies a result of one block: what is counted is the block alone.
    assert peak(lambda: lazy.max().compute(scheduler="sync")) < 1.3 * values.nbytes


# Imports


def test_importing_the_package_imports_little_beside_xarray_and_dask() -> None:
    script = (
        "import sys, xarray, dask.array\n"
        "before = set(sys.modules)\n"
        "import xarray_n5\n"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    new = set(done.stdout.split())
    assert len(new) <= 158, "import new modules on first use, or raise the number here"
    heavy = {"click", "distributed", "fsspec", "h5py", "hdf5plugin", "numcodecs", "xml"}
    heavy |= {"cloudpickle", "email", "importlib_metadata", "tornado", "xxhash", "zarr", "zict"}
    assert not heavy & {name.partition(".")[0] for name in new}
    assert not {name for name in new if name.startswith("xarray_n5.hangar")}
    # Nor what only writes: that is a third of the package.
    modules = (
        "integrity.repair",
        "integrity.verify",
        "boxes.world_grid",
        "writing.run",
        "writing.deferred",
        "pyramids.api",
        "datasets.append",
        "datasets.write",
        "copying.copy",
    )
    writing = {f"xarray_n5.{name}" for name in modules}
    assert all(map(importlib.util.find_spec, writing))
    assert not writing & new


@pytest.mark.parametrize("write", ["array", "dataset"])
def test_a_block_in_memory_is_written_without_a_graph(tmp_path: Path, write: str) -> None:
    values, number = np.ones((16, 16), "u2"), count()

    def run() -> None:
        place = tmp_path / f"{next(number)}.n5"
        if write == "array":
            to_n5(values, place, "a", chunks=8)
        else:
            xr.Dataset({"a": (("y", "x"), values)}).n5.to_n5(place, encoding={"a": {"chunks": 8}})

    with dask.config.set(scheduler="sync"):
        direct = calls(run)
        with Callback():  # observes tasks, so that there must be some
            tasks = calls(run)
    assert direct < 0.75 * tasks
