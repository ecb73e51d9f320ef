"""Parse the absolute locations that a project's XML names: local paths, and URLs of servers.

An XML may come from anybody. Only strings that are parsed here become locations; URLs are rebuilt
from their parts, so that no library reads another scheme or server in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SCHEMES = frozenset({"http", "https", "s3", "gs", "az"})
"""The schemes of servers that every XML may name."""

_WEB: Mapping[str, int] = MappingProxyType({"http": 80, "https": 443})
"""Schemes whose URLs name a server, and their default ports; the others name a bucket."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]+(?=:)")
"""The scheme of a URI, or a protocol of fsspec; one letter is a drive of Windows."""

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_CONTAINER = re.compile(r"[A-Za-z0-9$][A-Za-z0-9-]*")
"""A container of Azure; with dots, it could name another account."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters, some of which parsers of URLs drop."""

Server: TypeAlias = tuple[str, ...]
"""What receives a request: a server, or a kind of object store whose server the user names."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL without credentials or other URLs in it."""

    text: str
    parts: SplitResult

    def __str__(self) -> str:
        return self.text

    @property
    def origin(self) -> str:
        """The URL of the server or the bucket."""
        return f"{self.parts.scheme}://{self.parts.netloc}"

    @property
    def is_web(self) -> bool:
        """Whether it is the URL of a web server, which the URL names."""
        return self.parts.scheme in _WEB

    @property
    def server(self) -> Server:
        """The server; equal for all spellings of the same one."""
        scheme = self.parts.scheme
        if scheme in _WEB:
            return scheme, self.parts.hostname or "", str(self.parts.port or _WEB[scheme])
        return (scheme,) if scheme in SCHEMES else (scheme, self.parts.netloc)


def parse_location(text: str, servers: Collection[Server] = ()) -> str | Url:
    r"""Return the local path or the URL that a string in an XML means.

    Parameters
    ----------
    text
        An absolute path or a URI. A path in a URI of the scheme "file" is percent-encoded.
    servers
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
    scheme = _scheme_of(text)
    if scheme and scheme != "file":
        url = parse_url(text)
        if scheme not in SCHEMES and url.server not in servers:
            raise ValueError(_expected(scheme))
        return url
    path = _path_in(text) if scheme else text.replace("\\", "/")
    if path.replace("\\", "/").startswith("//"):
        raise ValueError("it is the path of a network share, not of a file on this machine")
    return path


def _path_in(text: str) -> str:
    """Return the path that a URI of the scheme "file" means."""
    match = re.fullmatch(r"[^:]+:(?://(?:localhost)?)?(/.*)", text, re.IGNORECASE)
    if match is None:
        raise ValueError("expected an absolute path on this machine, such as 'file:///data/a.n5'")
    path = unquote(match[1])
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
    scheme = _scheme_of(text)
    if not scheme or _CONTROL.search(text):
        raise ValueError("it is not a URL")
    text = scheme + text[len(scheme) :]
    if "::" in text or not text.startswith(f"{scheme}://"):
        raise ValueError(_expected(scheme))
    parts = urlsplit(text)
    if parts.scheme != scheme or not _names_server(parts):
        raise ValueError(
            f"{parts.netloc[:200]!r} is not the name of a server or bucket; expected one without "
            "credentials, such as 'https://example.org/a.n5' or 's3://bucket/a.n5'"
        )
    return Url(text, parts)


def _scheme_of(text: str) -> str:
    match = _SCHEME.match(text)
    return match[0].lower() if match else ""


def _names_server(parts: SplitResult) -> bool:
    """Return whether a URL has a plain server, or bucket, between its scheme and path."""
    if not parts.netloc:
        return parts.scheme not in SCHEMES
    if parts.scheme == "az":
        return _CONTAINER.fullmatch(parts.netloc) is not None
    host, colon, port = parts.netloc.partition(":")
    if colon:
        may_have_port = parts.scheme in _WEB or parts.scheme not in SCHEMES
        if not may_have_port or not port.isascii() or not port.isdigit() or int(port) >= 1 << 16:
            return False
    return _HOST.fullmatch(host) is not None


def _expected(scheme: str) -> str:
    known = ", ".join(sorted({"file", *SCHEMES}))
    return f"its scheme is {scheme[:40]!r}; expected a path or a URL of {known}"
