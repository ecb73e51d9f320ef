"""HDF5 files open for reading, one at a time, and which files this process writes."""

from __future__ import annotations

import os
import stat
from contextlib import closing, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError, N5Error, NodeNotFoundError
from xarray_n5.formats.hdf5 import library
from xarray_n5.formats.hdf5.library import FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator


_FLAGS = 11
"""Which byte of a file tells whether it is open for writing, since HDF5 1.10."""


def hdf5() -> Any:
    """Return h5py, with hdf5plugin's filters.

    Raises
    ------
    MissingPackageError
        If one of the two is not installed.
    """
    return library.import_h5py("Hangar's files", filters=True)


class Handles:
    """Open files by their paths, each for one read only.

    What stays open in a process others cannot open for writing, and what is opened anew shows the
    rows written since without a refresh, which breaks datasets that others have open, too. HDF5
    has one lock for all that it does, so nothing is lost by reading one at a time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.written: set[tuple[int, int]] = set()
        """Files that this process writes, or that it had open for that when it was forked."""
        if hasattr(os, "register_at_fork"):
            # A fork waits for reads to end: what HDF5 holds is whole in the child, too.
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )

    @contextmanager
    def reading(self, path: str) -> Iterator[Any]:
        """Open a file while it is read; nobody else reads meanwhile.

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
            if place_of(path) in self.written:
                # HDF5 would share what the writer has open.
                raise MetadataError(
                    f"{path}: this process writes it; close its writer first, or read it in "
                    "another process"
                )
            with closing(_open(path)) as file:
                try:
                    yield file
                except FAILURES as error:
                    if isinstance(error, N5Error):
                        raise
                    raise MetadataError(
                        f"{path}: HDF5 cannot read it ({error}): it is damaged, or not Hangar's; "
                        "restore it"
                    ) from error


def place_of(path: str) -> tuple[int, int]:
    """Return what tells a file from others, whatever path leads to it."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once for each read
    except FileNotFoundError as error:
        raise NodeNotFoundError(path, "", "HDF5 file") from error
    if not stat.S_ISREG(found.st_mode):
        raise MetadataError(f"{path}: expected a regular file; name another one")
    return found.st_dev, found.st_ino


def _open(path: str) -> Any:
    # Each chunk is read once: a cache would only take memory, for each dataset.
    options = {"libver": "latest", "rdcc_nbytes": 0, "rdcc_nslots": 1}
    h5py = hdf5()
    try:
        # HDF5 refuses one way or the other: SWMR is for files that a writer has open, or had when
        # it was killed, and it must be as whoever else in this process has the file open.
        try:
            return h5py.File(path, "r", **options)
        except PermissionError:
            raise
        except OSError as error:
            # A reader beside a writer asks again and again for what a cut-off file does not have.
            if "truncated file" in str(error) and not _has_writer(path):
                raise
            return h5py.File(path, "r", swmr=True, **options)
    except PermissionError:
        raise
    except OSError as error:
        raise MetadataError(
            f"{path}: cannot be opened for reading: {error}. A whole HDF5 file is needed; one that "
            "is still written can be read where its writer opened it for single writer, multiple "
            "readers"
        ) from error


def _has_writer(path: str) -> bool:
    """Return whether a file says that a writer has it open, or had when it was killed."""
    with open(path, "rb") as file:  # noqa: PTH123
        start = file.read(_FLAGS + 1)
    return len(start) > _FLAGS and bool(start[_FLAGS])


HANDLES = Handles()
"""Those of this process."""
