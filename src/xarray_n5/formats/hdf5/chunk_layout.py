"""The chunks of an HDF5 dataset: their shape, and whether their bytes can be read without HDF5."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from xarray_n5.codecs.hdf5 import check_type, plugins_of
from xarray_n5.formats.hdf5.filters import (
    DECODABLE,
    MASK_BYTES,
    NO_FILTERS,
    filters_of,
    with_mask,
)
from xarray_n5.model.grid import ChunkGrid

if TYPE_CHECKING:
    import numpy as np

    from xarray_n5.model.grid import Index

_RUN = 1 << 20
"""The number of elements in a chunk that is chosen for a dataset without chunks."""

_OVERHEAD = 1 << 16
"""The number of bytes that filters may add to a chunk, beyond doubling its elements."""


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
        with open(self.file, "rb", buffering=0) as file:  # noqa: PTH123 - the fastest
            missing = self.offset + self.size - os.fstat(file.fileno()).st_size
            if missing > 0:  # before memory is allocated for the size that a damaged file states
                raise EOFError(
                    f"the file ends {missing} bytes before the chunk does, which has {self.size} "
                    f"bytes at {self.offset}"
                )
            data = bytearray(MASK_BYTES + max(self.size, self.whole))
            data[:MASK_BYTES] = self.mask.to_bytes(MASK_BYTES, "little")
            view, done = memoryview(data)[MASK_BYTES : MASK_BYTES + self.size], 0
            file.seek(self.offset)
            while done < self.size and (count := file.readinto(view[done:])):
                done += count
        return cast("bytes", data)  # readers do not change it

    def head(self, count: int) -> tuple[bytes, int]:
        """Return the first bytes of the stored chunk, and its size."""
        with open(self.file, "rb", buffering=0) as file:  # noqa: PTH123
            file.seek(self.offset)
            first = file.read(min(self.size, max(0, count - MASK_BYTES)))
        return with_mask(self.mask, first), MASK_BYTES + max(self.size, self.whole)


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """The facts about a dataset's chunks that are kept when it is closed."""

    grid: ChunkGrid
    """The grid of chunks; chosen here for datasets without chunks."""
    dtype: np.dtype[Any]
    chunked: bool
    """Whether the file has chunks."""
    direct: bool
    """Whether chunks are decoded without HDF5."""
    file: str
    """The file with the bytes."""
    filters: tuple[int, ...]
    """HDF5's numbers of the filters, in the order of encoding."""
    offset: int | None
    """The offset of the elements of a dataset without chunks; None if none are stored."""
    listed: bool
    """Whether HDF5 lists the locations of chunks correctly."""
    isolated: bool
    """Whether HDF5 decodes elements in another process, because a plugin may be used."""

    @classmethod
    def of(cls, dataset: Any) -> Self:
        """Return the layout of an h5py dataset."""
        check_type(dataset.id.get_type())
        chunked = dataset.chunks is not None
        return cls(
            grid=ChunkGrid(dataset.shape, dataset.chunks or _runs(dataset.shape)),
            dtype=dataset.dtype,
            chunked=chunked,
            direct=_is_direct(dataset),
            file=dataset.file.filename,
            filters=tuple(number for number, _ in filters_of(dataset)),
            offset=None if chunked else _offset(dataset),
            listed=_is_listed(dataset),
            isolated=dataset.is_virtual or bool(plugins_of(dataset)),
        )

    @property
    def chunk_bytes(self) -> int:
        """The size of a whole chunk's elements."""
        return math.prod(self.grid.chunks) * self.dtype.itemsize

    @property
    def max_stored(self) -> int:
        """The maximum size of a chunk in the file; a larger one is damaged."""
        return 2 * self.chunk_bytes + _OVERHEAD

    def start(self, index: Index) -> tuple[int, ...]:
        """Return a chunk's first element."""
        return tuple(i * side for i, side in zip(index, self.grid.chunks, strict=True))

    def run(self, index: Index) -> ChunkLocation | None:
        """Return the location of a chunk of a dataset without chunks; None if none is stored."""
        if self.offset is None:
            return None
        first = 0
        for size, start in zip(self.grid.shape, self.start(index), strict=True):
            first = first * size + start
        item = self.dtype.itemsize
        nbytes = math.prod(self.grid.extent(index)) * item
        offset = self.offset + first * item
        return ChunkLocation(self.file, offset, nbytes, NO_FILTERS, self.chunk_bytes)


def _is_direct(dataset: Any) -> bool:
    import h5py

    filters = {number for number, _ in filters_of(dataset)}
    if dataset.dtype.hasobject or not filters <= DECODABLE or dataset.is_virtual:
        return False
    if not dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype, logical=True)):
        return False  # numbers of odd precision, strings with another padding
    return dataset.chunks is not None or _offset(dataset) is not None


def _offset(dataset: Any) -> int | None:
    # HDF5 returns an arbitrary offset for missing elements in files with a user block.
    return dataset.id.get_offset() if dataset.id.get_storage_size() else None


def _is_listed(dataset: Any) -> bool:
    """Return whether HDF5 lists the locations of chunks correctly.

    HDF5 2.0 does not for datasets with one unlimited axis that is not the first.
    """
    unlimited = [axis for axis, size in enumerate(dataset.maxshape) if size is None]
    return dataset.chunks is None or len(unlimited) != 1 or unlimited == [0]


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
