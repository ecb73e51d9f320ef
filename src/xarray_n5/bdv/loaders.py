"""Loaders of projects: the container of the views, its location, and their paths in it.

An XML may come from anybody. Only strings that `parse_location` accepts become locations, and no
library reads another scheme or server in them.

Source: BigDataViewer's XmlIoN5ImageLoader and XmlIoHdf5ImageLoader, BigStitcher's
XmlIoAllenOMEZarrLoader, MoBIE's loaders for N5 and OME-Zarr on S3.

Paths are percent-encoded and decoded as by spim_data since version 2.3 (2.3.5,
``XmlHelpers.loadPathURI`` and ``XmlIoAbstractSpimData.loadBasePathURI``), by BigDataViewer 10.6
(``XmlIoN5ImageLoader``), and by the grammar of ``java.net.URI``. They read

- a relative path as a URI reference, which must be legal: ``base.resolve(path)``;
- an absolute path with a scheme as a URI, with a backslash as what follows ``file:///``, and any
  other one as it is: ``new File(path)``.

Before version 2.3, and in ``bdv.hdf5`` and MoBIE's loaders to this day, a path is what it says:
``new File(base + "/" + path)`` of ``XmlHelpers.loadPath``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from urllib.parse import SplitResult, quote, unquote, urlsplit

from xarray_n5.bdv.xml import child_text, whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from xml.etree.ElementTree import Element

SCHEMES = frozenset({"http", "https", "s3", "gs", "az"})
"""The schemes of servers that every XML may name."""

_WEB = {"http": 80, "https": 443}
"""Schemes whose URLs name a server, and their default ports; the others name a bucket."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]+(?=:)")
"""The scheme of a URI, or a protocol of fsspec; one letter is a drive of Windows."""

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?::([0-9]{1,5}))?")

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
    match = _HOST.fullmatch(parts.netloc)
    may_have_port = parts.scheme in _WEB or parts.scheme not in SCHEMES
    return match is not None and (match[1] is None or (may_have_port and int(match[1]) < 1 << 16))


def _expected(scheme: str) -> str:
    known = ", ".join(sorted({"file", *SCHEMES}))
    return f"its scheme is {scheme[:40]!r}; expected a path or a URL of {known}"


Kind = Literal["n5", "hdf5", "zarr"]

_KINDS: dict[str, Kind] = {
    "bdv.n5": "n5",
    "bdv.n5.cloud": "n5",
    "bdv.n5.s3": "n5",
    "bdv.hdf5": "hdf5",
    "bdv.multimg.zarr": "zarr",
    "bdv.ome.zarr": "zarr",
    "bdv.ome.zarr.s3": "zarr",
    "ome.zarr": "zarr",
    "ome.zarr.s3": "zarr",
}
"""The supported formats of loaders, and the kind of the container."""

_TAGS = {"n5": ["n5"], "hdf5": ["hdf5"], "zarr": ["zarr", "ome.zarr"]}
"""The elements with the path of a container; MoBIE's is ``ome.zarr``."""

_OF_URIS = frozenset({"bdv.n5", "bdv.n5.cloud", "bdv.multimg.zarr"})
"""The loaders whose relative paths are URI references."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]+")

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


class ViewId(NamedTuple):
    """One stack of a project."""

    timepoint: int
    setup: int


@dataclass(frozen=True, slots=True)
class XmlPath:
    """A path or a URI of a container, as the XML has it."""

    target: str
    relative: bool
    """Whether `target` is a path relative to the project's base path."""
    plain: bool = False
    """Whether its writer does not percent-encode paths."""

    @property
    def is_uri(self) -> bool:
        """Whether `target` is a URI."""
        return not self.relative and _SCHEME.match(self.target) is not None

    @property
    def is_encoded(self) -> bool:
        """Whether programs that expect a plain path cannot open it."""
        return self.is_uri or (self.relative and not self.plain and "%" in self.target)

    def resolve(self, base: XmlPath) -> XmlPath:
        """Return the decoded path or URL that it means.

        Parameters
        ----------
        base
            The project's base path.
        """
        if self.is_uri:
            return XmlPath(url_of(self.target), relative=False)
        if not self.relative:
            return self
        path = path_of(self.target, plain=self.plain)
        above = path_of(base.target) if base.relative else base.resolve(base).target.rstrip("/")
        if is_encoded(above):
            path = reference_of(path)
        return XmlPath(f"{above}/{path}", relative=base.relative)

    def __str__(self) -> str:
        return self.target


