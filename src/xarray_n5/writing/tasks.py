"""The tasks of a write: each block becomes whole chunks, with a receipt for each."""

from __future__ import annotations

import functools
import math
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress, product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xarray_n5.arrays.records import writer_name
from xarray_n5.arrays.transfer import put
from xarray_n5.errors import BlockError
from xarray_n5.graph import ArrayBlockwiseDep, ArraySliceDep
from xarray_n5.model.chunking import touched
from xarray_n5.model.conversions import are_same
from xarray_n5.model.grid import as_numbers
from xarray_n5.model.receipts import Receipts, digest
from xarray_n5.writing.progress import TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import dask.array as da

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.arrays.records import Claim
    from xarray_n5.model.grid import Index, Piece
    from xarray_n5.writing.plan import WritePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayWrite:
    """Everything that tasks need to write their blocks."""

    target: ArrayNode
    """The array, without its attributes."""
    start: tuple[int, ...]
    """The element of the array at which the source starts."""
    shape: tuple[int, ...]
    """The shape of the source."""
    claim: Claim
    """The record of the write."""
    fresh: bool
    """Whether each stored chunk is one that this write has stored; otherwise tasks keep notes."""
    kept: tuple[int, ...] | None = None
    """The shape before an append, whose last chunks may have samples that are kept."""
    prefix: str = ""
    """The beginning of the names of its notes, where several arrays share a record."""

    @property
    def box(self) -> tuple[range, ...]:
        """The chunks that are written, along each axis."""
        return tuple(map(touched, self.start, self.shape, self.target.metadata.chunks))

    def is_noted(self, index: Index, nbytes: int) -> bool:
        """Return whether a task keeps a note of a chunk: where storing it proves nothing.

        Chunks with samples from before an append have none: they are merged again.
        """
        if self.kept is None:
            return not (self.fresh and nbytes)
        sides = zip(index, self.target.metadata.chunks, self.kept, strict=True)
        return any(number * side >= size for number, side, size in sides)


_BYTES = 1 << 25
"""The size of a block up to which blocks are joined where requests take long: 32 MiB."""

_TOGETHER = 16
"""The number of chunks of a block up to which they are."""


def write_blocks(plan: WritePlan, later: object = None) -> tuple[da.Array, Pending, str]:
    """Return the tasks of a write, those that are pending, and a unique name.

    The tasks of a deferred write depend on a task, `later`, which begins it. A scheduler must not
    use an earlier write's results for this one.
    """
    write, source = plan.write, plan.source
    name = f"{write.claim.token}-{uuid.uuid4().hex[:8]}"
    left = Pending(source, write, plan.before)
    blocks: Any = source.map_blocks(
        # Among the arguments, Dask would search the dataclass for collections.
        cast("Any", functools.partial(write_block, write=write) if later is None else write_later),
        ArraySliceDep(source.chunks),
        left,
        *(() if later is None else (later,)),
        name=f"write_n5-{name}",
        dtype=object,
        chunks=tuple((1,) * len(sizes) for sizes in source.chunks),
        meta=np.empty((0,) * source.ndim, object),
    )
    return blocks, left, name


