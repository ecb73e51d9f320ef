"""Web servers are not trusted: bodies, times, redirects, and what is sent to whom."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from subprocess import PIPE
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest
from aiohttp import BasicAuth
from fsspec.implementations.dirfs import DirFileSystem

from tests.support.exhaustive import some
from tests.support.processes import Python
from tests.support.servers import WebServer, serving_ranges
from xarray_n5 import create_array, open_array
from xarray_n5.errors import RequestError
from xarray_n5.formats.containers import open_store
from xarray_n5.stores import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytest.importorskip("aiohttp")


META = json.dumps(
    {"dimensions": [8], "blockSize": [4], "dataType": "uint8", "compression": {"type": "raw"}}
).encode()

CHUNK = b"\0\0\0\1\0\0\0\4" + b"\7\7\7\7"

PACKED = gzip.compress(bytes(1 << 20)) * 120
"""More than a hundred megabytes, in little room."""

SECRETS = {
    "headers": {"Authorization": "Bearer hush", "X-Api-Key": "hush"},
    "client_kwargs": {"cookies": {"session": "hush"}, "headers": {"Private-Token": "hush"}},
}


@dataclass
class Site:
    """A web server whose answers a function makes."""

    answer: Callable[[Handler], None]
    url: str = ""
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Paths that were asked for, and the headers of each request."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    site: Site

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.site.seen.append((self.path, dict(self.headers)))
        with contextlib.suppress(OSError):  # clients may leave
            self.site.answer(self)

    do_HEAD = do_GET  # noqa: N815 - as http.server names them

    def reply(self, code: int, body: bytes = b"", **headers: str) -> None:
        """Answer with a whole body."""
        self.send_response(code)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Length": str(len(body)), **given}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def container(self) -> None:
        """Answer as a container of one array does, all chunks of which are stored."""
        if self.path.endswith("/a/attributes.json"):
            self.reply(200, META)
        elif self.path[-2:] in {"/0", "/1"}:
            self.reply(200, CHUNK)
        elif self.path.endswith("attributes.json"):
            self.reply(200, b"{}")
        else:
            self.reply(404)

    @property
    def is_chunk(self) -> bool:
        """Whether a chunk is asked for."""
        return self.path[-2:] in {"/0", "/1"}


@contextlib.contextmanager
def serving(answer: Callable[[Handler], None]) -> Iterator[Site]:
    """Serve on a port that is free."""
    site = Site(answer)
    server = WebServer(("127.0.0.1", 0), type("Own", (Handler,), {"site": site}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Listings


def listed(page: str, kind: str = "text/html") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a server lists by a page; {url} in it is the folder's."""

    def answer(handler: Handler) -> None:
        url = f"http://{handler.headers['Host']}/c.n5"
        handler.reply(200, page.replace("{url}", url).encode(), Content_Type=kind)

    with serving(answer) as site:
        return open_store(f"{site.url}/c.n5", {}).list("")


PAGES = {
    "apache": (
        '<tr><th><a href="?C=N;O=D">Name</a></th></tr><tr><td><a href="/">Parent</a></td></tr>'
        '<tr><td><a href="raw/">raw/</a></td><td><a href="a%20b&amp;c.json">a b&amp;c</a></td></tr>'
    ),
    "whole URLs": "<a href='{url}/raw/'>x</a><a class=x href='{url}/a%20b&c.json'>y</a>",
    "capitals, spaces, no quotes": '<A  ID="b"\n HREF = raw/ >raw</A><a\thref="a b&c.json"/>',
    "text": "{url}/raw/ and\n{url}/a%20b&c.json",
    "quotes elsewhere": "<a title=\"<a href='no'>\" href=\"raw/\">it's</a> <a href='a b&c.json'>",
}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_all_kinds_of_pages_are_listed(page: str) -> None:
    folders, files = listed(PAGES[page])
    assert [name for name in folders if name != "c.n5"] == ["raw"]
    assert [name for name in files if not name.startswith("?")] == ["a b&c.json"]


