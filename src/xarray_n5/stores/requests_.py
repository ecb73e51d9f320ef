"""Requests to one of fsspec's filesystems: made again, told of, several at once."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from xarray_n5.errors import RefusedError, RequestError
from xarray_n5.stores.failures import is_missing, is_refused
from xarray_n5.stores.filesystems import (
    THREADS,
    behind_caches,
    is_async,
    is_threaded,
    most_at_once,
)
from xarray_n5.stores.redaction import hide_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
    from concurrent.futures import Future

    from fsspec import AbstractFileSystem

    from xarray_n5.stores.retries import Retries

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Requests:
    """How a filesystem is asked, and what is told of a request that fails."""

    fs: AbstractFileSystem
    """The filesystem."""
    url: str
    """The container's place, for errors; without secrets."""
    retries: Retries
    """How often a request is made again."""

    # Errors are raised outside of "except", so that none carries the library's own: that may
    # show a signed URL, and need not be able to travel to another process.

    def get_optional(self, verb: str, key: str, request: Callable[[], T]) -> T | None:
        """Return what a request returns, None where nothing is there."""
        try:
            return self.retries.run(request)
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            failure = None if is_missing(error) else self._failure(verb, key, error)
        if failure is not None:
            raise failure
        return None

    async def later(self, verb: str, key: str, request: Callable[[], Awaitable[T]]) -> T | None:
        """Return what a request returns, None where nothing is there; in the filesystem's loop."""
        try:
            return await self.retries.run_async(request)
        except Exception as error:  # noqa: BLE001
            failure = None if is_missing(error) else self._failure(verb, key, error)
        if failure is not None:
            raise failure
        return None

    def for_sure(self, verb: str, key: str, request: Callable[[], T], *, again: bool = True) -> T:
        """Return what a request returns that nothing can be missing for; made `again`, or once."""
        try:
            return self.retries.run(request) if again else request()
        except Exception as error:  # noqa: BLE001
            failure = self._failure(verb, key, error)
        raise failure

    async def surely(self, verb: str, key: str, request: Callable[[], Awaitable[T]]) -> T:
        """Return what a request returns that nothing can be missing for; in the loop."""
        try:
            return await self.retries.run_async(request)
        except Exception as error:  # noqa: BLE001
            failure = self._failure(verb, key, error)
        raise failure

    def _failure(self, verb: str, key: str, error: Exception) -> Exception:
        """Return an error that names the key, and no secret."""
        if isinstance(error, NotImplementedError):
            return error
        kind = RefusedError if is_refused(error) else RequestError
        return kind(verb, self.url, key, self._reason(error))

    def _reason(self, error: Exception) -> str:
        text = str(error) or str(error.__cause__ or "") or "no more is known"
        return hide_all(f"{type(error).__name__}: {text}", self.fs.storage_options)

    def several(
        self,
        keys: Iterable[K],
        ahead: int,
        later: Callable[[K], Coroutine[Any, Any, T]],
        now: Callable[[K], T],
        *,
        finish: bool = False,
    ) -> Iterator[tuple[K, T]]:
        """Iterate over keys and answers in their order, of which some more are under way.

        Parameters
        ----------
        keys
            What is asked for.
        ahead
            How many answers there may be at most that nobody has taken yet.
        later, now
            What asks in the loop of a filesystem that has one, and what asks elsewhere.
        finish
            Whether all that has begun is waited for, also where one fails; else it is cancelled.
        """
        ahead = min(ahead, most_at_once(self.fs))
        if is_async(self.fs):
            loop = _loop_of(self.fs)
            submit = asyncio.run_coroutine_threadsafe
            yield from _under_way(keys, ahead, lambda key: submit(later(key), loop), finish)
        elif is_threaded(self.fs):
            yield from by_threads(self.fs, keys, ahead, now, finish=finish)
        else:
            for key in keys:
                yield key, now(key)


def by_threads(
    fs: AbstractFileSystem,
    keys: Iterable[K],
    ahead: int,
    now: Callable[[K], T],
    *,
    finish: bool = False,
) -> Iterator[tuple[K, T]]:
    """Iterate over keys and answers in their order, which some threads ask for."""
    if is_async(behind_caches(fs)):
        _loop_of(behind_caches(fs))  # whose thread could not answer those that wait here
    with ThreadPoolExecutor(min(ahead, THREADS), "xarray-n5-fetch") as threads:
        yield from _under_way(keys, ahead, lambda key: threads.submit(now, key), finish)


def _loop_of(fs: AbstractFileSystem) -> asyncio.AbstractEventLoop:
    """Return the loop that makes a filesystem's requests, unless it is this one that waits."""
    loop: asyncio.AbstractEventLoop | None = fs.loop
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if loop is None or loop is running:
        raise NotImplementedError(
            "a loop cannot wait for requests of its own: open without asynchronous=True, and read "
            "in another thread (asyncio.to_thread)"
        )
    return loop


def _under_way(
    keys: Iterable[K],
    ahead: int,
    ask: Callable[[K], Future[T]],
    finish: bool,
) -> Iterator[tuple[K, T]]:
    waiting: deque[tuple[K, Future[T]]] = deque()
    try:
        for key in keys:
            waiting.append((key, ask(key)))
            if len(waiting) >= ahead:
                first, answer = waiting.popleft()
                yield first, answer.result()
        while waiting:
            first, answer = waiting.popleft()
            yield first, answer.result()
    finally:
        for _, answer in waiting:
            if finish:
                answer.exception()
            else:
                answer.cancel()
