"""Keep local files inside their container: symbolic links, and what is not a regular file.

The root of a container may be reached through links. In it, a link is followed where its target
lies below the real root. One that leaves it is refused: nothing is written or removed through it,
and it is read only with ``follow_links``.
"""

# ruff: noqa: PTH110, PTH116
# Plain calls of the operating system, on strings: they cost least.
from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from xarray_n5.errors import UnsafePathError
from xarray_n5.stores.strict_open import can_open_strictly, open_strictly

MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors of the operating system for keys that are not there."""

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""Opening a FIFO for reading would wait for a writer."""

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)

_READ = os.O_RDONLY | _FLAGS | _NONBLOCK

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS

_IS_LINK = frozenset({errno.ELOOP, errno.EMLINK, getattr(errno, "EFTYPE", errno.ELOOP)})
"""Errors of systems that meet a link where there must not be one."""

_IS_SOCKET = frozenset({errno.ENXIO, getattr(errno, "EOPNOTSUPP", errno.ENXIO)})
"""Errors for sockets, which cannot be opened."""

_MOST_ROOTS = 256

_linked_roots: set[str] = set()
"""Roots that are reached through links, as far as known: others are opened in one step."""


class Folder(NamedTuple):
    """A directory of a container."""

    real: str
    """Its path without links."""
    links: int
    """How many links lead to it, from the container's root."""


def check_folder(root: str, prefix: str, *, follow: bool) -> Folder | None:
    """Return the directory at a prefix, or None if it does not exist.

    Raises
    ------
    UnsafePathError
        If a link leads out of the container and `follow` is false, or leads nowhere.
    """
    found, missing = _look(root, prefix, follow=follow)
    return None if missing else found


def folder_to_write(root: str, prefix: str) -> str:
    """Return the path, without links, of a directory that may not exist yet.

    Raises
    ------
    UnsafePathError
        As :func:`check_folder`.
    """
    found, missing = _look(root, prefix, follow=False)
    return "/".join([found.real, *missing])


def _look(root: str, prefix: str, *, follow: bool) -> tuple[Folder, list[str]]:
    """Return the last directory on the way to a prefix that exists, and the names that do not."""
    found = Folder(os.path.realpath(root), 0)
    parts = prefix.split("/") if prefix else []
    for count, name in enumerate(parts):
        path = f"{found.real}/{name}"
        try:
            status = os.lstat(path)
        except MISSING:
            return found, parts[count:]
        if is_link(status):
            real = resolve(root, "/".join(parts[: count + 1]), path, follow=follow)
            found = Folder(real, found.links + 1)
        else:
            found = Folder(path, found.links)
    return found, []


def is_link(found: os.stat_result) -> bool:
    """Return whether a directory entry is a symbolic link, or a junction of Windows."""
    if stat.S_ISLNK(found.st_mode):
        return True
    tag = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return tag is not None and getattr(found, "st_reparse_tag", 0) == tag


def resolve(root: str, key: str, path: str, *, follow: bool) -> str:
    """Return the path that a link leads to, at a key of the container.

    Raises
    ------
    UnsafePathError
        If that is outside of the container and `follow` is false, or does not exist.
    """
    target = os.path.realpath(path)
    if not follow and not is_below(target, os.path.realpath(root)):
        why = (
            f"is a link to {target!r}, outside of the container; copy what it leads to into the "
            "container, or, if you trust it, read with storage_options={'follow_links': True}"
        )
        raise UnsafePathError(root, key, why)
    if not os.path.exists(target):
        why = f"is a link to {target!r}, which does not exist; restore that, or remove the link"
        raise UnsafePathError(root, key, why)
    return target


def is_below(path: str, folder: str) -> bool:
    """Return whether a path without links is a directory, or lies in it."""
    path, folder = os.path.normcase(path), os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def open_inside(root: str, key: str, *, follow: bool) -> tuple[int, int] | None:
    """Open the regular file at a key for reading; return its descriptor and size, or None.

    A FIFO, a device or a socket is an error at once; it is never waited for.

    Raises
    ------
    UnsafePathError
        If it is not a regular file, or as :func:`check_folder`.
    """
    try:
        file = _open_to_read(root, key, follow=follow)
    except MISSING:
        return None
    except OSError as error:
        if error.errno in _IS_SOCKET:
            raise UnsafePathError(root, key, _NOT_REGULAR) from error
        raise
    try:
        size = size_of(file)
    except MISSING:
        os.close(file)
        return None
    if size is None:
        os.close(file)
        raise UnsafePathError(root, key, _NOT_REGULAR)
    return file, size


