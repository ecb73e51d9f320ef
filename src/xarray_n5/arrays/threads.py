"""Read and write in several threads: codecs and files release the interpreter's lock."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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


class _Bands(Generic[Item]):
    """Bands of items that several threads process; an error of one thread stops all."""

    def __init__(self, bands: Iterable[Iterable[Item]], size: int) -> None:
        self._left, self._size = [iter(band) for band in bands], size
        self._taking = threading.Lock()
        self._stopped = False
        self._ended: dict[int, BaseException | None] = {}
        # Unlike futures, it has no locks in Python, which an interruption could leave locked.
        self._ends: SimpleQueue[None] = SimpleQueue()

    def _taken(self, number: int) -> Iterator[Item]:
        """Iterate over the items of a thread's own band, then over what others have left."""
        own = number % len(self._left)
        for band in self._left[own:] + self._left[:own]:
            while True:
                with self._taking:  # iterators cannot be shared
                    some = list(islice(band, self._size))
                if not some:
                    break
                for item in some:
                    if self._stopped:
                        return
                    yield item

    def process(self, work: Callable[[Iterable[Item]], None], number: int) -> None:
        """Process items in a thread until none are left."""
        error = None
        try:
            work(self._taken(number))
        except BaseException as raised:  # noqa: BLE001 - raised in the other thread
            self._stopped, error = True, raised
        self._ended[number] = error
        self._ends.put(None)

    def wait(self, threads: int) -> None:
        """Wait until so many threads have ended."""
        while not self._ended.keys() >= set(range(threads)):
            self._ends.get()

    def stop(self) -> None:
        """Stop the threads before their next item."""
        self._stopped = True

    def errors(self) -> list[BaseException]:
        """Return the errors of threads."""
        return [error for error in self._ended.values() if error is not None]


def spread(
    work: Callable[[Iterable[Item]], None],
    bands: Iterable[Iterable[Item]],
    count: int,
    threads: int,
) -> None:
    """Process the `count` items of bands in several threads; raise an error of one of them.

    Each thread takes a few items at a time: first of a band of its own, if there are enough.
    """
    shared = _Bands(bands, max(1, min(_LARGEST_GROUP, count // (8 * threads))))
    begun = 0
    try:
        for number in range(threads):
            _executor().submit(shared.process, work, number)
            begun += 1
        shared.wait(threads)
    finally:
        shared.stop()
        shared.wait(begun)  # nothing may write into the result any more
    for error in shared.errors():
        raise error


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
