"""Resume writes: what an interrupted one has written, and whether one has finished."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import tokenize

from xarray_n5.arrays.invalidate import box_of, forget
from xarray_n5.arrays.marker import REPAIRED, find_markers, unfinished_writes
from xarray_n5.errors import ResumeError
from xarray_n5.model.alerts import warn
from xarray_n5.model.chunking import touched
from xarray_n5.model.paths import DIGESTS, PLANNED, UNFINISHED, WRITING, final_key, join
from xarray_n5.model.receipts import Receipts
from xarray_n5.writing.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.grid import Index
    from xarray_n5.stores.base import Listing
    from xarray_n5.writing.write import Write

_EARLIER = "an earlier run"

_OTHER_APPEND = (
    "it is another append to the same samples; repeat that one with resume=True, or this one when "
    "it has ended. Append one by one to stores without locks, such as object stores"
)


def resume(write: Write, *, appends: bool = False) -> tuple[Write, Receipts] | None:
    """Return an interrupted write and its receipts; None if it never started.

    One that `appends` may share a chunk with another one, but no elements.

    Raises
    ------
    ResumeError
        If another write to the same chunks is unfinished.
    """
    facts = write.marker.facts()
    if facts is not None:
        _check_code(write, facts)
        resumed = write.marker.new_attempt(facts)
        # If the marker is invalid, all chunks are written again.
        fresh, journal = bool(facts.get("fresh")), bool(facts.get("journal", True))
        write = replace(write, marker=resumed, fresh=fresh, journal=journal)
        again = tuple(tuple(map(tuple, part)) for part in facts.get("again", ()))
        write = replace(write, resumed=not journal, again=again)
        return (write, all_done(write)) if facts.get("done") else _done_before(write)
    planned = write.marker.planned()
    repaired = None
    store, path = write.marker.store, write.marker.path
    for other in unfinished_writes(store, path) if store.exists(join(path, UNFINISHED)) else ():
        said = other.facts()
        if other.token == REPAIRED:
            repaired = said and (other.as_found(said), said)
        elif said is not None and overlaps(said, write, elements=appends):
            began = f"{said.get('began')} at {said.get('by')}"
            raise ResumeError(store.url, path, began, _OTHER_APPEND if appends else "")
    if planned is not None:
        # None of its tasks has run: stored chunks are not its own.
        fresh, journal = bool(planned.get("fresh")), bool(planned.get("journal", write.journal))
        marker = write.marker.as_found(planned)
        write = replace(write, marker=marker, fresh=fresh, journal=journal)
        return replace(write, planned=write.deferred), _unrecorded((), write)
    if not repaired:
        return None
    mark, said = repaired
    damaged = [tuple(index) for index in said.get("chunks", ()) if tuple(index) in write]
    if not damaged:
        return None
    token = _recorded(write.marker).get("token")
    if token not in {None, write.marker.token}:
        warn(
            f"{path!r} in {store.url!r} was written by another write; this one fills its "
            f"repaired chunks only (number: {len(damaged)}). Unless both have the same values, "
            "start again with mode='w' and without resume=True"
        )
    own = write.marker if token == write.marker.token else None
    write = replace(write, marker=mark, journal=False, resumed=True, only=frozenset(damaged))
    return replace(write, own=own), all_done(write, but=damaged)


def _check_code(write: Write, facts: Mapping[str, Any]) -> None:
    """Warn if files of the user's functions have changed since an interrupted write began."""
    if names := changed(facts.get("code"), write.code):
        warn(
            f"{', '.join(names)} changed since the unfinished write of "
            f"{write.marker.path!r} in {write.marker.store.url!r} began; chunks that it has stored "
            "keep the results of the former code. If these differ, start again with mode='w' and "
            "without resume=True"
        )


def renew(write: Write, *, deferred: bool) -> Write:
    """Begin a new attempt at a write, which stops earlier tasks; a repair has one attempt.

    A planned write begins, unless it is `deferred` again.
    """
    marker = write.marker
    if marker.token == REPAIRED:
        return write
    facts = marker.facts()
    if facts is not None:
        new = write.facts()
        if names := changed(facts.get("code"), write.code):
            # Chunks of both versions are stored from now on: each later resume warns.
            facts = {**facts, "code": {**facts["code"], **dict.fromkeys(names, "")}}
        # Writes that began since the listing have replaced the hint of the earlier attempt.
        first = write.left is not None and marker.as_found(facts).began_last()
        marker = replace(marker, first=first)
        marker.begin({**new, **facts})
        if first and write.left:
            marker.store.delete([join(marker.path, key) for key in write.left])
    elif not deferred:
        marker.begin_planned()
    return replace(write, marker=marker, left=None)


def forget_overlapped(write: Write) -> None:
    """Make other unfinished writes write again the chunks that this one is about to write.

    Planned writes of such chunks are revoked: they would replace the new ones.
    """
    mine = write.marker
    begun, planned = find_markers(mine.store, mine.path, tidy=True, but=mine)
    forget(begun, planned, write.box, write.target.metadata.chunks)


def overlaps(facts: Mapping[str, Any], write: Write, *, elements: bool = False) -> bool:
    """Return whether two unfinished writes have chunks, or elements, in common."""
    chunks = (1,) * len(write.shape) if elements else write.target.metadata.chunks
    box, own = box_of(facts, chunks), map(touched, write.start, write.shape, chunks)
    return box is None or all(
        one.start < other.stop and other.start < one.stop
        for one, other in zip(box, own, strict=False)
    )


