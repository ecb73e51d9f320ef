"""Changes of documents that processes and threads make one after another, where a system allows."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xarray_n5.stores.cached import CachedStore
from xarray_n5.stores.links import folder_to_write
from xarray_n5.stores.local import LocalStore
from xarray_n5.stores.memory import MemoryStore
from xarray_n5.stores.new_files import make_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.stores.protocol import Store

if sys.platform != "win32":
    import fcntl

_WAIT = 30.0
"""For how many seconds a process that holds a folder is waited for: it may have been suspended."""

_PAUSE = 0.002

_THREADS = tuple(threading.Lock() for _ in range(64))
"""Locks of this process, one for each of so many shares of all nodes."""


@contextmanager
def exclusive(store: Store, path: str) -> Iterator[bool]:
    """Hold the documents of a node, so that nobody else changes them meanwhile.

    On a local disk by an advisory lock of its folder, which ends with the process and leaves no
    file. Do not nest it.

    Yields
    ------
    bool
        Whether that holds for all processes. It does not on object stores, on Windows and on
        mounts without such locks: there, look at the documents again once they are written.
    """
    while isinstance(store, CachedStore):
        store = store.store
    with _THREADS[hash(store.identity(path)) % len(_THREADS)]:
        if not isinstance(store, LocalStore):
            yield isinstance(store, MemoryStore) or store.one_writer
            return
        folder = _hold(folder_to_write(store.root, path), flush=store.fsync)
        try:
            yield folder is not None
        finally:
            if folder is not None:
                os.close(folder)


def _hold(folder: str, *, flush: bool) -> int | None:
    """Return a locked folder, which is made where there is none; None where that is impossible."""
    if sys.platform == "win32":
        return None
    end = time.monotonic() + _WAIT
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
    """Return whether an open folder is still the one of that name: it may have been replaced."""
    try:
        found, opened = os.stat(folder), os.fstat(file)  # noqa: PTH116
    except FileNotFoundError:
        return False
    return os.path.samestat(found, opened)
