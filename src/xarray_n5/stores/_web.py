"""A web client that does not trust servers: limited sizes and times, listings in linear time.

fsspec's web filesystem makes its requests through a session of aiohttp. It follows redirects, and
sends cookies and passwords only to the host in the user's URL.
"""

from __future__ import annotations

import functools
import html
import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from xarray_n5.stores.base import FilePart, Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aiohttp import ClientResponse, ClientSession

DOCUMENT = 1 << 28
"""The largest document or listing page in bytes: 256 MiB."""

_SECONDS = 300.0
"""The maximum duration of a request, including the body, in seconds."""

_SILENCE = 60.0
"""The maximum time that a server may be silent, in seconds."""

_COMMON = frozenset(
    {
        *("accept", "accept-encoding", "authorization", "cookie", "host", "range", "user-agent"),
        "content-type",
    }
)
"""Headers that every host may get, or that aiohttp sends to no other host."""

_HARMLESS = frozenset({"range", "accept", "accept-encoding"})
"""Headers that are sent to servers that only a file names."""

_ANYWHERE = frozenset({"allow_redirects", "ssl", "proxy", "timeout", "server_hostname"})
"""Options of requests to them."""

_GONE = frozenset({404, 410})

_WHOLE, _PARTIAL, _ERRORS, _MISSING, _BEYOND = 200, 206, 400, 404, 416
"""Statuses of the whole file, a part, the first error, no file, and a range beyond the end."""

_PACKED = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
"""Encodings of bodies that clients decode."""

_SENT = re.compile(r"bytes\s+(?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")
"""A header ``Content-Range``: the first and last byte, unless there are none, and the size."""

NO_RANGES = "it would for each chunk: download the file, or use a server with range requests"
"""What to do if a server sends whole files instead of parts."""

_TAG = re.compile(r"<a(?=\s)((?:[^\"'<>]++|\"[^\"]*+\"|'[^']*+')*+)", re.IGNORECASE)
"""The attributes of a link on a page."""

_ATTRIBUTE = re.compile(r"([^\s\"'=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'=]++)))?+")
"""The name of an attribute, and its value in one of three groups."""

_URL = re.compile(r"https?://[\w@:%+.~#?&/=-]++", re.ASCII)
"""A URL in text, as fsspec finds it."""

_UNQUOTED = re.compile(r"[\s\"'<>]")
"""Characters that end a link on a page."""

_LONGEST = 4096
"""The length in characters above which links are ignored."""

_CHARSETS = frozenset({"utf-8", "utf-16", "ascii", "iso8859-1", "cp1252"})
"""Character sets of pages; some others of Python take quadratic time."""

_most: ContextVar[int] = ContextVar("most", default=DOCUMENT)


class WebError(OSError):
    """A response that is not the requested file; a retry would not help."""

    def __init__(self, why: str, advice: str | None = None) -> None:
        super().__init__(why)
        self.advice = advice


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Limit the size of responses to requests made in this context."""
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def with_client(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return fsspec's options for a URL, with :func:`get_client` for web URLs."""
    protocols = set(re.findall(r"(?<![\w+])https?(?=://)", url))
    clients = {
        protocol: {"get_client": get_client, **options.get(protocol, {})} for protocol in protocols
    }
    return {**options, **clients}


async def get_client(**options: Any) -> ClientSession:
    """Return a client with the options of ``aiohttp.ClientSession``.

    Its ``timeout`` may also be a number of seconds.
    """
    import aiohttp

    timeout = options.pop("timeout", None)
    if not isinstance(timeout, aiohttp.ClientTimeout):
        total = _SECONDS if timeout is None else float(timeout)
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=30, sock_read=_SILENCE)
    traces = aiohttp.TraceConfig()
    traces.on_request_redirect.append(_check_redirect)
    traces.on_request_end.append(_check_missing)
    common = {"response_class": _response_class(), "timeout": timeout, "trace_configs": [traces]}
    return aiohttp.ClientSession(**{**common, **options})


async def _check_redirect(session: ClientSession, context: object, request: Any) -> None:
    """Refuse to send what the user gave for one host to another one.

    Passwords and cookies of a single request are removed by aiohttp; those of the session are not.
    """
    from yarl import URL

    del context
    target = request.url.join(URL(request.response.headers.get("Location", "")))
    secrets = [f"the header {name!r}" for name in request.headers if name.lower() not in _COMMON]
    secrets += ["its password"] if session.auth is not None else []
    secrets += ["its cookies"] if any(not cookie["domain"] for cookie in session.cookie_jar) else []
    if secrets and target.origin() != request.url.origin():
        raise WebError(
            f"the server redirects to {target.host!r}, which must not get {secrets[0]}; "
            "use the URL that it redirects to"
        )


async def _check_missing(session: object, context: object, request: Any) -> None:
    """Accept "not found" only from the URL of the user."""
    del session, context
    answer = request.response
    first, here = answer.history[0].url if answer.history else answer.url, answer.url
    if answer.status in _GONE and (first.host, first.path) != (here.host, here.path):
        answer.close()
        raise WebError(
            f"the server redirects to {here.host!r}, which answers {answer.status}, so it is "
            "unknown whether the file is missing; use the URL that it redirects to"
        )


async def get_anonymous_client(**options: Any) -> Anonymous:
    """Return a client without secrets for any host, whatever the configuration of fsspec."""
    import aiohttp

    kept = {name: options[name] for name in ("loop", "trust_env") if name in options}
    return Anonymous(await get_client(cookie_jar=aiohttp.DummyCookieJar(), **kept))


