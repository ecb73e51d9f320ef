"""The XML file of a project, and the container that it refers to.

A path relative to the XML is followed on the disk or the server of the XML. An absolute path is for
an XML on the same disk. A URL may name a server of a known kind, which gets the user's credentials
only if the user named it: as that of the XML, or as `endpoint_url`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xarray_n5.bdv.loaders import Bucket, Url, XmlPath, parse_location, parse_url
from xarray_n5.errors import MetadataError
from xarray_n5.formats import KEYED_FORMATS, N5
from xarray_n5.formats.containers import open_hdf5, open_store
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import join
from xarray_n5.stores import CachedStore, FsspecStore, LocalStore, anonymous_options
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.bdv.loaders import Loader, Server
    from xarray_n5.bdv.project import Project
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import KeyedFormat
    from xarray_n5.stores import Store

_RIGHTS = frozenset({"anon", "key", "secret", "token", "profile", "session", "username"})
"""Options of s3fs that select the credentials for a bucket."""

_OF_PATHS = frozenset({"follow_links", "follow_external"})

_ASKED = 8
"""The maximum number of images of which the version of Zarr is looked up; views may be missing."""

_ENDING = re.compile(r"\.xml(?:~\d+)?$", re.IGNORECASE)
"""The suffix of a project's name; BigStitcher numbers its backups: ``dataset.xml~1``."""


@dataclass(frozen=True)
class ProjectFile:
    """An XML file, and the project that it describes."""

    store: Store
    """The file, as a store whose root it is."""
    project: Project
    source: object
    """The file as the user named it."""

    @property
    def url(self) -> str:
        """The file's location."""
        return self.store.url

    @property
    def name(self) -> str:
        """The file's name without its suffix, or that of a backup: the name of variables."""
        return _ENDING.sub("", self.store.name) or self.store.name

    @property
    def is_local(self) -> bool:
        """Whether the file is on a local disk."""
        return isinstance(self.store, LocalStore)


def container_of(file: ProjectFile, storage_options: Mapping[str, Any] | None = None) -> Container:
    """Return the container of a project, whose metadata are read once.

    Parameters
    ----------
    file
        The project.
    storage_options
        Options of the filesystem: of the container's if the XML is a local file, otherwise of the
        XML's. A web server that the XML names gets them if `endpoint_url` is its URL.

    Raises
    ------
    MetadataError
        If the loader is not supported, or refers to a location that is not allowed.
    """
    loader = file.project.loader
    if loader is None:
        raise MetadataError(f"{file.url}: the project has no ImageLoader: there are no views")
    if (problem := loader.problem) is not None:
        raise MetadataError(f"{file.url}: {problem}")
    options = dict(storage_options or {})
    try:
        store = _store_of(file, loader, options)
    except (OSError, ValueError, ImportError) as error:
        error.add_note(f"the project {file.url!r} refers to the container {str(loader.place)!r}")
        raise
    if loader.kind != "hdf5":
        cached = CachedStore(store)
        form = _zarr_in(cached, loader) if loader.kind == "zarr" else N5()
        return KeyedContainer(cached, form)
    follow = {"follow_external": bool(options.get("follow_external"))}
    local = isinstance(store, LocalStore)
    container = open_hdf5(Path(store.url), follow) if local else None
    if container is None:
        raise _not_local(file, store.url)
    return container


def check_location(store: Store, source: object, place: XmlPath) -> None:
    """Raise if a project's XML at `store` could not be opened because of its container's path.

    Raises
    ------
    MetadataError
        If it is not relative to the XML and on a kind of filesystem that no XML may name.
    """
    if not place.relative:
        _parse(store.url, place.target, _servers_of(store, source))


def _zarr_in(store: Store, loader: Loader) -> KeyedFormat:
    """Return the version of Zarr for which one of the first images, or the root, has documents."""
    first = [view.path.strip("/") for view in islice(loader.views.values(), _ASKED)]
    forms = [form for form in KEYED_FORMATS if form.name.startswith("zarr")]
    keys = {
        join(path, name): form for path in [*first, ""] for form in forms for name in form.documents
    }
    documents = zip(keys.values(), store.get_many(list(keys)), strict=True)
    return next((form for form, document in documents if document is not None), forms[0])


def _not_local(file: ProjectFile, url: str) -> MetadataError:
    return MetadataError(
        f"{file.url}: the project's container {url!r} is not an HDF5 file on a local disk; copy it "
        "next to the XML"
    )


def _store_of(file: ProjectFile, loader: Loader, options: dict[str, Any]) -> Store:
    place = loader.place
    if isinstance(place, Bucket) and loader.kind == "hdf5":
        raise _not_local(file, str(place))
    if isinstance(place, Bucket):
        return _in_bucket(file, place, options)
    if place is None:
        raise MetadataError(f"{file.url}: {loader.problem}")
    if file.url.startswith("http"):  # where paths are those of URLs
        place = replace(place, plain=False)
    place = place.resolve(file.project.base_path)
    return _relative(file, place) if place.relative else _absolute(file, place, options)


