"""Tasks write only while their own attempt at a write holds; marks are checked."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest

from tests.support.killing import begin
from tests.support.remote import Far
from tests.support.stores import CountingStore
from xarray_n5 import (
    ContainerNotVisibleError,
    StaleTaskError,
    copy,
    create_array,
    open_array,
    pyramid,
    repair,
    to_n5,
    verify,
)
from xarray_n5.arrays import attempts
from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.copying.copy import begin_copy
from xarray_n5.stores import FsspecStore, MemoryStore, Retries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::xarray_n5.UnfinishedWriteWarning")

VALUES = np.arange(1, 401).reshape(20, 20)


def marks(place: Path) -> list[Path]:
    """The folders of unfinished writes, and of planned ones, in a container."""
    return sorted([*place.rglob(".writing-*"), *place.rglob(".planned-*")])


# Attempts


class Gate(MemoryStore):
    """A store in which one writer waits before its second chunk until it is let go."""

    __slots__ = ("go", "looks", "waits")
    go: threading.Event
    waits: threading.Event
    looks: list[str]

    def __init__(self) -> None:
        super().__init__()
        for name, value in (("go", threading.Event()), ("waits", threading.Event())):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "looks", [])

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        if threading.current_thread().name == "straggler" and key.endswith("mark.json"):
            self.looks.append(key)
            if len(self.looks) == 4:  # at the start, and before each chunk
                self.waits.set()
                assert self.go.wait(120)
        data = self.get(key)
        return None if data is None else (data[:count], len(data))


def straggler(store: Gate, lazy: Any) -> tuple[threading.Thread, list[BaseException]]:
    """Compute in another thread, up to the chunk before which it waits."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            lazy.compute(scheduler="sync")
        except BaseException as error:  # noqa: BLE001 - it is looked at by the test
            raised.append(error)

    thread = threading.Thread(target=work, name="straggler")
    thread.start()
    assert store.waits.wait(120)
    return thread, raised


AFTERWARDS: dict[str, Callable[[Any, Any], Any]] = {
    "replaced": lambda store, x: to_n5(x // 2, store, "a", chunks=5, mode="w"),
    "resumed": lambda store, x: to_n5(x, store, "a", chunks=5, resume=True),
}


@pytest.mark.parametrize("name", AFTERWARDS)
def test_a_straggler_stops_before_its_next_chunk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who replaces the array waits for the tasks of this process, and gives up.
    monkeypatch.setattr(attempts, "_PATIENCE", 0.1)
    store, source = Gate(), da.from_array(VALUES, chunks=-1, name="values")
    lazy = to_n5(source, store, "a", chunks=5, compute=False)
    thread, raised = straggler(store, lazy)
    AFTERWARDS[name](store, source)
    expected = np.array(open_array(store, "a")[...])
    open_array(store, "a", mode="r+")[...] = expected + 1
    store.go.set()
    thread.join()
    assert [type(error) for error in raised] in ([StaleTaskError], [ContainerNotVisibleError])
    np.testing.assert_array_equal(open_array(store, "a")[...], expected + 1)


def test_a_failed_write_has_no_task_left_when_its_error_is_raised(tmp_path: Path) -> None:
    began = threading.Barrier(2, timeout=120)

    def half(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        began.wait()
        if block_info[None]["chunk-location"][0] == 1:
            raise RuntimeError("a bug in one block")
        return block

    blocks: Any = da.from_array(VALUES, chunks=(10, 20))
    source = blocks.map_blocks(half, dtype=VALUES.dtype, meta=VALUES[:0])
    with (
        dask.config.set(scheduler="threads", num_workers=2),
        pytest.raises(RuntimeError, match="a bug"),
    ):
        to_n5(source, tmp_path, "a", chunks=1)
    to_n5(VALUES * 2, tmp_path, "a", chunks=1, mode="w")
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], VALUES * 2)
    assert not marks(tmp_path)


def test_a_failed_write_can_be_resumed(tmp_path: Path) -> None:
    fails = [True]

    def unlucky(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if fails[0] and block_info[None]["chunk-location"] == (3, 3):
            raise RuntimeError("stopped")
        return block

    blocks: Any = da.from_array(VALUES, chunks=5)
    source = blocks.map_blocks(unlucky, dtype=VALUES.dtype, name="unlucky")
    with pytest.raises(RuntimeError, match="stopped"):
        to_n5(source, tmp_path, "a", resume=True)
    fails.clear()
    fails.append(False)
    receipts: Any = to_n5(source, tmp_path, "a", resume=True)
    assert "an earlier run" in receipts["worker"].values or receipts["seconds"].notnull().all()
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], VALUES)
    assert not marks(tmp_path)


