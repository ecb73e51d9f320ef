"""Axes that are written: what is there already, and the groups around, have a say."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from xarray_n5 import Axis, MetadataError, create_array, create_group, open_array, to_n5

if TYPE_CHECKING:
    from pathlib import Path


def line(*values: float) -> xr.DataArray:
    """A line of samples at places in nanometres."""
    return xr.DataArray(np.zeros(len(values)), {"x": ("x", list(values), {"units": "nm"})}, "x")


def test_new_places_replace_the_old_ones_of_an_array(tmp_path: Path) -> None:
    to_n5(line(100, 104), tmp_path, "a", attributes={"mine": 1})
    to_n5(line(0, 4), tmp_path, "a", mode="a")
    opened = xr.open_dataset(tmp_path, engine="n5", group="a")
    assert opened.x.values.tolist() == [0, 4]
    assert opened["a"].attrs == {"mine": 1}
    to_n5(line(0, 8), tmp_path, "b", dialect="n5_viewer")
    to_n5(line(0, 4), tmp_path, "b", mode="a")
    assert xr.open_dataset(tmp_path, engine="n5", group="b").x.values.tolist() == [0, 4]
    to_n5(np.ones(2), tmp_path, "b", mode="a")
    assert xr.open_dataset(tmp_path, engine="n5", group="b").x.values.tolist() == [0, 4]


def test_attributes_that_contradict_the_axes_are_refused(tmp_path: Path) -> None:
    wrong = {"transform": {"scale": [9], "translate": [0], "units": "nm"}}
    with pytest.raises(MetadataError, match=r"contradict the scale of axis 'x', 4\.0.*read as 9"):
        to_n5(line(0, 4), tmp_path, "a", attributes=wrong)
    assert not (tmp_path / "a").exists()


def test_a_group_that_speaks_louder_is_answered(tmp_path: Path) -> None:
    groups: dict[str, dict[str, Any]] = {
        "n5-viewer": {"downsamplingFactors": [[1], [2]]},
        "neuroglancer": {"axes": ["x"], "units": ["nm"], "resolution": [4], "scales": [[1], [2]]},
    }
    for name, group in groups.items():
        create_group(tmp_path, name, attributes=group)
        to_n5(line(0, 4), tmp_path, f"{name}/s0")
        to_n5(line(0, 8), tmp_path, f"{name}/s1")
        opened = xr.open_dataset(tmp_path, engine="n5", group=f"{name}/s1")
        assert opened.x.values.tolist() == [0, 8]
        with pytest.raises(MetadataError, match="contradict"):
            to_n5(line(0, 8), tmp_path, f"{name}/s1", mode="w", dialect="n5_viewer")


def test_writing_the_same_places_again_changes_no_attribute(tmp_path: Path) -> None:
    for level in (0, 1):
        attributes = {"pixelResolution": {"dimensions": [4, 4], "unit": "nm"}}
        shape = (8 >> level, 8 >> level)
        create_array(tmp_path, f"p/s{level}", shape=shape, dtype="u1", attributes=attributes)
    group: dict[str, Any] = {"engine": "n5", "group": "p"}
    base = xr.open_dataset(tmp_path, level=0, **group)["p"].load()
    before = xr.open_dataset(tmp_path, level=1, **group).load()
    to_n5(base, tmp_path, "p/s0", mode="r+")
    to_n5(base, tmp_path, "p/s0", mode="a")
    assert dict(open_array(tmp_path, "p/s0").attrs) == attributes
    xr.testing.assert_identical(xr.open_dataset(tmp_path, level=1, **group).load(), before)


@pytest.mark.parametrize(
    "mine",
    [
        {"unit": "counts"},
        {"offset": 5.0},
        {"transform": "log"},
        {"transform": {"shift": 3}},
        {"pixelUnit": "q", "numChannels": 3},
        {"downsamplingFactors": "none"},
    ],
)
def test_attributes_that_are_no_geometry_stay(tmp_path: Path, mine: dict[str, Any]) -> None:
    create_array(tmp_path, "a", shape=(4,), dtype="f8", attributes=mine)
    to_n5(line(0, 2, 4, 6), tmp_path, "a", mode="a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata are told
        opened = xr.open_dataset(tmp_path, engine="n5", group="a")
    assert opened.x.values.tolist() == [0, 2, 4, 6]
    assert dict(open_array(tmp_path, "a").attrs).items() >= mine.items()


@pytest.mark.parametrize("mine", [{"units": "counts"}, {"resolution": "high"}, {"units": "m"}])
def test_attributes_of_ones_own_are_not_overwritten(tmp_path: Path, mine: dict[str, Any]) -> None:
    create_array(tmp_path, "a", shape=(4,), dtype="f8", attributes=mine)
    for mode in ("a", "r+"):
        with pytest.raises(MetadataError, match="both set"):
            to_n5(line(0, 2, 4, 6), tmp_path, "a", mode=mode)  # type: ignore[arg-type]
    assert dict(open_array(tmp_path, "a").attrs) == mine


@pytest.mark.parametrize("units", ["m", "s", "counts"])
def test_the_unit_of_the_values_makes_no_coordinates(tmp_path: Path, units: str) -> None:
    height = xr.DataArray(np.ones((3, 4)), dims=("y", "x"), attrs={"units": units})
    to_n5(height, tmp_path, "h", attributes=height.attrs)
    again = xr.open_dataset(tmp_path, engine="n5", group="h")["h"]
    xr.testing.assert_identical(again, height.rename("h"))


def test_names_alone_do_not_turn_an_array_round(tmp_path: Path) -> None:
    axes = [Axis(name="y", unit="um", scale=3.0), Axis(name="x", unit="nm", scale=2.0)]
    create_array(tmp_path, "a", shape=(4, 4), dtype="f8", axes=axes)
    before = dict(open_array(tmp_path, "a").attrs)
    to_n5(xr.DataArray(np.ones((4, 4)), dims=("y", "x")), tmp_path, "a", mode="a")
    assert dict(open_array(tmp_path, "a").attrs) == before
    with pytest.raises(MetadataError, match="contradict the name of axis 'x'"):
        to_n5(xr.DataArray(np.ones((4, 4)), dims=("x", "y")), tmp_path, "a", mode="a")


@pytest.mark.parametrize("dialect", [None, "tensorstore", "cosem"])
def test_attributes_may_spell_the_unit_of_the_axes_differently(
    tmp_path: Path, dialect: str | None
) -> None:
    axes = [Axis(name=name, unit="micrometer", scale=0.5) for name in "yx"]
    given = {"units": ["\N{MICRO SIGN}m"] * 2, "mine": 1}
    array = create_array(
        tmp_path, "a", shape=(4, 4), dtype="u1", axes=axes, attributes=given, dialect=dialect
    )
    assert [(axis.unit, axis.scale) for axis in array.axes] == [("micrometer", 0.5)] * 2
    assert array.attrs["mine"] == 1
    for wrong in (["nm"] * 2, ["um"], "um", [1, 2]):
        with pytest.raises(MetadataError, match=r"both set \['units'\]"):
            create_array(
                tmp_path, "b", shape=(4, 4), dtype="u1", axes=axes, attributes={"units": wrong}
            )


def test_the_same_axes_in_other_units_change_nothing(tmp_path: Path) -> None:
    to_n5(line(0, 4), tmp_path, "a", dialect="tensorstore")
    before = dict(open_array(tmp_path, "a").attrs)
    again = line(0, 4)
    again["x"].attrs["units"] = "Nanometers"
    to_n5(again, tmp_path, "a", mode="a")
    assert dict(open_array(tmp_path, "a").attrs) == before


def test_a_number_before_a_unit_goes_into_the_scale(tmp_path: Path) -> None:
    axis = Axis(name="x", unit="4nm", scale=2.0, offset=1.0)
    create_array(tmp_path, "a", shape=(4,), dtype="f8", axes=[axis])
    opened = xr.open_dataset(tmp_path, engine="n5", group="a")
    assert (opened.x.values.tolist(), opened.x.attrs) == ([4, 12, 20, 28], {"units": "nm"})
