"""Reads and writes by several threads: as many as help, and what happens where one fails."""

from __future__ import annotations

import multiprocessing
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import dask
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.memory_store import MemoryStore
from xarray_n5 import ChunkError, create_array, from_n5, open_array, to_n5
from xarray_n5.codecs.gzip import Gzip

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(8 * 40 * 1000, dtype="u4").reshape(8, 40, 1000)
"""Eight chunks of 160,000 bytes."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the array is."""
    to_n5(X, tmp_path / "a.n5", "a", chunks=(1, 40, 1000))
    return str(tmp_path / "a.n5")


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the threads that decompress."""
    seen: set[str] = set()
    plain = Gzip.decode

    def spy(self: Gzip, data: Any, size: int) -> Any:
        seen.add(threading.current_thread().name)
        return plain(self, data, size)

    monkeypatch.setattr(Gzip, "decode", spy)
    monkeypatch.setattr("xarray_n5.arrays.transfer.CPU_COUNT", 2)
    return seen


def test_large_chunks_are_read_by_several_threads(url: str, readers: set[str]) -> None:
    assert (open_array(url, "a")[...] == X).all()
    assert all(name.startswith("xarray-n5_") for name in readers)
    readers.clear()
    assert (open_array(url, "a")[::3, [1, 30], 5:-5] == X[::3][:, [1, 30], 5:-5]).all()
    assert all(name.startswith("xarray-n5_") for name in readers)


def test_tasks_and_other_threads_read_alone(url: str, readers: set[str]) -> None:
    with dask.config.set(scheduler="threads"):
        assert (from_n5(url, "a", chunks=(4, 40, 1000)).compute() == X).all()
    assert not any(name.startswith("xarray-n5_") for name in readers)
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(open_array(url, "a")[...]), name="own")
    readers.clear()
    thread.start()
    thread.join()
    assert (found[0] == X).all()
    assert readers == {"own"}


def test_one_chunk_and_small_ones_are_read_here(
    url: str, tmp_path: Path, readers: set[str]
) -> None:
    assert (open_array(url, "a")[3] == X[3]).all()
    to_n5(X[:, :8, :8], tmp_path / "a.n5", "small", chunks=4)
    assert (open_array(url, "small")[...] == X[:, :8, :8]).all()
    assert readers == {threading.main_thread().name}


def test_a_damaged_chunk_is_named_and_stops_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.transfer.CPU_COUNT", 2)
    to_n5(np.ones((1000, 1 << 16), "u1"), tmp_path / "a.n5", "a", chunks=(1, 1 << 16))
    (tmp_path / "a.n5/a/0/5").write_bytes(b"")
    read: list[int] = []
    plain = Gzip.decode

    def count(self: Gzip, data: Any, size: int) -> Any:
        read.append(size)
        return plain(self, data, size)

    monkeypatch.setattr(Gzip, "decode", count)
    with pytest.raises(ChunkError, match="a/0/5"):
        open_array(tmp_path / "a.n5", "a")[...]
    assert len(read) < 500  # chunks of the other thread


def test_large_chunks_are_written_by_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    plain = Gzip.encode

    def spy(self: Gzip, data: Any) -> Any:
        seen.add(threading.current_thread().name)
        return plain(self, data)

    monkeypatch.setattr(Gzip, "encode", spy)
    monkeypatch.setattr("xarray_n5.arrays.transfer.CPU_COUNT", 2)
    options: dict[str, Any] = {"shape": X.shape, "dtype": "u4", "chunks": (1, 40, 1000)}
    array = create_array(tmp_path / "a.n5", "a", **options)
    seen.clear()  # of the trial on creation
    array[...] = X
    assert seen
    assert all(name.startswith("xarray-n5_") for name in seen)
    # Rows in any order: each chunk has one writer, whatever selects it.
    order = np.random.default_rng(0).permutation(len(X))
    array[order] = X
    array[:, 3:5] = 7
    expected = np.empty_like(X)
    expected[order] = X
    expected[:, 3:5] = 7
    assert (open_array(tmp_path / "a.n5", "a")[...] == expected).all()

    monkeypatch.setattr(Gzip, "encode", lambda *_: 1 / 0)
    with pytest.raises(ChunkError, match="ZeroDivisionError"):
        array[...] = X
    assert (open_array(tmp_path / "a.n5", "a")[...] == expected).all()


@pytest.mark.parametrize("cpus", [2, 3, 4, 8, 64])
@pytest.mark.parametrize("counts", [(2, 2), (3, 2), (1, 5), (3, 1, 3), (5, 7), (9, 2)])
def test_every_chunk_is_read_and_written_by_any_number_of_threads(
    cpus: int, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.transfer.CPU_COUNT", cpus)
    side = 256 if len(counts) == 2 else 41  # chunks that are worth a thread
    shape = tuple(count * side - 5 for count in counts)
    values = np.arange(np.prod(shape), dtype="u4").reshape(shape) + 1
    array = create_array(MemoryStore(), "a", shape=shape, dtype="u4", chunks=side, compression=None)
    array[...] = values
    assert (array[...] == values).all()
    assert (array[::2, 3:-3] == values[::2, 3:-3]).all()
    array[:-1] = values[1:]
    assert (array[:-1] == values[1:]).all()


def test_a_connection_for_one_thread_is_used_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xarray_n5.arrays.transfer.CPU_COUNT", 2)
    seen: set[int] = set()

    class OneByOne(MemoryFileSystem):  # type: ignore[misc]
        """Stands for FTP and SFTP."""

        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        def pipe_file(self, path: str, value: Any, **options: Any) -> None:
            seen.add(threading.get_ident())
            super().pipe_file(path, value, **options)

    place = (OneByOne(), "/a.n5")
    made = create_array(place, "a", shape=X.shape, chunks=(1, 40, 1000), dtype=X.dtype)
    made[...] = X
    assert seen == {threading.get_ident()}
    assert (open_array(place, "a")[...] == X).all()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no forks here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forks_have_threads_of_their_own(url: str) -> None:
    array = open_array(url, "a")
    assert (array[...] == X).all()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.map(_read, [array] * 4):
            assert (found == X).all()


def _read(array: Any) -> np.ndarray:
    return np.asarray(array[...])
