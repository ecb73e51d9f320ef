"""Cache the documents and listings of a container during one operation."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from xarray_n5.stores.base import Store
from xarray_n5.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores.base import FilePart, Listing, ObjectInfo, Range

_DOCUMENTS = frozenset(
    {"attributes.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"}
)
"""Names of files that describe nodes; chunks do not have such names."""

_NOTHING: Listing = ((), ())

_UNKNOWN: Any = object()


@dataclass(slots=True)
class _Known:
    """What a cache knows."""

    documents: dict[str, bytes | None] = field(default_factory=dict)
    """Documents, None for missing ones."""
    listings: dict[str, Listing] = field(default_factory=dict)
    """Listings, by prefix."""
    no_folders: set[str] = field(default_factory=set)
    """Prefixes without a directory."""
    parent: CachedStore | None = None
    """The cached store one directory up, once it was requested."""
    warned: set[str] = field(default_factory=set)
    """The paths of arrays that users have been warned about."""
    changes: int = 0
    """The number of writes and removals."""
    lock: Lock = field(default_factory=Lock)
    """The lock for changes of the cache; it is never held during a request."""


class CachedStore(Store):
    """A store that requests each document and each listing once.

    A cache is made for each operation, such as opening a group or writing a Dataset, and dropped
    with it: concurrent writes are not seen. What must be current, such as records of writes, is
    read by ``store.fresh()``.

    - Documents are cached, chunks and other files never; they do not use the cache either.
    - A write or removal replaces the cached entry of its key, and updates the listings above: an
    operation that reads its own writes makes no further request. A write that fails clears the
    cache.
    - A document that is not in a cached listing is missing, and so is everything below a directory
    that is not in it, if the store's listings are complete. So is everything below a prefix without
    a directory, on local disks.
    - In another process, and by :func:`uncached`, only the store itself is used.
    """

    __slots__ = ("_known", "store", "warned")

    def __init__(self, store: Store, known: _Known | None = None) -> None:
        self.store = store
        """The store behind the cache."""
        self._known = known or _Known()
        self.warned = self._known.warned
        """The paths of arrays that users have been warned about."""

    def __reduce__(self) -> tuple[object, ...]:
        return uncached, (uncached(self),)

    def __dask_tokenize__(self) -> object:
        return self.identity("")

    def __repr__(self) -> str:
        return repr(self.store)

    @property
    def url(self) -> str:
        """The URL of the store behind it."""
        return self.store.url

    @property
    def name(self) -> str:
        """The name of the container's directory."""
        return self.store.name

    @property
    def concurrency(self) -> int:
        """The maximum number of requests that are worth making together."""
        return self.store.concurrency

    @property
    def complete_listings(self) -> bool:
        """Whether a file that a listing does not name exactly does not exist."""
        return self.store.complete_listings

    def identity(self, path: str) -> object:
        """Return a value that identifies a node."""
        return self.store.identity(path)

    def fresh(self) -> Store:
        """Return the store behind it, without that store's own caches."""
        return self.store.fresh()

    def with_fsync(self) -> CachedStore:
        """Return a store with the same cache whose writes are on disk when they return."""
        return CachedStore(self.store.with_fsync(), self._known)

    def parent(self) -> CachedStore | None:
        """Return the store one directory up, which is cached, too."""
        if self._known.parent is None and (up := self.store.parent()) is not None:
            self._known.parent = CachedStore(up)
        return self._known.parent

    @contextmanager
    def exclusive(self, path: str) -> Iterator[bool]:
        """Lock the documents of a node against changes by others."""
        with self.store.exclusive(path) as alone:
            yield alone

    # Files, which are not cached

    def fetch(
        self, keys: Iterable[str], ahead: int, most: int | None = None
    ) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and their bytes."""
        return self.store.fetch(keys, ahead, most)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return parts of files."""
        return self.store.get_ranges(ranges)

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        return self.store.head(key, count)

    def etag(self, key: str, *, free: bool = False) -> object:
        """Return a value that changes whenever `key` is written."""
        return self.store.etag(key, free=free)

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over all files under `prefix`."""
        if self._listing(prefix) is _NOTHING:
            return iter(())
        return self.store.list_info(prefix, sizes=sizes)

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory or a symbolic link."""
        self.store.clear_folder(prefix)

    # Reading

    def get(self, key: str, most: int | None = None) -> bytes | None:
        """Return the bytes at `key`; those of a document as they were first read."""
        return self.store.get(key, most) if most is not None else self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key; only those that are not cached are requested."""
        before, data = self._known.changes, {key: self._document(key) for key in keys}
        unknown = [key for key, document in data.items() if document is _UNKNOWN]
        if len(unknown) == 1:
            data[unknown[0]] = self.store.get(unknown[0])
        elif unknown:
            data.update(zip(unknown, self.store.get_many(unknown), strict=True))
        documents = {key: data[key] for key in unknown if _is_document(key)}
        self._keep(self._known.documents, documents, before)
        return [data[key] for key in keys]

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`, as they were first read."""
        return self.list_many([prefix])[0]

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix; only unknown listings are requested."""
        before = self._known.changes
        listings: dict[str, Any] = {prefix: self._listing(prefix) for prefix in prefixes}
        unknown = [prefix for prefix, listing in listings.items() if listing is None]
        if len(unknown) == 1:
            listings[unknown[0]] = self.store.list(unknown[0])
        elif unknown:
            listings.update(zip(unknown, self.store.list_many(unknown), strict=True))
        self._keep(self._known.listings, {prefix: listings[prefix] for prefix in unknown}, before)
        return [listings[prefix] for prefix in prefixes]

    def _keep(self, known: dict[str, Any], read: dict[str, Any], before: int) -> None:
        """Keep what was read, unless another thread has changed the store meanwhile."""
        with self._known.lock:
            if self._known.changes == before:
                known.update(read)

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        if _is_document(key) or key in self._known.documents:
            return self.get(key) is not None
        exists = self.store.exists(key)
        if not key and not exists:
            self._known.documents[""] = None  # a container that is not a file remains so
        return exists

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        if any(self._listing(prefix) or ()):
            return True
        parent, _, name = prefix.rpartition("/")
        above = self._listing(parent) if prefix and self.store.complete_listings else None
        if above is not None:
            return name in above[0]
        if prefix in self._known.no_folders:
            return False
        before = self._known.changes
        if self.store.is_folder(prefix):
            return True
        with self._known.lock:
            if self._known.changes == before:
                self._known.no_folders.add(prefix)
        return False

    def _document(self, key: str) -> Any:
        """Return the cached entry of a key, possibly from a listing without it."""
        documents = self._known.documents
        if not _is_document(key) or key in documents:
            return documents.get(key, _UNKNOWN)
        folder, _, name = key.rpartition("/")
        listing = self._listing(folder)
        if listing is _NOTHING:
            return None
        missing = listing is not None and name not in listing[1]
        return None if missing and self.store.complete_listings else _UNKNOWN

    def _listing(self, prefix: str) -> Listing | None:
        """Return the listing of a prefix if it is cached, or follows from those above it."""
        listing, no_folders = self._known.listings.get(prefix), self._known.no_folders
        # On other stores, files may be below a prefix that is not a directory.
        if listing is None and no_folders and isinstance(uncached(self), LocalStore):
            above = (prefix, *_folders_of(prefix))
            listing = None if no_folders.isdisjoint(above) else _NOTHING
        if listing is not None or not prefix or not self.store.complete_listings:
            return listing
        parent, _, name = prefix.rpartition("/")
        outer = self._listing(parent)
        return None if outer is None or name in outer[0] else _NOTHING

    # Writing

    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key`."""
        with self._forgotten_on_error():
            self.store.set(key, data)
        self._note([(key, data)])

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        """Write or remove several keys; iterate over those that are done."""
        begun: deque[tuple[str, Buffer | None]] = deque()

        def noted() -> Iterator[tuple[str, Buffer | None]]:
            for item in items:
                begun.append(item)
                yield item

        with self._forgotten_on_error():
            for key in self.store.set_many(noted(), ahead):  # in the same order
                self._note([begun.popleft()])
                yield key

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files."""
        keys = list(keys)
        with self._forgotten_on_error():
            self.store.delete(keys)
        self._note((key, None) for key in keys)

    def _note(self, items: Iterable[tuple[str, Buffer | None]]) -> None:
        """Update the cache after keys were written, or removed (None)."""
        with self._known.lock:
            self._known.changes += 1
            for key, data in items:
                self._remove(key) if data is None else self._add(key)
                if _is_document(key):
                    self._known.documents[key] = None if data is None else bytes(data)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`."""
        with self._forgotten_on_error():
            self.store.delete_tree(prefix, first)
        if not prefix:
            self.forget()
            return
        with self._known.lock:
            self._known.changes += 1
            for known in (self._known.documents, self._known.listings):
                for key in [key for key in known if key.startswith(f"{prefix}/")]:
                    del known[key]
            self._remove(prefix)
            self._known.listings[prefix] = _NOTHING

    def forget(self) -> None:
        """Clear the cache."""
        with self._known.lock:
            self._known.changes += 1
            for known in (self._known.documents, self._known.listings, self._known.no_folders):
                known.clear()
            self._known.parent = None

    @contextmanager
    def _forgotten_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.forget()
            raise

    def _add(self, key: str) -> None:
        """Add a new file to cached listings; drop them if it is one of many, such as a chunk."""
        inner, keep = key, _is_one_of_few(key)
        for folder in _folders_of(key):
            listing = self._listing(folder)
            self._known.no_folders.discard(folder)
            name, is_file = inner.rpartition("/")[2], inner == key
            if listing is not None and name in listing[is_file]:
                return
            self._known.listings.pop(folder, None)
            if listing is not None and keep:
                names = tuple(sorted((*listing[is_file], name)))
                both = (listing[0], names) if is_file else (names, listing[1])
                self._known.listings[folder] = both
            inner = folder

    def _remove(self, key: str) -> None:
        """Remove a name from the listing above it; drop listings that become empty."""
        folder, _, name = key.rpartition("/")
        listing = self._listing(folder)
        if listing is not None and (_is_one_of_few(key) or name in listing[0]):
            folders, files = (tuple(n for n in names if n != name) for names in listing)
            if folders or files:
                self._known.listings[folder] = (folders, files)
                return
        for prefix in _folders_of(key):
            self._known.listings.pop(prefix, None)


def uncached(store: Store) -> Store:
    """Return the store behind a cache, or the store itself."""
    while isinstance(store, CachedStore):
        store = store.store
    return store


def _folders_of(key: str) -> Iterator[str]:
    """Iterate over the parent prefixes of a key, the innermost first."""
    while key:
        key = key.rpartition("/")[0]
        yield key


def _is_document(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name in _DOCUMENTS or name.endswith(".xml")


def _is_one_of_few(key: str) -> bool:
    """Return whether listings can be kept up to date with a key: not with every chunk."""
    return _is_document(key) or "/." in f"/{key}"
