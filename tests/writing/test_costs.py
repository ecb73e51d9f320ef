"""The requests of writes, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.remote import Far
from tests.support.stores import CountingStore
from xarray_n5 import open_group, to_n5
from xarray_n5.stores import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Callable


def frames(value: int) -> xr.Dataset:
    rows = da.full((4, 6), value, chunks=(2, 6), dtype="u2")
    return xr.Dataset({"v": (("t", "x"), rows), "w": ("t", da.full(4, value, chunks=2))})


def new_array(store: Any, form: Any) -> None:
    to_n5(da.ones((6, 4), chunks=(3, 2)), store, "a", format=form)


def many_chunks(store: Any, form: Any) -> None:
    to_n5(da.ones((8, 8), chunks=4), store, "a", chunks=1, format=form)


def append(store: Any, form: Any) -> None:
    del form
    frames(2).n5.to_n5(store, "g", append_dim="t")


def container(store: Any, form: Any) -> None:
    to_n5(np.ones(1), store, "other", format=form)


def series(store: Any, form: Any) -> None:
    frames(1).n5.to_n5(store, "g", format=form)


COSTS: dict[str, tuple[Callable[[Any, Any], None], Callable[[Any, Any], None], int]] = {
    "a new array of 4 chunks": (container, new_array, 19),
    "64 chunks in 4 tasks": (container, many_chunks, 90),
    "an append to two variables": (series, append, 40),
}
"""What is there before, the write, and the maximum number of calls of its store."""


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("name", COSTS)
def test_a_write_makes_few_calls_of_its_store(name: str, form: str) -> None:
    before, write, most = COSTS[name]
    store: Any = CountingStore()
    with dask.config.set(scheduler="sync"):
        before(store, form)
        store.requests()
        write(store, form)
    calls = store.requests()
    assert sum(calls.values()) <= most, calls


def test_a_far_store_gets_one_request_a_chunk_and_many_at_once() -> None:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    to_n5(np.ones(1), store, "other")
    fs.be_far(0.01)
    with dask.config.set(scheduler="threads", num_workers=4):
        to_n5(da.ones((16, 16), chunks=8), store, "a", chunks=2)
    chunks = [key for _, verb, key in fs.log if verb == "PUT" and key[-1].isdigit()]
    written = [key for key in chunks if "/.xn5/" not in key]
    assert len(written) == len(set(written)) == 64
    others = fs.counts["PUT"] + fs.counts["GET"] + fs.counts["HEAD"] - len(written)
    assert others <= 26, fs.counts
    assert fs.most >= 16


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_group_lists_the_records_of_its_arrays_at_once(form: str) -> None:
    store: Any = CountingStore()
    series(store, form)
    group = open_group(store, "g")
    store.requests()
    assert sorted(group.nodes()) == ["v", "w"]
    assert store.requests() == {"list": 1, "get_many": 1, "list_many": 1}
