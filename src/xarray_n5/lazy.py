"""Stored arrays as xarray indexes them: read when they are used, where they are used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from xarray_n5.errors import MissingChunkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.array import Array


class LazyArray(BackendArray):
    """An array that reads what xarray asks for, when it asks for it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects: each chunk that it touches is read once."""
        if isinstance(key, indexing.VectorizedIndexer):
            return np.asarray(self.array.vindex[key.tuple])
        return np.asarray(self.array[key.tuple])

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects, read in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


class LazyStack(BackendArray):
    """Arrays of one shape as one, with axes before theirs; what is not stored is a missing chunk.

    Parameters
    ----------
    arrays
        The arrays by their places along the axes before theirs.
    shape
        The sizes of the axes before theirs.
    missing
        As in :func:`open_array`.
    """

    def __init__(
        self, arrays: Mapping[tuple[int, ...], Array], shape: tuple[int, ...], missing: str
    ) -> None:
        first = next(iter(arrays.values()))
        self.arrays = arrays
        self.outer, self.missing = shape, missing
        self.shape = (*shape, *first.shape)
        self.dtype = first.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects; only the arrays that it touches are read."""
        return np.asarray(
            indexing.explicit_indexing_adapter(
                key, self.shape, indexing.IndexingSupport.OUTER, self._read
            )
        )

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        outer, inner = key[: len(self.outer)], key[len(self.outer) :]
        chosen = [np.arange(size)[index] for size, index in zip(self.outer, outer, strict=True)]
        sizes = zip(inner, self.shape[len(self.outer) :], strict=True)
        within = [size for index, length in sizes for size in _sizes(index, length)]
        result = np.zeros((*(each.size for each in chosen), *within), self.dtype)
        for spot in np.ndindex(result.shape[: len(chosen)]):
            place = tuple(int(each.flat[at]) for each, at in zip(chosen, spot, strict=True))
            if place in self.arrays:
                result[spot] = self.arrays[place][inner]
            elif self.missing == "error":
                url = next(iter(self.arrays.values())).url
                raise MissingChunkError("decode", url, str(place), "no array is stored there")
        return result.reshape(*(size for each in chosen for size in each.shape), *within)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        """Return what `key` selects, read in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


def _sizes(index: Any, length: int) -> tuple[int, ...]:
    """Return the sizes of what an index selects from an axis: none for a number."""
    if isinstance(index, slice):
        return (len(range(*index.indices(length))),)
    return tuple(np.shape(index))
