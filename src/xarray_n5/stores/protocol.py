"""The Store protocol: keys to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.model.codec import Buffer

Listing: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Sorted names of the directories and of the files directly under a prefix."""


class ObjectInfo(NamedTuple):
    """A stored file."""

    key: str
    """Its key, relative to the prefix that was listed."""
    size: int
    """Its size in bytes."""
    time: float | None
    """When it was last written, in seconds since 1970, if known."""


@runtime_checkable
class Store(Protocol):
    """Where the files of a container are kept, by key.

    A key is a "/"-separated string relative to the container, without empty parts; a prefix is
    the key of a directory, "" for the container itself. A missing key is None, a write is whole
    or not at all, and everything but "not found" raises.

    Stores are small, frozen and picklable, and hold no open handle. What a store can do beside
    these seven members is optional, and found by name: see the protocols below.
    """

    @property
    def url(self) -> str:
        """The container's URL or path, for messages; without secrets."""

    def identity(self, path: str) -> object:
        """Return a value that identifies a node, whichever parent of it is the store's root.

        It is the same in every process, and holds no secret.
        """

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None if there is no such file."""

    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key`, whole or not at all."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; missing keys are ignored."""

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`; none where nothing exists."""

    def parent(self) -> Store | None:
        """Return the store one directory up, or None if there is none."""


class Opener(Protocol):
    """A kind of store that recognises its own locations."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, Any]) -> Store | Self | None:
        """Return the store at a location that a user names, or None if it is of another kind."""


# Capabilities: what a store may offer beside the members of Store. The functions of
# stores/operations.py use them, or do the same without.


@runtime_checkable
class Layered(Protocol):
    """A store in front of another."""

    def uncached(self) -> Store:
        """Return the store behind it."""


@runtime_checkable
class GetMany(Protocol):
    """A store that reads several keys in one batch."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key."""


@runtime_checkable
class Fetch(Protocol):
    """A store that has several reads in flight."""

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and the bytes there, at most `ahead` of them in flight."""


@runtime_checkable
class ListMany(Protocol):
    """A store that lists several directories at once."""

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix."""


@runtime_checkable
class SetMany(Protocol):
    """A store that has several writes in flight."""

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        """Write or, where None is given, remove keys; iterate over those that are done."""


@runtime_checkable
class HeadMany(Protocol):
    """A store that reads the beginnings of several files at once."""

    def head_many(self, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
        """Iterate over what :meth:`Head.head` returns for each key."""


@runtime_checkable
class Head(Protocol):
    """A store that reads the beginning of a file without the rest."""

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size, or None if missing."""


@runtime_checkable
class Exists(Protocol):
    """A store that looks for a file without reading it."""

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""


@runtime_checkable
class Etag(Protocol):
    """A store that knows when a file changed."""

    def etag(self, key: str) -> object:
        """Return a value that changes whenever `key` is written; None if missing or unknown."""


@runtime_checkable
class IsFolder(Protocol):
    """A store that knows empty directories."""

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`, possibly empty."""


@runtime_checkable
class Walk(Protocol):
    """A store that lists all keys under a prefix faster than directory by directory."""

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`, relative to it."""


@runtime_checkable
class ListInfo(Protocol):
    """A store that lists files with their sizes."""

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over all files under `prefix`, with sizes and times."""


@runtime_checkable
class ListPartials(Protocol):
    """A store in which killed writes leave files."""

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys of such files under `prefix`, relative to it."""


@runtime_checkable
class DeleteTree(Protocol):
    """A store that removes directories in its own way."""

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, the key `first` in it before all else."""


@runtime_checkable
class IsLink(Protocol):
    """A store whose directories may be symbolic links."""

    def is_link(self, prefix: str) -> bool:
        """Return whether there is a symbolic link at `prefix`."""


@runtime_checkable
class ClearFolder(Protocol):
    """A store whose directories stay when they are empty."""

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory or a symbolic link; anything else stays."""


@runtime_checkable
class Fresh(Protocol):
    """A store that may return copies of former states."""

    def fresh(self) -> Store:
        """Return a store of the same container that returns its present state."""


@runtime_checkable
class WithFsync(Protocol):
    """A store whose writes may be lost in a power cut."""

    def with_fsync(self) -> Store:
        """Return a store whose writes are on disk when they return."""


@runtime_checkable
class WithLimit(Protocol):
    """A store that can refuse to read large files."""

    def with_limit(self, nbytes: int) -> Store:
        """Return a store that reads hardly more than `nbytes` of a file."""


@runtime_checkable
class Locked(Protocol):
    """A store that can keep other processes from changing a node's documents."""

    def locked(self, path: str) -> AbstractContextManager[bool]:
        """Hold a node; yield whether that worked."""
