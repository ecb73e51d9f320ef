"""Records of writes, in the hidden folder ``.xn5`` of a node.

Names carry what other writers must know, so that one listing is enough to plan a write:

- ``open-TOKEN-ATTEMPT@BOX.json``, an unfinished write of a box of stored chunks;
- ``clears-ATTEMPT``, while a beginning removes existing data: chunks do not count;
- ``open-append-ATTEMPT.json``, an unfinished append to a group;
- ``template-TOKEN``, a deferred write (``compute=False``) whose array exists;
- ``notes-BEGAN/CHUNK``, receipts of tasks where a stored chunk proves nothing;
- ``done/TOKEN@BOX`` and ``done/append-TOKEN``, finished writes.

A record has one writer, since its name has the attempt. Whoever takes over stores a record of its
own, looks, and deletes the other. Records may come from anybody: each member is checked
before it is used.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from xarray_n5.errors import ContainerNotVisibleError, StaleTaskError
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import LocalStore, together, uncached

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.stores.base import Listing, Store


Box: TypeAlias = "tuple[range, ...]"
"""A range of stored chunks along each axis."""

REPAIR = "repair"
"""The token of a repair: any finished write that covers its box ends it."""

_OPEN = re.compile(r"open-([0-9a-f]{16}|repair)-([0-9a-f]{8})@([-0-9,a-z]*)\.json")
_APPEND = re.compile(r"open-append-([0-9a-f]{8})\.json")
_CLEARS = re.compile(r"clears-([0-9a-f]{8})")
_NOTES = re.compile(r"notes-([0-9a-f]{8})")
_TEMPLATE = re.compile(r"template-([0-9a-f]{16})")
_ROW = re.compile(r"([0-9a-f]{16})@([-0-9,a-z]*)")
_RANGE = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")

_LONGEST = 160
"""The length of a box in a name above which it is not stated: it meets every other one."""

LARGEST = 1 << 16
"""The maximum size of a record in bytes; a larger one is damaged."""


class Record(NamedTuple):
    """The name of an unfinished write's record."""

    token: str
    attempt: str
    box: Box | None
    """The chunks that it writes; None if the name does not state them."""

    @property
    def name(self) -> str:
        """The name in the hidden folder."""
        return f"open-{self.token}-{self.attempt}@{box_text(self.box)}.json"


class Append(NamedTuple):
    """The name of the record of an unfinished append to a group, which has one writer."""

    token: str
    attempt: str
    box: None = None

    @property
    def name(self) -> str:
        """The name in the hidden folder."""
        return append_name(self.attempt)


class Row(NamedTuple):
    """The name of a finished write's row."""

    token: str
    box: Box | None

    @property
    def name(self) -> str:
        """The name in the hidden folder."""
        return f"done/{self.token}@{box_text(self.box)}"


@dataclass(frozen=True, slots=True)
class State:
    """The records of a node, as their names show them."""

    opens: frozenset[Record] = frozenset()
    appends: frozenset[str] = frozenset()
    """The attempts of unfinished appends to a group."""
    clears: frozenset[str] = frozenset()
    """The attempts that are removing existing data."""
    rows: frozenset[Row] = frozenset()
    notes: frozenset[str] = frozenset()
    """The beginnings with notes of tasks."""
    templates: frozenset[str] = frozenset()
    """The tokens of deferred writes whose array exists, and that have not been computed."""
    digests: bool = False
    """Whether digests of chunks are stored."""

    @property
    def unfinished(self) -> list[str]:
        """The tokens of unfinished writes; the attempts of those that have hardly begun."""
        return sorted({record.token for record in self.opens}) or sorted(self.clears)

    def meeting(self, box: Box | None) -> list[Record]:
        """Return the unfinished writes whose chunks meet a box."""
        return sorted(record for record in self.opens if meet(record.box, box))

    def rows_meeting(self, box: Box | None) -> list[Row]:
        """Return the rows whose chunks meet a box."""
        return [row for row in self.rows if meet(row.box, box)]

    def is_alone(self, token: str, box: Box | None) -> bool:
        """Return whether no record or row meets a box, but for those of a token and of repairs."""
        tokens = {record.token for record in self.meeting(box)}
        return tokens.union(row.token for row in self.rows_meeting(box)) <= {token, REPAIR}

    def believes(self, row: Row) -> bool:
        """Return whether a row is there, and no other write meets its chunks.

        A repair opens the writes that have stored a lost chunk; what its own record lacks belongs
        to others.
        """
        alone = not self.clears and {record.token for record in self.meeting(row.box)} <= {REPAIR}
        names = {other.name for other in self.rows if other == row or meet(other.box, row.box)}
        return alone and row in self.rows and names == {row.name}


