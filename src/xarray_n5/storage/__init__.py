"""Keys to bytes: where a container's files live.

A key is a "/"-separated string relative to the container. Every store keeps one contract
(``tests/test_storage.py`` holds all of them to it): a missing key is ``None``, a set is whole or
not at all, and anything but "not found" raises.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from xarray_n5.paths import join
from xarray_n5.storage.asking import by_threads
from xarray_n5.storage.filesystems import behind_caches, is_async, of_this_process
from xarray_n5.storage.found import Found
from xarray_n5.storage.fsspec import FsspecStore
from xarray_n5.storage.hdf5 import Hdf5Store
from xarray_n5.storage.hdf5_birth import SUFFIXES
from xarray_n5.storage.hdf5_links import FOLLOW
from xarray_n5.storage.local import LocalStore
from xarray_n5.storage.locking import exclusive
from xarray_n5.storage.memory import MemoryStore
from xarray_n5.storage.remembered import Remembered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.compression import Buffer

__all__ = [
    "STORES",
    "SUFFIXES",
    "Found",
    "FsspecStore",
    "Hdf5Store",
    "Listing",
    "LocalStore",
    "MemoryStore",
    "Remembered",
    "Store",
    "bounded",
    "clear_folder",
    "exclusive",
    "fresh",
    "is_link",
    "open_container",
    "open_store",
    "peek_many",
    "set_many",
]

_OF_PATHS = frozenset({"follow_links", FOLLOW})
"""Options that local paths take."""

SUFFIX = ".n5"
"""How the name of a container's directory ends."""

Listing: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Sorted names of the directories and of the files under a prefix."""


@runtime_checkable
class Store(Protocol):
    """Keys to bytes. Stores are small, frozen and picklable; they hold no open handle."""

    @property
    def batch(self) -> int:
        """How many keys are worth asking for at once; 1 where they come one by one."""

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the formats that it can hold, the usual one first."""

    @property
    def one_writer(self) -> bool:
        """Whether only one process may write."""

    @property
    def url(self) -> str:
        """Where the container is, for messages; without secrets."""

    @property
    def name(self) -> str:
        """What the container's directory is called."""

    def place(self, path: str) -> object:
        """Return what tells a node from others, whichever directory above it is the store's.

        It is the same in every process, and holds no secret.
        """

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None where there is no file."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key, fetched in one batch where the store can."""

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and the bytes there, at most `ahead` of them under way at once."""

    def peek(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key`, and how many there are; None where no file."""

    def set(self, key: str, data: Buffer) -> None:
        """Replace what is at `key`, whole or not at all."""

    def durable(self) -> Store:
        """Return a store whose writes have reached the disk when they return."""

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`, be it empty."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove keys; those that are not there do not matter."""

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, the key `first` in it before all else.

        Of a link, only the link is removed.
        """

    def list(self, prefix: str) -> Listing:
        """Return what lies directly under `prefix`; nothing where there is nothing."""

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return what lies directly under each prefix, listed at once where the store can."""

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`, relative to it."""

    def survey(self, prefix: str) -> Iterator[Found]:
        """Iterate over all files under `prefix`, with their sizes and times."""

    def partials(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys under `prefix`, relative to it, that stopped writes left."""

    def stamp(self, key: str) -> object:
        """Return what changes whenever `key` is written again, or None where that is unknown."""

    def above(self) -> Store | None:
        """Return the store one directory up; None where there is none."""


class Opener(Protocol):
    """A kind of store, which knows the places that are its own."""

    @classmethod
    def at(cls, place: object, options: Mapping[str, Any]) -> Store | Self | None:
        """Return the store at a place that a user names, or None where it is another kind's."""


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
        up = found.above()
        if up is None:
            return store, path
        inner.insert(0, found.name)
        found = up
    return found, join(*inner, path)


def fresh(store: Store) -> Store:
    """Return a store that shows what is there now, and no copies that were made before.

    Who writes part of something reads the rest of it there.
    """
    if isinstance(store, Remembered):
        return fresh(store.store)
    return store.fresh() if isinstance(store, FsspecStore) else store


def bounded(store: Store, most: int) -> Store:
    """Return a store that reads no more than `most` bytes for a key, from a disk or the web.

    It is for chunks, which are never remembered.
    """
    if isinstance(store, Remembered):
        return bounded(store.store, most)
    if type(store) is LocalStore:
        return _bounded_local(store, most)
    return replace(store, limit=most) if isinstance(store, FsspecStore) else store


@functools.lru_cache(maxsize=64)
def _bounded_local(store: LocalStore, most: int) -> LocalStore:
    return replace(store, limit=most)  # which costs as much as a good part of reading a small chunk


def peek_many(store: Store, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
    """Iterate over what :meth:`Store.peek` says of keys; threads ask where requests wait."""
    if isinstance(store, FsspecStore) and is_async(fs := behind_caches(of_this_process(store.fs))):
        peeked = by_threads(fs, keys, store.batch, lambda key: store.peek(key, count))
        return (found for _, found in peeked)
    return (store.peek(key, count) for key in keys)


def set_many(store: Store, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
    """Iterate over keys of which the bytes have been replaced, or removed where they are None.

    Where the store can, at most `ahead` are under way at once.
    """
    if isinstance(store, Remembered):
        store.forget()
        store = store.store
    if isinstance(store, FsspecStore):
        yield from store.set_many(items, ahead)
        return
    for key, data in items:
        if data is None:
            store.delete([key])
        else:
            store.set(key, data)
        yield key


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


def name_of_root(store: Store) -> str:
    """Return what a root node is called: its directory's name, but "data" in a container."""
    return "data" if not store.name or "." in store.name or ":" in store.name else store.name
