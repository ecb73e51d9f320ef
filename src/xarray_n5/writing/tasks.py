"""Blocks into chunks: the tasks of a write, and how it ends."""

from __future__ import annotations

import functools
import math
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from dask.base import compute as compute_now

from xarray_n5.arrays.marker import REPAIRED, begun_and_planned
from xarray_n5.errors import ContainerNotVisibleError
from xarray_n5.graph import ArraySliceDep, gather
from xarray_n5.model.paths import DIGESTS, UNFINISHED, join, meant_by
from xarray_n5.model.receipts import Receipts, digest
from xarray_n5.writing.block_check import as_promised
from xarray_n5.writing.chunk_table import on_grid
from xarray_n5.writing.digests import keep_digests
from xarray_n5.writing.pending import Done, Leftovers
from xarray_n5.writing.write import writer_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    import dask.array as da
    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.graph import Written
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.write import Write


_BELIEVED = 2.0
"""How many seconds a task on an object store believes what the mark of its write said."""


def write_lazily(source: da.Array, write: Write, before: Receipts | None = None) -> Written:
    """Return what computes the blocks that are still to be written, and writes them.

    Parameters
    ----------
    source
        Blocks that share no chunks.
    write
        Where and how they are written.
    before
        What has been written already; None where nothing can have been.
    """
    # A name of its own: a scheduler must not take an earlier write's results for this one's.
    name = f"{write.marker.token}-{uuid.uuid4().hex[:8]}"
    left = None if before is None or not len(before) else Leftovers(source, write, before)
    blocks: Any = source.map_blocks(
        cast("Any", write_block),
        ArraySliceDep(source.chunks),
        left if write.resumed else None,
        write,
        name=f"write_n5-{name}",
        dtype=object,
        chunks=tuple((1,) * len(sizes) for sizes in source.chunks),
        meta=np.empty((0,) * source.ndim, object),
    )
    chosen = None if left is None else left.blocks()
    last = functools.partial(finish, write=write, before=before)
    return gather(blocks, chosen, Receipts.merge, last, f"to_n5-{name}")


def write_block(
    block: np.ndarray, where: tuple[slice, ...], left: np.ndarray | None, write: Write
) -> Receipts:
    """Write a block, or those of its chunks that are `left`; return their receipts."""
    with write.marker.running():
        return _write_block(block, where, left, write)


