"""Finish a write: its report, its digests, and the removal of its marker."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.marker import REPAIRED, find_markers
from xarray_n5.model.paths import CHECKSUMS, DIGESTS, HIDDEN, UNFINISHED, final_key, join
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import together
from xarray_n5.writing.chunk_table import on_grid
from xarray_n5.writing.digests import keep_digests
from xarray_n5.writing.resume import forget_finished
from xarray_n5.writing.sending import received
from xarray_n5.writing.write import begin_planned, writer_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.writing.sending import Sending
    from xarray_n5.writing.write import Write


def finish(parts: list[Receipts | Sending], write: Write, before: Receipts | None) -> xr.Dataset:
    """Store digests, remove the rests of killed tasks, then the marker, and return the report."""
    written = received(parts)
    several = [*written, *([] if before is None else [before])]
    receipts = Receipts.merge([Receipts.of([], len(write.shape), ""), *several])
    mine = write.marker
    if mine.is_alone():
        if write.checksums:
            keep_digests(write.target, receipts)
        if _may_have_lost_tasks(written):
            _sweep(write, alone=True)
    else:
        _finish_among_others(write, receipts)
    if not write.part:
        end(write)
    return report_of(receipts, write)


def _may_have_lost_tasks(parts: Iterable[Receipts]) -> bool:
    """Return whether tasks may have been killed and repeated: not if all ran in this process."""
    here = writer_name()
    return "://" in here or any(name not in {"", here} for part in parts for name in part.names)


def _finish_among_others(write: Write, receipts: Receipts) -> None:
    """Finish a write to an array that others may write to, or have written to."""
    mine = write.marker
    calls: Any = [lambda: begin_planned(write), lambda: mine.store.list(mine.path)]
    _, listing = together(mine.store, calls)
    others, _ = find_markers(mine.store, mine.path, tidy=True, but=mine, listing=listing)
    whole = bool(others) and write.is_whole()
    alone = whole or not any(each.facts() for each in others)  # a whole write ends the others
    if DIGESTS in listing[0]:
        forget_finished(mine)
    if write.checksums and write.is_whole():
        keep_digests(write.target.refreshed(), receipts)
    elif HIDDEN in listing[0]:
        mine.store.delete([join(mine.path, CHECKSUMS)])
    _sweep(write, alone=alone)
    for other in others:
        if other.token == REPAIRED:
            _end_repair(other, write)
        elif whole:
            other.end()


def end(write: Write) -> None:
    """Remove a write's marker; of a repair, only the repaired chunks."""
    if write.marker.token == REPAIRED:
        _end_repair(write.marker, write)
    else:
        write.marker.end(records=write.journal or write.resumed)


def end_all(
    reports: Mapping[str, xr.Dataset],
    marker: WriteMarker,
    markers: Sequence[tuple[WriteMarker, bool]],
    before: Mapping[str, xr.Dataset] | None,
    ending: Mapping[str, Any],
    closing: Callable[[], None] | None,
    records: Sequence[Callable[[], None]],
) -> xr.DataTree:
    """Finish writes: once their marker records that nothing is pending, they have finished."""
    marker.check()
    parts = [[each.path, each.token] for each, _ in markers]
    done = partial(marker.done, {**ending, "parts": parts})
    ends: list[Any] = [partial(e.ending, records=r, part=True) for e, r in markers]
    if closing is None and not records:
        _, *removals = together(marker.store, [done, *ends])
    else:
        done()
        if closing is not None:
            closing()
        together(marker.store, records)
        removals = together(marker.store, ends)
    together(marker.store, removals)
    marker.end(records=False, appends="grows" in ending)
    return tree_of({**(before or {}), **reports})


def tree_of(reports: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """Return reports as a tree, by their paths."""
    if any("/" in name for name in reports):
        return xr.DataTree.from_dict(reports)
    tree: xr.DataTree = xr.DataTree()
    tree.children = {name: xr.DataTree(report) for name, report in reports.items()}  # faster
    return tree


def _end_repair(marker: WriteMarker, write: Write) -> None:
    """Remove chunks from the list of a repair; with the last of them, remove its marker."""
    facts = marker.facts()
    if facts is None:
        return
    left = [index for index in facts.get("chunks", ()) if not write.covers(index)]
    if left:
        marker.as_found(facts).update({**facts, "chunks": left})
    else:
        marker.end()


def _sweep(write: Write, *, alone: bool) -> None:
    """Remove the temporary files that killed tasks of this write left.

    Those of documents, digests and the hint may belong to another write that is just starting or
    finishing: they are only removed if this one is `alone` and writes the whole array.
    """
    store, path, io = write.marker.store, write.marker.path, write.target
    left = []
    for name in store.list_partials(path):
        key = final_key(name) or ""
        index = io.chunk_index(key)
        own = key in {*io.container.documents, UNFINISHED} or key.startswith(
            (f"{DIGESTS}/", f"{HIDDEN}/")
        )
        if own and alone and write.is_whole():
            left.append(join(path, name))
        elif index is not None and index in write:
            with io.locked(index):  # another append may be writing its part
                store.delete([join(path, name)])
    if left:
        store.delete(left)


def report_of(receipts: Receipts, write: Write) -> xr.Dataset:
    """Return the receipts on the part of the chunk grid that was written."""
    names = np.array([*receipts.names, ""], object)
    columns = {
        "bytes": receipts.sizes,
        "digest": receipts.digests,
        "seconds": receipts.seconds,
        "worker": names[receipts.writers],
    }
    fill = {"bytes": 0, "digest": 0, "seconds": 0, "worker": ""}
    attributes = {
        "bytes": {"long_name": "stored bytes"},
        "digest": {"long_name": "XXH3 of the elements"},
        "seconds": {"units": "s"},
    }
    found = on_grid(receipts.indices, columns, write.box, write.dims, fill, attributes)
    found.attrs = {"array": write.target.url, "chunks": math.prod(map(len, write.box))}
    return found
