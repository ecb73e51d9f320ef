"""Begin the write of one array: its record, a second look, the removal of what is replaced."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xarray_n5.arrays.changes import check_no_append, touches_end
from xarray_n5.arrays.records import (
    REPAIR,
    began,
    claim_of,
    delete_all_notes,
    delete_records,
    look,
    provenance,
    read,
)
from xarray_n5.errors import ResumeError
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import HIDDEN, final_key, join
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import together
from xarray_n5.writing.plan import documents_of, plan_write
from xarray_n5.writing.request import fingerprint
from xarray_n5.writing.tasks import ArrayWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import dask.array as da

    from xarray_n5.arrays.records import Record
    from xarray_n5.writing.plan import WritePlan

T = TypeVar("T")

_TRIES = 3
"""The number of times that a write which meets another beginning is planned."""

_PAUSE = 0.5
"""The maximum number of seconds before it is planned again."""


class CrossedError(Exception):
    """Something has changed between the plan of a write and its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A write that has begun, and what earlier attempts at it have stored."""

    source: da.Array
    """The blocks, which do not share stored chunks."""
    write: ArrayWrite
    before: Receipts | None = None
    """The receipts of chunks that earlier attempts have stored."""
    batch_size: int | None = None
    is_done: bool = False
    """Whether this very write has finished before."""
    row: str = ""
    """The name of the row that the write leaves when it has finished."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the row states."""
    digests: bool = False
    """Whether digests of all chunks are stored."""
    repairs: tuple[Record, ...] = ()
    """The records of lost chunks, of which the write may store all or a part."""

    def renewed(self) -> Begun:
        """Return the write with what is stored now."""
        return replace(self, before=_before(self.write))

    @property
    def remaining(self) -> int:
        """The number of pending chunks."""
        count = 0 if self.is_done else int(np.prod([len(side) for side in self.write.box]))
        return count - len(self.before or ())


def tried(first: Callable[[], T], again: Callable[[], T], url: str, path: str) -> T:
    """Return the result of a write that begins; repeat it if another one begins as well.

    Raises
    ------
    ResumeError
        If others begin again and again. Nothing was changed.
    """
    for call in (first, *[again] * (_TRIES - 1)):
        try:
            return call()
        except CrossedError as error:
            crossed = error
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - no secret
    raise ResumeError(url, path, "just now", str(crossed))


def begin(plan: WritePlan) -> Begun:
    """Begin a planned write; plan it again if another one begins at the same moment."""
    request, first = plan.request, partial(_begin, plan)
    url, path = request.options.container.url, request.path
    return tried(first, lambda: _begin(plan_write(request.renewed())), url, path)


def begin_all(plans: Mapping[str, WritePlan]) -> dict[str, Begun]:
    """Begin several planned writes; if one is refused, no record stays that has no writer.

    Those of writes that create arrays, or continue earlier attempts, stay to be resumed.
    """
    stores = [plan.request.options.store for plan in plans.values()]
    calls = [partial(begin, plan) for plan in plans.values()]
    try:
        return dict(zip(plans, together(stores[0], calls) if calls else (), strict=True))
    except BaseException:
        for store, plan in zip(stores, plans.values(), strict=True):
            if not (plan.creates or plan.own):
                delete_records(store, plan.request.path, [plan.record.name])
        raise


def _begin(plan: WritePlan) -> Begun:
    """Begin a planned write, in the order that docs/writing.md explains."""
    begun = begun_of(plan)
    claim, state = begun.write.claim, plan.state
    if plan.is_done or plan.record in plan.own:  # a task that runs again
        _sweep(plan)
        return begun
    store, path, array = claim.store, claim.path, plan.array
    overwrite = None if array is None else array.overwrite
    clears = []
    if overwrite is not None:
        overwrite.complete_groups()
        if overwrite.removes or state.opens or state.clears:
            clears = [f"clears-{plan.record.attempt}"]
            store.set(join(path, HIDDEN, clears[0]), b"")
    group = {"of": plan.request.group_token} if plan.request.group_token else {}
    claim.begin({**provenance(), "fresh": begun.write.fresh, **plan.identity.facts, **group})
    try:
        _look_again(plan)
    except BaseException:
        delete_records(store, path, [claim.name, *clears])
        raise
    if plan.creates and plan.others:
        facts = read(store, path, plan.others[0].name) or {}
        what = f"an unfinished write of {path or '/'!r} in {store.url!r}"
        warn(f"mode='w' replaces {what}, which began {began(facts)}")
    delete_records(store, path, _replaced(plan))
    _sweep(plan)
    if overwrite is not None and array is not None:
        claim.check()
        overwrite.clear()
        claim.check()
        delete_records(store, path, clears)
        overwrite.create_node(array.node.metadata)
    elif array is not None:
        array.change_attributes()
    return begun if plan.resumed is None else begun.renewed()


