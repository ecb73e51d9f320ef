"""The contract of stores, held by each of them, and the locations that name them."""

from __future__ import annotations

import errno
import os
import pickle
import threading
import time
import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.memory_store import MemoryStore
from tests.support.processes import Python
from tests.support.servers import SERVED, Bucket, serving
from tests.support.stores import STORES, CountingStore, ReadingStore, keys_below
from xarray_n5 import NodeNotFoundError, open_array, to_n5
from xarray_n5.formats.containers import open_store
from xarray_n5.stores import CachedStore, LocalStore, uncached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from xarray_n5.stores.base import Store

KINDS: dict[str, Callable[[Path], Store]] = {
    **STORES,
    "cached": lambda _: CachedStore(CountingStore()),
    "cached, with complete listings": lambda _: CachedStore(ReadingStore()),
}


@pytest.fixture(params=[*KINDS, *SERVED])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, served: Callable[[str], Bucket]
) -> Iterator[Store]:
    make = KINDS.get(request.param)
    yield make(tmp_path) if make else served(request.param).store(tmp_path.name)
    MemoryFileSystem.store.clear()


def filled(store: Store, *keys: str) -> None:
    for key in keys:
        store.set(key, key.encode())


def test_a_missing_key_is_none_and_a_directory_is_not_a_key(store: Store) -> None:
    for _ in range(2):
        assert store.get_many(["a", "b/c", "a/b/c"]) == [None, None, None]
        assert [store.get("a"), store.head("a", 4), store.etag("c")] == [None, None, None]
        assert not store.exists("a")
        filled(store, "a/b")
    assert store.get_many(["a", "a/b"]) == [None, b"a/b"]
    folders = [store.is_folder(key) for key in ("a", "a/b", "c")]
    assert folders == [True, False, False]
    store.delete(["a", "c"])
    assert store.get("a/b") == b"a/b"


@pytest.mark.parametrize(
    "data",
    [b"", b"bytes", bytearray(b"array"), memoryview(b"view"), np.arange(3, dtype=">u2").data],
)
def test_what_was_set_is_read(store: Store, data: Any) -> None:
    store.set("deep/er/key", b"first, and longer")
    before = store.etag("deep/er/key")
    store.with_fsync().set("deep/er/key", data)
    assert store.get("deep/er/key") == bytes(data)
    assert store.exists("deep/er/key")
    assert store.etag("deep/er/key") != before
    assert store.with_fsync().identity("a") == store.identity("a")
    size = len(bytes(data))
    assert store.head("deep/er/key", 4) == (bytes(data)[:4], size)
    assert store.head("deep/er/key", 40) == (bytes(data), size)


def test_many_keys_come_in_their_order(store: Store) -> None:
    done = store.set_many([*((f"d/{n}", b"%d" % n) for n in range(5)), ("d/none", None)], 2)
    assert list(done) == ["d/0", "d/1", "d/2", "d/3", "d/4", "d/none"]
    keys = ["d/3", "d/9", "d/0", "d/3"]
    assert store.get_many(keys) == [b"3", None, b"0", b"3"]
    assert list(store.fetch(keys, 2)) == [*zip(keys, [b"3", None, b"0", b"3"], strict=True)]


def test_listings_have_names_and_walks_have_keys_sizes_and_times(store: Store) -> None:
    before = time.time() - 10
    filled(store, "attributes.json", "b/c/0", "b/attributes.json", "a/0", "ab/1")
    assert store.list("") == (("a", "ab", "b"), ("attributes.json",))
    assert store.list_many(["b", "none"]) == [(("c",), ("attributes.json",)), ((), ())]
    infos = {info.key: info for info in store.list_info("b")}
    assert {key: info.size for key, info in infos.items()} == {"c/0": 5, "attributes.json": 17}
    assert all(i.time is None or before < i.time < before + 60 for i in infos.values())
    assert sorted(keys_below(store, "a")) == ["0"]
    assert len(keys_below(store, "")) == 5
    assert keys_below(store, "none") == []


def test_deleting_leaves_everything_else(store: Store) -> None:
    filled(store, "a/0", "a/1", "a/b/2", "ab/3", "c")
    store.delete(["a/0", "a/9", "none/1"])
    assert sorted(keys_below(store, "a")) == ["1", "b/2"]
    store.delete_tree("a", "1")
    store.delete_tree("none", "x")
    assert sorted(keys_below(store, "")) == ["ab/3", "c"]


def test_names_are_not_patterns(store: Store) -> None:
    names = ("a*", "ab", "a[1]", "a1", "a?")
    filled(store, *(f"{name}/key" for name in names))
    assert store.get_many(["a*/key", "a[1]/key", "a?/key"]) == [b"a*/key", b"a[1]/key", b"a?/key"]
    store.delete_tree("a*", "key")
    store.delete_tree("a[1]", "key")
    store.delete(["a?/key"])
    assert sorted(keys_below(store, "")) == ["a1/key", "ab/key"]


