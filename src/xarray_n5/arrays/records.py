"""Records of writes, in the hidden folder ``.xn5`` of a node.

Names carry what other writers must know, so that one listing is enough to plan a write:

- ``open-TOKEN-ATTEMPT@BOX.json``, an unfinished write of a box of stored chunks;
- ``clears-ATTEMPT``, while a beginning removes existing data: chunks do not count;
- ``open-append-ATTEMPT.json``, an unfinished append to a group;
- ``template-TOKEN``, a deferred write (``compute=False``) whose array exists;
- ``notes-BEGAN/CHUNK``, receipts of tasks where a stored chunk proves nothing;
- ``done/TOKEN@BOX`` and ``done/append-TOKEN``, finished writes.

A record has one writer, since its name has the attempt. Whoever takes over stores a record of its
own, looks, and deletes the other. Records may come from anybody: what is in them is checked by a
table before it is used.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from xarray_n5.model.paths import HIDDEN, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_attempt(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{8}", value) is not None


def is_token(value: Any) -> bool:
    """Return whether a value may be the token of a write."""
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}|repair", value) is not None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


def _is_pair(value: Any) -> bool:
    """Return whether a value is two shapes, or positions, of as many axes."""
    pair = isinstance(value, list) and len(value) == len(("before", "after"))
    return pair and all(map(_is_shape, value)) and len(value[0]) == len(value[1])


def _are_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_pair, value))


def _is_growth(value: Any) -> bool:
    """Return whether a value has, by name of an array, the shape before and after an append."""
    return isinstance(value, dict) and all(
        "/" not in name and not name.startswith(".") and _is_pair(pair)
        for name, pair in value.items()
    )


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "began": _is_attempt,
    "token": is_token,
    "of": is_token,
    "by": _is_text,
    "at": _is_text,
    "fresh": _is_flag,
    "sparse": _is_flag,
    "commit": _is_flag,
    "is": _are_texts,
    "code": _are_texts,
    "attributes": _are_texts,
    "stored": _is_text,
    "source": _is_text,
    "group": _is_text,
    "dim": _is_text,
    "grows": _is_growth,
    "part": _is_pair,
    "lacks": _are_pairs,
}
"""The check of each member of a record."""


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
    sound = all(key in _CHECKS and _CHECKS[key](value) for key, value in facts.items())
    return facts if sound else {}


def read(store: Store, path: str, name: str) -> dict[str, Any] | None:
    """Return the content of a record or a row; None without one, nothing if it is damaged."""
    stored = store.head(join(path, HIDDEN, name), LARGEST + 1)
    return None if stored is None else parse(stored[0])


def began(facts: Mapping[str, Any]) -> str:
    """Return when and where a write began, as its record states it."""
    at, by = facts.get("at", "at an unknown time"), facts.get("by", "an unknown place")
    return f"{at} at {by}"
