"""Stores: keys to bytes; and stores in front of others."""

# ruff: noqa: D102 - the methods of Layer call those of the other store
from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from xarray_n5.model.paths import join
from xarray_n5.stores._parts import FilePart, Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.model.codec import Buffer

__all__ = ["FilePart", "Layer", "Listing", "ObjectInfo", "Range", "Store"]

Listing: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Sorted names of the directories and of the files directly under a prefix."""

_LOCKS: WeakValueDictionary[object, Any] = WeakValueDictionary()
"""Locks of this process, by the identity of a node; an append holds one while it takes others."""
_NEW_LOCK = threading.Lock()


class ObjectInfo(NamedTuple):
    """A stored file."""

    key: str
    """Its key, relative to the prefix that was listed."""
    size: int
    """Its size in bytes."""
    time: float | None
    """When it was last written, in seconds since 1970, if known."""


class Store(ABC):
    """Keeps the files of a container, by key.

    A key is a "/"-separated string relative to the container, without empty parts; a prefix is the
    key of a directory, "" for the container itself. A missing key is None, a write is atomic, and
    all errors but "not found" are raised.

    Stores are small, frozen and picklable, and have no open handles. The first seven members are
    required; the others use these, and are overridden where a store can do better.
    """

    __slots__ = ()

    concurrency: ClassVar[int] = 1
    """The number of requests that are worth having in flight; 1 for local files."""
    real_folders: ClassVar[bool] = False  # whether nothing is below a prefix without a directory

    @property
    @abstractmethod
    def url(self) -> str:
        """The container's URL or path, for messages; without secrets."""

    @abstractmethod
    def identity(self, path: str) -> object:
        """Return a value that identifies a node, whichever parent directory is the store's root.

        It is the same in every process, and contains no secrets.
        """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None if there is no such file."""

    @abstractmethod
    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key` atomically."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; missing keys are ignored."""

    @abstractmethod
    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`; none if it does not exist."""

    @abstractmethod
    def parent(self) -> Store | None:
        """Return the store one directory up, or None if there is none."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, Any]) -> Store | None:  # noqa: ARG003
        """Return the store at a location that a user names, or None if it is of another kind."""
        return location if isinstance(location, cls) else None

    def child(self, path: str) -> Store | None:  # noqa: ARG002
        """Return the store of a directory in this one, or None if that is impossible."""
        return None

    # Facts

    @property
    def name(self) -> str:
        """The name of the container's directory."""
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def most_at_once(self) -> int:
        """The maximum number of requests in flight."""
        return self.concurrency

    @property
    def complete_listings(self) -> bool:
        """Whether a file that a listing does not name exactly does not exist.

        Web and FTP servers hide files, and some file systems ignore case.
        """
        return False

    # Several keys at once

    def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Return the bytes at each key, in one batch if the store can."""
        return [data for _, data in self.fetch(keys, self.concurrency)]

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:  # noqa: ARG002
        """Iterate over keys and their bytes, never from a cache; at most `ahead` in flight."""
        return ((key, self.get(key)) for key in keys)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[bytes | None]:
        """Return the bytes of parts of files, fewer where a file ends; None if it is missing."""
        whole = {key: self.get(key) for key in dict.fromkeys(part.key for part in ranges)}
        return [part.cut(whole[part.key]) for part in ranges]

    def get_parts(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return parts of large files, with the state of each file; None if it is missing.

        A server that sends whole files instead is an error.
        """
        before = {part.key: self.stamp(part.key) for part in ranges}
        parts = zip(ranges, self.get_ranges(ranges), strict=True)
        # A file that changed meanwhile has a state of its own.
        states = {key: old if old == self.stamp(key) else object() for key, old in before.items()}
        return [None if data is None else FilePart(data, states[part.key]) for part, data in parts]

    def head_many(self, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
        """Iterate over the results of :meth:`head` for each key."""
        return (self.head(key, count) for key in keys)

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix, listed together if the store can."""
        return [self.list(prefix) for prefix in prefixes]

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:  # noqa: ARG002
        """Write or, for None, remove keys; iterate over those that are done.

        At most `ahead` writes are in flight.
        """
        for key, data in items:
            self.delete([key]) if data is None else self.set(key, data)
            yield key

    # One file

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size, or None if missing."""
        return None if (data := self.get(key)) is None else (data[:count], len(data))

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        return self.get(key) is not None

    def etag(self, key: str) -> object:
        """Return a value that changes whenever `key` is written; None if missing or unknown."""
        return self.get(key)

    def stamp(self, key: str) -> object:  # noqa: ARG002
        """Return a value that changes with each write of `key`; None if it needs a request."""
        return None

    # Directories

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`, possibly empty."""
        return any(self.list(prefix))

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`, relative to it."""
        level = [""]
        while level:
            listings = self.list_many([join(prefix, folder) for folder in level])
            found = [*zip(level, listings, strict=True)]
            yield from (join(folder, name) for folder, (_, files) in found for name in files)
            level = [join(folder, name) for folder, (folders, _) in found for name in folders]

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over all files under `prefix`, with sizes and times."""
        for key in self.walk(prefix):
            if (found := self.head(join(prefix, key), 0)) is not None:
                yield ObjectInfo(key, found[1], None)

    def list_partials(self, prefix: str) -> Iterator[str]:  # noqa: ARG002
        """Iterate over keys under `prefix`, relative to it, of files that killed writes left."""
        return iter(())

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, beginning with the key `first` in it.

        Of a symbolic link, only the link is removed.
        """
        keys = [join(prefix, key) for key in self.walk(prefix)]
        if (first := join(prefix, first)) in keys:
            self.delete([first])
        self.delete(keys)

    def is_link(self, prefix: str) -> bool:  # noqa: ARG002
        """Return whether there is a symbolic link at `prefix`; this package makes none."""
        return False

    def clear_folder(self, prefix: str) -> None:  # noqa: B027
        """Remove an empty directory or a symbolic link, if a store has these; ignore all else."""

    def uncached(self) -> Store:
        """Return the store behind a cache, or the store itself."""
        return self

    def fresh(self) -> Store:
        """Return a store that shows the current state, for writers of parts of a file."""
        return self

    def with_fsync(self) -> Store:
        """Return a store whose writes are on disk when they return, if that can be known."""
        return self

    def with_limit(self, nbytes: int) -> Store:  # noqa: ARG002
        """Return a store for chunks: never cached, and larger files are truncated or refused."""
        return self

    @contextmanager
    def exclusive(self, path: str) -> Iterator[bool]:
        """Lock the documents of a node against changes by others.

        Entering yields whether the lock holds for all processes. It does not on object stores, on
        Windows and on mounts without locks: there, read the documents again after writing them.
        """
        with _NEW_LOCK:
            lock = _LOCKS.setdefault(self.identity(path), threading.RLock())
        with lock, self._locked(path) as alone:
            yield alone

    def _locked(self, path: str) -> AbstractContextManager[bool]:  # noqa: ARG002
        """Lock a node against other processes; yield whether that worked."""
        return nullcontext(enter_result=False)


