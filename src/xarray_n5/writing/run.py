"""Compute writes that have begun, and finish them."""

from __future__ import annotations

import functools
import math
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import dask.local
import dask.threaded
import numpy as np
from dask.base import compute
from dask.callbacks import Callback

from xarray_n5.arrays.changes import fill_repairs
from xarray_n5.graph import cut, fused, get_scheduler, is_divisible, tree_reduce
from xarray_n5.model.alerts import warn
from xarray_n5.model.receipts import Receipts
from xarray_n5.stores import together
from xarray_n5.writing.digests import keep_digests
from xarray_n5.writing.progress import expect
from xarray_n5.writing.report import ArrayReport, WriteReport
from xarray_n5.writing.tasks import write_block, write_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from xarray_n5.arrays.records import Claim
    from xarray_n5.graph import DelayedReport
    from xarray_n5.writing.begin import Begun

_LARGE, _BATCH = 50_000, 10_000
"""The number of blocks up to which a write is one graph, and that of the batches of larger ones."""


def compute_writes(writes: Mapping[str, Begun]) -> dict[str, Receipts]:
    """Compute the pending blocks of writes, large ones in batches; return the receipts."""
    pending = {name: begun for name, begun in writes.items() if not begun.is_done}
    for begun in pending.values():
        expect_chunks(begun, begun.remaining)
    receipts: dict[str, Receipts] = {}
    for some, size in _submitted(pending):
        if size is not None:
            receipts |= {name: _in_batches(begun, size) for name, begun in some.items()}
        elif (written := _without_graph(some)) is not None:
            receipts |= written
        else:
            receipts |= dict(zip(some, compute(*map(receipts_of, some.values())), strict=True))
    return {name: whole(begun, receipts.get(name)) for name, begun in writes.items()}


def expect_chunks(begun: Begun, count: int) -> None:
    """Show that some chunks of a write are about to be computed."""
    unit = "chunks" if begun.write.target.metadata.inner is None else "shards"
    expect(count, len(begun.before or ()), unit, begun.write.claim.token)


def whole(begun: Begun, receipts: Receipts | None) -> Receipts:
    """Return receipts with those of earlier attempts; of a finished write, for all its chunks."""
    if begun.is_done:
        rows = [(index, 0, 0, math.nan) for index in product(*begun.write.box)]
        return Receipts.of(rows, len(begun.write.shape), "an earlier run")
    return _merged(begun)([part for part in (begun.before, receipts) if part is not None])


def receipts_of(begun: Begun, later: object = None) -> DelayedReport:
    """Return the receipts of the pending blocks of a write, delayed."""
    blocks, left, name = write_blocks(begun, later)
    chosen = None if left is None else list(left.blocks())
    return tree_reduce(blocks, chosen, Receipts.merge, _merged(begun), f"to_n5-{name}")


def _merged(begun: Begun) -> Callable[[list[Receipts]], Receipts]:
    return functools.partial(_merge, none=Receipts.of([], len(begun.write.shape), ""))


def _merge(parts: list[Receipts], none: Receipts) -> Receipts:
    return Receipts.merge([none, *parts])


def _in_batches(begun: Begun, size: int) -> Receipts:
    """Write the pending blocks, at most `size` of them at a time."""
    blocks, left, name = write_blocks(begun)
    blocks = fused(blocks)
    pending = product(*map(range, blocks.numblocks)) if left is None else left.blocks()
    parts: list[Receipts] = []
    while some := list(islice(pending, size)):
        part = f"to_n5-{name}-{len(parts)}"
        lazy = tree_reduce(cut(blocks, some), some, Receipts.merge, _merged(begun), part)
        parts.extend(compute(lazy))
    return _merged(begun)(parts)


