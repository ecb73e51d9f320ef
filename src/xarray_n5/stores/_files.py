"""Files of a local container: opened without waiting, and replaced as a whole."""

# Plain system calls on strings, for speed.
from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from xarray_n5.errors import UnsafePathError
from xarray_n5.model.paths import partial_key
from xarray_n5.stores._errors import MISSING
from xarray_n5.stores._folders import LINKED, READ, hold, inner_path, is_link, resolve

if TYPE_CHECKING:
    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores._folders import Folder

_SOCKET = {errno.ENXIO, getattr(errno, "EOPNOTSUPP", errno.ENXIO)}
"""Errors for sockets, which cannot be opened."""

_NOT_REGULAR = "is not a regular file, but a FIFO, a device or a socket; remove it"


def open_file(root: str, key: str, *, follow: bool) -> tuple[int, int] | None:
    """Open the regular file at a key; return its descriptor and size, or None.

    A FIFO, a device or a socket is an error at once, without waiting.

    Raises
    ------
    UnsafePathError
        If it is not a regular file, or like :func:`_folders.hold`.
    """
    try:
        file = _open_in(root, key, follow=follow) if key else os.open(root, READ)
    except MISSING:
        return None
    except OSError as error:
        if error.errno in _SOCKET:
            raise UnsafePathError(root, key, _NOT_REGULAR) from error
        raise
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode):
        return file, status.st_size
    os.close(file)
    if stat.S_ISDIR(status.st_mode):
        return None
    raise UnsafePathError(root, key, _NOT_REGULAR)


def _open_in(root: str, key: str, *, follow: bool) -> int:
    prefix, _, name = key.rpartition("/")
    folder, missing = hold(root, prefix, follow=follow)
    with folder:
        if missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
        try:
            return folder.open(name)
        except OSError as error:
            if error.errno not in LINKED:
                raise
        if not is_link(folder.stat(name)):  # it was one until now
            return folder.open(name)
        target = resolve(folder, name, key, follow=follow)
    inner = inner_path(root, target)
    return os.open(target, READ) if inner is None else _open_in(root, inner, follow=follow)


def read_part(file: int, start: int, stop: int) -> bytes:
    """Return the bytes of an open file from `start` to `stop`, or to its end."""
    os.lseek(file, start, os.SEEK_SET)
    data = os.read(file, max(0, stop - start))
    while len(data) < stop - start and (more := os.read(file, stop - start - len(data))):
        data += more
    return data


def state_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the state of a file, which all clients of a file server see alike."""
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def write_file(folder: Folder, name: str, data: Buffer, *, durable: bool) -> None:
    """Replace a file, which never has more permissions than the file before."""
    before = _permissions_of(folder, name)
    # Unique per attempt: a task that runs twice at the same time must not share it.
    hidden = partial_key(name)
    file = folder.create(hidden, 0o666 if before is None else before.st_mode & 0o700)
    try:
        try:
            view = memoryview(data)
            rest = view.cast("B") if view.nbytes else b""
            while rest:  # a system may write less than it is given
                rest = rest[os.write(file, rest) :]
            if before is not None:
                _keep_permissions(file, before)
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        folder.replace(hidden, name)
        if durable:
            folder.flush()
    except BaseException:
        with contextlib.suppress(OSError):
            folder.unlink(hidden)
        raise


def _permissions_of(folder: Folder, name: str) -> os.stat_result | None:
    """Return the status of a file to be replaced, or None if there is nothing to keep."""
    if not hasattr(os, "fchmod") or os.name == "nt":
        return None
    try:
        status = folder.stat(name)
    except MISSING:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _keep_permissions(file: int, before: os.stat_result) -> None:
    """Give a new file the group and the mode of the one that it replaces.

    If it cannot have the group, its own group gets no more rights than everybody.
    """
    after, mode = os.fstat(file), before.st_mode & 0o777
    with contextlib.suppress(OSError):  # file systems without permissions refuse
        if after.st_gid != before.st_gid:
            try:
                os.fchown(file, -1, before.st_gid)
            except OSError:
                mode = (mode & ~0o070) | (mode & 0o007) << 3
        if after.st_mode & 0o777 != mode:
            os.fchmod(file, mode)
