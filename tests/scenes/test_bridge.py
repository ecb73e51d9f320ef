"""Projects of BigStitcher become scenes of OME-Zarr 0.6, and scenes become projects."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
import xarray_n5.bdv
from tests.conftest import CORPUS
from tests.support.exhaustive import seeds
from tests.support.killing import kill, when
from tests.support.ngff_points import SPEC
from tests.support.processes import Python
from tests.support.projects import Setup, diagonal, project_xml, write_project
from tests.support.scenes import image_attributes, system, write_image, write_scene
from xarray_n5 import MetadataError, N5Error, NodeExistsError
from xarray_n5.bdv.loaders import View
from xarray_n5.bdv.project import read_project
from xarray_n5.cli import main

if TYPE_CHECKING:
    from xarray_n5.bdv.project import Project

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*views are not stored"),
    pytest.mark.filterwarnings("ignore:.*the XML names interest points"),
]

FACTS = ("setups", "entities", "timepoints", "missing", "registrations", "world")

MORE = (
    '<ViewInterestPoints><ViewInterestPointsFile timepoint="0" setup="1" label="beads">tpId_0'
    '</ViewInterestPointsFile></ViewInterestPoints><!-- kept --><BoundingBoxes note="&lt;">é'
    "</BoundingBoxes>"
)

FACTORS = ((1, 1, 1), (1, 2, 2))


def run(*arguments: object) -> Any:
    """Run the command line."""
    found = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found


def to_scene(xml: Path, url: Path, **how: Any) -> Any:
    """Copy a project as a scene, and return the attributes of the scene."""
    xarray_n5.copy(xml, url, dialect="ngff-0.6", **how)
    return attributes_of(url)


def attributes_of(url: Path) -> Any:
    """The attributes of a group of Zarr v3."""
    return json.loads((url / "zarr.json").read_text("utf-8"))["attributes"]


def project_at(xml: Path) -> Project:
    """The project in an XML."""
    return read_project(xml.read_bytes())


def named(entities: Any) -> Any:
    """Entities with their names: one without a name is called by its id."""
    return {
        kind: {n: replace(each, name=each.name or str(n)) for n, each in own.items()}
        for kind, own in entities.items()
    }


def check_same(one: Project, other: Project) -> None:
    """Two projects have the same facts, to the last bit."""
    for name in FACTS:
        mine, theirs = getattr(one, name), getattr(other, name)
        if name == "timepoints":
            mine, theirs = tuple(mine), tuple(theirs)
        if name == "entities":
            mine, theirs = named(mine), named(theirs)
        assert mine == theirs, name


def stitched(folder: Path, *, calibrated: bool = True) -> Path:
    """Two tiles at two time points, one of them rotated, and one view that is missing.

    If that view has no calibration, the size of a unit of the world is unknown.
    """
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
    if not calibrated:
        del steps[1, 3][1]
    text = project_xml(setups, steps, missing=[(1, 3)], names=names, more=MORE)
    text = text.replace("</name></Tile>", "</name><location>1.0 2.0 0.1</location></Tile>", 1)
    return write_project(folder, setups, text, without=[(1, 3)], factors=FACTORS)


def test_a_view_becomes_an_image_at_its_position(tmp_path: Path) -> None:
    xml = stitched(tmp_path)
    attributes = to_scene(xml, tmp_path / "s.zarr")
    before = xr.open_dataset(xml, engine="bdv", level=1, setups="flat")
    after = xr.open_dataset(tmp_path / "s.zarr", engine="n5", level=1)
    assert after.image.values.tolist() == [
        *("setup0/timepoint0", "setup3/timepoint0", "setup0/timepoint1"),
    ]
    for path, view in zip(after.image.values, [(0, 0), (0, 3), (1, 0)], strict=True):
        one, other = after.sel(image=path), before.sel(t=view[0], setup=view[1])
        points = [[0, 0, 0], [1.5, 2, 3]]
        assert np.allclose(one.n5.to_world(points), other.n5.to_world(points), rtol=0, atol=1e-9)
        assert np.array_equal(one["s"], other["project"])
    assert after.affine.attrs["units"] == "micrometer"
    edge = attributes["ome"]["scene"]["coordinateTransformations"][0]
    assert [step["type"] for step in edge["transformations"]] == [
        *("scale", "affine", "affine", "scale"),
    ]
    assert edge["transformations"][2]["name"] == "Stitching"
    assert edge["transformations"][0]["scale"] == [0.5, 2, 2]
    assert attributes["bigstitcher"]["missing"] == [[1, 3]]


def test_a_project_comes_back_from_a_scene_unchanged(tmp_path: Path) -> None:
    xml = stitched(tmp_path)
    first = to_scene(xml, tmp_path / "s.zarr", chunks=(4, 4, 4), shards=(8, 8, 8))
    run("copy", tmp_path / "s.zarr", tmp_path / "back.n5", "--project", tmp_path / "back.xml")
    check_same(project_at(xml), project_at(tmp_path / "back.xml"))
    assert MORE in (tmp_path / "back.xml").read_text("utf-8")
    before, after = (xr.open_datatree(x, engine="bdv") for x in (xml, tmp_path / "back.xml"))
    for level in ("s0", "s1"):
        assert np.array_equal(before[level]["project"], after[level]["back"])
        assert np.array_equal(before[level].affine, after[level].affine, equal_nan=True)
    again = to_scene(tmp_path / "back.xml", tmp_path / "t.zarr")
    for each in (first, again):
        each["bigstitcher"]["xml"] = "".join(each["bigstitcher"]["xml"].split())
        each["bigstitcher"]["timepoints"]["text"] = "".join(
            each["bigstitcher"]["timepoints"]["text"].split()
        )
    assert first == again


def test_interest_points_that_are_not_copied_are_named(tmp_path: Path) -> None:
    xml = stitched(tmp_path / "a")
    names = "names interest points, whose files are not copied; copy the folder 'interestpoints.n5'"
    with pytest.warns(UserWarning, match=f"project.xml: the XML {names} .* made of the scene"):
        to_scene(xml, tmp_path / "s.zarr")
    with pytest.warns(UserWarning, match=f"s.zarr: the XML {names} .* next to the new XML"):
        xarray_n5.bdv.copy(tmp_path / "s.zarr", tmp_path / "b.xml", tmp_path / "b.n5")
    assert b"tpId_0" in (tmp_path / "b.xml").read_bytes()
    lost = "does not have the sections ViewInterestPoints, BoundingBoxes"
    with pytest.warns(UserWarning, match=lost):
        xarray_n5.bdv.copy(xml, tmp_path / "c.xml", tmp_path / "c.n5")
    text = xml.read_text("utf-8").replace(">tpId_0", ">interestpoints/tpId_0")
    xml.write_bytes(text.replace('encoding="UTF-8"', 'encoding="UTF-16"').encode("utf-16"))
    with pytest.warns(UserWarning, match="copy the folder 'interestpoints' from"):
        to_scene(xml, tmp_path / "t.zarr")


def test_the_command_line_makes_a_scene_in_shards(tmp_path: Path) -> None:
    xml = stitched(tmp_path)
    words = ("--dialect", "ngff-0.6", "--chunks", "4,4,4", "--shards", "8,8,8")
    run("copy", xml, tmp_path / "s.zarr", *words, "--verify")
    array = xarray_n5.open_array(tmp_path / "s.zarr", "setup0/timepoint0/s0")
    assert (array.chunks, array.shards) == ((4, 4, 4), (8, 8, 8))
    document = json.loads((tmp_path / "s.zarr/setup0/timepoint0/s0/zarr.json").read_text("utf-8"))
    assert document["dimension_names"] == ["z", "y", "x"]


def random_project(folder: Path, seed: int) -> Path:
    """Write a project with random setups, names, time points, transforms and gaps."""
    rng = np.random.default_rng(seed)
    ids = sorted(rng.choice(40, rng.integers(1, 4), replace=False).tolist())
    times = sorted(rng.choice(20, rng.integers(1, 3), replace=False).tolist())
    voxel = [None, (2.0, 0.5, 0.5), (0.1, 0.3, 0.7), (1 / 3, 1 / 7, 1 / 11)][rng.integers(4)]
    kinds = ["channel", "tile", "angle", "illumination", "other"]
    used = [kind for kind in kinds if rng.random() < 0.6]
    setups = []
    for number in ids:
        attributes = {kind: int(rng.integers(3)) for kind in used}
        own = voxel if rng.random() < 0.9 else (1.0, 1.0, 1.0)
        unit, shape = ["um", "µm", "nm", "pixel"][rng.integers(4)], (4, 4, 4)
        setup = Setup(id=number, attributes=attributes, voxel=own, unit=unit, shape=shape)
        setups.append(setup)
    views = [(t, s) for t in times for s in ids]
    missing = [view for view in views[1:] if rng.random() < 0.2]
    steps: dict[Any, Any] = {}
    for view in views:
        if view in missing and rng.random() < 0.5:
            continue
        listed = []
        for _ in range(rng.integers(0, 4)):
            matrix = np.eye(3, 4) + 0.3 * rng.normal(size=(3, 4))
            listed.append((["", "Stitching", "a &amp; b", "ICP"][rng.integers(4)], matrix))
        if voxel is not None and rng.random() < 0.8:
            listed.append(("calibration", diagonal((np.array(voxel) / min(voxel)).tolist())))
        steps[view] = listed
    pattern = ", ".join(map(str, times))
    points = [
        f'<Timepoints type="pattern"><integerpattern>{pattern}</integerpattern></Timepoints>',
        f'<Timepoints type="range"><first>{times[0]}</first><last>{times[-1]}</last></Timepoints>',
        "<Timepoints type='list'>"
        + "".join(f"<Timepoint><id>{t}</id></Timepoint>" for t in times)
        + "</Timepoints>",
    ][rng.choice([0, 2] if np.ptp(times) >= len(times) else 3)]
    text = project_xml(
        setups, steps, timepoints=points, missing=missing, more=MORE if seed % 2 else ""
    )
    factors = FACTORS[: rng.integers(1, 3)]
    how: dict[str, Any] = {"timepoints": times, "without": missing, "factors": factors}
    return write_project(folder, setups, text, **how)


@pytest.mark.parametrize("seed", seeds(4, 30))
@pytest.mark.filterwarnings("ignore")
def test_random_projects_come_back_to_the_last_bit(tmp_path: Path, seed: int) -> None:
    xml = random_project(tmp_path, seed)
    first = to_scene(xml, tmp_path / "s.zarr")
    run("copy", tmp_path / "s.zarr", tmp_path / "back.n5", "--project", tmp_path / "back.xml")
    before, after = project_at(xml), project_at(tmp_path / "back.xml")
    absent = {v for v in before.views() if v not in before.registrations}
    assert before.missing <= after.missing
    assert not absent
    for name in ("setups", "entities", "registrations", "world"):
        assert getattr(before, name) == getattr(after, name), name
    assert tuple(before.timepoints) == tuple(after.timepoints)
    again = to_scene(tmp_path / "back.xml", tmp_path / "t.zarr")
    assert first["ome"] == again["ome"]
    for key in ("views", "setups", "entities", "missing"):
        assert first["bigstitcher"][key] == again["bigstitcher"][key]


@pytest.mark.skipif(CORPUS is None, reason="the corpus is not here")
@pytest.mark.filterwarnings("ignore")
def test_every_project_of_the_corpus_comes_back(tmp_path: Path) -> None:
    count = 0
    assert CORPUS is not None
    for number, xml in enumerate(sorted(CORPUS.rglob("*.xml"))):
        if b"<SpimData" not in xml.read_bytes()[:400]:
            continue
        url, back = tmp_path / f"{number}.zarr", tmp_path / f"{number}.xml"
        try:
            xr.open_datatree(xml, engine="bdv")
        except (N5Error, OSError):
            continue  # its container is not in the corpus
        to_scene(xml, url)
        run("copy", url, tmp_path / f"{number}.n5", "--project", back)
        check_same(project_at(xml), project_at(back))
        count += 1
    assert count >= 3


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
    for name, found in (("scene.schema", attributes), ("image.schema", image)):
        # The version is checked apart: the schemas are of a release candidate.
        found["ome"]["version"] = "0.6rc0"
        validator = jsonschema.Draft202012Validator(by_name[name], registry=registry)
        assert [error.message for error in validator.iter_errors(found)] == []


@pytest.mark.parametrize("calibrated", [True, False])
def test_an_edited_scene_wins_over_what_it_kept(tmp_path: Path, *, calibrated: bool) -> None:
    xml = stitched(tmp_path, calibrated=calibrated)
    assert (project_at(xml).world.unit is not None) == calibrated
    to_scene(xml, tmp_path / "s.zarr")
    document = json.loads((tmp_path / "s.zarr/zarr.json").read_text())
    edge = document["attributes"]["ome"]["scene"]["coordinateTransformations"][1]
    moved = {"type": "translation", "translation": [7, 8, 9]}
    edge["transformations"].append(moved)
    (tmp_path / "s.zarr/zarr.json").write_text(json.dumps(document))
    scene = xr.open_dataset(tmp_path / "s.zarr", engine="n5", level=0)
    run("copy", tmp_path / "s.zarr", tmp_path / "back.n5", "--project", tmp_path / "back.xml")
    back = xr.open_dataset(tmp_path / "back.xml", engine="bdv", level=0, setups="flat")
    for path, view in zip(scene.image.values, [(0, 0), (0, 3), (1, 0)], strict=True):
        one, other = scene.sel(image=path), back.sel(t=view[0], setup=view[1])
        assert np.allclose(one.n5.to_world([1, 2, 3]), other.n5.to_world([1, 2, 3]), atol=1e-9)
    steps = project_at(tmp_path / "back.xml").registrations[View(0, 3)].transforms
    assert [step.name for step in steps] == ["registration", "calibration"]
    assert back.tile_name.values.tolist() == ["left & lower", "right"]


def test_a_scene_of_another_program_becomes_a_project(tmp_path: Path) -> None:
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
    run("copy", url, tmp_path / "p.n5", "--project", tmp_path / "p.xml")
    project = project_at(tmp_path / "p.xml")
    assert [each.name for each in project.setups.values()] == ["a", "b/0"]
    assert [each.voxel_size for each in project.setups.values()] == [(2, 0.5, 0.5)] * 2
    back = xr.open_dataset(tmp_path / "p.xml", engine="bdv", level=1, setups="flat")
    for number, path in enumerate(("a", "b/0")):
        one = tree[f"{path}/s1"].to_dataset()
        other = back.isel(t=0, setup=number)
        assert np.allclose(one.n5.to_world([1, 2, 3]), other.n5.to_world([1, 2, 3]), atol=1e-9)
        assert np.array_equal(one["s"], other["p"])


def one_image(url: Path, unit: str | None, *world: Any, **image: Any) -> None:
    """A scene of an image `a`, which is moved, with a unit of its axes."""
    ends = {"input": {"path": "a", "name": "physical"}, "output": {"name": "world"}}
    write_scene(url, [{"type": "translation", "translation": [4, 5, 6]} | ends], world)
    attributes = image_attributes("zyx", (2, 0.5, 0.5), **image)
    for axis in attributes["ome"]["multiscales"][0]["coordinateSystems"][-1]["axes"]:
        axis.update({"unit": unit})
        axis.pop("unit" if unit is None else "", None)
    write_image(url, "a", (4, 6, 8), attributes)


@pytest.mark.parametrize(
    ("image", "world", "message"),
    [
        ("micrometer", None, "'world' of the scene has no unit; its numbers become positions in"),
        (None, "micrometer", "have no unit, but the system 'world' has 'micrometer'"),
        (None, None, None),
        ("micrometer", "micrometer", None),
    ],
)
def test_a_unit_that_a_scene_does_not_have_is_not_invented_silently(
    tmp_path: Path, image: str | None, world: str | None, message: str | None
) -> None:
    one_image(tmp_path / "s.zarr", image, system("world", "zyx", world))
    ds = xr.open_dataset(tmp_path / "s.zarr", engine="n5")
    assert ds.affine.attrs.get("units") == world
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        xarray_n5.bdv.copy(tmp_path / "s.zarr", tmp_path / "p.xml", tmp_path / "p.n5")
    said = [str(each.message) for each in seen if "unit" in str(each.message)]
    assert len(said) == (message is not None)
    assert message is None or message in said[0]
    back = xr.open_dataset(tmp_path / "p.xml", engine="bdv")
    assert np.allclose(back.n5.to_world([0, 0, 0]), [4, 5, 6])


def test_axes_of_a_world_are_converted_one_by_one(tmp_path: Path) -> None:
    axes = system("world", "zyx")
    axes["axes"][0]["unit"] = "nanometer"
    one_image(tmp_path / "s.zarr", "micrometer", axes)
    xarray_n5.bdv.copy(tmp_path / "s.zarr", tmp_path / "p.xml", tmp_path / "p.n5")
    back = xr.open_dataset(tmp_path / "p.xml", engine="bdv")
    assert back.x.attrs["units"] in {"um", "micrometer", "µm"}
    assert np.allclose(back.n5.to_world([0, 0, 0]), [0.004, 5, 6])


def test_what_only_a_scene_has_is_named_and_kept_by_a_copy_of_the_scene(tmp_path: Path) -> None:
    one_image(
        tmp_path / "s.zarr",
        "micrometer",
        system("world", "zyx"),
        system("stage", "zyx"),
        systems=[system("pixels", "zyx", None)],
    )
    with pytest.warns(UserWarning, match="systems 'stage', 'a/pixels' are only in the scene"):
        xarray_n5.bdv.copy(tmp_path / "s.zarr", tmp_path / "p.xml", tmp_path / "p.n5")
    to_scene(tmp_path / "s.zarr", tmp_path / "t.zarr", chunks=4)
    for path in ("", "a"):
        assert attributes_of(tmp_path / "t.zarr" / path) == attributes_of(
            tmp_path / "s.zarr" / path
        )
    assert xarray_n5.open_array(tmp_path / "t.zarr", "a/s0").chunks == (4, 4, 4)


def test_time_points_and_channels_of_an_image_become_views(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    move = {"type": "translation", "translation": [0, 0, 0, 0, 5]}
    ends = {"input": {"path": "a", "name": "physical"}, "output": {"name": "world"}}
    write_scene(url, [move | ends], [system("world", "tczyx")])
    write_image(url, "a", (2, 3, 4, 6, 8), image_attributes("tczyx", (1, 1, 2, 0.5, 0.5)))
    run("copy", url, tmp_path / "p.n5", "--project", tmp_path / "p.xml")
    back = xr.open_dataset(tmp_path / "p.xml", engine="bdv")
    assert dict(back["p"].sizes) == {"t": 2, "channel": 3, "z": 4, "y": 6, "x": 8}
    scene = xr.open_dataset(url, engine="n5").isel(image=0)
    assert np.array_equal(back["p"], scene["s"])
    assert np.allclose(back.n5.to_world([1, 1, 1]), [2, 0.5, 5.5])


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a flat image": ("yx", {"type": "identity"}, "expected z, y, x"),
    "no way": ("zyx", {"type": "displacements", "path": "f"}, "has no position"),
    "singular": (
        "zyx",
        {"type": "affine", "affine": [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]},
        "singular",
    ),
}


@pytest.mark.parametrize(("axes", "edge", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_project_cannot_have_is_refused_before_anything_is_written(
    tmp_path: Path, axes: str, edge: dict[str, Any], why: str
) -> None:
    url = tmp_path / "s.zarr"
    ends = {"input": {"path": "a", "name": "physical"}, "output": {"name": "world"}}
    write_scene(url, [edge | ends], [system("world", axes)])
    write_image(url, "a", (4, 6, 8)[-len(axes) :], image_attributes(axes, [1.0] * len(axes)))
    words = ["copy", url, tmp_path / "p.n5", "--project", tmp_path / "p.xml"]
    found = CliRunner().invoke(main, [*map(str, words)])
    assert found.exit_code
    assert why in f"{found.output} {found.exception}"
    assert not (tmp_path / "p.n5").exists()
    assert not (tmp_path / "p.xml").exists()


def test_a_scene_needs_zarr_v3_and_an_empty_place(tmp_path: Path) -> None:
    xml = stitched(tmp_path)
    with pytest.raises(MetadataError, match="use format='zarr3'"):
        xarray_n5.copy(xml, tmp_path / "s.n5", dialect="ngff-0.6")
    assert not (tmp_path / "s.n5").exists()
    to_scene(xml, tmp_path / "s.zarr")
    with pytest.raises(NodeExistsError):
        to_scene(xml, tmp_path / "s.zarr")
    to_scene(xml, tmp_path / "s.zarr", mode="w")
    with pytest.raises(ValueError, match="does not support region"):
        to_scene(xml, tmp_path / "t.zarr", region=(slice(0, 1),) * 3)


def test_a_view_without_a_registration_is_named(tmp_path: Path) -> None:
    setups = [Setup(id=0)]
    steps = {(0, 0): [("calibration", diagonal((4, 1, 1)))]}
    xml = write_project(tmp_path, setups, project_xml(setups, steps), factors=FACTORS)
    with pytest.raises(MetadataError, match="timepoint 1 of setup 0"):
        to_scene(xml, tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()


HOSTILE: dict[str, Any] = {
    "views": {"views": {"setup0/timepoint0": [0, -1]}},
    "the same view twice": {"views": {"setup0/timepoint0": [0, 0], "setup3/timepoint0": [0, 0]}},
    "ids": {"setups": [{"id": "x"}]},
    "sizes": {"setups": [{"id": 0, "size": ["a"]}]},
    "entities": {"entities": {"tile": [{}]}},
    "a name that is not XML": {"entities": {"tile": [{"id": 0, "name": "\u0001"}]}},
    "xml": {"xml": "<SpimData>"},
    "another root": {"xml": "<html/>"},
    "a document type": {"xml": '<!DOCTYPE SpimData [<!ENTITY a "b">]><SpimData/>'},
    "time points of XML": {"timepoints": {"type": "range", "text": "</Timepoints><a/>"}},
    "many time points": {
        "timepoints": {"type": "range", "text": "<first>0</first><last>1000000</last>"}
    },
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("facts", HOSTILE.values(), ids=HOSTILE.keys())
def test_facts_of_a_scene_are_not_trusted(tmp_path: Path, facts: dict[str, Any]) -> None:
    url = tmp_path / "s.zarr"
    to_scene(stitched(tmp_path), url)
    document = json.loads((url / "zarr.json").read_text("utf-8"))
    document["attributes"]["bigstitcher"] |= facts
    (url / "zarr.json").write_text(json.dumps(document), "utf-8")
    words = ["copy", url, tmp_path / "p.n5", "--project", tmp_path / "p.xml"]
    found = CliRunner().invoke(main, [*map(str, words)])
    assert found.exit_code
    assert isinstance(found.exception, SystemExit | N5Error), found.exception
    assert not (tmp_path / "p.xml").exists()


def test_a_loader_in_the_kept_xml_is_not_used(tmp_path: Path) -> None:
    url = tmp_path / "s.zarr"
    to_scene(stitched(tmp_path), url)
    document = json.loads((url / "zarr.json").read_text("utf-8"))
    kept = document["attributes"]["bigstitcher"]
    evil = (
        '<BasePath type="absolute">/etc</BasePath><SequenceDescription><ImageLoader '
        'format="bdv.n5" version="1.0"><n5 type="absolute">/etc</n5></ImageLoader>'
        "</SequenceDescription>"
    )
    kept["xml"] = f'<SpimData version="0.2">{evil}</SpimData>'
    (url / "zarr.json").write_text(json.dumps(document), "utf-8")
    run("copy", url, tmp_path / "p.n5", "--project", tmp_path / "p.xml")
    assert "/etc" not in (tmp_path / "p.xml").read_text()
    assert project_at(tmp_path / "p.xml").container == "p.n5"


SLOWLY = """
import sys, time
from xarray_n5.formats.zarr3.format import Zarr3
before = Zarr3.encode
def slowly(self, metadata, chunk):
    time.sleep(0.05)
    return before(self, metadata, chunk)
