"""What is known of HDF5 datasets: their chunks, and where these lie in the file."""

from __future__ import annotations

import math
import os
import zlib
from array import array
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.formats.hdf5.chunk_index import (
    DEFLATE,
    MASK,
    PLAIN,
    Place,
    contiguous_chunks,
    filters_of,
    is_known,
    offset_of,
    plain_bytes,
)
from xarray_n5.formats.hdf5.library import FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.model.grid import Index

_OVERHEAD = 1 << 16
"""How many bytes filters may add to a chunk, besides as many again as its elements have."""

_ENOUGH = 8
"""After how many chunks of an array it is worth asking where all of them lie."""


@dataclass(slots=True)
class Places:
    """Where all chunks of an array lie: their numbers, sorted, and columns beside them."""

    numbers: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    masks: np.ndarray

    @classmethod
    def of(cls, dataset: Any, chunks: tuple[int, ...], counts: tuple[int, ...]) -> Places:
        """Ask HDF5 once, for all chunks."""
        columns = array("q"), array("q"), array("q"), array("q")

        def note(chunk: Any) -> None:
            number = 0
            for start, side, count in zip(chunk.chunk_offset, chunks, counts, strict=True):
                place, rest = divmod(start, side)
                if rest or place >= count:
                    return  # only a damaged file has it
                number = number * count + place
            facts = (number, chunk.byte_offset or 0, chunk.size, chunk.filter_mask)
            for column, fact in zip(columns, facts, strict=True):
                column.append(fact)

        if 0 not in counts:
            dataset.id.chunk_iter(note)
        found = [np.frombuffer(column, np.int64) for column in columns]
        order = np.argsort(found[0])
        return cls(*(column[order] for column in found))

    def get(self, number: int) -> tuple[int, int, int] | None:
        """Return a chunk's offset, size and filter mask, or None where it is not stored."""
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            return None
        return int(self.offsets[at]), int(self.sizes[at]), int(self.masks[at])


