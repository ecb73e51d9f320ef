"""Containers far away: requests made together, counted, made again; errors that are no data."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import pickle
import random
import socket
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import dask.array as da
import fsspec
import numpy as np
import pytest
import xarray as xr
from fsspec.asyn import FSTimeoutError
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.containers import objects_of
from tests.support.faulty import Fault, Plan, Server, serving
from tests.support.memory_store import MemoryStore
from tests.support.remote import Far
from tests.support.stores import keys_below
from xarray_n5 import (
    chunk_map,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    set_options,
    to_n5,
    verify,
)
from xarray_n5.errors import MissingChunkError, PathError, RefusedError, RequestError
from xarray_n5.formats.containers import open_store
from xarray_n5.stores import FsspecStore
from xarray_n5.stores._errors import is_missing, is_refused, is_transient
from xarray_n5.stores.base import Range
from xarray_n5.stores.redaction import redact, redact_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are made once, unless a test asks for more."""
    monkeypatch.setattr("xarray_n5.stores._filesystems._DELAYS", ())


@pytest.fixture
def quick(never: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Requests that fail are made again at once."""
    monkeypatch.setattr("xarray_n5.stores._filesystems._DELAYS", (0.001,) * 4)


VALUES = np.arange(1, 301 * 16 - 15, dtype="u2").reshape(300, 4, 4)
"""No zero among them, in 300 chunks."""


@pytest.fixture(scope="module")
def stored() -> dict[str, bytes]:
    """A container of 300 chunks, by keys."""
    return objects_of(VALUES, (1, 4, 4))


FEW = np.arange(1, 65, dtype="u2").reshape(16, 4)
"""No zero among them, in four chunks."""

SECRET = "hush-hush"  # noqa: S105


@pytest.fixture(scope="module")
def few() -> dict[str, bytes]:
    """A container of four chunks, by keys."""
    return objects_of(FEW, (4, 4))


@pytest.fixture
def server(few: dict[str, bytes]) -> Iterator[Server]:
    """A web server that has the container."""
    with serving(few) as server:
        yield server


def far(objects: dict[str, bytes]) -> tuple[Far, FsspecStore]:
    """Return a filesystem that has a container, and the container."""
    fs = Far({f"b/x.n5/{key}": data for key, data in objects.items()})
    return fs, FsspecStore(fs, "b/x.n5")


# Together

READS: dict[str, Callable[[FsspecStore], Any]] = {
    "array": lambda store: open_array(store, "a")[:200],
    "dask": lambda store: from_n5(store, "a", chunks=-1)[:200].compute(scheduler="sync"),
    "engine": lambda store: xr.open_dataset(store, engine="n5", group="a")["a"][:200].values,  # type: ignore[arg-type]
    "points": lambda store: (
        xr.open_dataset(store, engine="n5", group="a")["a"][  # type: ignore[arg-type]
            xr.DataArray(np.arange(200), dims="points")
        ].values
    ),
}


@pytest.mark.parametrize("name", READS)
def test_all_chunks_of_one_task_are_fetched_together(name: str, stored: dict[str, bytes]) -> None:
    fs, store = far(stored)
    fs.together = 200
    np.testing.assert_array_equal(READS[name](store), VALUES[:200])
    assert fs.counts["GET"] <= 200 + 4
    assert fs.most == 200


def test_verifying_fetches_together(stored: dict[str, bytes]) -> None:
    fs, store = far(stored)
    fs.together = 44  # the second of two tasks has no more chunks
    found = verify(store, "a").compute(scheduler="sync")
    assert set(found["state"].values.ravel()) == {"ok"}
    fs.fails = failing("a/0/0/7")
    with pytest.raises(RequestError):
        verify(store, "a").compute(scheduler="sync")


def failing(end: str) -> Callable[[str, str], None]:
    """Return what makes requests for one key fail."""

    def fail(verb: str, path: str) -> None:
        if path.endswith(end):
            raise ConnectionResetError(verb)

    return fail


def refusing(end: str) -> Callable[[str, str], None]:
    """Return what makes a server refuse requests for one key."""

    def refuse(verb: str, path: str) -> None:
        if path.endswith(end):
            raise PermissionError(verb)

    return refuse


def test_as_many_are_under_way_as_the_filesystem_was_told(stored: dict[str, bytes]) -> None:
    fs, store = far(stored)
    fs.batch_size = 5
    np.testing.assert_array_equal(open_array(store, "a")[...], VALUES)
    assert fs.most <= 5


@pytest.mark.parametrize(("side", "expected"), [(8, 256), (64, 256), (128, 32), (256, 4), (512, 1)])
def test_bytes_under_way_are_bounded(side: int, expected: int) -> None:
    fs, store = far({})
    made = create_array(store, "a", shape=(40 * side, side, side), chunks=side, dtype="u2")
    assert made.node.ahead == expected
    fs.reset()
    assert not made[::side, 0, 0].any()
    assert fs.counts["GET"] == 40
    assert fs.most <= expected


def test_obstore_reads_parts_of_shards(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("obstore.fsspec")
    store = FsspecStore(fsspec.FsspecStore("memory"), f"{tmp_path.name}/x.zarr")
    values = np.random.default_rng(0).integers(0, 9, (32, 32)).astype("u2")
    to_n5(values, store, "a", chunks=4, shards=16, format="zarr3")
    assert store.get_ranges([Range("a/c/0/0", 0, 4), Range("none", -9, None)])[1] is None
    np.testing.assert_array_equal(open_array(store, "a")[3:19, 7], values[3:19, 7])
    lazy: Any = from_n5(store, "a")
    np.testing.assert_array_equal(lazy[5:7, 20:].compute(), values[5:7, 20:])


def test_who_stops_reading_stops_the_requests(stored: dict[str, bytes]) -> None:
    fs, store = far(stored)
    answers = store.fetch((f"a/0/0/{number}" for number in range(300)), 4)
    assert next(answers)[1] == stored["a/0/0/0"]
    answers.close()  # type: ignore[attr-defined]
    assert fs.counts["GET"] <= 5


# Requests


def test_records_that_cannot_be_listed_are_not_in_the_way(stored: dict[str, bytes]) -> None:
    fs, store = far(stored)
    fs.fails = refusing(".xn5")
    np.testing.assert_array_equal(open_array(store, "a")[...], VALUES)
    assert "a" in open_group(store).arrays()


def test_metadata_are_read_once_where_that_is_asked_for(stored: dict[str, bytes]) -> None:
    fs, store = far(stored)
    group = open_group(store, cache_metadata=True)
    first = group["a"]
    assert list(group) == ["a"]
    fs.reset()
    assert group["a"].attrs == first.attrs
    assert list(group) == ["a"]
    assert "a" in group
    assert fs.counts == {}
    array: Any = group["a"]
    assert not np.array_equal(array[0], array[1])
    assert fs.counts == {"GET": 2}
    assert from_n5(array).name == from_n5(store, "a").name
    create_array(store, "b", shape=(4,), dtype="u1")
    assert list(group) == ["a"]
    assert list(open_group(store)) == ["a", "b"]
    with pytest.raises(ValueError, match="requires mode='r'"):
        open_group(store, mode="r+", cache_metadata=True)


# Stale listings


def test_what_another_client_wrote_is_seen() -> None:
    fs, store = far({"a/b/0": b"x"})
    other = FsspecStore(Far(fs.objects), "b/x.n5")
    looks: dict[str, Callable[[], Any]] = {
        "list": lambda: store.list("a/b"),
        "list_many": lambda: store.list_many(["a/b", "a"]),
        "walk": lambda: sorted(keys_below(store, "a")),
        "exists": lambda: store.exists("a/b/1"),
        "is_folder": lambda: store.is_folder("a/c"),
        "peek": lambda: store.head("a/b/1", 1),
        "stamp": lambda: store.etag("a/b/1"),
    }
    before = {name: look() for name, look in looks.items()}
    for folder in ("b/x.n5", "b/x.n5/a", "b/x.n5/a/b"):
        fs.ls(folder)
    other.set("a/b/1", b"new")
    other.set("a/c/0", b"new")
    for name, look in looks.items():
        for folder in ("b/x.n5", "b/x.n5/a"):
            fs.ls(folder)
        assert look() != before[name], name
    assert store.get("a/b/1") == b"new"


# Errors


@pytest.mark.matrix(3)
@pytest.mark.parametrize("fault", [401, 403, 429, 500, 503, "drop", "truncate"])
def test_a_failed_request_names_the_key_and_is_no_data(
    fault: Fault, stored: dict[str, bytes]
) -> None:
    with serving(stored, plan=Plan(always={"/a/0/0/7": fault})) as server:
        array = open_array(server.url, "a")
        kind = RefusedError if fault in {401, 403} else RequestError
        for select in (7, slice(3, 9)):
            with pytest.raises(kind, match="cannot read 'a/0/0/7' in 'http") as raised:
                array[select]
            assert isinstance(raised.value, OSError)
            assert isinstance(raised.value, PermissionError) == (kind is RefusedError)
            assert raised.value.__cause__ is raised.value.__context__ is None
        np.testing.assert_array_equal(array[8:], VALUES[8:])


def test_only_what_is_not_found_is_missing(stored: dict[str, bytes]) -> None:
    with serving(stored, plan=Plan(always={"/a/0/0/7": 404})) as server:
        assert not open_array(server.url, "a")[7].any()
        with pytest.raises(MissingChunkError):
            open_array(server.url, "a", missing="error")[7]


@pytest.mark.parametrize("fault", [403, 500, "drop", "truncate"])
def test_metadata_that_cannot_be_read_are_not_missing(
    fault: Fault, stored: dict[str, bytes]
) -> None:
    with serving(stored, plan=Plan(always={"/a/attributes.json": fault})) as server:
        with pytest.raises(RequestError, match=r"a/attributes\.json"):
            open_array(server.url, "a")
        if fault != "truncate":  # of which nothing is seen without the body
            with pytest.raises(RequestError):
                open_store(server.url).exists("a/attributes.json")


def test_a_stalled_answer_is_a_timeout(stored: dict[str, bytes]) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    with serving(stored, plan=Plan(always={"/a/0/0/7": "stall"})) as server:
        timeout = aiohttp.ClientTimeout(total=0.5)
        store = open_store(server.url, {"client_kwargs": {"timeout": timeout}})
        with pytest.raises(RequestError, match="Timeout"):
            open_array(store, "a")[7]


# Requests made again


def answered(status: int) -> Exception:
    """Return an error as aiohttp raises it."""
    error = Exception("answered")
    error.status = status  # type: ignore[attr-defined]
    return error


def caused(error: Exception, cause: Exception) -> Exception:
    """Return an error that another one led to."""
    error.__cause__ = cause
    return error


def from_botocore(status: int) -> Exception:
    """Return an error as botocore raises it."""
    error = Exception("told by a response")
    error.response = {"ResponseMetadata": {"HTTPStatusCode": status}}  # type: ignore[attr-defined]
    return error


class ClientPayloadError(Exception):
    """Called like aiohttp's."""


class PermissionDeniedError(Exception):
    """Called like obstore's."""


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (answered(429), "transient"),
        (answered(500), "transient"),
        (answered(503), "transient"),
        (answered(403), "refused"),
        (answered(400), ""),
        (from_botocore(503), "transient"),
        (from_botocore(403), "refused"),
        (caused(OSError(errno.EIO, "s3fs"), from_botocore(500)), "transient"),
        (OSError(errno.EBUSY, "slow down"), "transient"),
        (OSError(errno.ENOSPC, "full"), ""),
        (ConnectionResetError(), "transient"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "nobody there"), ""),
        (FSTimeoutError(), "transient"),
        (TimeoutError(), "transient"),
        (ClientPayloadError(), "transient"),
        (PermissionDeniedError(), "refused"),
        (PermissionError(), "refused"),
        (ValueError(), ""),
        (FileNotFoundError(), "missing"),
        (caused(FileNotFoundError(), KeyError()), "missing"),
        (caused(FileNotFoundError(), from_botocore(404)), "missing"),
        (caused(FileNotFoundError(), answered(500)), "transient"),
        (caused(FileNotFoundError(), answered(403)), "refused"),
        (caused(FileNotFoundError(), ConnectionResetError()), "transient"),
        (caused(FileNotFoundError(), ConnectionRefusedError()), ""),
        (caused(FileNotFoundError(), socket.gaierror()), ""),
        (caused(FileNotFoundError(), aiohttp.InvalidURL("x")), ""),
        (caused(FileNotFoundError(), caused(FileNotFoundError(), OSError("tls"))), ""),
    ],
)
def test_errors_of_all_libraries_are_told_apart(error: Exception, verdict: str) -> None:
    found = {"missing": is_missing, "refused": is_refused, "transient": is_transient}
    told = {name for name, test in found.items() if test(error)}
    assert told == ({verdict} if verdict else set())


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("protocol", "error", "asked"),
    [
        ("far", answered(503), 5),
        ("far", answered(403), 1),
        ("far", FileNotFoundError(), 1),
        ("s3", ConnectionResetError(), 1),
        ("gs", ConnectionResetError(), 1),
        ("abfs", ConnectionResetError(), 1),
    ],
)
def test_only_what_may_pass_is_asked_for_again_unless_the_library_does_that(
    protocol: str, error: Exception, asked: int
) -> None:
    fs, store = far({"a/0": b"x"})
    fs.protocol = protocol

    def fail(*_: str) -> None:
        raise error

    fs.fails = fail
    for read in (lambda: store.get("a/0"), lambda: store.get_many(["a/0"])[0]):
        fs.reset()
        if isinstance(error, FileNotFoundError):
            assert read() is None
        else:
            with pytest.raises(RequestError):
                read()
        assert fs.counts == {"GET": asked}


