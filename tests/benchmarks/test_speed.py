"""The same work as in the comparison, on small volumes, for comparisons over time.

python -m pytest -p benchmark tests/benchmarks/test_speed.py --benchmark-autosave
python -m pytest -p benchmark tests/benchmarks/test_speed.py --benchmark-compare
"""

from __future__ import annotations

import functools
import shutil
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import pytest

import xarray_n5
from tests.benchmarks.contests import CODECS, Place, cached_volume
from tests.benchmarks.graphs import works
from tests.benchmarks.machine import cores
from tests.benchmarks.peers import PEERS, Ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

CORNERS = [[20, 30, 40], [7, 50, 1]]

SHARED = ("gzip", "raw", "blosc-lz4", "blosc-zstd", "zstd", "bzip2")

peers = pytest.mark.parametrize("peer", PEERS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Where small containers are."""
    folder = tmp_path_factory.mktemp("speed")
    with dask.config.set(scheduler="threads", num_workers=cores()):
        yield Place(folder, 8)
    shutil.rmtree(folder)


@peers
@pytest.mark.parametrize("compression", SHARED)
def test_reads_a_whole_array(
    benchmark: BenchmarkFixture, place: Place, peer: str, compression: str
) -> None:
    benchmark.group = f"read, {compression}"
    benchmark(PEERS[peer].read, place.stored("light sheet", compression))


@peers
@pytest.mark.parametrize("compression", ["raw", "gzip"])
def test_reads_many_small_chunks(
    benchmark: BenchmarkFixture, place: Place, peer: str, compression: str
) -> None:
    benchmark.group = f"read small chunks, {compression}"
    benchmark(PEERS[peer].read, place.stored("light sheet", compression, 16))


@peers
@pytest.mark.parametrize("blocks", ["auto", None])
def test_sums_through_dask(
    benchmark: BenchmarkFixture, place: Place, peer: str, blocks: str | None
) -> None:
    benchmark.group = f"sum, chunks={blocks}"
    path = place.stored("em", "gzip")
    sizes: Any = xarray_n5.from_n5(path, "a", chunks=blocks).chunks
    benchmark(PEERS[peer].total, path, blocks if peer == "ours" else sizes)


@peers
def test_reads_cutouts(benchmark: BenchmarkFixture, place: Place, peer: str) -> None:
    benchmark.group = "cutouts"
    benchmark(PEERS[peer].cutouts, place.stored("light sheet", "gzip"), CORNERS, 64)


def test_reads_cutouts_lazily(benchmark: BenchmarkFixture, place: Place) -> None:
    benchmark.group = "cutouts"
    benchmark(Ours.lazy_cutouts, place.stored("light sheet", "gzip"), CORNERS, 64)


@peers
@pytest.mark.parametrize("compression", CODECS)
def test_writes_through_dask(
    benchmark: BenchmarkFixture, place: Place, peer: str, compression: str
) -> None:
    benchmark.group = f"write, {compression}"
    source = da.from_array(cached_volume("light sheet", 8), chunks=128)
    path = place.folder / "written.n5"

    def cleared() -> None:
        shutil.rmtree(path, ignore_errors=True)

    work = functools.partial(PEERS[peer].write, source, path, 64, compression)
    benchmark.pedantic(work, setup=cleared, rounds=5)


@pytest.mark.parametrize("number", range(4))
def test_builds_graphs(benchmark: BenchmarkFixture, place: Place, number: int) -> None:
    benchmark.group = "graphs"
    benchmark(works(place.folder)[number][-1])
