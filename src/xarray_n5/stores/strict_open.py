"""Open files by paths in which nothing is a symbolic link, in one step: Linux's ``openat2``.

Looking at each directory first would cost several calls for each chunk, and leave time to swap
one of them for a link.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from typing import Any

_NUMBER = ctypes.c_long(437)
"""Of the system call, which is the same on all machines that Python supports."""

_HERE = ctypes.c_int(-100)
"""AT_FDCWD: relative to the working directory."""

_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08

_HOW = ctypes.c_uint64 * 3
"""``struct open_how``: flags, mode and resolve."""

_SIZE = ctypes.c_size_t(ctypes.sizeof(_HOW))


@functools.cache
def can_open_strictly() -> bool:
    """Return whether the system has the call, and lets this process use it."""
    if sys.platform != "linux":
        return False
    try:
        os.close(open_strictly("/", os.O_RDONLY | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return False
    return True


def open_strictly(path: str, flags: int, mode: int = 0, above: int | None = None) -> int:
    """Open a file whose path has no link in it, and return its descriptor.

    Parameters
    ----------
    path, flags, mode
        As :func:`os.open` takes them.
    above
        A directory that `path` is relative to, and does not leave.

    Raises
    ------
    OSError
        With ``errno.ELOOP`` where a part of the path is a link.
    """
    encoded = path.encode(_ENCODING, "surrogateescape")
    if b"\0" in encoded:
        raise ValueError(f"the path {path!r} holds a NUL")
    base = _HERE if above is None else ctypes.c_int(above)
    how = _how(flags, mode, above is not None)
    while True:
        file: int = _call()(_NUMBER, base, encoded, how, _SIZE)
        if file >= 0:
            return file
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


_ENCODING = sys.getfilesystemencoding()


@functools.cache
def _call() -> Any:
    # Without the types of its arguments, which would be converted each time.
    return ctypes.CDLL(None, use_errno=True).syscall


@functools.cache
def _how(flags: int, mode: int, beneath: bool) -> ctypes.Array[ctypes.c_uint64]:
    within = _NO_SYMLINKS | _NO_MAGICLINKS | (_BENEATH if beneath else 0)
    return _HOW(flags, mode, within)
