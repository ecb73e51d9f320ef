"""The tasks of a write: each block becomes whole chunks, with a receipt for each."""

from __future__ import annotations

import functools
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from dask.base import compute

from xarray_n5.arrays.invalidate import prepare
from xarray_n5.errors import ContainerNotVisibleError
from xarray_n5.graph import ArraySliceDep, tree_reduce
from xarray_n5.model.grid import span
from xarray_n5.model.indexing import as_numbers
from xarray_n5.model.receipts import Receipts, digest
from xarray_n5.writing.block_check import check_block
from xarray_n5.writing.finish import finish
from xarray_n5.writing.pending import Done, Pending
from xarray_n5.writing.progress import report_written
from xarray_n5.writing.write import begin_planned, writer_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    import dask.array as da

    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.graph import DelayedReport
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.write import Write

_TRUSTED = 2.0
"""The seconds for which a task on an object store relies on a marker that it has read."""


def write_lazily(source: da.Array, write: Write, before: Receipts | None = None) -> DelayedReport:
    """Return a computation that writes the pending blocks.

    Parameters
    ----------
    source
        Blocks that do not share chunks.
    write
        The target and the options of the write.
    before
        The receipts of an interrupted run; None if there was none.
    """
    # A unique name: a scheduler must not use an earlier write's results for this one.
    name = f"{write.marker.token}-{uuid.uuid4().hex[:8]}"
    left = None if before is None or not len(before) else Pending(source, write, before)
    blocks: Any = source.map_blocks(
        # Among the arguments, Dask would search the dataclass for collections.
        cast("Any", functools.partial(write_block, write=write)),
        ArraySliceDep(source.chunks),
        left if write.resumed else None,
        name=f"write_n5-{name}",
        dtype=object,
        chunks=tuple((1,) * len(sizes) for sizes in source.chunks),
        meta=np.empty((0,) * source.ndim, object),
    )
    chosen = None if left is None else left.blocks()
    last = functools.partial(finish, write=write, before=before)
    return tree_reduce(blocks, chosen, Receipts.merge, last, f"to_n5-{name}")


def write_block(
    block: np.ndarray, where: tuple[slice, ...], left: np.ndarray | None, write: Write
) -> Receipts:
    """Write a block, or its chunks that are `left`; return their receipts."""
    with write.marker.running():
        begin_planned(write)
        check = _MarkerCheck(write.marker, time.monotonic() + _TRUSTED)
        box = _shifted(where, write.start)
        target = _current(write.target, box)
        array = target.metadata
        block = as_numbers(check_block(block, box, array.dtype, target.url), array.dtype)
        first = tuple(side.start // chunk for side, chunk in zip(box, array.chunks, strict=True))
        done: Container[Index] = () if left is None else Done(first, left)
        rows = []
        clock = time.perf_counter()
        for row in target.write(box, block, done, check, digest):
            now = time.perf_counter()
            rows.append((*row, now - clock))
            clock = now
        receipts = Receipts.of(rows, len(box), writer_name())
        if write.journal and rows:
            check()
            write.marker.note(".".join(map(str, rows[0][0])), receipts.to_json())
        report_written(write.marker.token, receipts)
        return receipts


@dataclass(slots=True)
class _MarkerCheck:
    """Raise if the write has finished or failed; called before each chunk is stored."""

    marker: WriteMarker
    again: float
    """The time when the marker is read again, on object stores."""

    def __call__(self) -> None:
        now = time.monotonic()
        if self.marker.store.concurrency > 1 and now < self.again and not self.marker.is_stopped():
            return
        self.marker.check()
        self.again = now + _TRUSTED


def run(lazy: DelayedReport, writes: Iterable[Write]) -> Any:
    """Compute writes; if that fails, stop their remaining tasks before raising."""
    try:
        (found,) = compute(lazy)
    except BaseException:
        for write in writes:
            write.marker.stop()
        raise
    return found


def write_when_read(source: da.Array, target: ChunkIO, start: tuple[int, ...]) -> da.Array:
    """Return an array whose blocks are written when they are computed."""
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
    block: np.ndarray, target: ChunkIO, where: tuple[slice, ...], start: tuple[int, ...]
) -> np.ndarray:
    """Write a block, and return it as it is stored."""
    if target.etag() is None:
        raise ContainerNotVisibleError(target.url, "its metadata")
    box = _shifted(where, start)
    array = target.metadata
    whole = as_numbers(check_block(block, box, array.dtype, target.url), array.dtype)
    chunks = span(array.grid.project(box))
    prepare(target.store, target.path, lambda: chunks, array.chunks)
    for _ in _current(target, box).write(box, whole):
        pass
    return block


def _shifted(where: tuple[slice, ...], start: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of the array that a block is written to, with steps of 1."""
    return tuple(slice(w.start + s, w.stop + s, 1) for w, s in zip(where, start, strict=True))


def _current(target: ChunkIO, box: tuple[slice, ...]) -> ChunkIO:
    """Return the array as it is now if `box` has chunks clipped by its end: it may have grown.

    Such a chunk would be clipped to the former end, and lose the rest.
    """
    ends = zip(box, target.metadata.shape, target.metadata.chunks, strict=True)
    cut = any(where.stop == size and size % side for where, size, side in ends)
    return target.refreshed().bare() if cut else target
