"""Chunks of HDF5 datasets: where their bytes lie, and elements where HDF5 alone can decode them.

A chunk is given as its filter mask, four bytes, and what lies in the file; a mask of ones says
that no filter has been applied.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from xarray_n5.model.grid import Index

MASK = 4
"""How many bytes a filter mask has."""

PLAIN = 0xFFFFFFFF
"""The mask of a chunk that no filter has been applied to."""

DEFLATE, SHUFFLE, FLETCHER32, BLOSC, ZSTD = 1, 2, 3, 32001, 32015
"""HDF5's numbers of filters."""

KNOWN = frozenset({DEFLATE, SHUFFLE, FLETCHER32, BLOSC, ZSTD})
"""The filters that are undone without HDF5."""

_KEY = re.compile(r"\d+(?:\.\d+)*")

_ELEMENTS = 1 << 20
"""How many elements of a dataset without chunks are read as one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file a chunk's bytes lie."""

    file: str
    offset: int
    size: int
    mask: int
    whole: int = 0
    """How many bytes a whole chunk has, where this one is cut off at the array's end."""

    def read(self) -> bytes:
        """Return the filter mask and the bytes: one open, one read, without HDF5."""
        with open(self.file, "rb", buffering=0) as file:  # noqa: PTH123 - the quickest
            short = self.offset + self.size - os.fstat(file.fileno()).st_size
            if short > 0:  # before room is made for what a damaged file tells
                raise EOFError(
                    f"the file ends {short} bytes before the chunk does, which has {self.size} "
                    f"bytes at {self.offset}"
                )
            data = bytearray(MASK + max(self.size, self.whole))
            data[:MASK] = self.mask.to_bytes(MASK, "little")
            view, done = memoryview(data)[MASK : MASK + self.size], 0
            file.seek(self.offset)
            while done < self.size and (count := file.readinto(view[done:])):
                done += count
        return cast("bytes", data)  # who reads it does not change it

    def head(self, count: int) -> bytes:
        """Return the filter mask, and as many of the bytes that follow as make up `count`."""
        with open(self.file, "rb", buffering=0) as file:  # noqa: PTH123
            file.seek(self.offset)
            rest = file.read(min(self.size, max(0, count - MASK)))
            return self.mask.to_bytes(MASK, "little") + rest


def is_known(dataset: Any) -> bool:
    """Return whether a dataset's bytes can be read without HDF5."""
    import h5py

    filters = {number for number, _ in filters_of(dataset)}
    if dataset.dtype.hasobject or not filters <= KNOWN or dataset.is_virtual:
        return False
    if not dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype, logical=True)):
        return False  # numbers of odd precision, texts padded in another way
    return dataset.chunks is not None or offset_of(dataset) is not None


def offset_of(dataset: Any) -> int | None:
    """Return where the bytes of a dataset without chunks begin, if any are stored in the file."""
    # Of what is not stored HDF5 tells some number in files whose first bytes are their user's.
    return dataset.id.get_offset() if dataset.id.get_storage_size() else None


def filters_of(dataset: Any) -> list[tuple[int, list[int]]]:
    """Return a dataset's filters, in the order in which they encode, with their parameters."""
    plist = dataset.id.get_create_plist()
    found = (plist.get_filter(number) for number in range(plist.get_nfilters()))
    return [(number, list(values)) for number, _, values, _ in found]


def contiguous_chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return chunks of a dataset that has none, each of which is one run of bytes.

    >>> contiguous_chunks((50, 1000, 1000))
    (1, 1000, 1000)
    >>> contiguous_chunks((7, 9))
    (7, 9)
    """
    sides = [max(1, side) for side in shape]
    for axis, side in enumerate(sides):
        behind = math.prod(sides[axis + 1 :])
        if side * behind <= _ELEMENTS:
            break
        sides[axis] = max(1, _ELEMENTS // behind)
        if sides[axis] > 1:
            break
    return tuple(sides)


def plain_bytes(dataset: Any, where: tuple[slice, ...], chunks: tuple[int, ...]) -> bytes:
    """Return a chunk as HDF5 decodes it: elements in C order, a whole chunk of them."""
    found = dataset[where] if where else dataset[()]
    whole = np.zeros(chunks, dataset.dtype)
    if dataset.dtype.hasobject:
        whole.fill("")
    whole[tuple(map(slice, np.shape(found)))] = found
    mask = PLAIN.to_bytes(MASK, "little")
    return mask + (_texts(whole) if dataset.dtype.hasobject else whole.tobytes())


def _texts(elements: np.ndarray) -> bytes:
    from numcodecs import VLenUTF8

    plain = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in elements.flat]
    return bytes(VLenUTF8().encode(np.array(plain, object)))


def index_of(name: str) -> Index | None:
    """Return the chunk that the last part of a key names; None where it names none."""
    return tuple(map(int, name.split("."))) if _KEY.fullmatch(name) else None