class Layer(Store):
    """A store that delegates everything to another one, unless a subclass overrides it."""

    __slots__ = ()

    @property
    @abstractmethod
    def store(self) -> Store:
        """The other store."""

    @property
    def concurrency(self) -> int:  # type: ignore[override]
        return self.store.concurrency

    @property
    def most_at_once(self) -> int:
        return self.store.most_at_once

    @property
    def url(self) -> str:
        return self.store.url

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def complete_listings(self) -> bool:
        return self.store.complete_listings

    def identity(self, path: str) -> object:
        return self.store.identity(path)

    def parent(self) -> Store | None:
        return self.store.parent()

    def child(self, path: str) -> Store | None:
        return self.store.child(path)

    def get(self, key: str) -> bytes | None:
        return self.store.get(key)

    def set(self, key: str, data: Buffer) -> None:
        self.store.set(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        self.store.delete(keys)

    def list(self, prefix: str) -> Listing:
        return self.store.list(prefix)

    def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        return self.store.get_many(keys)

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        return self.store.fetch(keys, ahead)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[bytes | None]:
        return self.store.get_ranges(ranges)

    def get_parts(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        return self.store.get_parts(ranges)

    def head_many(self, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
        return self.store.head_many(keys, count)

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        return self.store.list_many(prefixes)

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        return self.store.set_many(items, ahead)

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        return self.store.head(key, count)

    def exists(self, key: str) -> bool:
        return self.store.exists(key)

    def etag(self, key: str) -> object:
        return self.store.etag(key)

    def stamp(self, key: str) -> object:
        return self.store.stamp(key)

    def is_folder(self, prefix: str) -> bool:
        return self.store.is_folder(prefix)

    def walk(self, prefix: str) -> Iterator[str]:
        return self.store.walk(prefix)

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        return self.store.list_info(prefix)

    def list_partials(self, prefix: str) -> Iterator[str]:
        return self.store.list_partials(prefix)

    def delete_tree(self, prefix: str, first: str) -> None:
        self.store.delete_tree(prefix, first)

    def is_link(self, prefix: str) -> bool:
        return self.store.is_link(prefix)

    def clear_folder(self, prefix: str) -> None:
        self.store.clear_folder(prefix)

    @contextmanager
    def exclusive(self, path: str) -> Iterator[bool]:
        with self.store.exclusive(path) as alone:
            yield alone
