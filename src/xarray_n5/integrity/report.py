"""Report the state of each chunk: missing, intact, or damaged in some way."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace
from operator import add
from typing import TYPE_CHECKING, Any, cast

import dask.array as da
import numpy as np
import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.claims import State, state_of
from xarray_n5.arrays.claims import look as look_at_records
from xarray_n5.codecs.raw import Raw
from xarray_n5.errors import ChunkError, VarlengthChunkError
from xarray_n5.graph import ArraySliceDep, normalize_chunks
from xarray_n5.model.chunking import group_chunks
from xarray_n5.model.metadata import Content
from xarray_n5.model.paths import HIDDEN, is_own
from xarray_n5.model.receipts import digest
from xarray_n5.writing.chunk_table import coordinates, dims_of_grid, distinct, whole_grid
from xarray_n5.writing.digests import read_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index

_STATES = ("ok", "missing", "truncated", "undecodable", "wrong-shape", "digest-differs")
DAMAGED = frozenset(_STATES[2:])

_FACTS = np.dtype([("state", f"U{max(map(len, _STATES))}"), ("bytes", "i8"), ("digest", "u8")])

_TOGETHER = 256
"""The maximum number of chunks of one task."""

_HEAD = 512
"""The number of bytes that a quick check reads from the beginning of a chunk."""

_HEADER = 4
"""The maximum number of bytes of a chunk's header, per axis and in addition."""


def report(array: Array, *, deep: bool) -> xr.Dataset:
    """Return the state of each chunk of an array, lazily; see :func:`xarray_n5.verify`."""
    expected, attributes = known_of(array, deep=deep)
    box, counts = whole_grid(array), array.grid.counts
    blocks = group_chunks((1,) * array.ndim, counts, 1, _TOGETHER)
    facts: Any = da.map_blocks(
        cast("Any", _check),
        Array(array.node.bare()),
        ArraySliceDep(normalize_chunks(blocks, counts)),
        *(da.from_array(each, chunks=blocks) for each in expected),
        deep=deep,
        name=f"verify_n5-{uuid.uuid4().hex}",  # earlier results may be outdated
        dtype=_FACTS,
        meta=np.empty((0,) * array.ndim, _FACTS),
    )
    dims = distinct(dims_of_grid(array), _FACTS.names or ())
    variables = {name: (dims, facts[name]) for name in _FACTS.names or ()}
    return xr.Dataset(variables, coordinates(box, dims), attributes)