@pytest.mark.usefixtures("quick")
def test_reads_and_puts_are_made_again() -> None:
    fs, store = far({"a/0": b"x"})
    faults = [ConnectionResetError()] * 3

    def fail(*_: str) -> None:
        if faults:
            raise faults.pop()

    fs.fails = fail
    for ask in (
        lambda: store.get("a/0") == b"x",
        lambda: store.get_many(["a/0", "a/1"]) == [b"x", None],
        lambda: store.list("a") == ((), ("0",)),
        lambda: store.head("a/0", 1) == (b"x", 1),
        lambda: store.exists("a/0"),
        lambda: store.set("a/0", b"x") is None,  # type: ignore[func-returns-value]
        lambda: store.delete(["a/2"]) is None,  # type: ignore[func-returns-value]
    ):
        faults[:] = [ConnectionResetError()] * 3
        assert ask()


# Runs with faults


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_write_whose_puts_fail_goes_on_where_it_was_stopped(
    *, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    luck = random.Random(3)  # noqa: S311
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")

    def fail(verb: str, path: str) -> None:
        del path
        # Either nothing is stored, or all is, and who asked does not hear of it.
        if verb == ("ANSWER" if late else "PUT") and luck.random() < 0.05:
            raise ConnectionResetError

    fs.fails = fail
    data = da.from_array(VALUES, chunks=(10, 4, 4), name="values")
    failures = 0
    for _ in range(60):
        try:
            to_n5(data, store, "a", chunks=(1, 4, 4), mode="a", resume=True)
            break
        except RequestError:
            failures += 1
    assert failures > 0
    np.testing.assert_array_equal(open_array(store, "a")[...], VALUES)
    # With retries, nobody notices.
    monkeypatch.setattr("xarray_n5.stores._filesystems._DELAYS", (0.001,) * 4)
    store = replace(store, root="b/y.n5")
    to_n5(data, store, "a", chunks=(1, 4, 4))
    np.testing.assert_array_equal(open_array(store, "a")[...], VALUES)


# No bucket


def of_amazon() -> Exception:
    """Return an error as s3fs raises it."""
    cause = OSError("NoSuchBucket")
    cause.response = {"ResponseMetadata": {"HTTPStatusCode": 404}}  # type: ignore[attr-defined]
    error = FileNotFoundError("The specified bucket does not exist")
    error.__cause__ = cause
    return error


class NoCredentialsError(Exception):
    """An error as botocore raises it."""


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (of_amazon(), "create the bucket, or correct its name"),
        (FileNotFoundError(), "create the bucket, or correct its name"),
        (NoCredentialsError("Unable to locate credentials"), "the credentials"),
        (TypeError("__init__() got an unexpected keyword argument 'x'"), "storage_options="),
        (TimeoutError("slow"), "try again"),
    ],
)
def test_what_is_advised_when_a_write_fails(error: Exception, advice: str) -> None:
    fs = Far()

    def fail(verb: str, _: str) -> None:
        if verb == "PUT":
            raise error

    fs.fails = fail
    with pytest.raises(RequestError) as raised:
        to_n5(FEW, FsspecStore(fs, "no-bucket/x"), "a")
    assert advice in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert (str(again), type(again)) == (str(raised.value), type(raised.value))


