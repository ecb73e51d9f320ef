"""What chunks that change by other means than `to_n5` mean for records of writes."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.claims import claim_of, delete_records, look, read
from xarray_n5.errors import ResumeError
from xarray_n5.model.receipts import Receipts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xarray_n5.arrays.claims import Box, Record
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index
    from xarray_n5.stores.base import Store


def prepare_change(node: ArrayNode, box: Sequence[range], *, lost: bool = False) -> None:
    """Prepare an array for a change of chunks.

    Digests of chunks are removed, which would report the new ones as damaged. Where chunks are
    `lost`, so are the rows of finished writes that stored them.

    Raises
    ------
    ResumeError
        If an append to the group, which changes the array's last chunks, is unfinished.
    """
    store, chunks = node.container.uncached().store, tuple(box)
    if touches_end(chunks, node.metadata.grid.counts):
        check_no_append(store, node.container.url, node.path)
    state = look(store, node.path)
    rows = [row.name for row in state.rows_meeting(chunks)] if lost else []
    delete_records(store, node.path, [*rows, *(["digests.npz"] if state.digests else [])])
    if lost and node.format.one_writer:
        for record in state.meeting(chunks):
            forget_chunks(node, record, lambda index: _is_inside(index, chunks))


def forget_chunks(node: ArrayNode, record: Record, is_lost: Callable[[Index], bool]) -> None:
    """Let an unfinished write store some chunks again, where removed ones remain listed (HDF5).

    Its note lists the chunks that it has stored; those that are lost are not among them.
    """
    store, ndim = node.container.uncached().store, len(node.metadata.shape)
    facts = read(store, node.path, record.name) or {}
    claim = claim_of(store, node.path, record, facts.get("began"))
    before = claim.note_names()
    notes = claim.notes(ndim)
    known = [tuple(index) for index in notes.indices.tolist()]
    kept = notes.chosen(np.array([not is_lost(index) for index in known], bool))
    stored = set(node.stored_indices()).difference(known) if facts.get("fresh") else set()
    inside = [at for at in stored if record.box is None or _is_inside(at, record.box)]
    rows = [(at, 1, 0, nan) for at in sorted(inside) if not is_lost(at)]
    claim.note("kept", Receipts.merge([kept, Receipts.of(rows, ndim, "an earlier run")]))
    claim.begin({**facts, "fresh": False})
    claim.delete_notes(name for name in before if name != "kept")


def _is_inside(index: Index, box: Box) -> bool:
    return all(number in side for number, side in zip(index, box, strict=True))


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
        facts = read(store, group, f"open-append-{attempt}.json") or {}
        why = "it is an append that changes the end of this array: repeat that with resume=True"
        raise ResumeError(url, group, began(facts), why)


def began(facts: dict[str, object]) -> str:
    """Return when and where a write began, as its record states it."""
    at, by = facts.get("at", "at an unknown time"), facts.get("by", "an unknown place")
    return f"{at} at {by}"
