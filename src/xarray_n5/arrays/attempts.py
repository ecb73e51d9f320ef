"""The attempts at writes whose tasks run in this process."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
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

_changed = threading.Condition()

_MOST = 1000
"""The number of attempts whose beginning is remembered."""

_began: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()
"""The last attempt that this process began at a write into a node, and when."""


def note_begin(path: str, token: str, attempt: str) -> None:
    """Remember that this process has stored the marker of an attempt."""
    with _changed:
        _began[path, token] = attempt, time.monotonic()
        _began.move_to_end((path, token))
        if len(_began) > _MOST:
            _began.popitem(last=False)


def began_at(path: str, token: str, attempt: str) -> float:
    """Return when this process began an attempt, by the monotonic clock; -inf if it did not."""
    last, when = _began.get((path, token), ("", 0.0))
    return when if last == attempt else float("-inf")


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
