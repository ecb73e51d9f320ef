"""The hidden directory beside an HDF5 file with the markers, receipts and digests of writes."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from xarray_n5.formats.hdf5.signature import stamp_of
from xarray_n5.model.paths import PLANNED, UNFINISHED, WRITING, join
from xarray_n5.stores.base import ObjectInfo
from xarray_n5.stores.layer import Layer
from xarray_n5.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.stores.base import Listing

_MARKER = re.compile(rf"(.*/)?(?:{re.escape(WRITING)}|{re.escape(PLANNED)})[^/]+(?=/)", re.DOTALL)
"""The folder of a marker, as the first part of a key."""


@dataclass(frozen=True, slots=True)
class Sidecar(Layer):
    """The directory of one file; it disappears with the last file in it.

    Files that belong to a former file of the same name are not listed; the first write removes
    them.
    """

    file: str
    fsync: bool = False

    @property
    def store(self) -> LocalStore:
        """The directory itself."""
        folder, name = os.path.split(self.file)
        return LocalStore(folder, fsync=self.fsync, inside=f".{name}.kept")

    @property
    def url(self) -> str:
        """The file's path."""
        return self.file

    def with_fsync(self) -> Self:
        """Return the directory whose writes have reached the disk when they return."""
        return replace(self, fsync=True)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove a directory, and its parents that are empty then."""
        self.store.delete_tree(prefix, first)
        self._prune(prefix)

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory or a symbolic link, and its parents that are empty then."""
        self.store.clear_folder(prefix)
        self._prune(prefix)

    def _prune(self, prefix: str) -> None:
        while prefix:
            prefix = prefix.rpartition("/")[0]
            self.store.clear_folder(prefix)

    def list(self, prefix: str) -> Listing:
        """Return the names under `prefix`; none if there is no file."""
        return self.store.list(prefix) if stamp_of(self.file) is not None else ((), ())

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over files under `prefix`, with the HDF5 file's time: each write changes it."""
        yield from self.store.list_info(prefix)
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self.file)  # noqa: PTH116
            name = os.path.basename(self.file)  # noqa: PTH119
            yield ObjectInfo(name, found.st_size, found.st_mtime)

    def remove_markers(self) -> None:
        """Remove the markers of writes into a former file of the same name."""
        local = self.store
        for folder in {found[0] for key in local.walk("") if (found := _MARKER.match(key))}:
            local.delete([join(folder.rpartition("/")[0], UNFINISHED)])
            self.delete_tree(folder, "mark.json")
