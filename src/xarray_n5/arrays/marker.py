"""Unfinished writes: a folder beside an array, with a mark and records of what has been done.

The folder's name holds the write's token, which is made of what is written and of where. Who sees
it sees this very container; who finds it later can resume the same write, and no other.

A write that is computed later (``compute=False``) is planned first: its mark lies in a folder of
another name, which stops no other write, until the first of its tasks runs.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.marker_json import (
    LARGEST,
    REPAIRED,
    is_part,
    is_record,
    is_token,
    parse_mark,
)
from xarray_n5.errors import ContainerNotVisibleError, StaleTaskError
from xarray_n5.formats.containers import clear_folder, is_link
from xarray_n5.model.paths import PLANNED, UNFINISHED, WRITING, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.stores.protocol import Store

__all__ = ["REPAIRED", "WriteMarker", "all_markers", "begun_and_planned", "revoke"]

_MARK = "mark.json"

_PATIENCE = 60.0
"""How many seconds a failed write waits for its tasks in this process to stop."""

_stopped: set[str] = set()
"""The attempts that failed in this process."""

_running: Counter[str] = Counter()
"""How many tasks of each attempt are writing in this process."""

_changed = threading.Condition()


def _new() -> str:
    return uuid.uuid4().hex[:8]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarker:
    """A write that has begun, and has not ended."""

    store: Store
    path: str
    """The node that is written."""
    token: str
    """What tells this write from others."""
    run: str = field(default_factory=_new, compare=False)
    """What tells its records from those of the same write that began another time."""
    attempt: str = field(default_factory=_new, compare=False)
    """What tells its tasks from those of an earlier attempt, which failed or was killed."""

    @property
    def folder(self) -> str:
        """The key of the folder that is there as long as the write is unfinished."""
        return join(self.path, f"{WRITING}{self.token}")

    @property
    def _key(self) -> str:
        return join(self.folder, _MARK)

    @property
    def _plan(self) -> str:
        """The key of the folder that is there until a planned write begins."""
        return join(self.path, f"{PLANNED}{self.token}")

    def plan(self, facts: Mapping[str, Any]) -> None:
        """Write the mark of a write that begins when its first task runs."""
        self._leave(self._plan, facts)

    def begin(self, facts: Mapping[str, Any], *, planned: bool = False) -> None:
        """Write the mark, with some facts for those who find it; also where it was `planned`."""
        # First, since a mark without the hint is not seen; a hint without a mark is not believed.
        self._hint()
        self._leave(self.folder, facts)
        if planned:
            self.forget_plan()

    def _leave(self, folder: str, facts: Mapping[str, Any]) -> None:
        if is_link(self.store, folder):
            clear_folder(self.store, folder)
        own = {"attempt": self.attempt, "run": self.run}
        self.store.set(join(folder, _MARK), json.dumps(own | {**facts, **own}).encode())

    def planned(self) -> dict[str, Any] | None:
        """Return the facts of a write that was planned; None if it was not, or has begun."""
        return self._read(self._plan)

    def begin_planned(self) -> None:
        """Begin a planned write, unless another task has done so.

        Raises
        ------
        ContainerNotVisibleError
            If the write is neither planned nor under way, as after another write took its place.
        """
        if self.is_begun():
            return
        facts = self.planned()
        if facts is not None:
            self.as_found(facts).begin(facts, planned=True)
        elif not self.is_begun():
            raise ContainerNotVisibleError(self.store.url, join(self._plan, _MARK))

    def _hint(self) -> None:
        """Let those who open the array know by one request that a write is unfinished."""
        self.store.set(join(self.path, UNFINISHED), b"{}")

    def _remove_hint(self) -> bool:
        """Remove the hint, unless other writes are unfinished; return whether it was removed."""
        if begun_and_planned(self.store, self.path, but=self)[0]:
            return False
        self.store.delete([join(self.path, UNFINISHED)])
        return True

    def forget_plan(self) -> None:
        """Remove the mark of a planned write: its tasks will fail."""
        self.store.delete_tree(self._plan, _MARK)

    def postpone(self, facts: Mapping[str, Any]) -> None:
        """Turn a write that has begun into a planned one."""
        self.plan(facts)
        self._remove_hint()
        self.store.delete_tree(self.folder, _MARK)

    def new_attempt(self, facts: Mapping[str, Any]) -> WriteMarker:
        """Return a new attempt at the write that `facts` are about; the records are its own.

        A repair is resumed by several writers, part by part: they share one attempt.
        """
        if self.token == REPAIRED:
            return self.as_found(facts)
        return replace(self, run=facts.get("run", self.run))

    def as_found(self, facts: Mapping[str, Any]) -> WriteMarker:
        """Return the write as its mark describes it, to change the mark and not the write."""
        run, attempt = facts.get("run", self.run), facts.get("attempt", self.attempt)
        return replace(self, run=run, attempt=attempt)

    def facts(self) -> dict[str, Any] | None:
        """Return what the mark says, checked; None if the write has not begun or has ended."""
        return self._read(self.folder)

    def _read(self, folder: str) -> dict[str, Any] | None:
        if is_link(self.store, folder):
            return None
        if self.store.batch > 1:
            document = self.store.get(join(folder, _MARK))
        else:
            found = self.store.head(join(folder, _MARK), LARGEST + 1)
            document = None if found is None else found[0]
        return None if document is None else parse_mark(document, self.path)

    def check(self) -> None:
        """Raise unless this attempt at the write still holds, before anything is written.

        Raises
        ------
        ContainerNotVisibleError
            On a worker without the file system that the write began on, or with another container
            at the same location; or if the write has ended or was replaced.
        StaleTaskError
            If the write failed, or was resumed by another attempt.
        """
        if self.attempt in _stopped:
            raise StaleTaskError(self.store.url, self.path)
        if self.store.batch > 1:
            head = self.store.get(self._key)
        else:
            found = self.store.head(self._key, 256)
            head = None if found is None else found[0]
        if head is None:
            raise ContainerNotVisibleError(self.store.url, self._key)
        if not head.startswith(json.dumps({"attempt": self.attempt})[:-1].encode()):
            raise StaleTaskError(self.store.url, self.path)

    def is_stopped(self) -> bool:
        """Return whether this attempt failed in this process."""
        return self.attempt in _stopped

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let :meth:`stop` wait for a task."""
        with _changed:
            _running[self.attempt] += 1
        try:
            yield
        finally:
            with _changed:
                _running[self.attempt] -= 1
                if not _running[self.attempt]:
                    del _running[self.attempt]
                _changed.notify_all()

    def stop(self) -> None:
        """End the tasks of an attempt that failed; the write can be resumed.

        Tasks of this process have stopped when this returns; others find another attempt in the
        mark, and stop before their next chunk.
        """
        with _changed:
            _stopped.add(self.attempt)
            _changed.wait_for(lambda: not _running[self.attempt], _PATIENCE)
        with suppress(Exception):  # the error by which the write failed matters more
            facts = self.facts()
            if facts is not None and facts.get("attempt") == self.attempt:
                replace(self, attempt=_new()).begin(facts)

    def note(self, name: str, record: bytes) -> None:
        """Keep a record of what has been done."""
        self.store.set(join(self.folder, f"{self.run}-{name}"), record)

    def records(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the keys of the records, and the records."""
        _, files = self.store.list(self.folder)
        keys = [join(self.folder, name) for name in files if name.startswith(f"{self.run}-")]
        for start in range(0, len(keys), 1000):
            some = keys[start : start + 1000]
            for key, record in zip(some, self.store.get_many(some), strict=True):
                if record is not None:
                    yield key, record

    def done(self, facts: Mapping[str, Any]) -> None:
        """Say that nothing is left to be written, whatever stops from here on."""
        self.begin({**facts, "done": True})

    def end(self) -> None:
        """Remove the records, and the mark last of all."""
        if is_link(self.store, self.folder):
            clear_folder(self.store, self.folder)
            return
        _, files = self.store.list(self.folder)
        records = [name for name in files if name != _MARK]
        if records:
            self.done({})
            self.store.delete([join(self.folder, name) for name in records])
        removed = self._remove_hint()
        self.store.delete_tree(self.folder, _MARK)
        if not removed:
            self._remove_hint()  # the others may have left it to this one

    def is_begun(self) -> bool:
        """Return whether there is a mark; a link, or a folder without one, is not a write."""
        return self._has(self.folder)

    def is_planned(self) -> bool:
        """Return whether there is the mark of a planned write."""
        return self._has(self._plan)

    def _has(self, folder: str) -> bool:
        return not is_link(self.store, folder) and self.store.exists(join(folder, _MARK))


def all_markers(store: Store, path: str) -> list[WriteMarker]:
    """Return the writes into a node that have begun and not ended; one listing."""
    return begun_and_planned(store, path)[0]


def begun_and_planned(
    store: Store, path: str, *, tidy: bool = False, but: WriteMarker | None = None
) -> tuple[list[WriteMarker], list[WriteMarker]]:
    """Return the unfinished writes into a node, and the planned ones, `but` one; one listing.

    With `tidy`, remove links and folders without a mark that are called like those of writes:
    a process that was killed when its write ended leaves an empty one.
    """
    folders, files = store.list(path)
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
    """Remove what is left of a write without a mark, but for files still being written."""
    if not is_link(store, folder):
        _, files = store.list(folder)
        if records := [join(folder, name) for name in files if is_record(name)]:
            store.delete(records)
    clear_folder(store, folder)


def revoke(mark: WriteMarker) -> None:
    """Remove the mark of a planned write, and those of the Dataset or tree that it is part of.

    Facts come from files: only marks of groups around the node, and of nodes in these, are removed.
    """
    facts = mark.planned() or {}
    mark.forget_plan()
    if not is_part(facts.get("whole"), ""):
        return
    path, token = facts["whole"]
    if path and not mark.path.startswith(f"{path}/"):
        return
    whole = replace(mark, path=path, token=token)
    for part in (whole.planned() or {}).get("parts", []):
        replace(mark, path=part[0], token=part[1]).forget_plan()
    whole.forget_plan()