def _relative(file: ProjectFile, place: XmlPath) -> Store:
    """Return the store of a path that is relative to the XML's directory."""
    directory = file.store.parent()
    path = place.target.replace(os.sep, "/")
    inner: list[str] = []
    for part in path.split("/"):
        if part == ".." and inner:
            inner.pop()
        elif part == "..":
            directory = None if directory is None else directory.parent()
        elif part not in {"", "."}:
            inner.append(part)
    if not isinstance(directory, LocalStore | FsspecStore):
        raise MetadataError(
            f"{file.url}: the project's container {place.target!r} is not below the directory of "
            "the XML; move it there"
        )
    return directory.child(join(*inner))


def _absolute(file: ProjectFile, place: XmlPath, options: dict[str, Any]) -> Store:
    """Return the store at an absolute path or a URL."""
    location = _parse(file.url, place.target, _servers_of(file.store, file.source))
    if isinstance(location, Url):
        loader = file.project.loader
        if loader is not None and loader.kind == "hdf5":
            raise _not_local(file, str(location))
        return _on_server(file, location, options)
    if not file.is_local:
        raise MetadataError(
            f"{file.url}: the project's container is {place.target!r}, a path on the machine that "
            "wrote it; copy the XML to this machine and correct the path, or make it relative"
        )
    follow = {key: value for key, value in options.items() if key in _OF_PATHS}
    return open_store(Path(file.url).parent / location, follow)


def _parse(xml: str, target: str, servers: Collection[Server]) -> str | Url:
    try:
        return parse_location(target, servers)
    except ValueError as error:
        raise MetadataError(
            f"{xml}: the project's container {redact_urls(target[:200])!r} is not opened: {error}"
        ) from error


def _servers_of(store: Store, source: object) -> set[Server]:
    """Return the server that the user named as that of an XML, under its names; none on disks."""
    servers = set()
    for url in (store.url, source):
        if isinstance(store, FsspecStore) and isinstance(url, str):
            with suppress(ValueError):
                servers.add(parse_url(url).server)
    return servers


def _on_server(file: ProjectFile, url: Url, options: Mapping[str, Any]) -> Store:
    """Return the store at a URL, with the user's options if the user named its server."""
    given = _of_servers(options)
    if file.is_local and not url.is_web:
        return open_store(str(url), given)
    if file.is_local:
        if _leads_to(given.pop("endpoint_url", ""), url):
            return open_store(str(url), given)
        _warn_withheld(file, url.origin, given)
    elif (store := _on_own_server(file, url)) is not None:
        return store
    anonymous = anonymous_options(str(url))
    if anonymous is None:
        raise MetadataError(
            f"{file.url}: the project's container is {str(url)!r}, on a server that only you can "
            "name; open a copy of the XML on this machine"
        )
    return open_store(str(url), anonymous)


def _leads_to(endpoint: object, url: Url) -> bool:
    """Return whether the user's `endpoint_url` is the server of a URL."""
    try:
        return parse_url(str(endpoint)).server == url.server
    except ValueError:
        return False


def _on_own_server(file: ProjectFile, url: Url) -> Store | None:
    """Return the store at a URL on the XML's own filesystem, which has the user's options."""
    store = file.store
    if not isinstance(store, FsspecStore) or url.server not in _servers_of(store, file.source):
        return None
    return store.at_url(str(url))


def _in_bucket(file: ProjectFile, bucket: Bucket, options: Mapping[str, Any]) -> Store:
    """Return the store of a bucket: anonymous, unless the user selects credentials.

    The XML's endpoint gets no credentials: only one that the user names, which replaces it.
    """
    url = _parse(file.url, bucket.target, ())
    is_own = isinstance(url, Url) and url.server in _servers_of(file.store, file.source)
    given = _of_servers(options) if file.is_local or is_own else {}
    if bucket.endpoint and "endpoint_url" not in {**given, **(given.get("client_kwargs") or {})}:
        if file.is_local:
            _warn_withheld(file, bucket.endpoint, given)
        given = {"endpoint_url": bucket.endpoint}
    added: dict[str, Any] = {} if _RIGHTS & given.keys() else {"anon": True}
    if bucket.region and "client_kwargs" not in given:
        added["client_kwargs"] = {"region_name": bucket.region}
    return open_store(str(url), {**added, **given})


def _of_servers(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those of local paths."""
    return {key: value for key, value in options.items() if key not in _OF_PATHS}


def _warn_withheld(file: ProjectFile, server: str, options: Mapping[str, Any]) -> None:
    """Warn that a server gets no options, because only the XML names it."""
    if withheld := sorted(options.keys() - {"anon"}):
        warn(
            f"{file.url}: {server} is named by the XML alone, so it is asked anonymously, without "
            f"the storage_options {withheld}; if you trust it with them, add the storage option "
            f"endpoint_url={server!r}"
        )
