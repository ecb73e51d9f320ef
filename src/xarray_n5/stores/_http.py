"""A web client that trusts no server: bodies and times are limited, and secrets stay with a host.

fsspec's file system for the web makes its requests through a session of aiohttp. Here that session
follows redirects itself: what the user gives (headers, cookies, a password) goes to the host that
the user named, and "not found" counts only if that host says it.
"""

from __future__ import annotations

import functools
import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterator, Mapping

    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

DOCUMENT = 1 << 28
"""How many bytes a document, or a page with a listing, may have: 256 MiB."""

_SECONDS = 300.0
"""How long a request may take, its body included."""

_SILENCE = 60.0
"""How long a server may send nothing."""

_MOST_REDIRECTS = 10

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_OTHERWISE, _PARTIAL = 3, 206
"""Answers that are not errors, and not the file: all of 3xx, and a part that nobody asked for."""

_GONE = frozenset({404, 410})

_HARMLESS = frozenset({"range", "accept", "accept-encoding"})
"""Headers that go to every host."""

_ANYWHERE = frozenset({"ssl", "proxy", "timeout", "server_hostname"})
"""Options of a request that hold for every host."""

_most: ContextVar[int] = ContextVar("most", default=DOCUMENT)


class WebError(OSError):
    """An answer that is not what was asked for; trying again would not help."""


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Limit the bodies of answers to requests that are made meanwhile."""
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def with_client(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return fsspec's options for a URL, with :func:`get_client` for what is on the web."""
    protocols = set(re.findall(r"(?<![\w+])https?(?=://)", url))
    own = {each: {"get_client": get_client, **options.get(each, {})} for each in protocols}
    return {**options, **own}


async def get_client(**options: Any) -> Client:
    """Return a client that takes the options of ``aiohttp.ClientSession``.

    Its ``timeout`` may be a number, too: how many seconds a request may take.
    """
    import aiohttp

    timeout = options.pop("timeout", None)
    if not isinstance(timeout, aiohttp.ClientTimeout):
        total = _SECONDS if timeout is None else float(timeout)
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=30, sock_read=_SILENCE)
    common: dict[str, Any] = {"timeout": timeout, "response_class": _response_class()}
    kept = {name: options[name] for name in ("loop", "trust_env") if name in options}
    foreign_key = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), **common, **kept)
    return Client(aiohttp.ClientSession(**{**common, **options}), foreign_key)


class Client:
    """A session for the user's host, and one that knows no secrets for all others."""

    def __init__(self, own: ClientSession, foreign_key: ClientSession) -> None:
        self._own, self._stranger = own, foreign_key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def close(self) -> None:
        """Close both."""
        await self._stranger.close()
        await self._own.close()

    def get(self, url: Any, **options: Any) -> Request:
        """Ask for a body."""
        return Request(self._follow("GET", url, options))

    def head(self, url: Any, **options: Any) -> Request:
        """Ask for a size."""
        return Request(self._follow("HEAD", url, options))

    def put(self, url: Any, **options: Any) -> Request:
        """Send a body."""
        return Request(self._send("PUT", url, options))

    def post(self, url: Any, **options: Any) -> Request:
        """Send a body."""
        return Request(self._send("POST", url, options))

    async def _send(self, verb: str, url: Any, options: dict[str, Any]) -> ClientResponse:
        answer = await self._own.request(verb, url, **{**options, "allow_redirects": False})
        if answer.status in _REDIRECTS:
            answer.close()
            raise WebError("the server redirects; write to the URL that it redirects to")
        return answer

    async def _follow(self, verb: str, url: Any, options: dict[str, Any]) -> ClientResponse:
        from yarl import URL

        first = here = URL(url)
        session, options = self._own, {**options, "allow_redirects": False}
        for _ in range(_MOST_REDIRECTS + 1):
            answer = await session.request(verb, here, **options)
            target = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or target is None:
                break
            answer.close()
            here = _next(here, target)
            if here.origin() != first.origin():
                session, options = self._stranger, _without_secrets(options)
            elif session is self._own:
                here = here.with_user(first.user).with_password(first.password)
        else:
            raise WebError(f"the server redirects more than {_MOST_REDIRECTS} times")
        _check_status(answer, options)
        if answer.status in _GONE and not _is_same(first, here):
            answer.close()
            raise WebError(
                f"the server redirects to {here.host!r}, which answers {answer.status}: whether it "
                "is missing is not known; name the URL that it redirects to"
            )
        return answer


class Request:
    """A request that is awaited, or entered; aiohttp's are both."""

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
        raise WebError(f"the server redirects to {there.scheme}:, which is not the web")
    return there


def _is_same(first: URL, here: URL) -> bool:
    """Return whether a redirect leads to the same URL, or to the same by https."""
    same = first.host == here.host and first.raw_path_qs == here.raw_path_qs
    ports = first.is_default_port() and here.is_default_port()
    return same and (first.origin() == here.origin() or (ports and here.scheme == "https"))


def _check_status(answer: ClientResponse, options: Mapping[str, Any]) -> None:
    """Raise where an answer that is not an error is not the file either."""
    ranged = "range" in {name.lower() for name in options.get("headers") or {}}
    if answer.status // 100 == _OTHERWISE or (answer.status == _PARTIAL and not ranged):
        answer.close()
        raise WebError(f"the server answers {answer.status}, which is not the whole file")


def _without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    headers = dict(options.get("headers") or {})
    harmless = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
    kept = {name: value for name, value in options.items() if name in _ANYWHERE}
    return {**kept, "headers": harmless, "allow_redirects": False}


@functools.cache
def _response_class() -> type[ClientResponse]:
    import aiohttp

    class Bounded(aiohttp.ClientResponse):
        """An answer whose body is read no further than the limit."""

        async def read(self) -> bytes:
            """Return the body.

            Raises
            ------
            WebError
                If it is longer than may be.
            """
            if self._body is None:
                self._body = await self._bounded(_most.get())
            return self._body

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
            raise WebError(f"the answer has more than the {most} bytes that there can be")

    return Bounded
