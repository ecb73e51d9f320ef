"""Loaders of projects: the container of the views, and their paths in it.

Source: BigDataViewer's XmlIoN5ImageLoader and XmlIoHdf5ImageLoader, BigStitcher's
XmlIoAllenOMEZarrLoader, MoBIE's loaders for N5 and OME-Zarr on S3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from xarray_n5_bdv.references import parse_url
from xarray_n5_bdv.uris import SCHEME, is_encoded, paths_of, reference_of, urls_of
from xarray_n5_bdv.xml import child_text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

Kind = Literal["n5", "hdf5", "zarr"]

_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
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
)
"""The supported formats of loaders, and the kind of the container."""

_OF_URIS = frozenset({"bdv.n5", "bdv.n5.cloud", "bdv.multimg.zarr"})
"""The loaders whose relative paths are URI references."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]+")


class View(NamedTuple):
    """One stack of a project."""

    timepoint: int
    setup: int


@dataclass(frozen=True, slots=True)
class Place:
    """A path or a URI of a container, as the XML has it."""

    target: str
    relative: bool
    """Whether `target` is a path relative to the project's base path."""
    plain: bool = False
    """Whether its writer does not percent-encode paths."""

    @property
    def is_uri(self) -> bool:
        """Whether `target` is a URI."""
        return not self.relative and SCHEME.match(self.target) is not None

    @property
    def is_encoded(self) -> bool:
        """Whether programs that expect a plain path cannot open it."""
        return self.is_uri or (self.relative and not self.plain and "%" in self.target)

    def resolve(self, base: Place) -> tuple[Place, ...]:
        """Return the decoded places that it may mean, the likelier one first.

        Parameters
        ----------
        base
            The project's base path.
        """
        if self.is_uri:
            return tuple(Place(url, relative=False) for url in urls_of(self.target))
        if not self.relative and "\\" not in self.target:
            return (self,)
        paths = paths_of(self.target, plain=self.plain)
        if not self.relative:
            return tuple(Place(path, relative=False) for path in paths)
        bases = paths_of(base.target)
        if not base.relative:
            bases = tuple(each.target.rstrip("/") for each in base.resolve(base))
        if is_encoded(bases[0]):
            paths = tuple(map(reference_of, paths))
        joined = (f"{above}/{path}" for path in paths for above in bases)
        return tuple(Place(each, relative=base.relative) for each in joined)

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
    place: Place | Bucket | None = None
    views: Mapping[View, ZarrView] = field(default_factory=dict)
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


def _place(element: Element, kind: Kind) -> Place | Bucket | None:
    if bucket := child_text(element, "BucketName"):
        region = child_text(element, "SigningRegion")
        endpoint = child_text(element, "ServiceEndpoint")
        if endpoint and not _is_web_server(endpoint):
            raise ValueError(f"the ServiceEndpoint {endpoint[:200]!r} is not the URL of a server")
        return _bucket(bucket, child_text(element, "Key"), endpoint, region)
    target = child_text(element, kind)
    if bucket := child_text(element, "s3bucket"):
        return _bucket(bucket, target)
    if target is None:
        return None
    found = element.find(kind)
    relative = found is not None and found.get("type") == "relative"
    return Place(target, relative, plain=_has_plain_paths(element))


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


def _zarr_view(element: Element) -> tuple[View, ZarrView]:
    timepoint = element.get("tp") or element.get("timepoint")
    at = View(whole("the tp of a zgroup", timepoint), whole("its setup", element.get("setup")))
    path = (element.get("path") or child_text(element, "path") or "").replace("\\", "/")
    if ".." in path.split("/"):
        raise ValueError(f"the path {path[:200]!r} of a zgroup leads out of the container")
    listed = (element.get("indicies") or element.get("indices") or "[]").strip("[] ")
    if not listed:
        return at, ZarrView(path)
    # They count the axes after x, y and z: channels, then time.
    numbers = [whole("one of the indicies", each) for each in listed.replace(",", " ").split()]
    return at, ZarrView(path, tuple(numbers[::-1]))
