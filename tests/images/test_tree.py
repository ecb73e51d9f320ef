"""Images in trees of Datasets: which variables are levels of one, and their names."""

from __future__ import annotations

import numpy as np
import xarray as xr

from xarray_n5.images.tree import datasets_of, images_of_datasets, pyramids_of


def image(*shape: int, name: str = "raw", stored: bool = False) -> xr.Dataset:
    """A Dataset of one variable, which may look like one that was opened from an array."""
    array = xr.DataArray(np.zeros(shape, "u1"), dims=("y", "x")[-len(shape) :], name=name)
    dataset = array.to_dataset()
    if stored:
        dataset.encoding["source"] = "a.n5/array"
    return dataset


def found_in(datasets: dict[str, xr.Dataset]) -> dict[str | None, list[tuple[int, ...]]]:
    """The shapes of the levels of all images by their names."""
    images = images_of_datasets(datasets_of(xr.DataTree.from_dict(datasets)))
    return {image.name: [level.shape for level in image.levels.values()] for image in images}


def test_levels_are_named_like_ones_or_listed() -> None:
    levels = {"s0": image(8, 8), "s1": image(4, 4)}
    assert found_in({f"em/{name}": level for name, level in levels.items()}) == {
        "em/raw": [(8, 8), (4, 4)]
    }
    listed = {"multiscales": [{"datasets": [{"path": "fine/a"}, {"path": "coarse/a"}]}]}
    tree = {"em": xr.Dataset(attrs=listed), "em/fine/a": levels["s0"], "em/coarse/a": levels["s1"]}
    assert found_in(tree) == {"em/raw": [(8, 8), (4, 4)]}


def test_levels_may_be_variables_of_datasets() -> None:
    listed = {"multiscales": [{"datasets": [{"path": "scale0/raw"}, {"path": "scale1/raw"}]}]}
    levels = {
        f"im/scale{n}": image(8 >> n, 8 >> n).assign(line=("x", [1] * (8 >> n))) for n in (0, 1)
    }
    datasets = {"im": xr.Dataset(attrs=listed), **levels}
    assert found_in(datasets) == {"im/raw": [(8, 8), (4, 4)]}
    tree = xr.DataTree.from_dict(datasets)
    assert {name: list(of) for name, of in pyramids_of(tree).items()} == {"im": list(levels)}


def test_what_is_not_coarser_is_an_image_of_its_own() -> None:
    for others in (
        (image(8, 8), image(8, 8)),
        (image(4, 4), image(8, 8)),
        (image(8, 8, name="b"),),
    ):
        tree = {"em/s0": image(8, 8), **{f"em/s{n}": level for n, level in enumerate(others, 1)}}
        assert all(len(levels) == 1 for levels in found_in(tree).values())
        assert len(found_in(tree)) == len(tree)


def test_each_variable_of_levels_is_an_image() -> None:
    levels = [image(size, size).assign(b=image(size, size).raw) for size in (8, 4)]
    levels[0]["only_here"] = ("y", "x"), np.zeros((8, 8))
    assert found_in({"s0": levels[0], "s1": levels[1]}) == {
        "raw": [(8, 8), (4, 4)],
        "b": [(8, 8), (4, 4)],
        "s0/only_here": [(8, 8)],
    }


def test_images_of_stored_arrays_are_named_by_their_paths() -> None:
    tree = {"em/s0": image(8, 8, stored=True), "em/s1": image(4, 4, stored=True)}
    assert list(found_in(tree)) == ["em"]
    assert list(found_in({"em/a": image(8, 8, stored=True)})) == ["em/a"]
    assert list(found_in({"em/s0": image(8, 8, stored=True)})) == ["em"]
    assert list(found_in({"em/s0": image(8, 8, name="s0", stored=True)})) == ["em/s0"]


def test_tables_and_what_is_no_picture_are_left_out() -> None:
    tree = {
        "s00": xr.Dataset(),
        "s00/resolutions": image(4, 3),
        "seg": xr.Dataset(attrs={"painteraData": {"type": "label"}}),
        "seg/data": image(8, 8, name="data"),
        "seg/unique-labels/s0": image(8, 8),
        "line": image(8),
        "words": image(2, 2).astype(str),
        "none": image(0, 2),
    }
    assert list(found_in(tree)) == ["seg/data"]
    (labels,) = images_of_datasets(datasets_of(xr.DataTree.from_dict(tree)))
    assert labels.base.attributes["painteraData"] == {"type": "label"}
