"""Functions on any store: what it offers itself, or else the same by the seven members of Store.

A cache in front of a store offers what the store behind it does.
"""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from xarray_n5.model.paths import join
from xarray_n5.stores import protocol
from xarray_n5.stores.protocol import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.protocol import Listing, Store

P = TypeVar("P")

_LOCKS = tuple(threading.Lock() for _ in range(64))
"""Locks of this process; each node has one of them."""


def offers(store: Any, capability: type[P]) -> TypeGuard[P]:
    """Return whether a store has the method of a capability."""
    return _has_members(type(store), capability)  # type: ignore[arg-type]


@functools.cache
def _has_members(kind: Any, capability: Any) -> bool:
    return issubclass(kind, capability)  # costs more than reading a small chunk


def uncached(store: Store) -> Store:
    """Return the store behind a cache, or the store itself."""
    return store.uncached() if offers(store, protocol.Layered) else store


# Facts


def concurrency(store: Store) -> int:
    """Return how many requests are worth having in flight at once; 1 for local files.

    A store has it as its attribute ``concurrency``.
    """
    return getattr(uncached(store), "concurrency", 1)


def name_of(store: Store) -> str:
    """Return the name of a container's directory; a store may have it as ``name``."""
    name: str | None = getattr(uncached(store), "name", None)
    return store.url.rstrip("/").rpartition("/")[2] if name is None else name


def has_complete_listings(store: Store) -> bool:
    """Return whether a file that a listing does not name, in this very spelling, does not exist.

    A store says so by its attribute ``complete_listings``. Web and FTP servers hide files, and
    some file systems ignore case.
    """
    return getattr(uncached(store), "complete_listings", False)


# Several keys at once


def get_many(store: Store, keys: Sequence[str]) -> list[bytes | None]:
    """Return the bytes at each key, read in one batch where the store can."""
    if offers(store, protocol.GetMany):
        return store.get_many(keys)
    ahead = concurrency(store)
    if offers(store, protocol.Fetch):
        return [data for _, data in store.fetch(keys, ahead)]
    return [store.get(key) for key in keys]


def fetch(store: Store, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
    """Iterate over keys and the bytes there, never from a cache; at most `ahead` in flight."""
    source = uncached(store)
    if offers(source, protocol.Fetch):
        return source.fetch(keys, ahead)
    return ((key, source.get(key)) for key in keys)


def list_many(store: Store, prefixes: Sequence[str]) -> Sequence[Listing]:
    """Return the names directly under each prefix, listed at once where the store can."""
    if offers(store, protocol.ListMany):
        return store.list_many(prefixes)
    return [store.list(prefix) for prefix in prefixes]


def set_many(store: Store, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
    """Write or, where None is given, remove keys; iterate over those that are done.

    Where the store can, at most `ahead` writes are in flight.
    """
    if offers(store, protocol.SetMany):
        yield from store.set_many(items, ahead)
        return
    for key, data in items:
        if data is None:
            store.delete([key])
        else:
            store.set(key, data)
        yield key


def head_many(store: Store, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
    """Iterate over what :func:`head` returns for each key, several at once where possible."""
    source = uncached(store)
    if offers(source, protocol.HeadMany):
        return source.head_many(keys, count)
    return (head(source, key, count) for key in keys)


# One file


def head(store: Store, key: str, count: int) -> tuple[bytes, int] | None:
    """Return the first `count` bytes at `key` and the file's size, or None if missing."""
    source = uncached(store)
    if offers(source, protocol.Head):
        return source.head(key, count)
    data = source.get(key)
    return None if data is None else (data[:count], len(data))


def exists(store: Store, key: str) -> bool:
    """Return whether there is a file at `key`."""
    return store.exists(key) if offers(store, protocol.Exists) else store.get(key) is not None


def etag(store: Store, key: str) -> object:
    """Return a value that changes whenever `key` is written; None if missing or unknown."""
    source = uncached(store)
    return source.etag(key) if offers(source, protocol.Etag) else source.get(key)


# Directories


def is_folder(store: Store, prefix: str) -> bool:
    """Return whether there is a directory at `prefix`, possibly empty."""
    return store.is_folder(prefix) if offers(store, protocol.IsFolder) else any(store.list(prefix))


def walk(store: Store, prefix: str) -> Iterator[str]:
    """Iterate over all keys under `prefix`, relative to it."""
    source = uncached(store)
    if offers(source, protocol.Walk):
        return source.walk(prefix)
    if offers(source, protocol.ListInfo):
        return (found.key for found in source.list_info(prefix))
    return _walk(source, prefix)


def _walk(store: Store, prefix: str) -> Iterator[str]:
    level = [""]
    while level:
        listings = list_many(store, [join(prefix, folder) for folder in level])
        found = list(zip(level, listings, strict=True))
        yield from (join(folder, name) for folder, (_, files) in found for name in files)
        level = [join(folder, name) for folder, (folders, _) in found for name in folders]


def list_info(store: Store, prefix: str) -> Iterator[ObjectInfo]:
    """Iterate over all files under `prefix`, with sizes and times."""
    source = uncached(store)
    if offers(source, protocol.ListInfo):
        yield from source.list_info(prefix)
        return
    for key in walk(source, prefix):
        found = head(source, join(prefix, key), 0)
        if found is not None:
            yield ObjectInfo(key, found[1], None)


def list_partials(store: Store, prefix: str) -> Iterator[str]:
    """Iterate over keys under `prefix`, relative to it, of files that killed writes left."""
    source = uncached(store)
    return source.list_partials(prefix) if offers(source, protocol.ListPartials) else iter(())


def delete_tree(store: Store, prefix: str, first: str) -> None:
    """Remove everything under `prefix`, the key `first` in it before all else.

    Of a symbolic link, only the link is removed.
    """
    if offers(store, protocol.DeleteTree):
        store.delete_tree(prefix, first)
        return
    keys = [join(prefix, key) for key in walk(store, prefix)]
    if (first := join(prefix, first)) in keys:
        store.delete([first])
    store.delete(keys)


def is_link(store: Store, prefix: str) -> bool:
    """Return whether there is a symbolic link at `prefix`; this package makes none."""
    source = uncached(store)
    return source.is_link(prefix) if offers(source, protocol.IsLink) else False


def clear_folder(store: Store, prefix: str) -> None:
    """Remove an empty directory or a symbolic link, where a store has these; all else stays."""
    source = uncached(store)
    if offers(source, protocol.ClearFolder):
        source.clear_folder(prefix)


# The same container in another way


def fresh(store: Store) -> Store:
    """Return a store that shows the present state; whoever writes part of a file reads by it."""
    return store.fresh() if offers(store, protocol.Fresh) else store


def with_fsync(store: Store) -> Store:
    """Return a store whose writes are on disk when they return, where that is known."""
    return store.with_fsync() if offers(store, protocol.WithFsync) else store


def with_limit(store: Store, nbytes: int) -> Store:
    """Return a store for chunks: never cached, and a larger file is cut off or refused."""
    source = uncached(store)
    return source.with_limit(nbytes) if offers(source, protocol.WithLimit) else source


@contextmanager
def exclusive(store: Store, path: str) -> Iterator[bool]:
    """Hold the documents of a node, so that nobody else changes them meanwhile. Do not nest it.

    Yields
    ------
    bool
        Whether that holds for all processes. It does not on object stores, on Windows and on
        mounts without locks: there, read the documents again once they are written.
    """
    source = uncached(store)
    with _LOCKS[hash(source.identity(path)) % len(_LOCKS)]:
        if offers(source, protocol.Locked):
            with source.locked(path) as alone:
                yield alone
        else:
            yield False
