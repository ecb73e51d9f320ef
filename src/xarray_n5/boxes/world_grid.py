"""Grids in physical coordinates that cover several arrays."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.boxes.placement import Placement, factor_of
from xarray_n5.datasets.world import AXES
from xarray_n5.model.axes import ROUNDING
from xarray_n5.model.units import quantity_of, ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Mapping


def world_grid(
    *arrays: xr.DataArray | xr.Dataset, spacing: float | str | Mapping[str, float | str]
) -> xr.Dataset:
    """Return the coordinates of a grid that covers arrays, for ``.n5.interp_like``.

    Views of a project and images with a matrix are placed by it, others by their coordinates.

    Parameters
    ----------
    *arrays : xarray.DataArray or xarray.Dataset
        The arrays. Those along z, y, x may be views; pass their Datasets, which have the matrices.
        One Dataset may have all tiles of a project, in a dimension ``tile``.
    spacing : float, str or mapping
        The distance between samples, for all axes or by dimension, in the unit of the first array;
        a string may have another unit, as in "500 nm".

    Returns
    -------
    xarray.Dataset
        A coordinate for each axis, from the first sample of all arrays to the last, or up to one
        step beyond it. There are no variables.

    Raises
    ------
    ValueError
        If there is no array, arrays have no axis with coordinates in common, units cannot be
        converted, or `spacing` is not positive.

    Examples
    --------
    >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
    >>> left = xr.DataArray(np.ones(3), dims="x", coords={"x": x}, name="raw")
    >>> right = left.assign_coords(x=left.x + 3.0)
    >>> right.x.attrs["units"] = "um"
    >>> xarray_n5.world_grid(left, right, spacing="2000 nm").x.values
    array([0., 2., 4., 6., 8.])
    """
    extents = [_extent(array) for array in arrays]
    if not extents:
        raise ValueError("expected at least one array to cover")
    dims = [dim for dim in extents[0] if all(dim in extent for extent in extents)]
    if not dims:
        raise ValueError(
            "the arrays have no axis with coordinates in common; they have them along "
            f"{[[*extent] for extent in extents]}"
        )
    if isinstance(spacing, dict) and (unknown := [dim for dim in spacing if dim not in dims]):
        raise ValueError(f"spacing is for {unknown}, but the axes are {dims}")
    return xr.Dataset(coords={dim: _along(dim, [e[dim] for e in extents], spacing) for dim in dims})


Extent = tuple[float, float, "str | None"]
"""The first and the last position along an axis, and the unit."""


def _extent(source: xr.DataArray | xr.Dataset) -> dict[str, Extent]:
    """Return the extent of all samples along each axis."""
    if isinstance(source, xr.DataArray):
        return _extent_of(source, Placement.of(source))
    joined: dict[str, Extent] = {}
    for array in source.data_vars.values():
        for dim, extent in _extent_of(array, Placement.of(array, source)).items():
            before = joined.setdefault(dim, extent)
            joined[dim] = (min(before[0], extent[0]), max(before[1], extent[1]), extent[2])
    return joined


def _extent_of(array: xr.DataArray, placement: Placement) -> dict[str, Extent]:
    if placement.matrices is not None:
        corners = list(product(*((0, array.sizes[axis] - 1) for axis in AXES)))
        points = np.array([[*corner, 1] for corner in corners], float)
        positions = placement.matrices @ points.T
        known = positions[np.isfinite(positions).all((-2, -1))]
        ends = zip(known.min((0, 2)), known.max((0, 2)), strict=True)
        unit = placement.units[AXES[-1]]
        return {
            axis: (float(low), float(high), unit)
            for axis, (low, high) in zip(AXES, ends, strict=True)
        }
    space = [dim for dim in array.dims if dim in AXES] or array.dims
    extents: dict[str, Extent] = {}
    for dim in map(str, space):
        if (dim in array.coords or dim in placement.samples) and array.sizes[dim]:
            values = placement.along(array, dim)
            extents[dim] = (float(values.min()), float(values.max()), placement.units.get(dim))
    return extents


def _along(dim: str, extents: list[Extent], spacing: Any) -> xr.Variable:
    """Return the coordinate of an axis that covers all extents."""
    unit = extents[0][2]
    ends = [factor_of(dim, u, unit) * end for low, high, u in extents for end in (low, high)]
    if isinstance(spacing, dict) and dim not in spacing:
        raise ValueError(f"spacing is {spacing}; expected a distance for the axis {dim!r}, too")
    step = _distance(spacing[dim] if isinstance(spacing, dict) else spacing, dim, unit)
    count = int(np.ceil((max(ends) - min(ends)) / step - ROUNDING)) + 1
    values = min(ends) + step * np.arange(count)
    return xr.Variable((dim,), values, {"units": unit} if unit else {})


def _distance(spacing: float | str, dim: str, unit: str | None) -> float:
    """Return a distance in a unit."""
    quantity = quantity_of(spacing) if isinstance(spacing, str) else (float(spacing), None)
    if quantity is None or not 0 < quantity[0] < np.inf:
        raise ValueError(
            f"spacing is {spacing!r}; expected a positive number, perhaps with a unit as in '4 nm'"
        )
    number, given = quantity
    factor = 1.0 if given is None or same_unit(given, unit) else ratio(given, unit)
    if factor is None:
        raise ValueError(f"spacing is {spacing!r}, but the axis {dim!r} is in {unit!r}")
    return number * factor