@dataclass(frozen=True, slots=True)
class Bucket:
    """A location in a bucket of an S3-compatible object store."""

    name: str
    key: str
    endpoint: str | None = None
    region: str | None = None

    @property
    def target(self) -> str:
        """The place as a URL, without the server."""
        return f"s3://{self.name}/{self.key}".rstrip("/")

    def __str__(self) -> str:
        server = f" at {self.endpoint}" if self.endpoint else ""
        return f"{self.target}{server}"


@dataclass(frozen=True, slots=True)
class ZarrView:
    """A view in an OME-Zarr image, which may have more than three axes."""

    path: str
    """The path of the image's group in the container."""
    indices: tuple[int, ...] | None = None
    """The indices along the axes before z, in C order: of time, then of channels."""


@dataclass(frozen=True, slots=True)
class Loader:
    """The container of a project, as its loader describes it."""

    format: str
    version: str | None = None
    kind: Kind | None = None
    """The container's kind; None if the loader is not supported."""
    place: XmlPath | Bucket | None = None
    views: Mapping[ViewId, ZarrView] = field(default_factory=dict)
    """The views of an OME-Zarr container; empty if its root is the only image."""

    @property
    def problem(self) -> str | None:
        """Why the loader's views cannot be opened; None if they can."""
        if self.kind is not None:
            return None if self.place is not None else "the XML has no location of the container"
        if self.format.startswith("spimreconstruction."):
            return (
                f"its loader is {self.format!r}: the views are raw tiles of the microscope, which "
                "are not chunked; resave them as N5 or OME-Zarr in BigStitcher first"
            )
        known = ", ".join(_KINDS)
        return f"its loader {self.format!r} is not supported; expected one of {known}"


def read_loader(element: Element) -> Loader:
    """Return the loader in an element ``ImageLoader``.

    Raises
    ------
    ValueError
        If it has invalid numbers or names.
    """
    name, version = element.get("format") or "", element.get("version")
    kind = _KINDS.get(name)
    if kind is None:
        return Loader(name, version)
    views = dict(map(_zarr_view, element.findall("zgroups/zgroup"))) if kind == "zarr" else {}
    return Loader(name, version, kind, _place(element, kind), views)


def _place(element: Element, kind: Kind) -> XmlPath | Bucket | None:
    if bucket := child_text(element, "BucketName"):
        region = child_text(element, "SigningRegion")
        endpoint = child_text(element, "ServiceEndpoint")
        if endpoint and not _is_web_server(endpoint):
            raise ValueError(f"the ServiceEndpoint {endpoint[:200]!r} is not the URL of a server")
        return _bucket(bucket, child_text(element, "Key"), endpoint, region)
    place = next((child for tag in _TAGS[kind] if (child := element.find(tag)) is not None), None)
    target = None if place is None else child_text(element, place.tag)
    if bucket := child_text(element, "s3bucket"):
        return _bucket(bucket, target)
    if target is None:
        return None
    relative = place is not None and place.get("type") == "relative"
    return XmlPath(target, relative, plain=_has_plain_paths(element))


def _has_plain_paths(element: Element) -> bool:
    """Return whether the writer of a loader does not percent-encode paths."""
    form, version = element.get("format"), element.get("version")
    # BigDataViewer reads both versions as URIs, but wrote 1.0 before it wrote URIs.
    return form not in _OF_URIS or (form == "bdv.n5" and version == "1.0")


