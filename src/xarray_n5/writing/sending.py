"""Tasks that end while the requests for their chunks are under way.

A thread of Dask computes the next block meanwhile. Whoever needs a task's receipts waits for its
requests: the tasks that merge receipts, and pickling, before the receipts leave the process. If the
process dies, the receipts are lost with the requests, and the task is repeated.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from concurrent.futures import CancelledError, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from xarray_n5.arrays import attempts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index
    from xarray_n5.model.receipts import Receipts
    from xarray_n5.writing.write import Write

    _Item: TypeAlias = tuple[str, bytes | None]
    """A key, and the bytes to store; None to remove it."""

_MOST_BYTES = 1 << 27
"""The number of bytes under way from all tasks of a process above which a task waits: 128 MiB."""

_lock = threading.Lock()
_room = threading.Condition(_lock)
"""Notified when a request has ended, for tasks that wait to send a chunk."""
_ends = threading.Condition(_lock)
"""Notified when all requests of a task have ended."""

_under_way = [0, 0]
"""The numbers of requests and of bytes under way from all tasks of this process."""


def _after_fork() -> None:
    """Forget the requests of the parent: the child has none of its threads."""
    global _lock, _room, _ends  # noqa: PLW0603 - another thread may hold the lock
    _lock = threading.Lock()
    _room, _ends = threading.Condition(_lock), threading.Condition(_lock)
    _under_way[:] = 0, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(slots=True, eq=False)
class Sending:
    """The requests of a task, which count as running tasks of its attempt until they have ended."""

    target: ArrayNode
    write: Write
    failed: list[_Item] = field(default_factory=list)
    """What could not be stored, to be repeated once."""
    receipts: Any = None
    """The receipts of the task, once it has ended."""
    _left: int = 0
    """The number of requests under way, and one for the task while it runs."""
    _begun: int = 0
    _since: float = 0.0
    """When the task began."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._left += 1
        self._since = time.monotonic()
        self._stack.enter_context(self._running())
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _running(self) -> AbstractContextManager[None]:
        return self.write.marker.running(self.target.url)

    def is_possible(self) -> bool:
        """Return whether the task need not wait: its chunks are on a server, and nowhere else.

        Tasks that keep records of their chunks wait, since a record must be the later one.
        """
        behind = self.target.container.batch > 1 and not self.write.journal
        return behind and self.target.store.sender() is not None

    def check(self) -> None:
        """Raise unless the attempt may still write."""
        if not self.write.marker.is_trusted():
            self.write.marker.check()

    def send(self, index: Index, data: Buffer | None) -> None:
        """Begin to store a chunk, or to remove it, when there is room for another request.

        Wait for it if too many bytes are under way. The error of an earlier request of the attempt
        is raised here, once. The bytes are copied, as the task's memory may be used again after it.
        """
        if (error := attempts.failure(self.write.marker.attempt)) is not None:
            raise error
        data = None if data is None else bytes(data)
        store, nbytes = self.target.store, 0 if data is None else len(data)
        begin: Any = store.sender()
        item, counted = (self.target.key(index), data), False
        try:
            with _lock:
                _room.wait_for(lambda: _under_way[0] < store.most_at_once)
                _under_way[:] = _under_way[0] + 1, _under_way[1] + nbytes
                self._left, self._begun, counted = self._left + 1, self._begun + 1, True
                waits = _under_way[1] > _MOST_BYTES
            self.check()
            request: Future[str] = begin(item)
        except BaseException:  # also that of a user who interrupts
            if counted:
                self._leave(nbytes)
            raise
        request.add_done_callback(partial(self._done, index, item, nbytes))
        if waits:
            wait([request])

    def _done(self, index: Index, item: _Item, nbytes: int, request: Future[str]) -> None:
        """Note the end of a request, in the thread that made it."""
        self.target.indices.forget([index])
        error = CancelledError() if request.cancelled() else request.exception()
        if error is not None:
            self.failed.append(item)
            # Its frames hold the bytes.
            attempts.fail(self.write.marker.attempt, self._since, error.with_traceback(None))
        self._leave(nbytes)

    def _leave(self, nbytes: int) -> None:
        with _lock:
            _under_way[:] = _under_way[0] - 1, _under_way[1] - nbytes
            _room.notify_all()  # their stores may have other limits
        self._end()

    def _end(self) -> None:
        with _lock:
            self._left -= 1
            ended = not self._left
        if ended:
            self._stack.close()
            with _lock:
                _ends.notify_all()

    def result(self, receipts: Receipts) -> Receipts | Sending:
        """Return the receipts of the task, or this object if requests may be under way."""
        self.receipts = receipts
        return self if self._begun else receipts

    def _wait(self) -> None:
        with _lock:
            _ends.wait_for(lambda: not self._left)

    def received(self) -> Receipts:
        """Return the receipts, after all requests have succeeded; repeat those that failed."""
        self._wait()
        if self.failed:
            with self._running():
                attempts.failure(self.write.marker.attempt)
                self.check()
                deque(self.target.store.set_many(self.failed, len(self.failed)), maxlen=0)
            self.failed = []
        found: Receipts = self.receipts
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        self._wait()
        if not self.failed:
            return _same, (self.receipts,)
        return Sending, (self.target, self.write, self.failed, self.receipts)


def _same(receipts: Receipts) -> Receipts:
    return receipts


def received(parts: Iterable[Receipts | Sending]) -> list[Receipts]:
    """Return the receipts of tasks, after their requests have succeeded."""
    return [part.received() if isinstance(part, Sending) else part for part in parts]
