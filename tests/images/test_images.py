"""Views and channels as one image, levels that are chosen, names, what comes from the groups."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from fsspec.implementations.local import LocalFileSystem

from tests.support.geometries import CALIBRATED, MOVED, project
from tests.support.stores import CountingStore
from xarray_n5 import (
    NodeExistsError,
    NodeNotFoundError,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    to_n5,
)
from xarray_n5 import pyramid as make_pyramid
from xarray_n5.errors import MissingChunkError

if TYPE_CHECKING:
    from pathlib import Path


# Views and channels as one image


@pytest.fixture
def views(tmp_path: Path) -> Path:
    """Two setups with three timepoints and two levels; one view is not stored."""
    place = tmp_path / "views.n5"
    for setup in (0, 1):
        factors = {"downsamplingFactors": [[1, 1, 1], [2, 2, 1]]}
        create_group(place, f"setup{setup}", attributes=factors)
        for timepoint in (0, 1, 2):
            if (timepoint, setup) == (1, 1):
                continue
            for level, shape in enumerate([(2, 4, 6), (2, 2, 3)]):
                path = f"setup{setup}/timepoint{timepoint}/s{level}"
                array = create_array(place, path, shape=shape, dtype="u2", chunks=(1, 2, 3))
                array[...] = np.arange(array.size).reshape(shape) + 1000 * setup + 100 * timepoint
    return place


ALIKE = {(t, s): [CALIBRATED] for t in (0, 1, 2) for s in (0, 1)}


def test_views_that_are_alike_are_one_image(views: Path) -> None:
    views.with_suffix(".xml").write_bytes(project(ALIKE))
    tree: Any = xr.open_datatree(views, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1"]
    image = tree["s1/views"]
    assert image.dims == ("t", "setup", "z", "y", "x")
    assert image.shape == (3, 2, 2, 2, 3)
    assert image.t.values.tolist() == [0, 1, 2]
    assert image.setup.values.tolist() == [0, 1]
    assert [float(image[axis][0]) for axis in "zyx"] == [0, 2, 2]
    assert image.x.attrs == {"units": "um"}
    stored = open_array(views, "setup1/timepoint2/s1")[...]
    np.testing.assert_array_equal(image.sel(t=2, setup=1), stored)
    assert not image.sel(t=1, setup=1).any()
    one = xr.open_dataset(views, engine="n5", level=1, chunks={})["views"]
    assert one.encoding["preferred_chunks"] == {"t": 1, "setup": 1, "z": 1, "y": 2, "x": 3}
    np.testing.assert_array_equal(one, image)
    with pytest.raises(ValueError, match="levels s0, s1"):
        xr.open_dataset(views, engine="n5")


def test_stacks_are_indexed_as_numpy_is(views: Path) -> None:
    image = xr.open_dataset(views, engine="n5", level=0)["views"]
    values = image.load().values
    image = xr.open_dataset(views, engine="n5", level=0)["views"]
    key: Any
    for key in (
        {"t": 0},
        {"t": [2, 0], "x": [5, 0]},
        {"t": slice(None, None, -1), "setup": 1, "y": slice(1, 3)},
        *({"y": slice(*key)} for key in ((4, 4, -2), (0, 3, -1), (3, 0, -2), (9, 2))),
        {"t": [], "z": 1},
        {"setup": np.array([1, 0]), "t": np.array([0]), "z": 0, "y": 0},
        {"t": xr.DataArray([0, 2], dims="p"), "x": xr.DataArray([1, 5], dims="p")},
    ):
        expected = xr.DataArray(values, dims=image.dims).isel(key)
        np.testing.assert_array_equal(image.isel(key), expected)


async def test_stacks_load_asynchronously(views: Path) -> None:
    image = xr.open_dataset(views, engine="n5", level=0)["views"].isel(t=0)
    loaded = await image.load_async()
    assert loaded.shape == (2, 2, 4, 6)


def test_a_view_that_is_not_stored_is_a_missing_chunk(views: Path) -> None:
    image = xr.open_dataset(views, engine="n5", level=0, missing="error")["views"]
    assert image.isel(t=0).load().shape == (2, 2, 4, 6)
    with pytest.raises(MissingChunkError, match="t=1, setup=1"):
        image.isel(t=1).load()


def test_views_at_different_places_are_an_image_a_setup(views: Path) -> None:
    apart = {(t, s): [MOVED, CALIBRATED] if s else [CALIBRATED] for t in (0, 1, 2) for s in (0, 1)}
    views.with_suffix(".xml").write_bytes(project(apart))
    tree: Any = xr.open_datatree(views, engine="n5")
    assert list(tree.groups) == [
        *("/", "/setup0", "/setup1", "/setup0/s0", "/setup0/s1", "/setup1/s0", "/setup1/s1")
    ]
    assert tree["setup0/s0/setup0"].sizes == {"t": 3, "z": 2, "y": 4, "x": 6}
    assert tree["setup1/s0"].t.values.tolist() == [0, 2]
    assert float(tree["setup1/s0"].x[0]) == 100
    one = xr.open_dataset(views, engine="n5", group="setup1", level=-1)["setup1"]
    np.testing.assert_array_equal(one, tree["setup1/s1/setup1"])


def test_views_that_nothing_joins_are_arrays_each(views: Path) -> None:
    drifting = {(t, s): [f"1 0 0 {t} 0 1 0 {s} 0 0 1 0"] for t in (0, 1, 2) for s in (0, 1)}
    views.with_suffix(".xml").write_bytes(project(drifting))
    tree: Any = xr.open_datatree(views, engine="n5")
    assert "/setup0/timepoint1/s0" in tree.groups
    # No transform scales to physical units: a unit of the world is a voxel of 0.5 um.
    assert tree["setup1/timepoint2/s0"]["y"].values.tolist() == [0.5, 1, 1.5, 2]
    with pytest.raises(ValueError, match="differ in shape, type, position or levels"):
        xr.open_dataset(views, engine="n5", level=0)


def test_channels_are_one_image(tmp_path: Path) -> None:
    place = tmp_path / "channels.n5"
    for channel in (0, 2, 10):
        for level, factor in enumerate((1, 2)):
            create_array(
                place,
                f"sample/c{channel}/s{level}",
                shape=(4, 8 // factor, 8 // factor),
                dtype="u1",
                attributes={
                    "pixelResolution": {"unit": "um", "dimensions": [0.1, 0.1, 1]},
                    "downsamplingFactors": [factor, factor, 1],
                },
            )[...] = channel
    tree: Any = xr.open_datatree(place, engine="n5")
    assert tree["sample/s1/sample"].sizes == {"c": 3, "z": 4, "y": 4, "x": 4}
    assert tree["sample/s1"].c.values.tolist() == [0, 2, 10]
    assert (tree["sample/s0/sample"].sel(c=10) == 10).all()
    assert float(tree["sample/s1"].x[0]) == 0.05
    create_group(place, "sample/other")
    assert "/sample/c2/s1" in xr.open_datatree(place, engine="n5").groups


@pytest.mark.parametrize(
    ("setups", "times", "levels", "gets", "lists"), [(1, 20, 1, 6, 6), (30, 1, 2, 8, 36)]
)
def test_an_image_of_many_views_is_read_in_few_batches(
    setups: int, times: int, levels: int, gets: int, lists: int
) -> None:
    store = CountingStore()
    for setup, time, level in np.ndindex(setups, times, levels):
        path = f"setup{setup}/timepoint{time}/s{level}"
        create_array(store, path, shape=(2, 3, 4), dtype="u1")
    store.requests()
    opened = xr.open_dataset(store, engine="n5", level=0)  # type: ignore[arg-type]
    (image,) = opened.data_vars.values()
    assert (image.sizes.get("setup", 1), image.sizes["t"]) == (setups, times)
    asked = store.requests()
    assert asked["get_many"] <= gets
    assert asked["list"] <= lists


# Levels chosen


@pytest.fixture
def pyramid(tmp_path: Path) -> Path:
    """Three levels of 4 x 4 x 40 nm, by factors 1 and 2, then 1 and 4."""
    place = tmp_path / "p.n5"
    group = {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]}
    create_group(place, "em", attributes=group)
    for level, factor in enumerate((1, 2, 4)):
        create_array(
            place,
            f"em/s{level}",
            shape=(8, 16 // factor, 16 // factor),
            dtype="u1",
            attributes={"downsamplingFactors": [factor, factor, 1]},
        )
    return place


@pytest.mark.parametrize(
    ("level", "name"),
    [
        *((0, "s0"), ("s1", "s1"), (np.int64(1), "s1")),
        *(({"x": 8}, "s1"), ({"x": 7.9}, "s0"), ({"x": 100.0}, "s2"), ({"x": 0.1}, "s0")),
        *(({"x": 8, "z": 40}, "s1"), ({"z": 1}, "s0"), ({"z": 40}, "s2")),
    ],
)
def test_a_level_is_chosen_by_number_or_by_distance(pyramid: Path, level: Any, name: str) -> None:
    opened = xr.open_dataset(pyramid, engine="n5", group="em", level=level)
    assert list(opened) == ["em"]
    assert opened["em"].encoding["source"] == f"{pyramid}/em/{name}"


@pytest.mark.parametrize("level", [0, 1, "s1", {"x": 8.0}])
def test_a_level_has_no_attributes_of_other_levels(tmp_path: Path, level: Any) -> None:
    axes = {dim: (dim, 4.0 * np.arange(16), {"units": "nm"}) for dim in "zyx"}
    values = xr.DataArray(np.ones((16, 16, 16), "u1"), axes, ("z", "y", "x"))
    make_pyramid(values, tmp_path / "a.n5", levels=2)
    group = open_group(tmp_path / "a.n5", mode="r+")
    assert group.attrs.keys() > {"multiscales", "downsamplingFactors", "resolution"}
    group.attrs["made by"] = "me"
    opened = xr.open_dataset(tmp_path / "a.n5", engine="n5", level=level)
    assert opened.attrs == {"made by": "me"}
    # What is stored of one level speaks of one level; a tree has all of them as nodes.
    tree = xr.open_datatree(tmp_path / "a.n5", engine="n5")
    assert tree.attrs == opened.attrs


def test_lists_of_levels_that_lead_nowhere_are_ignored(tmp_path: Path) -> None:
    outside = {"multiscales": [{"datasets": ["../a/whole", "", None, {"path": 3}, "/s0"]}]}
    create_group(tmp_path, "e", attributes=outside)
    create_array(tmp_path, "e/s0", shape=(3,), dtype="u1")
    assert list(xr.open_dataset(tmp_path, engine="n5", group="e", level=0)) == ["e"]
    for name, size in (("0", 8), ("1", 4), ("10", 2)):
        create_array(tmp_path, f"b/{name}", shape=(size,), dtype="u1")
    coarsest = xr.open_dataset(tmp_path, engine="n5", group="b", level=2)["b"]
    assert coarsest.encoding["source"].endswith("b/10")
    create_array(tmp_path, "c/one", shape=(size,), dtype="u1")
    with pytest.raises(NodeNotFoundError, match="no pyramid"):
        xr.open_dataset(tmp_path, engine="n5", group="c", level=0)


# Names


def test_an_array_is_the_same_whichever_way_it_is_named(pyramid: Path) -> None:
    whole = xr.open_dataset(pyramid, engine="n5", group="em/s1")
    for url, group in (
        (pyramid / "em", "s1"),
        (pyramid / "em/s1", None),
        (f"{pyramid}/em/s1/", ""),
    ):
        again = xr.open_dataset(url, engine="n5", group=group)
        xr.testing.assert_identical(again, whole)
        assert again["em"].encoding == whole["em"].encoding


# What must not vanish, and what must not be invented


def names_in(place: Path, **options: Any) -> set[str]:
    """The names of all arrays in a tree."""
    tree = xr.open_datatree(place, engine="n5", **options)
    return {str(name) for node in tree.subtree for name in node.data_vars}


def put(place: Path, path: str, shape: tuple[int, ...] = (2, 3, 4), **attributes: Any) -> None:
    """An array of ones."""
    create_array(place, path, shape=shape, dtype="u1", attributes=attributes)[...] = 1


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (
            [
                *("setup0/timepoint0/s0", "setup0/timepoint0/mask"),
                *("setup0/labels", "setup0/other/deep"),
            ],
            {"a", "mask", "labels", "deep"},
        ),
        (["setup0/timepoint0/s0", "setup0/timepoint1/s0", "setup0/timepoint1/s1"], {"setup0"}),
        (["setup0/timepoint0/s0", "c0/t", "timepoint7/x"], {"a", "t", "x"}),
        (["c0/s0", "c0/mask", "c1/s0", "c1/deep/er"], {"a", "mask", "er"}),
        (["setup0/timepoint0/s0", "s0"], {"setup0", "s0"}),
        (["setup0/timepoint0/s0", "setup1/x"], {"a", "x"}),
    ],
)
def test_no_array_vanishes_from_a_tree(tmp_path: Path, paths: list[str], names: set[str]) -> None:
    for path in paths:
        put(tmp_path / "a.n5", path)
    tree = xr.open_datatree(tmp_path / "a.n5", engine="n5")
    sizes = [node.ds[name].size for node in tree.subtree for name in node.data_vars]
    assert sum(sizes) == 24 * len(paths)
    assert names_in(tmp_path / "a.n5") == names


@pytest.mark.parametrize("more", ["setup0", "setup1"])
def test_views_with_more_levels_do_not_hide_them(tmp_path: Path, more: str) -> None:
    for path in ("setup0/timepoint0/s0", "setup1/timepoint0/s0"):
        put(tmp_path, path)
    put(tmp_path, f"{more}/timepoint0/s1")
    with pytest.raises(ValueError, match="differ in shape, type, position or levels"):
        xr.open_dataset(tmp_path, engine="n5", level=1)
    tree = xr.open_datatree(tmp_path, engine="n5")
    assert f"/{more}/s1" in tree.groups
    assert "/s0" not in tree.groups


def test_a_view_that_cannot_be_read_does_not_pass_for_zeros(views: Path) -> None:
    (views / "setup1/timepoint2/s0/attributes.json").write_text("{bad")
    with pytest.warns(UserWarning, match="'s0' is left out"):
        tree = xr.open_datatree(views, engine="n5")
    assert "/setup1/timepoint2/s1" in tree.groups
    assert "/setup1/timepoint2/s0" not in tree.groups
    with pytest.raises(ValueError, match="differ"):
        xr.open_dataset(views, engine="n5", level=0)


def test_each_timepoint_has_its_own_group(tmp_path: Path) -> None:
    for timepoint, step in enumerate((1, 5)):
        path = f"setup0/timepoint{timepoint}"
        create_group(tmp_path, path, attributes={"multiScale": True, "resolution": [step] * 3})
        put(tmp_path, f"{path}/s0")
    tree: Any = xr.open_datatree(tmp_path, engine="n5")
    assert tree["setup0/timepoint1/s0"].x.values.tolist() == [0, 5, 10, 15]


def test_only_attributes_that_all_views_share_are_the_images(tmp_path: Path) -> None:
    for channel, name in enumerate(("DAPI", "GFP")):
        put(tmp_path, f"c{channel}/s0", stain=name, gain=2)
    (image,) = xr.open_dataset(tmp_path, engine="n5").data_vars.values()
    assert image.attrs == {"gain": 2}


def test_setups_and_levels_are_dropped_by_name(views: Path) -> None:
    assert list(xr.open_datatree(views, engine="n5", drop_variables="s0").groups) == ["/", "/s1"]
    image = xr.open_dataset(views, engine="n5", level=0)["views"]
    tree: Any = xr.open_datatree(views, engine="n5", drop_variables="setup1")
    assert tree["s0/views"].sizes["setup"] == 1
    xr.testing.assert_equal(tree["s0/views"].load(), image.isel(setup=slice(0, 1)).load())


def test_two_spellings_of_a_unit_are_one(tmp_path: Path) -> None:
    for name, unit in (("a", "nm"), ("b", "nanometer")):
        put(tmp_path, name, pixelResolution={"dimensions": [4, 4, 40], "unit": unit})
    assert xr.open_dataset(tmp_path, engine="n5").z.attrs == {"units": "nm"}
    put(tmp_path, "c", pixelResolution={"dimensions": [4, 4, 40], "unit": "um"})
    with pytest.raises(ValueError, match="coordinates 'z' differ"):
        xr.open_dataset(tmp_path, engine="n5")


def test_the_unit_of_the_values_stays_an_attribute(tmp_path: Path) -> None:
    put(tmp_path, "a", axes=["x", "y", "z"], resolution=[4, 4, 40], units="counts")
    opened = xr.open_dataset(tmp_path, engine="n5", group="a")
    assert opened["a"].attrs == {"units": "counts"}
    assert opened.z.attrs == {}


def test_a_tree_has_all_levels(pyramid: Path) -> None:
    with pytest.raises(ValueError, match="a tree has all levels"):
        xr.open_datatree(pyramid, engine="n5", level=0)


def test_a_level_reads_no_other_levels_surroundings() -> None:
    store = CountingStore()
    for level in range(10):
        create_array(store, f"s{level}", shape=(4,), dtype="u1")
    store.requests()
    xr.open_dataset(store, engine="n5", level=0)  # type: ignore[arg-type]
    assert sum(store.requests().values()) <= 6


def test_replacing_an_array_that_is_read_is_refused_by_whatever_names(tmp_path: Path) -> None:
    place = tmp_path / "o.n5"
    create_array(place, "n.n5/y", shape=(4,), dtype="u1", chunks=2)[...] = [1, 2, 3, 4]
    lazy = from_n5(place, "n.n5/y")
    assert lazy.name == from_n5(place / "n.n5", "y").name
    with pytest.raises(NodeExistsError, match="computed from"):
        to_n5(lazy + 0, place / "n.n5", "y", mode="w")
    assert open_array(place, "n.n5/y")[...].tolist() == [1, 2, 3, 4]


def test_a_member_of_an_archive_is_the_same_whichever_way_it_is_named(tmp_path: Path) -> None:
    place = tmp_path / "o.n5"
    create_group(place, "g", attributes={"axes": ["q"], "units": ["nm"], "resolution": [4]})
    put(place, "g/s0", (3,))
    shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path, "o.n5")
    for url, group in (
        (f"zip://o.n5/g/s0::{tmp_path}/a.zip", None),
        (f"zip://o.n5::{tmp_path}/a.zip", "g/s0"),
    ):
        opened = xr.open_dataset(url, engine="n5", group=group)
        assert opened.q.values.tolist() == [0, 4, 8]


def test_what_a_user_may_not_see_around_an_array_does_not_close_it(tmp_path: Path) -> None:
    place = tmp_path / "o.n5"
    create_group(place, "g", attributes={"axes": ["q"]})
    put(place, "g/s0", (3,))

    class Guarded(LocalFileSystem):  # type: ignore[misc]
        """A file system that shows only what is in the array's own directory."""

        protocol = "guarded"

        def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
            if "/s0/" not in path:
                raise PermissionError(path)
            return super().cat_file(path, *args, **kwargs)

    with pytest.warns(UserWarning, match="cannot be read"):
        opened = xr.open_dataset((Guarded(), f"{place}/g/s0"), engine="n5")  # type: ignore[arg-type]
    assert opened["s0"].dims == ("x",)


