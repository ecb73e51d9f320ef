"""Begin the write of one array: its record, a second look, the removal of what is replaced."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.changes import began, check_no_append, touches_end
from xarray_n5.arrays.claims import (
    REPAIR,
    Row,
    claim_of,
    delete_records,
    look,
    provenance,
    read,
)
from xarray_n5.errors import ResumeError
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import HIDDEN, final_key, join
from xarray_n5.model.receipts import Receipts
from xarray_n5.writing.differences import fingerprint
from xarray_n5.writing.plan import documents_of, plan_write
from xarray_n5.writing.write import ArrayWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da

    from xarray_n5.arrays.claims import State
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteRequest

_EARLIER = "an earlier run"

_TRIES = 3
"""The number of times that a write which meets another beginning is planned."""

_PAUSE = 0.5
"""The maximum number of seconds before it is planned again."""


class CrossedError(Exception):
    """Something has changed between the plan of a write and its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A write that has begun, and what earlier attempts at it have stored."""

    request: WriteRequest
    source: da.Array
    """The blocks, which do not share stored chunks."""
    write: ArrayWrite
    row: Row
    """The row that the write leaves when it has finished."""
    facts: Mapping[str, Any]
    """What the row states."""
    before: Receipts | None = None
    """The receipts of chunks that earlier attempts have stored."""
    ends: tuple[str, ...] = ()
    """The names of other records that end with this write."""
    is_done: bool = False
    """Whether this very write has finished before."""

    @classmethod
    def later(cls, plan: WritePlan) -> Begun:
        """Return a write as its first task will begin it, with what is stored now."""
        begun = _begun(plan, fresh=_is_fresh(plan))
        return begun.renewed() if plan.resumed is not None else begun

    def renewed(self) -> Begun:
        """Return the write with what is stored now."""
        return replace(self, before=_before(self.write))

    @property
    def remaining(self) -> int:
        """The number of pending chunks."""
        count = 0 if self.is_done else int(np.prod([len(side) for side in self.write.box]))
        return count - len(self.before or ())


def begin(plan: WritePlan) -> Begun:
    """Begin a planned write; plan it again if another one begins at the same moment.

    Raises
    ------
    ResumeError
        If others begin again and again. Nothing was changed.
    """
    for left in reversed(range(_TRIES)):
        try:
            return _begin(plan)
        except CrossedError as error:
            request = plan.request
            if not left:
                url, path = request.options.container.url, request.path
                raise ResumeError(url, path, "at this moment", str(error)) from None
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - no secret
            plan = plan_write(request.renewed())
    raise AssertionError  # pragma: no cover


def _begin(plan: WritePlan) -> Begun:
    """Begin a planned write, in the order that docs/writing.md explains."""
    if plan.is_done or _has_own(plan, plan.state):  # a task that runs again
        _sweep(plan)
        return _begun(plan, fresh=_is_fresh(plan))
    request, overwrite = plan.request, None
    store, path = request.options.store, request.path
    if plan.creates and plan.array is not None:
        overwrite = plan.array.overwrite
    clears = f"clears-{plan.record.attempt}"
    fresh = _is_fresh(plan)
    if overwrite is not None:
        overwrite.complete_groups()
        store.set(join(path, HIDDEN, clears), b"")
    begun = _begun(plan, fresh=fresh)
    claim = begun.write.claim
    claim.begin({**provenance(), "fresh": fresh, **plan.identity.facts})
    try:
        _look_again(plan)
    except BaseException:
        delete_records(store, path, [claim.name, clears])
        raise
    _warn_replaced(plan)
    delete_records(store, path, _replaced(plan))
    _sweep(plan)
    if overwrite is not None and plan.array is not None:
        claim.check()
        overwrite.clear()
        claim.check()
        delete_records(store, path, [clears])
        overwrite.create_node(plan.array.array.node.metadata)
    elif plan.array is not None:
        plan.array.change_attributes()
    return begun if plan.begins_anew else replace(begun, before=_before(begun.write))


def _sweep(plan: WritePlan) -> None:
    """Remove notes of tasks that no unfinished write has kept."""
    request, state = plan.request, plan.state
    if not state.notes or (plan.own and not plan.begins_anew):
        return
    if plan.creates or not state.opens.difference(plan.own):
        for began_by in state.notes:
            folder = join(request.path, HIDDEN, f"notes-{began_by}")
            request.options.store.delete_tree(folder, "")


def _is_fresh(plan: WritePlan) -> bool:
    """Return whether each stored chunk is one that this write has stored, and all it leaves."""
    request = plan.request
    whole = not (request.keeps_array or request.placed or request.options.checksums)
    return whole if plan.resumed is None else bool(plan.resumed.get("fresh", whole))


def _begun(plan: WritePlan, *, fresh: bool) -> Begun:
    request, record = plan.request, plan.record
    earlier = plan.own[0].attempt if plan.own else record.attempt
    first = None if plan.resumed is None else plan.resumed.get("began", earlier)
    claim = claim_of(request.options.store, request.path, record, first)
    attributes = {} if plan.array is None else plan.array.attributes
    node = plan.target.node
    state = plan.state
    repairs = [each.name for each in state.opens if each.token == REPAIR]
    covered = [each for each in repairs if _covers(plan, each)]
    templates = [f"template-{each}" for each in state.templates if each == record.token]
    return Begun(
        request=request,
        source=plan.source,
        write=ArrayWrite(
            target=node.bare(),
            start=plan.start,
            shape=plan.source.shape,
            claim=claim,
            fresh=fresh,
            dims=request.dims,
        ),
        row=Row(record.token, record.box),
        facts={
            **plan.identity.facts,
            **fingerprint(node.metadata, attributes),
            "sparse": not request.options.write_empty_chunks,
        },
        ends=(*covered, *templates),
        is_done=plan.is_done,
    )


def _covers(plan: WritePlan, name: str) -> bool:
    """Return whether a write stores all chunks of a repair."""
    box = next(each.box for each in plan.state.opens if each.name == name)
    return box is not None and all(
        mine.start <= side.start and side.stop <= mine.stop
        for mine, side in zip(plan.box, box, strict=False)
    )


def _replaced(plan: WritePlan) -> list[str]:
    """Return the records and rows that go when a write begins, or takes over."""
    state, names = plan.state, [each.name for each in plan.own]
    if plan.begins_anew and plan.creates:
        names += [each.name for each in state.opens if each not in plan.own]
        names += [f"clears-{attempt}" for attempt in state.clears]
        names += [f"template-{token}" for token in state.templates]
        rows = [row.name for row in state.rows]
        return [*names, *rows, *(["digests.npz"] if state.digests else [])]
    # A resume repeats this: whoever was killed may not have come so far.
    meeting = state.rows_meeting(plan.record.box)
    rows = [row.name for row in meeting if plan.begins_anew or row.token != plan.record.token]
    request = plan.request
    keeps = not plan.begins_anew and request.options.checksums and request.region is None
    return [*names, *rows, *(["digests.npz"] if state.digests and not keeps else [])]


def _warn_replaced(plan: WritePlan) -> None:
    """Warn about unfinished writes of others that this one replaces."""
    others = [each for each in plan.state.opens if each not in plan.own and each.token != REPAIR]
    if plan.creates and others:
        options, path = plan.request.options, plan.request.path
        facts = read(options.store, path, min(others).name) or {}
        warn(
            f"mode='w' replaces an unfinished write of {path or '/'!r} in "
            f"{options.container.url!r}, which began {began(facts)}"
        )


def _look_again(plan: WritePlan) -> None:
    """Raise unless documents, records and rows are as they were when the write was planned.

    Of two writes that begin at the same time, at least one sees the other.
    """
    options, path, box = plan.request.options, plan.request.path, plan.record.box
    container = options.container.fresh()
    now = look(options.store, path)
    if not _has_own(plan, now):
        raise CrossedError("another write has removed its record")

    def others(state: State) -> set[Any]:
        opens = state.opens if plan.creates else state.meeting(box)
        return {each for each in opens if each.token != REPAIR and each.name != plan.record.name}

    if others(now) != others(plan.state):
        raise CrossedError("another write has begun, or ended")
    if set(now.rows_meeting(box)) != set(plan.state.rows_meeting(box)):
        raise CrossedError("another write has finished")
    if documents_of(container, path) != plan.documents:
        raise CrossedError("the array has changed")
    _check_appends(plan)


def _has_own(plan: WritePlan, state: State) -> bool:
    """Return whether the record of a write is there; its name may state less than its box."""
    return any(record.name == plan.record.name for record in state.opens)


def _check_appends(plan: WritePlan) -> None:
    """Raise if an append to the group is about to merge a chunk that is written."""
    request, array = plan.request, plan.array
    new = array is not None and array.overwrite is not None and not array.overwrite.removes
    if new or not request.path or request.appends:
        return
    if touches_end(plan.box, plan.target.node.metadata.grid.counts):
        check_no_append(request.options.store, request.options.container.url, request.path)


def _before(write: ArrayWrite) -> Receipts:
    """Return receipts of the chunks that earlier attempts have stored, from one listing.

    What tasks that were killed have left is removed.
    """
    node, claim, ndim, rest = write.target, write.claim, len(write.shape), list[str]()
    stored = {index for index in node.stored_indices(rest) if index in write}
    partials = [key for key in rest if (final := final_key(key)) and _is_own(write, final)]
    if partials:
        claim.store.delete([join(claim.path, key) for key in partials])
    parts = [Receipts.of([], ndim, "")]
    for document in claim.notes(write.prefix):
        try:
            part = Receipts.from_json(document, ndim)
        except ValueError:
            continue  # damaged: its chunks are written again
        indices = map(tuple, part.indices.tolist())
        kept = [
            index in write and (not size or index in stored)
            for index, size in zip(indices, part.sizes.tolist(), strict=True)
        ]
        parts.append(part.chosen(np.array(kept, bool)))
    noted = Receipts.merge(parts)
    if not write.fresh:
        return noted
    known = set(map(tuple, noted.indices.tolist()))
    rows = [(index, 0, 0, np.nan) for index in sorted(stored - known)]
    return Receipts.merge([Receipts.of([], ndim, ""), noted, Receipts.of(rows, ndim, _EARLIER)])


def _is_own(write: ArrayWrite, key: str) -> bool:
    index: Index | None = write.target.chunk_index(key)
    return index is not None and index in write
