"""Read and write in several threads: codecs and files release the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

Item = TypeVar("Item")

_WORTH = 1 << 16
"""The minimum size of a chunk for which two threads are faster than one, in bytes."""

_LARGEST_GROUP = 64
"""The maximum number of chunks that a thread takes at a time."""

_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()


def threads_for(chunks: int, nbytes: int) -> int:
    """Return the number of threads for so many chunks of so many bytes each.

    Outside the main thread it is one: Dask, and others who start threads, run many tasks already.
    For small chunks one thread is faster, since threads take turns in Python.
    """
    if chunks < 2 or nbytes < _WORTH or threading.current_thread() is not threading.main_thread():  # noqa: PLR2004
        return 1
    return min(chunks, cores())


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def spread(
    work: Callable[[Iterable[Item]], None], items: Iterable[Item], count: int, threads: int
) -> None:
    """Process `count` items, in groups, in several threads; raise the first error."""
    size = max(1, min(_LARGEST_GROUP, count // (8 * threads)))
    left = iter(items)
    running: deque[Future[None]] = deque()
    try:
        while group := list(islice(left, size)):
            running.append(_executor().submit(work, group))
            # A few groups ahead, not all: there may be millions of items.
            while len(running) > 4 * threads:
                running.popleft().result()
        while running:
            running.popleft().result()
    finally:
        for future in running:
            future.cancel()
        for future in running:
            if not future.cancelled():
                future.exception()  # wait: nothing may write into the result any more


def _executor() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - one for the process
    with _making:
        if _pool is None:
            _pool = ThreadPoolExecutor(cores(), "xarray-n5")
        return _pool


def _forget() -> None:
    """Leave the threads to the parent: a forked child has none of them."""
    global _pool, _making
    _pool, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