def test_a_listing_shows_what_another_client_wrote(store: Store) -> None:
    filled(store, "a/0")
    store.list("a")
    other = uncached(store) if isinstance(store, CachedStore) else store
    filled(other if isinstance(other, MemoryStore | CountingStore) else unpickled(other), "a/1")
    assert store.fresh().list("a") == ((), ("0", "1"))


def unpickled(store: Store) -> Store:
    """The store as another process would have it."""
    try:
        content = pickle.dumps(store)
    except (TypeError, NotImplementedError, ValueError) as error:
        pytest.skip(f"a store of this process alone: {error}")
    return pickle.loads(content)  # type: ignore[no-any-return]  # noqa: S301


def test_readers_see_the_old_value_or_the_new_one(store: Store) -> None:
    values = [bytes([number]) * (1 << 16) for number in (1, 2)]
    store.set("key", values[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for value in values:
                store.set("key", value)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        end = time.monotonic() + 1
        assert all(store.get("key") in values for _ in range(300) if time.monotonic() < end)
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_stores_and_their_tokens_survive_pickling(store: Store) -> None:
    filled(store, "key")
    if isinstance(uncached(store), MemoryStore | CountingStore):
        with pytest.raises(TypeError, match="one process"):
            pickle.dumps(store)
        return
    again = unpickled(store)
    assert again.get("key") == b"key"
    assert (again.identity("k"), again.url) == (store.identity("k"), store.url)


# Local files


def test_a_killed_write_leaves_the_old_file(tmp_path: Path) -> None:
    LocalStore(str(tmp_path)).set("key", b"old")
    script = (
        "import os; from xarray_n5.stores import LocalStore\n"
        "os.replace = lambda *a, **k: os._exit(9)\n"
        f"LocalStore({str(tmp_path)!r}).set('key', b'new')"
    )
    assert Python("-c", script).wait() == 9
    assert (tmp_path / "key").read_bytes() == b"old"


def test_a_failed_write_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        LocalStore(str(tmp_path)).set("key", b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["attributes.json", "a/attributes.json"])
def test_errors_of_a_folder_without_permission_name_the_file_that_was_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(os, "open", partial(refused, os.open))
    with pytest.raises(PermissionError) as caught:
        LocalStore(str(tmp_path)).set(key, b"{}")
    assert caught.value.filename == str(tmp_path / key)


def refused(opening: Any, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
    """Open a file, unless it is to be created."""
    if flags & os.O_CREAT:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return int(opening(path, flags, *arguments, **options))


# Locations


def test_a_server_without_listings_serves_what_is_named(tmp_path: Path) -> None:
    to_n5(np.arange(20).reshape(4, 5), tmp_path / "x.n5", "my arr/ä#1?", chunks=(2, 2))
    with serving(tmp_path) as url:
        array = open_array(f"{url}/x.n5", "my arr/ä#1?")
        np.testing.assert_array_equal(array[...], np.arange(20).reshape(4, 5))
        with pytest.raises(NodeNotFoundError, match="no array at 'nothing'"):
            open_array(f"{url}/x.n5", "nothing")


def test_views_of_other_places_have_tokens_and_urls_of_their_own(tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a", name)
    memory = fsspec.filesystem("memory")
    stores = [
        open_store((DirFileSystem("/p1", memory), "")),
        open_store((DirFileSystem("/p2", memory), "")),
        open_store(f"zip://::{tmp_path}/one.zip"),
        open_store(f"zip://::{tmp_path}/two.zip"),
        open_store("memory://p1", {"use_listings_cache": False}),
    ]
    assert len({store.identity("k") for store in stores}) == 5
    assert "p1" in stores[0].url
    assert "one.zip" in stores[2].url
    assert stores[3].get("a") == b"two.zip"
    again = [unpickled(store).identity("k") for store in stores]
    assert again == [store.identity("k") for store in stores]


def test_all_ways_to_name_a_place_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    local, place = fsspec.filesystem("file"), str(tmp_path / "x.n5")
    ways = [place, tmp_path / "x.n5", "x.n5", "./x.n5/", f"file://{place}"]
    ways += [(local, place), local.get_mapper(place), LocalStore(place)]
    assert {open_store(way) for way in ways} == {LocalStore(place)}
    memory = MemoryFileSystem()
    ways = ["memory://b/x.n5", (memory, "/b/x.n5"), memory.get_mapper("b/x.n5")]
    assert len({open_store(way).identity("k") for way in ways}) == 1
    open_store(memory).set("x.n5/key", b"1")
    assert open_store("memory://x.n5").get("key") == b"1"
    MemoryFileSystem.store.clear()


@pytest.mark.parametrize(
    ("place", "options"), [(3, {}), (None, {}), (b"bytes", {}), (object(), {}), ("x", {"anon": 1})]
)
def test_what_does_not_name_a_place_is_refused(place: object, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        open_store(place, options)
