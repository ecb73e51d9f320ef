"""The elements of arrays for a copy: which of them, in which blocks, in which type."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from dask.array import PerformanceWarning

from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.errors import MetadataError
from xarray_n5.model.conversions import converted

if TYPE_CHECKING:
    import dask.array as da

    from xarray_n5.arrays.array import Array

_TASKS = 1 << 23
"""The maximum number of blocks that are copied at once."""


def is_sparse(array: Array) -> bool:
    """Return whether chunks of an array are missing."""
    return sum(1 for _ in array.node.stored_chunks()) < array.grid.size


def blocks_of_array(array: Array, shards: tuple[int, ...] | None) -> da.Array:
    """Return the elements of an array as they are stored, in blocks for the shards of a copy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)  # chunks may be read for several shards
        return from_n5(array, chunks=shards or "auto")


def check_blocks(data: da.Array, array: Array) -> None:
    """Raise ValueError if there are too many blocks for one copy."""
    if data.npartitions > _TASKS:
        raise ValueError(
            f"{array.url!r}, whose shape is {array.shape}, has {data.npartitions} blocks, too many "
            "for one copy; copy parts of it with a region, or leave it out"
        )


def converted_blocks(data: da.Array, dtype: np.dtype[Any]) -> da.Array:
    """Return elements in another type."""
    meta = np.empty((0,) * data.ndim, dtype)
    return cast("da.Array", data.map_blocks(cast("Any", converted), dtype, dtype=dtype, meta=meta))


def box_of(array: Array, region: tuple[slice, ...] | None) -> tuple[slice, ...]:
    """Return the starts and stops of a region, by default of the whole array."""
    if region is None:
        return tuple(slice(0, size) for size in array.shape)
    return _checked(region, array)


def _checked(region: tuple[slice, ...], array: Array) -> tuple[slice, ...]:
    """Return the starts and stops of a region, if it is in the array."""
    if len(region) != array.ndim:
        raise ValueError(
            f"the region has {len(region)} axes, expected {array.ndim} for {array.url!r}: "
            f"{array.shape}"
        )
    box = []
    for number, (side, size) in enumerate(zip(region, array.shape, strict=True)):
        start, stop = (side.start or 0), size if side.stop is None else side.stop
        if not 0 <= start < stop <= size:
            raise ValueError(
                f"the region is {start} to {stop} along axis {number}, but {array.url!r} has "
                f"{size} elements there"
            )
        box.append(slice(start, stop))
    return tuple(box)


def converted_mask(mask: Any, dtype: np.dtype[Any], where: str) -> Any:
    """Return the number that masks elements in another type; None for NaN in integers.

    Raises
    ------
    MetadataError
        If the type cannot represent it.
    """
    value = np.asarray(mask)
    if value.dtype.kind == "f" and dtype.kind in "iub" and np.isnan(value):
        return None
    if value.dtype.kind not in "iufb" or dtype.kind not in "iufb":
        return mask
    try:
        return converted(value, dtype)[()]
    except ValueError as error:
        raise MetadataError(f"{where}: its fill value is {mask!r}: {error}") from error
