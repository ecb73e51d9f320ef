"""Tasks of a new array on a server end before their chunks are stored, and nothing relies on it."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest

from tests.support.remote import Bucket, Far
from xarray_n5 import RequestError, StaleTaskError, open_array, to_n5
from xarray_n5.arrays import attempts
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import FsspecStore, Retries
from xarray_n5.writing import sending, tasks
from xarray_n5.writing.sending import Sending

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = np.arange(1, 65, dtype="u2").reshape(8, 8)
"""No zero among them, so that each of the 64 chunks is stored."""

BLOCKS = da.from_array(VALUES, chunks=1, name="values")

pytestmark = pytest.mark.filterwarnings("ignore::xarray_n5.UnfinishedWriteWarning")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert sending._under_way == [0, 0]
    assert not [error for _, error in attempts._failures.values() if error]
    assert not attempts._running


def store_on(fs: Far) -> FsspecStore:
    """A store that does not retry."""
    return FsspecStore(fs, "c.n5", retries=Retries(count=0))


def write(fs: Far, **how: Any) -> Any:
    """Write the values, one chunk a task, in this thread."""
    with dask.config.set(scheduler="synchronous"):
        return to_n5(BLOCKS, store_on(fs), "a", compression=None, **how)


def chunk_of(path: str) -> bool:
    """Whether a path is a chunk's."""
    return path.rpartition("/")[2].isdecimal()


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_one_thread_has_the_requests_of_many_tasks_under_way(form: str) -> None:
    fs = Bucket()
    fs.be_far()
    report = write(fs, format=form)
    assert fs.most >= 64
    assert fs.rounds < 20
    assert report.bytes.min() > 0
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def test_chunks_of_shards_are_read_as_they_are_written() -> None:
    fs = Bucket()
    write(fs, format="zarr3", shards=1)
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def test_a_request_that_fails_stops_the_write_which_can_be_resumed() -> None:
    fs, put = Bucket(), count()

    def fails(verb: str, path: str) -> None:
        if verb == "PUT" and chunk_of(path) and next(put) >= 5:
            raise PermissionError("the disk is full")

    fs.fails, fs.batch_size = fails, 8  # however slow the answers are, no more are asked for
    with pytest.raises(RequestError, match="the disk is full"):
        write(fs)
    assert next(put) < 40
    assert fs.under_way == 0
    fs.fails = lambda _verb, _path: None
    fs.reset()
    write(fs, resume=True)
    assert sum(verb == "PUT" and chunk_of(path) for _, verb, path in fs.log) == 59
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def test_the_last_request_is_repeated_once_if_it_fails() -> None:
    fs, put = Bucket(), count()

    def fails(verb: str, path: str) -> None:
        if verb == "PUT" and chunk_of(path) and next(put) == 63:
            raise OSError("once")

    fs.fails = fails
    write(fs)
    assert next(put) == 65
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def test_the_last_request_that_fails_for_good_is_an_error() -> None:
    fs = Bucket()

    def fails(verb: str, path: str) -> None:
        if verb == "PUT" and path.endswith("/a/7/7"):
            raise OSError("never")

    fs.fails = fails
    with pytest.raises(RequestError, match=r"'a/7/7'.*never"):
        write(fs)
    fs.fails = lambda _verb, _path: None
    write(fs, resume=True)
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def test_no_request_is_under_way_when_the_error_of_another_task_is_raised() -> None:
    fs = Bucket()

    def broken(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info[0]["chunk-location"] == (0, 0):  # the synchronous scheduler's last one
            raise ValueError("a bug in one block")
        return block

    fs.latency = 0.05
    source = BLOCKS.map_blocks(broken, dtype="u2", name="broken")
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="a bug"):
        to_n5(source, store_on(fs), "a", compression=None)
    assert fs.most > 1
    assert fs.under_way == 0


