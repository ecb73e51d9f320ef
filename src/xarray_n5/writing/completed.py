"""The record of a finished write: evidence that nothing has changed since."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xarray_n5.model.paths import DIGESTS, join

if TYPE_CHECKING:
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.stores.base import Listing

NOT_UNFINISHED = (
    "no write of it is unfinished: if this write has finished before, there is nothing to do; "
    "otherwise, choose another path"
)
"""The hint for a resumed write without an unfinished one."""

OTHER_UNFINISHED = (
    "it has an unfinished write of something else: pass the same arguments as that one to resume "
    "it, or start again with mode='w' and without resume"
)
"""The hint for a different unfinished copy."""

OTHER_DATA = (
    "it has an unfinished write of different data, or with other options: pass the same as then "
    "(the Dask names of the data must not change between runs; if they do, pass resume='a name' "
    "each time), or start again with mode='w' and without resume"
)
"""The hint for an unfinished write of different data."""


_RECORD = f"{DIGESTS}/finished.json"
"""A small file with the number, the total size and the latest time of all others."""

_LARGEST = 1 << 12

_APPENDS = f"{DIGESTS}/appended.json"
"""A small file with the tokens of finished appends to a group, and the samples of each."""

_MOST_APPENDS = 1000
"""The maximum number of appends that are recorded: the latest ones."""

_LARGEST_APPENDS = 1 << 17


def remember(mark: WriteMarker) -> None:
    """Record that a write has finished, so that resuming it again finds nothing to do."""
    if (found := _survey(mark)) is not None:
        facts = {"token": mark.token, **found}
        mark.store.set(join(mark.path, _RECORD), json.dumps(facts).encode())


def is_finished(mark: WriteMarker) -> bool:
    """Return whether a write has finished, and nothing below its node has changed since.

    It is False if the store has no times of files.
    """
    record = mark.store.head(join(mark.path, _RECORD), _LARGEST)
    facts = None
    with suppress(ValueError):
        facts = json.loads(record[0]) if record else None
    if not isinstance(facts, dict) or facts.get("token") != mark.token:
        return False
    return facts == {"token": mark.token, **(_survey(mark) or {})}


def remember_append(mark: WriteMarker, start: int, stop: int) -> None:
    """Record the samples of a finished append, so that resuming it does not append them again."""
    with mark.store.exclusive(join(mark.path, DIGESTS)):
        others = [row for row in _appends(mark) if row[0] != mark.token]
        rows = [*others[1 - _MOST_APPENDS :], [mark.token, start, stop]]
        mark.store.set(join(mark.path, _APPENDS), json.dumps(rows).encode())


def find_append(mark: WriteMarker) -> slice | None:
    """Return the samples of a finished append, if it is recorded."""
    return next((slice(*row[1:]) for row in _appends(mark) if row[0] == mark.token), None)


def forget_appends(mark: WriteMarker, listing: Listing) -> None:
    """Remove the record of appends to a group whose arrays are replaced."""
    if DIGESTS in listing[0]:
        mark.store.delete([join(mark.path, _APPENDS)])


def _appends(mark: WriteMarker) -> list[tuple[str, int, int]]:
    """Return the recorded tokens, starts and stops; invalid ones are ignored."""
    record = mark.store.head(join(mark.path, _APPENDS), _LARGEST_APPENDS)
    rows: Any = []
    with suppress(ValueError, RecursionError):
        rows = json.loads(record[0]) if record else []
    return [
        tuple(row)
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, list) and [type(each) for each in row] == [str, int, int]
    ]


def _survey(mark: WriteMarker) -> dict[str, float] | None:
    """Return facts that change with every change below a node; None if times are unknown.

    Records of the arrays in a group are ignored: they are written together.
    """
    count, size, newest = 0, 0, 0.0
    for found in mark.store.list_info(mark.path):
        if found.time is None:
            return None
        if not found.key.endswith(_RECORD):
            count, size, newest = count + 1, size + found.size, max(newest, found.time)
    return {"files": count, "bytes": size, "newest": newest}
