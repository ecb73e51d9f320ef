"""Stored arrays that xarray indexes lazily."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.transfer import read_points
from xarray_n5.datasets.xarray_internals import (
    ExplicitIndexer,
    IndexingSupport,
    VectorizedIndexer,
    explicit_indexing_adapter,
)
from xarray_n5.errors import MissingChunkError
from xarray_n5.model.chunking import group_chunks
from xarray_n5.model.image import Part

if TYPE_CHECKING:
    import xarray as xr

    from xarray_n5.model.image import Level

_FEW = 1 << 20
"""The maximum size of an array that is read at once, in bytes."""

_BLOCK = 1 << 25
"""The maximum size of a block of several chunks, in bytes."""


class LazyArray(BackendArray):
    """A stored array, read when it is indexed."""

    def __init__(self, array: Array) -> None:
        self.stored = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        """Return the selection `key`; each chunk that it overlaps is read once."""
        if isinstance(key, VectorizedIndexer):
            return read_points(self.stored.node, key.tuple)
        return np.asarray(self.stored[key.tuple])

    async def async_getitem(self, key: ExplicitIndexer) -> np.ndarray:
        """Return the selection `key`, read in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


class LazyCharacters(LazyArray):
    """An array of characters, stored as the numbers of their bytes."""

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        self.dtype = np.dtype("S1")

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        """Return the selection `key`."""
        return super().__getitem__(key).view("S1")


class LazyStack(BackendArray):
    """The parts of a level, stacked along its first axes; a missing part is missing chunks.

    Parameters
    ----------
    level
        Parts of one shape, and the numbers along the stacked axes.
    missing
        As in :func:`open_array`.
    """

    def __init__(self, level: Level[Array], missing: str) -> None:
        tasks = {id(array): Array(array.node.bare()) for array in level.arrays}
        self.parts = {
            at: Part(tasks[id(part.array)], part.indices) for at, part in level.parts.items()
        }
        self.broken, self.later = dict(level.broken), level.later
        self._opened: dict[tuple[int, ...], Part[Array] | None] = {}
        self.numbers, self.stacked_axes = level.numbers, level.stacked_axes
        self.missing = missing
        self.shape, count = level.shape, len(level.numbers)
        self.inner = self.shape[count:]
        self.dtype, self.fill_value = level.first.dtype, level.first.fill_value
        self.chunks, self.shards, self.url = level.chunks, level.shards, level.first.url

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that are open, each once."""
        return tuple({id(part.array): part.array for part in self.parts.values()}.values())

    def __dask_tokenize__(self) -> object:
        parts = [(at, part.array, part.indices) for at, part in sorted(self.parts.items())]
        broken = [(at, repr(error)) for at, error in sorted(self.broken.items())]
        facts = (self.later, self.numbers, self.missing)
        return ("xarray_n5.LazyStack", parts, broken, *facts)

    def __getitem__(self, key: ExplicitIndexer | tuple[Any, ...]) -> np.ndarray:
        """Return the selection `key`; only the arrays that it overlaps are read."""
        if isinstance(key, tuple):
            return self._read(key)
        if not isinstance(key, VectorizedIndexer):
            return self._read(key.tuple)
        return np.asarray(
            explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)
        )

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        count = len(self.numbers)
        outer, inner = key[:count], key[count:]
        chosen = [np.arange(len(n))[index] for n, index in zip(self.numbers, outer, strict=True)]
        sizes = [s for i, n in zip(inner, self.inner, strict=True) for s in _sizes(i, n)]
        result = np.zeros((*(along.size for along in chosen), *sizes), self.dtype)
        if self.fill_value:
            result[...] = self.fill_value
        for target in np.ndindex(result.shape[:count]):
            at = tuple(int(along.flat[i]) for along, i in zip(chosen, target, strict=True))
            if (part := self._part(at)) is not None:
                result[target] = part.array[(*part.indices, *inner)]
            elif at in self.broken:
                raise self.broken[at]
            elif self.missing == "error":
                raise self._missing(at)
        kept = [size for along in chosen for size in along.shape]
        return result.reshape((*kept, *sizes))

    def _part(self, at: tuple[int, ...]) -> Part[Array] | None:
        """Return the part at a position, which is opened if need be; None if it is missing."""
        if at in self.parts or self.later is None:
            return self.parts.get(at)
        if at not in self._opened:
            self._opened[at] = self.later(at)
        return self._opened[at]

    def _missing(self, at: tuple[int, ...]) -> MissingChunkError:
        along = zip(self.stacked_axes, self.numbers, at, strict=True)
        named = ", ".join(f"{name}={numbers[i]}" for name, numbers, i in along)
        url = next(iter(self.parts.values())).array.url
        return MissingChunkError("decode", url, named, "no such array is stored next to this one")

    async def async_getitem(self, key: ExplicitIndexer) -> np.ndarray:
        """Return the selection `key`, read in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


def _sizes(index: Any, length: int) -> tuple[int, ...]:
    """Return the sizes of an index along an axis: none for an integer."""
    if isinstance(index, slice):
        return (len(range(*index.indices(length))),)
    return tuple(np.shape(index))


def in_blocks(array: xr.DataArray) -> Any:
    """Return the values of a DataArray: as a Dask array of whole stored chunks if it is lazy."""
    if array.chunks is not None:
        return array.data
    if array.nbytes <= _FEW or array.dtype.hasobject:
        return array.to_numpy()
    stored = array.encoding.get("chunks") or ()
    sides = stored if len(stored) == array.ndim else (1,) * array.ndim
    sizes = group_chunks(sides, array.shape, array.dtype.itemsize, _BLOCK)
    # The name of the tasks need not depend on the values.
    return array.chunk(dict(zip(array.dims, sizes, strict=True)), token=uuid.uuid4().hex).data
