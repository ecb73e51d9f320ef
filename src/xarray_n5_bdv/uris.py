"""Percent-encode the paths of containers, and decode them, as spim_data does since version 2.3.

Source: spim_data 2.3.5, ``XmlHelpers.loadPathURI`` and ``XmlIoAbstractSpimData.loadBasePathURI``;
BigDataViewer 10.6, ``XmlIoN5ImageLoader``; the grammar of ``java.net.URI``. They read

- a relative path as a URI reference, which must be legal: ``base.resolve(path)``;
- an absolute path with a scheme as a URI, with a backslash as what follows ``file:///``, and any
  other one as it is: ``new File(path)``.

Before version 2.3, and in ``bdv.hdf5`` and MoBIE's loaders to this day, a path is what it says:
``new File(base + "/" + path)`` of ``XmlHelpers.loadPath``.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""The beginning of a URI; one letter is a drive of Windows."""

_UNREADABLE = r"\x00-\x1f\x7f-\x9f\ufffe\uffff"
"""Control characters, and those that XML cannot represent."""

_ILLEGAL = re.compile(
    f'[{_UNREADABLE} "#%<>?\\[\\\\\\]^`{{|}}'
    "\u00a0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
"""Characters that a path in a URI cannot have: of ASCII, and those that Java calls spaces."""

_REFERENCE = re.compile(f"(?:%[0-9A-Fa-f]{{2}}|{_ILLEGAL.pattern.replace('[', '[^', 1)})*")
"""A path in a URI."""

_ENCODED = re.compile(r"(?:https?|file|local):", re.IGNORECASE)
"""The schemes of URLs that are percent-encoded where they are opened."""

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
"""The beginning of an absolute path of Windows."""


def reference_of(path: str) -> str:
    """Return the URI reference that leads to a relative path.

    Characters that are legal stay, so that programs that read plain paths find most names.

    >>> reference_of("a b/c#1.n5"), reference_of("a:b.n5"), reference_of("größe+1.n5")
    ('a%20b/c%231.n5', './a:b.n5', 'größe+1.n5')
    """
    found = _encoded(path)
    return f"./{found}" if ":" in found.partition("/")[0] else found


def absolute_of(path: str) -> str:
    r"""Return an absolute local path as it is read: as it is if possible, otherwise as a URI.

    >>> absolute_of("/data/a b%20.n5"), absolute_of("C:\\data\\a.n5")
    ('/data/a b%20.n5', 'C:\\data\\a.n5')
    >>> absolute_of("/data/a\\b.n5"), absolute_of("C:\\data\\a b.n5")
    ('file:///data/a%5Cb.n5', 'file:///C:/data/a%20b.n5')
    """
    if _DRIVE.match(path):
        path = path.replace("\\", "/")
        root = "" if path.startswith("/") else "/"
        uri = f"file://{root}{_encoded(path)}"
        return uri if _ILLEGAL.search(path) else path.replace("/", "\\")
    plain = path == path.strip() and not re.search(rf"[\\{_UNREADABLE}]", path)
    return path if plain else f"file://{_encoded(path)}"


def uri_of(url: str) -> str:
    """Return the URI of an object store's URL, in which nothing is percent-encoded.

    >>> uri_of("s3://bucket/a b%20.n5"), uri_of("https://host/a%20b.n5")
    ('s3://bucket/a%20b%2520.n5', 'https://host/a%20b.n5')
    """
    server, path = _split(url)
    return url if is_encoded(url) else server + _encoded(path)


def is_encoded(url: str) -> bool:
    """Return whether a URL is percent-encoded where it is opened."""
    return _ENCODED.match(url) is not None


def paths_of(text: str, *, plain: bool = False) -> tuple[str, ...]:
    """Return the paths that a relative path of an XML may mean, the likelier one first.

    Parameters
    ----------
    text
        The path, as a URI reference or as it is.
    plain
        Whether its writer wrote plain paths. An illegal URI reference is always one.

    Examples
    --------
    >>> paths_of("a%20b.n5"), paths_of("a%20b.n5", plain=True), paths_of("100%.n5")
    (('a b.n5', 'a%20b.n5'), ('a%20b.n5', 'a b.n5'), ('100%.n5',))
    """
    path = text.replace("\\", "/")
    plain = plain or SCHEME.match(text) is not None or _REFERENCE.fullmatch(text) is None
    found = (path,) if (decoded := _decoded(path)) is None else (decoded, path)
    return tuple(dict.fromkeys(found[::-1] if plain else found))


def urls_of(uri: str) -> tuple[str, ...]:
    """Return the URLs that a URI of an XML may mean, the likelier one first.

    >>> urls_of("s3://bucket/a%20b.n5"), urls_of("https://host/a%20b.n5")
    (('s3://bucket/a b.n5', 's3://bucket/a%20b.n5'), ('https://host/a%20b.n5',))
    """
    server, path = _split(uri)
    decoded = None if is_encoded(uri) else _decoded(path)
    # Two colons would begin another URL in fsspec.
    if decoded is None or "::" in decoded:
        return (uri,)
    return tuple(dict.fromkeys((server + decoded, uri)))


def _split(url: str) -> tuple[str, str]:
    """Split a URL into its server and its path."""
    found = re.match(rf"{SCHEME.pattern}(?://[^/]*)?/*", url)
    server = found[0] if found else ""
    return server, url[len(server) :]


def _encoded(path: str) -> str:
    return _ILLEGAL.sub(lambda found: quote(found[0], safe=""), path)


def _decoded(path: str) -> str | None:
    """Return a decoded path; None if it cannot be one."""
    try:
        found = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in found else found
