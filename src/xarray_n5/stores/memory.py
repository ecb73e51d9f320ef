"""A container in this process's memory."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from xarray_n5.model.paths import join
from xarray_n5.stores.object_info import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.protocol import Listing


@dataclass(frozen=True, slots=True, eq=False)
class MemoryStore:
    """A dictionary of keys to bytes, for tests and for containers that need not last."""

    items: dict[str, bytes] = field(default_factory=dict)
    """What is stored."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    """What tells this store from others."""
    batch: ClassVar[int] = 1
    """How many keys are worth asking for at once."""
    formats: ClassVar[tuple[str, ...]] = ("n5", "zarr2")
    one_writer: ClassVar[bool] = False

    @classmethod
    def at(cls, place: object, options: Mapping[str, Any]) -> Self | None:  # noqa: ARG003
        """Return the store itself: no other place is in this process's memory."""
        return place if isinstance(place, cls) else None

    @property
    def url(self) -> str:
        """The store's name as a URL."""
        return f"dict://{self.name}"

    def identity(self, path: str) -> object:
        """Return what tells a node from others."""
        return ("memory", self.name, path)

    def __reduce__(self) -> NoReturn:
        # A copy in another process would take writes that nobody ever sees.
        raise TypeError(
            "a MemoryStore lives in one process; use a path or a URL that all processes reach"
        )

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`, or None."""
        return self.items.get(key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key."""
        return [self.items.get(key) for key in keys]

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:  # noqa: ARG002
        """Iterate over keys and the bytes there, one by one."""
        return ((key, self.get(key)) for key in keys)

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first bytes at `key`, and how many there are."""
        data = self.items.get(key)
        return None if data is None else (data[:count], len(data))

    def with_fsync(self) -> Self:
        """Return the store itself: memory outlives nothing."""
        return self

    def set(self, key: str, data: Buffer) -> None:
        """Replace the bytes at `key`."""
        self.items[key] = bytes(data)

    def exists(self, key: str) -> bool:
        """Return whether there are bytes at `key`."""
        return key in self.items

    def is_folder(self, prefix: str) -> bool:
        """Return whether there are keys under `prefix`."""
        return next(self.walk(prefix), None) is not None

    def delete(self, keys: Iterable[str]) -> None:
        """Remove keys."""
        for key in keys:
            self.items.pop(key, None)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove all keys under `prefix`, `first` before all else."""
        self.delete([join(prefix, first)])
        self.delete([join(prefix, key) for key in self.walk(prefix)])

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`."""
        keys = list(self.walk(prefix))
        folders = {key.partition("/")[0] for key in keys if "/" in key}
        return tuple(sorted(folders)), tuple(sorted(key for key in keys if "/" not in key))

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return what lies directly under each prefix."""
        return [self.list(prefix) for prefix in prefixes]

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys under `prefix`, relative to it."""
        start = f"{prefix}/" if prefix else ""
        for key in sorted(self.items):
            if key.startswith(start):
                yield key[len(start) :]

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over keys under `prefix`, with their sizes."""
        for key in self.walk(prefix):
            yield ObjectInfo(key, len(self.items[join(prefix, key)]), None)

    def list_partials(self, prefix: str) -> Iterator[str]:  # noqa: ARG002
        """Iterate over nothing: writes are whole."""
        return iter(())

    def parent(self) -> None:
        """Return None: nothing is around it."""

    def etag(self, key: str) -> object:
        """Return what is stored: it is at hand."""
        return self.items.get(key)
