"""The contract of stores, held by each of them."""

from __future__ import annotations

import errno
import os
import pickle
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.processes import Python
from tests.support.servers import SERVED, Bucket, serving
from tests.support.stores import STORES, keys_below
from xarray_n5 import NodeNotFoundError, open_array, to_n5
from xarray_n5.formats.containers import open_store
from xarray_n5.stores import (
    LocalStore,
    MemoryStore,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from xarray_n5.stores.base import Store


@pytest.fixture(params=[*STORES, *SERVED])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, served: Callable[[str], Bucket]
) -> Iterator[Store]:
    make = STORES.get(request.param)
    yield make(tmp_path) if make else served(request.param).store(tmp_path.name)
    MemoryFileSystem.store.clear()


def test_a_missing_key_is_none(store: Store) -> None:
    assert store.get("a/b") is None
    assert store.get_many(["a", "b/c", "d"]) == [None, None, None]
    assert not store.exists("a")
    assert store.etag("a") is None


@pytest.mark.parametrize(
    "data", [b"bytes", bytearray(b"array"), memoryview(b"view"), np.arange(3, dtype=">u2").data]
)
def test_what_was_set_is_got(store: Store, data: Any) -> None:
    store.set("deep/er/key", data)
    assert store.get("deep/er/key") == bytes(data)
    assert store.exists("deep/er/key")


def test_peeking_reads_the_beginning_alone(store: Store) -> None:
    store.set("a/key", b"0123456789")
    store.set("a/empty", b"")
    assert store.head("a/key", 4) == (b"0123", 10)
    assert store.head("a/key", 40) == (b"0123456789", 10)
    assert store.head("a/empty", 4) == (b"", 0)
    assert store.head("a/none", 4) is None
    assert store.head("a", 4) is None


def test_a_survey_tells_sizes_and_times(store: Store) -> None:
    before = time.time() - 10
    store.set("a/b/1", b"xyz")
    store.set("a/0", b"")
    found = {each.key: each for each in store.list_info("a")}
    assert {key: each.size for key, each in found.items()} == {"b/1": 3, "0": 0}
    assert all(each.time is None or before < each.time < before + 60 for each in found.values())
    assert list(store.list_info("nothing")) == []


def test_a_durable_store_is_the_same_place(store: Store) -> None:
    store.with_fsync().set("a/b", b"x")
    assert store.get("a/b") == b"x"
    assert store.with_fsync().identity("a") == store.identity("a")


def test_an_empty_value_is_not_a_missing_one(store: Store) -> None:
    store.set("empty", b"")
    assert store.get("empty") == b""


def test_a_key_below_a_file_is_missing(store: Store) -> None:
    store.set("file", b"1")
    assert store.get("file/inner") is None


def test_setting_again_replaces_and_changes_the_stamp(store: Store) -> None:
    store.set("key", b"first, and longer")
    before = store.etag("key")
    store.set("key", b"second")
    assert store.get("key") == b"second"
    assert store.etag("key") != before


def test_many_keys_come_in_their_order(store: Store) -> None:
    for number in range(5):
        store.set(f"d/{number}", b"%d" % number)
    keys = ["d/3", "d/9", "d/0", "d/3"]
    assert store.get_many(keys) == [b"3", None, b"0", b"3"]


def test_listing_tells_directories_from_files(store: Store) -> None:
    for key in ("attributes.json", "b/c/0", "b/attributes.json", "a/0"):
        store.set(key, b"x")
    assert store.list("") == (("a", "b"), ("attributes.json",))
    assert store.list("b") == (("c",), ("attributes.json",))
    assert store.list("nothing") == ((), ())


def test_walking_yields_every_key_below_relative_to_the_prefix(store: Store) -> None:
    for key in ("a/0", "a/b/1", "a/b/2", "ab/3", "c"):
        store.set(key, b"x")
    assert sorted(keys_below(store, "a")) == ["0", "b/1", "b/2"]
    assert sorted(keys_below(store, "")) == ["a/0", "a/b/1", "a/b/2", "ab/3", "c"]
    assert keys_below(store, "nothing") == []


def test_deleting_removes_what_is_there_and_passes_over_the_rest(store: Store) -> None:
    store.set("a/0", b"x")
    store.set("a/1", b"x")
    store.delete(["a/0", "a/9"])
    assert (store.get("a/0"), store.get("a/1")) == (None, b"x")


