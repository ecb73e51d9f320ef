"""The tasks of a write: each block becomes whole chunks, with a receipt for each."""

from __future__ import annotations

import functools
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, cast

import dask.local
import dask.threaded
import numpy as np
from dask.base import compute
from dask.callbacks import Callback

from xarray_n5.arrays.invalidate import prepare
from xarray_n5.arrays.transfer import put
from xarray_n5.errors import BlockError, ContainerNotVisibleError
from xarray_n5.graph import (
    ArrayBlockwiseDep,
    ArraySliceDep,
    cut,
    fused,
    get_scheduler,
    tree_reduce,
)
from xarray_n5.model.conversions import are_same
from xarray_n5.model.grid import span
from xarray_n5.model.indexing import as_numbers
from xarray_n5.model.receipts import Receipts, digest
from xarray_n5.stores import together
from xarray_n5.writing.finish import finish
from xarray_n5.writing.progress import report_written
from xarray_n5.writing.sending import Sending, received
from xarray_n5.writing.write import begin_planned, writer_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    import dask.array as da
    import xarray as xr

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.graph import DelayedReport
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.write import Write


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
    blocks, left, name = _write_blocks(source, write, before)
    last = functools.partial(finish, write=write, before=before)
    chosen = None if left is None else list(left)
    return tree_reduce(blocks, chosen, _merged, last, f"to_n5-{name}")


def write_in_batches(
    source: da.Array, write: Write, before: Receipts | None, size: int
) -> xr.Dataset:
    """Write the pending blocks, at most `size` of them at a time, and return the report."""
    blocks, left, name = _write_blocks(source, write, before)
    blocks = fused(blocks)
    pending = product(*map(range, source.numblocks)) if left is None else left
    parts: list[Any] = []
    while some := list(islice(pending, size)):
        part = f"to_n5-{name}-{len(parts)}"
        lazy = tree_reduce(cut(blocks, some), some, _merged, _merged, part)
        parts.extend(compute(lazy))
    parts = [Receipts.merge(parts)] if parts else []  # frees those of the batches
    return finish(parts, write, before)


def _merged(parts: list[Receipts | Sending]) -> Receipts:
    return Receipts.merge(received(parts))


def _write_blocks(
    source: da.Array, write: Write, before: Receipts | None
) -> tuple[da.Array, Iterator[tuple[int, ...]] | None, str]:
    """Return the tasks of a write, the indices of those that are pending, and a unique name.

    A scheduler must not use an earlier write's results for this one.
    """
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
    return blocks, None if left is None else left.blocks(), name


def write_block(
    block: np.ndarray, where: tuple[slice, ...], left: np.ndarray | None, write: Write
) -> Receipts | Sending:
    """Write a block, or its chunks that are `left`; return their receipts."""
    marker, box = write.marker, _shifted(where, write.start)
    with marker.running(write.target.url):
        begins = write.planned or marker.store.concurrency > 1 or _is_cut(write.target, box)
        if begins and not marker.is_trusted():
            begin_planned(write)  # otherwise, the marker is read before each chunk

        target = _current(write.target, box)
        array = target.metadata
        block = as_numbers(check_block(block, box, array.dtype, target.url), array.dtype)
        first = tuple(side.start // chunk for side, chunk in zip(box, array.chunks, strict=True))
        done: Container[Index] = () if left is None else Done(first, left)
        touched = product(*target.metadata.grid.project(box))
        pending = (each for each in touched if tuple([part.chunk for part in each]) not in done)
        with Sending(target, write) as sending:
            rows, clock = [], time.perf_counter()
            how: Any = sending.send if sending.is_possible() else None
            for row in put(
                target, pending, block, sending.check, digest, shared=not write.fresh, send=how
            ):
                now = time.perf_counter()
                rows.append((*row, now - clock))
                clock = now
            receipts = Receipts.of(rows, len(box), writer_name())
            if write.journal and rows:
                sending.check()
                marker.note(".".join(map(str, rows[0][0])), receipts.to_json())
            report_written(marker.token, receipts)
            return sending.result(receipts)


def write_now(plans: Mapping[str, WritePlan]) -> dict[str, xr.Dataset] | None:
    """Write arrays that are each one block in memory, without a graph, and return their reports.

    None if any of them is not, or is resumed; or if tasks do not run in threads of this process, or
    are observed.
    """
    calls = []
    for plan in plans.values():
        block = _block_in_memory(plan.source) if plan.before is None else None
        if block is None:
            return None
        calls.append(functools.partial(_write_whole, block, replace(plan.write, part=True)))
    found = together(next(iter(plans.values())).write.marker.store, calls)
    return dict(zip(plans, found, strict=True))


def _block_in_memory(array: da.Array) -> np.ndarray | None:
    """Return the only block of an array if it is in memory, and would be written here."""
    layers = [*array.dask.layers.values()]
    here = get_scheduler(collections=[array]) in {dask.threaded.get, dask.local.get_sync}
    if not here or Callback.active or len(layers) != 1 or not layers[0].is_materialized():
        return None
    values = [*layers[0].values()]
    return values[0] if len(values) == 1 and isinstance(values[0], np.ndarray) else None


def _write_whole(block: np.ndarray, write: Write) -> xr.Dataset:
    whole = tuple(slice(0, size) for size in block.shape)
    return finish([write_block(block, whole, None, write)], write, None)


@contextmanager
def stopping(writes: Iterable[Write]) -> Iterator[None]:
    """Stop the remaining tasks of writes before an error is raised."""
    try:
        yield
    except BaseException:
        if markers := [write.marker for write in writes]:
            together(markers[0].store, [marker.stop for marker in markers])  # each may wait
        raise


def write_when_read(source: da.Array, target: ArrayNode, start: tuple[int, ...]) -> da.Array:
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
    block: np.ndarray, target: ArrayNode, where: tuple[slice, ...], start: tuple[int, ...]
) -> np.ndarray:
    """Write a block, and return it as it is stored."""
    if target.etag() is None:
        raise ContainerNotVisibleError(target.url, "its metadata")
    box = _shifted(where, start)
    array = target.metadata
    whole = as_numbers(check_block(block, box, array.dtype, target.url), array.dtype)
    chunks = span(array.grid.project(box))
    prepare(target.store, target.path, lambda: chunks, array.chunks)
    current = _current(target, box)
    for _ in put(current, product(*current.metadata.grid.project(box)), whole):
        pass
    return block


