"""Parse the absolute locations that a project's XML names: local paths, and URLs of servers.

An XML may come from anybody. Only strings that are parsed here become locations; URLs are rebuilt
from their parts, so that no library reads another scheme or server in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SCHEMES = frozenset({"http", "https", "s3", "gs", "az"})
"""The schemes of servers that every XML may name."""

_WEB: Mapping[str, int] = MappingProxyType({"http": 80, "https": 443})
"""Schemes whose URLs name a server, and their default ports; the others name a bucket."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]+(?=:)")
"""The scheme of a URI, or a protocol of fsspec; one letter is a drive of Windows."""

_URL = re.compile(r"://([^/?#]*)((?:[/?#].*)?)", re.DOTALL)

_HOST = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::(\d{1,5}))?")

_CONTAINER = re.compile(r"[A-Za-z0-9$][A-Za-z0-9-]*")
"""A container of Azure; with dots, it could name another account."""

_LARGEST_PORT = (1 << 16) - 1

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters, some of which parsers of URLs drop."""


class Server(NamedTuple):
    """What receives a request: a server, or a kind of object store whose server the user names."""

    scheme: str
    host: str = ""
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Url:
    """A URL without credentials or other URLs in it."""

    scheme: str
    """The scheme in lower case."""
    host: str
    """The server, or the bucket."""
    port: int | None
    path: str
    """The path with its slash, and a query."""

    def __str__(self) -> str:
        return f"{self.origin}{self.path}"

    @property
    def origin(self) -> str:
        """The URL of the server or the bucket."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    @property
    def is_web(self) -> bool:
        """Whether it is the URL of a web server, which the URL names."""
        return self.scheme in _WEB

    @property
    def server(self) -> Server:
        """The server; equal for all spellings of the same one."""
        if self.scheme in _WEB:
            return Server(self.scheme, self.host.lower(), self.port or _WEB[self.scheme])
        if self.scheme in SCHEMES:
            return Server(self.scheme)
        return Server(self.scheme, self.host, self.port)


def parse_location(text: str, own: Collection[Server] = ()) -> str | Url:
    r"""Return the local path or the URL that a string in an XML means.

    Parameters
    ----------
    text
        An absolute path or a URI. A path in a URI of the scheme "file" is percent-encoded.
    own
        The servers that the user named, which may have other schemes.

    Raises
    ------
    ValueError
        If it is neither a path on this machine nor a URL of a known kind of server.

    Examples
    --------
    >>> parse_location("C:\\data\\a.n5"), parse_location("FILE:///data/a%20b.n5")
    ('C:/data/a.n5', '/data/a b.n5')
    >>> str(parse_location("HTTPS://example.org/a.n5"))
    'https://example.org/a.n5'
    >>> parse_location("reference::https://example.org/a.json")
    Traceback (most recent call last):
    ValueError: its scheme is 'reference'; expected a path or a URL of az, file, gs, http, https, s3
    """
    if _CONTROL.search(text):
        raise ValueError("it has control characters; expected a path or a URL without them")
    found = _SCHEME.match(text)
    scheme = found[0].lower() if found else ""
    if scheme and scheme != "file":
        url = parse_url(text)
        if scheme not in SCHEMES and url.server not in own:
            raise ValueError(_expected(scheme))
        return url
    path = _path_in(text) if scheme else text.replace("\\", "/")
    if path.replace("\\", "/").startswith("//"):
        raise ValueError("it is the path of a network share, not of a file on this machine")
    return path


def _path_in(text: str) -> str:
    """Return the path that a URI of the scheme "file" means."""
    found = re.fullmatch(r"[^:]+:(?://(?:localhost)?)?(/.*)", text, re.IGNORECASE)
    if found is None:
        raise ValueError("expected an absolute path on this machine, such as 'file:///data/a.n5'")
    path = unquote(found[1])
    if "\0" in path:
        raise ValueError("it has a NUL; expected the path of a file")
    return path


def parse_url(text: str) -> Url:
    """Return a plain URL of any scheme.

    Raises
    ------
    ValueError
        If it is not a URL, has credentials or another URL in it, or an invalid server.
    """
    if _CONTROL.search(text) or (found := _SCHEME.match(text)) is None:
        raise ValueError("it is not a URL")
    scheme = found[0].lower()
    parts = _URL.fullmatch(text, found.end())
    if parts is None or "::" in text:
        raise ValueError(_expected(scheme))
    server = _server_in(scheme, parts[1])
    if server is None:
        raise ValueError(
            f"{parts[1][:200]!r} is not the name of a server or bucket; expected one without "
            "credentials, such as 'https://example.org/a.n5' or 's3://bucket/a.n5'"
        )
    return Url(scheme, *server, parts[2])


def _server_in(scheme: str, text: str) -> tuple[str, int | None] | None:
    """Return the host and the port, or the bucket, between a URL's scheme and path; or None."""
    if not text and scheme not in SCHEMES:
        return "", None
    if scheme == "az":
        return (text, None) if _CONTAINER.fullmatch(text) else None
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    port = None if found[2] is None else int(found[2])
    has_ports = scheme in _WEB or scheme not in SCHEMES
    valid = port is None or (has_ports and port <= _LARGEST_PORT)
    return (found[1], port) if valid else None


def _expected(scheme: str) -> str:
    known = ", ".join(sorted({"file", *SCHEMES}))
    return f"its scheme is {scheme[:40]!r}; expected a path or a URL of {known}"