def _write_block(
    block: np.ndarray, where: tuple[slice, ...], left: np.ndarray | None, write: Write
) -> Receipts:
    _check_begun(write)
    prove = Proof(write.marker, time.monotonic() + _BELIEVED)
    place = tuple(slice(w.start + s, w.stop + s) for w, s in zip(where, write.start, strict=True))
    target = _as_it_is(write.target, place)
    block = as_promised(block, place, target.dtype, target.url)
    first = tuple(side.start // chunk for side, chunk in zip(place, target.chunks, strict=True))
    done: Container[Index] = () if left is None else Done(first, left)
    rows = []
    clock = time.perf_counter()
    for index, chunk, size in target.writing(place, block, done, prove):
        now = time.perf_counter()
        rows.append((index, size, digest(chunk), now - clock))
        clock = now
    receipts = Receipts.of(rows, target.ndim, writer_name())
    if write.journal and rows:
        prove()
        write.marker.note(".".join(map(str, rows[0][0])), receipts.to_json())
    return receipts


def _check_begun(write: Write) -> None:
    """Raise where the write does not hold any more; begin a write that was planned."""
    try:
        write.marker.check()
    except ContainerNotVisibleError:
        if not write.planned:
            raise
        if write.whole is not None:
            write.whole.begin_planned()
        write.marker.begin_planned()
        write.marker.check()


@dataclass(slots=True)
class Proof:
    """What a task calls before each chunk: it raises if its write does not hold any more."""

    marker: WriteMarker
    again: float = 0.0
    """When the mark is to be read again."""

    def __call__(self) -> None:
        """Raise as :meth:`WriteMarker.check` does; on object stores every few seconds only."""
        now = time.monotonic()
        if self.marker.store.batch > 1 and now < self.again and not self.marker.is_stopped():
            return
        self.marker.check()
        self.again = now + _BELIEVED


def run(lazy: Written, writes: Iterable[Write]) -> Any:
    """Compute writes; where that fails, stop what is left of their tasks before it is raised."""
    try:
        (found,) = compute_now(lazy)
    except BaseException:
        for write in writes:
            write.marker.stop()
        raise
    return found


def write_when_read(source: da.Array, target: Array, start: tuple[int, ...]) -> da.Array:
    """Return an array of which each block is written when it is computed."""
    writing: Any = source.map_blocks(
        cast("Any", write_and_return),
        target,
        ArraySliceDep(source.chunks),
        start=start,
        name=f"stored_n5-{uuid.uuid4().hex}",
        meta=source._meta,  # noqa: SLF001 - map_blocks asks for it
    )
    return cast("da.Array", writing)


def write_and_return(
    block: np.ndarray, target: Array, where: tuple[slice, ...], start: tuple[int, ...]
) -> np.ndarray:
    """Write a block; return it as it is stored."""
    if target.stamp() is None:
        raise ContainerNotVisibleError(target.url, "its metadata")
    place = tuple(slice(w.start + s, w.stop + s) for w, s in zip(where, start, strict=True))
    whole = as_promised(block, place, target.dtype, target.url)
    _as_it_is(target, place).write(place, whole)
    return block


def _as_it_is(target: Array, place: tuple[slice, ...]) -> Array:
    """Return the array as it is now where `place` has chunks that its end cuts: it may have grown.

    Such a chunk would be written as far as the array once reached, and take what is behind away.
    """
    ends = zip(place, target.shape, target.chunks, strict=True)
    cut = any(where.stop == size and size % side for where, size, side in ends)
    return target.renewed() if cut else target


def finish(parts: list[Receipts], write: Write, before: Receipts | None) -> xr.Dataset:
    """End a write: keep digests, remove what killed tasks left, and the mark last of all."""
    _check_begun(write)
    ndim = write.target.ndim
    several = [*parts, *([] if before is None else [before])]
    receipts = Receipts.merge([Receipts.of([], ndim, ""), *several])
    found = as_dataset(receipts, write)
    mine = write.marker
    others, _ = begun_and_planned(mine.store, mine.path, tidy=True, but=mine)
    whole = bool(others) and write.is_whole()
    alone = whole or not any(each.facts() for each in others)  # a whole write ends the others
    keep_digests(write, receipts, alone=alone)
    sweep(write, alone=alone)
    for other in others:
        if other.token == REPAIRED:
            end_repair(other, write)
        elif whole:
            other.end()
    if not write.part:
        end(write)
    return found


def end(write: Write) -> None:
    """Remove a write's mark; of a repair's, what has been repaired."""
    if write.marker.token == REPAIRED:
        end_repair(write.marker, write)
    else:
        write.marker.end()


def end_repair(mark: WriteMarker, write: Write) -> None:
    """Strike off chunks that were to be written again; the mark goes with the last of them."""
    facts = mark.facts()
    if facts is None:
        return
    left = [index for index in facts.get("chunks", ()) if not write.covers(index)]
    if left:
        mark.as_found(facts).begin({**facts, "chunks": left})
    else:
        mark.end()


def sweep(write: Write, *, alone: bool) -> None:
    """Remove hidden files that killed tasks of this write, and its killed ends, left.

    Those beside documents, digests and the hint may be another write's that begins or ends at this
    moment. They go only where this one is `alone`, and writes the whole array.
    """
    store, path = write.marker.store, write.marker.path
    left = []
    for partial in store.list_partials(path):
        key = meant_by(partial) or ""
        index = write.target.chunk_index(key)
        own = key in {*write.target.documents, UNFINISHED} or key.startswith(f"{DIGESTS}/")
        if (own and alone and write.is_whole()) or (index is not None and index in write):
            left.append(join(path, partial))
    if left:
        store.delete(left)


def as_dataset(receipts: Receipts, write: Write) -> xr.Dataset:
    """Return receipts on the part of the chunk grid that was written."""
    names = np.array([*receipts.names, ""], object)
    columns = {
        "bytes": receipts.sizes,
        "digest": receipts.digests,
        "seconds": receipts.seconds,
        "worker": names[receipts.writers],
    }
    fill = {"bytes": 0, "digest": 0, "seconds": 0, "worker": ""}
    found = on_grid(receipts.indices, columns, write.box, write.dims, fill)
    found["bytes"].attrs = {"long_name": "stored bytes"}
    found["digest"].attrs = {"long_name": "xxh64 of the elements"}
    found["seconds"].attrs = {"units": "s"}
    found.attrs = {"array": write.target.url, "chunks": math.prod(map(len, write.box))}
    return found
