"""Begin planned writes, compute their blocks, and finish them."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from dask.base import compute
from dask.callbacks import Callback

from xarray_n5.arrays.changes import check_no_append, fill_repairs, is_inside, touches_end
from xarray_n5.arrays.records import (
    REPAIR,
    began,
    delete_all_notes,
    delete_records,
    look,
    provenance,
    read,
)
from xarray_n5.errors import ResumeError
from xarray_n5.graph import cut, fused, is_divisible, tree_reduce
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import HIDDEN, final_key, join
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import together
from xarray_n5.writing.digests import keep_digests
from xarray_n5.writing.plan import documents_of, plan_write
from xarray_n5.writing.progress import shown_bar
from xarray_n5.writing.report import ArrayReport, WriteReport
from xarray_n5.writing.tasks import joined, write_block, write_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from xarray_n5.arrays.records import Claim
    from xarray_n5.graph import DelayedReport
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.tasks import ArrayWrite

T = TypeVar("T")

_TRIES = 3
"""The number of times that a write which meets another beginning is planned."""

_PAUSE = 0.5
"""The maximum number of seconds before it is planned again."""

_LARGE, _BATCH = 50_000, 10_000
"""The number of blocks up to which a write is one graph, and that of the batches of larger ones."""


class CrossedError(Exception):
    """Something has changed between the plan of a write and its beginning."""


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


def write_all(
    plans: Mapping[str, WritePlan],
    closing: Callable[[], None] | None = None,
    group: Claim | None = None,
    *,
    in_turn: bool = False,
) -> WriteReport:
    """Begin planned writes, compute them, and finish all of them together.

    With `in_turn`, each array is computed from the one before: a level from a finer one. Levels of
    several images are computed together.
    """
    begun = begin_all(plans, "" if group is None else group.token)
    stages: dict[str, dict[str, WritePlan]] = {}
    for name, plan in begun.items():
        stages.setdefault(name.rpartition("/")[2] if in_turn else "", {})[name] = plan
    receipts: dict[str, Receipts] = {}
    for stage in stages.values():
        receipts |= compute_writes(stage)
    return finish(begun, receipts, closing, group)


# Beginning


def begin(plan: WritePlan, group: str = "") -> WritePlan:
    """Begin a planned write; plan it again if another one begins at the same moment.

    The record states the token of the `group` that is written as one.
    """
    request, first = plan.request, partial(_begin, plan, group)
    url, path = request.options.container.url, request.path
    return tried(first, lambda: _begin(plan_write(request.renewed()), group), url, path)


def begin_all(plans: Mapping[str, WritePlan], group: str = "") -> dict[str, WritePlan]:
    """Begin several planned writes; if one is refused, no record stays that has no writer.

    Those of writes that create arrays, or continue earlier attempts, stay to be resumed.
    """
    stores = [plan.request.options.store for plan in plans.values()]
    calls = [partial(begin, plan, group) for plan in plans.values()]
    try:
        return dict(zip(plans, together(stores[0], calls) if calls else (), strict=True))
    except BaseException:
        for store, plan in zip(stores, plans.values(), strict=True):
            if not (plan.creates or plan.earlier):
                delete_records(store, plan.request.path, [plan.record.name])
        raise


def _begin(plan: WritePlan, group: str) -> WritePlan:
    """Begin a planned write, in the order that docs/writing.md explains."""
    claim, state = plan.write.claim, plan.state
    if plan.is_done or plan.record in plan.earlier:  # a task that runs again
        _sweep(plan)
        return plan
    store, path, array = claim.store, claim.path, plan.array
    overwrite = None if array is None else array.overwrite
    clears = []
    if overwrite is not None:
        overwrite.complete_groups()
        if overwrite.removes or state.opens or state.clears:
            clears = [f"clears-{plan.record.attempt}"]
            store.set(join(path, HIDDEN, clears[0]), b"")
    of = {"of": group} if group else {}
    claim.begin({**provenance(), "fresh": plan.write.fresh, **plan.identity.facts, **of})
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
    return renewed(plan) if plan.resumes else plan


def _sweep(plan: WritePlan) -> None:
    """Remove notes of tasks that no unfinished write has kept."""
    state = plan.state
    if state.notes and not plan.resumes and (plan.creates or state.opens <= {*plan.earlier}):
        delete_all_notes(plan.request.options.store, plan.request.path, state)


def _replaced(plan: WritePlan) -> list[str]:
    """Return the records and rows that go when a write begins, or takes over.

    A resume repeats this: whoever was killed may not have come so far.
    """
    state, record, anew = plan.state, plan.record, not plan.resumes
    replaces = anew and plan.creates
    records = state.opens if replaces else plan.earlier
    rows = state.rows if replaces else state.rows_meeting(record.box)
    templates = state.templates if replaces else state.templates & {record.token}
    return [
        *(record.name for record in records),
        *(f"clears-{attempt}" for attempt in state.clears if replaces),
        *(f"template-{token}" for token in templates),
        *(row.name for row in rows if anew or row.token != record.token),
        *(["digests.npz"] if state.digests and (anew or not plan.keeps_digests) else []),
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
    is_new = overwrite is not None and not overwrite.removes
    if path and not is_new and touches_end(plan.write.box, plan.write.target.metadata.grid.counts):
        check_no_append(options.store, options.container.url, path)


def renewed(plan: WritePlan) -> WritePlan:
    """Return a write with what is stored now."""
    return replace(plan, before=_before(plan.write))


def _before(write: ArrayWrite) -> Receipts:
    """Return receipts of the chunks that earlier attempts have stored, from one listing.

    What tasks that were killed have left is removed.
    """
    node, claim, ndim, rest = write.target, write.claim, len(write.shape), list[str]()
    box = write.box
    stored = {index for index in node.stored_indices(rest) if is_inside(index, box)}
    finals = {key: final_key(key) for key in rest}
    indices = {key: node.chunk_index(name) for key, name in finals.items() if name}
    partials = [key for key, at in indices.items() if at is not None and is_inside(at, box)]
    if partials:
        claim.store.delete([join(claim.path, key) for key in partials])
    noted = claim.notes(ndim, write.prefix)
    at = [*map(tuple, noted.indices.tolist())]
    kept = [
        is_inside(index, box) and (not size or index in stored)
        for index, size in zip(at, noted.sizes.tolist(), strict=True)
    ]
    noted = noted.chosen(np.array(kept, bool))
    if not write.fresh:
        return noted
    rows = [(index, 0, 0, np.nan) for index in sorted(stored.difference(at))]
    return Receipts.merge([noted, Receipts.of(rows, ndim, "an earlier run")])


# Computing


def compute_writes(plans: Mapping[str, WritePlan]) -> dict[str, Receipts]:
    """Compute the pending blocks of writes that have begun; return the receipts of all chunks."""
    pending = {name: joined(plan) for name, plan in plans.items() if not plan.is_done}
    for plan in pending.values():
        show(plan, plan.remaining)
    here = _write_in_memory(pending)
    parts = {name: [here[name]] if name in here else [] for name in plans}
    for batch in _submitted({name: pending[name] for name in pending if name not in here}):
        computed = compute(*batch.values())
        for name, receipts in zip(batch, computed, strict=True):
            parts[name].append(receipts)
    return {name: whole(plan, *parts[name]) for name, plan in plans.items()}


def _write_in_memory(plans: Mapping[str, WritePlan]) -> dict[str, Receipts]:
    """Write the arrays that are one block in memory without a graph, unless tasks are observed."""
    calls = {}
    for name, plan in plans.items() if not Callback.active else ():
        (layer, *more), shape = plan.source.dask.layers.values(), plan.source.shape
        plain = not (more or plan.before) and len(layer) == 1 and layer.is_materialized()
        block = next(iter(layer.values())) if plain else None
        if isinstance(block, np.ndarray):
            where = tuple(slice(0, size) for size in shape)
            calls[name] = partial(write_block, block, where, None, plan.write)
    store = next(iter(plans.values())).write.claim.store if calls else None
    return dict(zip(calls, together(store, [*calls.values()]) if store else (), strict=True))


def show(plan: WritePlan, count: int) -> None:
    """Show in the progress bar, if there is one, that chunks are about to be computed."""
    if (bar := shown_bar.get()) is not None:
        unit = "chunks" if plan.write.target.metadata.inner is None else "shards"
        kept, token = len(plan.before or ()), plan.write.claim.token
        bar._expect(count, kept, unit, token)  # noqa: SLF001 - not for users


def whole(plan: WritePlan, *receipts: Receipts) -> Receipts:
    """Return receipts with those of earlier attempts; a finished write has none."""
    return _merge([*([] if plan.before is None else [plan.before]), *receipts], plan.source.ndim)


def receipts_of(plan: WritePlan, later: object = None) -> DelayedReport:
    """Return the receipts of the pending blocks of a write, delayed."""
    blocks, left, name = write_blocks(plan, later)
    chosen = None if left.missing is None else list(left.blocks())
    last = partial(_merge, ndim=blocks.ndim)
    return tree_reduce(blocks, chosen, Receipts.merge, last, f"to_n5-{name}")


def _merge(parts: list[Receipts], ndim: int) -> Receipts:
    """Return receipts as one, which may be none at all."""
    return Receipts.merge([Receipts.of([], ndim, ""), *parts])


def _submitted(plans: Mapping[str, WritePlan]) -> Iterator[dict[str, DelayedReport]]:
    """Iterate over what is submitted at a time: several small writes, or a part of a large one."""
    several: dict[str, DelayedReport] = {}
    total = 0
    for name, plan in plans.items():
        count, wanted = math.prod(plan.source.numblocks), plan.request.options.batch_size
        most = wanted or _LARGE
        if count > most and _is_divisible(plan, count):
            for lazy in in_batches(plan, wanted or _BATCH):
                yield {name: lazy}
            continue
        if several and total + count > most:
            yield several
            several, total = {}, 0
        several[name] = receipts_of(plan)
        total += count
    if several:
        yield several


def _is_divisible(plan: WritePlan, count: int) -> bool:
    """Return whether blocks can be computed in batches; warn if they cannot."""
    if is_divisible(plan.source):
        return True
    warn(
        f"the {count} blocks to write to {plan.write.target.url!r} are computed from each other, "
        "so that their graph cannot be divided into batches: it needs about 4 kB of memory a "
        "block. Store an intermediate result first, and open that"
    )
    return False


def in_batches(
    plan: WritePlan, size: int, chosen: Iterable[Index] | None = None
) -> Iterator[DelayedReport]:
    """Iterate over the receipts of pending blocks, or `chosen` ones, `size` at a time, delayed."""
    blocks, left, name = write_blocks(plan)
    blocks = fused(blocks)
    pending = iter(left.blocks() if chosen is None else chosen)
    while some := list(islice(pending, size)):
        part = f"to_n5-{name}-{'.'.join(map(str, some[0]))}"
        yield tree_reduce(cut(blocks, some), some, Receipts.merge, Receipts.merge, part)


# Finishing


def finish(
    writes: Mapping[str, WritePlan],
    receipts: Mapping[str, Receipts],
    closing: Callable[[], None] | None = None,
    group: Claim | None = None,
) -> WriteReport:
    """Finish writes whose chunks are all stored; return their report.

    Each record is looked at once more; then come the action that closes a group, the rows, and the
    removal of records. Whoever is killed in between repeats what is left.
    """
    ending = {name: plan for name, plan in writes.items() if not plan.is_done}
    claims = [plan.write.claim for plan in ending.values()] + ([group] if group else [])
    if claims:
        store = claims[0].store
        together(store, [partial(claim.check, trusted=False) for claim in claims])
    if closing is not None and (claims or not writes):
        closing()
    if claims:
        rows = [partial(_leave, ending[name], receipts[name]) for name in ending]
        together(store, rows)
        together(store, [partial(_end, plan) for plan in ending.values()])
    if group is not None:
        group.end()
    return WriteReport({name: report_of(receipts[name], plan) for name, plan in writes.items()})


def _leave(plan: WritePlan, receipts: Receipts) -> None:
    """Store the row of a write, and digests if they are wanted."""
    if plan.keeps_digests:
        keep_digests(plan.write.target, receipts)
    plan.write.claim.finish(plan.row.name, plan.row_facts)


def _end(plan: WritePlan) -> None:
    """Delete the record of a write, then the notes of tasks."""
    write = plan.write
    repairs = [record for record in plan.state.meeting(write.box) if record.token == REPAIR]
    if repairs:
        fill_repairs(write.target, repairs, plan.identity.part)
    write.claim.end(notes=not (write.fresh and plan.request.options.write_empty_chunks))


def report_of(receipts: Receipts, plan: WritePlan) -> ArrayReport:
    """Return what a write has stored of an array, given all its receipts."""
    url, kept = plan.write.target.url, plan.count - plan.remaining
    return ArrayReport(url, plan.write.box, plan.request.dims, kept, receipts)