def test_deleting_a_tree_leaves_its_neighbours(store: Store) -> None:
    for key in ("a/0", "a/b/1", "ab/2"):
        store.set(key, b"x")
    store.delete_tree("a", "0")
    store.delete_tree("nothing", "x")
    assert keys_below(store, "") == ["ab/2"]


def test_a_listing_shows_what_another_client_wrote(store: Store) -> None:
    store.set("a/0", b"x")
    assert store.list("a") == ((), ("0",))
    other = store if isinstance(store, MemoryStore) else unpickled(store)
    other.set("a/1", b"x")
    assert store.list("a") == ((), ("0", "1"))


def unpickled(store: Store) -> Store:
    """The store as another process would have it."""
    try:
        content = pickle.dumps(store)
    except (TypeError, NotImplementedError, ValueError) as error:
        pytest.skip(f"a store of this process alone: {error}")
    return pickle.loads(content)  # type: ignore[no-any-return]  # noqa: S301


def test_a_directory_is_no_key(store: Store) -> None:
    store.set("a/b", b"x")
    assert store.get("a") is None
    assert store.get_many(["a", "a/b"]) == [None, b"x"]
    assert not store.exists("a")
    assert store.is_folder("a")
    assert not store.is_folder("a/b")
    assert not store.is_folder("c")


def test_deleting_no_more_than_a_key(store: Store) -> None:
    store.set("a/b", b"x")
    store.delete(["a"])
    assert store.get("a/b") == b"x"


def test_names_are_names_and_no_patterns(store: Store) -> None:
    for name in ("a*", "ab", "a[1]", "a1", "a?"):
        store.set(f"{name}/key", name.encode())
    assert store.get_many(["a*/key", "a[1]/key", "a?/key"]) == [b"a*", b"a[1]", b"a?"]
    store.delete_tree("a*", "key")
    store.delete_tree("a[1]", "key")
    store.delete(["a?/key"])
    assert sorted(keys_below(store, "")) == ["a1/key", "ab/key"]


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
    store.set("key", b"x")
    if isinstance(store, MemoryStore):
        with pytest.raises(TypeError, match="one process"):
            pickle.dumps(store)
        return
    again = unpickled(store)
    assert (again.get("key"), again.identity("k"), again.url) == (
        b"x",
        store.identity("k"),
        store.url,
    )


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


def test_a_server_without_listings_serves_what_is_named(tmp_path: Path) -> None:
    to_n5(np.arange(20).reshape(4, 5), tmp_path / "x.n5", "my arr/ä#1?", chunks=(2, 2))
    with serving(tmp_path) as url:
        array = open_array(f"{url}/x.n5", "my arr/ä#1?")
        np.testing.assert_array_equal(array[...], np.arange(20).reshape(4, 5))
        with pytest.raises(NodeNotFoundError, match="no array at 'nothing'"):
            open_array(f"{url}/x.n5", "nothing")


def test_views_of_other_places_have_tokens_and_urls_of_their_own(tmp_path: Path) -> None:
    import zipfile

    import fsspec
    from fsspec.implementations.dirfs import DirFileSystem

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


def test_a_filesystem_alone_is_its_own_root() -> None:
    store = open_store(MemoryFileSystem())
    store.set("x.n5/key", b"1")
    assert open_store("memory://x.n5").get("key") == b"1"


def test_all_ways_to_name_a_local_place_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    monkeypatch.chdir(tmp_path)
    fs = fsspec.filesystem("file")
    place = str(tmp_path / "x.n5")
    ways = [place, tmp_path / "x.n5", "x.n5", "./x.n5/", f"file://{place}"]
    ways += [(fs, place), fs.get_mapper(place), LocalStore(place)]
    assert {open_store(way) for way in ways} == {LocalStore(place)}


def test_urls_mappers_and_pairs_name_the_same_remote_place() -> None:
    fs = MemoryFileSystem()
    stores = [open_store(w) for w in ("memory://b/x.n5", (fs, "/b/x.n5"), fs.get_mapper("b/x.n5"))]
    assert len({store.identity("k") for store in stores}) == 1


@pytest.mark.parametrize("place", [3, None, b"bytes", object()])
def test_what_names_no_place_is_refused(place: object) -> None:
    with pytest.raises(TypeError, match="expected a path, a URL"):
        open_store(place)


def test_storage_options_belong_to_urls(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="are for URLs; "):
        open_store(tmp_path, {"anon": True})


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