def look(array: Array, *, deep: bool) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the states and the attributes of :func:`report`, without Dask for few chunks."""
    if array.grid.size > _TOGETHER:
        found = report(array, deep=deep)
        return found["state"].to_numpy(), found.attrs
    expected, attributes = known_of(array, deep=deep)
    whole = tuple(slice(0, count) for count in array.grid.counts)
    return _check(array, whole, *expected, deep=deep)["state"], attributes


def known_of(array: Array, *, deep: bool) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, Any]]:
    """Return the known facts about chunks, which chunks have them, and the report's attributes.

    They are the digests of intact chunks; for a quick check, the sizes of chunks that need not be
    read, 0 for missing ones.
    """
    counts = tuple(map(len, whole_grid(array)))
    stray, sizes, state = _listed(array)
    digests = read_digests(array.node) if deep and state.digests else None
    expected = np.broadcast_to(np.uint64(0), counts), np.broadcast_to(np.False_, counts)
    if digests is not None:
        expected = digests.values, digests.known
    elif sizes is not None and not deep:
        expected = _sufficient_sizes(array, sizes)
    return expected, {
        "array": array.url,
        "stray": stray,
        "unfinished": sorted(record.token for record in state.opens),
        "digests": digests is not None,
    }


def _check(
    array: Array, where: tuple[slice, ...], expected: np.ndarray, known: np.ndarray, *, deep: bool
) -> np.ndarray:
    """Return the facts about some chunks, with their digests, or sizes, as far as `known`."""
    facts = np.zeros(expected.shape, _FACTS)
    if not deep:
        facts["state"], facts["bytes"] = np.where(expected > 0, "ok", "missing"), expected
    spots = [spot for spot in np.ndindex(facts.shape) if deep or not known[spot]]
    indices = [tuple(map(add, (side.start for side in where), spot)) for spot in spots]
    io = array.node
    read: Iterable[Any] = ()
    if deep:
        read = _fetch(io, indices)
    elif indices:
        read = io.container.head_chunks(io.path, io.metadata, indices, _HEAD)
    for spot, index, data in zip(spots, indices, read, strict=True):
        wanted = int(expected[spot]) if deep and known[spot] else None
        facts[spot] = decoded(array, index, data, wanted) if deep else _peeked(array, index, data)
    return facts


def _fetch(io: ArrayNode, indices: Sequence[Index]) -> Iterator[bytes | ChunkError | None]:
    """Iterate over chunks, or the errors of containers that check what they read: archives."""
    fetched = 0
    try:
        for _, data in io.container.get_chunks(io.path, io.metadata, indices, io.ahead):
            yield data
            fetched += 1
    except ChunkError:
        for index in indices[fetched:]:
            try:
                yield io.get(index)
            except ChunkError as error:
                yield error


def decoded(
    array: Array, index: Index, data: bytes | ChunkError | None, wanted: int | None
) -> tuple[str, int, int]:
    """Decode a chunk, and return its state, size and digest; `wanted` is the expected digest."""
    if data is None:
        return "missing", 0, 0
    if isinstance(data, ChunkError):
        return _damage(data.__cause__), 0, 0
    io = array.node
    io = replace(io, metadata=io.metadata.multisets_as(Content.LABELS))
    try:
        block = io.decode(index, data)
    except VarlengthChunkError:
        return "ok", len(data), 0
    except ChunkError as error:
        return _damage(error.__cause__), len(data), 0
    if block is None:
        return "wrong-shape", len(data), 0
    found = digest(block)
    state = "ok" if wanted is None or found == wanted else "digest-differs"
    return state, len(data), found


def _peeked(array: Array, index: Index, head: tuple[bytes, int] | None) -> tuple[str, int, int]:
    """Return the state and the size of a chunk by its first bytes and its size."""
    if head is None:
        return "missing", 0, 0
    try:
        shape = array.node.format.peek(array.node.metadata, *head)
    except (ValueError, EOFError) as error:
        return _damage(error), head[1], 0
    return "ok" if array.grid.fits(index, shape) else "wrong-shape", head[1], 0


def _damage(cause: BaseException | None) -> str:
    """Return the state of a chunk that cannot be decoded."""
    return "truncated" if isinstance(cause, EOFError) else "undecodable"


def _listed(array: Array) -> tuple[list[str], dict[Index, int] | None, State]:
    """Return an array's stray files: neither documents, chunks nor hidden files of this package.

    Of an object store, also the sizes of chunks. In other stores, a listing has no sizes, or may be
    incomplete: servers may hide files. The records of writes are in the same listing.
    """
    io = array.node
    has_sizes = io.container.batch > 1 and io.store.complete_listings
    if has_sizes:
        files = {info.key: info.size for info in io.store.list_info(array.path)}
    else:
        files = dict.fromkeys(io.container.walk(array.path), 0)
    stray, sizes = [], {}
    for key, size in files.items():
        index = io.chunk_index(key)
        if index is not None and index in array.grid:
            sizes[index] = size
        elif index is not None or not (is_own(key) or key in io.container.documents):
            stray.append(key)
    if stray and not sizes:
        next(io.stored_chunks(), None)  # raises if the node is a group
    if io.format.one_writer:
        return stray, None, look_at_records(io.container.store, array.path)
    hidden = [key.removeprefix(f"{HIDDEN}/") for key in files if key.startswith(f"{HIDDEN}/")]
    state = state_of(((), tuple(key for key in hidden if "/" not in key)))
    return stray, sizes if has_sizes else None, state


def _sufficient_sizes(array: Array, sizes: Mapping[Index, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of chunks, 0 for missing ones, and whether they suffice to check them.

    The shape determines the size of uncompressed chunks. Compressed ones may have any size that is
    larger than that of a header.
    """
    metadata, pads = array.node.metadata, array.node.format.pads
    values, known = np.zeros(array.grid.counts, np.uint64), np.ones(array.grid.counts, bool)
    header = _header_size(array.node)
    for index, size in sizes.items():
        values[index] = size
        if header is None:
            known[index] = size > _HEADER * (array.ndim + 1)
            continue
        # Other programs pad chunks at the ends.
        shapes = {metadata.chunks, metadata.chunks if pads else array.grid.extent(index)}
        known[index] = (size - header) in {array.dtype.itemsize * math.prod(s) for s in shapes}
    return values, known


def _header_size(io: ArrayNode) -> int | None:
    """Return the number of bytes before the elements of a chunk; None for compressed chunks."""
    metadata = io.metadata
    plain = metadata.content is Content.NUMBERS and not metadata.dtype.hasobject
    if not plain or metadata.inner is not None or not isinstance(metadata.compression, Raw):
        return None
    block = np.zeros(metadata.chunks, metadata.dtype)
    return memoryview(io.format.encode(metadata, block)).nbytes - block.nbytes