def inside(facts: Mapping[str, Any], array: Array) -> tuple[range, ...] | None:
    """Return the box of chunks that an unfinished write covers in full."""
    try:
        sides = zip(facts["start"], facts["shape"], array.chunks, array.shape, strict=True)
        return tuple(
            range(-(-a // c), -(-(a + n) // c) if a + n == s else (a + n) // c)
            for a, n, c, s in sides
        )
    except (KeyError, TypeError, ValueError):
        return None


def _done_before(write: Write) -> tuple[Write, Receipts]:
    """Return an interrupted write with what one listing shows, and receipts for its chunks."""
    ndim, rest = len(write.shape), list[str]()
    stored = [index for index in write.target.stored_indices(rest) if index in write]
    own = f"{WRITING}{write.marker.token}/"
    others = any(key.startswith((WRITING, PLANNED)) and not key.startswith(own) for key in rest)
    if write.fresh and not others and not write.target.format.one_writer:
        write = replace(write, left=tuple(key for key in rest if final_key(key)))
    if not write.journal:
        return write, _unrecorded((index for index in stored if not write.is_again(index)), write)
    there = set(stored)
    parts = [Receipts.of([], ndim, "")]
    for _, record in write.marker.records():
        part = Receipts.from_json(record, ndim)
        # Chunks that have disappeared since are written again.
        rows = [
            not size or tuple(index) in there
            for index, size in zip(part.indices.tolist(), part.sizes.tolist(), strict=True)
        ]
        parts.append(part.chosen(np.array(rows, bool)))
    return write, Receipts.merge(parts)


def all_done(write: Write, *, but: Iterable[Index] = ()) -> Receipts:
    """Return receipts for all chunks of a write, except some."""
    left = set(but)
    return _unrecorded((index for index in product(*write.box) if index not in left), write)


def _unrecorded(indices: Iterable[Index], write: Write) -> Receipts:
    """Return receipts for chunks that are stored without a record."""
    rows = [(index, 0, 0, math.nan) for index in indices]
    return Receipts.of(rows, len(write.shape), _EARLIER)


_RECORD = f"{DIGESTS}/finished.json"
"""A small file that says which write of a node finished last, and what it stored."""

_LARGEST = 1 << 12

_APPENDS = f"{DIGESTS}/appended.json"
"""A small file with the tokens of finished appends to a group, and the samples of each."""

_MOST_APPENDS = 1000
"""The maximum number of appends that are recorded: the latest ones."""

_LARGEST_APPENDS = 1 << 17


def remember(mark: WriteMarker, container: Container, report: xr.Dataset | None = None) -> None:
    """Record that a write has finished, so that repeating it finds nothing to do.

    Nothing is listed: chunks and documents that are newer than the record do not belong to it. An
    array that another write has repaired is the result of neither.
    """
    if mark.token == REPAIRED:
        return
    facts: dict[str, Any] = {"token": mark.token, "node": _documents_of(mark, container)}
    if report is not None:
        sizes, known = report["bytes"].values, report["seconds"].notnull().values
        facts["chunks"] = int((~known | (sizes > 0)).sum())
        if known.all():
            facts["bytes"] = int(sizes.sum())
    mark.store.set(join(mark.path, _RECORD), json.dumps(facts).encode())


def is_finished(mark: WriteMarker, container: Container) -> bool:
    """Return whether a write into a group has finished, and the group's documents are unchanged."""
    return _finished(mark, container) is not None


def done_when_finished(write: Write) -> Receipts | None:
    """Return receipts for the chunks of a finished write; others have been removed since.

    None if it has not finished, or anything has been written since; also if the store does not know
    when. The chunks are listed once.
    """
    facts = _finished(write.marker, write.target.container)
    if facts is None:
        return None
    recorded, newest, stored, nbytes = None, 0.0, [], 0
    for found in write.marker.store.list_info(write.marker.path):
        if found.time is None or found.key.startswith((WRITING, PLANNED)):
            return None
        if found.key == _RECORD:
            recorded = found.time
            continue
        newest = max(newest, found.time)
        index = write.target.chunk_index(found.key)
        if index is not None and index in write:
            stored.append(index)
            nbytes += found.size
    if recorded is None or newest > recorded:
        return None
    if write.target.format.one_writer:  # each change of its file is newer
        return all_done(write)
    if len(stored) != facts.get("chunks"):
        return _unrecorded(stored, write)
    return all_done(write) if facts.get("bytes", nbytes) == nbytes else None


def forget_finished(mark: WriteMarker) -> None:
    """Remove the record of a finished write that another one has changed."""
    mark.store.delete([join(mark.path, _RECORD)])


def _finished(mark: WriteMarker, container: Container) -> dict[str, Any] | None:
    """Return the facts about a finished write; None if there are none, or documents changed."""
    facts = _recorded(mark)
    if facts.get("token") != mark.token or facts.get("node") != _documents_of(mark, container):
        return None
    return facts


def _recorded(mark: WriteMarker) -> dict[str, Any]:
    """Return the facts about the write into a node that finished last, if it left a record."""
    facts = _read(mark, _RECORD, _LARGEST)
    return facts if isinstance(facts, dict) else {}


def _read(mark: WriteMarker, name: str, most: int) -> Any:
    """Return the content of a small JSON file of a node; None if it is missing or invalid."""
    with suppress(ValueError, RecursionError):
        record = mark.store.head(join(mark.path, name), most)
        return json.loads(record[0]) if record else None
    return None


def _documents_of(mark: WriteMarker, container: Container) -> str:
    """Return a digest of the documents of a node; those of one file change with its time."""
    keys = [join(mark.path, name) for name in sorted(container.documents)]
    return tokenize(mark.store.get_many(keys) if keys else [])


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
    rows = _read(mark, _APPENDS, _LARGEST_APPENDS)
    return [
        tuple(row)
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, list) and [type(each) for each in row] == [str, int, int]
    ]