def size_of(file: int) -> int | None:
    """Return the size of a regular file, None for a FIFO, a device or a socket.

    Raises
    ------
    IsADirectoryError
        If it is a directory, as far as that shows.
    """
    try:
        size = os.lseek(file, 0, os.SEEK_END)
    except OSError:
        return None  # a FIFO or a terminal
    if 0 < size < _LARGE:  # devices have none; asking for more would cost as much as opening
        os.lseek(file, 0, os.SEEK_SET)
        return size
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode):
        os.lseek(file, 0, os.SEEK_SET)
        return found.st_size
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError
    return None


_LARGE = 1 << 30
"""Sizes that are looked at twice: those of directories may be anything."""

_NOT_REGULAR = "is not a regular file, but a FIFO, a device or a socket; remove it"


def _open_to_read(root: str, key: str, *, follow: bool) -> int:
    if not key:
        return _patiently(root, _READ)
    if not follow:
        try:
            return _open_without_links(root, key, _READ)
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in _IS_LINK:
                raise
    # There is a link, or a lease; or the system has no call that refuses links.
    prefix, _, name = key.rpartition("/")
    folder = check_folder(root, prefix, follow=follow)
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{root}/{key}")
    path = f"{folder.real}/{name}"
    if is_link(os.lstat(path)):
        path = resolve(root, key, path, follow=follow)
    return _patiently(path, _READ | _NOFOLLOW)


def _patiently(path: str, flags: int) -> int:
    """Open a file, also where a file server holds a lease on it."""
    try:
        return os.open(path, flags)
    except BlockingIOError:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise
        return os.open(path, flags & ~_NONBLOCK)


def _open_without_links(root: str, key: str, flags: int, mode: int = 0) -> int:
    """Open a file to whose key no link leads, in one step where the system can.

    Raises
    ------
    OSError
        One of those that `_IS_LINK` lists, where a link leads to it, or that cannot be excluded.
    """
    if not can_open_strictly():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), key)
    if root not in _linked_roots:
        try:
            return open_strictly(f"{root}/{key}", flags, mode)
        except OSError as error:
            if error.errno not in _IS_LINK:
                raise
    above = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        file = open_strictly(key, flags, mode, above)
    finally:
        os.close(above)
    if len(_linked_roots) >= _MOST_ROOTS:
        _linked_roots.clear()
    _linked_roots.add(root)
    return file


def create_inside(root: str, key: str, mode: int) -> tuple[int, str]:
    """Create a file for writing; return its descriptor, and the path of the directory it is in.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    UnsafePathError
        If a link leads out of the container, whether links are followed for reading or not.
    """
    prefix, _, name = key.rpartition("/")
    try:
        return _open_without_links(root, key, _CREATE, mode), f"{root}/{prefix}".rstrip("/")
    except OSError as error:
        if error.errno not in _IS_LINK:
            raise
    folder = check_folder(root, prefix, follow=False)
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{root}/{key}")
    path = f"{folder.real}/{name}"
    if can_open_strictly():
        return open_strictly(path, _CREATE, mode), folder.real
    return os.open(path, _CREATE, mode), folder.real


def stat_inside(root: str, key: str, *, follow: bool) -> os.stat_result | None:
    """Return the status of the file or directory at a key; None where there is none.

    Raises
    ------
    UnsafePathError
        As :func:`check_folder`.
    """
    try:
        if not key:
            return os.stat(root)
        prefix, _, name = key.rpartition("/")
        folder = check_folder(root, prefix, follow=follow)
        if folder is None:
            return None
        path = f"{folder.real}/{name}"
        found = os.lstat(path)
        if is_link(found):
            found = os.stat(resolve(root, key, path, follow=follow))
    except MISSING:
        return None
    return found
