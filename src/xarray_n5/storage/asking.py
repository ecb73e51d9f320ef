"""Requests to one of fsspec's filesystems: made again, told of, several at once."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from xarray_n5.errors import RefusedError, RequestError
from xarray_n5.storage.failures import MISSING, is_missing, is_refused
from xarray_n5.storage.filesystems import is_async, is_threaded, most_at_once
from xarray_n5.storage.secrets import hide_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
    from concurrent.futures import Future

    from fsspec import AbstractFileSystem

    from xarray_n5.storage.retrying import Retries

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asking:
    """How a filesystem is asked, and what is told of a request that fails."""

    fs: AbstractFileSystem
    """The filesystem."""
    url: str
    """The container's place, for errors; without secrets."""
    retries: Retries
    """How often a request is made again."""

    def for_what_may_be(self, verb: str, key: str, request: Callable[[], T]) -> T | None:
        """Return what a request returns, None where nothing is there."""
        try:
            with self.telling(verb, key):
                return self.retries.run(request)
        except MISSING:
            return None

    async def later(self, verb: str, key: str, request: Callable[[], Awaitable[T]]) -> T | None:
        """Return what a request returns, None where nothing is there; in the filesystem's loop."""
        try:
            with self.telling(verb, key):
                return await self.retries.run_async(request)
        except MISSING:
            return None

    def for_sure(self, verb: str, key: str, request: Callable[[], T]) -> T:
        """Return what a request returns that nothing can be missing for."""
        with self.telling(verb, key, may_be_missing=False):
            return self.retries.run(request)

    @contextmanager
    def telling(self, verb: str, key: str, *, may_be_missing: bool = True) -> Iterator[None]:
        """Raise errors that name the key, and no secret; let pass that nothing is there."""
        try:
            yield
        except NotImplementedError:
            raise
        except Exception as error:
            if may_be_missing and is_missing(error):
                raise
            why = self._reason(error)
            failure = (RefusedError if is_refused(error) else RequestError)(
                verb, self.url, key, why
            )
            # What a library says of a request may show its URL: that does not go on.
            raise failure from (error if str(error) in why else None)

    def _reason(self, error: Exception) -> str:
        text = str(error) or str(error.__cause__ or "") or "no more is known"
        return hide_all(f"{type(error).__name__}: {text}", self.fs.storage_options)

    def several(
        self,
        keys: Iterable[str],
        ahead: int,
        later: Callable[[str], Coroutine[Any, Any, T]],
        now: Callable[[str], T],
    ) -> Iterator[tuple[str, T]]:
        """Iterate over keys and answers in their order, of which some more are under way.

        Parameters
        ----------
        keys
            What is asked for.
        ahead
            How many answers there may be at most that nobody has taken yet.
        later, now
            What asks in the loop of a filesystem that has one, and what asks elsewhere.
        """
        ahead = min(ahead, most_at_once(self.fs))
        if is_async(self.fs):
            loop = self.fs.loop
            submit = asyncio.run_coroutine_threadsafe
            yield from _under_way(keys, ahead, lambda key: submit(later(key), loop))
        elif is_threaded(self.fs):
            with ThreadPoolExecutor(ahead, "xarray-n5-fetch") as threads:
                yield from _under_way(keys, ahead, lambda key: threads.submit(now, key))
        else:
            for key in keys:
                yield key, now(key)


def _under_way(
    keys: Iterable[str], ahead: int, ask: Callable[[str], Future[T]]
) -> Iterator[tuple[str, T]]:
    waiting: deque[tuple[str, Future[T]]] = deque()
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
            answer.cancel()