def test_chunks_are_not_missing_from_a_bucket_that_does_not_exist(
    few: dict[str, bytes],
) -> None:
    fs, store = far(few)
    array = open_array(store, "a")

    def fail(*_: str) -> None:
        raise of_amazon()

    fs.fails = fail
    for read in (lambda: array[...], lambda: open_array(FsspecStore(fs, "b/x.n5"), "a")):
        with pytest.raises(RequestError):
            read()


# Names


NAMES = {"a\ud800b": "a surrogate", "n" * 300: "long", "/".join(["d" * 200] * 30): "a long path"}
"""Names that cannot be few."""

WRITES_OF_NAMES: dict[str, Callable[[Any, str, Any], Any]] = {
    "to_n5": lambda place, name, form: to_n5(FEW, place, name, format=form),
    "create_group": lambda place, name, form: create_group(place, name, format=form),
    "dataset": lambda place, name, form: xr.Dataset({name: ("x", [1])}).n5.to_n5(
        place, "g", format=form
    ),
}


@pytest.mark.parametrize("name", NAMES, ids=NAMES.values())
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_name_that_cannot_be_stored_is_a_path_error(tmp_path: Path, form: Any, name: str) -> None:
    fs = fsspec.filesystem("file")
    to_n5(FEW, tmp_path / "x", "there", format=form)
    for write in WRITES_OF_NAMES.values():
        with pytest.raises(PathError):
            write(tmp_path / "x", name, form)
    for read in (open_array, open_group, from_n5, verify):
        with pytest.raises(PathError):
            read(tmp_path / "x", name)  # type: ignore[operator]
    for place in (fs, str(tmp_path / "y")), MemoryStore(), FsspecStore(Far(), "b/x.n5"):
        with pytest.raises(PathError):
            to_n5(FEW, place, name, format=form)


