"""Stores: keys to bytes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xarray_n5.model.metadata import Buffer

Listing: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Sorted names of the directories and of the files directly under a prefix."""

T = TypeVar("T")

_CALLS = 32
"""The most calls at once; each may make many requests at once, too."""

_LOCKS: WeakValueDictionary[object, Any] = WeakValueDictionary()
"""Locks of this process, by the identity of a node; an append holds one while it takes others."""
_NEW_LOCK = threading.Lock()


class ObjectInfo(NamedTuple):
    """A stored file."""

    key: str
    """Its key, relative to the prefix that was listed."""
    size: int = 0
    """Its size in bytes, if requested."""
    time: float | None = None
    """When it was last written, in seconds since 1970, if known and requested."""


class Range(NamedTuple):
    """A part of a file."""

    key: str
    start: int
    """The first byte; a negative one counts from the end of the file, and `stop` is None then."""
    stop: int | None

    def cut(self, data: bytes | None) -> bytes | None:
        """Return the part, given all of the file."""
        return None if data is None else data[self.start : self.stop]


class FilePart(NamedTuple):
    """The bytes in a range of a file."""

    data: bytes
    state: object
    """A value that changes whenever the file is written; None if the store does not report it."""


class Store(ABC):
    """Keeps the files of a container, by key.

    A key is a "/"-separated string relative to the container, without empty parts; a prefix is the
    key of a directory, "" for the container itself. A missing key is None, a write is atomic, and
    all errors but "not found" are raised.

    Stores are small, frozen and picklable, and have no open handles. The first seven members are
    required; the others use these, and are overridden where a store can do better.
    """

    __slots__ = ()

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
    def get(self, key: str, most: int | None = None) -> bytes | None:
        """Return the bytes at `key`, or None if there is no such file.

        If it has more than `most` bytes, it may be truncated, with more than `most`, or refused.
        """

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

    # Facts

    @property
    def name(self) -> str:
        """The name of the container's directory."""
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def concurrency(self) -> int:
        """The maximum number of requests that are worth making together; 1 for local files."""
        return 1

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

    def fetch(
        self, keys: Iterable[str], ahead: int, most: int | None = None
    ) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and their bytes, never from a cache; at most `ahead` in flight."""
        del ahead
        return ((key, self.get(key, most)) for key in keys)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return parts of files, fewer bytes where a file ends; None if it is missing.

        A server that sends whole files instead is an error.
        """
        whole = {key: self.get(key) for key in dict.fromkeys(part.key for part in ranges)}
        data = [part.cut(whole[part.key]) for part in ranges]
        return [None if part is None else FilePart(part, None) for part in data]

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix, listed together if the store can."""
        return [self.list(prefix) for prefix in prefixes]

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        """Write or, for None, remove keys; iterate over those that are done, in their order.

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

    def etag(self, key: str, *, free: bool = False) -> object:
        """Return a value that changes whenever `key` is written; None if missing or unknown.

        With `free`, it is also None where it takes a request.
        """
        return None if free else self.get(key)

    # Directories

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`, possibly empty."""
        return any(self.list(prefix))

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over all files under `prefix`; sizes and times may cost further requests."""
        level = [""]
        while level:
            listings = self.list_many([join(prefix, folder) for folder in level])
            below = []
            for folder, (folders, files) in zip(level, listings, strict=True):
                below += [join(folder, name) for name in folders]
                for key in (join(folder, name) for name in files):
                    head = self.head(join(prefix, key), 0) if sizes else (b"", 0)
                    if head is not None:
                        yield ObjectInfo(key, head[1])
            level = below

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, beginning with the file `first` in it.

        Of a symbolic link, only the link is removed.
        """
        keys = [join(prefix, info.key) for info in self.list_info(prefix, sizes=False)]
        if (first := join(prefix, first)) in keys:
            self.delete([first])
        self.delete(keys)

    def clear_folder(self, prefix: str) -> None:  # noqa: B027
        """Remove an empty directory or a symbolic link, if a store has these; ignore all else."""

    def fresh(self) -> Store:
        """Return a store that shows the current state, for writers of parts of a file."""
        return self

    def with_fsync(self) -> Store:
        """Return a store whose writes are on disk when they return, if that can be known."""
        return self

    @contextmanager
    def exclusive(self, path: str) -> Iterator[bool]:
        """Lock the documents of a node against changes by others.

        Entering yields whether the lock holds for all processes. It does not on object stores, on
        Windows and on mounts without locks: there, read the documents again after writing them.
        """
        with _NEW_LOCK:
            lock = _LOCKS.setdefault(self.identity(path), threading.RLock())
        with lock:
            yield False


def together(store: Store, calls: Iterable[Callable[[], T]]) -> list[T]:
    """Return the results of calls that make requests to a store, in order.

    On local files they are made one after another. Elsewhere threads make them at the same time:
    they must not change the filters of warnings, which are those of the whole process. All calls
    have ended before the first error is raised.
    """
    waiting: list[Any] = [*calls]
    if store.concurrency == 1 or len(waiting) < 2:  # noqa: PLR2004
        return [call() for call in waiting]
    with ThreadPoolExecutor(min(len(waiting), _CALLS), "xarray-n5-request") as threads:
        running = [threads.submit(call) for call in waiting]
        wait(running)
    return [future.result() for future in running]


def heads(store: Store, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
    """Iterate over the first `count` bytes of files and their sizes, several in flight."""
    waiting = iter(keys)
    while batch := list(islice(waiting, store.concurrency)):
        yield from together(store, [partial(store.head, key, count) for key in batch])