Zarr3.encode = slowly
import dask, xarray_n5
with dask.config.set(scheduler="threads", num_workers=2):
    xarray_n5.copy(sys.argv[1], sys.argv[2], dialect="ngff-0.6", resume=True)
"""


def test_a_killed_copy_is_resumed(tmp_path: Path) -> None:
    xml, url = stitched(tmp_path), tmp_path / "s.zarr"

    def chunks() -> list[Path]:
        # Unlike rglob, it tolerates folders that disappear meanwhile.
        found = [Path(top, name) for top, _, names in os.walk(url) for name in names]
        return [path for path in found if path.match("c/*/*/[!.]*")]

    with Python("-c", SLOWLY, xml, url, stderr=DEVNULL) as writer:
        when(lambda: len(chunks()) > 3, writer)
        killed = kill(writer)
    if killed:
        with pytest.raises(NodeExistsError):
            xarray_n5.copy(xml, url, dialect="ngff-0.6")
    kept = {path: path.stat().st_mtime_ns for path in chunks()}
    xarray_n5.copy(xml, url, dialect="ngff-0.6", resume=True)
    again = {path: path.stat().st_mtime_ns for path in chunks()}
    assert {path for path in kept if kept[path] == again[path]} or not killed
    before = xr.open_dataset(xml, engine="bdv", level=0, setups="flat")["project"]
    after = xr.open_dataset(url, engine="n5", level=0)["s"]
    assert np.array_equal(after[1], before.sel(t=0, setup=3))
    xarray_n5.copy(xml, url, dialect="ngff-0.6", resume=True)


@pytest.mark.parametrize("dialect", [None, "ngff-0.6"])
def test_a_part_of_a_scene_is_not_copied_as_a_scene(tmp_path: Path, dialect: str | None) -> None:
    to_scene(stitched(tmp_path), tmp_path / "s.zarr")
    message = r"is a scene, which is copied as a whole and does not support bounds; open it"
    with pytest.raises(ValueError, match=message):
        xarray_n5.copy(
            *(tmp_path / "s.zarr", tmp_path / "t.zarr"),
            bounds={"x": (0, 1)},
            dialect=dialect,
            format="zarr3",
        )
    assert not (tmp_path / "t.zarr").exists()