class Anonymous:
    """A session whose requests have no headers, passwords or cookies of the user."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get(self, url: Any, **options: Any) -> Any:
        """Request a body."""
        return self._session.get(url, **_without_secrets(options))

    def head(self, url: Any, **options: Any) -> Any:
        """Request a size."""
        return self._session.head(url, **_without_secrets(options))


def _without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    headers = dict(options.get("headers") or {})
    harmless = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
    kept = {name: value for name, value in options.items() if name in _ANYWHERE}
    return {**kept, "headers": harmless}


@functools.cache
def _response_class() -> type[ClientResponse]:
    import aiohttp

    class Bounded(aiohttp.ClientResponse):
        """A response whose body is read up to the limit."""

        async def read(self) -> bytes:
            """Return the body.

            Raises
            ------
            WebError
                If it exceeds the limit, or is not the file.
            """
            parts = "Range" in self.request_info.headers
            if _WHOLE < self.status < _ERRORS and not (parts and self.status == _PARTIAL):
                self.close()
                raise WebError(f"the server answers {self.status} instead of the whole file")
            if self._body is None:
                self._body = await self._bounded(_most.get())
            return self._body

        async def text(self, encoding: str | None = None, errors: str = "ignore") -> str:
            """Return the links of a listing as a page that fsspec reads in linear time."""
            body, known = await self.read(), encoding or self.get_encoding()
            page = body.decode(known if known in _CHARSETS else "utf-8", errors)
            links = [f'<a href="{link}">' for link in links_in(page)]
            return "\n".join([*links, *_URL.findall(page)])

        async def _bounded(self, most: int) -> bytes:
            parts: list[bytes] = []
            size, announced = 0, self.content_length or 0
            try:
                while max(size, announced) <= most and (part := await self.content.readany()):
                    parts.append(part)
                    size += len(part)
            except BaseException:
                self.close()
                raise
            if max(size, announced) <= most:
                return b"".join(parts)
            self.close()
            raise WebError(f"the response has more than the expected maximum of {most} bytes")

    return Bounded


def links_in(page: str) -> Iterator[str]:
    """Iterate over the links of a page, in linear time; characters that end one are quoted.

    >>> [*links_in('<pre><a href="raw/">raw/</a> <A HREF="a b.json">a b.json</A>')]
    ['raw/', 'a%20b.json']
    """
    for tag in _TAG.finditer(page):
        for name, *values in _ATTRIBUTE.findall(tag[1]):
            link = "".join(values)
            if name.lower() == "href" and 0 < len(link) <= _LONGEST:
                yield _UNQUOTED.sub(lambda character: quote(character[0]), html.unescape(link))


# Parts of files


async def part_of_url(fs: Any, url: str, wanted: Range, *, whole: bool) -> FilePart:
    """Return a part of a file on a web server, according to what the server says that it sends."""
    from multidict import CIMultiDict

    start, stop = wanted.start, wanted.stop
    options = dict(fs.kwargs)
    headers = CIMultiDict(options.pop("headers", None) or {})
    last = "" if stop is None else stop - 1
    headers["Range"] = f"bytes={start}" if start < 0 else f"bytes={start}-{last}"
    headers["Accept-Encoding"] = "identity"  # or else it is a range of the packed bytes
    session = await fs.set_session()
    async with session.get(fs.encode_url(url), headers=headers, **options) as answer:
        if answer.status == _MISSING:
            await answer.read()  # the connection can be used again
            raise FileNotFoundError(url)
        sent, size = _sent_by(answer)
        expected = range(start, stop or 0) if size is None else range(size)[start:stop]
        if answer.status == _WHOLE and whole:
            return FilePart((await answer.read())[start:stop], None)
        if sent == expected:
            with at_most(len(expected)):
                data = await answer.read() if expected else b""
            if len(data) == len(expected):
                return FilePart(data, _state_of(answer, size))
        answer.close()
        raise _unlike(answer, headers["Range"])


def _sent_by(answer: ClientResponse) -> tuple[range | None, int | None]:
    """Return the positions in a file of what a response has, and the file's size."""
    packed = answer.headers.get("Content-Encoding", "").lower() in _PACKED
    if answer.status == _WHOLE:
        size = None if packed else answer.content_length
        return None if size is None else range(size), size
    sent = _SENT.fullmatch(answer.headers.get("Content-Range", ""))
    if sent is None or packed or answer.status not in {_PARTIAL, _BEYOND}:
        return None, None
    first, last, size = (None if part in {None, "*"} else int(part) for part in sent.groups())
    if first is None or last is None or answer.status == _BEYOND:
        return range(0), size
    return range(first, last + 1), size


def _state_of(answer: ClientResponse, size: int | None) -> object:
    """Return the state of a file; None if the server does not report it."""
    etag = answer.headers.get("ETag", "").removeprefix("W/")
    version = etag or answer.headers.get("Last-Modified")
    return None if version is None or size is None else (version, size)


def _unlike(answer: ClientResponse, wanted: str) -> WebError:
    """Return the error for a response that is not the requested part."""
    if answer.status == _WHOLE:
        return WebError(f"the server sends the whole file for {wanted!r}", NO_RANGES)
    if answer.status != _BEYOND:
        answer.raise_for_status()
    sent = [answer.headers.get(name, "") for name in ("Content-Range", "Content-Encoding")]
    return WebError(f"the server answers {answer.status} {sent}, expected {wanted!r}")
