"""Axes as xarray's dimensions and coordinates."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr

from xarray_n5.alerts import warn
from xarray_n5.axes import Axis, Geometry, names
from xarray_n5.options import check_option

Origin: TypeAlias = Literal["center", "corner"]

_LONGEST = 1 << 27
"""The longest axis that gets coordinates: 1 GiB of them."""

_EVEN = 1e-6
"""By how much of a step an evenly spaced coordinate may be off, for rounding."""

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
        Where place 0 lies in the first voxel of the base level: at its centre, or at its corner.
        All levels of a pyramid move by the same half of a base voxel.

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
            warn(f"axis {name!r} has {size} samples, too many for coordinates; it gets none")
            continue
        step = {} if axis.labels is not None else {"step": axis.step}
        found[name] = xr.Variable((name,), _values(axis, size, origin), _attributes(axis), step)
    return found


def geometry_from(array: xr.DataArray) -> Geometry:
    """Return the axes of a DataArray: names, units, and places where they are regular.

    Texts become labels. Numbers that only count samples say nothing; other coordinates that are
    no evenly spaced numbers are left out with a warning.
    """
    return Geometry(tuple(_axis(array, str(dim)) for dim in array.dims))


def _axis(array: xr.DataArray, dim: str) -> Axis:
    found = array.coords.get(dim)
    if found is None:
        return Axis(name=dim)
    values = found.to_numpy()
    unit = found.attrs.get("units")
    unit = unit if isinstance(unit, str) else None
    if values.size and all(isinstance(text, str) for text in values.tolist()):
        return Axis(name=dim, labels=tuple(map(str, values.tolist())))
    if values.dtype.kind in "iu" and not unit and np.array_equal(values, np.arange(values.size)):
        return Axis(name=dim)
    if values.dtype.kind in "iuf" and values.size:
        last = max(1, values.size - 1)
        # Of one sample, what it was taken from tells the distance to the next.
        alone = float(found.encoding.get("step", 1.0))
        step = float((values[-1] - values[0]) / last) if values.size > 1 else alone
        even = values[0] + step * np.arange(values.size)
        if step and np.isfinite(step) and np.abs(values - even).max() <= _EVEN * abs(step):
            return Axis(name=dim, unit=unit, scale=step, offset=float(values[0]))
    warn(f"the coordinate {dim!r} is not evenly spaced numbers; it is not stored")
    return Axis(name=dim)


def _values(axis: Axis, size: int, origin: Origin) -> np.ndarray:
    if axis.labels is not None:
        return np.array(axis.labels)
    offset = axis.offset + (axis.base[0] / 2 if origin == "corner" else 0.0)
    return offset + axis.step * np.arange(size, dtype=np.float64)


def _attributes(axis: Axis) -> dict[str, Any]:
    if axis.unit is None:
        return {}
    return {"units": axis.unit[:-1] if axis.unit in _DECODED else axis.unit}
