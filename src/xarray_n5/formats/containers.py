"""Resolve a user's URL to a store and a path in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.formats.hdf5.container import Hdf5Container
from xarray_n5.formats.hdf5.links import FOLLOW
from xarray_n5.formats.hdf5.signature import SUFFIXES
from xarray_n5.model.paths import join
from xarray_n5.stores import FsspecStore, LocalStore, MemoryStore
from xarray_n5.stores.base import Opener, Store

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_PATHS = frozenset({"follow_links", FOLLOW})
"""Options that local paths support."""

SUFFIX = ".n5"
"""The suffixes of containers' directories."""


STORES: Mapping[str, type[Opener]] = {
    "local": LocalStore,
    "fsspec": FsspecStore,
    "memory": MemoryStore,
}


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
    for kind in STORES.values():
        chosen = {**options, **follow} if kind is LocalStore else options
        if (store := kind.at(url, chosen)) is not None:
            return store  # type: ignore[return-value]
    if isinstance(url, Store):
        return url
    swapped = "; the data comes before the location" if hasattr(url, "__array__") else ""
    raise TypeError(
        "expected a path, a URL, an fsspec mapper, a filesystem or a pair of one and a path, or "
        f"a store; got {type(url).__name__}{swapped}"
    )


def _split_options(
    url: object, storage_options: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split storage options into those of filesystems and those of local paths."""
    options = dict(storage_options or {})
    follow = {name: options.pop(name) for name in _OF_PATHS & options.keys()}
    if options and not (isinstance(url, str) and "://" in url):
        raise TypeError(f"storage_options {sorted(options)} are for URLs; {url!r} is not a URL")
    return options, follow


def locate(
    url: object, path: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store | Hdf5Container, str]:
    """Return the HDF5 file or the store at `url`, and the path of a node in it.

    If `url` leads into a directory called ``*.n5``, or into a file, that is the container: the
    groups around a node describe its axes, however the node is named.
    """
    options = {**_split_options(url, storage_options)[1]}
    if (file := Hdf5Container.at(url, options)) is not None:
        return file, path
    store = found = open_store(url, storage_options)
    inner: list[str] = []
    while not found.name.endswith(SUFFIX):
        if (
            found.name.endswith(SUFFIXES)
            and (file := Hdf5Container.at(found.url, options)) is not None
        ):
            return file, join(*inner, path)
        up = found.parent()
        if up is None:
            return store, path
        inner.insert(0, found.name)
        found = up
    return found, join(*inner, path)
