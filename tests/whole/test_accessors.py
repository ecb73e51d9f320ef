"""``.n5`` on xarray's objects, and what of their coordinates is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests.support.geometries import facts
from xarray_n5 import create_array, to_n5
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.model.axes import Axis

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def opened(tmp_path: Path) -> xr.Dataset:
    """An array of 4 x 5, in nanometres, that lies 100 from the origin."""
    axes = [
        Axis(name="z", unit="nm", scale=40.0),
        Axis(name="x", kind="space", unit="nm", scale=4, offset=100),
    ]
    create_array(tmp_path / "a.n5", "em/raw", shape=(4, 5), dtype="u1", axes=axes)
    return xr.open_dataset(tmp_path / "a.n5", engine="n5", group="em/raw")


def test_geometry_tells_where_each_number_came_from(opened: xr.Dataset) -> None:
    geometry = opened["raw"].n5.geometry
    assert facts(geometry) == [("z", "nm", 40.0, 0.0), ("x", "nm", 4.0, 100.0)]
    assert geometry.sources == opened["raw"].encoding["dialect"]
    assert geometry.sources["offset"] == "cosem: transform"
    assert list(opened.n5.geometry) == ["raw"]


def test_geometry_follows_what_is_done_to_the_array(opened: xr.Dataset) -> None:
    part = opened["raw"].isel(z=slice(1, None), x=slice(1, None, 2))
    assert facts(part.n5.geometry) == [("z", "nm", 40.0, 40.0), ("x", "nm", 8.0, 104.0)]
    plane = opened["raw"].isel(z=slice(2, 3))
    assert facts(plane.n5.geometry)[0] == ("z", "nm", 40.0, 80.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", "b", "c"], Axis(name="x", kind="space", labels=("a", "b", "c"))),
        ([0, 1, 2], Axis(name="x", kind="space")),
        ([0.0, 1.0, 2.0], Axis(name="x", kind="space", scale=1.0)),
        ([5, 7, 9], Axis(name="x", kind="space", scale=2.0, offset=5.0)),
        (np.array([10, 5, 0], "u1"), Axis(name="x", kind="space", scale=-5.0, offset=10.0)),
        (np.array([-100, 0, 100], "i1"), Axis(name="x", kind="space", scale=100.0, offset=-100.0)),
        ((0.3 * np.arange(3) + 0.1), Axis(name="x", kind="space", scale=0.3, offset=0.1)),
        ([3.0, 2.0, 1.0], Axis(name="x", kind="space", scale=-1.0, offset=3.0)),
    ],
)
def test_coordinates_become_axes(values: list[Any], expected: Axis) -> None:
    array = xr.DataArray(np.zeros(3), {"x": values}, "x")
    assert geometry_from(array).axes == (expected,)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2, 4],
        [0, 2, 5],
        [0, 1, 3],
        np.array([200, 100, 1], "u1"),
        [True, False, True],
        [np.nan, 1, 2],
        [2**60, 2**60 + 1, 2**60 + 2],
    ],
)
def test_coordinates_that_are_no_places_are_left_out_with_a_warning(values: list[Any]) -> None:
    array = xr.DataArray(np.zeros(3), {"x": values}, "x")
    with pytest.warns(UserWarning, match="expected evenly spaced"):
        assert geometry_from(array).axes == (Axis(name="x", kind="space"),)


@pytest.mark.parametrize("step", [0.1625, 0.3, 0.406, 5.24, 3.9999, 0.065, 1 / 3])
def test_the_shortest_step_that_fits_is_taken(step: float) -> None:
    whole = 7.0 + step * np.arange(500)
    part = xr.DataArray(np.zeros(313), {"x": whole[137:450]}, "x")
    assert geometry_from(part).axes[0].scale == step


def test_steps_of_float32_are_even_within_their_rounding() -> None:
    for values in (
        np.linspace(0, 1, 1001, dtype="f4"),
        np.arange(1000, dtype="f4") * np.float32(0.1),
    ):
        axis = geometry_from(xr.DataArray(np.zeros(values.size), {"x": values}, "x")).axes[0]
        assert axis.scale == pytest.approx(values[1], rel=1e-7)
        places = axis.offset + axis.step * np.arange(values.size)
        np.testing.assert_array_equal(places.astype("f4"), values)


@pytest.mark.parametrize("values", [[5e6, 5e6 + 0.5, 5e6 + 0.5], [1e9, 1e9 + 64], [0, 1, 1]])
def test_float32_that_is_too_coarse_tells_no_places(values: list[float]) -> None:
    array = xr.DataArray(np.zeros(len(values)), {"x": np.array(values, "f4")}, "x")
    with pytest.warns(UserWarning, match="expected evenly spaced"):
        assert geometry_from(array).axes[0].scale is None


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.integers(2, 300))
def test_places_that_scale_and_offset_make_come_back_to_the_last_digit(
    offset: float, step: float, size: int
) -> None:
    values = offset + step * np.arange(size)
    axis = geometry_from(xr.DataArray(np.zeros(size), {"x": values}, "x")).axes[0]
    found = axis.offset + axis.step * np.arange(size)
    np.testing.assert_allclose(found, values, rtol=0, atol=2 * np.spacing(np.abs(values).max()))


def test_one_sample_that_stands_for_several_has_no_step_of_its_own(opened: xr.Dataset) -> None:
    whole = opened["raw"].astype(float)
    coarse = whole.isel(x=slice(4)).coarsen(z=4, x=4).mean()
    assert [axis.step for axis in coarse.n5.geometry.axes] == [1, 1]
    assert [axis.step for axis in whole.isel(z=[2], x=[1]).n5.geometry.axes] == [40, 4]


def test_a_coordinate_without_samples_says_nothing() -> None:
    array = xr.DataArray(np.zeros((0, 2)), {"y": np.zeros(0)}, ("y", "x"))
    assert geometry_from(array).axes[0] == Axis(name="y")


@pytest.mark.parametrize(
    "coords",
    [
        {"c": ["DAPI", "GFP"], "y": ("y", [5.0, 7, 9], {"units": "um"})},
        {"c": ["DAPI", "GFP"], "y": ("y", [9.0, 7, 5], {"units": "um"})},
        {"t": ("t", [0.5, 1.0], {"units": "s"}), "y": [0.0, 2.0, 4.0]},
        {"t": ("t", [0.5, 1.0], {"units": "s"})},
        {},
    ],
)
def test_coordinates_come_back_as_they_were(tmp_path: Path, coords: dict[str, Any]) -> None:
    first = "t" if "t" in coords else "c"
    array = xr.DataArray(np.arange(6).reshape(2, 3), coords, (first, "y"), name="raw")
    to_n5(array, tmp_path, "raw")
    again = xr.open_dataset(tmp_path, engine="n5", group="raw")["raw"]
    if "y" not in coords and coords:
        # Where one axis has a scale, N5's lists have one for all.
        again = again.drop_vars("y")
    xr.testing.assert_identical(again.drop_attrs(deep=False), array)