def _shifted(where: tuple[slice, ...], start: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of the array that a block is written to, with steps of 1."""
    return tuple(slice(w.start + s, w.stop + s, 1) for w, s in zip(where, start, strict=True))


def _current(target: ArrayNode, box: tuple[slice, ...]) -> ArrayNode:
    """Return the array as it is now if `box` has chunks clipped by its end: it may have grown.

    Such a chunk would be clipped to the former end, and lose the rest.
    """
    return target.refreshed().bare() if _is_cut(target, box) else target


def _is_cut(target: ArrayNode, box: tuple[slice, ...]) -> bool:
    """Return whether a box has chunks clipped by the end of the array."""
    ends = zip(box, target.metadata.shape, target.metadata.chunks, strict=True)
    return any(where.stop == size and size % side for where, size, side in ends)


_MANTISSA = {2: 11, 4: 24, 8: 53, 16: 64}
"""The number of bits of a whole number that a float of each size represents exactly."""


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
    found = np.asarray(block.data if isinstance(block, np.ma.MaskedArray) else block)
    shape = tuple(side.stop - side.start for side in where)
    if found.shape != shape:
        hint = (
            "the function that made it returns another shape than Dask expects: pass the right "
            "chunks= to map_blocks"
        )
        raise BlockError(url, place, f"the shape {shape}", str(found.shape), hint)
    if not (_holds(dtype, found.dtype) or _fits(found, dtype)):
        hint = (
            "the function that made it returns another type than Dask expects: pass the right "
            "dtype= to map_blocks, or convert with astype()"
        )
        raise BlockError(url, place, str(dtype), str(found.dtype), hint)
    return found


def _fits(found: np.ndarray, wanted: np.dtype[Any]) -> bool:
    """Return whether a type can represent the values of a block, up to the rounding of floats."""
    rounds = found.dtype.kind == wanted.kind == "f"
    if not rounds and (found.dtype.kind not in "iu" or wanted.kind not in "iuf"):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(are_same(found, found.astype(wanted)).all())


def _holds(wanted: np.dtype[Any], found: np.dtype[Any]) -> bool:
    """Return whether a type can represent all values of another."""
    if wanted.hasobject:
        return found.kind in "OUT"
    plain = "biufc"
    if found == wanted or (found.kind not in plain and found.kind != wanted.kind):
        return found == wanted
    if found.kind in "iu" and wanted.kind in "fc":
        bits = _MANTISSA.get(wanted.itemsize // (2 if wanted.kind == "c" else 1), 0)
        return found.itemsize * 8 <= bits
    return (
        wanted.kind in plain + "SUVMm"
        and np.can_cast(found, wanted, "safe")
        and ((wanted.kind in plain) == (found.kind in plain))
    )


class Pending(ArrayBlockwiseDep):
    """The pending chunks of each block of an array.

    Parameters
    ----------
    source
        Blocks that do not share chunks.
    write
        The target and the options of the write.
    before
        The receipts of chunks that have been written.
    """

    def __init__(self, source: da.Array, write: Write, before: Receipts) -> None:
        super().__init__(source.chunks)
        box = write.box
        self.missing = np.ones(tuple(map(len, box)), bool)
        if len(before):
            done = [before.indices[:, axis] - side.start for axis, side in enumerate(box)]
            self.missing[tuple(done)] = False
        self.firsts = [
            ((start + np.concatenate([[0], np.cumsum(sizes)])) // side - these.start).astype(int)
            for sizes, side, start, these in zip(
                source.chunks, write.target.metadata.chunks, write.start, box, strict=True
            )
        ]
        for firsts, these in zip(self.firsts, box, strict=True):
            firsts[-1] = len(these)

    def __getitem__(self, idx: tuple[int, ...]) -> np.ndarray:
        spans = zip(idx, self.firsts, strict=True)
        return self.missing[tuple(slice(firsts[i], firsts[i + 1]) for i, firsts in spans)]

    def blocks(self) -> Iterator[tuple[int, ...]]:
        """Iterate over the indices of blocks with pending chunks."""
        if not self.missing.size:
            return
        counts = self.missing.astype(np.int64)
        for axis, firsts in enumerate(self.firsts):
            counts = np.add.reduceat(counts, firsts[:-1], axis=axis)
        for index in np.argwhere(counts):
            yield tuple(map(int, index))


@dataclass(frozen=True, slots=True)
class Done:
    """The progress of an interrupted run within one block."""

    first: Index
    """The block's first chunk."""
    left: np.ndarray
    """Which of its chunks are pending."""

    def __contains__(self, index: object) -> bool:
        place = zip(cast("Index", index), self.first, strict=True)
        return not self.left[tuple(one - first for one, first in place)]