def look(store: Store, path: str, *, rows: bool = False) -> State:
    """Return the records of a node, from a listing of its hidden folder, and one of its rows.

    If there are likely to be `rows`, both are listed at once.
    """
    folder = join(path, HIDDEN)
    done = join(folder, "done")
    if rows:
        listing, finished = store.list_many([folder, done])
        return state_of(listing, finished[1])
    listing = store.list(folder)
    return state_of(listing, store.list(done)[1] if "done" in listing[0] else ())


def state_of(listing: Listing, done: Iterable[str] = ()) -> State:
    """Return the records that names in a hidden folder, and in its folder of rows, show."""
    folders, files = listing
    opens = [Record(m[1], m[2], _box(m[3])) for name in files if (m := _OPEN.fullmatch(name))]
    return State(
        opens=frozenset(opens),
        appends=frozenset(m[1] for name in files if (m := _APPEND.fullmatch(name))),
        clears=frozenset(m[1] for name in files if (m := _CLEARS.fullmatch(name))),
        rows=frozenset(Row(m[1], _box(m[2])) for name in done if (m := _ROW.fullmatch(name))),
        notes=frozenset(m[1] for name in folders if (m := _NOTES.fullmatch(name))),
        templates=frozenset(m[1] for name in files if (m := _TEMPLATE.fullmatch(name))),
        digests="digests.npz" in files,
    )