# Nobody there


LOOKS: dict[str, Callable[[Any], Any]] = {
    "exists": lambda array: array.chunk_exists((0, 0)),
    "peek": lambda array: array.node.container.store.head("a/0/0", 4),
    "survey": lambda array: list(array.node.container.store.list_info("a")),
    "stored_chunks": lambda array: list(array.node.stored_chunks()),
    "chunk_map": lambda array: chunk_map(array.node.container.store, "a"),
    "verify": lambda array: verify(array.node.container.store, "a", deep=False),
    "is_folder": lambda array: array.node.container.store.is_folder("a"),
    "list": lambda array: array.node.container.store.list("a"),
    "read": lambda array: array[...],
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_server_that_is_gone_is_an_error_and_nothing_is_missing(
    name: str, few: dict[str, bytes]
) -> None:
    with serving(few) as server:
        array = open_array(server.url, "a")
    with pytest.raises(RequestError):
        LOOKS[name](array)


def test_a_folder_that_cannot_be_listed_is_not_empty(few: dict[str, bytes]) -> None:
    fs, store = far(few)
    before = {found.key for found in store.list_info("")}
    assert before == set(few)

    fs.fails = refusing("a/0")
    with pytest.raises(RefusedError):
        list(store.list_info(""))


# To other processes


def refuse(verb: str, path: str) -> None:
    """Refuse one chunk, as a client does whose errors cannot be pickled."""
    if path.endswith("a/0/2"):
        error = PermissionError(f"{verb} {path}?X-Amz-Signature={SECRET}")
        error.headers = memoryview(b"not to be pickled")  # type: ignore[attr-defined]
        raise error


@pytest.mark.parametrize("select", [9, slice(None)])
def test_an_error_carries_nothing_of_the_library_that_raised_it(
    select: Any, few: dict[str, bytes]
) -> None:
    fs, store = far(few)
    array = open_array(store, "a")
    fs.fails = refuse
    with pytest.raises(RefusedError, match="PermissionError") as raised:
        array[select]
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert str(again) == str(raised.value)


def test_an_error_of_a_write_carries_nothing_either() -> None:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    array = create_array(store, "a", shape=(16, 4), dtype="u1", chunks=4)
    fs.objects["b/x.n5/a/0/2"] = b"x"
    fs.fails = refuse
    changes: list[Callable[[], Any]] = [
        lambda: array.__setitem__(..., 1),
        lambda: store.set("a/0/2", b"x"),
        lambda: store.delete(["a/0/1", "a/0/2"]),
        lambda: store.delete_tree("a", "a/0/2"),
    ]
    for change in changes:
        with pytest.raises(RefusedError) as raised:
            change()
        assert raised.value.__cause__ is raised.value.__context__ is None


# Secrets


def test_no_secret_of_a_url_shows(stored: dict[str, bytes]) -> None:
    plan = Plan(always={"/a/0/0/7": 403, "/a/0/0/8": 500})
    with serving(stored, plan=plan) as server:
        url = server.url.replace("http://", f"http://me:{SECRET}@") + f"?signature={SECRET}"
        array = open_array(open_store(url), "a")  # type: ignore[type-var]
        assert server.asked[0] == f"/a/attributes.json?signature={SECRET}"
        lazy = from_n5(url, "a")
        dataset = xr.open_dataset(url, engine="n5", group="a", chunks={})
        tree = xr.open_datatree(url, engine="n5", group="a")
        groups = xr.open_groups(url, engine="n5", group="a")
        shown = [
            repr(array),
            array._repr_html_(),
            array.url,
            repr(array.node.container.store),
            array.node.identity,
        ]
        shown += [list(lazy.dask.layers), list(dict(lazy.dask)), list(dict(dataset["a"].data.dask))]
        shown += [dataset.encoding, dataset["a"].encoding, repr(dataset), dataset._repr_html_()]
        shown += [node.encoding for node in tree.subtree]
        shown += [each.encoding for each in groups.values()]
        for number in (7, 8):
            with pytest.raises(RequestError) as raised:
                array[number]
            error: BaseException | None = raised.value
            while error is not None:
                shown += [str(error), repr(error)]
                error = error.__cause__
        assert SECRET not in str(shown)
        assert array.url == f"{server.url}/a"


def test_no_secret_of_options_shows() -> None:
    class Telling(MemoryFileSystem):  # type: ignore[misc]
        cachable = False

        def cat_file(self, path: str, *_: Any, **__: Any) -> bytes:
            raise ValueError(f"{path}: the key {SECRET} is not known")

    fs = Telling(client_kwargs={"secret_key": SECRET})
    store = FsspecStore(fs, "/x.n5")
    with pytest.raises(RequestError, match=r"the key \*\*\* is not known") as raised:
        store.get("a")
    shown = [str(raised.value), str(raised.value.__cause__), repr(store), store.identity("a")]
    assert SECRET not in str(shown)


def test_what_is_written_holds_no_secret() -> None:
    fs = Far(token=SECRET)
    store = FsspecStore(fs, "b/x.n5")
    with set_options(checksums=True):
        lazy = to_n5(da.ones((8, 8), chunks=4), store, "a", compute=False)
    assert any(".xn5/template-" in key for key in fs.objects)
    assert SECRET.encode() not in b"".join([*fs.objects.values(), *map(str.encode, fs.objects)])
    receipts: Any = lazy.compute(scheduler="sync")  # type: ignore[attr-defined]
    assert SECRET not in str(receipts.to_datatree().to_dict())
    assert SECRET.encode() not in b"".join(fs.objects.values())


def test_tokens_are_the_same_in_another_process(stored: dict[str, bytes]) -> None:
    with serving(stored) as server:
        url = server.url.replace("//", f"//me:{SECRET}@") + f"?signature={SECRET}"
        script = (
            "import sys, xarray_n5\n"
            "options = {'client_kwargs': {'trust_env': True}}\n"
            "print(xarray_n5.from_n5(sys.argv[1], 'a', options).name)"
        )
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", script, url],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "7"},
        )
        name = from_n5(url, "a", {"client_kwargs": {"trust_env": True}}).name
        assert done.stdout.strip() == name
        assert from_n5(f"{server.url}?signature=other", "a").name != name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"http://me:p@{SECRET}@host/x.n5", "http://host/x.n5"),
        (f"403 from 'https://host/x.n5/0?{SECRET}' twice", "403 from 'https://host/x.n5/0?' twice"),
        (f"https://host/x.n5#{SECRET}", "https://host/x.n5#"),
        (f"zip://x::https://me:{SECRET}@host/x.zip?a=1&b={SECRET}", "zip://x::https://host/x.zip?"),
        (f'no bucket "key:{SECRET}@bucket"', 'no bucket "bucket"'),
        ("at 12:30 me@host: no", "at 12:30 me@host: no"),
        ("why? because #4 says so", "why? because #4 says so"),
        ("/a/0?sig=1 is there", "/a/0? is there"),
        ("s3://b/x@2.n5/a", "s3://b/x@2.n5/a"),
    ],
)
def test_what_urls_hold_of_secrets_is_hidden(text: str, expected: str) -> None:
    assert redact_urls(text) == expected