@dataclass(slots=True)
class Stored:
    """What is known of a dataset without a handle of it."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    """The shape of a chunk, also where the file has none of its own."""
    dtype: np.dtype[Any]
    chunked: bool
    """Whether the file has chunks of its own."""
    direct: bool
    """Whether chunks are bytes in the file that need no HDF5 to be decoded."""
    source: str
    """The file that the bytes are in."""
    counts: tuple[int, ...]
    """How many chunks there are along each axis."""
    whole: int
    """How many bytes the elements of a whole chunk have."""
    filtered: int = 0
    """How many filters chunks have."""
    inflated: bool = False
    """Whether the filter that is undone first is DEFLATE."""
    offset: int | None = None
    """Where they begin, if they are one run."""
    listed: bool = True
    """Whether HDF5 tells rightly where chunks lie; else each is asked for."""
    elsewhere: object = None
    """The stamp of the file that the bytes are in, where that is another one."""
    places: Places | None = None
    asked: int = 0

    @classmethod
    def of(cls, dataset: Any) -> Stored:
        """Return what is known of a dataset."""
        chunked, shape = dataset.chunks is not None, dataset.shape
        chunks, filters = dataset.chunks or contiguous_chunks(shape), filters_of(dataset)
        return cls(
            shape=shape,
            chunks=chunks,
            dtype=dataset.dtype,
            counts=tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True)),
            whole=math.prod(chunks) * dataset.dtype.itemsize,
            filtered=len(filters),
            inflated=bool(filters) and filters[-1][0] == DEFLATE,
            chunked=chunked,
            direct=is_known(dataset),
            source=dataset.file.filename,
            offset=None if chunked else offset_of(dataset),
            listed=_is_listed(dataset),
        )

    def selection(self, index: Index) -> tuple[slice, ...]:
        """Return where a chunk is in the array."""
        sides = zip(index, self.chunks, self.shape, strict=True)
        return tuple(slice(i * side, min((i + 1) * side, size)) for i, side, size in sides)

    def place(self, index: Index, dataset: Callable[[], Any]) -> Place | bytes | None:
        """Return where a chunk's bytes are, or its elements where HDF5 must decode them."""
        number = self._number(index)
        if number is None:
            return None
        if self.direct and self.chunked:
            found = self._ask(index, dataset)
            if found is not None or not self.listed:
                return found
            at = self.all_places(dataset).get(number)
            self._check_size(0 if at is None else at[1])
            place = None if at is None else Place(self.source, *at)
            bare = place is not None and self._is_bare(index, place.mask, place.size)
            return self._decoded(index, dataset) if bare else place
        if self.direct:
            return self._run(index)
        if self.chunked:
            self._check_stream(index, dataset)
        there = not self.chunked or self.dtype.hasobject or self.exists(index, dataset)
        return self._decoded(index, dataset) if there else None

    @property
    def most(self) -> int:
        """How many bytes of the file a chunk takes at most: no filter makes it much longer."""
        return 2 * self.whole + _OVERHEAD

    def _check_size(self, size: int) -> None:
        if size > self.most:
            raise ValueError(
                f"the chunk has {size} bytes in the file, its elements have {self.whole}: the file "
                "is damaged"
            )

    def _check_stream(self, index: Index, dataset: Callable[[], Any]) -> None:
        """Raise where HDF5, which has no limit, would inflate a chunk far beyond its elements.

        Only the filter that is undone first is looked at, where it is DEFLATE.
        """
        if not self.inflated:
            return
        start = tuple(i * side for i, side in zip(index, self.chunks, strict=True))
        try:
            mask, data = dataset().id.read_direct_chunk(start)
        except FAILURES:
            return  # it is not stored, or HDF5 will say what is wrong
        self._check_size(len(data))
        if not mask >> (self.filtered - 1) & 1:
            stream = zlib.decompressobj()
            try:
                stream.decompress(data, self.most)
            except zlib.error as error:
                raise ValueError(str(error)) from error
            if stream.unconsumed_tail:
                raise ValueError(f"the compressed stream holds more than {self.most} bytes")

    def _decoded(self, index: Index, dataset: Callable[[], Any]) -> bytes:
        return plain_bytes(dataset(), self.selection(index), self.chunks)

    def _is_bare(self, index: Index, mask: int, size: int) -> bool:
        """Return whether a chunk may be stored without filters, though its mask does not say so.

        Those at the ends are, if the dataset was made with H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS.
        """
        if mask or not self.filtered or size != self.whole:
            return False
        sides = zip(index, self.chunks, self.shape, strict=True)
        return any((i + 1) * c > n for i, c, n in sides)

    def _number(self, index: Index) -> int | None:
        """Return a chunk's place among all, None where the array has no such chunk."""
        number = 0
        for i, count in zip(index, self.counts, strict=True):
            if i >= count:
                return None
            number = number * count + i
        return number

    def _ask(self, index: Index, dataset: Callable[[], Any]) -> bytes | None:
        """Return a chunk's bytes as HDF5 finds them: in logarithmic time, for the first few."""
        self.asked += 1
        if self.listed and (self.places is not None or self.asked > _ENOUGH):
            return None
        start = tuple(i * side for i, side in zip(index, self.chunks, strict=True))
        try:
            room = np.empty(self.most, np.uint8)  # of which only what is read takes memory
            mask, found = dataset().id.read_direct_chunk(start, out=room)
            data = bytes(found)
        except (OSError, RuntimeError, MemoryError, ValueError, OverflowError):
            return None  # it is not stored, or something is wrong: where it lies will tell
        if data and self._is_bare(index, mask, len(data)):
            return self._decoded(index, dataset)
        return mask.to_bytes(MASK, "little") + data if data else None

    def all_places(self, dataset: Callable[[], Any]) -> Places:
        """Return where all chunks lie."""
        if self.places is None:
            self.places = Places.of(dataset(), self.chunks, self.counts)
        return self.places

    def exists(self, index: Index, dataset: Callable[[], Any]) -> bool:
        """Return whether a chunk is stored."""
        number = self._number(index)
        if number is None:
            return False
        if not self.chunked:
            return self.offset is not None or bool(dataset().id.get_storage_size())
        if (found := self._ask(index, dataset)) is not None or not self.listed:
            return found is not None
        return self.all_places(dataset).get(number) is not None

    def entries(self, dataset: Callable[[], Any]) -> Iterator[tuple[Index, int]]:
        """Iterate over the chunks that are stored, and their sizes in the file."""
        if self.chunked and self.listed:
            places = self.all_places(dataset)
            indices = np.stack(np.unravel_index(places.numbers, self.counts), axis=-1).tolist()
            yield from zip(map(tuple, indices), places.sizes.tolist(), strict=True)
        elif self.chunked:
            for index in product(*map(range, self.counts)):
                if (data := self._ask(index, dataset)) is not None:
                    yield index, len(data) - MASK
        elif self.exists((0,) * len(self.shape), dataset):
            end = os.stat(self.source).st_size  # noqa: PTH116
            for index in product(*map(range, self.counts)):
                place = self._run(index)
                if place is not None and place.offset >= end:
                    return  # the file claims more than it has
                yield index, self.whole

    def _run(self, index: Index) -> Place | None:
        """Return where a chunk is of bytes that are one run."""
        if self.offset is None:
            return None
        where = self.selection(index)
        size = math.prod(each.stop - each.start for each in where)
        first = 0
        for side, each in zip(self.shape, where, strict=True):
            first = first * side + each.start
        item = self.dtype.itemsize
        return Place(self.source, self.offset + first * item, size * item, PLAIN, self.whole)


def _is_listed(dataset: Any) -> bool:
    """Return whether HDF5 tells rightly where chunks lie.

    Of an extensible array, which has one unlimited axis, it gets that wrong where the axis is not
    the first (seen with HDF5 2.0).
    """
    unlimited = [axis for axis, most in enumerate(dataset.maxshape) if most is None]
    return dataset.chunks is None or len(unlimited) != 1 or unlimited == [0]
