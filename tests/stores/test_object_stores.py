"""Object stores, by servers that speak like them: what is written there is whole, and no more is.

As a script, it is a writer that can be killed: python -m tests.stores.test_object_stores.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.killing import SHAPE, hold, kill, source, when
from tests.support.processes import Python
from tests.support.servers import KEY, SECRET, SERVED, Bucket
from xarray_n5 import Array, NodeNotFoundError, from_n5, open_array, open_group, to_n5, verify
from xarray_n5.errors import RequestError
from xarray_n5.formats.containers import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from distributed import Client


NUMBERS = np.arange(1, np.prod(SHAPE) + 1, dtype="u4").reshape(SHAPE)

MANY, SOME = (5, 9, 4), (5, 9, 10)
"""Shapes of chunks: there are 160 of the first, 64 of the second."""

pytestmark = pytest.mark.exhaustive


def test_a_bucket_that_does_not_exist_is_named(bucket: Bucket) -> None:
    absent = replace(bucket, url=f"{bucket.url}-absent")
    place, options = absent.place("x.n5")
    with pytest.raises(RequestError, match="create the bucket, or"):
        to_n5(NUMBERS, place, "a", options, chunks=SOME)
    with pytest.raises((NodeNotFoundError, RequestError)):
        open_array(place, "a", storage_options=options)


def write_array(data: Any, place: Any, options: Any, **more: Any) -> None:
    to_n5(data, place, "a", options, chunks=SOME, **more)


def main(content: str, log: str) -> None:
    """Write slowly to a place."""
    place, options = pickle.loads(bytes.fromhex(content))  # noqa: S301 - of the test's own making
    with dask.config.set(scheduler="threads", num_workers=2):
        write_array(source(log, pause=0.1), place, options)


@pytest.fixture(params=SERVED)
def bucket(request: pytest.FixtureRequest, served: Callable[[str], Bucket]) -> Bucket:
    return served(request.param)


@pytest.fixture
def s3(served: Callable[[str], Bucket]) -> Bucket:
    return served("moto")


# Arrays, by a cluster


@pytest.mark.parametrize("server", ["seaweedfs", "azurite", "gcs"])
def test_a_killed_write_goes_on_by_a_cluster(
    server: str, served: Callable[[str], Bucket], cluster: Client, tmp_path: Path
) -> None:
    bucket = served(server)
    place, options = bucket.place("killed.n5")
    log = tmp_path / "log"
    log.mkdir()
    content = pickle.dumps((place, options)).hex()
    held = hold(log)
    with Python("-m", "tests.stores.test_object_stores", content, log) as writer:
        when(lambda: len(list(log.iterdir())) >= 6, writer)
        assert kill(writer)
    held.unlink()
    there = set(bucket.keys("killed.n5/a"))
    before = {key for key in there if key[0].isdigit()}
    assert 0 < len(before) < 64
    assert any(key.startswith(".xn5/open-") for key in there)
    with cluster.as_current():
        to_n5(source(log), place, "a", options, chunks=SOME, resume=True)
        assert set(verify(place, "a", storage_options=options).state.values.ravel()) == {"ok"}
        np.testing.assert_array_equal(from_n5(place, "a", options), NUMBERS)
    array = open_array(place, "a", storage_options=options)
    stored = bucket.keys("killed.n5")
    kept = {key for key in stored if not key.startswith("a/.xn5/done/")}
    assert kept == {*chunks(array), "attributes.json", "a/attributes.json"}
    assert all(stored.values())
    puts = bucket.puts("killed.n5/a")
    if puts is not None:
        assert {key: puts[key] for key in before} == dict.fromkeys(before, 1)


def chunks(array: Array) -> set[str]:
    """The keys of all chunks."""
    counts = (-(-size // side) for size, side in zip(array.shape, array.chunks, strict=True))
    return {array.node.key(index) for index in np.ndindex(*counts)}


def test_each_of_many_chunks_is_one_put(bucket: Bucket, cluster: Client) -> None:
    place, options = bucket.place("once.n5")
    data = da.from_array(NUMBERS, chunks=(10, 9, 20), name="once")
    with cluster.as_current():
        to_n5(data, place, "a", options, chunks=MANY)
        assert set(verify(place, "a", storage_options=options).state.values.ravel()) == {"ok"}
        np.testing.assert_array_equal(from_n5(place, "a", options), NUMBERS)
    wanted = chunks(open_array(place, "a", storage_options=options))
    assert len(wanted) == 160
    stored = {key: n for key, n in bucket.keys("once.n5/a").items() if ".xn5/" not in key}
    assert set(stored) == {key[2:] for key in wanted} | {"attributes.json"}
    assert all(stored.values())
    puts = bucket.puts("once.n5")
    if puts is not None:
        assert {key: puts[key] for key in wanted} == dict.fromkeys(wanted, 1)


# Datasets and trees


def measured() -> xr.Dataset:
    """A Dataset with coordinates of many kinds."""
    rows, times = 12.5 + 0.5 * np.arange(40), np.arange("2026-01-01", "2026-01-07", dtype="M8[D]")
    return xr.Dataset(
        {
            "em": (("t", "y", "x"), np.arange(6 * 40 * 30, dtype="u2").reshape(6, 40, 30)),
            "mask": (("y", "x"), np.eye(40, 30) > 0),
        },
        {
            "y": ("y", rows, {"units": "um"}),
            "t": times.astype("M8[ns]"),
            "kind": ("t", list("abcabc")),
        },
        {"made by": "tests"},
    )


def test_datasets_and_trees_come_back(bucket: Bucket) -> None:
    dataset = measured()
    place, options = bucket.place("sets.n5")
    encoding = {"em": {"chunks": (2, 20, 30)}}
    dataset.chunk(t=2).n5.to_n5(place, "one", storage_options=options, encoding=encoding)
    again = xr.open_dataset(
        place, engine="n5", group="one", storage_options=options or None, chunks={}
    )
    xr.testing.assert_identical(again.load(), dataset)
    tree = xr.DataTree.from_dict({"/": dataset[["mask"]], "/late": dataset.isel(t=slice(2, 6))})
    tree.n5.to_n5(place, "two", storage_options=options)
    found = xr.open_datatree(place, engine="n5", group="two", storage_options=options or None)
    xr.testing.assert_identical(found.load(), tree)


# What else lies there


def _is_data(key: str) -> bool:
    return ".xn5/" not in key


def test_replacing_replaces_every_object_and_keeps_the_bucket(bucket: Bucket) -> None:
    whole = replace(bucket, url=f"{bucket.url}-whole")
    bucket.fs().mkdir(whole.name)
    place, options = whole.place()
    to_n5(NUMBERS, place, "", options, chunks=(20, 9, 20))
    assert len([*filter(_is_data, whole.keys())]) == 9
    to_n5(NUMBERS[:9, 0, 0], place, "", options, chunks=5, mode="w")
    assert {*filter(_is_data, whole.keys())} == {"0", "1", "attributes.json"}
    open_store(place, options).delete_tree("", "attributes.json")
    assert not whole.keys()
    if bucket.client is not None:
        return  # obstore cannot say what a bucket itself is
    measured().n5.to_n5(place, storage_options=options)
    measured()[["mask"]].n5.to_n5(place, mode="w", storage_options=options)
    found = whole.keys()
    assert {key.partition("/")[0] for key in found} == {"attributes.json", "mask"}
    assert all(found.values())


NAMES = ["with space", "ä/Ω", "plus+ a&b=c", "per%20cent%", "hash#1 [x]*?"]


def test_names_are_as_they_are(bucket: Bucket) -> None:
    place, options = bucket.place("names +%#ü.n5")
    for number, name in enumerate(NAMES):
        to_n5(np.full((3, 4), number), place, name, options, chunks=3)
    group = open_group(place, storage_options=options)
    assert set(group) == {name.partition("/")[0] for name in NAMES}
    for number, name in enumerate(NAMES):
        assert (open_array(place, name, storage_options=options)[...] == number).all()
    for name in NAMES[1:]:
        del open_group(place, storage_options=options, mode="r+")[name]
    left = bucket.keys("names +%#ü.n5")
    assert {key.rpartition("/")[0] for key in left if "/" in key} >= {NAMES[0]}
    assert all(key.startswith(NAMES[0]) or key.endswith("attributes.json") for key in left)
    assert all(left.values())


# TensorStore's own client


@pytest.fixture
def tensorstore(monkeypatch: pytest.MonkeyPatch) -> Any:
    ts = pytest.importorskip("tensorstore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return ts


@pytest.mark.parametrize("server", ["seaweedfs", "moto"])
@pytest.mark.parametrize(("driver", "form"), [("n5", "n5"), ("zarr", "zarr2")])
def test_tensorstore_reads_and_writes_there(
    served: Callable[[str], Bucket], tensorstore: Any, server: str, driver: str, form: Any
) -> None:
    bucket = served(server)
    place, options = bucket.place(f"ts.{form}")
    kvstore = {
        "driver": "s3",
        "bucket": bucket.name,
        "endpoint": bucket.endpoint,
        "aws_region": "us-east-1",
    }
    to_n5(NUMBERS, place, "ours", options, chunks=(20, 18, 20), format=form)
    spec = {"driver": driver, "kvstore": {**kvstore, "path": f"ts.{form}/ours/"}}
    found = tensorstore.open(spec, open=True).result().read().result()
    np.testing.assert_array_equal(found.T if form == "n5" else found, NUMBERS)
    spec = {"driver": driver, "kvstore": {**kvstore, "path": f"ts.{form}/theirs/"}}
    values = NUMBERS.T if form == "n5" else NUMBERS
    theirs = tensorstore.open(spec, create=True, dtype="uint32", shape=values.shape).result()
    theirs.write(values).result()
    array = open_array(place, "theirs", storage_options=options)
    np.testing.assert_array_equal(array[...], NUMBERS)


def test_a_chunk_is_read_in_one_request(s3: Bucket) -> None:
    store = s3.store("read.n5")
    store.set("a/0", b"x")
    before = len((s3.requests or str)().splitlines())
    assert store.get("a/0") == b"x"
    assert store.get_many(["a/0", "a/1"]) == [b"x", None]
    asked = (s3.requests or str)().splitlines()[before:]
    assert len(asked) == 3


if __name__ == "__main__":
    main(*sys.argv[1:])
