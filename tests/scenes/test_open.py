"""Scenes of OME-Zarr 0.6 open as the images in them, each at its position in the world."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
import xarray_n5.bdv
from tests.support.exhaustive import seeds
from tests.support.ngff_points import SPEC
from tests.support.scenes import image_attributes, system, write_image, write_scene
from tests.support.stores import CountingStore
from xarray_n5 import MetadataError, N5Error, NodeNotFoundError
from xarray_n5.cli import main

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TURN = [[1, 0, 0, 10], [0, 0, 1, 20], [0, -1, 0, 30]]

SHAPE = (4, 6, 8)

NUMBERS = np.arange(np.prod(SHAPE)).reshape(SHAPE)


def ends(path: str, to: str = "world", name: str = "physical") -> dict[str, Any]:
    """The ends of an edge from an image to a system of the scene."""
    return {"input": {"path": path, "name": name}, "output": {"name": to}}


def tiles(url: Path, offsets: Mapping[str, Sequence[float]], **how: Any) -> Path:
    """Write a scene of images that are alike, each moved by an offset."""
    edges = [
        {"type": "translation", "translation": [*offset], **ends(path)}
        for path, offset in offsets.items()
    ]
    write_scene(url, edges, [system("world", "zyx")])
    for path in offsets:
        write_image(url, path, SHAPE, image_attributes("zyx", (2, 0.5, 0.25), **how))
    return url


def run(*arguments: object) -> Any:
    """Run the command line."""
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


def official(name: str) -> Any:
    """An example of a scene from the specification."""
    path = SPEC / "examples/scene" / name
    if not path.exists():
        pytest.skip("the specification is not here")
    return json.loads(path.read_text("utf-8"))["attributes"]["ome"]["scene"]


def test_images_that_are_alike_are_joined_along_a_dimension(tmp_path: Path) -> None:
    url = tiles(tmp_path / "s.zarr", {"a": (0, 0, 0), "b/c": (0, 0, 1.5)}, levels=2)
    tree = xr.open_datatree(url, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1"]
    ds = xr.open_dataset(url, engine="n5", level=0, chunks={})
    assert ds["s"].dims == ("image", "z", "y", "x")
    assert ds.image.values.tolist() == ["a", "b/c"]
    assert ds.x.values[:3].tolist() == [0, 0.25, 0.5]
    assert ds.affine.attrs["units"] == "micrometer"
    assert ds.affine.attrs["system"] == "world"
    assert ds.n5.to_world([1, 1, 1]).tolist() == [[2, 0.5, 0.25], [2, 0.5, 1.75]]
    coarse = tree["s1"].to_dataset()
    assert coarse.n5.to_world([0, 0, 0])[1].tolist() == [1, 0.25, 1.625]
    assert np.array_equal(ds["s"].sel(image="b/c"), NUMBERS)
    assert np.array_equal(coarse["s"][0], NUMBERS[::2, ::2, ::2])


def test_a_crop_keeps_its_position(tmp_path: Path) -> None:
    url = tiles(tmp_path / "s.zarr", {"a": (5, 0, 0), "b": (0, 0, 1.5)})
    ds = xr.open_dataset(url, engine="n5")
    crop = ds.isel(image=1, z=slice(1, 4), x=slice(2, 8, 2))
    assert crop.n5.to_world([0, 0, 1]).tolist() == [2, 0, 2.5]
    assert ds.isel(image=0).n5.from_world([5, 1, 0.5]).tolist() == [0, 2, 2]


@pytest.mark.filterwarnings("ignore:.*its scene are not applied")
def test_images_that_differ_are_nodes_of_the_tree(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    edges = [{"type": "affine", "affine": TURN, **ends(path)} for path in ("a", "b")]
    write_scene(url, edges, [system("world", "zyx")])
    write_image(url, "a", SHAPE, image_attributes("zyx", (2, 1, 1)))
    write_image(url, "b", (2, 6, 8), image_attributes("zyx", (2, 1, 1)))
    tree = xr.open_datatree(url, engine="n5")
    assert {*tree.groups} == {"/", "/a", "/b", "/a/s0", "/b/s0"}
    assert tree["b/s0"].to_dataset().n5.to_world([1, 2, 3]).tolist() == [12, 23, 28]
    assert str(tree["b/s0"].image.values) == "b"
    with pytest.raises(ValueError, match=r"differ in shape, type, levels or axes \(a, b\)"):
        xr.open_dataset(url, engine="n5")
    assert xr.open_dataset(url, engine="n5", group="a/s0").sizes == {"z": 4, "y": 6, "x": 8}


def test_a_scene_inside_a_container_opens_with_it(tmp_path: Path) -> None:
    xarray_n5.create_group(tmp_path / "c.zarr", format="zarr3")
    tiles(tmp_path / "c.zarr" / "inner", {"a": (0, 0, 0), "b": (0, 0, 1)})
    tree = xr.open_datatree(tmp_path / "c.zarr", engine="n5")
    assert tree["inner/s0"]["inner"].sizes["image"] == 2
    inner = xr.open_dataset(tmp_path / "c.zarr", engine="n5", group="inner")
    assert inner["inner"].sizes["image"] == 2


def test_other_systems_of_the_scene_are_chosen_by_name(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    to_stage = {"type": "scale", "scale": [1000] * 3}
    edges = [
        {"type": "affine", "affine": TURN, **ends("a")},
        {**to_stage, "input": {"name": "world"}, "output": {"name": "stage"}},
    ]
    write_scene(url, edges, [system("world", "zyx"), system("stage", "zyx", "nanometer")])
    write_image(url, "a", SHAPE, image_attributes("zyx", (1, 1, 1)))
    ds = xr.open_dataset(url, engine="n5").isel(image=0)
    assert ds.affine.attrs["systems"] == ["world", "stage"]
    assert ds.affine_stage.attrs["units"] == "nanometer"
    assert ds.n5.to_world([1, 2, 3], system="world").tolist() == [11, 23, 28]
    assert ds.n5.to_world([1, 2, 3], system="stage").tolist() == [11000, 23000, 28000]
    assert ds.isel(z=slice(1, None)).n5.to_world([0, 2, 3], system="stage")[0] == 11000
    assert ds.n5.from_world([11000, 23000, 28000], system="stage").tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="expected one of"):
        ds.n5.to_world([0, 0, 0], system="mars")


def test_an_edge_is_followed_backwards_and_through_other_images(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    own = {"type": "scale", "scale": [2, 2, 2], "input": {"name": "x2"}}
    inner: dict[str, Any] = {
        "systems": [system("x2", "zyx")],
        "edges": [own | {"output": {"name": "physical"}}],
    }
    edges = [
        {"type": "affine", "affine": TURN, "input": {"name": "world"}}
        | {"output": {"path": "a", "name": "x2"}},
        {
            "type": "translation",
            "translation": [0, 0, 5],
            "input": {"path": "b", "name": "physical"},
        }
        | {"output": {"path": "a", "name": "physical"}},
    ]
    write_scene(url, edges, [system("world", "zyx")])
    write_image(url, "a", SHAPE, image_attributes("zyx", (1, 1, 1), **inner))
    write_image(url, "b", SHAPE, image_attributes("zyx", (1, 1, 1)))
    ds = xr.open_dataset(url, engine="n5")
    back = np.linalg.inv(np.vstack([TURN, [0, 0, 0, 1]]))
    expected = [back @ [0.5, 1, 1.5, 1], back @ [0.5, 1, 4, 1]]
    assert np.allclose(ds.n5.to_world([1, 2, 3]), np.array(expected)[:, :3], atol=1e-12)


def test_flat_images_lie_in_a_plane_of_the_world(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    rows = [[1, 2, 3], [4, 5, 6], [7, 9, 9]]
    edges = [
        {"type": "affine", "affine": rows, **ends("a")},
        {"type": "affine", "affine": [[1, 0, 0], [0, 1, 0], [0, 0, 4]], **ends("b", "plane")},
    ]
    edges[1] = {"type": "affine", "affine": [[0, 1, 1], [1, 0, 2], [0, 0, 4]], **ends("b")}
    write_scene(url, edges, [system("world", "zyx")])
    for path in "ab":
        write_image(url, path, (6, 8), image_attributes("yx", (2, 0.5)))
    ds = xr.open_dataset(url, engine="n5")
    assert np.allclose(ds.n5.to_world([0, 1, 2])[0], [2 + 2 + 3, 8 + 5 + 6, 14 + 9 + 9])
    assert np.allclose(ds.n5.to_world([0, 1, 2])[1], [2, 4, 4])


def test_the_official_stitching_example_is_placed_by_position(tmp_path: Path) -> None:
    scene, url = official("scene_stitching.json"), tmp_path / "s.zarr"
    write_scene(url, scene["coordinateTransformations"], scene["coordinateSystems"])
    for edge in scene["coordinateTransformations"]:
        write_image(url, edge["input"]["path"], (6, 8), image_attributes("yx", (0.5, 2)))
    with pytest.warns(UserWarning, match="by position"):
        ds = xr.open_dataset(url, engine="n5")
    for edge in scene["coordinateTransformations"]:
        tile = ds.sel(image=edge["input"]["path"])
        # The world lists x, y; the tiles y, x.
        x, y = np.array([3 * 0.5, 4 * 2]) + edge["translation"]
        assert tile.n5.to_world([0, 3, 4]).tolist() == [0, y, x]


def test_the_official_registration_example_opens_without_the_position_of_its_field(
    tmp_path: Path,
) -> None:
    scene, url = official("scene_registration.json"), tmp_path / "s.zarr"
    write_scene(url, scene["coordinateTransformations"])
    for path in ("JRC2018F", "FCWB"):
        write_image(url, path, SHAPE, image_attributes("zyx", (1, 1, 1)))
    with pytest.warns(UserWarning, match="'JRC2018F': .*displacements"):
        ds = xr.open_dataset(url, engine="n5")
    assert ds.n5.to_world([1, 2, 3])[1].tolist() == [1, 2, 3]
    assert np.isnan(ds.n5.to_world([1, 2, 3])[0]).all()


NO_WAY: dict[str, dict[str, Any]] = {
    "field": {"type": "displacements", "path": "field"},
    "unknown": {"type": "swirl"},
    "projection": {"type": "projectAxis", "droppedInputs": [0], "createdOutputs": [0]},
    "singular": {"type": "affine", "affine": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]},
    "other axes": {"type": "scale", "scale": [1, 1]},
    "absent array": {"type": "affine", "path": "nowhere"},
}


@pytest.mark.parametrize("edge", NO_WAY.values(), ids=NO_WAY.keys())
def test_what_is_not_supported_leaves_an_image_without_a_position(
    tmp_path: Path, edge: dict[str, Any]
) -> None:
    url = tmp_path / "s.zarr"
    write_scene(url, [edge | ends("a")], [system("world", "zyx")])
    write_image(url, "a", SHAPE, image_attributes("zyx", (2, 1, 1)))
    with pytest.warns(UserWarning, match="images have no position in 'world': 'a': "):
        ds = xr.open_dataset(url, engine="n5")
    assert "affine" not in ds.variables
    assert ds.z.values.tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="affine"):
        ds.n5.to_world([0, 0, 0])
    target = {dim: xr.DataArray(np.arange(3.0), dims=dim) for dim in "zyx"}
    with pytest.raises(ValueError, match="affine"):
        ds.isel(image=0).n5.interp(**target)


def test_a_coordinate_that_depends_on_time_is_not_a_position(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    drift = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [3, 0, 0, 1, 0]]
    write_scene(url, [{"type": "affine", "affine": drift} | ends("a")], [system("world", "tzyx")])
    write_image(url, "a", (2, *SHAPE), image_attributes("tzyx", (1, 2, 1, 1)))
    with pytest.warns(UserWarning, match="depends on 't'"):
        assert "affine" not in xr.open_dataset(url, engine="n5").variables


def in_time(url: Path, edges: Mapping[str, Any], axes: str = "tzyx", world: str = "tzyx") -> Path:
    """Write a scene of images with time points 3 s apart, each with an edge to the world."""
    edges = {path: edge | ends(path) for path, edge in edges.items()}
    write_scene(url, [*edges.values()], [system("world", world)])
    sizes, steps = {"t": 2, "c": 2, "z": 4, "y": 6, "x": 8}, {"t": 3}
    for path in edges:
        scale = [steps.get(axis, 1) for axis in axes]
        write_image(url, path, [sizes[axis] for axis in axes], image_attributes(axes, scale))
    return url


def test_time_is_that_of_the_world(tmp_path: Path) -> None:
    later = {"type": "translation", "translation": [7, 0, 0, 5]}
    slower = {"type": "scale", "scale": [0.5, 1, 1, 2]}
    url = in_time(tmp_path / "s.zarr", {"a": later, "b": slower})
    tree = xr.open_datatree(url, engine="n5")
    assert tree["a/s0"].t.values.tolist() == [7, 10]
    assert tree["b/s0"].t.values.tolist() == [0, 1.5]
    assert tree["a/s0"].to_dataset().n5.to_world([1, 1, 1]).tolist() == [1, 1, 6]
    assert tree["b/s0"].to_dataset().n5.to_world([1, 1, 1]).tolist() == [1, 1, 2]
    alike = xr.open_dataset(in_time(tmp_path / "o.zarr", {"a": later, "b": later}), engine="n5")
    assert alike.sizes["image"] == 2
    assert alike.t.values.tolist() == [7, 10]
    report = alike.n5.to_scene(tmp_path / "again.zarr")
    assert report
    again = xr.open_dataset(tmp_path / "again.zarr", engine="n5")
    assert again.t.values.tolist() == [7, 10]
    assert again.n5.to_world([1, 1, 1]).tolist() == [[1, 1, 6]] * 2


def test_a_project_of_a_scene_numbers_its_times(tmp_path: Path) -> None:
    later = {"type": "translation", "translation": [7, 0, 0, 5]}
    url = in_time(tmp_path / "s.zarr", {"a": later})
    with pytest.warns(UserWarning, match="its time points are numbered 0 to 1"):
        xr.open_dataset(url, engine="n5").assign_coords(t=[7.5, 10.5]).n5.to_bdv(tmp_path / "p.xml")
    project = xr.open_dataset(tmp_path / "p.xml", engine="bdv")
    assert project.t.values.tolist() == [0, 1]
    assert project.isel(t=0).n5.to_world([1, 1, 1]).ravel().tolist() == [1, 1, 6]


def test_an_image_without_time_has_that_of_the_world_as_a_coordinate(tmp_path: Path) -> None:
    parts = [{"type": "projectAxis", "createdOutputs": [0]}]
    at = [[*parts, {"type": "translation", "translation": [t, 0, 0, 4]}] for t in (5, 9)]
    edges = {f"i{n}": {"type": "sequence", "transformations": each} for n, each in enumerate(at)}
    ds = xr.open_dataset(in_time(tmp_path / "s.zarr", edges, axes="zyx"), engine="n5")
    assert ds.t.dims == ("image",)
    assert ds.t.values.tolist() == [5, 9]
    assert ds.isel(image=1).n5.to_world([1, 1, 1]).tolist() == [1, 1, 5]
    with pytest.warns(UserWarning, match="does not have the coordinates t"):
        ds.n5.to_scene(tmp_path / "again.zarr")


ASIDE: dict[str, tuple[str, dict[str, Any], str]] = {
    "on x": (
        "tzyx",
        {"type": "affine", "affine": [[1, 0, 0, 2, 5], *np.eye(4, 5)[1:].tolist()]},
        "'a', affine 'drift' from .*: the axis 't' of 'world' depends on 't' and 'x'",
    ),
    "on channels": (
        "ctzyx",
        {"type": "mapAxis", "mapAxis": [0, 1, 2, 3, 4]},
        "'a', mapAxis 'drift' from .*: the axis 't' of 'world' depends on 'c'",
    ),
    "not on time": (
        "tzyx",
        {"type": "affine", "affine": [[0, 0, 0, 0, 5], *np.eye(4, 5)[1:].tolist()]},
        r"'a': the coordinate 't' is not that of 'world', 5 \+ 0 \* t",
    ),
}


@pytest.mark.parametrize(("axes", "edge", "message"), ASIDE.values(), ids=ASIDE.keys())
def test_a_time_that_is_not_a_coordinate_is_named_with_its_transformation(
    tmp_path: Path, axes: str, edge: dict[str, Any], message: str
) -> None:
    world = axes.replace("ct", "tc")
    url = in_time(tmp_path / "s.zarr", {"a": edge | {"name": "drift"}}, axes, world)
    with pytest.warns(UserWarning, match=message):
        ds = xr.open_dataset(url, engine="n5").isel(image=0)
    assert ds.t.values.tolist() == [0, 3]
    assert ds.n5.to_world([1, 2, 3]).tolist() == [1, 2, 3]


def test_labels_of_channels_are_kept_with_a_warning_about_their_coordinates(
    tmp_path: Path,
) -> None:
    url = in_time(
        tmp_path / "s.zarr",
        {"a": {"type": "translation", "translation": [2, 0, 0, 1]}},
        "czyx",
        "czyx",
    )
    group = xarray_n5.open_group(url, "a", mode="r+")
    omero = {"channels": [{"label": "DAPI"}, {"label": "GFP"}]}
    group.attrs["ome"] = {**group.attrs["ome"], "omero": omero}
    with pytest.warns(UserWarning, match=r"the coordinate 'c' is not that of 'world', 2 \+ 1"):
        ds = xr.open_dataset(url, engine="n5")
    assert ds.c.values.tolist() == ["DAPI", "GFP"]
    assert ds.attrs["omero"] == omero


def test_systems_of_the_images_themselves_are_chosen_by_name(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    tilt = {"input": {"name": "physical"}, "output": {"name": "tilted"}}
    hidden = {"input": {"name": "physical"}, "output": {"name": "stage"}}
    for path, shift in (("a", 3), ("b", 4)):
        edges = [
            {"type": "translation", "translation": [0, 0, shift], **tilt},
            {"type": "scale", "scale": [1, 1, 9], **hidden},
        ][: 2 if path == "a" else 1]
        own = [system("tilted", "zyx", "millimeter"), system("stage", "zyx")]
        own += [system("unused", "zyx")]
        write_image(url, path, SHAPE, image_attributes("zyx", (2, 1, 1), systems=own, edges=edges))
    edges = [{"type": "translation", "translation": [0, 5, 0], **ends(path)} for path in "ab"]
    stage = {"input": {"name": "world"}, "output": {"name": "stage"}}
    edges += [{"type": "scale", "scale": [10, 10, 10], **stage}]
    write_scene(url, edges, [system("world", "zyx"), system("stage", "zyx")])
    with pytest.warns(UserWarning, match="the systems 'a/stage' of images are not available"):
        ds = xr.open_dataset(url, engine="n5")
    assert ds.affine.attrs["systems"] == ["world", "stage", "tilted"]
    assert ds.affine_tilted.attrs["units"] == "millimeter"
    crop = ds.isel(x=slice(1, None))
    assert crop.n5.to_world([1, 1, 1], system="tilted").tolist() == [[2, 1, 5], [2, 1, 6]]
    assert crop.n5.to_world([1, 1, 1], system="world").tolist() == [[2, 6, 2]] * 2
    assert crop.n5.to_world([1, 1, 1], system="stage").tolist() == [[20, 60, 20]] * 2
    assert crop.n5.to_world([1, 1, 1], system="physical").tolist() == [2, 1, 2]
    assert crop.n5.from_world([2, 1, 2], system="physical").tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="one of: 'world', 'stage', 'tilted', 'physical'"):
        ds.n5.to_world([0, 0, 0], system="unused")


def test_systems_have_any_name(tmp_path: Path) -> None:
    url, names = tmp_path / "s.zarr", ["a/b", "c/d", "c_d", "t/0"]
    edges = [
        {"type": "translation", "translation": [n, 0, 0], **ends("a", names[n])} for n in (0, 1, 2)
    ]
    at = [{"type": "projectAxis", "createdOutputs": [0]}]
    at += [{"type": "translation", "translation": [7, 0, 0, 0]}]
    edges += [{"type": "sequence", "transformations": at, **ends("b", "a/b")}]
    write_image(url, "a", SHAPE, image_attributes("zyx", (1, 1, 1)))
    own = [system(name, "zyx") for name in names]
    write_scene(url, edges[:3], own[:3])
    (leaf,) = xr.open_datatree(url, engine="n5").leaves
    for number, name in enumerate(names[:3]):
        assert leaf.to_dataset().n5.to_world([0, 0, 0], system=name).tolist() == [[number, 0, 0]]
    write_image(url, "b", SHAPE, image_attributes("zyx", (1, 1, 1)))
    time = {"name": "t/0", "type": "time", "unit": "second"}
    own[0]["axes"] = [time, *own[0]["axes"]]
    write_scene(url, edges[3:], own[:1])
    (leaf,) = xr.open_datatree(url, engine="n5").leaves
    assert leaf.to_dataset()["t_0"].values.tolist() == [7]


def test_what_is_invalid_in_an_image_itself_does_not_hide_it(tmp_path: Path) -> None:
    url = tiles(tmp_path / "s.zarr", {"a": (1, 2, 3)})
    group = xarray_n5.open_group(url, "a", mode="r+")
    ome = dict(group.attrs["ome"])
    (image,) = ome["multiscales"]
    group.attrs["ome"] = ome | {"multiscales": [image | {"coordinateTransformations": [3]}]}
    with pytest.warns(UserWarning, match="some transformations to other .* are ignored"):
        ds = xr.open_dataset(url, engine="n5").isel(image=0)
    assert ds.n5.to_world([0, 0, 0]).tolist() == [1, 2, 3]
    group.attrs["ome"] = ome | {"multiscales": [image | {"coordinateSystems": 3}]}
    with pytest.raises(MetadataError, match="coordinateSystems"):
        xr.open_dataset(url, engine="n5")


def test_systems_of_one_name_with_other_axes_are_not_mixed(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    to = {"input": {"name": "physical"}, "output": {"name": "own"}}
    for path, unit in (("a", "micrometer"), ("b", "millimeter")):
        how: dict[str, Any] = {"systems": [system("own", "zyx", unit)]}
        how["edges"] = [{"type": "identity", **to}]
        write_image(url, path, SHAPE, image_attributes("zyx", (1, 1, 1), **how))
    edges = [{"type": "identity", **ends(path)} for path in "ab"]
    write_scene(url, edges, [system("world", "zyx")])
    with pytest.warns(UserWarning, match="'b': its system of this name has other axes"):
        ds = xr.open_dataset(url, engine="n5")
    assert ds.n5.to_world([1, 2, 3], system="own")[0].tolist() == [1, 2, 3]
    assert np.isnan(ds.n5.to_world([1, 2, 3], system="own")[1]).all()


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b", "a/.."])
def test_paths_that_leave_the_scene_are_refused(tmp_path: Path, path: str) -> None:
    url = tmp_path / "s.zarr"
    write_scene(url, [{"type": "identity"} | ends(path)], [system("world", "zyx")])
    with pytest.raises(N5Error, match="path"):
        xr.open_dataset(url, engine="n5")


INVALID: dict[str, Any] = {
    "a string": "scene",
    "no list": {"coordinateTransformations": {}},
    "no ends": {"coordinateTransformations": [{"type": "identity"}]},
    "names twice": {
        "coordinateTransformations": [{"type": "identity"} | ends("a")],
        "coordinateSystems": [system("w", "zyx"), system("w", "zyx")],
    },
    "no images": {"coordinateTransformations": []},
    "nothing there": {"coordinateTransformations": [{"type": "identity"} | ends("a")]},
    "a name of a million characters": {
        "coordinateTransformations": [{"type": "identity"} | ends("a" * 1_000_000)]
    },
}


@pytest.mark.filterwarnings("ignore:.*is not an image")
@pytest.mark.parametrize("scene", INVALID.values(), ids=INVALID.keys())
def test_an_invalid_scene_is_an_error_of_this_package(tmp_path: Path, scene: Any) -> None:
    attributes = {"ome": {"version": "0.6", "scene": scene}}
    xarray_n5.create_group(tmp_path / "s.zarr", format="zarr3", attributes=attributes)
    with pytest.raises(N5Error):
        xr.open_dataset(tmp_path / "s.zarr", engine="n5")


def test_many_edges_are_refused_without_following_them(tmp_path: Path) -> None:
    edges = [{"type": "identity", "input": {"name": "a"}, "output": {"name": "b"}}] * 270_000
    ome = {"version": "0.6", "scene": {"coordinateTransformations": edges}}
    folder = tmp_path / "many.zarr"
    folder.mkdir()
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    (folder / "zarr.json").write_text(json.dumps(document, separators=(",", ":")))
    with pytest.raises(N5Error, match="at most"):
        xr.open_dataset(folder, engine="n5")


def test_circles_and_loops_end(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    names = [f"s{n}" for n in range(40)]
    pairs = [(a, b) for a in names for b in names]
    edges: list[Any] = [
        {"type": "identity", "input": {"name": a}, "output": {"name": b}} for a, b in pairs
    ]
    edges.append({"type": "translation", "translation": [1, 2, 3], **ends("a", "s7")})
    write_scene(url, edges, [system(name, "zyx") for name in names])
    write_image(url, "a", SHAPE, image_attributes("zyx", (1, 1, 1)))
    ds = xr.open_dataset(url, engine="n5").isel(image=0)
    assert ds.n5.to_world([0, 0, 0]).tolist() == [1, 2, 3]


def random_step(  # noqa: PLR0911
    rng: np.random.Generator, count: int, depth: int = 4
) -> tuple[dict[str, Any], np.ndarray]:
    """A transformation of points with `count` axes, and its matrix by numpy."""
    square = np.eye(count + 1)
    kind = rng.integers(8 if depth else 5)
    if kind == 0:
        square[:count, count] = rng.normal(size=count)
        return {"type": "translation", "translation": square[:count, count].tolist()}, square
    if kind == 1:
        scale = rng.uniform(0.5, 2, count)
        return {"type": "scale", "scale": scale.tolist()}, np.diag([*scale, 1])
    if kind == 2:
        square[:count] = np.eye(count, count + 1) + 0.2 * rng.normal(size=(count, count + 1))
        return {"type": "affine", "affine": square[:count].tolist()}, square
    if kind == 3:
        turn = np.linalg.qr(rng.normal(size=(count, count)))[0]
        turn[0] *= np.sign(np.linalg.det(turn))
        square[:count, :count] = turn
        return {"type": "rotation", "rotation": turn.tolist()}, square
    if kind == 4:
        order = rng.permutation(count)
        square[:count, :count] = np.eye(count)[order]
        return {"type": "mapAxis", "mapAxis": order.tolist()}, square
    if kind == 5:
        forward, square = random_step(rng, count, depth - 1)
        back = {"type": "affine", "affine": np.linalg.inv(square)[:count].tolist()}
        return {"type": "bijection", "forward": forward, "inverse": back}, square
    if kind == 6 and count > 1:
        cut, square = rng.integers(1, count), np.diag([*[0.0] * count, 1.0])
        into, out = (np.split(rng.permutation(count), [cut]) for _ in range(2))
        listed = []
        for columns, rows in zip(into, out, strict=True):
            part, own = random_step(rng, len(rows), depth - 1)
            square[np.ix_(rows, columns)], square[rows, -1] = own[:-1, :-1], own[:-1, -1]
            axes = {"inputAxes": columns.tolist(), "outputAxes": rows.tolist()}
            listed.append({"transformation": part, **axes})
        return {"type": "byDimension", "transformations": listed}, square
    parts = [random_step(rng, count, depth - 1) for _ in range(rng.integers(1, 4))]
    for _, matrix in parts:
        square = matrix @ square
    return {"type": "sequence", "transformations": [part for part, _ in parts]}, square


def apart_from_time(rng: np.random.Generator, axes: str) -> tuple[dict[str, Any], np.ndarray]:
    """A transformation that shifts and scales time and channels, and its matrix along all axes."""
    other = len(axes) - len(axes.lstrip("tc"))
    part, matrix = random_step(rng, len(axes) - other)
    if not other:
        return part, matrix
    before, after = [*range(other)], [*range(other, len(axes))]
    scale, offset = rng.uniform(0.5, 2, other), rng.normal(size=other)
    steps = [{"type": "scale", "scale": scale.tolist()}]
    steps += [{"type": "translation", "translation": offset.tolist()}]
    aside = {"type": "sequence", "transformations": steps}
    parts = [
        {"transformation": aside, "inputAxes": before, "outputAxes": before},
        {"transformation": part, "inputAxes": after, "outputAxes": after},
    ]
    whole = np.eye(len(axes) + 1)
    whole[other:, other:] = matrix
    whole[before, before], whole[before, -1] = scale, offset
    return {"type": "byDimension", "transformations": parts}, whole


@pytest.mark.filterwarnings("ignore:.*by position", "ignore:.*, not of 'between'")
@pytest.mark.parametrize("seed", seeds(4, 50))
def test_samples_of_random_scenes_are_where_numpy_puts_them(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = ["yx", "zyx", "tzyx", "czyx", "tczyx"][rng.integers(5)]
    space = axes.lstrip("tc")
    other = len(axes) - len(space)
    url, expected = tmp_path / "s.zarr", {}
    between, joint = apart_from_time(rng, axes)
    edges = [between | {"input": {"name": "between"}, "output": {"name": "world"}}]
    for number in range(rng.integers(1, 7)):
        path, (edge, matrix) = f"i{number}", apart_from_time(rng, axes)
        way = rng.integers(3)
        if way == 0:
            edges.append(edge | {"input": {"name": "world"}, "output": ends(path)["input"]})
            matrix = np.linalg.inv(matrix)
        else:
            edges.append(edge | ends(path, "between" if way == 1 else "world"))
            matrix = joint @ matrix if way == 1 else matrix
        scale, offset = rng.uniform(0.5, 2, len(axes)), rng.normal(size=len(axes))
        shape = [*rng.integers(1, 3, other), *rng.integers(3, 7, len(space))]
        write_image(url, path, shape, image_attributes(axes, scale.tolist(), offset.tolist()))
        expected[path] = matrix, scale, offset
    write_scene(url, edges, [system("world", axes), system("between", axes)])
    nodes = [each.to_dataset() for each in xr.open_datatree(url, engine="n5").leaves]
    seen = set()
    for ds in nodes:
        for view in [ds.isel(image=n) for n in range(ds.image.size)] if ds.image.dims else [ds]:
            seen.add(path := str(view.image.values))
            matrix, scale, offset = expected[path]
            points = rng.uniform(0, 3, (5, len(space)))
            found = view.n5.to_world(np.pad(points, ((0, 0), (3 - len(space), 0))))
            aside = rng.integers(0, [view.sizes[dim] for dim in axes[:other]] or 1, (5, other))
            samples = np.column_stack([aside, points])
            inside = np.column_stack([samples * scale + offset, np.ones(5)])
            wanted = inside @ matrix.T
            assert np.allclose(found[:, 3 - len(space) :], wanted[:, other:-1], rtol=0, atol=1e-9)
            for dim, at, position in zip(axes[:other], aside.T, wanted.T, strict=False):
                assert np.allclose(view[dim].values[at], position, rtol=0, atol=1e-9)
    assert seen == expected.keys()


def test_the_command_line_describes_a_scene(tmp_path: Path) -> None:
    url = tiles(tmp_path / "s.zarr", {"a": (0, 0, 0), "b": (2, 0.5, 0.25)}, levels=2)
    assert "a scene" in run("tree", url).output
    assert "(image, z, y, x), levels s0, s1" in run("info", url).output
    facts = json.loads(run("info", url, "--json").output)
    assert facts["kind"] == "scene"
    assert facts["images"][0]["shape"] == [2, *SHAPE]
    assert ", z = " in run("preview", url, "-o", tmp_path / "a.png").output


def test_opening_a_scene_takes_few_requests_for_each_image(tmp_path: Path) -> None:
    local = tiles(tmp_path / "s.zarr", {f"tile{n}": (0, 0, n) for n in range(20)})
    store: Any = CountingStore()
    for path in local.rglob("*"):
        if path.is_file():
            store.set(path.relative_to(local).as_posix(), path.read_bytes())
    store.requests()
    assert xr.open_dataset(store, engine="n5").sizes["image"] == 20
    asked = store.requests()
    assert asked.pop("get", 0) <= 10 * 20 + 20
    assert sum(asked.values()) < 80, asked


def test_other_containers_import_no_module_of_scenes(tmp_path: Path) -> None:
    local = tiles(tmp_path / "s.zarr", {"tile": (0, 0, 0)})
    code = (
        "import sys, xarray as xr\n"
        f"xr.open_dataset({str(local)!r}, engine='n5', group='tile/s0')\n"
        "assert 'xarray_n5.scenes' not in sys.modules\n"
        f"xr.open_dataset({str(local)!r}, engine='n5')\n"
        "assert 'xarray_n5.bdv' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)  # noqa: S603


def test_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    url = tiles(tmp_path / "s.zarr", {"a": (0, 0, 0)})
    edges = [{"type": "identity", **ends(path)} for path in ("a", "gone")]
    write_scene(url, edges, [system("world", "zyx")])
    with pytest.warns(UserWarning, match="'gone', which is not an image"):
        assert xr.open_dataset(url, engine="n5").image.values.tolist() == ["a"]
    write_scene(url, edges[1:], [system("world", "zyx")])
    with (
        pytest.warns(UserWarning, match="'gone'"),
        pytest.raises(NodeNotFoundError, match="names the images gone"),
    ):
        xr.open_dataset(url, engine="n5")


@pytest.mark.parametrize("path", ["tile_1", "tile_1/s0"])
@pytest.mark.parametrize("name", ["b.zarr", "b.n5"])
def test_a_copy_of_one_image_warns_of_the_position_that_it_loses(
    tmp_path: Path, name: str, path: str
) -> None:
    url = tiles(tmp_path / "a.zarr", {"tile_0": (0, 0, 0), "tile_1": (0, 0, 9)}, levels=2)
    form: Any = "zarr3" if name == "b.zarr" else None
    message = "/: transformations of its scene are not copied: translation of 'tile_1'"
    with pytest.warns(UserWarning, match=message) as caught:
        xarray_n5.copy(f"{url}/{path}", tmp_path / name / path, format=form)
    assert len(caught) == 1
    assert "tile_0" not in str(caught[0].message)


def test_a_copy_of_a_whole_scene_keeps_positions_without_a_warning(tmp_path: Path) -> None:
    write_image(tmp_path / "a.zarr", "alone", SHAPE, image_attributes("zyx", (1, 1, 1)))
    url = tiles(tmp_path / "a.zarr", {"tile_0": (0, 0, 0), "tile_1": (0, 0, 9)})
    xarray_n5.copy(url, tmp_path / "b.zarr", format="zarr3")
    xr.testing.assert_identical(
        xr.open_dataset(tmp_path / "b.zarr", engine="n5").affine.load().variable,
        xr.open_dataset(url, engine="n5").affine.load().variable,
    )
    xarray_n5.copy(f"{url}/alone", tmp_path / "c.zarr", format="zarr3")


def test_the_doctor_of_a_scene_names_the_image_to_copy(tmp_path: Path) -> None:
    url = tiles(tmp_path / "a.zarr", {"tile_0": (0, 0, 0), "tile_1": (0, 0, 9)}, levels=2)
    advised = "for other programs, copy 'tile_1' with dialect='ngff'"
    assert advised in run("doctor", url).output
    with pytest.warns(UserWarning, match="scene are not copied"):
        xarray_n5.copy(f"{url}/tile_1", tmp_path / "b.zarr", format="zarr3", dialect="ngff")
    assert xarray_n5.open_group(tmp_path / "b.zarr").attrs["ome"]["version"] == "0.5"
