"""Read and write selections of one array, its chunks in batches or in several threads."""

from __future__ import annotations

import functools
import math
import operator
import os
import threading
from collections import deque
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import chain, islice, product, takewhile, tee
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from dask.system import CPU_COUNT

from xarray_n5.arrays.assembly import Assembly
from xarray_n5.arrays.shards import read_shards
from xarray_n5.model.grid import normalize, outer
from xarray_n5.stores import FsspecStore, uncached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import AxisIndex, ChunkGrid, Index, Piece
    from xarray_n5.model.metadata import Buffer

    _Prove: TypeAlias = Callable[[], None] | None
    _Digest: TypeAlias = Callable[[np.ndarray], int] | None
    _Part: TypeAlias = tuple[Index, Any, Any]
    """A chunk's index, where its elements go in the result, and which of its elements they are."""
    _Pieces: TypeAlias = Sequence[Sequence[Piece]]
    """The chunks that a selection touches, by axis."""


Item = TypeVar("Item")

_WORTH = 1 << 16
"""The minimum size of a chunk for which two threads are faster than one, in bytes."""

_BANDS = 4
"""The number of bands for each thread: threads whose bands take less time process more."""


def read_selection(io: ArrayNode, key: object) -> Any:
    """Return a basic or orthogonal selection."""
    selection = normalize(key, io.metadata.shape)
    alone = _whole_chunk(io, selection.axes)
    if alone is not None:
        result = io.block(alone, check=True)  # in the memory of what was decoded
    else:
        result = np.empty(selection.shape, io.metadata.dtype)
        read(io, selection.axes, result)
    if selection.newaxes:
        return np.expand_dims(result[(*selection.view, ...)], selection.newaxes)
    return result[selection.view]


