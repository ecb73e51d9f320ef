"""Lock directories against other processes, by advisory locks that end with their process."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xarray_n5.errors import UnsafePathError
from xarray_n5.stores.local.folders import hold_to_write, stat_inside

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import fcntl

_PATIENCE = 30.0
"""The seconds to wait for a process that holds a lock: it may be suspended."""

_PAUSE = 0.002


@contextmanager
def locked(root: str, prefix: str, *, durable: bool) -> Iterator[bool]:
    """Lock a directory, which is created if missing; yield whether the system can do that."""
    file = _lock(root, prefix, durable=durable)
    try:
        yield file is not None
    finally:
        if file is not None:
            os.close(file)


def _lock(root: str, prefix: str, *, durable: bool) -> int | None:
    if sys.platform == "win32":
        return None
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        file = None
        try:
            with hold_to_write(root, prefix, durable=durable) as held:
                file = held.to_read()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, root, prefix):
                taken, file = file, None
                return taken
        except BlockingIOError:
            time.sleep(_PAUSE)
        except UnsafePathError:
            raise
        except OSError:
            end = 0.0
        finally:
            if file is not None:
                os.close(file)
    return None


def _is_at(file: int, root: str, prefix: str) -> bool:
    """Return whether a path still names an open directory, which may have been replaced."""
    found = stat_inside(root, prefix, follow=False)
    return found is not None and os.path.samestat(found, os.fstat(file))