def test_an_object_store_is_asked_for_the_mark_once_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.attempts._TRUSTED", 600.0)
    fs = Far()
    store = FsspecStore(fs, "b/x.n5", retries=Retries(count=0))
    lazy: Any = to_n5(da.from_array(VALUES, chunks=10), store, "a", chunks=1, compute=False)
    fs.reset()
    lazy.compute(scheduler="sync")
    assert fs.counts["PUT"] == 400 + 2  # the first task begins the planned write
    # Of tasks, of the first one, of the array's shape, and at the end.
    assert fs.counts["GET"] + fs.counts["HEAD"] <= 4 + 8 + 4 + 4


@pytest.mark.parametrize("name", ["computed again", "replaced"])
def test_tasks_of_an_object_store_share_a_mark_until_it_changes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.attempts._TRUSTED", 600.0)
    fs = Far()
    store = FsspecStore(fs, "b/x.n5", retries=Retries(count=0))
    source: Any = da.from_array(VALUES, chunks=1, name="values")
    lazy: Any = to_n5(source, store, "a", chunks=1, compute=False)
    fs.reset()
    lazy.compute(scheduler="sync")
    asked = [path for _, verb, path in fs.log if verb == "GET" and path.endswith("mark.json")]
    assert len(asked) < 10  # of 400 tasks
    if name == "replaced":
        AFTERWARDS[name](store, source)
    expected = open_array(store, "a")[...] + 1
    open_array(store, "a", mode="r+")[...] = expected
    with pytest.raises((ContainerNotVisibleError, StaleTaskError)):
        lazy.compute(scheduler="sync")
    np.testing.assert_array_equal(open_array(store, "a")[...], expected)


def test_a_mark_of_an_object_store_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5", retries=Retries(count=0))
    monkeypatch.setattr(attempts, "_TRUSTED", 0.0)
    lazy: Any = to_n5(da.from_array(VALUES, chunks=1), store, "a", chunks=1, compute=False)
    fs.reset()
    lazy.compute(scheduler="sync")
    asked = [path for _, verb, path in fs.log if verb == "GET" and path.endswith("mark.json")]
    assert len(asked) >= 400


def test_tasks_rely_on_a_mark_that_their_process_has_just_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.attempts._TRUSTED", 600.0)
    fs = Far()
    store = FsspecStore(fs, "b/x.n5", retries=Retries(count=0))
    to_n5(da.from_array(VALUES, chunks=10), store, "a", chunks=5)
    # At the end, the hint is read once: nothing else was written.
    read = [key for _, verb, key in fs.log if verb == "GET"]
    assert read[-1] == "b/x.n5/a/.unfinished"
    assert read.count("b/x.n5/a/.unfinished") == 1
    assert not [key for _, verb, key in fs.log if verb == "GET" and key.endswith("mark.json")]


def test_tasks_do_not_rely_on_the_mark_of_another_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.attempts._TRUSTED", 600.0)
    fs = Far()
    store = FsspecStore(fs, "b/x.n5", retries=Retries(count=0))
    source = da.from_array(VALUES, chunks=10, name="values")
    lazy: Any = to_n5(source, store, "a", chunks=5, compute=False)
    begin(store, "a")
    # The same process begins another attempt, which the tasks of the first must notice at once.
    unfinished_writes(store, "a")[0].begin({})
    with pytest.raises(StaleTaskError):
        lazy.compute(scheduler="sync")
    assert not any(key.startswith("b/x.n5/a/0/") for key in fs.objects)


def test_a_directory_is_asked_for_the_mark_before_each_chunk() -> None:
    store = CountingStore()
    object.__setattr__(store, "__class__", type("One", (CountingStore,), {"concurrency": 1}))
    lazy: Any = to_n5(da.from_array(VALUES, chunks=10), store, "a", chunks=2, compute=False)
    store.requests()
    lazy.compute(scheduler="sync")
    # Of tasks, of chunks, at the end; and of the first task, which begins the planned write.
    assert store.requests()["peek"] == 4 + 100 + 1 + 2


