"""Recognise DataArrays whose values are a selection of stored arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.dask.boxes import StoredSource, as_slice
from xarray_n5.datasets.lazy import LazyArray, LazyStack
from xarray_n5.datasets.xarray_internals import (
    CopyOnWriteArray,
    ExplicitIndexer,
    ImplicitToExplicitIndexingAdapter,
    LazilyIndexedArray,
    LazilyVectorizedIndexedArray,
    MemoryCachedArray,
    VectorizedIndexer,
)
from xarray_n5.graph import Array as DaskArray
from xarray_n5.graph import source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray as xr

_WRAPPERS = (CopyOnWriteArray, ImplicitToExplicitIndexingAdapter, MemoryCachedArray)
"""Objects of xarray that change neither values nor shape of what they wrap."""


def stored_source(array: xr.DataArray) -> StoredSource | None:
    """Return the selection of stored arrays in a DataArray; None if values were computed.

    Recognised are DataArrays that were opened here, selected by slices and integers, and
    transposed, and their chunked copies. What Dask has selected is not. Nothing is read.
    """
    source = _source_of(array.variable._data)  # noqa: SLF001
    if source is None or source.shape != array.shape or source.dtype != array.dtype:
        return None
    return source


def _source_of(data: Any) -> StoredSource | None:
    """Return the selection of stored arrays in an object that xarray holds or wraps."""
    while isinstance(data, _WRAPPERS):
        data = data.array
    if type(data) is LazyArray:
        return StoredSource.of(data.stored)
    if isinstance(data, Array) or type(data) is LazyStack:
        return StoredSource.of(data)
    if isinstance(data, DaskArray):
        return _source_of(source_of(data))
    if isinstance(data, (LazilyIndexedArray, LazilyVectorizedIndexedArray)):
        source = _source_of(data.array)
        return None if source is None else _of_key(source, data.key)
    return None


def _of_key(source: StoredSource, key: ExplicitIndexer) -> StoredSource | None:
    """Return the selection of stored arrays in a lazily indexed array."""
    if isinstance(key, VectorizedIndexer):
        return _of_points(source, key.tuple)
    items = [_basic(item, size) for item, size in zip(key.tuple, source.shape, strict=True)]
    kept = [axis for axis, item in enumerate(items) if isinstance(item, range)]
    return _select(source, items, kept)


def _select(
    source: StoredSource, items: Sequence[range | int | None], order: Sequence[int]
) -> StoredSource | None:
    """Return positions along each dimension of a source, whose others become `order`."""
    key = [as_slice(item) if isinstance(item, range) else item for item in items]
    if None in key:
        return None
    kept = sorted(order)
    part = source.select(tuple(item for item in key if item is not None))
    return part.transpose([kept.index(axis) for axis in order])


def _basic(item: Any, size: int) -> range | int | None:
    """Return the positions of an item of a key, if they are evenly spaced."""
    if isinstance(item, slice):
        return range(size)[item]
    if isinstance(item, np.ndarray):
        return _evenly_spaced(item)
    return int(item)


def _evenly_spaced(positions: np.ndarray) -> range | None:
    """Return positions as a range, or None.

    >>> _evenly_spaced(np.array([5, 3, 1])), _evenly_spaced(np.array([5, 3, 2]))
    (range(5, -1, -2), None)
    """
    if positions.ndim != 1 or not positions.size or positions.dtype.kind not in "iu":
        return None
    numbers = positions[:2].astype(np.int64).tolist()
    step = numbers[-1] - numbers[0] or 1
    spaced = range(numbers[0], numbers[0] + step * positions.size, step)
    same = min(spaced[0], spaced[-1]) >= 0 and np.array_equal(positions, np.array(spaced))
    return spaced if same else None


def _of_points(source: StoredSource, points: Sequence[np.ndarray]) -> StoredSource | None:
    """Return the selection that points make up, if it is orthogonal.

    xarray transposes lazy arrays to points: an array of positions for each axis, broadcast to the
    shape of the result. They are slices if those of each axis vary along one dimension of their
    own.
    """
    shape = np.broadcast_shapes(*(positions.shape for positions in points))
    if 0 in shape:
        return None
    items = [_line(positions) for positions in points]
    axes = {item[0]: axis for axis, item in enumerate(items) if item is not None}
    # Dimensions of one sample are any of the axes with one position.
    fixed = [axis for axis, item in enumerate(items) if item is not None and item[0] == -1]
    if None in items or len(axes.keys() - {-1}) + len(fixed) != len(items):
        return None
    order = [axes.get(dim) for dim in range(len(shape))]
    single = [dim for dim, axis in enumerate(order) if axis is None]
    if len(single) > len(fixed) or any(shape[dim] != 1 for dim in single):
        return None
    for dim, axis in zip(single, fixed, strict=False):
        order[dim] = axis
    chosen = [
        item[1] if axis in order else item[1][0] for axis, item in enumerate(filter(None, items))
    ]
    return _select(source, chosen, [axis for axis in order if axis is not None])


def _line(positions: np.ndarray) -> tuple[int, range] | None:
    """Return the dimension along which positions vary, evenly spaced, or -1; and the positions.

    >>> _line(np.array([[2, 2], [4, 4]])), _line(np.array([[3, 3]]))
    ((0, range(2, 6, 2)), (-1, range(3, 4)))
    >>> _line(np.array([[0, 1], [1, 2]])) is None
    True
    """
    for dim in range(positions.ndim):
        last = np.moveaxis(positions, dim, -1)
        line = last[(0,) * (last.ndim - 1)]
        if (line != line[0]).any():
            spaced = _evenly_spaced(line) if (last == line).all() else None
            return None if spaced is None else (dim, spaced)
    number = int(positions.flat[0])
    return (-1, range(number, number + 1)) if (positions == number).all() else None