def _whole_chunk(io: ArrayNode, axes: Sequence[AxisIndex]) -> Index | None:
    """Return the index of the chunk that equals a selection, clipped to the array, or None."""
    metadata = io.metadata
    index = []
    for axis, size, side in zip(axes, metadata.shape, metadata.chunks, strict=True):
        if not isinstance(axis, slice) or axis.step != 1 or axis.start % side:
            return None
        if not axis.start < axis.stop == min(axis.start + side, size):
            return None
        index.append(axis.start // side)
    return tuple(index) if metadata.inner is None else None


def checked_index(io: ArrayNode, index: Sequence[int]) -> Index:
    """Return a chunk's coordinates.

    Raises
    ------
    IndexError
        If the grid has no such chunk.
    """
    chunk, grid = tuple(map(operator.index, index)), io.metadata.grid
    if chunk not in grid:
        raise IndexError(f"{io.url!r} has no chunk {chunk}; the grid has {grid.counts} chunks")
    return chunk


def read_points(io: ArrayNode, key: Sequence[Any]) -> np.ndarray:
    """Return the elements at points: index arrays that are broadcast together, and slices.

    Only the chunks with points are read: an outer selection around scattered points would read all
    chunks between them.

    Parameters
    ----------
    io
        The array.
    key
        A slice or an array of integers for each axis, at least one of them an array.

    Returns
    -------
    numpy.ndarray
        The axes of the index arrays first, then one for each slice, in order.

    Raises
    ------
    IndexError
        If a position is out of bounds.
    """
    grid, items = io.metadata.grid, list(key)
    pointed = [axis for axis, item in enumerate(items) if not isinstance(item, slice)]
    sliced = [axis for axis, item in enumerate(items) if isinstance(item, slice)]
    arrays = np.broadcast_arrays(*(items[axis] for axis in pointed))
    for axis, array in zip(pointed, arrays, strict=True):
        items[axis] = array.ravel()
    selection = normalize(tuple(items), grid.shape)
    points = np.stack([np.asarray(selection.axes[axis]) for axis in pointed])
    parts = list(_point_parts(grid, points, selection.axes, pointed, sliced))
    sizes = [selection.shape[axis] for axis in sliced]
    result = np.empty((points.shape[1], *sizes), io.metadata.dtype)
    chunks = blocks(io, [index for index, _, _ in parts])
    for chunk, (_, target, inside) in zip(chunks, parts, strict=True):
        result[target] = chunk.transpose(*pointed, *sliced)[inside]
    result = result[(slice(None), *(selection.view[axis] for axis in sliced))]
    return result.reshape(arrays[0].shape + result.shape[1:])


def _point_parts(
    grid: ChunkGrid,
    points: np.ndarray,
    axes: Sequence[AxisIndex],
    pointed: Sequence[int],
    sliced: Sequence[int],
) -> Iterator[tuple[Index, tuple[Any, ...], tuple[Any, ...]]]:
    """Iterate over the chunks with points: where their elements go, and which they are.

    The axes of index arrays come first, in the result and in the chunk.
    """
    sides = np.array([grid.chunks[axis] for axis in pointed])[:, None]
    numbers, chunk_of = np.unique(points // sides, axis=1, return_inverse=True)
    counts = np.bincount(chunk_of.ravel(), minlength=1)
    rows_of = np.split(np.argsort(chunk_of.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    pieces = grid.project(axes)
    for number, rows in zip(numbers.T, rows_of, strict=False):  # without points, rows alone
        inside = tuple(points[:, rows] - number[:, None] * sides)
        for parts in product(*(pieces[axis] for axis in sliced)):
            index = dict(zip(pointed, number.tolist(), strict=True))
            index |= {axis: part.chunk for axis, part in zip(sliced, parts, strict=True)}
            yield (
                tuple(index[axis] for axis in range(len(axes))),
                (rows, *(part.target for part in parts)),
                (*inside, *(part.inside for part in parts)),
            )


def read(chunks: ArrayNode, axes: Sequence[AxisIndex], result: np.ndarray) -> None:
    """Read the selection `axes` into `result`, each chunk's elements once and without copies."""
    metadata = chunks.metadata
    grid = metadata.grid
    pieces = grid.project(axes)
    plain = all(isinstance(axis, slice) for axis in axes)
    threads = 1 if chunks.container.batch > 1 else _threads(chunks, pieces)

    if metadata.inner is not None:

        def work_on_shards(chosen: Iterable[tuple[Piece, ...]]) -> None:
            assembly = Assembly(metadata, result, plain=plain)
            read_shards(chunks, chosen, assembly.add)
            assembly.end()

        _share(work_on_shards, _products, pieces, threads)
        return

    def work(chosen: Iterable[_Part]) -> None:
        assembly = Assembly(metadata, result, plain=plain)
        chosen, again = tee(chosen)
        several = _loaded(chunks, map(itemgetter(0), again))
        for (index, target, inside), stored in zip(chosen, several, strict=True):
            if stored is None or stored.shape == grid.chunks or grid.fits(index, stored.shape):
                assembly.add(stored, target, inside)
            else:
                assembly.add(chunks.native(index, stored), target, inside)
        assembly.end()

    _share(work, _parts, pieces, threads)


def _products(pieces: _Pieces) -> Iterator[tuple[Piece, ...]]:
    """Iterate over the parts of the chunks that pieces touch."""
    return product(*pieces)


def _parts(pieces: _Pieces) -> Iterator[_Part]:
    """Iterate over the chunks that pieces touch, without an object for each of millions."""
    indices = product(*[[piece.chunk for piece in axis] for axis in pieces])
    targets = product(*[[piece.target for piece in axis] for axis in pieces])
    insides = product(*[[piece.inside for piece in axis] for axis in pieces])
    return zip(indices, targets, insides, strict=True)


def write(chunks: ArrayNode, axes: Sequence[AxisIndex], values: np.ndarray) -> None:
    """Write `values` at the selection `axes`."""
    pieces = chunks.metadata.grid.project(axes)
    threads = 1 if chunks.format.one_writer else _threads(chunks, pieces)
    if chunks.container.batch > 1:
        threads = min(threads, chunks.container.batch)

    def work(chosen: Iterable[tuple[Piece, ...]]) -> None:
        deque(put(chunks, chosen, values, threads=threads), maxlen=0)

    _share(work, _products, pieces, threads)


def put(
    node: ArrayNode,
    chosen: Iterable[Sequence[Piece]],
    values: np.ndarray,
    prove: _Prove = None,
    digest: _Digest = None,
    threads: int = 1,
) -> Iterator[tuple[Index, int, int]]:
    """Write the parts of `values` that belong to some chunks, several of them at once.

    A chunk that they cover is not read; one that they cut is read, merged and replaced. `prove`
    raises if writing must stop. The limits on chunks in flight are those of all `threads` that do
    so at the same time.

    Yields
    ------
    tuple
        A chunk's index, the number of its stored bytes, and the `digest` of its elements,
        0 without one.
    """
    if node.container.batch == 1:
        for parts in chosen:
            index, block = _merged(node, parts, values)
            # The digest is first, while the elements are in the processor's cache.
            digested = 0 if digest is None else digest(block)
            nbytes = node.save(index, block, prove)
            yield index, nbytes, digested
        return
    begun: deque[tuple[Index, int, int]] = deque()

    def changes() -> Iterator[tuple[Index, Buffer | None]]:
        for parts in chosen:
            index, block = _merged(node, parts, values)
            digested = 0 if digest is None else digest(block)
            data = node.encoded(index, block)
            if prove is not None:
                prove()
            begun.append((index, 0 if data is None else len(data), digested))
            yield index, data

    ahead = max(1, node.ahead // threads)
    for _ in node.container.set_chunks(node.path, node.metadata, changes(), ahead):
        node.indices.forget([begun[0][0]])
        yield begun.popleft()


def _merged(
    node: ArrayNode, parts: Sequence[Piece], values: np.ndarray
) -> tuple[Index, np.ndarray]:
    """Return a chunk's index, and its elements after its part of `values` is set."""
    index = tuple([part.chunk for part in parts])
    part_of = np.asarray(values[outer([part.target for part in parts])])
    if all(part.whole for part in parts) and part_of.shape == node.metadata.grid.extent(index):
        # Contiguous: both the codec and the digest read it. Parts of shards are encoded
        # separately.
        order: Any = "C" if node.metadata.inner is None else "K"
        block = np.asarray(part_of, node.metadata.dtype, order=order)
    else:
        block = node.filled().block(index, written=parts)
        block[outer([part.inside for part in parts])] = part_of
    return index, block


def _threads(chunks: ArrayNode, pieces: _Pieces) -> int:
    """Return the number of threads for the chunks that pieces touch.

    Outside the main thread it is one: Dask, and others who start threads, run many tasks already.
    For small chunks one thread is faster, since threads take turns in Python.
    """
    count = math.prod(map(len, pieces))
    nbytes = math.prod(chunks.metadata.grid.chunks) * chunks.metadata.dtype.itemsize
    alone = threading.current_thread() is not threading.main_thread()
    # One connection by FTP or SFTP serves one thread.
    store = uncached(chunks.store)
    alone |= isinstance(store, FsspecStore) and store.concurrency == 1
    return 1 if alone or nbytes < _WORTH else max(1, min(count, CPU_COUNT))


def _share(
    work: Callable[[Iterable[Item]], None],
    items: Callable[[_Pieces], Iterator[Item]],
    pieces: _Pieces,
    threads: int,
) -> None:
    """Process the `items` of the chunks that `pieces` touch; an error in one thread stops all."""
    if threads == 1:
        work(items(pieces))
        return
    bands, stopped = list(_bands(pieces, threads * _BANDS)), threading.Event()

    def work_on_bands(first: int) -> None:
        for band in bands[first::threads]:
            work(takewhile(lambda _: not stopped.is_set(), items(band)))

    tasks: list[Future[None]] = []
    try:
        pool = _pool_of(os.getpid())
        tasks.extend(pool.submit(work_on_bands, first) for first in range(threads))
        wait(tasks, return_when=FIRST_EXCEPTION)
    finally:
        stopped.set()
        wait(tasks)  # nothing may write into the result any more
    for task in tasks:
        task.result()


@functools.cache
def _pool_of(_process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: a forked child has none of its parent's."""
    return ThreadPoolExecutor(CPU_COUNT, "xarray-n5")


def _bands(pieces: _Pieces, count: int) -> Iterator[_Pieces]:
    """Divide a selection into at most `count` parts that are distant in memory.

    The system clears new memory when it is first written to, in pages of up to 2 MiB, and clears a
    page twice if two threads write to it at once.
    """
    lengths = list(map(len, pieces))
    enough = [axis for axis, length in enumerate(lengths) if length >= count]
    axis = enough[0] if enough else lengths.index(max(lengths))
    along = pieces[axis]
    count = min(count, len(along))
    for number in range(count):
        start, stop = (band * len(along) // count for band in (number, number + 1))
        yield [*pieces[:axis], along[start:stop], *pieces[axis + 1 :]]


def blocks(chunks: ArrayNode, indices: Sequence[Index]) -> Iterator[np.ndarray]:
    """Iterate over chunks clipped to the array, in native order; some are fetched ahead."""
    for index, stored in zip(indices, _loaded(chunks, indices), strict=True):
        yield chunks.native(index, stored)


def _loaded(chunks: ArrayNode, indices: Iterable[Index]) -> Iterator[np.ndarray | None]:
    """Iterate over chunks as they are stored: one is decoded while others are fetched."""
    container, path, metadata = chunks.container, chunks.path, chunks.metadata
    if container.batch == 1:
        for index, data in container.get_chunks(path, metadata, indices, 1):
            yield chunks.decoded(index, data)
        return
    indices = iter(indices)
    first = list(islice(indices, 2))
    if not first:
        return
    stored = False
    one = [(first[0], container.get_chunk(path, metadata, first[0]))] if len(first) == 1 else None
    several = chain(first, indices)
    for index, data in one or container.get_chunks(path, metadata, several, chunks.ahead):
        stored = stored or data is not None
        yield chunks.decoded(index, data)
    if not stored:
        container.check_array(path, metadata)
