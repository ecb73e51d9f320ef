"""Copy the elements of chunks into the result of a read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.model.grid import outer

if TYPE_CHECKING:
    from xarray_n5.model.metadata import ArrayMetadata

_LONG_ROW = 1 << 9
"""The maximum size of a row of collected chunks: longer ones are not copied faster."""

_RUN = 1 << 21
"""The maximum size of the chunks that are collected: 2 MiB, which a processor's cache may hold."""

_FEWEST = 3
"""The minimum number of chunks that are collected: two are not copied faster together."""

_LARGEST_ITEM = 1 << 31
"""The size from which NumPy has no type for a row."""


class Assembly:
    """Copy the elements of one chunk after another, as one thread reads them.

    Whole chunks that are neighbours along the last axis are collected and copied together, because
    the copy of a short row takes as long as that of a long one. The last ones are copied by
    :meth:`end`.

    Parameters
    ----------
    metadata : ArrayMetadata
        The array that is read. In one with shards, the chunks in these are collected.
    result : numpy.ndarray
        The result.
    plain : bool
        Whether the selection has slices only.
    """

    def __init__(self, metadata: ArrayMetadata, result: np.ndarray, *, plain: bool) -> None:
        self._result, self._plain, self._fill = result, plain, metadata.fill_value
        self._shape = metadata.inner or metadata.chunks
        most = 0
        # Elements with fields may have padding, which is not copied into the buffer.
        simple = result.dtype.itemsize and not result.dtype.hasobject and not result.dtype.names
        if plain and self._shape and simple:
            row = self._shape[-1] * result.dtype.itemsize
            nbytes = math.prod(self._shape[:-1]) * row
            most = min(result.shape[-1] // self._shape[-1], _LONG_ROW // row, _RUN // nbytes)
        self._most = most
        self._room: np.ndarray | None = None
        self._count, self._stop = 0, -1
        self._before: tuple[Any, ...] = ()

    def add(self, chunk: np.ndarray | None, target: Any, inside: Any) -> None:
        """Copy the elements `inside` of a chunk, or its fill value for None, to `target`."""
        if not self._plain:
            target, inside = outer(target), outer(inside)
        if chunk is None:
            self._result[target] = self._fill
        elif not self._plain or not target:
            self._result[target] = chunk[inside]
        elif self._most >= _FEWEST and (block := chunk[inside]).shape == self._shape:
            self._collect(block, target)
        else:
            _copy(chunk[inside], self._result[target])

    def _collect(self, block: np.ndarray, target: tuple[Any, ...]) -> None:
        before, along = target[:-1], target[-1]
        adjacent = along.start == self._stop and before == self._before
        if self._count == self._most or not adjacent:
            self.end()
        if self._room is None or self._room.dtype != block.dtype:
            self.end()
            self._room = np.empty((self._most, *self._shape), block.dtype)
        self._room[self._count] = block
        self._count += 1
        self._before, self._stop = before, along.stop

    def end(self) -> None:
        """Copy the chunks that are left."""
        if self._room is None or not self._count:
            return
        *rows, width = self._shape
        start = self._stop - self._count * width
        target = self._result[(*self._before, slice(start, self._stop))]
        chunks = self._room[: self._count].transpose(*range(1, len(rows) + 1), 0, -1)
        _copy(chunks, target.reshape(*rows, self._count, width))
        self._count, self._stop = 0, -1


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy elements; whole rows at once, if they are contiguous and need no conversion."""
    width = target.dtype.itemsize
    contiguous = target.strides[-1:] == source.strides[-1:] == (width,)
    if contiguous and source.dtype == target.dtype and target.size and not target.dtype.hasobject:
        row = target.shape[-1] * width
        if row < _LARGEST_ITEM:
            source, target = source.view(f"V{row}"), target.view(f"V{row}")
    target[...] = source
