"""Report the state of each chunk: missing, intact, or damaged in some way."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from operator import add
from typing import TYPE_CHECKING, Any, cast

import dask.array as da
import numpy as np
import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.invalidate import box_of
from xarray_n5.arrays.marker import REPAIRED, find_markers
from xarray_n5.codecs.raw import Raw
from xarray_n5.errors import ChunkError, VarlengthChunkError
from xarray_n5.graph import ArraySliceDep, normalize_chunks
from xarray_n5.model.chunking import group_chunks
from xarray_n5.model.metadata import Content
from xarray_n5.model.paths import is_own
from xarray_n5.model.receipts import digest
from xarray_n5.writing.chunk_table import coordinates, dims_of_grid, distinct, whole_grid
from xarray_n5.writing.digests import read_digests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index
    from xarray_n5.stores.base import Listing
    from xarray_n5.writing.digests import Digests

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
    box = whole_grid(array)
    dims = distinct(dims_of_grid(array), _FACTS.names or ())
    facts = _looked_at(array, expected, deep=deep)
    variables = {name: (dims, facts[name]) for name in _FACTS.names or ()}
    return xr.Dataset(variables, coordinates(box, dims), attributes)


def look(array: Array, *, deep: bool) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the states and the attributes of :func:`report`, without Dask for few chunks."""
    expected, attributes = known_of(array, deep=deep)
    if array.grid.size > _TOGETHER:
        return _looked_at(array, expected, deep=deep)["state"].compute(), attributes
    whole = tuple(slice(0, count) for count in array.grid.counts)
    return _look_at(array, whole, *expected, deep=deep)["state"], attributes


def known_of(array: Array, *, deep: bool) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, Any]]:
    """Return the known facts about chunks, which chunks have them, and the report's attributes.

    They are the digests of intact chunks; for a quick check, the sizes of chunks that need not be
    read, 0 for missing ones.
    """
    listed = _look_over(array)
    digests = read_digests(array.node) if deep else None
    store, counts = array.node.store, tuple(map(len, whole_grid(array)))
    unfinished = find_markers(store, array.path, listing=listed.directory)[0]
    for each in unfinished if digests else ():
        # A running write stores its digests when it ends.
        side = box_of(each.facts() or {}, array.grid.chunks) if each.token != REPAIRED else None
        if side is not None and digests is not None:
            digests.known[tuple(slice(a.start, a.stop) for a in side)] = False
    if listed.sizes is not None and not deep:
        expected = _known_sizes(array, listed.sizes)
    else:
        expected = _expected(digests, counts)
    return expected, {
        "array": array.url,
        "stray": listed.stray,
        "unfinished": [each.token for each in unfinished],
        "digests": digests is not None,
    }


def _looked_at(array: Array, expected: tuple[np.ndarray, np.ndarray], *, deep: bool) -> Any:
    """Return the facts about all chunks as a Dask array."""
    counts = array.grid.counts
    blocks = group_chunks((1,) * array.ndim, counts, 1, _TOGETHER)
    return da.map_blocks(
        cast("Any", _look_at),
        Array(array.node.bare()),
        ArraySliceDep(normalize_chunks(blocks, counts)),
        *(da.from_array(each, chunks=blocks) for each in expected),
        deep=deep,
        name=f"verify_n5-{uuid.uuid4().hex}",  # earlier results may be outdated
        dtype=_FACTS,
        meta=np.empty((0,) * array.ndim, _FACTS),
    )


