"""Open the regular files of a container, without following links out of it."""

# ruff: noqa: PTH116
from __future__ import annotations

import errno
import os
import stat

from xarray_n5.errors import UnsafePathError
from xarray_n5.stores.local.folders import UNSURE, open_inside, open_unlinked
from xarray_n5.stores.local.links import MISSING, check_folder, is_link, resolve

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""Opening a FIFO for reading would wait for a writer."""

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)

_READ = os.O_RDONLY | _FLAGS | _NONBLOCK

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
"""Flags to create a file that does not exist yet."""

_IS_SOCKET = frozenset({errno.ENXIO, getattr(errno, "EOPNOTSUPP", errno.ENXIO)})
"""Errors for sockets, which cannot be opened."""

_NOT_REGULAR = "is not a regular file, but a FIFO, a device or a socket; remove it"

_LARGE = 1 << 30
"""The size above which another call is needed: directories may report any size."""


def open_to_read(root: str, key: str, *, follow: bool) -> tuple[int, int] | None:
    """Open the regular file at a key; return its descriptor and size, or None.

    Read it by :func:`read_part`; its position may be anywhere.

    A FIFO, a device or a socket is an error at once, without waiting.

    Raises
    ------
    UnsafePathError
        If it is not a regular file, or like :func:`check_folder`.
    """
    try:
        file = _open(root, key, follow=follow)
    except MISSING:
        return None
    except OSError as error:
        if error.errno in _IS_SOCKET:
            raise UnsafePathError(root, key, _NOT_REGULAR) from error
        raise
    try:
        size = _size_of(file)
    except IsADirectoryError:
        os.close(file)
        return None
    if size is None:
        os.close(file)
        raise UnsafePathError(root, key, _NOT_REGULAR)
    return file, size


def _size_of(file: int) -> int | None:
    """Return the size of a regular file, None for a FIFO, a device or a socket.

    Raises
    ------
    IsADirectoryError
        If it is a directory with the size of a possible file.
    """
    try:
        size = os.lseek(file, 0, os.SEEK_END)
    except OSError:
        return None  # a FIFO or a terminal
    if 0 < size < _LARGE:  # devices have no size; os.fstat would cost as much as opening
        return size
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError
    return None


def read_part(file: int, start: int, stop: int) -> bytes:
    """Return the bytes of an open file from `start` to `stop`, or to its end."""
    data = b""
    while (left := stop - start - len(data)) > 0:
        more = _read_at(file, left, start + len(data))
        if not more:
            break
        data += more
    return data


def _seek_and_read(file: int, count: int, start: int) -> bytes:
    os.lseek(file, start, os.SEEK_SET)
    return os.read(file, count)


_read_at = getattr(os, "pread", _seek_and_read)  # Windows has no such call


def _open(root: str, key: str, *, follow: bool) -> int:
    """Open a file in one step, unless links lead to it."""
    if follow or not key:
        return _open_checked(root, key, follow=follow)
    try:
        return open_unlinked(root, key, _READ)
    except OSError as error:
        if error.errno not in UNSURE:
            raise
    return _open_checked(root, key, follow=follow)


def _open_checked(root: str, key: str, *, follow: bool) -> int:
    """Open a file after checking each part of its path, if one step was not enough."""
    if not key:
        return _open_patiently(root, root, follow=True)
    prefix, _, name = key.rpartition("/")
    folder = check_folder(root, prefix, follow=follow)
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{root}/{key}")
    path = f"{folder.real}/{name}"
    if is_link(os.lstat(path)):
        path = resolve(root, key, path, follow=follow)
    return _open_patiently(root, path, follow=follow)


def _open_patiently(root: str, path: str, *, follow: bool) -> int:
    """Open a file by its path without links; wait while a file server has a lease on it."""

    def open_(flags: int) -> int:
        return os.open(path, flags) if follow else open_inside(root, path, flags)

    try:
        return open_(_READ)
    except BlockingIOError:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise
        return open_(_READ & ~_NONBLOCK)
