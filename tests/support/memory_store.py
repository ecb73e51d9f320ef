"""A container in this process's memory."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NoReturn

from xarray_n5.stores.base import FilePart, ObjectInfo, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores.base import Listing, Range


@dataclass(frozen=True, slots=True, eq=False)
class MemoryStore(Store):
    """A dictionary of keys to bytes, for tests and for temporary containers."""

    items: dict[str, bytes] = field(default_factory=dict)
    """The files."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    """A name that distinguishes it from other stores."""
    complete_listings: ClassVar[bool] = True

    def __reduce__(self) -> NoReturn:
        # Writes to a copy in another process would be lost.
        raise TypeError(
            "a MemoryStore exists in one process; use a path or a URL that all processes can access"
        )

    @property
    def url(self) -> str:
        """The store's name as a URL."""
        return f"dict://{self.name}"

    def identity(self, path: str) -> object:
        """Return a value that identifies a node."""
        return ("memory", self.name, path)

    def get(self, key: str, most: int | None = None) -> bytes | None:
        """Return the bytes at `key`, or None."""
        del most
        return self.items.get(key)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return parts of files; the state of a file is all of its bytes."""
        wanted = [(part, self.items.get(part.key)) for part in ranges]
        return [
            None if data is None else FilePart(data[part.start : part.stop], data)
            for part, data in wanted
        ]

    def set(self, key: str, data: Buffer) -> None:
        """Replace the bytes at `key`."""
        self.items[key] = bytes(data)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove keys; missing ones are ignored."""
        for key in keys:
            self.items.pop(key, None)

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`."""
        keys = [info.key for info in self.list_info(prefix)]
        folders = {key.partition("/")[0] for key in keys if "/" in key}
        return tuple(sorted(folders)), tuple(key for key in keys if "/" not in key)

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix`."""
        del sizes
        start = f"{prefix}/" if prefix else ""
        for key, data in sorted(self.items.items()):
            if key.startswith(start):
                yield ObjectInfo(key[len(start) :], len(data))

    def parent(self) -> None:
        """Return None: it has no parent directory."""

    @contextmanager
    def exclusive(self, path: str) -> Iterator[bool]:
        """Lock a node: no other process can change anything."""
        with Store.exclusive(self, path):
            yield True
