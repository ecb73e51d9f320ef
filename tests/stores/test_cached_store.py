"""What an operation knows of a container: asked once, changed by its own writes, never wrong."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.exhaustive import cases
from tests.support.memory_store import MemoryStore
from tests.support.stores import CountingStore, ReadingStore
from xarray_n5.stores import CachedStore, LocalStore, uncached

KEYS = [
    *("attributes.json", ".xn5/open-x.json", "a/attributes.json", "a/.zarray", "a/0", "a/1/2"),
    *("a/b/attributes.json", "a/b/.xn5/open-x.json", "a/b/0", "c/attributes.json"),
]
PREFIXES = ["", "a", "a/b", "a/1", "a/b/.xn5", "c", "d"]

changes = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(KEYS), st.binary(max_size=2)),
    st.tuples(st.just("delete"), st.lists(st.sampled_from(KEYS), max_size=3)),
    st.tuples(st.just("delete_tree"), st.sampled_from(PREFIXES)),
    st.tuples(
        st.just("set_many"),
        st.lists(
            st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=2)),
            max_size=3,
            unique_by=lambda item: item[0],  # no key is given twice: the order is not promised
        ),
    ),
)
looks = st.one_of(
    st.tuples(st.just("get"), st.sampled_from(KEYS)),
    st.tuples(st.just("exists"), st.sampled_from(["", *KEYS])),
    st.tuples(st.just("list"), st.sampled_from(PREFIXES)),
    st.tuples(st.just("is_folder"), st.sampled_from(PREFIXES)),
    st.tuples(st.just("get_many"), st.lists(st.sampled_from(KEYS), max_size=4)),
    st.tuples(st.just("list_many"), st.lists(st.sampled_from(PREFIXES), max_size=4)),
)


def apply(store: Any, step: Any) -> Any:
    match step:
        case ("delete_tree", prefix):
            return store.delete_tree(prefix, "attributes.json")
        case ("set_many", items):
            return sorted(store.set_many(items, 3))
        case (name, *arguments):
            return getattr(store, name)(*arguments)


@pytest.mark.more
@settings(deadline=None, max_examples=cases(100, 300))
@given(st.lists(changes | looks, max_size=30), st.sampled_from([ReadingStore, CountingStore]))
def test_it_answers_as_the_store_itself_would(steps: list[Any], kind: Any) -> None:
    plain, cached = MemoryStore(), CachedStore(kind())
    for step in steps:
        assert apply(cached, step) == apply(plain, step), step
    for prefix in PREFIXES:
        assert cached.list(prefix) == plain.list(prefix)


@pytest.fixture
def counting() -> ReadingStore:
    store = ReadingStore()
    for key in ("attributes.json", "a/attributes.json", "a/0", "b/attributes.json"):
        store.set(key, b"{}")
    store.requests()
    return store


def test_documents_and_listings_are_requested_once(counting: ReadingStore) -> None:
    store = CachedStore(counting)
    for _ in range(3):
        store.list("a")
        store.get("a/attributes.json")
        store.get_many(["attributes.json", "a/attributes.json"])
    assert Counter(counting.requests()) == {"list": 1, "get": 2}


def test_what_a_listing_does_not_name_is_missing_without_a_request(counting: ReadingStore) -> None:
    store = CachedStore(counting)
    store.list("")
    store.list("a")
    counting.requests()
    assert store.get("a/.zarray") is None
    assert store.get_many(["c/attributes.json", "c/d/.zgroup"]) == [None, None]
    assert not store.exists("zarr.json")
    assert store.is_folder("a")
    assert not store.is_folder("c")
    assert store.list("c/d") == ((), ())
    assert counting.requests() == {}


def test_listings_that_hide_files_say_nothing_of_them() -> None:
    inner = CountingStore()
    inner.set("a/attributes.json", b"{}")
    store = CachedStore(inner)
    store.list("a")
    inner.requests()
    assert store.get("a/.zgroup") is None
    assert inner.requests() == {"get": 1}


def test_what_is_written_is_known(counting: ReadingStore) -> None:
    store = CachedStore(counting)
    store.list("")
    counting.requests()
    store.set("new/attributes.json", b"[]")
    store.set("new/.xn5/open-x.json", b"x")
    store.set("new/zarr.json", b"{}")
    store.delete(["new/zarr.json"])
    assert counting.requests() == {"set": 3, "delete": 1}
    assert store.get("new/attributes.json") == b"[]"
    assert store.get("new/zarr.json") is None
    assert store.list("") == (("a", "b", "new"), ("attributes.json",))
    assert store.list("new") == ((".xn5",), ("attributes.json",))
    assert store.is_folder("new")
    assert counting.requests() == {}
    store.delete_tree("new", "attributes.json")
    counting.requests()
    assert store.get("new/attributes.json") is None
    assert store.list("new") == ((), ())
    assert counting.requests() == {}


def test_chunks_are_never_known(counting: ReadingStore) -> None:
    store = CachedStore(counting)
    store.list("a")
    assert store.get("a/0") == b"{}"
    counting.set("a/0", b"new")
    counting.set("a/1", b"x")
    assert (store.get("a/0"), store.get("a/1")) == (b"new", b"x")
    assert store.exists("a/1")


def test_a_write_that_fails_forgets_everything(counting: ReadingStore) -> None:
    class Full(ReadingStore):
        def set(self, key: str, data: Any) -> None:
            super().set(key, data)
            raise OSError("full")

    store = CachedStore(Full(counting.inner))
    store.list("a")
    with pytest.raises(OSError, match="full"):
        store.set("a/.zattrs", b"{}")
    assert store.list("a") == ((), (".zattrs", "0", "attributes.json"))
    assert store.get("a/.zattrs") == b"{}"


def test_another_handle_shows_what_others_wrote(counting: ReadingStore) -> None:
    store = CachedStore(counting)
    assert store.get("a/attributes.json") == b"{}"
    counting.set("a/attributes.json", b"others")
    assert store.get("a/attributes.json") == b"{}"
    assert store.fresh().get("a/attributes.json") == b"others"
    assert uncached(CachedStore(store)) is counting


def test_only_the_store_itself_travels(tmp_path: Any) -> None:
    store = CachedStore(CachedStore(LocalStore(str(tmp_path))))
    assert pickle.loads(pickle.dumps(store)) == LocalStore(str(tmp_path))  # noqa: S301
    assert uncached(store.with_fsync()) == LocalStore(str(tmp_path), fsync=True)
    store.get("attributes.json")
    store.with_fsync().set("attributes.json", b"{}")
    assert store.get("attributes.json") == b"{}"


def test_what_another_thread_has_changed_meanwhile_is_read_again() -> None:
    class Meanwhile(ReadingStore):
        """A store whose answers come after another thread has written."""

        def list(self, prefix: str) -> Any:
            listing = super().list(prefix)
            if not cached._known.documents:
                cached.set("a/attributes.json", b"{}")
            return listing

        def get(self, key: str, most: int | None = None) -> bytes | None:
            content = super().get(key, most)
            if key == "attributes.json" and content is None:
                cached.set(key, b"{}")
            return content

    cached = CachedStore(Meanwhile())
    assert cached.list("") == ((), ())
    assert cached.list("") == (("a",), ())
    cached.forget()
    assert cached.get("attributes.json") is None
    assert cached.get("attributes.json") == b"{}"
