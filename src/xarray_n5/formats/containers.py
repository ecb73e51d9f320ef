"""Resolve a user's URL to a store and a path in it, or to the scene that a file describes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.codecs.hdf5 import import_h5py
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.formats.hdf5.container import Hdf5Container
from xarray_n5.formats.hdf5.format import SUFFIXES
from xarray_n5.formats.hdf5.links import FOLLOW
from xarray_n5.formats.hdf5.opening import SIGNATURE, is_stub
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.model.paths import join
from xarray_n5.stores import ArchiveStore, FsspecStore, LocalStore
from xarray_n5.stores.archive import SUFFIXES as ARCHIVES
from xarray_n5.stores.base import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.leaves import Scene

_OF_PATHS = frozenset({"follow_links", FOLLOW})
"""Options that local paths support."""

SUFFIX = ".n5"
"""The suffixes of containers' directories."""

_SUFFIX_OF_SCENES = ".xml"

_MAX_USER_BLOCK = 1 << 15
"""The largest block of the user at the beginning of an HDF5 file."""

CONTAINERS = (KeyedContainer, Hdf5Container)
"""The kinds of containers."""

Container: TypeAlias = KeyedContainer | Hdf5Container
"""A container: nodes as metadata, chunks by index; opened once per operation.

Both kinds have the same methods. They are small, frozen and picklable, without open handles. Paths
are normalised, indices are in C order.
"""


def open_store(url: object, storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store at `url`.

    Parameters
    ----------
    url
        A path, a ``file://`` or any fsspec URL (chained ones too), an ``os.PathLike``, a UPath,
        an fsspec mapper or filesystem, a pair of a filesystem and a path, or a store.
    storage_options
        Options of fsspec's filesystem for a URL. For local paths: `follow_links`, whether to follow
        links out of the container; for HDF5 files: `follow_external`.

    Raises
    ------
    TypeError
        If `url` is none of these, or has `storage_options` and is not a URL.
    """
    options, follow = _split_options(url, storage_options)
    store: Store | None = LocalStore.at(url, {**options, **follow})
    if store is None:
        store = url if isinstance(url, Store) else FsspecStore.at(url, options)
    if store is not None:
        return _archive_at(store) or store
    swapped = "; the data comes before the location" if hasattr(url, "__array__") else ""
    raise TypeError(
        "expected a path, a URL, an fsspec mapper, a filesystem or a pair of one and a path, or "
        f"a store; got {type(url).__name__}{swapped}"
    )


def _archive_at(store: Store) -> ArchiveStore | None:
    """Return the store of an archive, if a location is named like one and is one."""
    return ArchiveStore.at(store) if store.name.lower().endswith(ARCHIVES) else None


def _split_options(
    url: object, storage_options: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split storage options into those of filesystems and those of local paths."""
    options = dict(storage_options or {})
    follow = {name: options.pop(name) for name in _OF_PATHS & options.keys()}
    if options and not (isinstance(url, str) and "://" in url):
        raise TypeError(f"storage_options {sorted(options)} are for URLs; {url!r} is not a URL")
    return options, follow


def open_hdf5(location: object, options: Mapping[str, Any]) -> Hdf5Container | None:
    """Return the container at a local path of an HDF5 file, or of a new one by its name."""
    if isinstance(location, Hdf5Container):
        return location
    local = None if isinstance(location, LocalStore) else LocalStore.at(location, {})
    if local is None or not _is_hdf5(local.root):
        return None
    import_h5py()  # a missing package is reported before anything is written
    return Hdf5Container(local.root, follow_external=bool(options.get(FOLLOW)))


def _is_hdf5(path: str) -> bool:
    """Return whether a file is HDF5; if it does not exist, whether it is named like one."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return False  # a directory; or a pipe, which would block
        if is_stub(path, status):
            return path.endswith(SUFFIXES)
        with open(path, "rb") as file:
            start = file.read(len(SIGNATURE))
            offset = 512  # after a user block, whose size is a power of two
            while start and start != SIGNATURE and offset <= _MAX_USER_BLOCK:
                file.seek(offset)
                start, offset = file.read(len(SIGNATURE)), offset * 2
            return start == SIGNATURE
    except OSError:
        return path.endswith(SUFFIXES) and not os.path.isdir(path)


def locate(
    url: object, path: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store | Hdf5Container, str]:
    """Return the HDF5 file or the store at `url`, and the path of a node in it.

    If `url` leads into a directory called ``*.n5``, or into a file, that is the container: the
    groups around a node describe its axes, however the node is named.
    """
    options = {**_split_options(url, storage_options)[1]}
    if (file := open_hdf5(url, options)) is not None:
        return file, path
    store = around = open_store(url, storage_options)
    inner: list[str] = []
    while not around.name.endswith(SUFFIX):
        if around.name.endswith(SUFFIXES) and (file := open_hdf5(around.url, options)) is not None:
            return file, join(*inner, path)
        up = around.parent()
        if up is None:
            return store, path
        inner.insert(0, around.name)
        around = up
        if (archive := _archive_at(around)) is not None:
            return archive, join(*inner, path)
    return around, join(*inner, path)


def find_scene(
    url: object, storage_options: Mapping[str, Any] | None = None, *, by_name: bool = True
) -> Scene | None:
    """Return the scene that a file describes, or None if there is no such file.

    A local file is recognised by its beginning, whatever its name. With `by_name`, others are only
    read if their name ends with ``.xml``, so that no request is made for a container.

    Raises
    ------
    MetadataError
        If it is invalid.
    """
    store = _file_at(url, storage_options, by_name=by_name)
    if store is None:
        return None
    if isinstance(store, LocalStore):
        head = store.head("", LOOK)
        if head is None or scene_reader(head[0]) is None:
            return None
    document = store.get("", MOST_BYTES)
    reader = None if document is None else scene_reader(document)
    if reader is None:
        return None
    try:
        return reader.open_scene(store, document or b"", url)
    except (ValueError, LookupError) as error:
        if isinstance(error, N5Error):
            raise
        name = getattr(reader, "__name__", type(reader).__name__)
        raise MetadataError(
            f"{store.url}: {name} cannot read the file: {type(error).__name__}: {error}; check "
            "that it is complete, and of a version that this reader knows"
        ) from error


def _file_at(
    url: object, storage_options: Mapping[str, Any] | None, *, by_name: bool
) -> Store | None:
    """Return the store of a file that may describe a scene."""
    if isinstance(url, CONTAINERS):
        return None
    follow = {k: v for k, v in (storage_options or {}).items() if k == "follow_links"}
    local = LocalStore.at(url, follow)
    if local is not None:
        return local if os.path.isfile(local.root) else None
    if isinstance(url, str):
        path = url.partition("#")[0].partition("?")[0]
        if by_name and not path.lower().endswith(_SUFFIX_OF_SCENES):
            return None
    store = open_store(url, storage_options)
    return store if not by_name or store.name.lower().endswith(_SUFFIX_OF_SCENES) else None
