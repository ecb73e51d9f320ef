"""Requests to fsspec filesystems: several at once, no secrets in errors, retried if needed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from xarray_n5.errors import RefusedError, RequestError
from xarray_n5.stores import _filesystems as filesystems
from xarray_n5.stores._errors import is_missing, is_refused, is_transient, lacks_bucket
from xarray_n5.stores.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
    from concurrent.futures import Future

    from fsspec import AbstractFileSystem

    from xarray_n5.stores.base import Store

K = TypeVar("K")
T = TypeVar("T")

_CALLS = 32
"""The most calls at once; each may make many requests at once, too."""

_DELAYS = (0.1, 0.2, 0.4, 0.8)
"""The maximum delays in seconds before requests that failed are repeated; half of each is random,
which spreads those that failed together."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Make requests to a filesystem, and convert its errors.

    A request is a coroutine. It runs in the loop of an asynchronous filesystem; those of others
    block, and are run to their end by the thread that asks.
    """

    fs: AbstractFileSystem
    """The filesystem."""
    url: str
    """The container's URL for errors, without secrets."""

    async def ask(
        self, verb: str, key: str, request: Callable[[], Awaitable[T]], *, retry: bool = True
    ) -> T | None:
        """Return the result of a request; None if the file is missing, unless it is written.

        Requests are repeated if they failed for a transient reason, unless the library of the
        filesystem does that itself.
        """
        retry = retry and not filesystems.OBJECTS & filesystems.protocols(self.fs)
        for delay in (*(_DELAYS if retry else ()), None):
            try:
                return await request()
            except Exception as error:  # noqa: BLE001 - each library has errors of its own
                failure = self._failure(verb, key, error)
                if delay is None or is_missing(error) or not is_transient(error):
                    break
            pause = random.SystemRandom().uniform(delay / 2, delay)
            if filesystems.is_async(self.fs):
                await asyncio.sleep(pause)
            else:
                time.sleep(pause)  # noqa: ASYNC251 - this thread has no loop
        # Raised here, so that it does not carry the library's own error: that may show a signed
        # URL, and need not be picklable.
        if failure is not None:
            raise failure
        return None

    def call(self, verb: str, key: str, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the result of a method of the filesystem, like :meth:`ask`."""
        request = partial(filesystems.call, self.fs, method, *arguments, **options)
        [(_, result)] = self.map([key], 1, lambda _: self.ask(verb, key, request))
        return result

    def map(
        self,
        keys: Iterable[K],
        ahead: int,
        request: Callable[[K], Coroutine[Any, Any, T]],
        *,
        finish: bool = False,
    ) -> Iterator[tuple[K, T]]:
        """Iterate over keys and the results of their requests, in order, several in flight.

        Parameters
        ----------
        keys
            Consumed as requests begin.
        ahead
            The maximum number of results that wait to be consumed.
        request
            Makes one of the requests.
        finish
            Whether to wait for all running requests if one fails; otherwise they are cancelled.
        """
        ahead = min(ahead, filesystems.most_at_once(self.fs))
        if filesystems.is_async(self.fs):
            loop, submit = _loop_of(self.fs), asyncio.run_coroutine_threadsafe
            yield from _in_flight(keys, ahead, lambda key: submit(request(key), loop), finish)
        elif ahead > 1:
            with ThreadPoolExecutor(ahead, "xarray-n5-fetch") as threads:

                def begin(key: K) -> Future[T]:
                    return threads.submit(_run, request(key))

                yield from _in_flight(keys, ahead, begin, finish)
        else:
            for key in keys:
                yield key, _run(request(key))

    def _failure(self, verb: str, key: str, error: Exception) -> Exception | None:
        """Return an error that names the key and shows no secret; None for a missing file."""
        if verb != "write" and is_missing(error):
            return None
        if isinstance(error, NotImplementedError):
            return error
        kind = RefusedError if is_refused(error) else RequestError
        text = str(error) or str(error.__cause__ or "") or "no details"
        why = redact(f"{type(error).__name__}: {text}", self.fs.storage_options)
        # A library of a filesystem gets its options with the first request.
        unknown = isinstance(error, TypeError) and "unexpected keyword argument" in text
        hint = "check the names in storage_options=" if unknown else getattr(error, "advice", None)
        if lacks_bucket(error) or is_missing(error):  # nothing else is missing for a write
            hint = "create the bucket, or correct its name in the URL"
        return kind(verb, self.url, key, why, hint)


def _run(request: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that blocks, and so never waits for a loop."""
    try:
        request.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise RuntimeError("a request of a blocking filesystem waits for a loop")


def _loop_of(fs: AbstractFileSystem) -> asyncio.AbstractEventLoop:
    """Return the event loop of a filesystem, unless this is the thread that runs it."""
    loop: asyncio.AbstractEventLoop | None = fs.loop
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if loop is None or loop is running:
        raise NotImplementedError(
            "an event loop cannot wait for its own requests; open without asynchronous=True, or "
            "read in another thread (asyncio.to_thread)"
        )
    return loop


def _in_flight(
    keys: Iterable[K], ahead: int, submit: Callable[[K], Future[T]], finish: bool
) -> Iterator[tuple[K, T]]:
    waiting: deque[tuple[K, Future[T]]] = deque()
    try:
        for key in keys:
            waiting.append((key, submit(key)))
            if len(waiting) >= ahead:
                first, result = waiting.popleft()
                yield first, result.result()
        while waiting:
            first, result = waiting.popleft()
            yield first, result.result()
    finally:
        for _, result in waiting:
            if finish:
                result.exception()
            else:
                result.cancel()


def together(store: Store, calls: Iterable[Callable[[], T]]) -> list[T]:
    """Return the results of calls that make requests to a store, in order.

    On local files they are made one after another. Elsewhere threads make them at the same time:
    they must not change the filters of warnings, which are those of the whole process. All calls
    have ended before the first error is raised.
    """
    waiting: list[Any] = [*calls]
    if store.concurrency == 1 or len(waiting) < 2:  # noqa: PLR2004
        return [call() for call in waiting]
    with ThreadPoolExecutor(min(len(waiting), _CALLS), "xarray-n5-request") as threads:
        running = [threads.submit(call) for call in waiting]
        wait(running)
    return [future.result() for future in running]


def heads(store: Store, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
    """Iterate over the first `count` bytes of files and their sizes, several in flight."""
    waiting = iter(keys)
    while batch := list(islice(waiting, store.concurrency)):
        yield from together(store, [partial(store.head, key, count) for key in batch])
