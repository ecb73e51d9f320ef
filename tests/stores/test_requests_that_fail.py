"""Requests that nobody answers: told as errors of ours, in every process, and without secrets."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import time
import traceback
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest
import xarray as xr

from tests.support.containers import objects_of
from tests.support.faulty import Plan, Server, serving
from tests.support.remote import Far
from xarray_n5 import (
    chunk_map,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    to_n5,
    verify,
)
from xarray_n5.errors import PathError, RefusedError, RequestError
from xarray_n5.formats.open import open_store
from xarray_n5.stores import FsspecStore, MemoryStore
from xarray_n5.stores.redaction import redact, redact_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VALUES = np.arange(1, 65, dtype="u2").reshape(16, 4)
"""No zero among them, in four chunks."""

SECRET = "hush-hush"  # noqa: S105


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are made once."""
    monkeypatch.setattr("xarray_n5.stores._requests._DELAYS", ())


@pytest.fixture(scope="module")
def stored() -> dict[str, bytes]:
    """A container of four chunks, by keys."""
    return objects_of(VALUES, (4, 4))


@pytest.fixture
def server(stored: dict[str, bytes]) -> Iterator[Server]:
    """A web server that has the container."""
    with serving(stored) as server:
        yield server


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
        to_n5(VALUES, FsspecStore(fs, "no-bucket/x"), "a")
    assert advice in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert (str(again), type(again)) == (str(raised.value), type(raised.value))


def test_chunks_are_not_missing_from_a_bucket_that_does_not_exist(
    stored: dict[str, bytes],
) -> None:
    fs = Far({f"b/x.n5/{key}": data for key, data in stored.items()})
    array = open_array(FsspecStore(fs, "b/x.n5"), "a")

    def fail(*_: str) -> None:
        raise of_amazon()

    fs.fails = fail
    for read in (lambda: array[...], lambda: open_array(FsspecStore(fs, "b/x.n5"), "a")):
        with pytest.raises(RequestError):
            read()


# Names


NAMES = {"a\ud800b": "a surrogate", "n" * 300: "long", "/".join(["d" * 200] * 30): "a long path"}
"""Names that cannot be stored."""

WRITES_OF_NAMES: dict[str, Callable[[Any, str, Any], Any]] = {
    "to_n5": lambda place, name, form: to_n5(VALUES, place, name, format=form),
    "create_group": lambda place, name, form: create_group(place, name, format=form),
    "dataset": lambda place, name, form: xr.Dataset({name: ("x", [1])}).n5.to_n5(
        place, "g", format=form
    ),
}


@pytest.mark.parametrize("name", NAMES, ids=NAMES.values())
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_name_that_cannot_be_stored_is_a_path_error(tmp_path: Path, form: Any, name: str) -> None:
    fs = fsspec.filesystem("file")
    to_n5(VALUES, tmp_path / "x", "there", format=form)
    for write in WRITES_OF_NAMES.values():
        with pytest.raises(PathError):
            write(tmp_path / "x", name, form)
    for read in (open_array, open_group, from_n5, verify):
        with pytest.raises(PathError):
            read(tmp_path / "x", name)  # type: ignore[operator]
    for place in (fs, str(tmp_path / "y")), MemoryStore(), FsspecStore(Far(), "b/x.n5"):
        with pytest.raises(PathError):
            to_n5(VALUES, place, name, format=form)


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
    name: str, stored: dict[str, bytes]
) -> None:
    with serving(stored) as server:
        array = open_array(server.url, "a")
    with pytest.raises(RequestError):
        LOOKS[name](array)


def test_a_folder_that_cannot_be_listed_is_not_empty(stored: dict[str, bytes]) -> None:
    fs = Far({f"b/x.n5/{key}": data for key, data in stored.items()})
    store = FsspecStore(fs, "b/x.n5")
    before = {found.key for found in store.list_info("")}
    assert before == set(stored)

    def fails(verb: str, path: str) -> None:
        if verb == "LIST" and path.endswith("a/0"):
            raise PermissionError(path)

    fs.fails = fails
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
    select: Any, stored: dict[str, bytes]
) -> None:
    fs = Far({f"b/x.n5/{key}": data for key, data in stored.items()})
    array = open_array(FsspecStore(fs, "b/x.n5"), "a")
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
    np.testing.assert_array_equal(array[...], VALUES)


def test_a_filesystem_without_a_loop_says_so(stored: dict[str, bytes]) -> None:
    fs = Far({f"b/x.n5/{key}": data for key, data in stored.items()}, asynchronous=True)
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
    np.testing.assert_array_equal(array[:4], VALUES[:4])
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
        assert receiver.recv() == (VALUES[9].tolist(), VALUES.tolist())
    finally:
        child.kill()
        child.join()


def test_looking_into_a_group_that_is_refused_is_an_error(server: Server) -> None:
    group = open_group(server.url)
    server.plan = Plan(always={"/nothing": 403})
    with pytest.raises(RefusedError):
        "nothing" in group  # noqa: B015