# One name at every level


def names_at(place: Path, path: str) -> tuple[list[str], list[str], list[str]]:
    """The names of variables in a tree, by level=, and of each level by its own path."""
    tree: Any = xr.open_datatree(place, engine="n5", group=path)
    by_level = [xr.open_dataset(place, engine="n5", group=path, level=n) for n in (0, 1)]
    alone = [xr.open_dataset(place, engine="n5", group=f"{path}/s{n}") for n in (0, 1)]
    in_tree = [tree[f"s{n}"].to_dataset() for n in (0, 1)]
    first, second, third = (
        [str(*level) for level in levels] for levels in (in_tree, by_level, alone)
    )
    return first, second, third


COSEM = {"datasets": [{"path": "s0"}, {"path": "s1"}]}


@pytest.mark.parametrize(
    ("group", "level", "alone"),
    [
        ({"multiscales": [COSEM]}, {}, True),
        ({"ome": {"multiscales": [{**COSEM, "name": "/another"}]}}, {}, True),
        ({"downsamplingFactors": [[1, 1], [2, 2]]}, {}, True),
        ({"scales": [[1, 1], [2, 2]]}, {}, True),
        ({"multiScale": True}, {}, True),
        ({}, {"downsamplingFactors": [2, 2]}, True),
        ({}, {}, False),
        ({"multiscales": [{"datasets": [{"path": "other"}]}], "scales": "coarse"}, {}, False),
    ],
)
def test_the_variable_has_the_images_name_at_every_level(
    tmp_path: Path, group: dict[str, Any], level: dict[str, Any], alone: bool
) -> None:
    for path in ("em/fibsem-uint16", ""):
        place = tmp_path / f"jrc.{len(path)}.n5"
        create_group(place, path, attributes=group)
        for number, size in enumerate((8, 4)):
            put(place, f"{path}/s{number}", (size, size), **level)
        name = path.rpartition("/")[2] or f"jrc.{len(path)}"
        by_path = [name] * 2 if alone else ["s0", "s1"]
        assert names_at(place, path) == ([name] * 2, [name] * 2, by_path)


