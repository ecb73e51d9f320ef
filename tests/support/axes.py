"""Arrays with axes, as DataArrays."""

from __future__ import annotations

from typing import Any

import xarray as xr

from xarray_n5.arrays.coordinates import coords_of
from xarray_n5.model.axes import as_geometry, names


def with_axes(values: Any, axes: Any) -> xr.DataArray:
    """Return values with the names and coordinates of axes."""
    geometry = as_geometry(axes, values.ndim).with_names()
    return xr.DataArray(values, coords_of(geometry, values.shape), names(geometry.axes))