class Held(Bucket):
    """A store whose answers to chunks are held back, and which counts those under way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.go = threading.Event()
        self.held = self.most_held = 0

    async def _pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self.held += chunk_of(path)
        self.most_held = max(self.most_held, self.held)
        if chunk_of(path):
            await asyncio.to_thread(self.go.wait, 60)
        await super()._pipe_file(path, value, **options)
        self.held -= chunk_of(path)


def sent(fs: Far, monkeypatch: pytest.MonkeyPatch) -> Sending:
    """What the task of one chunk returns."""
    found: list[Any] = []
    block = tasks.write_block

    def write_block(*arguments: Any, **options: Any) -> Any:
        found.append(block(*arguments, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "write_block", write_block)
    monkeypatch.setattr("xarray_n5.arrays.marker.WriteMarker.stop", lambda _: None)
    with dask.config.set(scheduler="synchronous"), pytest.raises(KeyboardInterrupt):
        to_n5(BLOCKS, store_on(fs), "a", compression=None)
    assert isinstance(found[0], Sending)
    return found[0]


def test_receipts_leave_the_process_after_the_chunk_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = Held()
    task = sent(fs, monkeypatch)
    assert not [*filter(chunk_of, fs.objects)]
    threading.Timer(0.1, fs.go.set).start()
    receipts = pickle.loads(pickle.dumps(task))  # noqa: S301
    assert isinstance(receipts, Receipts)
    assert len(receipts) == 1
    assert len([*filter(chunk_of, fs.objects)]) == 1


def test_a_chunk_that_failed_in_another_process_is_stored_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = Bucket()

    def fails(verb: str, path: str) -> None:
        if verb == "PUT" and chunk_of(path):
            raise OSError("once")

    fs.fails = fails
    task = sent(fs, monkeypatch)
    again = Sending(*task.__reduce__()[1])
    fs.fails = lambda _verb, _path: None
    assert not [*filter(chunk_of, fs.objects)]
    assert len(again.received()) == 1
    assert len([*filter(chunk_of, fs.objects)]) == 1


def test_a_chunk_that_failed_is_not_repeated_after_another_attempt_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = Bucket()

    def fails(verb: str, path: str) -> None:
        if verb == "PUT" and chunk_of(path):
            raise OSError("once")

    fs.fails = fails
    task = sent(fs, monkeypatch)
    task._wait()
    fs.fails = lambda _verb, _path: None
    monkeypatch.undo()
    write(fs, resume=True)
    with pytest.raises((StaleTaskError, FileNotFoundError)):
        task.received()


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (5 * 14, 6), (5 * 14 + 13, 6)])
def test_a_task_waits_if_many_bytes_are_under_way(
    most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_MOST_BYTES", most)  # a chunk has 14 bytes with its header
    fs = Held()
    threading.Timer(0.5, fs.go.set).start()
    write(fs)
    assert fs.most_held == expected
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def test_large_chunks_of_several_threads_are_stored_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "_MOST_BYTES", 1)
    fs = Held()
    threading.Timer(0.5, fs.go.set).start()
    with dask.config.set(scheduler="threads", num_workers=8):
        to_n5(BLOCKS, store_on(fs), "a", compression=None)
    assert fs.most_held == 8


def test_the_requests_of_many_threads_are_those_of_one_filesystem() -> None:
    fs = Held(batch_size=4)
    threading.Timer(0.5, fs.go.set).start()
    with dask.config.set(scheduler="threads", num_workers=16):
        to_n5(BLOCKS, store_on(fs), "a", compression=None)
    assert fs.most_held == 4
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def test_a_record_is_stored_after_its_chunk() -> None:
    fs = Bucket()
    write(fs)
    fs.reset()
    write(fs, mode="r+", resume="again")
    order = [path for _, verb, path in fs.log if verb == "PUT" and "mark" not in path]
    chunks = [number for number, path in enumerate(order) if chunk_of(path)]
    assert len(chunks) == 64
    for number in chunks:
        assert ".writing-" in order[number + 1]


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_memory_may_be_used_again_after_a_task(form: Any) -> None:
    fs = Bucket()
    fs.be_far()
    memory = np.empty((4, 4), "<u2" if form != "n5" else ">u2")

    def computed(block: np.ndarray) -> np.ndarray:
        np.copyto(memory, block)
        return memory

    values = np.arange(1, 257, dtype=memory.dtype).reshape(16, 16)
    blocks = da.from_array(values, chunks=4, name=False)
    source = blocks.map_blocks(computed, meta=np.empty((0, 0), memory.dtype))
    with dask.config.set(scheduler="synchronous"):
        to_n5(source, store_on(fs), "a", compression=None, format=form)
    assert fs.most > 1
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], values)


def test_what_replaces_an_array_waits_for_requests_of_a_failed_computation() -> None:
    fs = Held()

    def broken(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info[0]["chunk-location"] == (0, 0):
            raise ValueError("a bug")
        return block

    source = BLOCKS.map_blocks(broken, dtype="u2", name="broken-later")
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="a bug"):
        to_n5(source, store_on(fs), "a", compression=None, compute=False).compute()
    assert sending._under_way[0] > 1
    threading.Timer(0.2, fs.go.set).start()
    new = VALUES + np.uint16(1000)
    to_n5(new, store_on(fs), "a", chunks=1, compression=None, mode="w")
    assert fs.held == 0
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], new)


def test_an_error_is_not_raised_by_the_next_computation() -> None:
    class Down(Held):
        async def _pipe_file(self, path: str, value: bytes, **options: Any) -> None:
            fails = chunk_of(path) and not self.go.is_set()
            self.held += fails
            if fails and self.held < 3:
                await asyncio.to_thread(self.go.wait, 60)
            _fail(fails)
            await Far._pipe_file(self, path, value, **options)

    fs = Down()
    write = to_n5(BLOCKS, store_on(fs), "a", compression=None, compute=False)
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(RequestError, match="the server is down"):
            write.compute()
        assert sending._under_way[0] >= 2  # the others fail soon
        fs.go.set()
        with sending._lock:
            assert sending._ends.wait_for(lambda: sending._under_way == [0, 0], 60)
        write.compute()
    np.testing.assert_array_equal(open_array(store_on(fs), "a")[...], VALUES)


def _fail(fails: bool) -> None:
    if fails:
        raise OSError("the server is down")


def test_a_repeated_request_counts_as_a_running_task(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = Bucket()
    fs.fails = lambda verb, path: _fail(verb == "PUT" and chunk_of(path))
    task = sent(fs, monkeypatch)
    task._wait()
    running: list[bool] = []
    fs.fails = lambda _verb, _path: running.append(bool(attempts._running))
    monkeypatch.undo()
    attempts._stopped.clear()
    task.received()
    assert running[-1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_no_requests_under_way() -> None:
    sending._under_way[:] = 1 << 20, 1 << 40
    sending._lock.acquire()
    try:
        if not (child := os.fork()):
            free = sending._lock.acquire(blocking=False) and sending._under_way == [0, 0]
            os._exit(0 if free else 1)
    finally:
        sending._lock.release()
        sending._under_way[:] = 0, 0
    assert os.waitpid(child, 0)[1] == 0