@pytest.mark.matrix(3)
@pytest.mark.parametrize("part", ["?", "#", "://", "&a", "://a?", "a:b@", "?x", "?a&", "x:", "@"])
def test_long_texts_are_redacted_in_linear_time(part: str) -> None:
    began = time.process_time()
    redact_urls(part * 100_000)
    redact_urls(f"{part} " * 100_000)
    assert time.process_time() - began < 5  # once more than an hour


@pytest.mark.parametrize(
    "options",
    [
        {"connection_string": f"Protocol=https;AccountKey={SECRET};Name=x"},
        {"cookies": {"session": SECRET}},
        {"headers": [("X-Mine", SECRET)]},
        {"client_kwargs": {"headers": {"Authorization": f"Bearer {SECRET}"}}},
        {"token": SECRET},
        {"key": SECRET.replace("-", "/")},
        {"password": 12345678, "use_key": True},
    ],
)
def test_what_options_hold_of_secrets_is_hidden(options: dict[str, Any]) -> None:
    shown = redact(f"no {SECRET} hush%2Fhush 12345678 here, which is True", options)
    assert shown.count("***") == 1
    assert shown.endswith("here, which is True")


@pytest.mark.parametrize("mark", ["?", "#"])
def test_a_token_without_a_name_is_not_shown(mark: str, server: Server) -> None:
    store = open_store(f"{server.url}{mark}{SECRET}")
    server.plan = Plan(always={"a/0/2": 403, "/a": 403})
    for look in (lambda: store.get("a/0/2"), lambda: store.is_folder("a")):
        with pytest.raises(RefusedError) as raised:
            look()
        assert SECRET not in "".join(traceback.format_exception(raised.value))
    assert SECRET not in repr(store)
    if mark == "?":
        assert server.asked[0] == f"/a/0/2?{SECRET}"


