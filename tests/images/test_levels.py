"""Levels of any names: which arrays are levels, and how users choose one, in every function."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xarray_n5
from xarray_n5 import napari
from xarray_n5.errors import N5Error
from xarray_n5.images.find import levels_of
from xarray_n5.images.tree import datasets_of, images_of_datasets, levels_of_tree
from xarray_n5.viewing.layers import layers_of

if TYPE_CHECKING:
    from pathlib import Path

FORMATS: list[Any] = ["n5", "zarr2", "zarr3"]

NAMES: dict[str, tuple[str, ...]] = {
    "numbers": ("0", "1", "2"),
    "s and numbers": ("s0", "s1", "s2"),
    "gaps": ("s0", "s3", "s7"),
    "words": ("full", "half", "quarter"),
    "unsorted": ("m", "a", "z"),
    "underscores": ("level_0", "level_1", "level_2"),
    "in groups": ("scale0/image", "scale1/image", "scale2/image"),
    "in deep groups": ("a/b/c", "a/b/d", "e/f"),
}
SIZES = (24, 12, 6)
STEPS = (0.5, 1.0, 2.0)

everywhere = pytest.mark.parametrize(
    ("form", "names"),
    [
        pytest.param(form, names, id=f"{form}-{kind}")
        for form in FORMATS
        for kind, names in NAMES.items()
    ],
)


def store(place: Path, form: Any, names: tuple[str, ...]) -> Path:
    """A pyramid that an image of OME-NGFF lists."""
    xarray_n5.create_group(place, format=form)
    datasets = []
    for path, size, step in zip(names, SIZES, STEPS, strict=True):
        array = xarray_n5.create_array(
            place, path, shape=(size, size), chunks=6, dtype="u2", format=form
        )
        array[...] = np.arange(size * size).reshape(size, size)
        steps = [
            {"type": "scale", "scale": [step, step]},
            {"type": "translation", "translation": [(step - 0.5) / 2] * 2},
        ]
        datasets.append({"path": path, "coordinateTransformations": steps})
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    image = {"axes": axes, "datasets": datasets}
    attributes: dict[str, Any] = {"multiscales": [{"version": "0.4", **image}]}
    if form == "zarr3":
        attributes = {"ome": {"version": "0.5", "multiscales": [image]}}
    xarray_n5.open_group(place, mode="r+").attrs.update(attributes)
    return place


def opened(place: Path) -> xr.DataTree:
    """The tree of a container."""
    return xr.open_datatree(place, engine="n5")


def listed(place: Path) -> list[str]:
    """The paths that the images of a group list."""
    attributes = json.loads(json.dumps(dict(xarray_n5.open_group(place).attrs)))
    images = attributes.get("ome", attributes)["multiscales"]
    return [entry["path"] for image in images for entry in image["datasets"]]


CHOICES: list[tuple[Any, int]] = [
    *((number, number % 3) for number in (0, 1, 2, -1, -2, -3)),
    ({"x": 0.7}, 0),
    ({"x": 1.5, "y": 1.0}, 1),
    ({"y": 9.0}, 2),
]


@everywhere
def test_levels_are_chosen_alike_by_every_function(
    tmp_path: Path, form: Any, names: tuple[str, ...]
) -> None:
    place = store(tmp_path / "m", form, names)
    tree = opened(place)
    choices = [*CHOICES, *((name, number) for number, name in enumerate(names))]
    for level, number in choices:
        dataset = xr.open_dataset(place, engine="n5", level=level)
        assert (dataset.sizes["x"], float(dataset.x[1] - dataset.x[0])) == (
            SIZES[number],
            STEPS[number],
        )
        rows = tree.n5.interp(x=[2.0, 3.0], level=level)
        assert rows.sizes["y"] == SIZES[number]
        like = tree.n5.interp_like(dataset.isel(x=slice(2)), level=level)
        assert dict(like.sizes) == {"y": SIZES[number], "x": 2}


REFUSED: list[Any] = [
    *(3, -4, "s9", "1.0", 1.5, True),
    *({"t": 1.0}, {"x": -1.0}, {"x": float("nan")}, {"x": "2"}, {"x": [1]}, {}),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["s and numbers", "words", "in groups"])
def test_levels_that_do_not_exist_are_refused_by_every_function(
    tmp_path: Path, form: Any, kind: str
) -> None:
    place = store(tmp_path / "m", form, NAMES[kind])
    tree = opened(place)
    for level in REFUSED:
        with pytest.raises((N5Error, ValueError, TypeError)) as refused:
            xr.open_dataset(place, engine="n5", level=level)
        with pytest.raises(refused.type):
            tree.n5.interp(x=[2.0, 3.0], level=level)


@everywhere
def test_trees_have_the_levels_of_the_file(
    tmp_path: Path, form: Any, names: tuple[str, ...]
) -> None:
    place = store(tmp_path / "m", form, names)
    tree = opened(place)
    assert list(levels_of(xarray_n5.open_group(place))) == list(names)
    assert list(levels_of_tree(tree)) == list(names)
    (image,) = images_of_datasets(datasets_of(tree))
    assert list(image.levels) == list(names)
    # Without a level, the coarsest that is fine enough is interpolated.
    assert tree.n5.interp(x=[1.0, 2.0, 3.0]).sizes["y"] == SIZES[1]


@everywhere
@pytest.mark.parametrize("target", FORMATS)
def test_trees_and_copies_keep_the_pyramid(
    tmp_path: Path, form: Any, names: tuple[str, ...], target: Any
) -> None:
    place = store(tmp_path / "m", form, names)
    tree = opened(place)
    written, copied = tmp_path / "written", tmp_path / "copied"
    tree.n5.to_n5(written, format=target)
    xarray_n5.copy(place, copied, format=target)
    for path in (written, copied):
        group = xarray_n5.open_group(path)
        assert listed(path) == list(names)
        assert all(isinstance(group[name], xarray_n5.Array) for name in names)
        for number, (size, step) in enumerate(zip(SIZES, STEPS, strict=True)):
            level = xr.open_dataset(path, engine="n5", level=number)
            assert (level.sizes["x"], float(level.x[1] - level.x[0])) == (size, step)
            np.testing.assert_array_equal(
                next(iter(level.data_vars.values())), np.arange(size * size).reshape(size, size)
            )
    xr.testing.assert_identical(opened(written).load(), tree.load())
    # What was written is a tree like the source, also for the next write.
    opened(written).n5.to_n5(tmp_path / "again", format=form)
    assert listed(tmp_path / "again") == list(names)


@everywhere
def test_viewers_and_new_pyramids_take_levels_of_any_names(
    tmp_path: Path, form: Any, names: tuple[str, ...]
) -> None:
    place = store(tmp_path / "m", form, names)
    ((data, facts, _),) = napari.read(place)
    assert [level.shape for level in data] == [(size, size) for size in SIZES]
    assert list(facts["scale"]) == [STEPS[0]] * 2
    (layer,) = layers_of(opened(place), None)
    assert [level.data.shape for level in layer.levels] == [(size, size) for size in SIZES]
    for number, size in enumerate(SIZES):
        dataset = xr.open_dataset(place, engine="n5", level=number)
        (image,) = dataset.data_vars.values()
        again = tmp_path / f"again-{number}"
        xarray_n5.pyramid(image, again, factors=2, levels=1, format=form)
        coarser = xr.open_dataset(again, engine="n5", level=-1)
        assert (coarser.sizes["x"], float(coarser.x[1] - coarser.x[0])) == (
            size // 2,
            2 * STEPS[number],
        )


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_pyramid_of_the_same_names_is_replaced(
    tmp_path: Path, form: Any, kind: str, mode: Any
) -> None:
    tree = opened(store(tmp_path / "m", form, NAMES[kind])).load()
    place = store(tmp_path / "old", form, NAMES[kind])
    tree.n5.to_n5(place, mode=mode)
    assert listed(place) == list(NAMES[kind])
    xr.testing.assert_identical(opened(place).load(), tree)


@pytest.mark.parametrize("form", FORMATS)
def test_trees_that_are_not_pyramids_list_no_groups(tmp_path: Path, form: Any) -> None:
    tree = opened(store(tmp_path / "m", form, NAMES["words"])).load()
    tree["half"] = tree["half"].to_dataset().assign(more=("x", np.arange(SIZES[1])))
    tree.n5.to_n5(tmp_path / "groups", format=form)
    group = xarray_n5.open_group(tmp_path / "groups")
    assert isinstance(group["half"], xarray_n5.Group)
    assert not {"multiscales", "ome"} & group.attrs.keys()


def test_levels_of_datasets_are_interpolated(tmp_path: Path) -> None:
    """Each level is a variable of a Dataset with arrays of coordinates, as xarray writes it."""
    place = tmp_path / "m.zarr"
    for number, (size, step) in enumerate(zip(SIZES, STEPS, strict=True)):
        places = (step - 0.5) / 2 + step * np.arange(size)
        values = (("y", "x"), np.ones((size, size), "u1"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            xr.Dataset({"image": values}, {"y": places, "x": places}).to_zarr(
                place, group=f"scale{number}", zarr_format=2, consolidated=False
            )
    steps = [
        [
            {"type": "scale", "scale": [step, step]},
            {"type": "translation", "translation": [(step - 0.5) / 2] * 2},
        ]
        for step in STEPS
    ]
    datasets = [
        {"path": f"scale{n}/image", "coordinateTransformations": transforms}
        for n, transforms in enumerate(steps)
    ]
    axes = [{"name": name, "type": "space"} for name in "yx"]
    (place / ".zattrs").write_text(
        json.dumps({"multiscales": [{"version": "0.4", "axes": axes, "datasets": datasets}]})
    )
    tree = opened(place)
    for level, size in [(-1, SIZES[2]), ("scale1/image", SIZES[1]), (0, SIZES[0])]:
        assert tree.n5.interp(x=[1.0, 2.0], level=level).sizes["y"] == size
        assert xr.open_dataset(place, engine="n5", level=level).sizes["y"] == size
    written = tmp_path / "written"
    tree.n5.to_n5(written, format="zarr2")
    assert listed(written) == ["scale0/image", "scale1/image", "scale2/image"]
    for number, level in enumerate(listed(written)):
        array = xarray_n5.open_group(written)[level]
        assert isinstance(array, xarray_n5.Array)
        assert array.shape == (SIZES[number],) * 2
    with_more = tree.copy()
    with_more["scale1"] = tree["scale1"].to_dataset().assign(more=("x", np.arange(SIZES[1])))
    with_more.n5.to_n5(tmp_path / "more", format="zarr2")
    more = xarray_n5.open_group(tmp_path / "more")
    assert all(isinstance(more[level], xarray_n5.Array) for level in listed(tmp_path / "more"))


def test_a_list_of_levels_is_believed_before_their_names(tmp_path: Path) -> None:
    place = store(tmp_path / "m.n5", "n5", NAMES["words"])
    for number in range(2):
        xarray_n5.create_array(place, f"s{number}", shape=(5 - number, 5), chunks=2, dtype="u1")
    tree = opened(place)
    assert list(levels_of_tree(tree)) == list(NAMES["words"])
    assert tree.n5.interp(x=[2.0], level=-1).sizes["y"] == SIZES[2]
    assert xr.open_dataset(place, engine="n5", level=-1).sizes["y"] == SIZES[2]
