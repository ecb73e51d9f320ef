"""HDF5 files by their first bytes: whether there is one, and how a new one gets its name."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import OneWriterError
from xarray_n5.formats.hdf5.library import hdf5
from xarray_n5.model.paths import meant_by, partial_key

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ilp")
"""How the names of HDF5 files end."""

_SIGNATURE = b"\x89HDF\r\n\x1a\n"

BOUNDS = ("earliest", "v110")
"""The versions of HDF5 whose structures are written: HDF5 1.10 reads all of them."""

_SUPERBLOCK, _NEWER_SUPERBLOCK = 96, 48
"""How many bytes a file begins with that describe it, in older and in newer versions."""


def is_hdf5(path: str) -> bool:
    """Return whether there is an HDF5 file, or nothing, but a name that an HDF5 file would have."""
    try:
        found = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(found.st_mode):
            return False  # a directory; or a pipe, which would be waited for
        if found.st_size <= _SUPERBLOCK and _is_unborn(path, found):
            return path.endswith(SUFFIXES)
        with open(path, "rb") as file:  # noqa: PTH123
            start = file.read(len(_SIGNATURE))
            at = 512  # a user's own bytes may come first, as many as a power of two
            while start and start != _SIGNATURE and at < 1 << 16:
                file.seek(at)
                start, at = file.read(len(_SIGNATURE)), at * 2
            return start == _SIGNATURE
    except OSError:
        return path.endswith(SUFFIXES) and not os.path.isdir(path)  # noqa: PTH112


def stamp_of(path: str) -> object:
    """Return what changes whenever a file is written, or None where there is none.

    A file of which only the beginning was written when its first writer was killed is none.
    """
    try:
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    if found.st_size <= _SUPERBLOCK and _is_unborn(path, found):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_unborn(path: str, found: os.stat_result) -> bool:
    """Return whether a short file has no room for anything: it ends in, or with, its superblock."""
    if not stat.S_ISREG(found.st_mode):
        return False
    with open(path, "rb") as file:  # noqa: PTH123
        start = file.read(_SUPERBLOCK + 1)
    old = start[len(_SIGNATURE) : len(_SIGNATURE) + 1] in {b"", b"\0", b"\1"}
    ends = len(start) <= (_SUPERBLOCK if old else _NEWER_SUPERBLOCK)
    return ends and start[: len(_SIGNATURE)] == _SIGNATURE[: len(start)]


@contextlib.contextmanager
def born(path: str, beside: str) -> Iterator[Any]:
    """Make a file under a hidden name; it has its own as soon as it is whole."""
    h5py = hdf5("HDF5 files")
    os.makedirs(beside, exist_ok=True)  # noqa: PTH103
    for name in os.listdir(beside):  # noqa: PTH208
        if meant_by(name) == os.path.basename(path):  # noqa: PTH119
            os.unlink(f"{beside}/{name}")  # noqa: PTH108 - its writer was killed
    partial = partial_key(f"{beside}/{os.path.basename(path)}")  # noqa: PTH119
    try:
        with h5py.File(partial, "w-", libver=BOUNDS) as file:
            yield file
        flush_file(partial)
        _name(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)  # noqa: PTH108
        with contextlib.suppress(OSError):
            os.rmdir(beside)  # noqa: PTH106


def _name(partial: str, path: str) -> None:
    """Give a new file its name, unless another process has made one meanwhile."""
    if os.path.exists(path):  # noqa: PTH110
        if stamp_of(path) is not None:
            raise OneWriterError(path, "another process has made it at the same time")
        os.replace(partial, path)  # noqa: PTH105
        return
    try:
        os.link(partial, path)
    except FileExistsError as error:
        raise OneWriterError(path, "another process has made it at the same time") from error
    except OSError:
        os.replace(partial, path)  # noqa: PTH105 - a file system without hard links


def flush_file(path: str) -> None:
    """Wait until a file has reached the disk."""
    file = os.open(path, os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)