@pytest.mark.parametrize("fault", [403, 404, 500])
def test_a_file_with_files_in_it_that_is_refused_shows_no_secret(
    fault: Any, server: Server
) -> None:
    server.plan = Plan(always={"x.zip": fault})
    with pytest.raises((RequestError, FileNotFoundError), match=r"cannot open .*'zip://") as raised:
        open_array(f"zip://x.n5::{server.url}/x.zip?sig={SECRET}", "a")
    assert SECRET not in "".join(traceback.format_exception(raised.value))


# Files written again


def test_an_array_written_again_on_a_web_server_has_another_name(server: Server) -> None:
    silent = from_n5(server.url, "a").name
    assert from_n5(server.url, "a").name == silent
    server.headers["ETag"] = '"one"'
    first = from_n5(server.url, "a").name
    assert from_n5(server.url, "a").name == first
    server.headers["ETag"] = '"two"'
    assert from_n5(server.url, "a").name not in {first, silent}


# Loops and processes


def test_a_read_in_the_filesystems_own_loop_is_refused_and_does_not_hang(server: Server) -> None:
    loop = fsspec.asyn.get_loop()
    array = open_array(server.url, "a")

    async def read(select: Any) -> Any:
        return array[select]

    for select in (9, slice(None)):
        answer = asyncio.run_coroutine_threadsafe(read(select), loop)
        with pytest.raises(NotImplementedError):
            answer.result(timeout=120)
    np.testing.assert_array_equal(array[...], FEW)