HOSTILE = {
    "spaces": "<a" + " " * 100_000,
    "links without an end": "<a " * 100_000,
    "names": "<a" + " href" * 100_000,
    "quotes": "<a href='" * 50_000 + '<a href="' * 50_000,
    "equals": "<a" + " href=" * 100_000,
    "one long link": f"<a href='{'x' * 100_000}'>",
    "long numbers": f"<a href='&#{'9' * 4000};'>",
    "URLs": "http://" * 100_000,
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("page", HOSTILE)
def test_listings_are_read_in_linear_time(page: str) -> None:
    began = time.process_time()
    folders, files = listed(HOSTILE[page])
    assert len(folders) + len(files) < 3
    assert time.process_time() - began < 5  # once more than an hour


def test_the_character_set_of_a_listing_cannot_cost_quadratic_time() -> None:
    page = "<a href='raw/'>-" + "a" * 400_000
    for charset in ("punycode", "idna", "rot13", "no such"):
        began = time.process_time()
        assert listed(page, f"text/html; charset={charset}")[0] == ("raw",)
        assert time.process_time() - began < 5


# Bodies


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    for _ in range(4000):
        handler.wfile.write(piece)


def packed(handler: Handler) -> None:
    handler.reply(200, PACKED, Content_Encoding="gzip")


def promised(handler: Handler) -> None:
    handler.close_connection = True
    handler.reply(200, CHUNK, Content_Length=str(1 << 40))


READING = """
import os, sys, tracemalloc
from xarray_n5 import open_array
from xarray_n5.errors import RequestError

array = open_array(sys.argv[1], "a")
tracemalloc.start()
for select in (0, slice(None)):
    try:
        array[select]
    except RequestError as error:
        print(tracemalloc.get_traced_memory()[1], error)
sys.stdout.flush()
os._exit(0)
"""
"""A process of its own: older CPython may crash if tracing stops while threads decompress."""


@pytest.mark.matrix(2)
@pytest.mark.parametrize("body", [endless, packed, promised])
def test_a_chunk_is_fetched_no_further_than_the_metadata_allow(
    body: Callable[[Handler], None],
) -> None:
    with serving(
        lambda handler: body(handler) if handler.is_chunk else handler.container()
    ) as site:
        reader = Python("-c", READING, f"{site.url}/c.n5", stdout=PIPE)
        lines = reader.communicate(timeout=120)[0].splitlines()
    assert reader.returncode == 0
    assert len(lines) == 2
    for line in lines:
        peak, _, message = line.partition(" ")
        assert int(peak) < 100 << 20
        assert "the expected maximum of 16777248 bytes" in message


def test_a_document_has_an_end() -> None:
    with serving(endless) as site:
        store = open_store(f"{site.url}/c.n5")
        with pytest.raises(RequestError, match="the expected maximum of 4194304 bytes"):
            store.get("attributes.json", 1 << 22)


@pytest.mark.parametrize("status", [206, 300, 304])
def test_an_answer_that_is_not_the_whole_file_is_an_error(status: int) -> None:
    def answer(handler: Handler) -> None:
        # 304 has no body: bytes after it would be taken for the next answer.
        body = b"" if status == 304 else CHUNK[:9]
        handler.reply(status, body) if handler.is_chunk else handler.container()

    with serving(answer) as site, pytest.raises(RequestError, match=f"answers {status}"):
        open_array(f"{site.url}/c.n5", "a")[...]


DATA = bytes(range(60))

ZIPPED = {"Content-Encoding": "gzip"}


def part(
    start: int,
    stop: int | None,
    sent: str,
    *,
    body: bytes | None = None,
    status: int = 206,
    more: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Any, ...]:
    """Return a range, and an answer with a part of a file of 60 bytes."""
    body = DATA[start:stop] if body is None else body
    return start, stop, status, {"Content-Range": sent, **more}, body


PARTS = {
    "a part": part(7, 12, "bytes 7-11/60"),
    "a part of a file of unknown size": part(7, 12, "bytes 7-11/*"),
    "a part where the file ends": part(52, 70, "bytes 52-59/60"),
    "all to the end": part(52, None, "bytes 52-59/60"),
    "the end": part(-9, None, "bytes 51-59/60"),
    "all of a file that is shorter than its end": part(-90, None, "bytes 0-59/60"),
    "nothing after the end": part(64, 70, "bytes */60", status=416),
    "no end of an empty file": part(-9, None, "bytes */0", status=416, body=b""),
    "a whole file": (0, 60, 200, {}, DATA),
    "a whole file that is shorter": (0, 70, 200, {}, DATA),
    "a whole file as its end": (-60, None, 200, {}, DATA),
    "a whole empty file as its end": (-9, None, 200, {}, b""),
}
"""Ranges and answers that have it."""

OTHERS = {
    "no bounds": (7, 12, 206, {}, DATA[7:12]),
    "earlier bytes": part(7, 12, "bytes 6-10/60"),
    "more bytes": part(7, 12, "bytes 7-12/60", body=DATA[7:13]),
    "fewer bytes before the end": part(7, 12, "bytes 7-10/60", body=DATA[7:11]),
    "fewer bytes of a file of unknown size": part(7, 12, "bytes 7-10/*", body=DATA[7:11]),
    "bytes before the end": part(-9, None, "bytes 50-58/60"),
    "more than the end": part(-9, None, "bytes 50-59/60", body=DATA[50:]),
    "an end of unknown size": part(-9, None, "bytes 51-59/*"),
    "other units": part(7, 12, "items 7-11/60"),
    "a body that is shorter than its bounds": part(7, 12, "bytes 7-11/60", body=DATA[7:10]),
    "a body that is longer than its bounds": part(7, 12, "bytes 7-11/60", body=DATA[7:20]),
    "several parts": (7, 12, 206, {"Content-Type": "multipart/byteranges; boundary=x"}, b"--x"),
    "a part of the packed file": part(7, 12, "bytes 7-11/60", more=ZIPPED),
    "nothing, although the file is longer": part(7, 12, "bytes */60", status=416, body=b""),
    "nothing, for no reason": (64, 70, 416, {}, b""),
    "no content": (7, 12, 204, {}, b""),
    "a redirect to nowhere": (7, 12, 304, {}, b""),
    "the whole file": (7, 12, 200, {}, DATA),
    "the whole file for its end": (-9, None, 200, {}, DATA),
    "the whole file for nearly all": (1, 60, 200, {}, DATA),
    "the whole file for nothing": (64, 70, 200, {}, DATA),
    "the whole file for all to its end": (3, None, 200, {}, DATA),
}
"""Ranges and answers that are something else."""


@contextlib.contextmanager
def parts(answer: tuple[Any, ...]) -> Iterator[list[tuple[str, Any, Range]]]:
    """Serve an answer; return the store's URL, the store and the range, for several clients."""
    start, stop, status, headers, body = answer
    sent = {name.replace("-", "_"): value for name, value in headers.items()}
    with serving(lambda handler: handler.reply(status, body, **sent)) as site:
        plain, url = fsspec.filesystem("http", skip_instance_cache=True), f"{site.url}/c.n5"
        locations = [url, (plain, url), (DirFileSystem(site.url, plain), "c.n5")]
        yield [(url, open_store(location), Range("a", start, stop)) for location in locations]
        last = "" if stop is None else stop - 1
        wanted = f"bytes={start}" if start < 0 else f"bytes={start}-{last}"
        assert {headers.get("Range") for _, headers in site.seen} == {wanted}
        assert {headers.get("Accept-Encoding") for _, headers in site.seen} == {"identity"}


@pytest.mark.parametrize("name", PARTS)
def test_the_answer_says_which_part_of_a_file_it_has(name: str) -> None:
    start, stop, _, _, body = PARTS[name]
    with parts(PARTS[name]) as clients:
        for _, store, wanted in clients:
            (found,) = store.get_ranges([wanted])
            assert found.data == (DATA if body else b"")[start:stop]


@pytest.mark.parametrize("name", OTHERS)
def test_another_part_of_a_file_than_the_requested_one_is_an_error(name: str) -> None:
    with parts(OTHERS[name]) as clients:
        for url, store, wanted in clients:
            with pytest.raises(RequestError) as raised:
                store.get_ranges([wanted])
            assert (raised.value.url, raised.value.key) == (url, "a")


def test_the_first_bytes_of_a_file_are_no_more_on_a_server_without_ranges() -> None:
    with serving(lambda handler: handler.reply(200, DATA)) as site:
        assert open_store(f"{site.url}/c.n5").head("a", 7) == (DATA[:7], 60)


@pytest.mark.parametrize("ranges", [True, False])
def test_shards_need_ranges(tmp_path: Path, ranges: bool) -> None:
    values = np.arange(1600, dtype="u2").reshape(40, 40)
    how: dict[str, Any] = {"format": "zarr3", "chunks": 5, "shards": 20, "compression": None}
    made = create_array(tmp_path, "a", shape=values.shape, dtype="u2", **how)
    made[...] = values
    paths = {str(p.relative_to(tmp_path)): p for p in tmp_path.rglob("*") if p.is_file()}
    files = {f"c.zarr/{name}": path.read_bytes() for name, path in paths.items()}
    with serving_ranges(files=files, knows_ranges=ranges) as served:
        array = open_array(f"{served.url}/c.zarr", "a")
        if ranges:
            np.testing.assert_array_equal(array[3:9, 2:4], values[3:9, 2:4])
        else:
            with pytest.raises(RequestError, match="range requests") as raised:
                array[3:9, 2:4]
            assert raised.value.key == "a/c/0/0"
        np.testing.assert_array_equal(array[...], values)


def test_packed_answers_are_unpacked() -> None:
    def answer(handler: Handler) -> None:
        if handler.is_chunk:
            handler.reply(200, gzip.compress(CHUNK), Content_Encoding="gzip")
        else:
            handler.container()

    with serving(answer) as site:
        assert open_array(f"{site.url}/c.n5", "a")[...].tolist() == [7] * 8


# Time


@pytest.mark.parametrize("timeout", some([0.5, "aiohttp"], 1))
def test_a_server_that_drips_is_given_up(timeout: Any) -> None:
    import aiohttp

    over = threading.Event()

    def answer(handler: Handler) -> None:
        if not handler.is_chunk:
            handler.container()
            return
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not over.wait(0.1):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    given = aiohttp.ClientTimeout(total=0.5) if timeout == "aiohttp" else timeout
    with serving(answer) as site:
        options = {"client_kwargs": {"timeout": given}}
        array = open_array(f"{site.url}/c.n5", "a", storage_options=options)
        begun = time.monotonic()
        with pytest.raises(RequestError, match="Timeout"):
            array[0]
        over.set()
        assert time.monotonic() - begun < 30


# Redirects


def to(target: str, status: int = 302) -> Callable[[Handler], None]:
    """Redirect everything to the same path elsewhere."""
    return lambda handler: handler.reply(status, Location=target.format(handler.path))


@pytest.mark.filterwarnings("ignore:.*(BasicAuth|auth).* is deprecated")
def test_secrets_do_not_follow_a_redirect_to_another_host() -> None:
    with serving(Handler.container) as other, serving(to(other.url + "{}")) as site:
        array = open_array(f"{site.url.replace('//', '//me:hush@')}/c.n5", "a")
        assert array[...].tolist() == [7] * 8
        assert other.seen
        cookies, headers = {"session": "hush"}, {"Authorization": "hush"}
        open_array(
            f"{site.url}/c.n5", "a", storage_options={"cookies": cookies, "headers": headers}
        )
        secrets: list[dict[str, Any]] = [
            SECRETS,
            {"client_kwargs": {"cookies": cookies}},
            {"client_kwargs": {"auth": BasicAuth("me", "hush")}},
            {"client_kwargs": {"headers": {"X-Api-Key": "hush"}}},
        ]
        for options in secrets:
            with pytest.raises(RequestError, match="must not get"):
                open_array(f"{site.url}/c.n5", "a", storage_options=options)
        assert "hush" in str(site.seen)
        assert "hush" not in str(other.seen)
        assert BasicAuth("me", "hush").encode() not in str(other.seen)


def test_secrets_follow_a_redirect_on_their_own_host() -> None:
    def answer(handler: Handler) -> None:
        if handler.path.startswith("/moved/"):
            handler.container()
        else:
            handler.reply(307, Location=f"/moved{handler.path}")

    with serving(answer) as site:
        array = open_array(f"{site.url}/c.n5", "a", storage_options=SECRETS)
        assert array[...].tolist() == [7] * 8
        moved = [headers for path, headers in site.seen if path.startswith("/moved/")]
        assert all(headers["X-Api-Key"] == "hush" for headers in moved)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("file:///etc/passwd", "RedirectClientError"),
        ("{}", "TooManyRedirects"),
        ("/elsewhere", "so it is unknown whether the file is missing"),
        ("ftp://127.0.0.1/0", "RedirectClientError"),
    ],
)
def test_a_redirect_never_makes_a_chunk_missing(target: str, why: str) -> None:
    def answer(handler: Handler) -> None:
        to(target)(handler) if handler.is_chunk else handler.container()

    with serving(answer) as site:
        array = open_array(f"{site.url}/c.n5", "a")
        for select in (0, slice(None)):
            with pytest.raises(RequestError, match=why):
                array[select]


def test_a_chunk_that_the_host_itself_does_not_have_is_missing() -> None:
    def answer(handler: Handler) -> None:
        handler.reply(404) if handler.is_chunk else handler.container()

    with serving(answer) as site:
        assert open_array(f"{site.url}/c.n5", "a")[...].tolist() == [0] * 8
