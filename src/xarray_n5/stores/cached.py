"""Cache the documents and listings of a container during one operation."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from xarray_n5.stores.base import Layer, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.base import Listing

_DOCUMENTS = frozenset(
    {"attributes.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"}
)
"""Names of files that describe nodes; chunks do not have such names."""

_NOTHING: Listing = ((), ())

_UNKNOWN: Any = object()


@dataclass(frozen=True, slots=True, eq=False)
class CachedStore(Layer):
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
    a directory, if the store has real ones.
    - In another process, and behind ``store.uncached()``, only the store itself is used.
    """

    store: Store
    """The store behind the cache."""
    documents: dict[str, bytes | None] = field(default_factory=dict)
    """Cached documents, None for missing ones."""
    listings: dict[str, Listing] = field(default_factory=dict)
    """Cached listings, by prefix."""
    no_folders: set[str] = field(default_factory=set)
    """Prefixes without a directory."""
    around: list[CachedStore | None] = field(default_factory=list)
    """The cached store one directory up, once it was requested."""
    warned: set[str] = field(default_factory=set)
    """The paths of arrays that users have been warned about."""
    changed: list[int] = field(default_factory=lambda: [0])
    """The number of writes and removals."""
    lock: Lock = field(default_factory=Lock, repr=False)
    """The lock for changes of the cache; it is never held during a request."""

    def __reduce__(self) -> tuple[object, ...]:
        return Store.uncached, (self.uncached(),)

    def __dask_tokenize__(self) -> object:
        return self.identity("")

    def __repr__(self) -> str:
        return repr(self.store)

    def uncached(self) -> Store:
        """Return the store behind it."""
        return self.store.uncached()

    def fresh(self) -> Store:
        """Return the store behind it, without that store's own caches."""
        return self.store.fresh()

    def with_limit(self, nbytes: int) -> Store:
        """Return the store behind it, for chunks."""
        return self.store.with_limit(nbytes)

    def with_fsync(self) -> CachedStore:
        """Return a store with the same cache whose writes are on disk when they return."""
        return replace(self, store=self.store.with_fsync())

    def parent(self) -> CachedStore | None:
        """Return the store one directory up, which is cached, too."""
        if not self.around:
            up = self.store.parent()
            self.around.append(None if up is None else CachedStore(up))
        return self.around[0]

    # Reading

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`; those of a document as they were first read."""
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key; only those that are not cached are requested."""
        before, found = self._changes(), {key: self._known(key) for key in keys}
        unknown = [key for key, data in found.items() if data is _UNKNOWN]
        if len(unknown) == 1:
            found[unknown[0]] = self.store.get(unknown[0])
        elif unknown:
            found.update(zip(unknown, self.store.get_many(unknown), strict=True))
        self._keep(self.documents, {k: found[k] for k in unknown if _is_document(k)}, before)
        return [found[key] for key in keys]

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`, as they were first read."""
        return self.list_many([prefix])[0]

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix; only unknown listings are requested."""
        before = self._changes()
        found: dict[str, Any] = {prefix: self._listing(prefix) for prefix in prefixes}
        unknown = [prefix for prefix, listing in found.items() if listing is None]
        if len(unknown) == 1:
            found[unknown[0]] = self.store.list(unknown[0])
        elif unknown:
            found.update(zip(unknown, self.store.list_many(unknown), strict=True))
        self._keep(self.listings, {prefix: found[prefix] for prefix in unknown}, before)
        return [found[prefix] for prefix in prefixes]

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`, which are not cached."""
        return iter(()) if self._listing(prefix) is _NOTHING else self.store.walk(prefix)

    def _changes(self) -> int:
        """Return how often this store has been changed."""
        return self.changed[0]

    def _keep(self, known: dict[str, Any], found: dict[str, Any], before: int) -> None:
        """Keep what was read, unless another thread has changed the store meanwhile."""
        with self.lock:
            if self.changed[0] == before:
                known.update(found)

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        if _is_document(key) or key in self.documents:
            return self.get(key) is not None
        found = self.store.exists(key)
        if not key and not found:
            self.documents[""] = None  # a container that is not a file remains so
        return found

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        if any(self._listing(prefix) or ()):
            return True
        parent, _, name = prefix.rpartition("/")
        above = self._listing(parent) if prefix and self.store.complete_listings else None
        if above is not None:
            return name in above[0]
        if prefix in self.no_folders:
            return False
        before = self._changes()
        if self.store.is_folder(prefix):
            return True
        with self.lock:
            if self.changed[0] == before:
                self.no_folders.add(prefix)
        return False

    def _known(self, key: str) -> Any:
        """Return the cached entry of a key, possibly from a listing without it."""
        if not _is_document(key) or key in self.documents:
            return self.documents.get(key, _UNKNOWN)
        folder, _, name = key.rpartition("/")
        listing = self._listing(folder)
        if listing is _NOTHING:
            return None
        missing = listing is not None and name not in listing[1]
        return None if missing and self.store.complete_listings else _UNKNOWN

    def _listing(self, prefix: str) -> Listing | None:
        """Return the listing of a prefix if it is cached, or follows from those above it."""
        found = self.listings.get(prefix)
        if found is None and self.no_folders and self.store.real_folders:
            found = (
                _NOTHING if self.no_folders.intersection((prefix, *_folders_of(prefix))) else None
            )
        if found is not None or not prefix or not self.store.complete_listings:
            return found
        parent, _, name = prefix.rpartition("/")
        above = self._listing(parent)
        return None if above is None or name in above[0] else _NOTHING

    # Writing

    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key`."""
        with self._forgotten_on_error():
            self.store.set(key, data)
        with self.lock:
            self.changed[0] += 1
            self._add(key)
            if _is_document(key):
                self.documents[key] = bytes(data)

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        """Write or remove several keys; iterate over those that are done."""
        removed = set()

        def noted() -> Iterator[tuple[str, Buffer | None]]:
            for key, data in items:
                if data is None:
                    removed.add(key)
                yield key, data

        with self._forgotten_on_error():
            for key in self.store.set_many(noted(), ahead):
                with self.lock:
                    self.changed[0] += 1
                    self.documents.pop(key, None)
                    self._remove(key) if key in removed else self._add(key)
                yield key

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files."""
        keys = list(keys)
        with self._forgotten_on_error():
            self.store.delete(keys)
        with self.lock:
            self.changed[0] += 1
            for key in keys:
                self._remove(key)
                if _is_document(key):
                    self.documents[key] = None

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`."""
        with self._forgotten_on_error():
            self.store.delete_tree(prefix, first)
        if not prefix:
            self.forget()
            return
        with self.lock:
            self.changed[0] += 1
            for known in (self.documents, self.listings):
                for key in [key for key in known if key.startswith(f"{prefix}/")]:
                    del known[key]
            self._remove(prefix)
            self.listings[prefix] = _NOTHING

    def forget(self) -> None:
        """Clear the cache."""
        with self.lock:
            self.changed[0] += 1
            for known in (self.documents, self.listings, self.no_folders, self.around):
                known.clear()

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
            self.no_folders.discard(folder)
            name, is_file = inner.rpartition("/")[2], inner == key
            if listing is not None and _has(listing[is_file], name):
                return
            if listing is not None and keep:
                names = tuple(sorted((*listing[is_file], name)))
                self.listings[folder] = (listing[0], names) if is_file else (names, listing[1])
            else:
                self.listings.pop(folder, None)
            inner = folder

    def _remove(self, key: str) -> None:
        """Remove a name from the listing above it; drop listings that become empty."""
        folder, _, name = key.rpartition("/")
        listing = self._listing(folder)
        if listing is not None and (_is_one_of_few(key) or _has(listing[0], name)):
            folders, files = (tuple(each for each in names if each != name) for names in listing)
            if folders or files:
                self.listings[folder] = (folders, files)
                return
        for each in _folders_of(key):
            self.listings.pop(each, None)


def _folders_of(key: str) -> Iterator[str]:
    """Iterate over the parent prefixes of a key, the innermost first."""
    while key:
        key = key.rpartition("/")[0]
        yield key


def _has(names: tuple[str, ...], name: str) -> bool:
    """Return whether a name is among sorted names, of which there may be very many."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


def _is_document(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name in _DOCUMENTS or name.endswith(".xml")


def _is_one_of_few(key: str) -> bool:
    """Return whether listings can be kept up to date with a key: not with every chunk."""
    return _is_document(key) or "/." in f"/{key}"
