"""Normalise NumPy-style index keys; index arrays select orthogonally."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

AxisIndex: TypeAlias = "slice | np.ndarray"
"""One axis of a selection, normalised: a slice of positive step, or an array of positions."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A normalised basic or orthogonal index."""

    axes: tuple[AxisIndex, ...]
    """One index per axis of the array."""
    view: tuple[slice | int, ...]
    """The index that reverses or drops axes of the selected array."""
    newaxes: tuple[int, ...]
    """Where the result has axes of length one that the array does not have."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of positions selected along each axis of the array."""
        return tuple(_length(axis) for axis in self.axes)


def normalize(key: object, shape: Sequence[int]) -> Selection:
    """Return the normalised selection of `key` in an array of `shape`.

    Parameters
    ----------
    key
        Integers, slices, an ellipsis, ``None``, and one-dimensional arrays of integers or
        booleans, which select orthogonally, as in xarray; also ``numpy.ix_`` arrays.
    shape
        The array's shape.

    Raises
    ------
    IndexError
        If the key does not fit the shape.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    items = fill_ellipsis(items, len(shape))
    axes: list[AxisIndex] = []
    view: list[slice | int] = []
    newaxes: list[int] = []
    position = 0
    for item in items:
        if item is None:
            newaxes.append(position)
            position += 1
            continue
        axis, seen = _normalize_axis(item, len(axes), shape[len(axes)])
        axes.append(axis)
        view.append(seen)
        position += not isinstance(seen, int)
    return Selection(tuple(axes), tuple(view), tuple(newaxes))


def fill_ellipsis(items: list[object], ndim: int) -> list[object]:
    """Return `items` with full slices for an ellipsis and for missing axes."""
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    given = sum(item is not None and item is not Ellipsis for item in items)
    if len(dots) > 1 or given > ndim:
        raise IndexError(f"too many indices: the array has {ndim} axes, got {given} in {items!r}")
    at = dots[0] if dots else len(items)
    return items[:at] + [slice(None)] * (ndim - given) + items[at + len(dots) :]


def _normalize_axis(item: object, axis: int, size: int) -> tuple[AxisIndex, slice | int]:
    if isinstance(item, slice):
        positions = range(*item.indices(size))
        if positions.step > 0:
            return slice(
                positions.start, max(positions.start, positions.stop), positions.step
            ), slice(None)
        if not positions:
            return slice(0, 0, 1), slice(None)
        return slice(positions[-1], positions[0] + 1, -positions.step), slice(None, None, -1)
    if isinstance(item, (list, np.ndarray)) and np.ndim(item) > 0:
        return _normalize_array(np.asarray(item), axis, size), slice(None)
    try:
        # True is an index to Python, but a mask to numpy.
        number = operator.index(None if isinstance(item, (bool, np.bool_)) else item)  # type: ignore[arg-type]
    except TypeError:
        raise IndexError(
            f"cannot index axis {axis} with {item!r}; use integers, slices or 1-d arrays"
        ) from None
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {size}")
    number %= size
    return slice(number, number + 1, 1), 0


def _normalize_array(item: np.ndarray, axis: int, size: int) -> np.ndarray:
    if item.size != max(item.shape):
        raise IndexError(
            f"cannot index axis {axis} with an array of shape {item.shape}; use a 1-d array"
        )
    item = item.ravel()
    if item.dtype == bool:
        if item.size != size:
            raise IndexError(f"the mask for axis {axis} has {item.size} elements, expected {size}")
        return np.flatnonzero(item)
    if item.size == 0:
        return item.astype(np.intp)
    if item.dtype.kind not in "iu":
        raise IndexError(
            f"cannot index axis {axis} with an array of {item.dtype}; use integers or booleans"
        )
    low, high = int(item.min()), int(item.max())
    if low < -size or high >= size:
        raise IndexError(
            f"index {low if low < -size else high} is out of bounds for axis {axis} of size {size}"
        )
    item = item.astype(np.intp)
    return np.where(item < 0, item + size, item)


def outer(axes: Sequence[AxisIndex]) -> tuple[AxisIndex, ...]:
    """Return `axes` as an orthogonal index for NumPy, by ``numpy.ix_`` if need be."""
    if sum(not isinstance(axis, slice) for axis in axes) <= 1:
        return tuple(axes)
    positions = [
        np.arange(axis.start, axis.stop, axis.step) if isinstance(axis, slice) else axis
        for axis in axes
    ]
    return np.ix_(*positions)


def _length(axis: AxisIndex) -> int:
    if isinstance(axis, slice):
        return len(range(axis.start, axis.stop, axis.step))
    return int(axis.size)


def broadcast(value: object, selection: Selection, dtype: np.dtype[Any]) -> np.ndarray:
    """Return `value` broadcast to the shape of the selection's axes, a view if possible."""
    values = as_numbers(value, dtype)
    kept = [i for i, seen in enumerate(selection.view) if isinstance(seen, slice)]
    shape = [selection.shape[i] for i in kept]
    for position in selection.newaxes:
        shape.insert(position, 1)
    values = np.broadcast_to(values, shape)
    values = values.squeeze(selection.newaxes) if selection.newaxes else values
    view: Any = [seen if isinstance(seen, slice) else slice(None) for seen in selection.view]
    part: np.ndarray = values.reshape(selection.shape)[(*view, ...)]  # an array without axes, too
    return part


def as_numbers(value: object, dtype: np.dtype[Any]) -> np.ndarray:
    """Return `value` as numbers that NumPy can assign to an array of `dtype`."""
    if np.ma.is_masked(value):
        raise TypeError("masked values cannot be stored; fill them with value.filled(...)")
    plain = isinstance(value, (bool, int, float)) and dtype.kind in "biufc"
    values = np.asarray(value, dtype if plain or dtype.hasobject else None)
    if dtype.hasobject:
        return as_texts(values)
    if values.dtype.names is not None and values.dtype.names == dtype.names:
        return values.astype(dtype, casting="same_kind")
    numbers = values.dtype.kind in "biuf" and dtype.kind in "biufc"
    # Other types unchanged: they would be truncated or read differently.
    same = values.dtype.kind == dtype.kind and np.can_cast(values.dtype, dtype, "same_kind")
    fits = values.dtype.itemsize <= dtype.itemsize or dtype.kind not in "SUV"
    if not numbers and not (same and fits):
        raise TypeError(f"cannot write {values.dtype} into an array of {dtype}; convert it first")
    return values


def as_texts(values: np.ndarray) -> np.ndarray:
    """Check that an array holds only strings, and return it."""
    for each in values.flat:
        if not isinstance(each, str):
            raise TypeError(f"cannot write {each!r} as a string; convert it with str()")
    return values
