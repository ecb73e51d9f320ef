"""Open the regular files of a container, without following links out of it.

Linux's ``openat2`` opens a file in one step, unless a part of its path is a symbolic link. Checking
each directory first would cost several calls per chunk, and leave time to replace a directory by a
link. Elsewhere, each directory is opened in the one before.
"""

# ruff: noqa: PTH116
from __future__ import annotations

import ctypes
import errno
import functools
import os
import shutil
import stat
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from xarray_n5.errors import PathError, UnsafePathError
from xarray_n5.stores._errors import MISSING, unfit_name
from xarray_n5.stores.local.links import check_folder, is_link, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_NUMBER = ctypes.c_long(437)
"""The system call's number, the same on all machines that Python supports."""

_AT_FDCWD = ctypes.c_int(-100)

_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08

_OPEN_HOW = ctypes.c_uint64 * 3
"""``struct open_how``: flags, mode and resolve."""

_SIZE = ctypes.c_size_t(ctypes.sizeof(_OPEN_HOW))

_ENCODING = sys.getfilesystemencoding()


BY_DESCRIPTOR = (
    shutil.rmtree.avoids_symlink_attacks
    and hasattr(os, "O_NOFOLLOW")
    and {os.open, os.unlink, os.rename, os.stat, os.mkdir, os.rmdir} <= os.supports_dir_fd
)
"""Whether the system can use names in an open directory."""

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

FOLDER = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags to open a directory that need not be listed."""

TO_LIST = _DIRECTORY | os.O_RDONLY
"""Flags to open a directory in order to list, lock or flush it."""

_IS_LINK = frozenset({errno.ELOOP, errno.EMLINK, getattr(errno, "EFTYPE", errno.ELOOP)})
"""Errors of systems for unexpected links."""

UNSURE = _IS_LINK | {errno.EAGAIN, errno.EWOULDBLOCK}
"""Errors after which the path is checked part by part; the last are of leases, as in Samba."""

_MOST_ROOTS = 256

_linked_roots: set[str] = set()
"""Cache of roots whose path contains links; files in all others are opened in one step."""

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


def open_unlinked(root: str, key: str, flags: int) -> int:
    """Open a file without following links inside the root; the root itself may be a link.

    Raises
    ------
    OSError
        With one of `UNSURE` if a link leads to the file, or the system cannot decide.
    """
    if not has_openat2():
        return _open_in_steps(root, key, flags)
    if root not in _linked_roots:
        try:
            return openat2(f"{root}/{key}", flags)
        except OSError as error:
            if error.errno not in UNSURE:
                raise
    folder = os.open(root, FOLDER)
    try:
        file = openat2(key or ".", flags, folder)
    finally:
        os.close(folder)
    if len(_linked_roots) >= _MOST_ROOTS:
        _linked_roots.clear()
    _linked_roots.add(root)
    return file


def _open_in_steps(root: str, key: str, flags: int) -> int:
    """Open a file by opening each directory above it in the one before."""
    if not BY_DESCRIPTOR:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), key)
    *folders, last = key.split("/")
    name = ""
    here = os.open(root, FOLDER)
    try:
        for name in folders:
            below = os.open(name, FOLDER | NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        name = last or "."
        return os.open(name, flags | NOFOLLOW, dir_fd=here)
    except NotADirectoryError as error:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if is_link(found) or stat.S_ISDIR(found.st_mode):  # or was a link until now
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), key) from error
        raise
    finally:
        os.close(here)


def open_inside(root: str, path: str, flags: int) -> int:
    """Open a file in a container by its path without links, which may be replaced by links."""
    top = os.path.realpath(root)
    if not BY_DESCRIPTOR:
        return os.open(path, flags | NOFOLLOW)
    return open_unlinked(top, path[len(top) :].strip("/"), flags)


@functools.cache
def has_openat2() -> bool:
    """Return whether the system has the call and allows this process to use it."""
    if sys.platform != "linux":
        return False
    try:
        os.close(openat2("/", os.O_RDONLY | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return False
    return True


def openat2(path: str, flags: int, beneath: int | None = None) -> int:
    """Open a file without following any link, and return its descriptor.

    Parameters
    ----------
    path, flags
        As for :func:`os.open`.
    beneath
        The descriptor of a directory that `path` is relative to and must not leave.

    Raises
    ------
    OSError
        With ``errno.ELOOP`` if a part of the path is a link.
    """
    encoded = path.encode(_ENCODING, "surrogateescape")
    if b"\0" in encoded:
        raise ValueError(f"the path {path!r} contains a NUL")
    base = _AT_FDCWD if beneath is None else ctypes.c_int(beneath)
    how = _open_how(flags, beneath is not None)
    while True:
        file: int = _syscall()(_NUMBER, base, encoded, how, _SIZE)
        if file >= 0:
            return file
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


@functools.cache
def _syscall() -> Any:
    # Without argument types, which would be applied on each call.
    return ctypes.CDLL(None, use_errno=True).syscall


@functools.cache
def _open_how(flags: int, beneath: bool) -> ctypes.Array[ctypes.c_uint64]:
    resolve = _NO_SYMLINKS | _NO_MAGICLINKS | (_BENEATH if beneath else 0)
    return _OPEN_HOW(flags, 0, resolve)


def named_errors(method: Callable[..., T]) -> Callable[..., T]:
    """Convert the system's errors for names that it cannot have, in a method of a store."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> T:
        try:
            return method(self, *arguments)
        except (OSError, UnicodeEncodeError) as error:
            if (why := unfit_name(error)) is None:
                raise
            named = getattr(error, "filename", None) or arguments[0]
            raise PathError(f"{named!r}: {why}") from error

    return call
