"""The records of writes of this process: a write stores one before it changes anything."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.records import LARGEST, began, look, read, state_of
from xarray_n5.errors import ContainerNotVisibleError, StaleTaskError
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import LocalStore, uncached

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.arrays.records import Box, Record, State
    from xarray_n5.stores.base import Store

_TRUSTED = 2.0
"""The seconds for which the tasks of a process rely on a record that was read or stored."""

_PATIENCE = 65.0
"""The seconds for which NFS may hide a new file from a process that has not seen it."""

_seen: dict[str, float] = {}
"""When this process read or stored a record last, by its key."""


def new_attempt() -> str:
    """Return a name for an attempt."""
    return uuid.uuid4().hex[:8]


def looks(store: Store, *, seen: bool = False) -> Iterator[None]:
    """Iterate once a second for as long as NFS may hide a file that this process has not `seen`.

    Other stores hide none, which is one iteration.
    """
    may_hide = isinstance(uncached(store), LocalStore) and not seen
    until = time.monotonic() + (_PATIENCE if may_hide else 0.0)
    yield
    while time.monotonic() < until:
        time.sleep(1.0)
        yield


def provenance() -> dict[str, str]:
    """Return the writer and the time, as records state them."""
    return {"by": writer_name(), "at": datetime.now(UTC).isoformat(timespec="seconds")}


def writer_name() -> str:
    """Return the name of this writer: a worker's address, or host and process."""
    if "distributed.worker" in sys.modules:
        from distributed import get_worker

        try:
            return str(get_worker().address)
        except ValueError:
            pass
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The record of this process, or of the one that sent a task, for an unfinished write."""

    store: Store
    path: str
    """The node that is written."""
    name: str
    """The record's name in the hidden folder."""
    token: str
    began: str
    """The attempt that began first; resumed ones keep it, and with it the notes of tasks."""

    @property
    def key(self) -> str:
        """The record's key."""
        return self._key(self.name)

    def _key(self, name: str) -> str:
        return join(self.path, HIDDEN, name)

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Store the record."""
        now = time.monotonic()
        document = json.dumps({"token": self.token, "began": self.began, **facts}).encode()
        self.store.set(self.key, document)
        self._see(now)

    def _see(self, when: float) -> None:
        _seen.pop(self.key, None)
        _seen[self.key] = when
        if len(_seen) > LARGEST:
            del _seen[next(iter(_seen))]

    def check(self, *, trusted: bool = True) -> None:
        """Raise unless this attempt may still write; a process relies on it for two seconds.

        Raises
        ------
        StaleTaskError
            If another process has taken over or replaced the write, or it has ended.
        ContainerNotVisibleError
            If this process has never seen the record, which NFS may hide for a minute.
        """
        when = _seen.get(self.key)
        if trusted and when is not None and time.monotonic() < when + _TRUSTED:
            return
        for _ in looks(self.store):
            now = time.monotonic()
            if self.store.exists(self.key):
                self._see(now)
                return
            state = look(self.store, self.path)
            if when is not None or any(row.token == self.token for row in state.rows):
                raise self._lost(state)
        raise ContainerNotVisibleError(self.store.url, self.key)

    def _lost(self, state: State) -> StaleTaskError:
        """Return the error of an attempt whose record is gone."""
        if any(record.token == self.token for record in state.opens):
            why = "another process has taken over this write, and continues it: nothing is lost"
        elif any(row.token == self.token for row in state.rows):
            why = "the write has finished"
        else:
            other = next(iter(sorted(state.opens)), None)
            facts = (other and read(self.store, self.path, other.name)) or {}
            why = "another write has replaced it"
            why += f", which began {began(facts)}" if facts else ""
        return StaleTaskError(self.store.url, self.path, why)

    # Notes of tasks

    def note(self, chunk: str, receipts: Receipts) -> None:
        """Keep the receipts of a task."""
        self.store.set(self._note_key(chunk), receipts.to_json())

    def notes(self, ndim: int, prefix: str = "") -> Receipts:
        """Return the receipts that tasks of this beginning have kept, by names with a prefix.

        Those that are damaged are left out: their chunks are written again.
        """
        keys = [self._note_key(name) for name in self.note_names() if name.startswith(prefix)]
        parts = (self.store.get_many(keys[n : n + 1000]) for n in range(0, len(keys), 1000))
        receipts = [Receipts.of([], ndim, "")]
        for note in (note for part in parts for note in part if note is not None):
            with suppress(ValueError):
                receipts.append(Receipts.from_json(note, ndim))
        return Receipts.merge(receipts)

    def note_names(self) -> Sequence[str]:
        """Return the names of the notes of this beginning."""
        return self.store.list(self._key(f"notes-{self.began}"))[1]

    def _note_key(self, name: str) -> str:
        return self._key(f"notes-{self.began}/{name}")

    # Ending

    def finish(self, row: str, facts: Mapping[str, Any]) -> None:
        """Store the row of a finished write."""
        self.store.set(self._key(row), json.dumps({"token": self.token, **facts}).encode())

    def end(self, *others: str, notes: bool = False) -> None:
        """Delete `others` of the node, the record, then the notes of tasks."""
        delete_records(self.store, self.path, [*others, self.name])
        self.store.clear_folder(join(self.path, HIDDEN))
        if notes:
            self.delete_notes(self.note_names())

    def delete_notes(self, names: Iterable[str]) -> None:
        """Delete notes of this beginning, and their folder if none is left."""
        if keys := [self._note_key(name) for name in names]:
            self.store.delete(keys)
        self.store.clear_folder(self._key(f"notes-{self.began}"))


def claim_of(store: Store, path: str, record: Record, began: str | None = None) -> Claim:
    """Return the claim with a record's name; of a first attempt unless `began` is passed."""
    return Claim(
        store=store,
        path=path,
        name=record.name,
        token=record.token,
        began=began or record.attempt,
    )


def delete_records(store: Store, path: str, names: Iterable[str]) -> None:
    """Delete records or rows of a node by their names."""
    if keys := [join(path, HIDDEN, name) for name in names]:
        for key in _seen.keys() & keys:
            _seen[key] = -math.inf  # seen, so that its end is known, but not trusted any more
        store.delete(keys)


def forget_rows(store: Store, path: str, box: Box | None, *, appends: bool = False) -> None:
    """Delete the rows that meet chunks which are about to change, and the digests of all chunks.

    With `appends`, as where an array becomes smaller, also those of finished appends.
    """
    folder = join(path, HIDDEN)
    folders, files = store.list(folder)
    names = ["digests.npz"] if "digests.npz" in files else []
    if "done" in folders:
        done = store.list(join(folder, "done"))[1]
        names += [row.name for row in state_of(((), ()), done).rows_meeting(box)]
        names += [f"done/{name}" for name in done if appends and name.startswith("append-")]
    delete_records(store, path, names)


def delete_all_notes(store: Store, path: str, state: State) -> None:
    """Delete the notes of tasks of a node, which no unfinished write has kept."""
    for attempt in state.notes:
        store.delete_tree(join(path, HIDDEN, f"notes-{attempt}"), "")
