"""Images of OME-NGFF with numbers that are invalid, and with two descriptions that disagree."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xarray_n5

if TYPE_CHECKING:
    from pathlib import Path

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


def store(place: Path, form: Any, attributes: dict[str, Any]) -> Path:
    """Two levels in a group with attributes."""
    xarray_n5.create_group(place, format=form)
    for path, shape in SHAPES.items():
        chunks = (1, 1, *shape[2:])
        xarray_n5.create_array(place, path, shape=shape, chunks=chunks, dtype="u1", format=form)
    document = place / {"n5": "attributes.json", "zarr2": ".zattrs", "zarr3": "zarr.json"}[form]
    stored = json.loads(document.read_text()) if document.exists() else {}
    inner = stored.setdefault("attributes", {}) if form == "zarr3" else stored
    inner.update(attributes)
    document.write_text(json.dumps(stored))
    return place


def image_in(form: Any, image: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a group with an image, where a format has it."""
    ome = {"version": "0.5", "multiscales": [image]}
    return {"ome": ome} if form == "zarr3" else {"multiscales": [image]}


def opened(place: Path, level: int) -> tuple[xr.DataArray, list[str]]:
    """A level, and the warnings of opening it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = xr.open_dataset(place, engine="n5", level=level)
    (array,) = dataset.data_vars.values()
    return array, [str(each.message) for each in caught]


def distances(array: xr.DataArray) -> dict[str, float]:
    """The distance of samples along each dimension with a coordinate."""
    return {str(d): float(c[1] - c[0]) for d, c in array.coords.items() if c.dtype.kind == "f"}


VALUES: list[Any] = [0, 0.0, -0.0, math.nan, math.inf, None, "", "wide", True, [1.0], {}]


@pytest.mark.matrix(12)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("axis", [0, 2, 4])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_invalid_scale_costs_the_coordinates_of_its_axis(
    tmp_path: Path, form: Any, axis: int, value: object
) -> None:
    scales = {path: [*scale[:axis], value, *scale[axis + 1 :]] for path, scale in SCALES.items()}
    image = described({path: [step("scale", scale)] for path, scale in scales.items()})
    place = store(tmp_path / "i", form, image_in(form, image))
    for level in (0, 1):
        array, told = opened(place, level)
        assert array.dims == NAMES
        right = dict(zip(NAMES, SCALES[str(level)], strict=True))
        del right["c"], right[NAMES[axis]]
        assert distances(array) == right
        assert array["y"].attrs["units"] == "nanometer"
        assert any(repr(NAMES[axis]) in each for each in told)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("where", ["level", "all"])
@pytest.mark.parametrize("value", ["here", None], ids=repr)
def test_invalid_translation_costs_the_coordinates_of_its_axis(
    tmp_path: Path, form: Any, where: str, value: object
) -> None:
    moved = step("translation", [0, 0, 60.0, value, 7.0])
    steps = {path: [step("scale", scale)] for path, scale in SCALES.items()}
    if where == "level":
        steps["0"].append(moved)
    image = described(steps, [moved] if where == "all" else None)
    array, told = opened(store(tmp_path / "i", form, image_in(form, image)), 0)
    assert array.dims == NAMES
    assert distances(array) == {"t": 2.0, "z": 30.0, "x": 6.0}
    assert (float(array["z"][0]), float(array["x"][0])) == (60.0, 7.0)
    assert len(told) == 1


LISTS: list[Any] = [[], [3.0], [2.0, 2.0, 2.0], [1.0] * 6, None, "1 1 1", 4.0, {"x": 1.0}]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["scale", "translation"])
@pytest.mark.parametrize("values", LISTS, ids=repr)
def test_list_of_all_levels_with_another_length_is_ignored(
    tmp_path: Path, form: Any, kind: str, values: object
) -> None:
    steps = {path: [step("scale", scale)] for path, scale in SCALES.items()}
    image = described(steps, [step(kind, values)])
    place = store(tmp_path / "i", form, image_in(form, image))
    for level in (0, 1):
        array, told = opened(place, level)
        right = dict(zip(NAMES, SCALES[str(level)], strict=True))
        del right["c"]
        assert (array.dims, distances(array)) == (NAMES, right)
        assert len(told) == 1


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("values", LISTS, ids=repr)
def test_level_with_a_scale_of_another_length_has_names_only(
    tmp_path: Path, form: Any, values: object
) -> None:
    steps = {"0": [step("scale", values)], "1": [step("scale", SCALES["1"])]}
    place = store(tmp_path / "i", form, image_in(form, described(steps)))
    array, told = opened(place, 0)
    assert (array.dims, distances(array)) == (NAMES, {})
    assert len(told) == 1
    # The other level is valid.
    array, told = opened(place, 1)
    assert (array.dims, told) == (NAMES, [])
    assert distances(array) == {"t": 2.0, "z": 30.0, "y": 10.0, "x": 12.0}


@pytest.mark.parametrize("form", FORMATS)
def test_negative_scales_and_numbers_in_strings_are_valid(tmp_path: Path, form: Any) -> None:
    scale = [2.0, 1.0, -30.0, "5.0", 6.0]
    image = described({path: [step("scale", scale)] for path in SHAPES})
    array, told = opened(store(tmp_path / "i", form, image_in(form, image)), 0)
    assert distances(array) == {"t": 2.0, "z": -30.0, "y": 5.0, "x": 6.0}
    assert told == []


@pytest.mark.parametrize("nested", [False, True])
def test_invalid_scale_of_version_06_costs_the_coordinates_of_its_axis(
    tmp_path: Path, nested: bool
) -> None:
    ends = {"input": {"path": "0"}, "output": {"name": "world"}}
    steps = [step("scale", [0, 1.0, 30.0, 5.0, 6.0]), step("translation", [0, 0, 9.0, 8.0, 7.0])]
    whole = {"type": "sequence", "transformations": steps} if nested else steps[0]
    image = {
        "coordinateSystems": [{"name": "world", "axes": AXES}],
        "datasets": [{"path": "0", "coordinateTransformations": [{**whole, **ends}]}],
    }
    attributes = {"ome": {"version": "0.6", "multiscales": [image]}}
    array, told = opened(store(tmp_path / "i", "zarr3", attributes), 0)
    assert (array.dims, distances(array)) == (NAMES, {"z": 30.0, "y": 5.0, "x": 6.0})
    assert float(array["y"][0]) == (8.0 if nested else 0.0)
    assert len(told) == 1


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_copies_keep_the_axes_next_to_an_invalid_one(
    tmp_path: Path, source: Any, target: Any
) -> None:
    scales = {path: [0, *scale[1:]] for path, scale in SCALES.items()}
    image = described({path: [step("scale", scale)] for path, scale in scales.items()})
    place = store(tmp_path / "i", source, image_in(source, image))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xarray_n5.copy(place, tmp_path / "copy", format=target)
        copied, _ = opened(tmp_path / "copy", 1)
    assert copied.dims == NAMES
    right = {"z": 30.0, "y": 10.0, "x": 12.0}
    assert {dim: step for dim, step in distances(copied).items() if dim in right} == right


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
def test_images_in_ome_replace_older_ones(
    tmp_path: Path, form: Any, old: float, name: str, disagree: bool
) -> None:
    place = store(tmp_path / "i", form, two_images(old, 5.0, name))
    for level in (0, 1):
        array, told = opened(place, level)
        assert distances(array) == {"t": 2.0, "z": 30.0, "y": 5.0, "x": 6.0}
        assert [("ome" in each and "disagree" in each) for each in told] == [True] * disagree


def test_copy_of_two_images_has_the_one_in_ome(tmp_path: Path) -> None:
    place = store(tmp_path / "i", "zarr3", two_images(7.0, 5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xarray_n5.copy(place, tmp_path / "copy.zarr", format="zarr2")
    array, told = opened(tmp_path / "copy.zarr", 0)
    assert (distances(array)["y"], told) == (5.0, [])


def test_cosem_next_to_ome_is_read(tmp_path: Path) -> None:
    transform = {"axes": ["z", "y", "x"], "units": ["nm"] * 3, "order": "C"}
    numbers = {"scale": [4.0, 4.0, 4.0], "translate": [1.0, 2.0, 3.0]}
    entry = {"path": "0", "transform": transform | numbers}
    axes = AXES[2:]
    steps = [step("scale", [4.0] * 3), step("translation", [1.0, 2.0, 3.0])]
    dataset = {"path": "0", "coordinateTransformations": steps}
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [dataset]}]}
    place = tmp_path / "c.zarr"
    xarray_n5.create_group(place, format="zarr3")
    xarray_n5.create_array(place, "0", shape=(4, 4, 4), chunks=2, dtype="u1", format="zarr3")
    attributes = {"ome": ome, "multiscales": [{"datasets": [entry]}]}
    xarray_n5.open_group(place, mode="r+").attrs.update(attributes)
    geometry = xarray_n5.open_array(place, "0").geometry()
    assert set(geometry.dialects) >= {"cosem", "ngff"}
    assert np.array_equal([axis.offset for axis in geometry.axes], [1.0, 2.0, 3.0])
