"""A web client that does not trust servers: limited sizes and times, listings in linear time.

fsspec's web filesystem makes its requests through a session of aiohttp. It follows redirects, and
sends cookies and passwords only to the host in the user's URL.
"""

from __future__ import annotations

import functools
import html
import re
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

_WHOLE, _PARTIAL, _MISSING, _BEYOND = 200, 206, 404, 416
"""Statuses of the whole file, a part, no file, and a range beyond the end."""

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


class WebError(OSError):
    """A response that is not the requested file; a retry would not help."""

    def __init__(self, why: str, advice: str | None = None) -> None:
        super().__init__(why)
        self.advice = advice


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
        """A response whose body is limited, for the requests that fsspec makes itself."""

        async def read(self) -> bytes:
            """Return the body."""
            if self._body is None:
                self._body = await _read(self, DOCUMENT)
            return self._body

        async def text(self, encoding: str | None = None, errors: str = "ignore") -> str:
            """Return the links of a listing as a page that fsspec reads in linear time."""
            body, known = await self.read(), encoding or self.get_encoding()
            page = body.decode(known if known in _CHARSETS else "utf-8", errors)
            links = [f'<a href="{link}">' for link in links_in(page)]
            return "\n".join([*links, *_URL.findall(page)])

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


# Files


async def get_url(
    fs: Any, url: str, wanted: Range | None, most: int, *, whole: bool = False
) -> FilePart:
    """Return a file on a web server, or a part, according to what the server says that it sends.

    With `whole`, it may also send all of a file of which a part is wanted.
    """
    from multidict import CIMultiDict

    options = dict(fs.kwargs)
    headers = CIMultiDict(options.pop("headers", None) or {})
    if wanted is not None:
        last = "" if wanted.stop is None else wanted.stop - 1
        start = wanted.start
        headers["Range"] = f"bytes={start}" if start < 0 else f"bytes={start}-{last}"
        headers["Accept-Encoding"] = "identity"  # or else it is a range of the packed bytes
    session = await fs.set_session()
    async with session.get(fs.encode_url(url), headers=headers, **options) as answer:
        if answer.status == _MISSING:
            await _read(answer, most)  # the connection can be used again
            here, first = answer.url, answer.history[0].url if answer.history else answer.url
            if (first.host, first.path) == (here.host, here.path):
                raise FileNotFoundError(url)
            raise WebError(
                f"the server redirects to {here.host!r}, which answers 404, so it is unknown "
                "whether the file is missing; use the URL that it redirects to"
            )
        if answer.status == _WHOLE and (wanted is None or whole):
            data = await _read(answer, most)
            return FilePart(data if wanted is None else data[wanted.start : wanted.stop], None)
        sent, size = _sent_by(answer)
        if wanted is not None and sent == (expected := _expected(wanted, size)):
            data = await _read(answer, len(expected)) if expected else b""
            if len(data) == len(expected):
                return FilePart(data, _state_of(answer, size))
        answer.close()
        raise _unlike(answer, headers.get("Range"))


async def _read(answer: ClientResponse, most: int) -> bytes:
    """Return the body of a response, which must have at most `most` bytes."""
    parts: list[bytes] = []
    size, announced = 0, answer.content_length or 0
    try:
        while max(size, announced) <= most and (part := await answer.content.readany()):
            parts.append(part)
            size += len(part)
    except BaseException:
        answer.close()
        raise
    if max(size, announced) <= most:
        return b"".join(parts)
    answer.close()
    raise WebError(f"the response has more than the expected maximum of {most} bytes")


def _expected(wanted: Range, size: int | None) -> range:
    """Return the positions of a range in a file; as it is requested if the size is unknown."""
    start, stop = wanted.start, wanted.stop
    return range(start, stop or 0) if size is None else range(size)[start:stop]


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


def _unlike(answer: ClientResponse, wanted: str | None) -> WebError:
    """Return the error for a response that is not the requested file or part."""
    if wanted is not None and answer.status == _WHOLE:
        return WebError(f"the server sends the whole file for {wanted!r}", NO_RANGES)
    if wanted is None or answer.status != _BEYOND:
        answer.raise_for_status()
    if wanted is None:
        return WebError(f"the server answers {answer.status} instead of the whole file")
    sent = [answer.headers.get(name, "") for name in ("Content-Range", "Content-Encoding")]
    return WebError(f"the server answers {answer.status} {sent}, expected {wanted!r}")
