"""The chunks of an HDF5 dataset: their bytes, or elements that only HDF5 can decode."""

from __future__ import annotations

import math
import os
import zlib
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES, check_type
from xarray_n5.formats.hdf5.format import (
    DECODABLE,
    DEFLATE,
    MASK_BYTES,
    NO_FILTERS,
    filters_of,
    split_mask,
    with_mask,
)
from xarray_n5.model.grid import ChunkGrid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.model.grid import Index

_RUN = 1 << 20
"""The number of elements in a chunk that is chosen for a dataset without chunks."""

_OVERHEAD = 1 << 16
"""The number of bytes that filters may add to a chunk, beyond doubling its elements."""

_NOT_STORED = "chunk storage is not allocated"
"""What HDF5's errors say of a chunk that is not stored."""


class Chunks:
    """The chunks of an open h5py dataset."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        check_type(dataset.id.get_type())
        self.grid = ChunkGrid(dataset.shape, dataset.chunks or _runs(dataset.shape))
        self.dtype: np.dtype[Any] = dataset.dtype
        self.nbytes = math.prod(self.grid.chunks) * self.dtype.itemsize
        """The size of a whole chunk's elements."""
        self._max_stored = 2 * self.nbytes + _OVERHEAD
        """The maximum size of a chunk in the file; a larger one is damaged."""
        self._file: str = dataset.file.filename
        self.chunked = dataset.chunks is not None
        self.filters = tuple(number for number, _ in filters_of(dataset))
        self.direct = self.chunked and _is_direct(dataset, self.filters)
        """Whether chunks are decoded without HDF5."""
        self._stored_size = 0 if self.chunked else dataset.id.get_storage_size()
        self._by_hdf5 = bool(self.dtype.hasobject or dataset.is_virtual or dataset.external)
        """Whether HDF5 returns elements of chunks that are not stored in the dataset itself."""

    def start(self, index: Index) -> tuple[int, ...]:
        """Return a chunk's first element."""
        return tuple(i * side for i, side in zip(index, self.grid.chunks, strict=True))

    def read(self, index: Index) -> bytes | None:
        """Return a stored chunk; None if it is not stored.

        Raises
        ------
        ValueError
            If the chunk is far larger than its elements: the file is damaged.
        """
        if index not in self.grid:
            return None
        if self._by_hdf5:
            return self._elements(index)
        if not self.chunked:
            return self._elements(index) if self._stored_size else None
        if (chunk := self._stored(index)) is None:
            return None
        mask, payload = split_mask(chunk)
        if not self.direct:
            self._check_inflated(mask, payload)
            return self._elements(index)
        return self._elements(index) if self._is_bare(index, mask, len(payload)) else chunk

    def exists(self, index: Index) -> bool:
        """Return whether a chunk is stored."""
        if index not in self.grid:
            return False
        return self._stored(index) is not None if self.chunked else bool(self._stored_size)

    def sizes(self) -> Iterator[tuple[Index, int]]:
        """Iterate over the stored chunks and their sizes in the file."""
        if self._stored_size > os.stat(self._file).st_size:
            raise ValueError(f"a dataset states {self._stored_size} bytes, more than the file has")
        if not self.chunked:
            yield from ((index, self.nbytes) for index in self.grid if self._stored_size)
        elif _is_listed(self.dataset):
            sizes: dict[Index, int] = {}

            def add(chunk: Any) -> None:
                sides = self.grid.chunks
                index = tuple(n // side for n, side in zip(chunk.chunk_offset, sides, strict=True))
                if index in self.grid and self.start(index) == tuple(chunk.chunk_offset):
                    sizes[index] = chunk.size  # others are in damaged files

            if self.grid.size:
                self.dataset.id.chunk_iter(add)
            yield from sorted(sizes.items())
        else:
            for index in self.grid:
                if (chunk := self._stored(index)) is not None:
                    yield index, len(chunk) - MASK_BYTES

    def _stored(self, index: Index) -> bytes | None:
        """Return a chunk's filter mask and its bytes in the file; None if it is not stored."""
        most = min(self._max_stored, os.stat(self._file).st_size)
        data = np.empty(MASK_BYTES + most, np.uint8)  # allocated as far as it is filled
        dataset = self.dataset.id
        try:
            mask, stored = dataset.read_direct_chunk(self.start(index), out=data[MASK_BYTES:])
        except FAILURES as error:
            if _NOT_STORED in str(error) or not dataset.get_num_chunks():
                return None
            raise
        data[:MASK_BYTES] = np.frombuffer(mask.to_bytes(MASK_BYTES, "little"), np.uint8)
        return cast("bytes", data[: MASK_BYTES + len(stored)].data)  # readers do not change it

    def _is_bare(self, index: Index, mask: int, size: int) -> bool:
        """Return whether a chunk may have skipped its filters although its mask says otherwise.

        H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS does that at the ends of arrays.
        """
        clipped = self.grid.extent(index) != self.grid.chunks
        return bool(clipped and self.filters and not mask and size == self.nbytes)

    def _elements(self, index: Index) -> bytes:
        """Return a chunk's elements, decoded by HDF5, as a stored chunk without filters."""
        dataset, where = self.dataset, self.grid.slices(index)
        part = tuple(map(slice, self.grid.extent(index)))
        if self.dtype.hasobject:
            strings = np.full(self.grid.chunks, "", object)
            strings[part] = dataset[where]
            return with_mask(NO_FILTERS, _encode_strings(strings))
        data = bytearray(MASK_BYTES + self.nbytes)
        data[:MASK_BYTES] = NO_FILTERS.to_bytes(MASK_BYTES, "little")
        elements = np.frombuffer(data, self.dtype, offset=MASK_BYTES).reshape(self.grid.chunks)
        dataset.read_direct(elements, where, part)
        return cast("bytes", data)  # readers do not change it

    def _check_inflated(self, mask: int, data: memoryview) -> None:
        """Raise if HDF5, which has no limit, would inflate a chunk far beyond its elements.

        Only DEFLATE is checked, and only as the filter that is decoded first.
        """
        if self.filters[-1:] != (DEFLATE,) or mask >> (len(self.filters) - 1) & 1:
            return
        stream = zlib.decompressobj()
        try:
            stream.decompress(data, self._max_stored)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if stream.unconsumed_tail:
            raise ValueError(f"the compressed stream has more than {self._max_stored} bytes")


def _is_direct(dataset: Any, filters: tuple[int, ...]) -> bool:
    """Return whether chunks are decoded here, as elements of the type that h5py states."""
    import h5py

    if dataset.dtype.hasobject or not DECODABLE.issuperset(filters):
        return False
    # Numbers of odd precision, and strings with another padding, differ.
    return bool(dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype, logical=True)))


def _is_listed(dataset: Any) -> bool:
    """Return whether HDF5 lists the locations of chunks correctly.

    HDF5 2.0 does not for datasets with one unlimited axis that is not the first.
    """
    unlimited = [axis for axis, size in enumerate(dataset.maxshape) if size is None]
    return len(unlimited) != 1 or unlimited == [0]


def _encode_strings(elements: np.ndarray) -> bytes:
    from numcodecs import VLenUTF8

    plain = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in elements.flat]
    return bytes(VLenUTF8().encode(np.array(plain, object)))


def _runs(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return chunks for a dataset without chunks, each of which is contiguous in the file.

    >>> _runs((50, 1000, 1000))
    (1, 1000, 1000)
    >>> _runs((7, 9))
    (7, 9)
    """
    sides = [max(1, side) for side in shape]
    for axis, side in enumerate(sides):
        inner = math.prod(sides[axis + 1 :])
        if side * inner <= _RUN:
            break
        sides[axis] = max(1, _RUN // inner)
        if sides[axis] > 1:
            break
    return tuple(sides)
