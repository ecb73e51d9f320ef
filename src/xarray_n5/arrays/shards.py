"""Read only the selected chunks from shards."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from itertools import product
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from xarray_n5.errors import ChunkError
from xarray_n5.stores import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.formats.pipeline import Sharding
    from xarray_n5.formats.zarr3.format import Zarr3
    from xarray_n5.model.grid import AxisIndex, Index, Piece
    from xarray_n5.stores.base import FilePart

_LONGEST = 1 << 26
"""The maximum size of neighbouring chunks that are read by one request: 64 MiB."""

_IN_FLIGHT = 1 << 27
"""The maximum size of chunks that are requested together: 128 MiB."""

_MOST_INDICES = 1 << 25
"""The maximum size of the indices that an array keeps: 32 MiB."""


@dataclass(slots=True, eq=False)
class Indices:
    """The latest indices of shards that an array has read. It is pickled empty.

    An index is kept with the earlier stamp of its file, and is not used for another file. Where
    stamps need a request, the state of the file says whether a chunk is from the same file.
    """

    _kept: dict[Index, tuple[np.ndarray, object, object]] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def __reduce__(self) -> tuple[object, ...]:
        return Indices, ()

    def get(self, shard: Index, stamp: object) -> tuple[np.ndarray | None, object]:
        """Return the index of a shard, if it is known for the file with this stamp, and a state."""
        index, before, state = self._kept.get(shard, (None, None, None))
        return (index, state) if stamp == before else (None, None)

    def add(self, shard: Index, index: np.ndarray, stamp: object, state: object) -> None:
        """Keep the index of a shard, and the stamp from before it was read; forget the oldest."""
        most = _MOST_INDICES // index.nbytes  # all indices of an array have one size
        with self._lock:
            self._kept.pop(shard, None)
            while self._kept and len(self._kept) >= most:
                del self._kept[next(iter(self._kept))]
            self._kept[shard] = index, stamp, state

    def forget(self, shards: Iterable[Index]) -> None:
        """Forget the indices of shards that are written."""
        with self._lock:
            for shard in shards:
                self._kept.pop(shard, None)


@dataclass(slots=True)
class _Part:
    """A selection within one shard."""

    shard: Index
    pieces: list[tuple[Piece, ...]]
    """The selected parts of its chunks."""
    targets: tuple[AxisIndex, ...]
    """The position of the shard's part of the selection in the result."""
    whole: bool
    """Whether the file is read as a whole."""
    stamp: object
    """The stamp of its file before it is read; None if the store has none."""
    state: object = None
    """The state of the file that the index is from; None if it is unknown."""
    index: np.ndarray | None = None
    """The locations of its chunks; None if the shard is not stored."""
    known: bool = False
    """Whether the index was read before."""


class _Wanted(NamedTuple):
    """A chunk whose bytes are requested."""

    part: _Part
    piece: tuple[Piece, ...]
    at: Index
    start: int
    stop: int


def read_shards(
    io: ArrayNode,
    chosen: Iterable[tuple[Piece, ...]],
    copy: Callable[[np.ndarray | None, tuple[Any, ...], tuple[Any, ...]], None],
) -> None:
    """Read parts of shards: `copy` gets the elements of each chunk, and where they belong.

    If half of a shard is selected, all of it is read by one request. Otherwise, its index is
    requested, unless it is known, and then the chunks: adjacent ones by one request.
    """
    sharding = cast("Zarr3", io.format).sharding(io.metadata)
    if sharding is None:
        raise TypeError(f"{io.url!r} has no shards")  # impossible if metadata.inner is set
    for batch in _batches(io, sharding, chosen):
        for part, piece, block in _blocks(io, sharding, batch):
            # Lists, not generators: this is done for each of millions of chunks.
            targets = [side.target for side in piece]
            copy(
                block,
                tuple(map(_within, part.targets, targets)),
                tuple([side.inside for side in piece]),
            )


def _batches(
    io: ArrayNode, sharding: Sharding, chosen: Iterable[tuple[Piece, ...]]
) -> Iterator[list[_Part]]:
    """Iterate over batches of parts that are read together, limited by size."""
    grid, store = sharding.grid, io.container.store
    inner = math.prod(grid.chunks) * io.metadata.dtype.itemsize
    batch: list[_Part] = []
    nbytes = 0
    for parts in chosen:
        pieces = list(product(*grid.project([side.inside for side in parts])))
        shard = tuple(side.chunk for side in parts)
        batch.append(
            _Part(
                shard=shard,
                pieces=pieces,
                targets=tuple(side.target for side in parts),
                whole=2 * len(pieces) > grid.size,
                stamp=store.etag(io.key(shard), free=True),
            )
        )
        nbytes += inner * len(pieces)
        if len(batch) >= io.container.batch or nbytes > _IN_FLIGHT:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def _blocks(
    io: ArrayNode, sharding: Sharding, batch: Sequence[_Part]
) -> Iterator[tuple[_Part, tuple[Piece, ...], np.ndarray | None]]:
    """Iterate over the chunks of several shards, decoded; None where one is not stored."""
    whole = [part for part in batch if part.whole]
    shards = [part.shard for part in whole]
    fetched = (
        io.container.get_chunks(io.path, io.metadata, shards, len(shards))
        if len(shards) > 1
        else ((shard, io.get(shard)) for shard in shards)
    )
    for part, (_, data) in zip(whole, fetched, strict=True):
        yield from _of_whole(io, sharding, part, data)
    others = [part for part in batch if not part.whole]
    _find(io, sharding, others)
    yield from _of_ranges(io, sharding, others)


