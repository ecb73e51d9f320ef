"""A store in front of another one."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from xarray_n5.stores.base import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.base import Listing, ObjectInfo, Range

# ruff: noqa: D102 - each method calls the other store's


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

    def exclusive(self, path: str) -> AbstractContextManager[bool]:
        return self.store.exclusive(path)