# What others write meanwhile


@pytest.mark.parametrize("options", [{}, {"checksums": True}, {"write_empty_chunks": False}])
@pytest.mark.parametrize("change", ["brackets", "chunk"])
def test_a_resumed_write_writes_again_what_others_wrote(
    tmp_path: Path, options: dict[str, Any], change: str
) -> None:
    source = da.from_array(VALUES, chunks=5)
    lazy: Any = to_n5(source, tmp_path, "a", resume="x", compute=False, **options)
    array = open_array(tmp_path, "a", mode="r+")
    with pytest.raises(RuntimeError):  # the write is stopped when half of it is there
        to_n5(stopping(source), tmp_path, "a", resume="x", **options)
    if change == "brackets":
        array[19, 19], array[0, 0] = 7, 7
    else:
        array.write_chunk((3, 3), np.full((5, 5), 7))
    del lazy
    to_n5(source, tmp_path, "a", resume="x", **options)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], VALUES)
    assert not marks(tmp_path)


def stopping(source: Any) -> Any:
    """The same blocks, of which the last raises."""

    def stop(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info[None]["chunk-location"] == (3, 3):
            raise RuntimeError("stopped")
        return block

    return source.map_blocks(stop, dtype=source.dtype)


def test_digests_that_appear_after_a_handle_was_opened_go_with_its_writes(tmp_path: Path) -> None:
    array = create_array(tmp_path, "a", shape=(8,), dtype="i4", chunks=4)
    array[:] = 1
    to_n5(np.full(8, 2, "i4"), tmp_path, "a", mode="r+", checksums=True)
    array[:4] = 3
    assert set(verify(tmp_path, "a").compute()["state"].values) == {"ok"}
    repair(tmp_path, "a")
    assert open_array(tmp_path, "a")[:].tolist() == [3] * 4 + [2] * 4


@pytest.mark.parametrize("how", ["remove", "quarantine"])
def test_repair_looks_at_a_chunk_again_before_it_removes_it(tmp_path: Path, how: Any) -> None:
    to_n5(np.ones(12, "i4"), tmp_path, "a", chunks=4)
    for number in (0, 1):
        os.truncate(tmp_path / "a" / str(number), 10)
    (tmp_path / "a" / "2").unlink()
    report = verify(tmp_path, "a").compute()
    array = open_array(tmp_path, "a", mode="r+")
    array.write_chunk((0,), np.full(4, 9))
    array.write_chunk((2,), np.full(4, 8))
    done = repair(tmp_path, "a", report, how=how, missing=True)
    assert done.attrs["repaired"] == 1
    assert open_array(tmp_path, "a")[:].tolist() == [9] * 4 + [0] * 4 + [8] * 4
    to_n5(da.zeros(12, chunks=4, dtype="i4"), tmp_path, "a", resume=True)
    assert open_array(tmp_path, "a")[:].tolist() == [9] * 4 + [0] * 4 + [8] * 4


# Planted and half-removed marks


def test_a_folder_without_a_mark_is_no_unfinished_write(tmp_path: Path) -> None:
    image = da.ones((8, 8), chunks=4)
    to_n5(image, tmp_path, "g/s0")
    for name in ("1" * 32, "2" * 32):
        (tmp_path / "g/s0" / f".writing-{name}").mkdir()
    (tmp_path / "g/s0" / f".writing-{'2' * 32}" / "0123abcd-0.0").write_text("{}")
    assert verify(tmp_path, "g/s0").attrs["unfinished"] == []
    pyramid(tmp_path, path="g/s0", levels=1)
    to_n5(image, tmp_path, "g/s0", mode="r+")
    assert not marks(tmp_path)


MODES: dict[str, dict[str, Any]] = {
    "r+": {"mode": "r+"},
    "a": {"mode": "a"},
    "w": {"mode": "w", "chunks": 8},
    "region": {"region": (slice(0, 16),)},
    "resume": {"mode": "r+", "resume": True},
}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize(("own", "kind"), [(False, ""), (True, "writing"), (True, "planned")])
def test_a_mark_that_is_a_link_is_removed_and_never_entered(
    tmp_path: Path, name: str, own: bool, kind: str
) -> None:
    source, place = da.arange(16, chunks=8, dtype="u1"), tmp_path / "c.n5"
    to_n5(source + 1, place, "a", chunks=8)
    home = tmp_path / "home"
    home.mkdir()
    (home / "0123abcd-precious").write_text("years of work")
    name_of_link = ".writing-0"
    if own:
        # Whoever knows what will be written knows the token, too.
        to_n5(source + 1, tmp_path / "probe.n5", "a", chunks=8)
        to_n5(source, tmp_path / "probe.n5", "a", compute=False, **MODES[name])
        (mark,) = marks(tmp_path / "probe.n5")
        name_of_link = mark.name.replace(".planned-", f".{kind}-")
    (place / "a" / name_of_link).symlink_to(home)
    to_n5(source, place, "a", **MODES[name])
    assert [each.name for each in home.iterdir()] == ["0123abcd-precious"]
    assert not marks(place)
    np.testing.assert_array_equal(open_array(place, "a")[...], np.arange(16))


def planted(tmp_path: Path, facts: dict[str, Any]) -> Path:
    """A container in which a copy of the group g has begun, as somebody else wants it to look."""
    to_n5(np.arange(16, dtype="u1"), tmp_path / "s.n5", "g/x", chunks=8)
    begin_copy(tmp_path / "s.n5", "g", tmp_path / "probe.n5", "g")
    (mark,) = (tmp_path / "probe.n5" / "g").glob(".writing-*")
    folder: Path = tmp_path / "d.n5" / "g" / mark.name
    folder.mkdir(parents=True)
    said = {"run": "0123abcd", "attempt": "0123abcd", **facts}
    (folder / "mark.json").write_text(json.dumps(said))
    return tmp_path / "d.n5"


@pytest.mark.parametrize(
    "parts",
    [
        [["g", "0" * 32 + "/../../../home/precious"]],
        [["../home", "0" * 32]],
        [["g/../../home", "0" * 32]],
        [["elsewhere", "0" * 32]],
        [["g/.hidden", "0" * 32]],
        [[3, "0" * 32]],
        "g",
    ],
)
def test_a_planted_mark_names_nothing_outside_of_its_group(tmp_path: Path, parts: Any) -> None:
    place = planted(tmp_path, {"done": True, "parts": parts})
    for precious in (tmp_path / "home/precious", place / "elsewhere", tmp_path / "home"):
        folder = precious / f".writing-{'0' * 32}"
        folder.mkdir(parents=True)
        (folder / "thesis.txt").write_text("years of work")
    before = set(tmp_path.rglob("thesis.txt"))
    copy(tmp_path / "s.n5", place, source_path="g", path="g", resume=True)
    assert set(tmp_path.rglob("thesis.txt")) == before
    np.testing.assert_array_equal(open_array(place, "g/x")[...], np.arange(16))


@pytest.mark.parametrize("run", ["../../../home/evil", "0123ABCD", "", 7, None])
@pytest.mark.parametrize("begun", [False, True])
def test_the_run_of_a_planted_mark_is_not_taken_for_a_path(
    tmp_path: Path, run: object, begun: bool
) -> None:
    def job(**more: Any) -> None:
        to_n5(da.ones(16, chunks=8, dtype="u1"), tmp_path / "d.n5", "a", resume="nightly", **more)

    job(compute=False)
    (tmp_path / "home").mkdir()
    (mark,) = marks(tmp_path / "d.n5")
    facts = json.loads((mark / "mark.json").read_text())
    (mark / "mark.json").write_text(json.dumps(facts | {"journal": True, "run": run}))
    if begun:
        mark.rename(mark.with_name(mark.name.replace(".planned-", ".writing-")))
    job()
    assert list((tmp_path / "home").iterdir()) == []
    assert open_array(tmp_path / "d.n5", "a")[...].tolist() == [1] * 16


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b'{"start": "x"}', b"[" * 100_000])
def test_a_mark_that_cannot_be_understood_is_resumed_from_the_beginning(
    tmp_path: Path, document: bytes
) -> None:
    source = da.from_array(VALUES, chunks=5)
    with pytest.raises(RuntimeError):
        to_n5(stopping(source), tmp_path, "a", resume="x")
    (mark,) = marks(tmp_path)
    (mark / "mark.json").write_bytes(document)
    to_n5(source + 1, tmp_path, "a", resume="x")
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], VALUES + 1)
    assert not marks(tmp_path)
