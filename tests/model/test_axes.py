"""Axes: names, and coordinates made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xarray_n5.arrays.coordinates import coords_of
from xarray_n5.model.axes import Axis, Geometry, as_geometry, names


@pytest.mark.parametrize(
    ("ndim", "expected"),
    [
        (0, ()),
        (1, ("x",)),
        (3, ("z", "y", "x")),
        (4, ("dim_0", "z", "y", "x")),
        (5, ("dim_0", "dim_1", "z", "y", "x")),
        (7, ("dim_0", "dim_1", "dim_2", "dim_3", "z", "y", "x")),
    ],
)
def test_unnamed_axes_get_names_by_their_place(ndim: int, expected: tuple[str, ...]) -> None:
    assert names((Axis(),) * ndim) == expected


@given(st.lists(st.sampled_from([None, "x", "y", "z", "a", "dim_1"]), max_size=6))
def test_names_are_unique_and_keep_those_that_are_given(given_names: list[str | None]) -> None:
    made = names([Axis(name=name) for name in given_names])
    assert len(set(made)) == len(given_names)
    for name, one in zip(given_names, made, strict=True):
        assert name is None or given_names.count(name) > 1 or one == name


@pytest.mark.parametrize("wrong", [{"scale": 0}, {"scale": np.nan}, {"offset": np.inf}])
def test_an_axis_refuses_nonsense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Axis(name="x", **wrong)


@pytest.mark.parametrize("axes", [["x"], ["x", "x"]])
def test_axes_must_fit_the_array(axes: list[str]) -> None:
    with pytest.raises(ValueError, match=r"axes|unique"):
        as_geometry(axes, 2)


def test_texts_say_where_samples_lie() -> None:
    axes = (Axis(name="c", labels=("A", "B")), Axis(scale=2.0), Axis(name="x", unit="nm", offset=3))
    assert [str(axis) for axis in axes] == [
        "c: A, B",
        "(no name): start 0, step 2 (no unit)",
        "x: start 3, step 1 nm",
    ]
    assert str(Axis(name="c", labels=("a",) * 99)).endswith("a, ...")
    assert str(Axis(name="y")) == "y: no coordinates"
    geometry = Geometry(axes[1:], {"scale": "a: b"}, affine=((1, 0, 5), (0.5, 1, 0)))
    shown = repr(geometry).split("\n    ")
    assert shown[0] == "<xarray_n5.Geometry, 2 axes>"
    assert shown[-3:] == ["affine: 1, 0, 5", "affine: 0.5, 1, 0", "scale from a: b"]
    assert eval(repr(axes[0])) == axes[0]  # noqa: S307 - our own text


def test_coordinates_are_exact_float64_with_the_unit_as_written() -> None:
    coords = coords_of(Geometry((Axis(name="x", unit="µm", scale=0.1, offset=7.03),)), (1000,))
    assert coords["x"].dtype == np.float64
    np.testing.assert_array_equal(coords["x"], 7.03 + 0.1 * np.arange(1000))
    assert coords["x"].attrs == {"units": "µm"}


@pytest.mark.parametrize("step", [0.4, 4.03, -0.1, 1 / 3])
def test_a_part_of_an_image_has_its_coordinates_to_the_last_bit(step: float) -> None:
    whole = coords_of(Geometry((Axis(name="x", scale=step),)), (500,))["x"].to_numpy()
    np.testing.assert_array_equal(whole, np.arange(500) * step)
    for start in range(500):
        part = Geometry((Axis(name="x", scale=step, offset=float(whole[start])),))
        found = coords_of(part, (500 - start,))["x"].to_numpy()
        np.testing.assert_array_equal(found, whole[start:])


def test_coordinates_beyond_the_whole_numbers_of_floats_are_as_exact_as_before() -> None:
    axis = Axis(name="x", scale=0.1, offset=1e15)
    found = coords_of(Geometry((axis,)), (9,))["x"].to_numpy()
    np.testing.assert_array_equal(found, np.arange(9) * 0.1 + 1e15)


def test_nothing_is_invented_where_nothing_is_known() -> None:
    assert coords_of(Geometry((Axis(name="y"), Axis())), (3, 4)) == {}


@pytest.mark.parametrize("unit", ["seconds", "milliseconds", "days"])
def test_plural_units_of_time_are_not_left_for_xarray_to_decode(unit: str) -> None:
    coords = coords_of(Geometry((Axis(name="t", unit=unit, scale=1.0),)), (2,))
    assert coords["t"].attrs == {"units": unit[:-1]}


def test_an_axis_too_long_for_coordinates_gets_none() -> None:
    with pytest.warns(UserWarning, match="too many"):
        assert coords_of(Geometry((Axis(name="x", scale=1.0),)), (1 << 40,)) == {}
