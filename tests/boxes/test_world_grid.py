"""``world_grid``: coordinates that cover several arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from xarray_n5 import world_grid

AXES = ("z", "y", "x")


def tile(start: float, unit: str | None = "um", count: int = 5, step: float = 1.0) -> xr.DataArray:
    """A tile that begins at `start` along each axis."""
    units = {"units": unit} if unit else {}
    coords = {dim: xr.Variable(dim, start + step * np.arange(count), units) for dim in AXES}
    return xr.DataArray(np.ones((count,) * 3), coords, AXES, "raw")


def test_a_grid_begins_at_the_first_sample_and_ends_at_or_after_the_last() -> None:
    grid = world_grid(tile(0), tile(3.2), spacing={"z": 1, "y": 0.5, "x": "300 nm"})
    assert grid.z.values.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_allclose(grid.y.values, 0.5 * np.arange(16))
    np.testing.assert_allclose(grid.x.values, 0.3 * np.arange(25))
    assert grid.x.attrs == {"units": "um"}
    assert not grid.data_vars


def test_a_tile_on_its_own_grid_is_unchanged() -> None:
    array = tile(0.1, step=0.1, count=12)
    grid = world_grid(array, spacing=0.1)
    np.testing.assert_allclose(grid.x, array.x)
    xr.testing.assert_allclose(array.n5.interp_like(grid), array)


def test_units_of_tiles_may_differ() -> None:
    grid = world_grid(tile(0, "um"), tile(3000, "nanometer", step=1000), spacing=1)
    assert grid.x.values.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_rotated_view_is_covered_by_its_corners() -> None:
    turned = np.array([[0.0, 1, 0, 10], [0, 0, 2, 20], [-1, 0, 0, 30]])
    dataset = (
        tile(0)
        .isel(z=slice(3))
        .to_dataset()
        .assign_coords(
            affine=(("setup", "axis", "column"), [turned, np.full((3, 4), np.nan)], {"units": "um"})
        )
    )
    grid = world_grid(dataset, spacing=1)
    assert (grid.z[0], grid.z[-1]) == (10, 14)
    assert (grid.y[0], grid.y[-1]) == (20, 28)
    assert (grid.x[0], grid.x[-1]) == (28, 30)


def test_axes_that_are_not_of_space_are_not_in_the_grid() -> None:
    movie = tile(0).expand_dims(t=[0.0, 1.0])
    assert set(world_grid(movie, tile(2), spacing=1).coords) == set(AXES)
    spectrum = xr.DataArray(np.ones(3), {"energy": [1.0, 2, 3]}, "energy")
    assert world_grid(spectrum, spacing=1).energy.values.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("arrays", "spacing", "message"),
    [
        ([], 1, "at least one array"),
        ([tile(0), tile(0, None)], 1, "without a unit"),
        ([tile(0), tile(0, "s")], 1, "in 's', but the samples are in 'um'"),
        ([tile(0)], 0, "spacing is 0; expected a positive number"),
        ([tile(0)], "wide", "spacing is 'wide'"),
        ([tile(0)], {"x": 1}, "expected a distance for the axis 'z'"),
        ([tile(0)], {"z": 1, "y": 1, "x": 1, "X": 1}, r"for \['X'\], but the axes are \['z', 'y'"),
        ([tile(0)], "500 ms", "spacing is '500 ms', but the axis 'z' is in 'um'"),
        ([tile(0).drop_vars(AXES)], 1, "no axis with coordinates in common"),
    ],
)
def test_grids_that_have_no_meaning_are_refused(
    arrays: list[xr.DataArray], spacing: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        world_grid(*arrays, spacing=spacing)