def begun_of(plan: WritePlan) -> Begun:
    """Return a write as it is when it has begun, without what earlier attempts have stored."""
    request, options, array = plan.request, plan.request.options, plan.array
    fresh = not (request.keeps_array or request.template or options.checksums)
    first = None
    if plan.resumed is not None:
        fresh = bool(plan.resumed.get("fresh", fresh))
        first = plan.resumed.get("began", plan.own[0].attempt)
    written = {} if array is None else array.attributes
    node = plan.target.node
    facts = {
        **plan.identity.facts,
        **fingerprint(node.metadata, written),
        "sparse": not options.write_empty_chunks,
    }
    write = ArrayWrite(
        target=node.bare(),
        start=plan.start,
        shape=plan.source.shape,
        claim=claim_of(options.store, request.path, plan.record, first),
        fresh=fresh,
        dims=request.dims,
    )
    return Begun(
        source=plan.source,
        write=write,
        batch_size=options.batch_size,
        is_done=plan.is_done,
        row=plan.row.name,
        facts=facts,
        digests=options.checksums and request.region is None,
        repairs=tuple(record for record in plan.state.meeting(plan.box) if record.token == REPAIR),
    )


def _sweep(plan: WritePlan) -> None:
    """Remove notes of tasks that no unfinished write has kept."""
    state = plan.state
    if state.notes and plan.resumed is None and (plan.creates or state.opens <= {*plan.own}):
        delete_all_notes(plan.request.options.store, plan.request.path, state)


def _replaced(plan: WritePlan) -> list[str]:
    """Return the records and rows that go when a write begins, or takes over.

    A resume repeats this: whoever was killed may not have come so far.
    """
    state, record, anew = plan.state, plan.record, plan.resumed is None
    replaces = anew and plan.creates
    records = state.opens if replaces else plan.own
    rows = state.rows if replaces else state.rows_meeting(record.box)
    templates = state.templates if replaces else state.templates & {record.token}
    keeps = not anew and plan.request.options.checksums and plan.request.region is None
    return [
        *(record.name for record in records),
        *(f"clears-{attempt}" for attempt in state.clears if replaces),
        *(f"template-{token}" for token in templates),
        *(row.name for row in rows if anew or row.token != record.token),
        *(["digests.npz"] if state.digests and not keeps else []),
    ]


def _look_again(plan: WritePlan) -> None:
    """Raise unless documents, records and rows are as they were when the write was planned.

    Of two writes that begin at the same time, at least one finds the other.
    """
    options, path = plan.request.options, plan.request.path
    container, box = options.container.fresh(), plan.record.box
    looks: list[Any] = [partial(look, options.store, path), partial(documents_of, container, path)]
    now, documents = together(options.store, looks)
    if plan.record not in now.opens:
        raise CrossedError("another write has removed its record")
    if {*replace(plan, state=now).others} - {plan.record} != {*plan.others}:
        raise CrossedError("another write has begun, or ended")
    if set(now.rows_meeting(box)) != set(plan.state.rows_meeting(box)):
        raise CrossedError("another write has finished")
    if documents != plan.documents:
        raise CrossedError("the array has changed")
    overwrite = None if plan.array is None else plan.array.overwrite
    is_new = plan.request.appends or (overwrite is not None and not overwrite.removes)
    if path and not is_new and touches_end(plan.box, plan.target.node.metadata.grid.counts):
        check_no_append(options.store, options.container.url, path)


def _before(write: ArrayWrite) -> Receipts:
    """Return receipts of the chunks that earlier attempts have stored, from one listing.

    What tasks that were killed have left is removed.
    """
    node, claim, ndim, rest = write.target, write.claim, len(write.shape), list[str]()
    stored = {index for index in node.stored_indices(rest) if index in write}
    finals = {key: final_key(key) for key in rest}
    partials = [key for key, name in finals.items() if name and node.chunk_index(name) in write]
    if partials:
        claim.store.delete([join(claim.path, key) for key in partials])
    noted = claim.notes(ndim, write.prefix)
    at = [*map(tuple, noted.indices.tolist())]
    kept = [
        index in write and (not size or index in stored)
        for index, size in zip(at, noted.sizes.tolist(), strict=True)
    ]
    noted = noted.chosen(np.array(kept, bool))
    if not write.fresh:
        return noted
    rows = [(index, 0, 0, np.nan) for index in sorted(stored.difference(at))]
    return Receipts.merge([noted, Receipts.of(rows, ndim, "an earlier run")])
