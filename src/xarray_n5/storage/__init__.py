"""Keys to bytes: where a container's files live.

A key is a "/"-separated string relative to the container. Every store keeps one contract
(``tests/test_storage.py`` holds all of them to it): a missing key is ``None``, a set is whole or
not at all, and anything but "not found" raises.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from xarray_n5.storage.fsspec import FsspecStore, join, split
from xarray_n5.storage.local import LocalStore
from xarray_n5.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.compression import Buffer

__all__ = ["STORES", "FsspecStore", "Listing", "LocalStore", "MemoryStore", "Store", "open_store"]

Listing: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Sorted names of the directories and of the files under a prefix."""


@runtime_checkable
class Store(Protocol):
    """Keys to bytes. Stores are small, frozen and picklable; they hold no open handle."""

    batch: ClassVar[int]

    @property
    def url(self) -> str:
        """Where the container is, for messages and tokens; without secrets."""

    @property
    def token(self) -> object:
        """What tells this store from others, the same in every process."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None where there is nothing."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key, fetched in one batch where the store can."""

    def set(self, key: str, data: Buffer) -> None:
        """Replace what is at `key`, whole or not at all."""

    def exists(self, key: str) -> bool:
        """Return whether there is something at `key`."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove keys; those that are not there do not matter."""

    def delete_tree(self, prefix: str) -> None:
        """Remove everything under `prefix`."""

    def list(self, prefix: str) -> Listing:
        """Return what lies directly under `prefix`; nothing where there is nothing."""

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`, relative to it."""

    def stamp(self, key: str) -> object:
        """Return what changes whenever `key` is written again, or None where that is unknown."""


STORES: dict[str, type[Store]] = {
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
        an fsspec mapper, a pair of an fsspec filesystem and a path, or a store.
    storage_options
        What fsspec's filesystem for a URL takes; nothing else takes any.

    Raises
    ------
    TypeError
        If `url` is none of these, or `storage_options` come with something that is no URL.
    """
    if isinstance(url, str):
        if "::" in url or ("://" in url and not url.startswith("file://")):
            return FsspecStore.from_url(url, storage_options or {})
        path = url.removeprefix("file://")
    elif isinstance(url, (LocalStore, FsspecStore, MemoryStore)):
        return _without_options(url, storage_options)
    elif (place := split(url)) is not None:
        fs, root = place
        if not _is_local(fs):
            return _without_options(FsspecStore(fs, root), storage_options)
        path = root
    elif isinstance(url, os.PathLike):
        path = os.fspath(url)
    elif isinstance(url, Store):
        return _without_options(url, storage_options)
    else:
        raise TypeError(
            f"{url!r} is no place: give a path, a URL, an fsspec mapper, a pair of an fsspec "
            "filesystem and a path, or a store"
        )
    # The same place has one name, however it is reached: tokens depend on it.
    store = LocalStore(os.path.abspath(os.path.expanduser(os.fsdecode(path))))  # noqa: PTH100, PTH111
    return _without_options(store, storage_options)


def _is_local(fs: object) -> bool:
    return getattr(fs, "protocol", None) in {("file", "local"), "file"}


def _without_options(store: Store, options: Mapping[str, Any] | None) -> Store:
    if options:
        raise TypeError(
            f"storage_options {sorted(options)} are for URLs only, not for {store.url!r}"
        )
    return store


def place(store: Store) -> str:
    """Return the last name in a store's URL, without ``.n5``: what a root node is called."""
    name = join(store.url.replace("\\", "/")).rpartition("/")[2]
    return name.removesuffix(".n5") or "data"
