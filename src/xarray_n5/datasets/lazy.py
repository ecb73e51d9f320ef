"""Stored arrays as xarray indexes them: read when they are used, where they are used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray

from xarray_n5.datasets.xarray_internals import (
    ExplicitIndexer,
    IndexingSupport,
    VectorizedIndexer,
    explicit_indexing_adapter,
)
from xarray_n5.errors import MissingChunkError

if TYPE_CHECKING:
    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.images import Image


class LazyArray(BackendArray):
    """An array that reads what xarray asks for, when it asks for it."""

    def __init__(self, array: Array) -> None:
        self.stored = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects: each chunk that it touches is read once."""
        if isinstance(key, VectorizedIndexer):
            return np.asarray(self.stored.vindex[key.tuple])
        return np.asarray(self.stored[key.tuple])

    async def async_getitem(self, key: ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects, read in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


class LazyText(LazyArray):
    """An array of characters, stored as the numbers of their bytes."""

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        self.dtype = np.dtype("S1")

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects."""
        return super().__getitem__(key).view("S1")


class LazyStack(BackendArray):
    """The arrays of an image as one; what is not stored is a missing chunk.

    Parameters
    ----------
    image
        Arrays of one shape, and what stands along the axes outside of theirs.
    missing
        As in :func:`open_array`.
    """

    def __init__(self, image: Image, missing: str) -> None:
        self.storeds = {place: array.bare() for place, array in image.arrays.items()}
        self.coords, self.turned, self.missing = image.coords, image.turned, missing
        self.shape, self.inner = image.shape, image.first.shape
        self.dtype = image.first.dtype

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects; only the arrays that it touches are read."""
        if not isinstance(key, VectorizedIndexer):
            return self._read(key.tuple)
        return np.asarray(
            explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)
        )

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        count = len(self.coords)
        outer, inner = key[:count], key[count:]
        if self.turned:
            outer, inner = key[: -count - 1 : -1], key[:-count]
        along = zip(self.coords.values(), outer, strict=True)
        chosen = [np.arange(len(numbers))[index] for numbers, index in along]
        within = [s for i, n in zip(inner, self.inner, strict=True) for s in _sizes(i, n)]
        result = np.zeros((*(each.size for each in chosen), *within), self.dtype)
        for spot in np.ndindex(result.shape[:count]):
            place = tuple(int(each.flat[at]) for each, at in zip(chosen, spot, strict=True))
            if place in self.storeds:
                result[spot] = self.storeds[place][inner]
            elif self.missing == "error":
                raise self._missing(place)
        left = [size for each in chosen for size in each.shape]
        result = result.reshape(*left, *within)
        if not self.turned:
            return result
        return result.transpose(*range(len(left), result.ndim), *reversed(range(len(left))))

    def _missing(self, place: tuple[int, ...]) -> MissingChunkError:
        named = zip(self.coords.items(), place, strict=True)
        at = ", ".join(f"{name}={numbers[spot]}" for (name, numbers), spot in named)
        url = next(iter(self.storeds.values())).url
        return MissingChunkError("decode", url, at, "no such array is stored beside this one")

    async def async_getitem(self, key: ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects, read in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


def _sizes(index: Any, length: int) -> tuple[int, ...]:
    """Return the sizes of what an index selects from an axis: none for a number."""
    if isinstance(index, slice):
        return (len(range(*index.indices(length))),)
    return tuple(np.shape(index))