def joined(plan: WritePlan) -> WritePlan:
    """Return a write with fewer blocks where requests take long, so that a task sends several."""
    if plan.before or plan.write.target.store.concurrency == 1:
        return plan
    source, chunks = plan.source, plan.write.target.metadata.chunks
    blocks = list(source.chunks)
    for axis in reversed(range(source.ndim)):
        while len(blocks[axis]) > 1:
            sizes = blocks[axis]
            pairs = tuple(sum(sizes[at : at + 2]) for at in range(0, len(sizes), 2))
            fewer = [*blocks[:axis], pairs, *blocks[axis + 1 :]]
            sides = [max(sizes) for sizes in fewer]
            count = math.prod(-(-side // c) for side, c in zip(sides, chunks, strict=True))
            nbytes = math.prod(sides) * source.dtype.itemsize
            few = math.prod(map(len, fewer)) < _TOGETHER // 2
            if count > _TOGETHER or nbytes > _BYTES or few:
                break
            blocks = fewer
    changes = tuple(blocks) != source.chunks
    return replace(plan, source=source.rechunk(tuple(blocks))) if changes else plan


def write_later(
    block: np.ndarray, where: tuple[slice, ...], left: np.ndarray | None, plan: WritePlan
) -> Receipts:
    """Write a block of a deferred write, which another task has begun."""
    if plan.is_done:
        return Receipts.of([], block.ndim, "")
    return write_block(block, where, left, plan.write)


def write_block(
    block: np.ndarray, where: tuple[slice, ...], left: np.ndarray | None, write: ArrayWrite
) -> Receipts:
    """Write a block, or its chunks that are `left`; return their receipts."""
    claim, target, array = write.claim, write.target, write.target.metadata
    claim.check()
    box = tuple(slice(w.start + s, w.stop + s, 1) for w, s in zip(where, write.start, strict=True))
    block = as_numbers(check_block(block, box, array.dtype, target.url), array.dtype)
    pending: Iterable[tuple[Piece, ...]] = product(*array.grid.project(box))
    if left is not None:
        pending = compress(pending, left.flat)
    rows, clock = [], time.perf_counter()
    for row in put(target, pending, block, claim.check, digest):
        now = time.perf_counter()
        rows.append((*row, now - clock))
        clock = now
    noted = [row for row in rows if write.is_noted(row[0], row[1])]
    if noted:
        claim.check()
        name = f"{write.prefix}{'.'.join(map(str, noted[0][0])) or 0}"
        claim.note(name, Receipts.of(noted, len(box), writer_name()))
    receipts = Receipts.of(rows, len(box), writer_name())
    if "distributed.worker" in sys.modules:
        _report(claim.token, receipts)
    return receipts


def _report(token: str, receipts: Receipts) -> None:
    """Report the chunks of a task from a worker of a cluster, to progress bars."""
    from distributed import get_worker

    with suppress(ValueError):  # in another process
        get_worker().log_event(TOPIC, [token, len(receipts), int(receipts.sizes.sum())])


def check_block(block: Any, where: Sequence[slice], dtype: np.dtype[Any], url: str) -> np.ndarray:
    """Return a block as a NumPy array, after checking its shape and data type.

    Another type is accepted if the array's type can represent all its values, or all values of the
    block. Wider floats than declared, which some functions of xarray and Dask return, are rounded.

    Parameters
    ----------
    block
        The result of a task.
    where
        The part of the array that it is written to.
    dtype
        The type of the array.
    url
        The array, for the message.

    Raises
    ------
    BlockError
        If the block would be broadcast, or its values would overflow, be truncated or unmasked.
    """
    place = f"[{', '.join(f'{side.start}:{side.stop}' for side in where)}]"
    if np.ma.is_masked(block):
        hint = "fill it first, with dask.array.ma.filled(x, value)"
        raise BlockError(url, place, "plain values", "masked ones", hint)
    values = np.asarray(block.data if isinstance(block, np.ma.MaskedArray) else block)
    shape = tuple(side.stop - side.start for side in where)
    if values.shape != shape:
        hint = (
            "the function that made it returns another shape than Dask expects: pass the right "
            "chunks= to map_blocks"
        )
        raise BlockError(url, place, f"the shape {shape}", str(values.shape), hint)
    if not _holds(dtype, values):
        hint = (
            "the function that made it returns another type than Dask expects: pass the right "
            "dtype= to map_blocks, or convert with astype()"
        )
        raise BlockError(url, place, str(dtype), str(values.dtype), hint)
    return values


def _holds(wanted: np.dtype[Any], values: np.ndarray) -> bool:
    """Return whether a type can represent the values of a block, up to the rounding of floats."""
    given, numbers = values.dtype, "biufc"
    if given == wanted or wanted.hasobject:
        return given == wanted or given.kind in "OUT"
    integers = given.kind in "iu" and wanted.kind in "iufc"
    if integers or given.kind == wanted.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(are_same(values, values.astype(wanted)).all())
    alike = {given.kind, wanted.kind} <= {*numbers} or given.kind == wanted.kind
    return alike and wanted.kind in f"{numbers}SUVMm" and np.can_cast(given, wanted, "safe")


class Pending(ArrayBlockwiseDep):
    """The pending chunks of each block of an array.

    Parameters
    ----------
    source
        Blocks that do not share chunks.
    write
        The target and the options of the write.
    before
        The receipts of chunks that have been written; None if all are pending.
    """

    def __init__(self, source: da.Array, write: ArrayWrite, before: Receipts | None) -> None:
        super().__init__(source.chunks)
        self.box = box = write.box
        self.missing: np.ndarray | None = None
        if before:
            done = [before.indices[:, axis] - side.start for axis, side in enumerate(box)]
            self.missing = np.ones(tuple(map(len, box)), bool)
            self.missing[tuple(done)] = False
        self.firsts = [
            ((start + np.concatenate([[0], np.cumsum(sizes)])) // side - these.start).astype(int)
            for sizes, side, start, these in zip(
                source.chunks, write.target.metadata.chunks, write.start, box, strict=True
            )
        ]
        for firsts, these in zip(self.firsts, box, strict=True):
            firsts[-1] = len(these)

    def __getitem__(self, idx: tuple[int, ...]) -> np.ndarray | None:
        spans = zip(idx, self.firsts, strict=True)
        if self.missing is None:
            return None
        return self.missing[tuple(slice(firsts[i], firsts[i + 1]) for i, firsts in spans)]

    def chunks_of(self, idx: tuple[int, ...]) -> list[range]:
        """Return the chunks of a block, along each axis."""
        spans = zip(idx, self.firsts, self.box, strict=True)
        return [these[firsts[i] : firsts[i + 1]] for i, firsts, these in spans]

    def blocks(self) -> Iterator[tuple[int, ...]]:
        """Iterate over the indices of blocks with pending chunks."""
        if self.missing is None:
            yield from product(*map(range, self.numblocks))
            return
        counts = self.missing.astype(np.int64)
        for axis, firsts in enumerate(self.firsts):
            counts = np.add.reduceat(counts, firsts[:-1], axis=axis)
        for index in np.argwhere(counts):
            yield tuple(map(int, index))
