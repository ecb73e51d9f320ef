"""What a store is: keys to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.object_info import ObjectInfo

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

    def identity(self, path: str) -> object:
        """Return what tells a node from others, whichever directory above it is the store's.

        It is the same in every process, and holds no secret.
        """

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None where there is no file."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key, fetched in one batch where the store can."""

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and the bytes there, at most `ahead` of them under way at once."""

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key`, and how many there are; None where no file."""

    def set(self, key: str, data: Buffer) -> None:
        """Replace what is at `key`, whole or not at all."""

    def with_fsync(self) -> Store:
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

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over all files under `prefix`, with their sizes and times."""

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys under `prefix`, relative to it, that stopped writes left."""

    def etag(self, key: str) -> object:
        """Return what changes whenever `key` is written again, or None where that is unknown."""

    def parent(self) -> Store | None:
        """Return the store one directory up; None where there is none."""


class Opener(Protocol):
    """A kind of store, which knows the places that are its own."""

    @classmethod
    def at(cls, place: object, options: Mapping[str, Any]) -> Store | Self | None:
        """Return the store at a place that a user names, or None where it is another kind's."""
