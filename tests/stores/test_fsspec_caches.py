"""Copies that fsspec's caches keep: never an error as zeros, never an old state under a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.containers import objects_of
from tests.support.faulty import Fault, Plan, serving
from xarray_n5 import create_array, open_array, to_n5
from xarray_n5.errors import ReadOnlyError, RefusedError, RequestError
from xarray_n5.formats.containers import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = np.arange(1, 65, dtype="u2").reshape(16, 4)
"""No zero among them, in four chunks."""

CACHES = ("simplecache", "filecache")


@pytest.fixture(scope="module")
def stored() -> dict[str, bytes]:
    """A container of four chunks, by keys."""
    return objects_of(VALUES, (4, 4))


@pytest.fixture
def place() -> Iterator[str]:
    """The URL of a container in memory, which others write into."""
    url = "memory://caches/x.n5"
    create_array(url, "a", shape=(8,), dtype="i4", chunks=8)[...] = 0
    yield url
    MemoryFileSystem.store.clear()


def options(cache: str, folder: Path) -> dict[str, Any]:
    """Return where a cache keeps its copies."""
    return {cache: {"cache_storage": str(folder)}}


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are made once."""
    monkeypatch.setattr("xarray_n5.stores._filesystems._DELAYS", ())


@pytest.mark.parametrize("fault", [401, 403, 429, 500, 503, "drop"])
@pytest.mark.parametrize("cache", CACHES)
def test_a_failed_request_behind_a_cache_is_no_data(
    cache: str, fault: Fault, stored: dict[str, bytes], tmp_path: Path
) -> None:
    with serving(stored) as server:
        array = open_array(open_store(f"{cache}::{server.url}", options(cache, tmp_path)), "a")
        server.plan = Plan(always={"a/0/2": fault})
        kind = RefusedError if fault in {401, 403} else RequestError
        for select in (9, slice(None)):
            with pytest.raises(kind, match="a/0/2"):
                array[select]
        server.plan = Plan(always={"a/0/2": 404})
        assert not array[8:12].any()
        server.plan = Plan()
        np.testing.assert_array_equal(array[...], VALUES)


@pytest.mark.parametrize("cache", CACHES)
def test_a_server_that_is_gone_is_no_data(
    cache: str, stored: dict[str, bytes], tmp_path: Path
) -> None:
    with serving(stored) as server:
        array = open_array(open_store(f"{cache}::{server.url}", options(cache, tmp_path)), "a")
        np.testing.assert_array_equal(array[:4], VALUES[:4])
    np.testing.assert_array_equal(array[:4], VALUES[:4])
    with pytest.raises(RequestError):
        array[...]


@pytest.mark.parametrize("cache", CACHES)
def test_writing_through_a_cache_is_refused(cache: str, place: str, tmp_path: Path) -> None:
    how = options(cache, tmp_path)
    store = open_store(f"{cache}::{place}", how)
    for write in (
        lambda: store.set("a/0", b"x"),
        lambda: store.delete(["a/0"]),
        lambda: store.delete_tree("a", "attributes.json"),
        lambda: to_n5(np.ones(3), f"{cache}::{place}", "b", storage_options=how),
        lambda: store.fresh().set("a/0", b"x"),
    ):
        with pytest.raises(ReadOnlyError):
            write()
    assert open_array(place, "a")[...].tolist() == [0] * 8


def test_a_signature_behind_a_cache_stays_behind_the_path(
    stored: dict[str, bytes], tmp_path: Path
) -> None:
    how = options("simplecache", tmp_path)
    with serving(stored) as server:
        array = open_array(f"simplecache::{server.url}/?sig=S", "a", storage_options=how)
        np.testing.assert_array_equal(array[...], VALUES)
        assert "/a/0/2?sig=S" in server.asked
        assert all(path.endswith("?sig=S") for path in server.asked)


def test_chunks_behind_a_cache_are_fetched_together(
    stored: dict[str, bytes], tmp_path: Path
) -> None:
    with serving(stored, latency=0.2) as server:
        how = options("simplecache", tmp_path)
        array = open_array(f"simplecache::{server.url}", "a", storage_options=how)
        np.testing.assert_array_equal(array[...], VALUES)
        assert server.most >= 3


def test_a_place_is_the_same_with_and_without_copies(place: str, tmp_path: Path) -> None:
    store = open_store(f"simplecache::{place}", options("simplecache", tmp_path))
    assert store.fresh().identity("a") == store.identity("a")
