"""Open the container that a project's XML refers to.

A path relative to the XML is followed wherever it leads; an absolute path or a URI is opened as if
the user named it. A project on a server cannot refer to local files, and cannot select the
credentials with which something is opened.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from xarray_n5.dialects.bdv.loaders import Bucket, Place
from xarray_n5.errors import MetadataError
from xarray_n5.formats import N5, keyed_formats
from xarray_n5.formats.containers import open_store
from xarray_n5.formats.hdf5.container import Hdf5Container
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.model.paths import join
from xarray_n5.stores import CachedStore, LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.datasets.projects.find import ProjectFile
    from xarray_n5.dialects.bdv.loaders import Loader
    from xarray_n5.formats.protocol import Container, KeyedFormat
    from xarray_n5.stores import Store

_RIGHTS = frozenset({"anon", "key", "secret", "token", "profile", "session", "username"})
"""Options of s3fs that select the credentials for a bucket."""

_OF_PATHS = frozenset({"follow_links", "follow_external"})


def container_of(file: ProjectFile, storage_options: Mapping[str, Any] | None = None) -> Container:
    """Return the container of a project, whose metadata are read once.

    Parameters
    ----------
    file
        The project.
    storage_options
        Options of the filesystem: of the container's if the XML is a local file, otherwise of the
        XML's, and of the container's if it is on the same server.

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
    container = Hdf5Container.at(store.url, follow) if local else None
    if container is None:
        raise MetadataError(
            f"{file.url}: the project's container {store.url!r} is not an HDF5 file on a local "
            "disk; copy it next to the XML"
        )
    return container


def _zarr_in(store: Store, loader: Loader) -> KeyedFormat:
    """Return the version of Zarr for which the first image, or the root, has documents."""
    first = next((view.path.strip("/") for view in loader.views.values()), "")
    forms = [form for form in keyed_formats() if form.name.startswith("zarr")]
    keys = {
        join(path, name): form for path in (first, "") for form in forms for name in form.documents
    }
    documents = zip(keys.values(), store.get_many(list(keys)), strict=True)
    return next((form for form, document in documents if document is not None), forms[0])


def _store_of(file: ProjectFile, loader: Loader, options: dict[str, Any]) -> Store:
    place = loader.place
    if isinstance(place, Bucket):
        return open_store(place.target, _options_of(place, file, options))
    if place is None:
        raise MetadataError(f"{file.url}: {loader.problem}")
    if file.url.startswith("http"):  # where a path is a URL's
        place = replace(place, plain=False)
    stores = [
        _relative(file, each) if each.relative else _absolute(file, each, options)
        for each in place.resolve(file.project.base_path)
    ]
    if len(stores) == 1 or file.url.startswith("http"):
        return stores[0]
    return next((each for each in stores if each.is_folder("") or each.exists("")), stores[0])


def _options_of(bucket: Bucket, file: ProjectFile, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for a bucket: anonymous, unless the user selects credentials."""
    given = {key: value for key, value in options.items() if key not in _OF_PATHS}
    if not file.is_local and not file.url.startswith("s3"):
        given = {}
    found: dict[str, Any] = {} if _RIGHTS & given.keys() else {"anon": True}
    if bucket.endpoint and "client_kwargs" not in given:
        found["endpoint_url"] = bucket.endpoint
    if bucket.region and "client_kwargs" not in given:
        found["client_kwargs"] = {"region_name": bucket.region}
    return {**found, **given}


def _relative(file: ProjectFile, place: Place) -> Store:
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
    found = None if directory is None else directory.child(join(*inner))
    if found is None:
        raise MetadataError(
            f"{file.url}: the project's container {place.target!r} is not below the directory of "
            "the XML; move it there"
        )
    return found


def _absolute(file: ProjectFile, place: Place, options: dict[str, Any]) -> Store:
    target = place.target
    local = re.sub(r"^(?:file|local):(?://)?(?=/)", "", target)
    if local != target or not place.is_uri:
        if not file.is_local:
            raise MetadataError(
                f"{file.url}: the project's container is {target!r}, a path on the machine that "
                "wrote it; copy the XML to this machine and correct the path, or make it relative"
            )
        path = unquote(local) if local != target else local.replace("\\", "/")
        follow = {key: value for key, value in options.items() if key in _OF_PATHS}
        return open_store(os.path.join(os.path.dirname(file.url), path), follow)  # noqa: PTH118, PTH120
    if not file.is_local and not _is_same_server(file.url, target):
        options = {}
    return open_store(target, {k: v for k, v in options.items() if k not in _OF_PATHS})


def _is_same_server(one: str, other: str) -> bool:
    """Return whether the credentials for one URL may be sent to the server of another."""
    first, second = urlsplit(one), urlsplit(other)
    if first.scheme != second.scheme:
        return False
    return first.scheme not in {"http", "https", "ftp"} or first.netloc == second.netloc
