"""Read and write in several threads: codecs and files release the interpreter's lock."""

from __future__ import annotations

import os
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

Item = TypeVar("Item")

_WORTH = 1 << 16
"""The minimum size of a chunk for which two threads are faster than one, in bytes."""

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
    work: Callable[[Iterable[Item]], None], bands: Iterable[Iterable[Item]], threads: int
) -> None:
    """Process the items of bands in several threads; raise the first error.

    Each thread begins with its own band; at the end it continues with those of others.
    """
    left = [iter(band) for band in bands]
    taking, stopped = threading.Lock(), threading.Event()

    def taken(first: int) -> Iterator[Item]:
        for band in left[first:] + left[:first]:
            while not stopped.is_set():
                with taking:  # iterators cannot be shared
                    one = list(islice(band, 1))
                if not one:
                    break
                yield from one

    running: list[Future[None]] = []
    try:
        running.extend(_executor().submit(work, taken(at % len(left))) for at in range(threads))
        wait(running, return_when=FIRST_EXCEPTION)
    finally:
        stopped.set()
        wait(running)  # nothing may write into the result any more
    for future in running:
        future.result()


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