def test_a_filesystem_without_a_loop_says_so(few: dict[str, bytes]) -> None:
    fs = Far({f"b/x.n5/{key}": data for key, data in few.items()}, asynchronous=True)
    with pytest.raises(NotImplementedError, match="asynchronous=True"):
        FsspecStore(fs, "b/x.n5").get_many(["a/0/0", "a/0/1"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("cache", ["", "simplecache::"])
def test_what_was_opened_before_a_fork_is_read_after_it(
    cache: str, server: Server, tmp_path: Any
) -> None:
    options = {"simplecache": {"cache_storage": str(tmp_path)}} if cache else None
    array = open_array(f"{cache}{server.url}", "a", storage_options=options)
    np.testing.assert_array_equal(array[:4], FEW[:4])
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def read() -> None:
        try:
            sender.send((array[9].tolist(), array[...].tolist()))
        except Exception as error:  # noqa: BLE001
            sender.send(repr(error))

    child = context.Process(target=read)
    child.start()
    try:
        assert receiver.poll(120)
        assert receiver.recv() == (FEW[9].tolist(), FEW.tolist())
    finally:
        child.kill()
        child.join()


def test_looking_into_a_group_that_is_refused_is_an_error(server: Server) -> None:
    group = open_group(server.url)
    server.plan = Plan(always={"/nothing": 403})
    with pytest.raises(RefusedError):
        "nothing" in group  # noqa: B015
