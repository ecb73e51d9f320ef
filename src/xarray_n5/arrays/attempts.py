"""The attempts at writes whose tasks run in this process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE = 60.0
"""The seconds for which a failed write, or one that replaces it, waits for its tasks to stop."""

_stopped: set[str] = set()
"""The attempts that failed in this process."""

_running: Counter[tuple[str, str]] = Counter()
"""The number of tasks that are writing in this process, by their attempt and their array's URL."""

_failures: dict[str, tuple[float, BaseException | None]] = {}
"""By attempt, when a task raised the error of a request last, and the error of a later one."""

_seen: dict[str, tuple[object, float]] = {}
"""By the key of a marker, the attempt that it named when this process read or stored it."""

_TRUSTED = 2.0
"""The seconds for which the tasks of a process rely on a marker that was read or stored."""

_changed = threading.Condition()


def is_stopped(attempt: str) -> bool:
    """Return whether an attempt failed in this process."""
    return attempt in _stopped


@contextmanager
def running(attempt: str, url: str) -> Iterator[None]:
    """Let :func:`stop` wait for a task."""
    with _changed:
        _running[attempt, url] += 1
    try:
        yield
    finally:
        with _changed:
            _running[attempt, url] -= 1
            if not _running[attempt, url]:
                del _running[attempt, url]
            _changed.notify_all()


def fail(attempt: str, began: float, error: BaseException) -> None:
    """Let the next task of an attempt raise the error of a request of a task that began then.

    The computation of that task may have failed already, and be repeated.
    """
    with _changed:
        raised, _ = _failures.get(attempt, (0.0, None))
        if began > raised:
            _failures[attempt] = raised, error


def failure(attempt: str) -> BaseException | None:
    """Return the error of a request of an attempt, once."""
    with _changed:
        _, error = _failures.get(attempt, (0.0, None))
        if error is not None:
            _failures[attempt] = time.monotonic(), None
    return error


def stop(attempt: str) -> None:
    """Stop the tasks of an attempt that failed, and wait until they have stopped."""
    with _changed:
        _stopped.add(attempt)
        _changed.wait_for(lambda: not any(attempt == each for each, _ in _running), _PATIENCE)
        _failures.pop(attempt, None)


def stop_below(url: str) -> None:
    """Stop all tasks that write what is about to be removed, and wait until they have stopped.

    A write that was computed later may have failed while its requests were under way.
    """

    def there() -> set[str]:
        return {attempt for attempt, place in _running if f"{place}/".startswith(f"{url}/")}

    with _changed:
        _stopped.update(there())
        _changed.wait_for(lambda: not there(), _PATIENCE)


def see(key: str, attempt: object, when: float) -> None:
    """Record that a marker named an attempt, when a request was sent at this time."""
    with _changed:
        _seen.pop(key, None)
        _seen[key] = attempt, when
        while _seen[oldest := next(iter(_seen))][1] < when - _TRUSTED:
            del _seen[oldest]


def is_seen(key: str, attempt: object, within: float | None = None) -> bool:
    """Return whether a marker named an attempt when this process has just read or stored it."""
    found, when = _seen.get(key, (None, 0.0))
    trusted = _TRUSTED if within is None else within
    return found == attempt and time.monotonic() < when + trusted


def forget(key: str) -> None:
    """Forget a marker that this process changes or removes."""
    with _changed:
        _seen.pop(key, None)