def _submitted(writes: Mapping[str, Begun]) -> Iterator[tuple[dict[str, Begun], int | None]]:
    """Iterate over the writes to submit together, and the size of the batches of a large one."""
    several: dict[str, Begun] = {}
    total = 0
    for name, begun in writes.items():
        if (size := batch_size_of(begun)) is not None:
            yield {name: begun}, size
            continue
        count = math.prod(begun.source.numblocks)
        if several and total + count > (begun.batch_size or _LARGE):
            yield several, None
            several, total = {}, 0
        several[name] = begun
        total += count
    if several:
        yield several, None


def batch_size_of(begun: Begun) -> int | None:
    """Return the number of blocks to submit at a time, or None for all at once."""
    wanted, count = begun.batch_size, math.prod(begun.source.numblocks)
    if count <= (_LARGE if wanted is None else wanted):
        return None
    if is_divisible(begun.source):
        return _BATCH if wanted is None else wanted
    warn(
        f"the {count} blocks to write to {begun.write.target.url!r} are computed from each other, "
        "so that their graph cannot be divided into batches: it needs about 4 kB of memory a "
        "block. Store an intermediate result first, and open that"
    )
    return None


def _without_graph(writes: Mapping[str, Begun]) -> dict[str, Receipts] | None:
    """Write arrays that are each one block in memory in threads of this process.

    None if one of them is not; or if tasks do not run here, or are observed.
    """
    calls = []
    for begun in writes.values():
        block = None if begun.before is not None else _block_in_memory(begun.source)
        if block is None:
            return None
        whole = tuple(slice(0, size) for size in block.shape)
        calls.append(functools.partial(write_block, block, whole, None, begun.write))
    store = next(iter(writes.values())).write.claim.store
    return dict(zip(writes, together(store, calls), strict=True))


def _block_in_memory(array: Any) -> np.ndarray | None:
    """Return the only block of an array if it is in memory, and would be written here."""
    layers = [*array.dask.layers.values()]
    here = get_scheduler(collections=[array]) in {dask.threaded.get, dask.local.get_sync}
    if not here or Callback.active or len(layers) != 1 or not layers[0].is_materialized():
        return None
    values = [*layers[0].values()]
    return values[0] if len(values) == 1 and isinstance(values[0], np.ndarray) else None


# Finishing


def finish(
    writes: Mapping[str, Begun],
    receipts: Mapping[str, Receipts],
    closing: Callable[[], None] | None = None,
    group: Claim | None = None,
) -> WriteReport:
    """Finish writes whose chunks are all stored; return their report.

    Each record is looked at once more; then come the action that closes a group, the rows, and the
    removal of records. Whoever is killed in between repeats what is left.
    """
    ending = {name: begun for name, begun in writes.items() if not begun.is_done}
    claims = [begun.write.claim for begun in ending.values()] + ([group] if group else [])
    if claims:
        store = claims[0].store
        together(store, [functools.partial(claim.check, trusted=False) for claim in claims])
    if closing is not None and (claims or not writes):
        closing()
    if claims:
        rows = [functools.partial(_leave, ending[name], receipts[name]) for name in ending]
        together(store, rows)
        together(store, [functools.partial(_end, begun) for begun in ending.values()])
    if group is not None:
        group.end()
    return WriteReport({name: report_of(receipts[name], begun) for name, begun in writes.items()})


def _leave(begun: Begun, receipts: Receipts) -> None:
    """Store the row of a write, and digests if they are wanted."""
    if begun.digests:
        keep_digests(begun.write.target, receipts)
    begun.write.claim.finish(begun.row, begun.facts)


def _end(begun: Begun) -> None:
    """Delete the record of a write, then the notes of tasks."""
    noted = not begun.write.fresh or begun.facts.get("sparse")
    if begun.repairs:
        fill_repairs(begun.write.target, begun.repairs, begun.facts["part"])
    begun.write.claim.end(notes=bool(noted))


def report_of(receipts: Receipts, begun: Begun) -> ArrayReport:
    """Return what a write has stored of an array, given all its receipts."""
    write, count = begun.write, math.prod(map(len, begun.write.box))
    kept = count - begun.remaining
    return ArrayReport(write.target.url, write.box, write.dims, kept, receipts)
