"""Read and write in several threads: codecs and files release the interpreter's lock."""

from __future__ import annotations

import os
import threading
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
    """Process bands of items in several threads; an error in one stops all, and is raised."""
    shares, stopped = list(bands), threading.Event()

    def until_stopped(band: Iterable[Item]) -> Iterator[Item]:
        for item in band:
            if stopped.is_set():
                return
            yield item

    def work_on_bands(first: int) -> None:
        for band in shares[first::threads]:
            work(until_stopped(band))

    tasks: list[Future[None]] = []
    try:
        tasks.extend(_executor().submit(work_on_bands, first) for first in range(threads))
        wait(tasks, return_when=FIRST_EXCEPTION)
    finally:
        stopped.set()
        wait(tasks)  # nothing may write into the result any more
    for task in tasks:
        task.result()


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
