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
"""The seconds for which a failed write waits for its tasks in this process to stop."""

_stopped: set[str] = set()
"""The attempts that failed in this process."""

_running: Counter[str] = Counter()
"""The number of tasks of each attempt that are writing in this process."""

_seen: dict[str, tuple[object, float]] = {}
"""By the key of a marker, the attempt that it named when this process read or stored it."""

_TRUSTED = 2.0
"""The seconds for which the tasks of a process rely on a marker that was read or stored."""

_changed = threading.Condition()


def is_stopped(attempt: str) -> bool:
    """Return whether an attempt failed in this process."""
    return attempt in _stopped


@contextmanager
def running(attempt: str) -> Iterator[None]:
    """Let :func:`stop` wait for a task."""
    with _changed:
        _running[attempt] += 1
    try:
        yield
    finally:
        with _changed:
            _running[attempt] -= 1
            if not _running[attempt]:
                del _running[attempt]
            _changed.notify_all()


def stop(attempt: str) -> None:
    """Stop the tasks of an attempt that failed, and wait until they have stopped."""
    with _changed:
        _stopped.add(attempt)
        _changed.wait_for(lambda: not _running[attempt], _PATIENCE)


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