def read_appends(store: Store, path: str, attempts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return some records, by attempt; one that is gone has ended."""
    names = sorted(attempts)
    keys = [join(path, HIDDEN, append_name(attempt)) for attempt in names]
    documents = store.get_many(keys) if keys else ()
    return {
        attempt: parse(document)
        for attempt, document in zip(names, documents, strict=True)
        if document is not None
    }


def append_name(attempt: str) -> str:
    """Return the name of the record of an append."""
    return f"open-append-{attempt}.json"


def box_text(box: Box | None) -> str:
    """Return a box as names state it.

    >>> box_text((range(4), range(2, 3))), box_text((range(0),)), box_text(None)
    ('0-3,2-2', 'none', 'all')
    """
    if box is None:
        return "all"
    if not all(box):
        return "none"
    text = ",".join(f"{side.start}-{side.stop - 1}" for side in box)
    return text if len(text) <= _LONGEST else "all"


def stated(box: Box) -> Box | None:
    """Return a box as it is read from a name: without the axes of an empty one.

    >>> stated((range(4), range(0))), stated((range(4), range(2, 3)))
    ((range(0, 0),), (range(0, 4), range(2, 3)))
    """
    return _box(box_text(box))


def _box(text: str) -> Box | None:
    if text == "none":
        return (range(0),)
    sides = [_RANGE.fullmatch(part) for part in text.split(",")] if text else []
    if not all(sides):
        return None
    return tuple(range(int(side[1]), int(side[2]) + 1) for side in sides if side)


def meet(one: Box | None, other: Box | None) -> bool:
    """Return whether two boxes have a chunk in common; unknown ones may have.

    >>> meet((range(4),), (range(3, 5),)), meet((range(4),), (range(4, 5),))
    (True, False)
    >>> meet(None, (range(1),))
    True
    """
    if one is None or other is None:
        return True
    if not (all(one) and all(other)):
        return False
    if len(one) != len(other):
        return True
    pairs = zip(one, other, strict=True)
    return all(a.start < b.stop and b.start < a.stop for a, b in pairs)


def is_token(value: Any) -> bool:
    """Return whether a value may be the token of a write."""
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}|repair", value) is not None


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


def _is_pair(value: Any) -> bool:
    """Return whether a value is two shapes, or positions, of as many axes."""
    match value:
        case [before, after]:
            return _is_shape(before) and _is_shape(after) and len(before) == len(after)
    return False


def _is_sound(key: str, value: Any) -> bool:
    """Return whether a record may have this member."""
    match key, value:
        case "began", str():
            return re.fullmatch(r"[0-9a-f]{8}", value) is not None
        case "token" | "of", str():
            return is_token(value)
        case "is" | "code" | "attributes", dict():
            return all(isinstance(text, str) for text in value.values())
        case "grows", dict():  # of each array, by name, the shape before and after an append
            names = all("/" not in name and not name.startswith(".") for name in value)
            return names and all(map(_is_pair, value.values()))
        case "part" | "lacks", list():
            return all(map(_is_pair, value if key == "lacks" else [value]))
    kind = bool if key in {"fresh", "sparse", "commit"} else str
    known = {"fresh", "sparse", "commit", "by", "at", "stored", "source", "group", "dim"}
    return key in known and isinstance(value, kind)


def parse(document: bytes | None) -> dict[str, Any]:
    """Return the content of a record or a row; nothing if it is missing or damaged."""
    if document is None or len(document) > LARGEST:
        return {}
    try:
        facts = json.loads(document)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(facts, dict):
        return {}
    return facts if all(_is_sound(key, value) for key, value in facts.items()) else {}


def read(store: Store, path: str, name: str) -> dict[str, Any] | None:
    """Return the content of a record or a row; None without one, nothing if it is damaged."""
    stored = store.head(join(path, HIDDEN, name), LARGEST + 1)
    return None if stored is None else parse(stored[0])


def began(facts: Mapping[str, Any]) -> str:
    """Return when and where a write began, as its record states it."""
    at, by = facts.get("at", "at an unknown time"), facts.get("by", "an unknown place")
    return f"{at} at {by}"


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


@dataclass(frozen=True, slots=True)
class Claim:
    """The record of this process, or of the one that sent a task, for an unfinished write."""

    store: Store
    path: str
    """The node that is written."""
    record: Record | Append
    began: str
    """The attempt that began first; resumed ones keep it, and with it the notes of tasks."""

    @property
    def name(self) -> str:
        """The record's name in the hidden folder."""
        return self.record.name

    @property
    def token(self) -> str:
        """The name of the write in records."""
        return self.record.token

    @property
    def key(self) -> str:
        """The record's key."""
        return join(self.path, HIDDEN, self.name)

    @property
    def notes_folder(self) -> str:
        """The location of the notes of tasks of this beginning."""
        return join(self.path, HIDDEN, f"notes-{self.began}")

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
        self.store.set(join(self.notes_folder, chunk), receipts.to_json())

    def notes(self, ndim: int, prefix: str = "") -> Receipts:
        """Return the receipts that tasks of this beginning have kept, by names with a prefix.

        Those that are damaged are left out: their chunks are written again.
        """
        names = [name for name in self.note_names() if name.startswith(prefix)]
        keys = [join(self.notes_folder, name) for name in names]
        parts = (self.store.get_many(keys[n : n + 1000]) for n in range(0, len(keys), 1000))
        receipts = [Receipts.of([], ndim, "")]
        for note in (note for part in parts for note in part if note is not None):
            with suppress(ValueError):
                receipts.append(Receipts.from_json(note, ndim))
        return Receipts.merge(receipts)

    def note_names(self) -> Sequence[str]:
        """Return the names of the notes of this beginning."""
        return self.store.list(self.notes_folder)[1]

    # Ending

    def finish(self, row: str, facts: Mapping[str, Any]) -> None:
        """Store the row of a finished write."""
        self.store.set(
            join(self.path, HIDDEN, row), json.dumps({"token": self.token, **facts}).encode()
        )

    def end(self, *others: str, notes: bool = False) -> None:
        """Delete `others` of the node, the record, then the notes of tasks."""
        store, folder = self.store, self.notes_folder
        last = partial(delete_records, store, self.path, [*others, self.name])
        looks: list[Any] = [last, self.note_names] if notes else [last]
        names = together(store, looks)[-1] or ()
        if names:
            store.delete([join(folder, name) for name in names])
            store.clear_folder(folder)
        store.clear_folder(join(self.path, HIDDEN))


def claim_of(store: Store, path: str, record: Record | Append, began: str | None = None) -> Claim:
    """Return the claim with a record; of a first attempt unless `began` is passed."""
    return Claim(store, path, record, began or record.attempt)


def delete_records(store: Store, path: str, names: Iterable[str]) -> None:
    """Delete records or rows of a node by their names."""
    if keys := [join(path, HIDDEN, name) for name in names]:
        for key in _seen.keys() & keys:
            _seen[key] = -math.inf  # seen, so that its end is known, but not trusted any more
        store.delete(keys)


def delete_all_notes(store: Store, path: str, state: State) -> None:
    """Delete the notes of tasks of a node, which no unfinished write has kept."""
    for attempt in state.notes:
        store.delete_tree(join(path, HIDDEN, f"notes-{attempt}"), "")
