"""Documents and listings that are asked for once: a look at a container as it was then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xarray_n5.model.paths import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.object_info import ObjectInfo
    from xarray_n5.stores.protocol import Listing, Store

_DOCUMENTS = frozenset({"attributes.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
"""What nodes' documents are called; no chunk is called so."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedStore:
    """A store that reads each document once, and lists each group once; for reading.

    What does not fit into that goes to the store behind it: chunks are never kept, and another
    process gets the store itself. What is written through it makes it forget everything.
    """

    store: Store
    """Where all is."""
    documents: dict[str, bytes | None] = field(default_factory=dict)
    """What has been read, None where there was nothing."""
    listings: dict[str, Listing] = field(default_factory=dict)
    """What has been listed."""
    around: list[CachedStore | None] = field(default_factory=list)
    """The store one directory up, once it has been asked for."""
    warned: set[str] = field(default_factory=set)
    """The paths of arrays that have been warned of."""

    def __reduce__(self) -> tuple[object, ...]:
        return _itself, (self.store,)

    def __dask_tokenize__(self) -> object:
        return self.identity("")

    def __repr__(self) -> str:
        return repr(self.store)

    @property
    def batch(self) -> int:
        """As of the store behind it."""
        return self.store.batch

    @property
    def formats(self) -> tuple[str, ...]:
        """As of the store behind it."""
        return self.store.formats

    @property
    def one_writer(self) -> bool:
        """As of the store behind it."""
        return self.store.one_writer

    @property
    def url(self) -> str:
        """Where the container is."""
        return self.store.url

    @property
    def name(self) -> str:
        """What the container's directory is called."""
        return self.store.name

    def identity(self, path: str) -> object:
        """Return what tells a node from others, remembered or not."""
        return self.store.identity(path)

    # What is remembered

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`; of a document, those that were there the first time."""
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key; what has been read is not asked for again."""
        absent = list(dict.fromkeys(key for key in keys if key not in self.documents))
        one = [self.store.get(absent[0])] if len(absent) == 1 else None
        found = dict(zip(absent, one or self.store.get_many(absent), strict=True)) if absent else {}
        self.documents.update({key: data for key, data in found.items() if _is_document(key)})
        return [found[key] if key in found else self.documents[key] for key in keys]

    def list(self, prefix: str) -> Listing:
        """Return what lay directly under `prefix` the first time."""
        return self.list_many([prefix])[0]

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return what lay directly under each prefix the first time."""
        absent = list(dict.fromkeys(each for each in prefixes if each not in self.listings))
        if len(absent) == 1:
            self.listings[absent[0]] = self.store.list(absent[0])
        elif absent:
            self.listings.update(zip(absent, self.store.list_many(absent), strict=True))
        return [self.listings[each] for each in prefixes]

    def parent(self) -> CachedStore | None:
        """Return the store one directory up, which remembers, too."""
        if not self.around:
            up = self.store.parent()
            self.around.append(None if up is None else CachedStore(up))
        return self.around[0]

    # What is not

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and the bytes there."""
        return self.store.fetch(keys, ahead)

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first bytes at `key`, and how many there are."""
        return self.store.head(key, count)

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        return self.store.exists(key)

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        return self.store.is_folder(prefix)

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`."""
        return self.store.walk(prefix)

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over all files under `prefix`."""
        return self.store.list_info(prefix)

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over what stopped writes left."""
        return self.store.list_partials(prefix)

    def etag(self, key: str) -> object:
        """Return what changes whenever `key` is written again."""
        return self.store.etag(key)

    def with_fsync(self) -> Store:
        """Return the store behind it, whose writes last."""
        return self.store.with_fsync()

    def set(self, key: str, data: Buffer) -> None:
        """Replace what is at `key`."""
        self.forget()
        self.store.set(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove keys."""
        self.forget()
        self.store.delete(keys)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`."""
        self.forget()
        self.store.delete_tree(prefix, first)

    def forget(self) -> None:
        """Ask for everything anew."""
        self.documents.clear()
        self.listings.clear()
        self.around.clear()


def _itself(store: Store) -> Store:
    return store


def _is_document(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name == UNFINISHED or name in _DOCUMENTS or name.endswith(".xml")
