"""Views of projects become images of a scene, and images of a scene become views."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from tests.support.ngff_points import SPEC
from tests.support.projects import Setup, diagonal, project_xml, write_project
from tests.support.scenes import image_attributes, system, write_image, write_scene
from xarray_n5 import MetadataError
from xarray_n5.bdv.project import read_project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*views are not stored")

FACTORS = ((1, 1, 1), (1, 2, 2))


def attributes_of(url: Path) -> Any:
    """The attributes of a group of Zarr v3."""
    return json.loads((url / "zarr.json").read_text("utf-8"))["attributes"]


def stitched(folder: Path) -> Path:
    """Two tiles at two time points, one of them rotated, and one view that is missing."""
    setups = [Setup(id=n, attributes={"channel": 0, "tile": n}) for n in (0, 3)]
    turn = [[0.6, -0.8, 0, 1 / 3], [0.8, 0.6, 0, 0.1], [0, 0, 1, -56.5]]
    steps: Any = {
        (0, 0): [
            ("Stitching", diagonal((1, 1, 1), (0, 1, 56.5))),
            ("calibration", diagonal((4, 1, 1))),
        ],
        (0, 3): [("ICP", turn), ("", turn), ("calibration", diagonal((4, 1, 1)))],
        (1, 0): [("calibration", diagonal((4, 1, 1)))],
        (1, 3): [("for a missing view", turn), ("calibration", diagonal((4, 1, 1)))],
    }
    names = {"tile": {0: "left &amp; lower", 3: "right"}}
    text = project_xml(setups, steps, missing=[(1, 3)], names=names)
    return write_project(folder, setups, text, without=[(1, 3)], factors=FACTORS)


def to_scene(xml: Path, url: Path) -> Any:
    """Store a project as a scene, and return the attributes of the scene."""
    xr.open_datatree(xml, engine="bdv", chunks={}).n5.to_scene(url)
    return attributes_of(url)


@pytest.mark.filterwarnings("ignore:a scene does not have the coordinates")
def test_a_view_becomes_an_image_at_its_position_and_a_view_again(tmp_path: Path) -> None:
    xml = stitched(tmp_path)
    to_scene(xml, tmp_path / "s.zarr")
    before = xr.open_dataset(xml, engine="bdv", level=1, setups="flat")
    after = xr.open_dataset(tmp_path / "s.zarr", engine="n5", level=1)
    names = ["setup0/timepoint0", "setup3/timepoint0", "setup0/timepoint1"]
    assert sorted(after.image.values) == sorted(names)
    assert after.affine.attrs["units"] == "micrometer"
    tree = xr.open_datatree(tmp_path / "s.zarr", engine="n5", chunks={})
    tree.n5.to_bdv(tmp_path / "back.xml")
    back = xr.open_dataset(tmp_path / "back.xml", engine="bdv", level=1).isel(t=0)
    assert sorted(back.tile_name.values) == sorted(names)
    for path, view in zip(names, [(0, 0), (0, 3), (1, 0)], strict=True):
        expected = before.sel(t=view[0], setup=view[1])
        image = after.sel(image=path)
        tile = back.isel(
            tile=back.tile_name.values.tolist().index(path), channel=0, missing_dims="ignore"
        )
        points = [[0, 0, 0], [1.5, 2, 3]]
        places = expected.n5.to_world(points)
        assert np.allclose(image.n5.to_world(points), places, rtol=0, atol=1e-9)
        assert np.allclose(tile.n5.to_world(points), places, rtol=0, atol=1e-9)
        assert np.array_equal(image["s"], expected["project"])
        assert np.array_equal(tile["back"], expected["project"])


@pytest.mark.filterwarnings("ignore:a scene does not have the coordinates")
def test_the_schemas_of_the_specification_accept_what_is_written(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    referencing = pytest.importorskip("referencing")
    if not (SPEC / "schemas").exists():
        pytest.skip("the specification is not here")
    documents = [
        json.loads(path.read_text("utf-8")) for path in (SPEC / "schemas").glob("*.schema")
    ]
    named = [(each["$id"], referencing.Resource.from_contents(each)) for each in documents]
    registry = referencing.Registry().with_resources(named)
    by_name = {each["$id"].rpartition("/")[2]: each for each in documents}
    attributes = to_scene(stitched(tmp_path), tmp_path / "s.zarr")
    image = attributes_of(tmp_path / "s.zarr/setup0/timepoint0")
    for name, document in (("scene.schema", attributes), ("image.schema", image)):
        # The version is checked apart: the schemas are of a release candidate.
        document["ome"]["version"] = "0.6rc0"
        validator = jsonschema.Draft202012Validator(by_name[name], registry=registry)
        assert [error.message for error in validator.iter_errors(document)] == []


def test_images_that_differ_become_tiles_of_their_own(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    turn = [[1, 0, 0, 10], [0, 0.6, -0.8, 20], [0, 0.8, 0.6, 30]]
    edges: list[dict[str, Any]] = [
        {"type": "affine", "affine": turn, "input": {"path": "a", "name": "physical"}},
        {"type": "translation", "translation": [0, 0, 5]}
        | {"input": {"path": "b/0", "name": "physical"}},
    ]
    edges = [edge | {"output": {"name": "world"}} for edge in edges]
    write_scene(url, edges, [system("world", "zyx")])
    write_image(url, "a", (4, 6, 8), image_attributes("zyx", (2, 0.5, 0.5), (1, 2, 3), levels=2))
    write_image(url, "b/0", (4, 6, 8), image_attributes("zyx", (2, 0.5, 0.5), levels=2))
    tree = xr.open_datatree(url, engine="n5")
    tree.n5.to_bdv(tmp_path / "p.xml")
    project = read_project((tmp_path / "p.xml").read_bytes())
    assert [setup.name for setup in project.setups.values()] == ["a", "b/0"]
    assert [setup.voxel_size for setup in project.setups.values()] == [(2, 0.5, 0.5)] * 2
    back = xr.open_dataset(tmp_path / "p.xml", engine="bdv", level=1, setups="flat")
    assert back.tile_name.values.tolist() == ["a", "b/0"]
    for number, path in enumerate(("a", "b/0")):
        image, view = tree[f"{path}/s1"].to_dataset(), back.isel(t=0, setup=number)
        assert np.allclose(image.n5.to_world([1, 2, 3]), view.n5.to_world([1, 2, 3]), atol=1e-9)
        assert np.array_equal(image["s"], view["p"])


@pytest.mark.parametrize("unit", ["micrometer", None])
@pytest.mark.parametrize("world", ["micrometer", None])
def test_a_unit_that_a_scene_does_not_have_is_not_invented_silently(
    tmp_path: Path, unit: str | None, world: str | None
) -> None:
    ends = {"input": {"path": "a", "name": "physical"}, "output": {"name": "world"}}
    move = {"type": "translation", "translation": [4, 5, 6]}
    write_scene(tmp_path / "s.zarr", [move | ends], [system("world", "zyx", world)])
    attributes = image_attributes("zyx", (2, 0.5, 0.5))
    for axis in attributes["ome"]["multiscales"][0]["coordinateSystems"][-1]["axes"]:
        axis.update({"unit": unit})
        axis.pop("unit" if unit is None else "", None)
    write_image(tmp_path / "s.zarr", "a", (4, 6, 8), attributes)
    image = xr.open_dataset(tmp_path / "s.zarr", engine="n5")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        image.n5.to_bdv(tmp_path / "p.xml")
    assert any("unit" in str(warning.message) for warning in seen) == (unit != world)
    back = xr.open_dataset(tmp_path / "p.xml", engine="bdv")
    assert np.allclose(back.n5.to_world([0, 0, 0]), [4, 5, 6])


def test_time_points_and_channels_of_an_image_become_views(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    move = {"type": "translation", "translation": [0, 0, 0, 0, 5]}
    ends = {"input": {"path": "a", "name": "physical"}, "output": {"name": "world"}}
    write_scene(url, [move | ends], [system("world", "tczyx")])
    write_image(url, "a", (2, 3, 4, 6, 8), image_attributes("tczyx", (1, 1, 2, 0.5, 0.5)))
    scene = xr.open_dataset(url, engine="n5").isel(image=0)
    scene.n5.to_bdv(tmp_path / "p.xml")
    back = xr.open_dataset(tmp_path / "p.xml", engine="bdv")
    assert dict(back["p"].sizes) == {"t": 2, "channel": 3, "z": 4, "y": 6, "x": 8}
    assert np.array_equal(back["p"], scene["s"])
    assert np.allclose(back.n5.to_world([1, 1, 1]), [2, 0.5, 5.5])


def test_a_view_without_a_registration_has_no_position_in_a_scene(tmp_path: Path) -> None:
    steps = {(0, 0): [("calibration", diagonal((4, 1, 1)))]}
    xml = write_project(tmp_path, [Setup(id=0)], project_xml([Setup(id=0)], steps), factors=FACTORS)
    with pytest.raises(MetadataError):
        to_scene(xml, tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()
