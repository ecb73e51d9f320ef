"""Keys to bytes: where a container's files live.

A key is a "/"-separated string relative to the container. Every store keeps one contract
(``tests/test_storage.py`` holds all of them to it): a missing key is ``None``, a set is whole or
not at all, and anything but "not found" raises.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.stores.cached import CachedStore
from xarray_n5.stores.filesystems import behind_caches, is_async, of_this_process
from xarray_n5.stores.fsspec import FsspecStore
from xarray_n5.stores.local import LocalStore
from xarray_n5.stores.locking import exclusive
from xarray_n5.stores.memory import MemoryStore
from xarray_n5.stores.object_info import ObjectInfo
from xarray_n5.stores.protocol import Listing, Store
from xarray_n5.stores.requests_ import by_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xarray_n5.model.codec import Buffer

__all__ = [
    "CachedStore",
    "FsspecStore",
    "Listing",
    "LocalStore",
    "MemoryStore",
    "ObjectInfo",
    "Store",
    "bounded",
    "exclusive",
    "fresh",
    "head_many",
    "set_many",
]


def fresh(store: Store) -> Store:
    """Return a store that shows what is there now, and no copies that were made before.

    Who writes part of something reads the rest of it there.
    """
    if isinstance(store, CachedStore):
        return fresh(store.store)
    return store.fresh() if isinstance(store, FsspecStore) else store


def bounded(store: Store, most: int) -> Store:
    """Return a store that reads no more than `most` bytes for a key, from a disk or the web.

    It is for chunks, which are never remembered.
    """
    if isinstance(store, CachedStore):
        return bounded(store.store, most)
    if type(store) is LocalStore:
        return _bounded_local(store, most)
    return replace(store, limit=most) if isinstance(store, FsspecStore) else store


@functools.lru_cache(maxsize=64)
def _bounded_local(store: LocalStore, most: int) -> LocalStore:
    return replace(store, limit=most)  # which costs as much as a good part of reading a small chunk


def head_many(store: Store, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
    """Iterate over what :meth:`Store.head` says of keys; threads ask where requests wait."""
    if isinstance(store, FsspecStore) and is_async(fs := behind_caches(of_this_process(store.fs))):
        peeked = by_threads(fs, keys, store.batch, lambda key: store.head(key, count))
        return (found for _, found in peeked)
    return (store.head(key, count) for key in keys)


def set_many(store: Store, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
    """Iterate over keys of which the bytes have been replaced, or removed where they are None.

    Where the store can, at most `ahead` are under way at once.
    """
    if isinstance(store, CachedStore):
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
