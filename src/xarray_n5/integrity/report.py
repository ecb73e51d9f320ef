"""Report the state of each chunk: missing, intact, or damaged in some way."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import dask.array as da
import numpy as np
import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.records import State, look, state_of
from xarray_n5.codecs.raw import Raw
from xarray_n5.errors import ChunkError, VarlengthChunkError
from xarray_n5.graph import ArraySliceDep, normalize_chunks
from xarray_n5.model.chunking import group_chunks
from xarray_n5.model.metadata import Content
from xarray_n5.model.paths import HIDDEN, is_own
from xarray_n5.model.receipts import digest
from xarray_n5.writing.digests import read_digests
from xarray_n5.writing.report import coordinates, dims_of_grid, distinct, whole_grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import EllipsisType

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index

DAMAGED = ("truncated", "undecodable", "wrong-shape", "digest-differs")
"""The states of chunks other than "ok" and "missing"."""

_FACTS = np.dtype([("state", "U14"), ("bytes", "i8"), ("digest", "u8")])

_TOGETHER = 256
"""The maximum number of chunks of one task."""

_HEAD = 512
"""The number of bytes that a quick check reads from the beginning of a chunk."""

_HEADER = 4
"""The maximum number of bytes of a chunk's header, per axis and in addition."""


def report(array: Array, *, deep: bool) -> xr.Dataset:
    """Return the state of each chunk of an array, lazily; see :func:`xarray_n5.verify`."""
    expected, attributes = _expected(array, deep=deep)
    counts = array.grid.counts
    blocks = group_chunks((1,) * array.ndim, counts, 1, _TOGETHER)
    facts: Any = da.map_blocks(
        cast("Any", _check),
        Array(array.node.bare()),
        ArraySliceDep(normalize_chunks(blocks, counts)),
        da.from_array(expected, chunks=blocks),
        deep=deep,
        name=f"verify_n5-{uuid.uuid4().hex}",  # earlier results may be outdated
        dtype=_FACTS,
        meta=np.empty((0,) * array.ndim, _FACTS),
    )
    dims = distinct(dims_of_grid(array), _FACTS.names or ())
    variables = {name: (dims, facts[name]) for name in _FACTS.names or ()}
    return xr.Dataset(variables, coordinates(whole_grid(array), dims), attributes)


def _expected(array: Array, *, deep: bool) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the known facts of each chunk, 0 for none, and the attributes of the report.

    This is its digest; for a quick check, where that suffices, 1 more than its size.
    """
    stray, sizes, state = _listed(array)
    expected = np.broadcast_to(np.uint64(0), tuple(map(len, whole_grid(array))))
    digests = read_digests(array.node) if deep and state.digests else None
    if digests is not None:
        expected = digests
    elif sizes is not None and not deep:
        expected = _sufficient_sizes(array, sizes)
    attributes = {"array": array.url, "stray": stray, "unfinished": state.unfinished}
    return expected, {**attributes, "digests": digests is not None}


def _check(
    array: Array, where: tuple[slice, ...], expected: np.ndarray, *, deep: bool
) -> np.ndarray:
    """Return the facts about some chunks, given what is expected of them."""
    facts = np.zeros(expected.shape, _FACTS)
    facts["state"] = np.where(expected > 1, "ok", "missing")
    facts["bytes"] = np.maximum(expected, 1) - 1
    spots = [spot for spot in np.ndindex(facts.shape) if deep or not expected[spot]]
    indices = [tuple(w.start + at for w, at in zip(where, spot, strict=True)) for spot in spots]
    io = array.node
    chunks: Iterable[Any] = _fetch(io, indices)
    if not deep:
        chunks = io.container.head_chunks(io.path, io.metadata, indices, _HEAD)
    for spot, index, data in zip(spots, indices, chunks, strict=True):
        facts[spot] = check_chunk(io, index, data, int(expected[spot]))
    return facts


def _fetch(io: ArrayNode, indices: Sequence[Index]) -> Iterator[bytes | EllipsisType | None]:
    """Iterate over chunks; those after one that an archive cannot read are to be read again."""
    fetched = 0
    with suppress(ChunkError):
        for _, data in io.container.get_chunks(io.path, io.metadata, indices, io.ahead):
            fetched += 1
            yield data
    yield from [...] * (len(indices) - fetched)


def check_chunk(
    io: ArrayNode, index: Index, data: bytes | tuple[bytes, int] | EllipsisType | None, wanted: int
) -> tuple[str, int, int]:
    """Return the state, size and digest of a chunk, given its digest, or 0 if that is unknown.

    If only its first bytes and its size are passed, these are checked; with ``...``, it is read.
    """
    size, actual = 0, 0
    try:
        data = io.get(index) if data is ... else data
        if data is None:
            return "missing", 0, 0
        size = data[1] if isinstance(data, tuple) else len(data)
        if isinstance(data, tuple):
            fits = io.metadata.grid.fits(index, io.format.peek(io.metadata, *data))
        else:
            labels = replace(io, metadata=io.metadata.multisets_as(Content.LABELS))
            block = labels.decode(index, data)
            fits, actual = block is not None, 0 if block is None else digest(block)
    except VarlengthChunkError:
        fits = True
    except (ChunkError, ValueError, EOFError) as error:
        cause = error.__cause__ if isinstance(error, ChunkError) else error
        return "truncated" if isinstance(cause, EOFError) else "undecodable", size, 0
    known = wanted and actual and wanted != actual
    return "digest-differs" if known else "ok" if fits else "wrong-shape", size, actual


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
        return stray, None, look(io.container.store, array.path)
    records = (key.rpartition("/")[2] for key in files if key.rpartition("/")[0] == HIDDEN)
    return stray, sizes if has_sizes else None, state_of(((), tuple(records)))


def _sufficient_sizes(array: Array, sizes: Mapping[Index, int]) -> np.ndarray:
    """Return 1 more than the sizes of chunks, or 0 where they do not suffice to check them.

    The shape determines the size of uncompressed chunks. Compressed ones may have any size that is
    larger than that of a header.
    """
    io, metadata, header = array.node, array.node.metadata, None
    plain = metadata.content is Content.NUMBERS and not metadata.dtype.hasobject
    if plain and metadata.inner is None and isinstance(metadata.compression, Raw):
        block = np.zeros(metadata.chunks, metadata.dtype)
        header = memoryview(io.format.encode(metadata, block)).nbytes - block.nbytes
    expected = np.ones(array.grid.counts, np.uint64)
    for index, size in sizes.items():
        suffices = size > _HEADER * (array.ndim + 1)
        if header is not None:  # other programs pad chunks at the ends
            extent = metadata.chunks if io.format.pads else array.grid.extent(index)
            counts = {np.prod(metadata.chunks), np.prod(extent)}
            suffices = size - header in {count * array.dtype.itemsize for count in counts}
        expected[index] = size + 1 if suffices else 0
    return expected
