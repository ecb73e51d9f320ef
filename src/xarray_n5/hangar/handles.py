"""HDF5 files open for reading, one at a time, and the files that this process writes."""

from __future__ import annotations

import os
import stat
from contextlib import closing, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from xarray_n5.codecs.hdf5 import FAILURES, import_h5py
from xarray_n5.errors import MetadataError, N5Error, NodeNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator


_FLAGS = 11
"""The offset of the byte that shows whether a writer has a file open, since HDF5 1.10."""


def hdf5() -> Any:
    """Return h5py, with hdf5plugin's filters; raise if one of the two is not installed."""
    return import_h5py("Hangar's files", filters=True)


class Handles:
    """Open files, each for one read, one at a time.

    Another process cannot open for writing what stays open here. A file opened again shows new
    rows without a refresh, which would break datasets that others in this process have open. HDF5
    has one lock for all its calls, so reading one file at a time costs nothing.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.written: set[tuple[int, int]] = set()
        """Identities of the files that this process writes, or wrote when it was forked."""
        if hasattr(os, "register_at_fork"):
            # A fork waits for reads to end, so that HDF5 is in a consistent state in the child.
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )

    @contextmanager
    def reading(self, path: str) -> Iterator[Any]:
        """Open a file for one read.

        Raises
        ------
        NodeNotFoundError
            If it does not exist.
        MetadataError
            If it is not an HDF5 file, or this process writes it.
        MissingPackageError
            If h5py or hdf5plugin is not installed.
        """
        with self._lock:
            if identity_of(path) in self.written:
                # HDF5 would share the open file with the writer.
                raise MetadataError(
                    f"{path}: this process is writing it; close its writer first, or read it in "
                    "another process"
                )
            with closing(_open(path)) as file:
                try:
                    yield file
                except FAILURES as error:
                    if isinstance(error, N5Error):
                        raise
                    raise MetadataError(
                        f"{path}: HDF5 cannot read it ({error}): it is damaged, or not a file of "
                        "Hangar's; restore it"
                    ) from error


def identity_of(path: str) -> tuple[int, int]:
    """Return the device and inode of a file: the same for every path to it."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once for each read
    except FileNotFoundError as error:
        raise NodeNotFoundError(path, "", "HDF5 file") from error
    if not stat.S_ISREG(found.st_mode):
        raise MetadataError(f"{path}: expected a regular file; name another one")
    return found.st_dev, found.st_ino


def _open(path: str) -> Any:
    # Each chunk is read once, so a cache would only use memory.
    options = {"libver": "latest", "rdcc_nbytes": 0, "rdcc_nslots": 1}
    h5py = hdf5()
    try:
        # SWMR is only for files that a writer has open, or had open when it was killed; a process
        # must open a file the same way every time.
        try:
            return h5py.File(path, "r", **options)
        except PermissionError:
            raise
        except OSError as error:
            # With SWMR, HDF5 would retry for ever to read the missing end of a truncated file.
            if "truncated file" in str(error) and not _has_writer(path):
                raise
            return h5py.File(path, "r", swmr=True, **options)
    except PermissionError:
        raise
    except OSError as error:
        raise MetadataError(
            f"{path}: cannot be opened for reading: {error}. Expected a complete HDF5 file, or one "
            "whose writer has it open in HDF5's SWMR mode"
        ) from error


def _has_writer(path: str) -> bool:
    """Return whether a file is marked as open for writing; a killed writer leaves the mark."""
    with open(path, "rb") as file:  # noqa: PTH123
        start = file.read(_FLAGS + 1)
    return len(start) > _FLAGS and bool(start[_FLAGS])


HANDLES = Handles()
"""The handles of this process."""
