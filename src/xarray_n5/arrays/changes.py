"""Records of writes, where chunks change by other means than `to_n5`, or are lost."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import product
from math import nan
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from xarray_n5.arrays.records import (
    REPAIR,
    Record,
    Row,
    append_name,
    began,
    claim_of,
    delete_records,
    look,
    new_attempt,
    provenance,
    read,
    state_of,
)
from xarray_n5.errors import ChunkError, ResumeError
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.model.receipts import Receipts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.arrays.records import Box
    from xarray_n5.model.grid import Index
    from xarray_n5.stores.base import Store

Part: TypeAlias = "list[list[int]]"
"""The first element of a part of an array along each axis, and the one after the last."""

_MOST = 256
"""The number of lost chunks up to which each has a record; more have one for all."""


def prepare_change(node: ArrayNode, box: Sequence[range], *, lost: bool = False) -> None:
    """Prepare an array for a change of chunks.

    Digests of chunks are removed, which would report the new ones as damaged. An unfinished write
    stores `lost` chunks again; a finished one does so after a repair. Of other chunks, it still
    stores those that it has not stored before the change.

    Raises
    ------
    ResumeError
        If an append to the group, which changes the array's last chunks, is unfinished.
    """
    store, chunks = node.container.uncached().store, tuple(box)
    if touches_end(chunks, node.metadata.grid.counts):
        check_no_append(store, node.container.url, node.path)
    state = look(store, node.path)
    delete_records(store, node.path, ["digests.npz"] if state.digests else [])
    for record in state.meeting(chunks):
        if lost and node.format.one_writer:
            forget_chunks(node, record, partial(is_inside, box=chunks), lost=True)
        elif not lost and not state.clears and state.is_alone(record.token, record.box):
            forget_chunks(node, record, partial(is_inside, box=chunks))


def forget_rows(store: Store, path: str) -> None:
    """Delete the rows of writes and appends to an array that becomes smaller, and its digests."""
    folder = join(path, HIDDEN)
    folders, files = store.list(folder)
    done = store.list(join(folder, "done"))[1] if "done" in folders else ()
    rows = [row.name for row in state_of(((), ()), done).rows]
    rows += [f"done/{name}" for name in done if name.startswith("append-")]
    delete_records(store, path, rows + (["digests.npz"] if "digests.npz" in files else []))


def forget_chunks(
    node: ArrayNode, record: Record, is_changed: Callable[[Index], bool], *, lost: bool = False
) -> None:
    """Let an unfinished write forget what it has noted of chunks that others change.

    Chunks that are `lost` are stored again, although HDF5 still lists them. Of others, which an
    assignment is about to store, no digest is kept; those that are not listed yet are not taken
    for the write's own afterwards.
    """
    store, ndim = node.container.uncached().store, len(node.metadata.shape)
    facts = read(store, node.path, record.name)
    if facts is None:
        return  # it has ended
    claim = claim_of(store, node.path, record, facts.get("began"))
    before = claim.note_names()
    notes = claim.notes(ndim)
    known = [tuple(index) for index in notes.indices.tolist()]
    changed = np.array([is_changed(index) for index in known], bool)
    if not (lost or facts.get("fresh") or changed.any()):
        return
    notes.seconds[changed] = nan
    kept = notes.chosen(~changed) if lost else notes
    listed = set(node.stored_indices()) if facts.get("fresh") else set()
    stored = [index for index in sorted(listed.difference(known)) if is_inside(index, record.box)]
    rows = [(index, 1, 0, nan) for index in stored if not (lost and is_changed(index))]
    if not store.exists(claim.key):
        return  # it has ended since
    claim.note("kept", Receipts.merge([kept, Receipts.of(rows, ndim, "an earlier run")]))
    claim.begin({**facts, "fresh": False})
    store.delete([join(claim.notes_folder, name) for name in before if name != "kept"])


def is_inside(index: Index, box: Box | None) -> bool:
    """Return whether a chunk is in a box; an unknown one may have any."""
    return box is None or (
        len(index) == len(box)
        and all(number in side for number, side in zip(index, box, strict=True))
    )


def without(part: Part, hole: Part) -> list[Part]:
    """Return the parts that are left of a part without a hole.

    >>> without([[0, 0], [4, 6]], [[1, 0], [4, 9]]), without([[2], [4]], [[0], [4]])
    ([[[0, 0], [1, 6]]], [])
    """
    if len(part[0]) != len(hole[0]):
        return [part]
    (start, stop), left = map(list, part), []
    inner = [*zip(map(max, start, hole[0]), map(min, stop, hole[1]), strict=True)]
    if any(low >= high for low, high in inner):
        return [part]
    for axis, (low, high) in enumerate(inner):
        for first, last in ((start[axis], low), (high, stop[axis])):
            if first < last:
                begin, end = [*start], [*stop]
                begin[axis], end[axis] = first, last
                left.append([begin, end])
        start[axis], stop[axis] = low, high
    return left


def part_of(node: ArrayNode, box: Box | None) -> Part:
    """Return the elements of a box of chunks; of an unknown one, all of the array."""
    shape, chunks = node.metadata.shape, node.metadata.chunks
    if box is None or len(box) != len(shape):
        return [[0] * len(shape), [*shape]]
    start = [side.start * chunk for side, chunk in zip(box, chunks, strict=True)]
    stop = [side.stop * chunk for side, chunk in zip(box, chunks, strict=True)]
    return [start, [*map(min, stop, shape)]]


# Chunks that are lost


def reopen(node: ArrayNode, chunks: Collection[Index]) -> None:
    """Store a record for each finished write that has stored some of these chunks.

    Unfinished writes have one. A chunk that no write stores whole also has the record of a repair,
    which ends when all its elements have been written.
    """
    store, path, left = node.container.uncached().store, node.path, set(chunks)
    state = look(store, path)
    for row in filter(state.believes, state.rows):
        if any(is_inside(index, row.box) for index in chunks):
            facts = {**(read(store, path, row.name) or {}), **provenance()}
            record = Record(row.token, new_attempt(), row.box)
            claim_of(store, path, record).begin({**facts, "fresh": True})
    for record in look(store, path).opens:
        inside = {index for index in chunks if is_inside(index, record.box)}
        facts = read(store, path, record.name) or {} if inside else {}
        if record.token == REPAIR:
            left -= set() if "lacks" in facts else inside
            continue
        part = facts.get("part", [[], []])
        left -= {index for index in inside if not without(part_of(node, box_of([index])), part)}
        if inside and node.format.one_writer:
            forget_chunks(node, record, inside.__contains__, lost=True)
    for some in [[index] for index in left] if len(left) <= _MOST else [left]:
        record = Record(REPAIR, new_attempt(), box_of(some))
        claim_of(store, path, record).begin(provenance())


def box_of(chunks: Iterable[Index]) -> tuple[range, ...]:
    """Return the smallest box with some chunks."""
    return tuple(range(min(side), max(side) + 1) for side in zip(*chunks, strict=True))


def fill_repairs(node: ArrayNode, repairs: Iterable[Record], part: Part) -> None:
    """End the records of lost chunks of which a write has stored the last elements.

    Of a chunk that several writes share, each stores a part. The record keeps those that it lacks.
    """
    store = node.container.uncached().store
    for record in repairs:
        facts = read(store, node.path, record.name)
        if facts is None:
            continue
        lacks = facts.get("lacks") or [part_of(node, record.box)]
        left = [rest for lack in lacks for rest in without(lack, part)]
        if left and left != lacks:
            new = Record(REPAIR, new_attempt(), record.box)
            claim_of(store, node.path, new).begin({**facts, "lacks": left})
        if left != lacks:
            delete_records(store, node.path, [record.name])


def end_repairs(node: ArrayNode) -> bool:
    """Remove the records of a repair whose chunks have all been stored by other means.

    Return whether other records remain.

    A chunk of which other writes have stored parts may lack others. Of a write that was killed,
    the record remains until the same call has finished it.
    """
    store, path = node.container.uncached().store, node.path
    opens = sorted(look(store, path).opens)
    listed = set(node.stored_indices()) if opens else set()
    for record in opens:
        state, facts = look(store, path), read(store, path, record.name) or {}
        is_over = Row(record.token, record.box) in state.rows and not state.clears
        if record.token == REPAIR:
            alone = {near.token for near in state.meeting(record.box)} == {REPAIR}
            is_over = alone and not state.rows_meeting(record.box) and "lacks" not in facts
        if is_over and record.box is not None and _are_stored(node, listed, product(*record.box)):
            claim_of(store, path, record, facts.get("began")).end(notes=True)
    return bool(look(store, path).opens)


def _are_stored(node: ArrayNode, listed: Collection[Index], chunks: Iterable[Index]) -> bool:
    """Return whether chunks are stored; those that are removed from HDF5 are listed, but empty."""
    clears = node.format.one_writer
    with suppress(ChunkError):
        return all(
            index in listed and not (clears and node.is_empty(node.block(index)))
            for index in chunks
        )
    return False


def touches_end(box: Box, counts: Sequence[int]) -> bool:
    """Return whether chunks are the last ones along an axis, which an append may merge."""
    return any(side and side.stop >= count for side, count in zip(box, counts, strict=False))


def check_no_append(store: Store, url: str, path: str) -> None:
    """Raise if an append to the group of an array is unfinished.

    Raises
    ------
    ResumeError
        If there is one.
    """
    if not path:
        return
    group = path.rpartition("/")[0]
    for attempt in sorted(look(store, group).appends):
        facts = read(store, group, append_name(attempt)) or {}
        why = "it is an append that changes the end of this array: repeat that with resume=True"
        raise ResumeError(url, group, began(facts), why)
