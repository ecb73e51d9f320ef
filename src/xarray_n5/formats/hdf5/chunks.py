"""The chunks of an HDF5 dataset: where their bytes are, or elements that only HDF5 can decode."""

from __future__ import annotations

import math
import os
import zlib
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES, check_type
from xarray_n5.formats.hdf5.filters import (
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
    from collections.abc import Callable, Iterator

    from xarray_n5.model.grid import Index

_RUN = 1 << 20
"""The number of elements in a chunk that is chosen for a dataset without chunks."""

_OVERHEAD = 1 << 16
"""The number of bytes that filters may add to a chunk, beyond doubling its elements."""

_FEW = 8
"""The number of chunks that are read through HDF5 before all of them are located."""


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """The location of a chunk's bytes in a file."""

    file: str
    offset: int
    size: int
    mask: int
    whole: int = 0
    """The size of a whole chunk, if the array's end clips this one."""

    def read(self) -> bytes:
        """Return the stored chunk: one open, one read, without HDF5."""
        with open(self.file, "rb", buffering=0) as file:
            missing = self.offset + self.size - os.fstat(file.fileno()).st_size
            if missing > 0:  # before memory is allocated for the size that a damaged file states
                raise EOFError(
                    f"the file ends {missing} bytes before the chunk does, which has {self.size} "
                    f"bytes at {self.offset}"
                )
            data = bytearray(MASK_BYTES + max(self.size, self.whole))
            data[:MASK_BYTES] = self.mask.to_bytes(MASK_BYTES, "little")
            view = memoryview(data)[MASK_BYTES : MASK_BYTES + self.size]
            file.seek(self.offset)
            while view and (count := file.readinto(view)):
                view = view[count:]
        return cast("bytes", data)  # readers do not change it

    def head(self, count: int) -> tuple[bytes, int]:
        """Return the first bytes of the stored chunk, and its size."""
        with open(self.file, "rb", buffering=0) as file:
            file.seek(self.offset)
            first = file.read(min(self.size, max(0, count - MASK_BYTES)))
        return with_mask(self.mask, first), MASK_BYTES + max(self.size, self.whole)


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The locations of all stored chunks."""

    numbers: np.ndarray
    """The sorted indices of the chunks, flattened in C order."""
    rows: np.ndarray
    """The offset, size and filter mask of each chunk."""

    @classmethod
    def of(cls, dataset: Any, grid: ChunkGrid) -> ChunkTable:
        """Return the locations of all chunks of an h5py dataset."""
        starts, rows = array("q"), array("q")

        def add(chunk: Any) -> None:
            starts.extend(chunk.chunk_offset)
            rows.extend((chunk.byte_offset or 0, chunk.size, chunk.filter_mask))

        if grid.size:
            dataset.id.chunk_iter(add)
        places = np.asarray(starts).reshape(-1, len(grid.shape))
        indices, rest = np.divmod(places, grid.chunks)
        valid = ((rest == 0) & (indices < grid.counts)).all(axis=1)  # in files without damage
        numbers = np.ravel_multi_index(tuple(indices[valid].T), grid.counts)
        order = np.argsort(numbers)
        return cls(numbers[order], np.asarray(rows).reshape(-1, 3)[valid][order])

    def get(self, number: int) -> tuple[int, int, int] | None:
        """Return a chunk's offset, size and filter mask; None if it is not stored."""
        row = int(np.searchsorted(self.numbers, number))
        if row == len(self.numbers) or self.numbers[row] != number:
            return None
        offset, size, mask = self.rows[row].tolist()
        return offset, size, mask


class Chunks:
    """The facts about a dataset's chunks, which are kept when it is closed.

    Parameters
    ----------
    dataset
        An h5py dataset.
    opened
        Returns it when it is needed again.
    """

    def __init__(self, dataset: Any, opened: Callable[[], Any]) -> None:
        check_type(dataset.id.get_type())
        self.grid = ChunkGrid(dataset.shape, dataset.chunks or _runs(dataset.shape))
        self.dtype: np.dtype[Any] = dataset.dtype
        self.file: str = dataset.file.filename
        self.chunked = dataset.chunks is not None
        self.filters = tuple(number for number, _ in filters_of(dataset))
        self.listed = self.chunked and _is_listed(dataset)
        self.stored = 0 if self.chunked else dataset.id.get_storage_size()
        self.offset = dataset.id.get_offset() if self.stored else None
        """The size and the offset of the elements of a dataset without chunks."""
        located = self.listed or self.offset is not None
        self.direct = located and _is_direct(dataset, self.filters)
        """Whether chunks are decoded without HDF5."""
        self._opened = opened
        self._table: ChunkTable | None = None
        self._lookups = 0

    @property
    def nbytes(self) -> int:
        """The size of a whole chunk's elements."""
        return math.prod(self.grid.chunks) * self.dtype.itemsize

    def start(self, index: Index) -> tuple[int, ...]:
        """Return a chunk's first element."""
        return tuple(i * side for i, side in zip(index, self.grid.chunks, strict=True))

    def find(self, index: Index) -> ChunkLocation | bytes | None:
        """Return the location of a chunk, or the stored chunk itself; None if it is not stored.

        Raises
        ------
        ValueError
            If the chunk is far larger than its elements: the file is damaged.
        """
        if index not in self.grid:
            return None
        if self.direct:
            return self._find_direct(index) if self.chunked else self._run(index)
        if self.chunked:
            self._check_inflated(index)
        dataset = self._opened()
        by_hdf5 = self.dtype.hasobject or dataset.is_virtual or dataset.external
        return self._elements(index) if by_hdf5 or self.exists(index) else None

    def exists(self, index: Index) -> bool:
        """Return whether a chunk is stored."""
        if index not in self.grid:
            return False
        if not self.chunked:
            return bool(self.stored)
        return self._lookup(index) is not None or self._row(index) is not None

    def sizes(self) -> Iterator[tuple[Index, int]]:
        """Iterate over the stored chunks and their sizes in the file."""
        if self.listed:
            table = self._all()
            indices = np.stack(np.unravel_index(table.numbers, self.grid.counts), axis=-1)
            yield from zip(map(tuple, indices.tolist()), table.rows[:, 1].tolist(), strict=True)
            return
        if self.stored > os.stat(self.file).st_size:
            raise ValueError(f"a dataset states {self.stored} bytes, more than the file has")
        for index in self.grid if self.chunked or self.stored else ():
            if not self.chunked:
                yield index, self.nbytes
            elif (chunk := self._lookup(index)) is not None:
                yield index, len(chunk) - MASK_BYTES

    def _run(self, index: Index) -> ChunkLocation | None:
        """Return the location of a chunk of a dataset without chunks; None if it is not stored."""
        if self.offset is None:
            return None
        first = _number(self.start(index), self.grid.shape)
        size = math.prod(self.grid.extent(index)) * self.dtype.itemsize
        offset = self.offset + first * self.dtype.itemsize
        return ChunkLocation(self.file, offset, size, NO_FILTERS, self.nbytes)

    def _find_direct(self, index: Index) -> ChunkLocation | bytes | None:
        if (chunk := self._lookup(index)) is not None:
            mask, payload = split_mask(chunk)
            return self._elements(index) if self._is_bare(index, mask, len(payload)) else chunk
        if (row := self._row(index)) is None:
            return None
        location = ChunkLocation(self.file, *row)
        self._check_size(location.size)
        bare = self._is_bare(index, location.mask, location.size)
        return self._elements(index) if bare else location

    def _is_bare(self, index: Index, mask: int, size: int) -> bool:
        """Return whether a chunk may have skipped its filters although its mask says otherwise.

        H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS does that at the ends of arrays.
        """
        clipped = self.grid.extent(index) != self.grid.chunks
        return bool(clipped and self.filters and not mask and size == self.nbytes)

    def _row(self, index: Index) -> tuple[int, int, int] | None:
        """Return a chunk's row in the table of all; None if it is not stored."""
        return self._all().get(_number(index, self.grid.counts)) if self.listed else None

    def _all(self) -> ChunkTable:
        if self._table is None:
            self._table = ChunkTable.of(self._opened(), self.grid)
        return self._table

    def _lookup(self, index: Index) -> bytes | None:
        """Return a chunk through HDF5, in logarithmic time, for the first few."""
        self._lookups += 1
        if self.listed and (self._table is not None or self._lookups > _FEW):
            return None
        try:
            buffer = np.empty(self._max_stored, np.uint8)  # allocated as far as it is filled
            mask, data = self._opened().id.read_direct_chunk(self.start(index), out=buffer)
            return with_mask(mask, data) if len(data) else None
        except FAILURES:
            return None  # not stored, or damaged, which reading from its location reports

    def _elements(self, index: Index) -> bytes:
        """Return a chunk's elements, decoded by HDF5, as a stored chunk without filters."""
        dataset, where = self._opened(), self.grid.slices(index)
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

    @property
    def _max_stored(self) -> int:
        """The maximum size of a chunk in the file; a larger one is damaged."""
        return 2 * self.nbytes + _OVERHEAD

    def _check_size(self, size: int) -> None:
        if size > self._max_stored:
            raise ValueError(
                f"expected a chunk of at most {self.nbytes} bytes, got {size}: the file is damaged"
            )

    def _check_inflated(self, index: Index) -> None:
        """Raise if HDF5, which has no limit, would inflate a chunk far beyond its elements.

        Only DEFLATE is checked, and only as the filter that is decoded first.
        """
        if self.filters[-1:] != (DEFLATE,):
            return
        try:
            mask, data = self._opened().id.read_direct_chunk(self.start(index))
        except FAILURES:
            return  # not stored, or HDF5 reports the error when it decodes the chunk
        self._check_size(len(data))
        if mask >> (len(self.filters) - 1) & 1:
            return
        stream = zlib.decompressobj()
        try:
            stream.decompress(data, self._max_stored)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if stream.unconsumed_tail:
            raise ValueError(f"the compressed stream has more than {self._max_stored} bytes")


def _number(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return the number of an element in C order."""
    number = 0
    for i, size in zip(index, shape, strict=True):
        number = number * size + i
    return number


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
