"""Open the regular files of a container, without following links out of it."""

# ruff: noqa: PTH116
from __future__ import annotations

import errno
import os
import stat

from xarray_n5.errors import UnsafePathError
from xarray_n5.stores.local.links import MISSING, check_folder, is_link, resolve
from xarray_n5.stores.local.openat2 import has_openat2, openat2

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""Opening a FIFO for reading would wait for a writer."""

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)

_READ = os.O_RDONLY | _FLAGS | _NONBLOCK

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS

_IS_LINK = frozenset({errno.ELOOP, errno.EMLINK, getattr(errno, "EFTYPE", errno.ELOOP)})
"""Errors of systems for unexpected links."""

_UNSURE = _IS_LINK | {errno.EAGAIN, errno.EWOULDBLOCK}
"""Errors after which the path is checked part by part; the last are of leases, as in Samba."""

_IS_SOCKET = frozenset({errno.ENXIO, getattr(errno, "EOPNOTSUPP", errno.ENXIO)})
"""Errors for sockets, which cannot be opened."""

_NOT_REGULAR = "is not a regular file, but a FIFO, a device or a socket; remove it"

_LARGE = 1 << 30
"""The size above which another call is needed: directories may report any size."""

_MOST_ROOTS = 256

_linked_roots: set[str] = set()
"""Roots known to be reached through links; files in all others are opened in one step."""


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
        if follow or not key or root in _linked_roots or not has_openat2():
            file = _open_checked(root, key, follow=follow)
        else:
            try:
                file = openat2(f"{root}/{key}", _READ)
            except OSError as error:
                if error.errno not in _UNSURE:
                    raise
                file = _open_checked(root, key, follow=follow)
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


def _open_checked(root: str, key: str, *, follow: bool) -> int:
    """Open a file after checking each part of its path, if one step was not enough."""
    if not key:
        return _open_patiently(root, _READ)
    if not follow:
        try:
            return _open_unlinked(root, key, _READ)
        except OSError as error:
            if error.errno not in _UNSURE:
                raise
    prefix, _, name = key.rpartition("/")
    folder = check_folder(root, prefix, follow=follow)
    if folder is None:
        raise _not_found(root, key)
    path = f"{folder.real}/{name}"
    if is_link(os.lstat(path)):
        path = resolve(root, key, path, follow=follow)
    return _open_patiently(path, _READ | _NOFOLLOW)


def _open_patiently(path: str, flags: int) -> int:
    """Open a file; wait while a file server has a lease on it."""
    try:
        return os.open(path, flags)
    except BlockingIOError:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise
        return os.open(path, flags & ~_NONBLOCK)


def _open_unlinked(root: str, key: str, flags: int, mode: int = 0) -> int:
    """Open a file without following links inside the root; the root itself may be a link.

    Raises
    ------
    OSError
        With one of `_UNSURE` if a link leads to the file, or the system cannot decide.
    """
    if not has_openat2():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), key)
    if root not in _linked_roots:
        try:
            return openat2(f"{root}/{key}", flags, mode)
        except OSError as error:
            if error.errno not in _UNSURE:
                raise
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        file = openat2(key, flags, mode, folder)
    finally:
        os.close(folder)
    if len(_linked_roots) >= _MOST_ROOTS:
        _linked_roots.clear()
    _linked_roots.add(root)
    return file


def create(root: str, key: str, mode: int) -> tuple[int, str]:
    """Create a file for writing; return its descriptor and the path of its directory.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    UnsafePathError
        If a link leads out of the container, whether links are followed for reading or not.
    """
    prefix, _, name = key.rpartition("/")
    try:
        return _open_unlinked(root, key, _CREATE, mode), f"{root}/{prefix}".rstrip("/")
    except OSError as error:
        if error.errno not in _IS_LINK:
            raise
    folder = check_folder(root, prefix, follow=False)
    if folder is None:
        raise _not_found(root, key)
    path = f"{folder.real}/{name}"
    open_new = openat2 if has_openat2() else os.open
    return open_new(path, _CREATE, mode), folder.real


def _not_found(root: str, key: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{root}/{key}")
