"""The hidden directory beside an HDF5 file with the markers, receipts and digests of writes."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from xarray_n5.formats.hdf5.signature import stamp_of
from xarray_n5.model.paths import PLANNED, UNFINISHED, WRITING, join
from xarray_n5.stores.local import LocalStore
from xarray_n5.stores.protocol import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.protocol import Listing

_MARKER = re.compile(rf"(.*/)?(?:{re.escape(WRITING)}|{re.escape(PLANNED)})[^/]+(?=/)", re.DOTALL)
"""The folder of a marker, at the beginning of a key in it."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The directory of one file; it disappears with the last file in it.

    What it holds of a former file of the same name is not listed, and removed by the first write.
    """

    file: str
    fsync: bool = False

    @property
    def local(self) -> LocalStore:
        """The directory itself."""
        folder, name = os.path.split(self.file)
        return LocalStore(f"{folder}/.{name}.kept", fsync=self.fsync)

    @property
    def url(self) -> str:
        """The file's path."""
        return self.file

    def identity(self, path: str) -> object:
        """Return the identity of a path in the directory."""
        return self.local.identity(path)

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`."""
        return self.local.get(key)

    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key`."""
        self.local.set(key, data)

    def with_fsync(self) -> Self:
        """Return the directory whose writes have reached the disk when they return."""
        return replace(self, fsync=True)

    def is_link(self, prefix: str) -> bool:
        """Return whether there is a symbolic link at `prefix`."""
        return self.local.is_link(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files."""
        self.local.delete(keys)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove a directory, and those around it that are empty then."""
        self.local.delete_tree(prefix, first)
        self._prune(prefix)

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory or a symbolic link, and what is empty around it then."""
        self.local.clear_folder(prefix)
        self._prune(prefix)

    def _prune(self, prefix: str) -> None:
        folder = os.path.dirname(f"{self.local.root}/{prefix}")  # noqa: PTH120
        with contextlib.suppress(OSError):
            while folder.startswith(self.local.root):
                os.rmdir(folder)  # noqa: PTH106
                folder = os.path.dirname(folder)  # noqa: PTH120

    def list(self, prefix: str) -> Listing:
        """Return the names under `prefix`; none if there is no file."""
        return self.local.list(prefix) if stamp_of(self.file) is not None else ((), ())

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`."""
        return self.local.walk(prefix)

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over all files under `prefix`, and the HDF5 file: each write changes its time."""
        yield from self.local.list_info(prefix)
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self.file)  # noqa: PTH116
            name = os.path.basename(self.file)  # noqa: PTH119
            yield ObjectInfo(name, found.st_size, found.st_mtime)

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over what killed writes left."""
        return self.local.list_partials(prefix)

    def parent(self) -> LocalStore | None:
        """Return the directory that the file is in."""
        return self.local.parent()

    def remove_markers(self) -> None:
        """Remove the markers of writes into a former file of the same name."""
        local = self.local
        for folder in {found[0] for key in local.walk("") if (found := _MARKER.match(key))}:
            local.delete([join(folder.rpartition("/")[0], UNFINISHED)])
            self.delete_tree(folder, "mark.json")
