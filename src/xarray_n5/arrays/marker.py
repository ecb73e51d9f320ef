"""Markers of unfinished writes: a hidden folder next to an array or in a group.

The folder's name has the write's token, a digest of what is written and where. A task that finds
the marker sees the right container, and later processes can resume the same write only.

A write that is computed later (``compute=False``) is planned first: until its first task runs, its
marker is in a folder of another name, which does not block other writes.
"""

from __future__ import annotations

import functools
import json
import time
import uuid
from collections import deque
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays import attempts
from xarray_n5.arrays.marker_json import LARGEST, REPAIRED, is_record, is_token, parse_mark
from xarray_n5.errors import ContainerNotVisibleError, StaleTaskError, UnsafePathError
from xarray_n5.model.paths import DIGESTS, PLANNED, UNFINISHED, WRITING, join
from xarray_n5.stores import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.stores.base import Listing, Store

__all__ = ["REPAIRED", "WriteMarker", "claiming", "find_markers", "unfinished_writes"]

_MARK = "mark.json"
_JUST = 0.1  # seconds within which a hint is not read again: less than a request may take


def _new() -> str:
    return uuid.uuid4().hex[:8]


@functools.lru_cache(maxsize=256)
def _expected(path: str, token: str, attempt: str) -> tuple[str, bytes]:
    """Return a marker's key and how it starts, which tasks compare before each chunk."""
    key = join(path, f"{WRITING}{token}", _MARK)
    return key, json.dumps({"attempt": attempt})[:-1].encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarker:
    """The marker of one write into an array or a group."""

    store: Store
    path: str  # of the node that is written
    token: str
    """The string that distinguishes this write from others into the node."""
    run: str = field(default_factory=_new, compare=False)
    """The prefix of its records; earlier writes with the same token have another prefix."""
    attempt: str = field(default_factory=_new, compare=False)
    """The attempt that tasks belong to; those of an earlier, failed attempt must stop."""
    first: bool = field(default=False, compare=False)
    """Whether no other write into the node was unfinished when this attempt began."""

    @property
    def folder(self) -> str:
        """The key of the folder that exists as long as the write is unfinished."""
        return join(self.path, f"{WRITING}{self.token}")

    @property
    def _plan(self) -> str:
        """The key of the folder that exists until a planned write begins."""
        return join(self.path, f"{PLANNED}{self.token}")

    # Beginning

    def plan(self, facts: Mapping[str, Any]) -> None:
        """Create the marker of a write that begins when its first task runs."""
        self._leave(self._plan, facts)

    def begin(self, facts: Mapping[str, Any], *, planned: bool = False) -> None:
        """Create the marker with facts for other processes; remove that of the plan."""
        # The hint shows an unfinished write to readers with one request. Both are stored before
        # anything else is written: a hint without a marker is ignored.
        now, hint = time.monotonic(), join(self.path, UNFINISHED)
        attempts.forget(hint)
        self._leave(self.folder, facts, (hint, self._hint))
        attempts.see(*_expected(self.path, self.token, self.attempt), now)
        if planned:
            self.forget_plan()

    def update(self, facts: Mapping[str, Any]) -> None:
        """Change the facts in the marker; the hint stays that of the write that began last."""
        self._leave(self.folder, facts)

    @property
    def _hint(self) -> bytes:
        """The content of the hint when this attempt began last."""
        return json.dumps({"token": self.token, "attempt": self.attempt}).encode()

    def begin_planned(self) -> None:
        """Begin a planned write, unless another task has done so.

        Raises
        ------
        ContainerNotVisibleError
            If the write is neither planned nor begun, as after another write replaced it.
        """
        if self._has(self.folder):
            return
        facts = self.planned()
        if facts is not None:
            self.as_found(facts).begin(facts, planned=True)
        elif not self._has(self.folder):
            raise ContainerNotVisibleError(self.store.url, join(self._plan, _MARK))

    def postpone(self, facts: Mapping[str, Any]) -> None:
        """Turn a write that has begun into a planned one."""
        self.plan(facts)
        self._remove_hint()
        self.store.delete_tree(self.folder, _MARK)

    def done(self, facts: Mapping[str, Any]) -> None:
        """Record in the marker that no chunks are pending."""
        self._leave(self.folder, {**facts, "done": True})

    def _leave(self, folder: str, facts: Mapping[str, Any], *before: tuple[str, bytes]) -> None:
        """Store the marker, after other small files; a link of the folder's name is removed."""
        attempts.forget(join(folder, _MARK))
        own = {"attempt": self.attempt, "run": self.run}
        items = [*before, (join(folder, _MARK), json.dumps(own | {**facts, **own}).encode())]
        try:
            self._store(items)
        except UnsafePathError:
            if not self.store.is_link(folder):
                raise
            self.store.clear_folder(folder)
            self._store(items)

    def _store(self, items: Sequence[tuple[str, bytes]]) -> None:
        if len(items) == 1:
            self.store.set(*items[0])
            return
        deque(self.store.set_many(items, len(items)), maxlen=0)

    # Reading

    def facts(self) -> dict[str, Any] | None:
        """Return the facts in the marker, checked; None if it does not exist."""
        return self._read(self.folder)

    def planned(self) -> dict[str, Any] | None:
        """Return the facts of a planned write; None if it was not planned, or has begun."""
        return self._read(self._plan)

    def _read(self, folder: str) -> dict[str, Any] | None:
        document = (
            None if self.store.is_link(folder) else self._head(join(folder, _MARK), LARGEST + 1)
        )
        return None if document is None else parse_mark(document, self.path)

    def _head(self, key: str, count: int) -> bytes | None:
        """Return a marker, or `count` bytes of it if that is cheaper."""
        if self.store.concurrency > 1:
            return self.store.get(key)
        found = self.store.head(key, count)
        return None if found is None else found[0]

    def _has(self, folder: str) -> bool:
        return not self.store.is_link(folder) and self.store.exists(join(folder, _MARK))

    def new_attempt(self, facts: Mapping[str, Any]) -> WriteMarker:
        """Return a new attempt at the write with these `facts`, keeping its records.

        A repair is resumed by several writers, part by part: they share one attempt.
        """
        if self.token == REPAIRED:
            return self.as_found(facts)
        return replace(self, run=facts.get("run", self.run))

    def as_found(self, facts: Mapping[str, Any]) -> WriteMarker:
        """Return the marker with the run and the attempt in its `facts`."""
        run, attempt = facts.get("run", self.run), facts.get("attempt", self.attempt)
        return replace(self, run=run, attempt=attempt)

    # Tasks

    def check(self) -> None:
        """Raise unless this attempt may still write.

        Raises
        ------
        ContainerNotVisibleError
            On a worker without the file system that the write began on, or with another container
            at the same location; or if the write has ended or was replaced.
        StaleTaskError
            If the write failed, or was resumed by another attempt.
        """
        if self.is_stopped():
            raise StaleTaskError(self.store.url, self.path)
        key, start = _expected(self.path, self.token, self.attempt)
        now, head = time.monotonic(), self._head(key, 256)
        if head is None:
            raise ContainerNotVisibleError(self.store.url, key)
        if not head.startswith(start):
            raise StaleTaskError(self.store.url, self.path)
        attempts.see(key, start, now)

    def is_trusted(self) -> bool:
        """Return whether this attempt may write, since this process has just checked that.

        On local disks, where a check costs little, it returns false.
        """
        expected = _expected(self.path, self.token, self.attempt)
        return self.store.concurrency > 1 and not self.is_stopped() and attempts.is_seen(*expected)

    def is_alone(self) -> bool:
        """Return whether this attempt is current, and no other write into the node has begun.

        There was none when it began, and later ones would have replaced its hint: one request, and
        no listing of chunks. If it returns false, there may still be none.
        """
        return self.first and not self.is_stopped() and self.began_last()

    def began_last(self) -> bool:
        """Return whether no other attempt at a write into the node has begun after this one.

        The hint is not read again at once: another attempt may begin meanwhile anyway.
        """
        key, hint = join(self.path, UNFINISHED), self._hint
        if self.store.concurrency > 1 and attempts.is_seen(key, hint, _JUST):
            return True
        if self.store.get(key) != hint:
            return False
        attempts.see(key, hint, time.monotonic())
        return True

    def is_stopped(self) -> bool:
        """Return whether this attempt failed in this process."""
        return attempts.is_stopped(self.attempt)

    def running(self, url: str) -> AbstractContextManager[None]:
        """Register a running task, which writes an array, and for which :meth:`stop` waits."""
        return attempts.running(self.attempt, url)

    def stop(self) -> None:
        """Stop the tasks of an attempt that failed; the write can be resumed.

        Tasks of this process have stopped when this returns; others find another attempt in the
        marker, and stop before their next chunk.
        """
        attempts.stop(self.attempt)
        with suppress(Exception):  # the error of the failed write is more important
            facts = self.facts()
            if facts is not None and facts.get("attempt") == self.attempt:
                replace(self, attempt=_new()).begin(facts)

    def note(self, name: str, record: bytes) -> None:
        """Keep a record of what a task has written."""
        self.store.set(join(self.folder, f"{self.run}-{name}"), record)

    def records(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the keys of the records, and the records."""
        _, files = self.store.list(self.folder)
        keys = [join(self.folder, name) for name in files if name.startswith(f"{self.run}-")]
        for start in range(0, len(keys), 1000):
            some = keys[start : start + 1000]
            found = zip(some, self.store.get_many(some), strict=True)
            yield from ((key, record) for key, record in found if record is not None)

    # Ending

    def end(self, *, records: bool = True, appends: bool = False) -> None:
        """Remove the records of tasks, if there may be `records`, and the marker last of all.

        That of a write that `appends` is not removed while another append changes it.
        """
        with claiming(self.store, self.path) if appends else nullcontext():
            self.ending(records=records)()

    def ending(self, *, records: bool, part: bool = False) -> Callable[[], None]:
        """Look for everything to remove, and return a function that removes it, the marker last.

        The marker records first that nothing is pending, unless another one does for all `part`s.
        """
        if not self.first and self.store.is_link(self.folder):
            return partial(self.store.clear_folder, self.folder)
        looks: list[Any] = [self._notes if records else list, self._shares_hint]
        if part:
            return partial(self._end, *together(self.store, looks))
        if notes := looks[0]():
            self.done({})
            self.store.delete(notes)
        # Another write may have begun until now, and relies on the hint: look as late as possible.
        return lambda: self._end([], self._shares_hint())

    def _notes(self) -> list[str]:
        """Return the keys of everything next to the marker."""
        return [
            join(self.folder, name) for name in self.store.list(self.folder)[1] if name != _MARK
        ]

    def _shares_hint(self) -> bool | None:
        """Return whether other writes into the node are unfinished; None if it was always alone."""
        return None if self.is_alone() else bool(find_markers(self.store, self.path, but=self)[0])

    def _end(self, notes: Sequence[str], shared: bool | None) -> None:
        attempts.forget(join(self.folder, _MARK))
        hint = [] if shared else [join(self.path, UNFINISHED)]
        if shared is None:
            self.store.delete([*notes, *hint, join(self.folder, _MARK)])
            self.store.clear_folder(self.folder)
            return
        self._remove(self.folder, *notes, *hint)
        if shared:
            self._remove_hint()  # other writes may have left it to this one

    def _remove_hint(self) -> None:
        """Remove the hint, unless other writes are unfinished."""
        if not find_markers(self.store, self.path, but=self)[0]:
            self.store.delete([join(self.path, UNFINISHED)])

    def forget_plan(self) -> None:
        """Remove the marker of a planned write."""
        self._remove(self._plan)

    def _remove(self, folder: str, *before: str) -> None:
        """Remove keys, then a marker, and its folder if that exists without.

        The temporary files in the folder are of killed attempts at the same write.
        """
        keys = [join(folder, key) for key in self.store.list_partials(folder)]
        self.store.delete([*keys, *before, join(folder, _MARK)])
        self.store.clear_folder(folder)


@contextmanager
def claiming(store: Store, path: str) -> Iterator[None]:
    """Let other appends to a group wait, where the store has locks."""
    folder = join(path, DIGESTS)  # another one than those of documents, which change meanwhile
    with store.exclusive(folder) as alone:
        try:
            yield
        finally:
            if alone:
                store.clear_folder(folder)  # if the lock has created it


def unfinished_writes(store: Store, path: str) -> list[WriteMarker]:
    """Return the markers of unfinished writes into a node, from one listing."""
    return find_markers(store, path)[0]


def find_markers(
    store: Store,
    path: str,
    *,
    tidy: bool = False,
    but: WriteMarker | None = None,
    listing: Listing | None = None,
) -> tuple[list[WriteMarker], list[WriteMarker]]:
    """Return the markers of the unfinished and of the planned writes into a node, except `but`.

    One listing is made, unless `listing` is passed. With `tidy`, links and folders that are named
    like markers but have none are removed: a process that is killed at the end of its write leaves
    an empty one.
    """
    folders, files = store.list(path) if listing is None else listing
    begun: list[WriteMarker] = []
    planned: list[WriteMarker] = []
    for name in (*folders, *files):
        for start, found in ((WRITING, begun), (PLANNED, planned)):
            if not name.startswith(start):
                continue
            each = WriteMarker(store=store, path=path, token=name.removeprefix(start))
            own = but is not None and each.token == but.token
            if own and start == WRITING:
                continue
            if is_token(each.token) and each._has(join(path, name)):  # noqa: SLF001 - its own
                found.extend([] if own else [each])
            elif tidy:
                _tidy(store, join(path, name))
    return begun, planned


def _tidy(store: Store, folder: str) -> None:
    """Remove the rest of a write without a marker, except files that are still being written."""
    if not store.is_link(folder):
        store.delete([join(folder, name) for name in store.list(folder)[1] if is_record(name)])
    store.clear_folder(folder)
