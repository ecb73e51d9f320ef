"""Axes as xarray's dimensions and coordinates."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import xarray as xr

from xarray_n5.axes import names
from xarray_n5.options import check_option

if TYPE_CHECKING:
    from xarray_n5.axes import Axis, Geometry

Origin: TypeAlias = Literal["center", "corner"]

_LONGEST = 1 << 27
"""The longest axis that gets coordinates: 1 GiB of them."""

_DECODED = frozenset(
    f"{unit}s"
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond")
)
"""Units whose numbers xarray would turn into timedeltas."""


def dims_of(geometry: Geometry) -> tuple[str, ...]:
    """Return the names of an array's dimensions."""
    return names(geometry.axes)


def coords_of(
    geometry: Geometry, shape: tuple[int, ...], origin: Origin = "center"
) -> dict[str, xr.Variable]:
    """Return a coordinate for each axis of which anything is known but its name.

    Parameters
    ----------
    geometry
        The axes, in the order of `shape`.
    shape
        The array's shape.
    origin
        Where place 0 lies in the first voxel: at its centre, or at its corner.

    Returns
    -------
    dict
        One-dimensional variables by dimension: float64 places, or texts.
    """
    check_option("origin", origin, "center", "corner")
    found = {}
    for name, axis, size in zip(names(geometry.axes), geometry.axes, shape, strict=True):
        if not axis.placed:
            continue
        if size > _LONGEST:
            warnings.warn(
                f"axis {name!r} has {size} samples, too many for coordinates; it gets none",
                UserWarning,
                stacklevel=2,
            )
            continue
        found[name] = xr.Variable((name,), _values(axis, size, origin), _attributes(axis))
    return found


def _values(axis: Axis, size: int, origin: Origin) -> np.ndarray:
    if axis.labels is not None:
        return np.array(axis.labels)
    scale = 1.0 if axis.scale is None else axis.scale
    offset = axis.offset + (scale / 2 if origin == "corner" else 0.0)
    return offset + scale * np.arange(size, dtype=np.float64)


def _attributes(axis: Axis) -> dict[str, Any]:
    if axis.unit is None:
        return {}
    return {"units": axis.unit[:-1] if axis.unit in _DECODED else axis.unit}
