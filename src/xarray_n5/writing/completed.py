"""The record of a completed write: evidence that nothing has changed since."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from xarray_n5.model.paths import DIGESTS, join
from xarray_n5.stores import head, list_info

if TYPE_CHECKING:
    from xarray_n5.arrays.marker import WriteMarker

NOT_UNFINISHED = (
    "nothing of it is unfinished: if this write has ended before, all is done; if something else "
    "is there, choose another path"
)
"""The hint where a write was to be resumed, and no unfinished write is found."""

OTHER_UNFINISHED = (
    "a write of something else into it is unfinished: give what was given then to go on with that, "
    "or start anew with mode='w' and without resume"
)
"""The hint where the unfinished write is another one."""


_RECORD = f"{DIGESTS}/finished.json"
"""A small file, which is the newest of all as long as nobody changes anything."""

_LARGEST = 1 << 12


def remember(mark: WriteMarker) -> None:
    """Record that a write has ended, so that resuming it once more finds nothing to do."""
    count, size, newest, _ = _survey(mark)
    if newest is not None:
        facts = {"token": mark.token, "files": count, "bytes": size}
        mark.store.set(join(mark.path, _RECORD), json.dumps(facts).encode())


def is_finished(mark: WriteMarker) -> bool:
    """Return whether a write has ended, and nothing below its node has changed since.

    Stores that do not know when a file was written cannot tell.
    """
    record = head(mark.store, join(mark.path, _RECORD), _LARGEST)
    facts = None
    with suppress(ValueError):
        facts = json.loads(record[0]) if record else None
    if not isinstance(facts, dict) or facts.get("token") != mark.token:
        return False
    count, size, newest, recorded = _survey(mark)
    if newest is None or recorded is None or newest > recorded:
        return False
    return (count, size) == (facts.get("files"), facts.get("bytes"))


def _survey(mark: WriteMarker) -> tuple[int, int, float | None, float | None]:
    """Return the number, the bytes and the newest time of files, and the time of the record.

    Records of the arrays in a group do not count: they are written together.
    """
    count, size, newest, recorded = 0, 0, 0.0, None
    for found in list_info(mark.store, mark.path):
        if found.key == _RECORD:
            recorded = found.time
        elif not found.key.endswith(_RECORD):
            if found.time is None:
                return 0, 0, None, None
            count, size, newest = count + 1, size + found.size, max(newest, found.time)
    return count, size, newest, recorded
