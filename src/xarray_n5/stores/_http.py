"""A web client that does not trust servers: limited sizes and times, secrets only for their host.

fsspec's web filesystem makes its requests through a session of aiohttp. This one follows redirects
itself: headers, cookies and passwords are only sent to the host in the user's URL, and "not
found" is only accepted from that host.
"""

from __future__ import annotations

import functools
import html
import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterator, Mapping

    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

DOCUMENT = 1 << 28
"""The largest document or listing page in bytes: 256 MiB."""

_SECONDS = 300.0
"""The maximum duration of a request, including the body, in seconds."""

_SILENCE = 60.0
"""The maximum time that a server may be silent, in seconds."""

_MOST_REDIRECTS = 10

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_OTHERWISE = 3
"""The first digit of statuses that are neither errors nor the file."""

_PARTIAL = 206
"""The status of a part of a file."""

_GONE = frozenset({404, 410})

_HARMLESS = frozenset({"range", "accept", "accept-encoding"})
"""Headers that are sent to every host."""

_ANYWHERE = frozenset({"ssl", "proxy", "timeout", "server_hostname"})
"""Options of requests to every host."""

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
    own = {each: {"get_client": get_client, **options.get(each, {})} for each in protocols}
    return {**options, **own}


async def get_client(**options: Any) -> Client:
    """Return a client with the options of ``aiohttp.ClientSession``.

    Its ``timeout`` may also be a number of seconds.
    """
    import aiohttp

    common = _common_options(options)
    return Client(aiohttp.ClientSession(**{**common, **options}), _foreign(common, options))


async def get_anonymous_client(**options: Any) -> Client:
    """Return a client without secrets for any host, whatever the configuration of fsspec."""
    foreign = _foreign(_common_options(options), options)
    return Client(foreign, foreign)


def _common_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of all sessions; remove the timeout from `options`."""
    import aiohttp

    timeout = options.pop("timeout", None)
    if not isinstance(timeout, aiohttp.ClientTimeout):
        total = _SECONDS if timeout is None else float(timeout)
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=30, sock_read=_SILENCE)
    return {"response_class": _response_class(), "timeout": timeout}


def _foreign(common: Mapping[str, Any], options: Mapping[str, Any]) -> ClientSession:
    """Return the session for hosts that must not get secrets."""
    import aiohttp

    kept = {name: options[name] for name in ("loop", "trust_env") if name in options}
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), **common, **kept)


class Client:
    """A session for the user's host, and one without secrets for all others."""

    def __init__(self, own: ClientSession, foreign: ClientSession) -> None:
        self._own, self._foreign = own, foreign

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def close(self) -> None:
        """Close both sessions."""
        await self._foreign.close()
        await self._own.close()

    def get(self, url: Any, **options: Any) -> Request:
        """Request a body."""
        return Request(self._follow("GET", url, options))

    def head(self, url: Any, **options: Any) -> Request:
        """Request a size."""
        return Request(self._follow("HEAD", url, options))

    def put(self, url: Any, **options: Any) -> Request:
        """Send a body."""
        return Request(self._send("PUT", url, options))

    def post(self, url: Any, **options: Any) -> Request:
        """Send a body."""
        return Request(self._send("POST", url, options))

    async def _send(self, verb: str, url: Any, options: dict[str, Any]) -> ClientResponse:
        response = await self._own.request(verb, url, **{**options, "allow_redirects": False})
        if response.status in _REDIRECTS:
            response.close()
            raise WebError("the server redirects a write; use the URL that it redirects to")
        return response

    async def _follow(self, verb: str, url: Any, options: dict[str, Any]) -> ClientResponse:
        from yarl import URL

        first = here = URL(url)
        session, options = self._own, {**options, "allow_redirects": False}
        if session is self._foreign:
            options = _without_secrets(options)
        for _ in range(_MOST_REDIRECTS + 1):
            response = await session.request(verb, here, **options)
            target = response.headers.get("Location")
            if response.status not in _REDIRECTS or target is None:
                break
            response.close()
            here = _next(here, target)
            if here.origin() != first.origin():
                session, options = self._foreign, _without_secrets(options)
            elif session is self._own:
                here = here.with_user(first.user).with_password(first.password)
        else:
            raise WebError(f"the server redirects more than {_MOST_REDIRECTS} times")
        _check_status(response, parts="Range" in (options.get("headers") or {}))
        if response.status in _GONE and not _is_same(first, here):
            response.close()
            raise WebError(
                f"the server redirects to {here.host!r}, which answers {response.status}, so it "
                "is unknown whether the file is missing; use the URL that it redirects to"
            )
        return response


class Request:
    """A request to be awaited or entered, like those of aiohttp."""

    def __init__(self, request: Coroutine[Any, Any, ClientResponse]) -> None:
        self._request = request

    def __await__(self) -> Generator[Any, Any, ClientResponse]:
        return self._request.__await__()

    async def __aenter__(self) -> ClientResponse:
        self._answer = await self._request
        return self._answer

    async def __aexit__(self, *_: object) -> None:
        self._answer.release()


def _next(here: URL, target: str) -> URL:
    from yarl import URL

    there = here.join(URL(target))
    if there.scheme not in {"http", "https"} or not there.host:
        raise WebError(f"the server redirects to a {there.scheme}: URL; expected http or https")
    return there


def _is_same(first: URL, here: URL) -> bool:
    """Return whether a redirect leads to the same URL, possibly with https."""
    same = first.host == here.host and first.raw_path_qs == here.raw_path_qs
    ports = first.is_default_port() and here.is_default_port()
    return same and (first.origin() == here.origin() or (ports and here.scheme == "https"))


def _check_status(response: ClientResponse, *, parts: bool) -> None:
    """Raise if a response without an error is not the file, or a part if one was requested."""
    if response.status // 100 == _OTHERWISE or (response.status == _PARTIAL and not parts):
        response.close()
        raise WebError(f"the server answers {response.status} instead of the whole file")


def _without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    headers = dict(options.get("headers") or {})
    harmless = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
    kept = {name: value for name, value in options.items() if name in _ANYWHERE}
    return {**kept, "headers": harmless, "allow_redirects": False}


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
                If it exceeds the limit.
            """
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
                yield _UNQUOTED.sub(lambda found: quote(found[0]), html.unescape(link))
