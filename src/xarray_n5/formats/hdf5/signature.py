"""Recognise HDF5 files by their first bytes, and detect changes."""

from __future__ import annotations

import os
import stat

from xarray_n5.stores.local import LocalStore

SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ilp")
"""Suffixes of HDF5 files."""

_SIGNATURE = b"\x89HDF\r\n\x1a\n"

_SUPERBLOCK, _NEWER_SUPERBLOCK = 96, 48
"""The size of the superblock at the beginning of a file, in older and in newer versions."""

_MAX_USER_BLOCK = 1 << 15


def find_file(location: object) -> str | None:
    """Return the path of an HDF5 file on a local disk, or of a new one; None for anything else."""
    local = None if isinstance(location, LocalStore) else LocalStore.at(location, {})
    return local.root if local is not None and _is_hdf5(local.root) else None


def _is_hdf5(path: str) -> bool:
    """Return whether a file is HDF5; if it does not exist, whether it is named like one."""
    try:
        found = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(found.st_mode):
            return False  # a directory; or a pipe, which would block
        if _is_stub(path, found):
            return path.endswith(SUFFIXES)
        with open(path, "rb") as file:  # noqa: PTH123
            start = file.read(len(_SIGNATURE))
            offset = 512  # after a user block, whose size is a power of two
            while start and start != _SIGNATURE and offset <= _MAX_USER_BLOCK:
                file.seek(offset)
                start, offset = file.read(len(_SIGNATURE)), offset * 2
            return start == _SIGNATURE
    except OSError:
        return path.endswith(SUFFIXES) and not os.path.isdir(path)  # noqa: PTH112


def stamp_of(path: str) -> object:
    """Return a value that changes whenever a file is written; None if there is no file, or a stub.

    A stub is what remains if a file's first writer is killed: at most its superblock.
    """
    try:
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    if _is_stub(path, found):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_stub(path: str, found: os.stat_result) -> bool:
    if found.st_size > _SUPERBLOCK or not stat.S_ISREG(found.st_mode):
        return False
    with open(path, "rb") as file:  # noqa: PTH123
        start = file.read(_SUPERBLOCK + 1)
    version = start[len(_SIGNATURE) : len(_SIGNATURE) + 1]
    superblock = _SUPERBLOCK if version in {b"", b"\0", b"\1"} else _NEWER_SUPERBLOCK
    return len(start) <= superblock and start[: len(_SIGNATURE)] == _SIGNATURE[: len(start)]
