"""Open finished writes again whose chunks are to be rewritten, and remove what nobody needs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from math import nan
from operator import contains
from typing import TYPE_CHECKING

from xarray_n5.arrays.changes import forget_chunks
from xarray_n5.arrays.claims import (
    REPAIR,
    Record,
    claim_of,
    delete_records,
    look,
    new_attempt,
    provenance,
    read,
)
from xarray_n5.model.paths import join
from xarray_n5.model.receipts import Receipts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.claims import Box
    from xarray_n5.model.grid import Index


def reopen(array: Array, chunks: Sequence[Index]) -> None:
    """Store a record for each finished write that has stored some of these chunks.

    The chunks of unfinished writes need none. All others get the record of a repair.
    """
    store, path = array.node.container.uncached().store, array.path
    state, left = look(store, path), list(chunks)
    for record in sorted(state.opens):
        inside = _inside(left, record.box)
        if inside and array.node.format.one_writer:
            forget_chunks(array.node, record, partial(contains, set(inside)))
        left = [index for index in left if index not in inside]
    for row in sorted(state.rows):
        inside = _inside(left, row.box)
        if inside and state.rows_meeting(row.box) == [row]:
            facts = read(store, path, row.name) or {}
            _store(array, Record(row.token, new_attempt(), row.box), facts, inside)
            left = [index for index in left if index not in inside]
    if left:
        sides = zip(*left, strict=True)
        box = tuple(range(min(side), max(side) + 1) for side in sides)
        _store(array, Record(REPAIR, new_attempt(), box), {}, left)


def _inside(chunks: Sequence[Index], box: Box | None) -> list[Index]:
    return [index for index in chunks if box is not None and all(map(contains, box, index))]


def _store(
    array: Array, record: Record, facts: Mapping[str, Any], removed: Sequence[Index]
) -> None:
    """Store the record of a write that lacks some chunks.

    HDF5 keeps the place of a removed chunk, which looks stored: there, a note lists the others.
    """
    store = array.node.container.uncached().store
    claim = claim_of(store, array.path, record)
    fresh = not array.node.format.one_writer
    kept = {key: facts[key] for key in ("is", "code") if key in facts}
    if not fresh:
        rows = [(at, 1, 0, nan) for at in product(*(record.box or ())) if at not in set(removed)]
        claim.note("repair", Receipts.of(rows, array.ndim, "an earlier run"))
    claim.begin({**provenance(), "fresh": fresh, **kept})


def tidy(array: Array) -> None:
    """Remove records whose chunks are all stored, chunks beyond the ends, and partial files."""
    # An append that has just been finished has made the array longer.
    io = replace(array.node, container=array.node.container.fresh()).refreshed()
    store, path = io.container.uncached().store, array.path
    stored = set(io.stored_indices())
    state = look(store, path)
    for record in sorted(state.opens) if not io.format.one_writer else ():
        facts = read(store, path, record.name) or {}
        if (
            facts.get("fresh")
            and record.box is not None
            and stored.issuperset(product(*record.box))
        ):
            delete_records(store, path, [record.name])
    if look(store, path).opens or look(store, path.rpartition("/")[0]).appends:
        return
    if beyond := [index for index in stored if index not in io.metadata.grid]:
        io.delete(beyond)
    store.delete([join(path, key) for key in store.list_partials(path)])