def test_an_image_may_be_called_like_a_dimension(tmp_path: Path) -> None:
    for number, size in enumerate((8, 4)):
        put(tmp_path, f"x/s{number}", (size, size), downsamplingFactors=[2**number] * 2)
    for number, size in enumerate((8, 4)):
        opened = xr.open_dataset(tmp_path, engine="n5", group="x", level=number)
        assert {str(name): image.dims for name, image in opened.items()} == {"x_data": ("y", "x")}
        assert opened.sizes["x"] == size


def test_a_variable_that_is_called_like_a_level_keeps_its_name(tmp_path: Path) -> None:
    stored = xr.Dataset({"s0": ("x", [1.0, 2.0])}, attrs={"multiscales": [COSEM]})
    for place in (tmp_path / "a.n5", tmp_path / "a.zarr"):
        stored.n5.to_n5(place)
        xr.testing.assert_identical(xr.open_dataset(place, engine="n5"), stored)
        assert list(xr.open_dataset(place, engine="n5", group="s0")) == ["s0"]


def test_arrays_that_would_have_one_name_keep_their_own(tmp_path: Path) -> None:
    create_group(tmp_path, "em", attributes={"multiScale": True})
    for name in ("s0", "s1"):
        put(tmp_path, f"em/{name}", (4,))
    assert list(xr.open_dataset(tmp_path, engine="n5", group="em")) == ["s0", "s1"]