def _is_web_server(endpoint: str) -> bool:
    try:
        return parse_url(endpoint).is_web and not re.search(r"[\s@?#]", endpoint)
    except ValueError:
        return False


def _bucket(
    name: str, key: str | None, endpoint: str | None = None, region: str | None = None
) -> Bucket:
    if not _BUCKET.fullmatch(name) or (region and not _BUCKET.fullmatch(region)):
        raise ValueError(f"{name[:200]!r} in {region!r} is not the name of a bucket")
    return Bucket(name, (key or "").strip("/"), endpoint, region)


def _zarr_view(element: Element) -> tuple[ViewId, ZarrView]:
    timepoint = element.get("tp") or element.get("timepoint")
    at = ViewId(whole("the tp of a zgroup", timepoint), whole("its setup", element.get("setup")))
    path = (element.get("path") or child_text(element, "path") or "").replace("\\", "/")
    if ".." in path.split("/"):
        raise ValueError(f"the path {path[:200]!r} of a zgroup leads out of the container")
    listed = (element.get("indicies") or element.get("indices") or "[]").strip("[] ")
    if not listed:
        return at, ZarrView(path)
    # They count the axes after x, y and z: channels, then time.
    numbers = [whole("one of the indicies", number) for number in listed.replace(",", " ").split()]
    return at, ZarrView(path, tuple(numbers[::-1]))


def reference_of(path: str) -> str:
    """Return the URI reference that leads to a relative path.

    Characters that are legal stay, so that programs that read plain paths find most names.

    >>> reference_of("a b/c#1.n5"), reference_of("a:b.n5"), reference_of("größe+1.n5")
    ('a%20b/c%231.n5', './a:b.n5', 'größe+1.n5')
    """
    encoded = _encoded(path)
    return f"./{encoded}" if ":" in encoded.partition("/")[0] else encoded


def absolute_of(path: str) -> str:
    r"""Return an absolute local path as it is read: as it is if possible, otherwise as a URI.

    >>> absolute_of("/data/a b%20.n5"), absolute_of("/data/a\\b.n5")
    ('/data/a b%20.n5', 'file:///data/a%5Cb.n5')
    """
    plain = path == path.strip() and not re.search(rf"[\\{_UNREADABLE}]", path)
    return path if plain else Path(path).as_uri()


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


def path_of(text: str, *, plain: bool = False) -> str:
    """Return the path that a relative path of an XML means.

    Parameters
    ----------
    text
        The path, as a URI reference or as it is.
    plain
        Whether its writer wrote plain paths. An illegal URI reference is always one.

    Examples
    --------
    >>> path_of("a%20b.n5"), path_of("a%20b.n5", plain=True), path_of("100%.n5")
    ('a b.n5', 'a%20b.n5', '100%.n5')
    """
    path = text.replace("\\", "/")
    if plain or _SCHEME.match(text) is not None or _REFERENCE.fullmatch(text) is None:
        return path
    decoded = _decoded(path)
    return path if decoded is None else decoded


def url_of(uri: str) -> str:
    """Return the URL that a URI of an XML means.

    >>> url_of("s3://bucket/a%20b.n5"), url_of("https://host/a%20b.n5")
    ('s3://bucket/a b.n5', 'https://host/a%20b.n5')
    """
    server, path = _split(uri)
    decoded = None if is_encoded(uri) else _decoded(path)
    # Two colons would begin another URL in fsspec.
    return uri if decoded is None or "::" in decoded else server + decoded


def _split(url: str) -> tuple[str, str]:
    """Split a URL into its server and its path."""
    match = re.match(rf"{_SCHEME.pattern}:(?://[^/]*)?/*", url)
    server = match[0] if match else ""
    return server, url[len(server) :]


def _encoded(path: str) -> str:
    return _ILLEGAL.sub(lambda match: quote(match[0], safe=""), path)


def _decoded(path: str) -> str | None:
    """Return a decoded path; None if it cannot be one."""
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in decoded else decoded
