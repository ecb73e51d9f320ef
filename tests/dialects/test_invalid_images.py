"""Images of OME-NGFF with numbers that are invalid, and with two descriptions that disagree."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import xarray as xr

import xarray_n5
from tests.support.geometries import read

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.model.axes import Geometry

FORMATS: list[Any] = ["n5", "zarr2", "zarr3"]
NAMES = ("t", "c", "z", "y", "x")
AXES: list[dict[str, str]] = [
    {"name": "t", "type": "time", "unit": "second"},
    {"name": "c", "type": "channel"},
    *({"name": name, "type": "space", "unit": "nanometer"} for name in "zyx"),
]
SHAPES = {"0": (2, 3, 4, 8, 8), "1": (2, 3, 4, 4, 4)}
SCALES: dict[str, list[Any]] = {"0": [2.0, 1.0, 30.0, 5.0, 6.0], "1": [2.0, 1.0, 30.0, 10.0, 12.0]}


def step(kind: str, values: object) -> dict[str, Any]:
    """A transformation of a level or of an image."""
    return {"type": kind, kind: values}


def described(steps: dict[str, list[Any]], of_all: list[Any] | None = None) -> dict[str, Any]:
    """An image with the transformations of its levels, and of all of them."""
    datasets = [{"path": path, "coordinateTransformations": s} for path, s in steps.items()]
    more = {} if of_all is None else {"coordinateTransformations": of_all}
    return {"version": "0.4", "axes": AXES, "datasets": datasets, **more}


def image_in(form: str, image: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a group with an image, where a format has it."""
    ome = {"version": "0.5", "multiscales": [image]}
    return {"ome": ome} if form == "zarr3" else {"multiscales": [image]}