def _of_whole(
    io: ArrayNode, sharding: Sharding, part: _Part, data: bytes | None
) -> Iterator[tuple[_Part, tuple[Piece, ...], np.ndarray | None]]:
    """Iterate over chunks of a shard that was read as a whole."""
    if data is None:
        io.decoded(part.shard, None)  # which may raise
        yield from ((part, piece, None) for piece in part.pieces)
        return
    view = memoryview(data)
    with _naming(io, part.shard):
        index = sharding.read_index(view)
    io.indices.add(part.shard, index, part.stamp, part.stamp)
    with _naming(io, part.shard):
        for piece in part.pieces:
            at = tuple([side.chunk for side in piece])
            yield part, piece, sharding.decode_inner(at, sharding.bytes_of(index, at, view))


def _find(io: ArrayNode, sharding: Sharding, parts: Sequence[_Part]) -> None:
    """Give parts the indices of their shards; unknown ones are requested together."""
    for part in parts:
        part.index, part.state = io.indices.get(part.shard, part.stamp)
        part.known = part.index is not None
    unknown = [part for part in parts if not part.known]
    size = sharding.index_nbytes
    start, stop = (0, size) if sharding.at_start else (-size, None)
    parts_read = _ranges(io, [(part.shard, start, stop) for part in unknown])
    for part, read in zip(unknown, parts_read, strict=True):
        if read is None:
            io.decoded(part.shard, None)  # as above
            continue
        with _naming(io, part.shard):
            part.index = sharding.read_index(memoryview(read.data))
        part.state = read.state
        io.indices.add(part.shard, part.index, part.stamp, part.state)


def _of_ranges(
    io: ArrayNode, sharding: Sharding, parts: Sequence[_Part]
) -> Iterator[tuple[_Part, tuple[Piece, ...], np.ndarray | None]]:
    """Iterate over requested chunks: adjacent ones by one request."""
    wanted: list[_Wanted] = []
    for part in parts:
        for piece in part.pieces:
            at, span = tuple([side.chunk for side in piece]), None
            if part.index is not None:
                with _naming(io, part.shard):
                    span = sharding.range_of(part.index, at)
            if span is None:
                yield part, piece, None
            else:
                wanted.append(_Wanted(part, piece, at, *span))
    wanted.sort(key=lambda chunk: (chunk.part.shard, chunk.start))
    runs = list(_runs(wanted))
    several = _ranges(io, [(r[0].part.shard, r[0].start, max(e.stop for e in r)) for r in runs])
    for run, read in zip(runs, several, strict=True):
        part, first = run[0].part, run[0].start
        same = read is not None and (part.state is None or part.state == read.state)
        for chunk in run:
            if read is None or not same:  # the bytes and the index are from different files
                yield part, chunk.piece, _anew(io, sharding, chunk)
                continue
            data = read.data[chunk.start - first : chunk.stop - first]
            yield chunk.part, chunk.piece, _decoded(io, sharding, chunk, data)


def _decoded(io: ArrayNode, sharding: Sharding, chunk: _Wanted, data: bytes) -> np.ndarray | None:
    """Return a chunk. If an index that was read before does not fit, read the whole shard."""
    try:
        with _naming(io, chunk.part.shard):
            if len(data) < chunk.stop - chunk.start:
                raise EOFError(
                    f"inner chunk {chunk.at}: the index has bytes {chunk.start} to {chunk.stop}, "
                    f"only {len(data)} exist"
                )
            return sharding.decode_inner(chunk.at, data)
    except ChunkError:
        if not chunk.part.known:
            raise
    return _anew(io, sharding, chunk)


def _anew(io: ArrayNode, sharding: Sharding, chunk: _Wanted) -> np.ndarray | None:
    """Return a chunk of the whole shard as it is now."""
    io.indices.forget([chunk.part.shard])
    shard = io.decoded(chunk.part.shard, io.get(chunk.part.shard))
    return None if shard is None else shard[sharding.grid.slices(chunk.at)]


def _runs(wanted: Sequence[_Wanted]) -> Iterator[list[_Wanted]]:
    """Iterate over runs of chunks of one shard that are adjacent in the file."""
    run: list[_Wanted] = []
    for chunk in wanted:
        if run and not (
            chunk.part is run[-1].part
            and chunk.start <= run[-1].stop
            and chunk.stop - run[0].start <= _LONGEST
        ):
            yield run
            run = []
        run.append(chunk)
    if run:
        yield run


def _ranges(
    io: ArrayNode, ranges: Sequence[tuple[Index, int, int | None]]
) -> Sequence[FilePart | None]:
    store = io.container.store
    return store.get_ranges([Range(io.key(i), start, stop) for i, start, stop in ranges])


@contextlib.contextmanager
def _naming(io: ArrayNode, shard: Index) -> Iterator[None]:
    """Convert errors of a shard's bytes to an error that names the shard."""
    try:
        yield
    except Exception as error:  # codecs raise errors of any type
        text = str(error) or type(error).__name__
        raise ChunkError("decode", io.container.url, io.key(shard), text) from error


def _within(outer: AxisIndex, inner: AxisIndex) -> AxisIndex:
    """Return positions in the result: those of a chunk within those of its shard."""
    if isinstance(outer, slice) and isinstance(inner, slice):
        return slice(outer.start + inner.start, outer.start + inner.stop)
    return np.arange(outer.start, outer.stop)[inner] if isinstance(outer, slice) else outer[inner]
