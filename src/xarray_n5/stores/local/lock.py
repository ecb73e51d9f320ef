"""Lock directories against other processes, by advisory locks that end with their process."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xarray_n5.stores.local.files import make_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import fcntl

_PATIENCE = 30.0
"""The seconds to wait for a process that holds a lock: it may be suspended."""

_PAUSE = 0.002


@contextmanager
def locked(folder: str, *, flush: bool) -> Iterator[bool]:
    """Lock a directory, which is created if missing; yield whether the system can do that."""
    file = _lock(folder, flush=flush)
    try:
        yield file is not None
    finally:
        if file is not None:
            os.close(file)


def _lock(folder: str, *, flush: bool) -> int | None:
    if sys.platform == "win32":
        return None
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        file = None
        try:
            make_folders(folder, flush=flush)
            file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, folder):
                return file
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:
            end = 0.0
        if file is not None:
            os.close(file)
    return None


def _is_at(file: int, folder: str) -> bool:
    """Return whether a path still names an open directory, which may have been replaced."""
    try:
        found, opened = os.stat(folder), os.fstat(file)  # noqa: PTH116
    except FileNotFoundError:
        return False
    return os.path.samestat(found, opened)