def _expected(digests: Digests | None, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    if digests is None:
        zeros = np.broadcast_to(np.uint64(0), counts)
        return zeros, np.broadcast_to(np.False_, counts)
    return digests.values, digests.known


def _look_at(
    array: Array,
    where: tuple[slice, ...],
    expected: np.ndarray,
    known: np.ndarray,
    *,
    deep: bool,
) -> np.ndarray:
    """Return the facts about some chunks."""
    facts = np.zeros(expected.shape, _FACTS)
    start = tuple(side.start for side in where)
    indices = [tuple(map(add, start, spot)) for spot in np.ndindex(facts.shape)]
    io = array.node
    container, metadata = io.container, io.metadata
    if not deep:
        spots = [*zip(np.ndindex(facts.shape), indices, strict=True)]
        doubtful = [index for spot, index in spots if not known[spot]]
        heads = container.head_chunks(io.path, metadata, doubtful, _HEAD) if doubtful else iter(())
        for spot, index in spots:
            size = int(expected[spot])
            listed = ("ok" if size else "missing", size, 0)
            facts[spot] = listed if known[spot] else _peeked(array, index, next(heads))
        return facts
    wanted = {
        spot: int(expected[spot]) if known[spot] else None for spot in np.ndindex(facts.shape)
    }
    fetched = container.get_chunks(io.path, metadata, indices, io.ahead)
    try:
        for (spot, number), index, (_, data) in zip(wanted.items(), indices, fetched, strict=True):
            facts[spot] = decoded(array, index, data, number)
    except ChunkError:  # of a container that checks chunks as it reads them, such as an archive
        for (spot, number), index in zip(wanted.items(), indices, strict=True):
            facts[spot] = _read_alone(array, index, number)
    return facts


def _read_alone(array: Array, index: Index, wanted: int | None) -> tuple[str, int, int]:
    try:
        data = array.node.get(index)
    except ChunkError as error:
        return _damage(error.__cause__), 0, 0
    return decoded(array, index, data, wanted)


def decoded(
    array: Array, index: Index, data: bytes | None, wanted: int | None
) -> tuple[str, int, int]:
    """Decode a chunk, and return its state, size and digest; `wanted` is the expected digest."""
    if data is None:
        return "missing", 0, 0
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


def _peeked(array: Array, index: Index, found: tuple[bytes, int] | None) -> tuple[str, int, int]:
    if found is None:
        return "missing", 0, 0
    try:
        shape = array.node.format.peek(array.node.metadata, *found)
    except (ValueError, EOFError) as error:
        return _damage(error), found[1], 0
    return "ok" if array.grid.fits(index, shape) else "wrong-shape", found[1], 0


def _damage(cause: BaseException | None) -> str:
    """Return the state of a chunk that cannot be decoded."""
    return "truncated" if isinstance(cause, EOFError) else "undecodable"


@dataclass(frozen=True, slots=True)
class _Listed:
    """The content of the listing of an array."""

    stray: list[str] = field(default_factory=list)
    """The array's files that are not documents, chunks or hidden files of this package."""
    sizes: Mapping[Index, int] | None = None
    """The sizes of the stored chunks; None if a listing does not show all files."""
    directory: Listing | None = None
    """The names directly in the array's directory, if they are known from the listing, too."""


def _look_over(array: Array) -> _Listed:
    """List all files of an array with their sizes; in an object store, this is one request.

    In other stores, a listing has no sizes, or may be incomplete: servers may hide files.
    """
    io = array.node
    if io.container.batch == 1 or not io.store.complete_listings:
        stray, _ = _sorted(array, dict.fromkeys(io.container.walk(array.path), 0))
        return _Listed(stray)
    found = {each.key: each.size for each in io.store.list_info(array.path)}
    stray, sizes = _sorted(array, found)
    folders = {key.partition("/")[0] for key in found if "/" in key}
    files = tuple(sorted(key for key in found if "/" not in key))
    return _Listed(stray, sizes, (tuple(sorted(folders)), files))


def _sorted(array: Array, found: Mapping[str, int]) -> tuple[list[str], dict[Index, int]]:
    """Return the stray files among those of an array, and the sizes of its chunks."""
    stray, sizes, stored = [], {}, False
    io = array.node
    for key, size in found.items():
        index = io.chunk_index(key)
        stored = stored or index is not None
        if index is not None and index in array.grid:
            sizes[index] = size
        elif index is not None or not (is_own(key) or key in io.container.documents):
            stray.append(key)
    if stray and not stored:
        next(array.node.stored_chunks(), None)  # raises if the node is a group
    return stray, sizes


def _known_sizes(array: Array, sizes: Mapping[Index, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of chunks, 0 for missing ones, and whether they suffice to check them.

    The shape determines the size of uncompressed chunks. Compressed ones may have any size that is
    larger than that of a header.
    """
    io = array.node
    found = np.zeros(array.grid.counts, np.uint64)
    known = np.ones(array.grid.counts, bool)
    expected: dict[tuple[int, ...], frozenset[int]] = {}
    raw = _is_raw(io)
    least = _HEADER * (array.ndim + 1)
    for index, size in sizes.items():
        found[index] = size
        if raw:
            extent = io.metadata.chunks if io.format.pads else array.grid.extent(index)
            if extent not in expected:
                shapes = {extent, io.metadata.chunks}  # other programs pad chunks at the ends
                expected[extent] = frozenset(_stored_size(io, shape) for shape in shapes)
            known[index] = size in expected[extent]
        else:
            known[index] = size > least
    return found, known


def _is_raw(io: ArrayNode) -> bool:
    """Return whether the shape of a chunk determines its size."""
    metadata = io.metadata
    plain = metadata.content is Content.NUMBERS and not metadata.dtype.hasobject
    return plain and metadata.inner is None and isinstance(metadata.compression, Raw)


def _stored_size(io: ArrayNode, shape: tuple[int, ...]) -> int:
    """Return the size of a stored, uncompressed chunk of a shape."""
    block = np.zeros(shape, io.metadata.dtype)
    return memoryview(io.format.encode(io.metadata, block)).nbytes
