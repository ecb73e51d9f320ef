"""Requests that are made again, where they failed for what may pass."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from xarray_n5.stores.failures import is_missing, is_transient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and after how long, a request is made again.

    Only for requests that may be made twice: reads, and writes of whole objects.

    >>> list(Retries(count=4).delays(lambda: 1.0))
    [0.1, 0.2, 0.4, 0.8]
    """

    count: int = 4
    """How often, at most, beside the first time."""
    first: float = 0.1
    """How many seconds pass before the first of them, at most; twice as many before the next."""
    longest: float = 5.0
    """How many seconds pass at most."""

    within: float = 60.0
    """After how many seconds a request is not made again: a slow server is asked once."""

    def delays(self, draw: Callable[[], float] = random.random) -> Iterator[float]:
        """Iterate over the seconds between requests: half of each pause is drawn by lot.

        Of many that failed together, not all come back together.
        """
        for turn in range(self.count):
            yield min(self.longest, self.first * 2**turn) * (0.5 + draw() / 2)

    def run(self, request: Callable[[], T], wait: Callable[[float], None] = time.sleep) -> T:
        """Return what a request returns; raise what the last one raised."""
        end = time.monotonic() + self.within
        for delay in self.delays():
            try:
                return request()
            except Exception as error:
                if not _is_worth_it(error) or time.monotonic() > end:
                    raise
            wait(delay)
        return request()

    async def run_async(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return what a request returns; others go on while it waits."""
        end = time.monotonic() + self.within
        for delay in self.delays():
            try:
                return await request()
            except Exception as error:
                if not _is_worth_it(error) or time.monotonic() > end:
                    raise
            await asyncio.sleep(delay)
        return await request()


def _is_worth_it(error: Exception) -> bool:
    return not is_missing(error) and is_transient(error)
