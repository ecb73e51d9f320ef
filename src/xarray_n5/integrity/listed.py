"""One listing of an array: the sizes of its chunks, stray files and unfinished writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.access import io_of, stored_chunks
from xarray_n5.codecs.raw import Raw
from xarray_n5.model.metadata import Content
from xarray_n5.model.paths import is_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.model.grid import Index
    from xarray_n5.stores.base import Listing

_HEADER = 4
"""The maximum number of bytes of a chunk's header, per axis and in addition."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The content of the listing of an array."""

    stray: list[str] = field(default_factory=list)
    """The array's files that are not documents, chunks or hidden files of this package."""
    sizes: Mapping[Index, int] | None = None
    """The sizes of the stored chunks; None if a listing does not show all files."""
    directory: Listing | None = None
    """The names directly in the array's directory, if they are known from the listing, too."""


def look_over(array: Array) -> Listed:
    """List all files of an array with their sizes; in an object store, this is one request.

    In other stores, a listing has no sizes, or may be incomplete: servers may hide files.
    """
    io = io_of(array)
    if io.container.batch == 1 or not io.store.complete_listings:
        stray, _ = _sorted(array, dict.fromkeys(io.container.walk(array.path), 0))
        return Listed(stray)
    found = {each.key: each.size for each in io.store.list_info(array.path)}
    stray, sizes = _sorted(array, found)
    folders = {key.partition("/")[0] for key in found if "/" in key}
    files = tuple(sorted(key for key in found if "/" not in key))
    return Listed(stray, sizes, (tuple(sorted(folders)), files))


def _sorted(array: Array, found: Mapping[str, int]) -> tuple[list[str], dict[Index, int]]:
    """Return the stray files among those of an array, and the sizes of its chunks."""
    stray, sizes, stored = [], {}, False
    io = io_of(array)
    for key, size in found.items():
        index = io.chunk_index(key)
        stored = stored or index is not None
        if index is not None and index in array.grid:
            sizes[index] = size
        elif index is not None or not (is_own(key) or key in io.container.documents):
            stray.append(key)
    if stray and not stored:
        next(stored_chunks(array), None)  # raises if the node is a group
    return stray, sizes


def known_sizes(array: Array, sizes: Mapping[Index, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of chunks, 0 for missing ones, and whether they suffice to check them.

    The shape determines the size of uncompressed chunks. Compressed ones may have any size that is
    larger than that of a header.
    """
    io = io_of(array)
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


def _is_raw(io: ChunkIO) -> bool:
    """Return whether the shape of a chunk determines its size."""
    metadata = io.metadata
    plain = metadata.content is Content.NUMBERS and not metadata.dtype.hasobject
    return plain and metadata.inner is None and isinstance(metadata.compression, Raw)


def _stored_size(io: ChunkIO, shape: tuple[int, ...]) -> int:
    """Return the size of a stored, uncompressed chunk of a shape."""
    block = np.zeros(shape, io.metadata.dtype)
    return memoryview(io.format.encode(io.metadata, block)).nbytes
