"""Locate the chunks of an HDF5 dataset; return elements if only HDF5 can decode them."""

from __future__ import annotations

import os
import zlib
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.formats.hdf5.chunk_layout import ChunkLayout, ChunkLocation
from xarray_n5.formats.hdf5.filters import DEFLATE, MASK_BYTES, NO_FILTERS, with_mask
from xarray_n5.formats.hdf5.plugins import decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.model.grid import ChunkGrid, Index

_FEW = 8
"""The number of chunks that are located one by one before all of them are listed."""


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


class ChunkIndex:
    """The chunks of one dataset, which is opened only for unknown locations."""

    def __init__(self, layout: ChunkLayout, opened: Callable[[], Any]) -> None:
        self.layout = layout
        self._opened = opened
        self._table: ChunkTable | None = None
        self._lookups = 0

    def find(self, index: Index) -> ChunkLocation | bytes | None:
        """Return the location of a chunk, or the stored chunk itself; None if it is not stored.

        Raises
        ------
        ValueError
            If the chunk is far larger than its elements: the file is damaged.
        """
        layout = self.layout
        if index not in layout.grid:
            return None
        if layout.direct:
            return self._find_direct(index) if layout.chunked else layout.run(index)
        if layout.chunked:
            self._check_inflated(index)
            if not layout.dtype.hasobject and not self.exists(index):
                return None
        return self._elements(index)

    def exists(self, index: Index) -> bool:
        """Return whether a chunk is stored."""
        layout = self.layout
        if index not in layout.grid:
            return False
        if not layout.chunked:
            return layout.offset is not None or bool(self._opened().id.get_storage_size())
        return self._lookup(index) is not None or self._row(index) is not None

    def sizes(self) -> Iterator[tuple[Index, int]]:
        """Iterate over the stored chunks and their sizes in the file."""
        layout = self.layout
        if layout.chunked and layout.listed:
            table = self._all()
            indices = np.stack(np.unravel_index(table.numbers, layout.grid.counts), axis=-1)
            yield from zip(map(tuple, indices.tolist()), table.rows[:, 1].tolist(), strict=True)
        elif layout.chunked:
            for index in layout.grid:
                if (chunk := self._lookup(index)) is not None:
                    yield index, len(chunk) - MASK_BYTES
        elif self.exists((0,) * len(layout.grid.shape)):
            end = os.stat(layout.file).st_size  # noqa: PTH116
            for index in layout.grid:
                location = layout.run(index)
                if location is not None and location.offset >= end:
                    return  # the dataset claims more than the file has
                yield index, layout.chunk_bytes

    def _find_direct(self, index: Index) -> ChunkLocation | bytes | None:
        if (chunk := self._lookup(index)) is not None or (row := self._row(index)) is None:
            return chunk
        location = ChunkLocation(self.layout.file, *row)
        self._check_size(location.size)
        bare = self._is_bare(index, location.mask, location.size)
        return self._elements(index) if bare else location

    def _row(self, index: Index) -> tuple[int, int, int] | None:
        """Return a chunk's row in the table of all; None if it is not stored."""
        if not self.layout.listed:
            return None
        number = 0
        for i, count in zip(index, self.layout.grid.counts, strict=True):
            number = number * count + i
        return self._all().get(number)

    def _all(self) -> ChunkTable:
        if self._table is None:
            self._table = ChunkTable.of(self._opened(), self.layout.grid)
        return self._table

    def _lookup(self, index: Index) -> bytes | None:
        """Return a chunk through HDF5, in logarithmic time, for the first few."""
        self._lookups += 1
        if self.layout.listed and (self._table is not None or self._lookups > _FEW):
            return None
        try:
            buffer = np.empty(self.layout.max_stored, np.uint8)  # allocated as far as it is filled
            mask, found = self._opened().id.read_direct_chunk(self.layout.start(index), out=buffer)
            data = bytes(found)
        except (OSError, RuntimeError, MemoryError, ValueError, OverflowError):
            return None  # not stored, or damaged, which reading from its location reports
        if data and self._is_bare(index, mask, len(data)):
            return self._elements(index)
        return with_mask(mask, data) if data else None

    def _is_bare(self, index: Index, mask: int, size: int) -> bool:
        """Return whether a chunk may have skipped its filters although its mask says otherwise.

        H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS does that at the ends of arrays.
        """
        layout = self.layout
        if mask or not layout.filters or size != layout.chunk_bytes:
            return False
        return layout.grid.extent(index) != layout.grid.chunks

    def _elements(self, index: Index) -> bytes:
        """Return a chunk's elements, decoded by HDF5, as a stored chunk without filters."""
        dataset, layout = self._opened(), self.layout
        where = layout.grid.slices(index)
        if layout.isolated:
            found = decoder().read(dataset.file.filename, dataset.name, where, dataset.dtype)
        else:
            found = dataset[where]
        whole = np.zeros(layout.grid.chunks, dataset.dtype)
        if not dataset.dtype.hasobject:
            whole[tuple(map(slice, np.shape(found)))] = found
            return with_mask(NO_FILTERS, whole.tobytes())
        whole.fill("")
        whole[tuple(map(slice, np.shape(found)))] = found
        return with_mask(NO_FILTERS, _encode_strings(whole))

    def _check_size(self, size: int) -> None:
        if size > self.layout.max_stored:
            raise ValueError(
                f"expected a chunk of at most {self.layout.chunk_bytes} bytes, found {size}: the "
                "file is damaged"
            )

    def _check_inflated(self, index: Index) -> None:
        """Raise if HDF5, which has no limit, would inflate a chunk far beyond its elements.

        Only DEFLATE is checked, and only as the filter that is decoded first.
        """
        layout = self.layout
        if layout.filters[-1:] != (DEFLATE,):
            return
        try:
            mask, data = self._opened().id.read_direct_chunk(layout.start(index))
        except FAILURES:
            return  # not stored, or HDF5 reports the error when it decodes the chunk
        self._check_size(len(data))
        if mask >> (len(layout.filters) - 1) & 1:
            return
        stream = zlib.decompressobj()
        try:
            stream.decompress(data, layout.max_stored)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if stream.unconsumed_tail:
            raise ValueError(f"the compressed stream has more than {layout.max_stored} bytes")


def _encode_strings(elements: np.ndarray) -> bytes:
    from numcodecs import VLenUTF8

    plain = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in elements.flat]
    return bytes(VLenUTF8().encode(np.array(plain, object)))
