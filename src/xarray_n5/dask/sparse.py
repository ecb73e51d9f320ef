"""Dask arrays that read only stored chunks, and fill in the rest."""

from __future__ import annotations

import bisect
from itertools import accumulate, product
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.access import stored_chunks
from xarray_n5.graph import ArraySliceDep, in_one_layer
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dask.array as da

    from xarray_n5.arrays.array import Array

_MANY = 1 << 26
"""The number of blocks above which a warning is issued."""


class StoredSlices(ArraySliceDep):
    """The slices of each block, and whether anything in it is stored."""

    def __init__(self, chunks: tuple[tuple[int, ...], ...], stored: np.ndarray) -> None:
        super().__init__(chunks)
        self.stored = stored

    def __getitem__(self, index: tuple[int, ...]) -> tuple[tuple[slice, ...], bool]:
        return super().__getitem__(index), bool(self.stored[index])


def read_stored(array: Array, chunks: tuple[tuple[int, ...], ...], name: str) -> da.Array:
    """Return an array as a Dask array; one listing finds the blocks that need not be read."""
    where = StoredSlices(chunks, stored_blocks(array, chunks))
    return in_one_layer(name, _read_or_fill, array, where, chunks, array.dtype)


def stored_blocks(array: Array, chunks: Sequence[Sequence[int]]) -> np.ndarray:
    """Return whether each block contains a stored chunk, or a part of one."""
    stored = np.zeros(tuple(map(len, chunks)), bool)
    if stored.size > _MANY:
        warn(f"{array.url} has {stored.size} blocks; choose larger ones for a smaller graph")
    ends = [list(accumulate(sizes)) for sizes in chunks]
    for index in stored_chunks(array):
        sides = zip(index, array.grid.chunks, array.shape, ends, strict=True)
        touched = (
            range(bisect.bisect_right(end, i * c), bisect.bisect_left(end, min((i + 1) * c, s)) + 1)
            for i, c, s, end in sides
        )
        for block in product(*touched):
            stored[block] = True
    return stored


def _read_or_fill(array: Array, where: tuple[tuple[slice, ...], bool]) -> np.ndarray:
    place, stored = where
    if stored:
        return np.asarray(array[place])
    shape = tuple(each.stop - each.start for each in place)
    return np.full(shape, array.fill_value, array.dtype)
