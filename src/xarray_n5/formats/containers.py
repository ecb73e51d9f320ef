"""Containers: from the URL that a user names to a store and a path in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.formats.hdf5.links import FOLLOW
from xarray_n5.formats.hdf5.signature import SUFFIXES
from xarray_n5.formats.hdf5.store import Hdf5Store
from xarray_n5.model.paths import join
from xarray_n5.stores.fsspec import FsspecStore
from xarray_n5.stores.local import LocalStore
from xarray_n5.stores.memory import MemoryStore
from xarray_n5.stores.protocol import Opener, Store

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_PATHS = frozenset({"follow_links", FOLLOW})
"""Options that local paths take."""

SUFFIX = ".n5"
"""How the name of a container's directory ends."""


STORES: Mapping[str, type[Opener]] = {
    "hdf5": Hdf5Store,
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
        What fsspec's filesystem for a URL takes. Local paths take `follow_links`: whether links
        that leave the container are read; HDF5 files take `follow_external`.

    Raises
    ------
    TypeError
        If `url` is none of these, or `storage_options` come with something that is no URL.
    """
    options = dict(storage_options or {})
    follow = {name: options.pop(name) for name in _OF_PATHS & options.keys()}
    if options and not (isinstance(url, str) and "://" in url):
        raise TypeError(f"storage_options {sorted(options)} are for URLs only, not for {url!r}")
    for kind in STORES.values():
        chosen = {**options, **follow} if kind in {Hdf5Store, LocalStore} else options
        if (store := kind.at(url, chosen)) is not None:
            return store  # type: ignore[return-value]
    if isinstance(url, Store):
        return url
    swapped = "; what is written comes before the place" if hasattr(url, "__array__") else ""
    raise TypeError(
        f"a {type(url).__name__} is no place: give a path, a URL, an fsspec mapper, a filesystem "
        f"or a pair of one and a path, or a store{swapped}"
    )


def open_container(
    url: object, path: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, str]:
    """Return the store of a container, and the path of a node in it.

    Where `url` leads into a directory called ``*.n5``, that is the container: the groups around
    a node say what its axes are, whichever way it is named.
    """
    store = found = open_store(url, storage_options)
    if store.one_writer:
        return store, path  # a file is a container of its own
    inner: list[str] = []
    while not found.name.endswith(SUFFIX):
        if (
            found.name.endswith(SUFFIXES)
            and (file := Hdf5Store.at(found.url, storage_options or {})) is not None
        ):
            return file, join(*inner, path)
        up = found.parent()
        if up is None:
            return store, path
        inner.insert(0, found.name)
        found = up
    return found, join(*inner, path)


def is_link(store: Store, prefix: str) -> bool:
    """Return whether a folder that this package keeps is a symbolic link, which it never makes."""
    local = _local_part(store)
    return local is not None and local.is_link(prefix)


def clear_folder(store: Store, prefix: str) -> None:
    """Remove a folder if it is empty; of a symbolic link, the link. Object stores have neither."""
    local = _local_part(store)
    if local is not None:
        local.clear_folder(prefix)


def _local_part(store: Store) -> LocalStore | None:
    """Return the directory that hidden folders of a store are in, where it is a local one."""
    if isinstance(store, Hdf5Store):
        return store.beside
    return store if isinstance(store, LocalStore) else None
