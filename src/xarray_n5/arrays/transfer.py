"""Read and write selections of one array's chunks, in batches or in several threads."""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from itertools import chain, islice, product, tee
from operator import ge, itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from xarray_n5.arrays.shards import read_shards
from xarray_n5.arrays.threads import Item, spread, threads_for
from xarray_n5.model.indexing import outer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence

    import numpy as np

    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.model.grid import Index, Piece
    from xarray_n5.model.indexing import AxisIndex

    Cache: TypeAlias = MutableMapping[Index, np.ndarray]
    _Part: TypeAlias = tuple[Index, Any, Any]
    """A chunk's index, where its elements go in the result, and which of its elements they are."""


def new_cache(size: int) -> Any:
    """Return a cache of decoded chunks of up to `size` bytes; None for a size of 0."""
    if size <= 0:
        return None
    from zict import LRU

    return LRU(size, {}, weight=lambda _, block: block.nbytes)


def read(
    chunks: ChunkIO, axes: Sequence[AxisIndex], result: np.ndarray, cache: Cache | None = None
) -> None:
    """Read the selection `axes` into `result`, each chunk's elements once and without copies."""
    metadata = chunks.metadata
    grid = metadata.grid
    pieces = grid.project(axes)
    count = math.prod(map(len, pieces))
    plain = all(isinstance(axis, slice) for axis in axes)

    if metadata.inner is not None and cache is None:
        read = partial(_read_shards, chunks, result, plain=plain)
        _share(chunks, read, product(*pieces), count, alone=chunks.container.batch > 1)
        return

    def work(chosen: Iterable[_Part]) -> None:
        for (index, target, inside), found in _stored(chunks, chosen, cache):
            if not plain:
                target, inside = outer(target), outer(inside)  # noqa: PLW2901
            if found is None:
                result[target] = metadata.fill_value
                continue
            stored = found
            if stored.shape != grid.chunks and not all(map(ge, stored.shape, grid.extent(index))):
                stored = chunks.native(index, stored)
            if plain and axes and stored.dtype == result.dtype:
                _copy_rows(stored[inside], result[target])
            else:
                result[target] = stored[inside]

    alone = cache is not None or chunks.container.batch > 1
    _share(chunks, work, _parts(pieces), count, alone=alone)


def _parts(pieces: Sequence[Sequence[Piece]]) -> Iterator[_Part]:
    """Iterate over the chunks that pieces touch, without an object for each of millions."""
    indices = product(*[[piece.chunk for piece in each] for each in pieces])
    targets = product(*[[piece.target for piece in each] for each in pieces])
    insides = product(*[[piece.inside for piece in each] for each in pieces])
    return zip(indices, targets, insides, strict=True)


def _read_shards(
    chunks: ChunkIO, result: np.ndarray, chosen: Iterable[tuple[Piece, ...]], *, plain: bool
) -> None:
    """Read parts of shards into `result`."""

    def copy(found: np.ndarray | None, target: Any, inside: Any) -> None:
        if not plain:
            target, inside = outer(target), outer(inside)
        if found is None:
            result[target] = chunks.metadata.fill_value
        elif plain and target and found.dtype == result.dtype:
            _copy_rows(found[inside], result[target])
        else:
            result[target] = found[inside]

    read_shards(chunks, chosen, copy)


def write(chunks: ChunkIO, axes: Sequence[AxisIndex], values: np.ndarray) -> int:
    """Write `values` at the selection `axes`; return the number of chunks that were replaced."""
    pieces = chunks.metadata.grid.project(axes)

    def work(chosen: Iterable[tuple[Piece, ...]]) -> None:
        deque(chunks.put(chosen, values), maxlen=0)

    count = math.prod(map(len, pieces))
    _share(chunks, work, product(*pieces), count, alone=chunks.format.one_writer)
    return count


def _share(
    chunks: ChunkIO,
    work: Callable[[Iterable[Item]], None],
    items: Iterable[Item],
    count: int,
    *,
    alone: bool,
) -> None:
    """Process `count` chunks, in several threads if that is faster."""
    grid = chunks.metadata.grid
    nbytes = math.prod(grid.chunks) * chunks.metadata.dtype.itemsize
    threads = 1 if alone else threads_for(count, nbytes)
    if threads > 1:
        spread(work, items, count, threads)
    else:
        work(items)


def _copy_rows(source: np.ndarray, target: np.ndarray) -> None:
    """Copy elements unchanged: whole rows at once, if they are contiguous.

    NumPy copies rows of single bytes as fast itself.
    """
    width = target.dtype.itemsize
    beside = width > 1 and target.strides[-1:] == source.strides[-1:] == (width,)
    if beside and target.size and not target.dtype.hasobject:
        row = f"V{target.shape[-1] * width}"
        source, target = source.view(row), target.view(row)
    target[...] = source


def blocks(
    chunks: ChunkIO, indices: Sequence[Index], cache: Cache | None = None
) -> Iterator[np.ndarray]:
    """Iterate over chunks clipped to the array, in native order; some are fetched ahead."""
    if cache is None:
        for index, stored in zip(indices, _loaded(chunks, indices), strict=True):
            yield chunks.native(index, stored)
        return
    size = chunks.ahead
    for start in range(0, len(indices), size):
        yield from _cached(chunks, indices[start : start + size], cache)


def _stored(
    chunks: ChunkIO, chosen: Iterable[_Part], cache: Cache | None
) -> Iterator[tuple[_Part, np.ndarray | None]]:
    """Iterate over some chunks as they are stored."""
    if cache is None:
        chosen, again = tee(chosen)
        yield from zip(chosen, _loaded(chunks, map(itemgetter(0), again)), strict=True)
        return
    chosen = iter(chosen)
    while batch := list(islice(chosen, chunks.ahead)):
        held = [index for index, _, _ in batch]
        yield from zip(batch, _cached(chunks, held, cache), strict=True)


def _loaded(chunks: ChunkIO, indices: Iterable[Index]) -> Iterator[np.ndarray | None]:
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


def _cached(chunks: ChunkIO, indices: Sequence[Index], cache: Cache) -> Iterator[np.ndarray]:
    """Iterate over chunks from the cache; fetch the others together."""
    # Kept here, too: a small cache, or another thread, may drop one before it is used.
    known = {index: block for index in indices if (block := cache.get(index)) is not None}
    absent = [index for index in indices if index not in known]
    for index, block in zip(absent, blocks(chunks, absent), strict=True):
        known[index] = cache[index] = block
    yield from (known[index] for index in indices)