def opened(
    group: dict[str, Any], level: int = 0, form: str = "zarr2"
) -> tuple[Geometry, list[str]]:
    """A level, and the warnings of opening it."""
    around: Any = {"path": str(level), "parents": (group,), "lists_x_first": form == "n5"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        geometry = read({}, SHAPES[str(level)], **around)
    assert tuple(axis.name for axis in geometry.axes) == NAMES
    return geometry, [str(warning.message) for warning in caught]


def distances(geometry: Geometry) -> dict[str, Any]:
    """The distance of samples along each axis with coordinates."""
    return {str(axis.name): axis.scale for axis in geometry.axes if axis.placed}


VALUES: list[Any] = [0, 0.0, -0.0, math.nan, math.inf, None, "", "wide", True, [1.0], {}]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("axis", [0, 2, 4])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_invalid_scale_costs_the_coordinates_of_its_axis(
    form: str, axis: int, value: object
) -> None:
    scales = {path: [*scale[:axis], value, *scale[axis + 1 :]] for path, scale in SCALES.items()}
    image = described({path: [step("scale", scale)] for path, scale in scales.items()})
    for level in (0, 1):
        geometry, told = opened(image_in(form, image), level, form)
        right = dict(zip(NAMES, SCALES[str(level)], strict=True))
        del right["c"], right[NAMES[axis]]
        assert distances(geometry) == right
        assert geometry.axes[3].unit == "nanometer"
        assert any(repr(NAMES[axis]) in each for each in told)


@pytest.mark.parametrize("where", ["level", "all"])
@pytest.mark.parametrize("value", ["here", None], ids=repr)
def test_invalid_translation_costs_the_coordinates_of_its_axis(where: str, value: object) -> None:
    moved = step("translation", [0, 0, 60.0, value, 7.0])
    steps = {path: [step("scale", scale)] for path, scale in SCALES.items()}
    if where == "level":
        steps["0"].append(moved)
    image = described(steps, [moved] if where == "all" else None)
    geometry, told = opened(image_in("zarr2", image))
    assert distances(geometry) == {"t": 2.0, "z": 30.0, "x": 6.0}
    assert [axis.offset for axis in geometry.axes[2:]] == [60.0, 0.0, 7.0]
    assert len(told) == 1


LISTS: list[Any] = [[], [3.0], [2.0, 2.0, 2.0], [1.0] * 6, None, "1 1 1", 4.0, {"x": 1.0}]


@pytest.mark.parametrize("kind", ["scale", "translation"])
@pytest.mark.parametrize("values", LISTS, ids=repr)
def test_list_of_all_levels_with_another_length_is_ignored(kind: str, values: object) -> None:
    steps = {path: [step("scale", scale)] for path, scale in SCALES.items()}
    image = described(steps, [step(kind, values)])
    for level in (0, 1):
        geometry, told = opened(image_in("zarr2", image), level)
        right = dict(zip(NAMES, SCALES[str(level)], strict=True))
        del right["c"]
        assert distances(geometry) == right
        assert len(told) == 1


@pytest.mark.parametrize("values", LISTS, ids=repr)
def test_level_with_a_scale_of_another_length_has_names_only(values: object) -> None:
    image = described({"0": [step("scale", values)], "1": [step("scale", SCALES["1"])]})
    geometry, told = opened(image_in("zarr2", image))
    assert (distances(geometry), len(told)) == ({}, 1)
    geometry, told = opened(image_in("zarr2", image), 1)
    assert (distances(geometry), told) == ({"t": 2.0, "z": 30.0, "y": 10.0, "x": 12.0}, [])


def test_negative_scales_and_numbers_in_strings_are_valid() -> None:
    scale = [2.0, 1.0, -30.0, "5.0", 6.0]
    image = described({path: [step("scale", scale)] for path in SHAPES})
    geometry, told = opened(image_in("zarr2", image))
    assert (distances(geometry), told) == ({"t": 2.0, "z": -30.0, "y": 5.0, "x": 6.0}, [])


@pytest.mark.parametrize("nested", [False, True])
def test_invalid_scale_of_version_06_costs_the_coordinates_of_its_axis(nested: bool) -> None:
    ends = {"input": {"path": "0"}, "output": {"name": "world"}}
    steps = [step("scale", [0, 1.0, 30.0, 5.0, 6.0]), step("translation", [0, 0, 9.0, 8.0, 7.0])]
    whole = {"type": "sequence", "transformations": steps} if nested else steps[0]
    image = {
        "coordinateSystems": [{"name": "world", "axes": AXES}],
        "datasets": [{"path": "0", "coordinateTransformations": [{**whole, **ends}]}],
    }
    geometry, told = opened({"ome": {"version": "0.6", "multiscales": [image]}})
    assert distances(geometry) == {"z": 30.0, "y": 5.0, "x": 6.0}
    assert geometry.axes[3].offset == (8.0 if nested else 0.0)
    assert len(told) == 1


def stored(place: Path, attributes: dict[str, Any]) -> Path:
    """Two levels in a group with attributes."""
    xarray_n5.create_group(place, attributes=attributes)
    for path, shape in SHAPES.items():
        xarray_n5.create_array(place, path, shape=shape, chunks=(1, 1, *shape[2:]), dtype="u1")
    return place


@pytest.mark.parametrize("target", FORMATS)
def test_copies_keep_the_axes_next_to_an_invalid_one(tmp_path: Path, target: Any) -> None:
    scales = {path: [0, *scale[1:]] for path, scale in SCALES.items()}
    image = described({path: [step("scale", scale)] for path, scale in scales.items()})
    place = stored(tmp_path / "i.zarr", image_in("zarr2", image))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xarray_n5.copy(place, tmp_path / "copy", format=target)
        copied = next(iter(xr.open_dataset(tmp_path / "copy", engine="n5", level=1).values()))
    assert copied.dims == NAMES
    assert {dim: float(copied[dim][1] - copied[dim][0]) for dim in "zyx"} == {
        "z": 30.0,
        "y": 10.0,
        "x": 12.0,
    }


def two_images(old: float, new: float, name: str = "y") -> dict[str, Any]:
    """An image in ``ome``, and one of version 0.4 next to it."""
    images = []
    for number, last in ((old, name), (new, "y")):
        axes = [*AXES[:3], {**AXES[3], "name": last}, AXES[4]]
        steps = {path: [step("scale", [2.0, 1.0, 30.0, number, 6.0])] for path in SHAPES}
        images.append({**described(steps), "axes": axes})
    return {
        "multiscales": [{**images[0], "version": "0.4"}],
        "ome": {"version": "0.5", "multiscales": [images[1]]},
    }


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("old", "name", "disagree"), [(5.0, "y", False), (7.0, "y", True), (5.0, "v", True)]
)
def test_images_in_ome_replace_older_ones(form: str, old: float, name: str, disagree: bool) -> None:
    for level in (0, 1):
        geometry, told = opened(two_images(old, 5.0, name), level, form)
        assert distances(geometry) == {"t": 2.0, "z": 30.0, "y": 5.0, "x": 6.0}
        assert [("ome" in each and "disagree" in each) for each in told] == [True] * disagree


def test_copy_of_two_images_has_the_one_in_ome(tmp_path: Path) -> None:
    place = stored(tmp_path / "i.zarr", two_images(7.0, 5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xarray_n5.copy(place, tmp_path / "copy.n5")
    array = xarray_n5.open_array(tmp_path / "copy.n5", "0")
    assert distances(array.geometry())["y"] == 5.0


def test_cosem_next_to_ome_is_read() -> None:
    numbers = {"scale": [4.0, 4.0, 4.0], "translate": [1.0, 2.0, 3.0]}
    transform = {"axes": ["z", "y", "x"], "units": ["nm"] * 3, "order": "C", **numbers}
    steps = [step("scale", [4.0] * 3), step("translation", [1.0, 2.0, 3.0])]
    image = {"axes": AXES[2:], "datasets": [{"path": "0", "coordinateTransformations": steps}]}
    older = [{"datasets": [{"path": "0", "transform": transform}]}]
    group = {"ome": {"version": "0.5", "multiscales": [image]}, "multiscales": older}
    geometry = read({}, path="0", parents=(group,), lists_x_first=False)
    assert set(geometry.dialects) >= {"cosem", "ngff"}
    assert [axis.offset for axis in geometry.axes] == [1.0, 2.0, 3.0]
