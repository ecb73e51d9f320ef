"""Linux's ``openat2``: open a file in one step, unless a part of its path is a symbolic link.

Checking each directory first would cost several calls per chunk, and leave time to replace a
directory by a link.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from typing import Any

_NUMBER = ctypes.c_long(437)
"""The system call's number, the same on all machines that Python supports."""

_AT_FDCWD = ctypes.c_int(-100)

_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08

_OPEN_HOW = ctypes.c_uint64 * 3
"""``struct open_how``: flags, mode and resolve."""

_SIZE = ctypes.c_size_t(ctypes.sizeof(_OPEN_HOW))

_ENCODING = sys.getfilesystemencoding()


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
