"""Requests that do not depend on each other, made at the same time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

from xarray_n5.stores._filesystems import behind_caches, is_async
from xarray_n5.stores.fsspec import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xarray_n5.stores.base import Store

T = TypeVar("T")

_THREADS = 32
"""The most calls at once; each may make many requests at once, too."""


def together(store: Store, calls: Iterable[Callable[[], T]]) -> list[T]:
    """Return the results of calls that make requests to a store, in order.

    On local files they are made one after another. Elsewhere threads make them at the same time:
    they must not change the filters of warnings, which are those of the whole process. All calls
    have ended before the first error is raised.
    """
    waiting: list[Any] = [*calls]
    if store.concurrency == 1 or len(waiting) < 2 or _runs_loop_of(store):  # noqa: PLR2004
        return [call() for call in waiting]
    with ThreadPoolExecutor(min(len(waiting), _THREADS), "xarray-n5-request") as threads:
        running = [threads.submit(call) for call in waiting]
        wait(running)
    return [each.result() for each in running]


def _runs_loop_of(store: Store) -> bool:
    """Return whether this thread runs the loop that requests would wait for: they raise then."""
    source = store.uncached()
    if not isinstance(source, FsspecStore) or not is_async(fs := behind_caches(source.fs)):
        return False
    try:
        return asyncio.get_running_loop() is fs.loop
    except RuntimeError:
        return False
