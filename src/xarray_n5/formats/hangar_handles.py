"""HDF5 files open for reading: a few of them, in the process that opened them."""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.storage import hdf5_library as library

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 16
"""Files that stay open."""


def hdf5() -> Any:
    """Return h5py, with hdf5plugin's filters.

    Raises
    ------
    MissingPackageError
        If one of the two is not installed.
    """
    return library.hdf5("Hangar's files", filters=True)


@dataclass(slots=True)
class OpenFile:
    """A file that is open for reading."""

    place: tuple[int, int]
    """What tells it from a file that took its path."""
    file: Any
    datasets: dict[int, Any] = field(default_factory=dict)
    """Its datasets. Each is open once: HDF5 cannot refresh one that is open twice."""


class Handles:
    """Open files by their paths; the one that was not used for longest is closed first.

    HDF5 has one lock for all that it does, so nothing is lost by reading one at a time.

    Parameters
    ----------
    most
        How many stay open.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._inherited: list[OpenFile] = []
        self.written: set[tuple[int, int]] = set()
        """Files that this process writes, or that it had open for that when it was forked."""
        if hasattr(os, "register_at_fork"):
            # A fork waits for reads to end: what HDF5 holds is whole in the child, too.
            os.register_at_fork(
                before=self._wait,
                after_in_parent=self._go_on,
                after_in_child=self._start_anew,
            )

    def __len__(self) -> int:
        return len(self._files)

    @contextmanager
    def reading(self, path: str) -> Iterator[OpenFile]:
        """Open a file, or take it as it is open; nobody else reads meanwhile.

        Raises
        ------
        NodeNotFoundError
            If there is none.
        MetadataError
            If it is no HDF5 file, or this very process writes it.
        MissingPackageError
            If h5py or hdf5plugin is not installed.
        """
        with self._lock:
            yield self._file(path)

    def close(self) -> None:
        """Close all of them; a later read opens them again."""
        with self._lock:
            while self._files:
                self._files.popitem()[1].file.close()

    def _file(self, path: str) -> OpenFile:
        while self._inherited:
            # HDF5 would share what it has open; a reader writes nothing on closing.
            self._inherited.pop().file.close()
        place = place_of(path)
        if place in self.written:
            # HDF5 would share what the writer has open, and refresh it under its feet.
            raise MetadataError(
                f"{path}: this process writes it; close its writer first, or read it in another "
                "process"
            )
        found = self._files.pop(path, None)
        if found is not None and found.place != place:
            found.file.close()
            found = None
        self._files[path] = found = found or OpenFile(place, _open(path))
        while len(self._files) > self._most:
            self._files.popitem(last=False)[1].file.close()
        return found

    def _wait(self) -> None:
        self._lock.acquire()

    def _go_on(self) -> None:
        self._lock.release()

    def _start_anew(self) -> None:
        self._lock = Lock()
        self._inherited += self._files.values()
        self._files = OrderedDict()


def place_of(path: str) -> tuple[int, int]:
    """Return what tells a file from one that took its path."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once for each run of rows
    except FileNotFoundError as error:
        raise NodeNotFoundError(path, "", "HDF5 file") from error
    return found.st_dev, found.st_ino


def _open(path: str) -> Any:
    try:
        # Each chunk is read once: a cache would only take memory, for each dataset.
        return hdf5().File(path, "r", libver="latest", swmr=True, rdcc_nbytes=0, rdcc_nslots=1)
    except PermissionError:
        raise
    except OSError as error:
        raise MetadataError(
            f"{path}: cannot be opened for reading: {error}. A whole HDF5 file is needed, "
            "which nothing in this process has open for writing"
        ) from error


HANDLES = Handles()
"""Those of this process."""
