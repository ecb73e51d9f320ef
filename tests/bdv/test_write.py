"""Datasets and trees are stored as projects of BigDataViewer and BigStitcher."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import dask
import dask.array as da
import fsspec
import numpy as np
import pytest
import xarray as xr
from fsspec.implementations.memory import MemoryFileSystem

import xarray_n5
import xarray_n5.bdv
from tests.bdv.test_open import NAMES, TURN, WORLDS, grid, steps_of
from tests.support.exhaustive import seeds, some
from tests.support.killing import BLOCKS, SHAPE, begin, kill, store_project, when
from tests.support.processes import Python
from tests.support.projects import (
    Setup,
    bigdataviewer_opens,
    canonical,
    diagonal,
    has_sections,
    older_programs_open,
    path_of_uri,
    project_xml,
    values,
    write_project,
)
from xarray_n5 import MetadataError, NodeExistsError, ResumeError, tutorial

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]

NUMBERS = np.arange(1, np.prod(SHAPE) + 1, dtype="u4").reshape(SHAPE)

pytestmark = pytest.mark.filterwarnings("ignore:.*views are not stored")


def opened(path: Path, **options: Any) -> Any:
    return xr.open_datatree(path, engine="n5", **options)


def check_same(one: Any, other: Any) -> None:
    """Two trees are identical, node by node."""
    assert list(one.groups) == list(other.groups)
    for node in one.subtree:
        expected = node.to_dataset(inherit=False).load()
        xr.testing.assert_identical(other[node.path].to_dataset(inherit=False).load(), expected)


def forget(tree: Any) -> Any:
    """A tree whose variables do not remember where they were opened from."""
    found = tree.copy(deep=True).load()
    for node in found.subtree:
        for name in node.variables:
            node[name].encoding = {}
    return xr.DataTree.from_dict(
        {
            node.path: xr.Dataset(
                {n: (v.dims, v.values, v.attrs) for n, v in node.data_vars.items()},
                {n: (v.dims, v.values, v.attrs) for n, v in node.coords.items()},
                node.attrs,
            )
            for node in found.subtree
        }
    )


# Round trips


def turned(where: Path) -> Path:
    setups = [Setup(id=0), Setup(id=3)]
    rng = np.random.default_rng(0)
    steps = {
        (t, s.id): [
            ("refined", np.eye(3, 4) + rng.normal(0, 0.1, (3, 4))),
            ("turned", TURN),
            ("calibration", diagonal((4, 1, 1))),
        ]
        for t in (0, 1)
        for s in setups
    }
    return write_project(where, setups, project_xml(setups, steps))


def gappy(where: Path) -> Path:
    setups = [Setup(id=0), Setup(id=1)]
    times = '<Timepoints type="range"><first>0</first><last>2</last></Timepoints>'
    steps = steps_of(setups, times=(0, 1, 2))
    xml = project_xml(setups, steps, timepoints=times, missing=[(1, 0)])
    return write_project(where, setups, xml, timepoints=(0, 1, 2), without=[(1, 0), (2, 1)])


def differing(where: Path) -> Path:
    setups = [Setup(id=0), Setup(id=1, shape=(4, 8, 8)), Setup(id=4, voxel=(1.0, 0.5, 0.5))]
    steps = {
        (t, s.id): [("", diagonal((2.0, 0.5, 0.5), (s.id, 0, 0)))] for t in (0, 1) for s in setups
    }
    return write_project(where, setups, project_xml(setups, steps))


def patterned(where: Path) -> Path:
    setups = [Setup(id=2, attributes={"channel": 3}, dtype="f4")]
    times = '<Timepoints type="pattern"><integerpattern>1,5,6</integerpattern></Timepoints>'
    xml = project_xml(setups, steps_of(setups, (1, 5, 6)), timepoints=times)
    return write_project(where, setups, xml, timepoints=(1, 5, 6))


def gridded(where: Path) -> Path:
    return write_project(where, grid(), project_xml(grid(), steps_of(grid()), names=NAMES))


PROJECTS: dict[str, Callable[[Path], Path]] = {
    "grid": gridded,
    "turned": turned,
    "missing": gappy,
    "setups that differ": differing,
    "pattern": patterned,
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("kind", PROJECTS)
def test_projects_are_stored_as_they_were_opened(
    tmp_path: Path, kind: str, *, remembers: bool
) -> None:
    tree = opened(PROJECTS[kind](tmp_path))
    (tmp_path / "b").mkdir()
    source = tree if remembers else forget(tree)
    source.n5.to_bdv(tmp_path / "b/project.xml", tmp_path / "b/x.n5")
    again = opened(tmp_path / "b/project.xml")
    if remembers or kind != "turned":
        check_same(tree, again)
    else:
        for node in again.subtree:
            xr.testing.assert_allclose(
                tree[node.path].to_dataset(), node.to_dataset(), rtol=1e-14, atol=1e-12
            )


@pytest.mark.matrix(4)
@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("remembers", [True, False])
def test_the_world_stays_as_it_is(tmp_path: Path, kind: str, *, remembers: bool) -> None:
    setup = Setup(id=0, voxel=(2.0, 0.5, 0.5))
    steps = {(0, 0): WORLDS[kind][0]}
    once = '<Timepoints type="range"><first>0</first><last>0</last></Timepoints>'
    xml = project_xml([setup], steps, timepoints=once)
    tree = opened(write_project(tmp_path, [setup], xml, timepoints=(0,)))
    (tmp_path / "b").mkdir()
    source = tree if remembers else forget(tree)
    source.n5.to_bdv(tmp_path / "b/project.xml", tmp_path / "b/x.n5")
    check_same(tree, opened(tmp_path / "b/project.xml"))


# New projects


def image(**changes: Any) -> xr.DataArray:
    """Two channels of a small stack, with places."""
    facts: dict[str, Any] = {
        "z": ("z", 5 + 2.0 * np.arange(6), {"units": "um"}),
        "y": ("y", 0.3 * np.arange(8), {"units": "um"}),
        "x": ("x", -4 + 0.3 * np.arange(10), {"units": "um"}),
        "channel": ["GFP", "RFP"],
    }
    data = np.arange(2 * 6 * 8 * 10, dtype="u2").reshape(2, 6, 8, 10)
    return xr.DataArray(data, {**facts, **changes}, ("channel", "z", "y", "x"), name="image")


def texts(element: ET.Element, path: str) -> list[str | None]:
    return [each.text for each in element.findall(path)]


def test_the_xml_has_every_element_that_readers_expect(tmp_path: Path) -> None:
    several = xr.concat([image(), image() + 1], xr.Variable("t", [2, 3])).astype("u2")
    several.n5.to_bdv(tmp_path / "dataset.xml", tmp_path / "out.n5")
    root = ET.parse(tmp_path / "dataset.xml").getroot()  # noqa: S314 - our own
    assert (root.tag, root.attrib) == ("SpimData", {"version": "0.2"})
    assert [each.tag for each in root] == ["BasePath", "SequenceDescription", "ViewRegistrations"]
    assert (root[0].text, root[0].attrib) == (".", {"type": "relative"})
    sequence = root[1]
    assert [each.tag for each in sequence] == [
        *("ImageLoader", "ViewSetups", "Timepoints", "MissingViews"),
    ]
    assert sequence[0].attrib == {"format": "bdv.n5", "version": "1.0"}
    assert (sequence[0][0].text, sequence[0][0].attrib) == ("out.n5", {"type": "relative"})
    setups = sequence.findall("ViewSetups/ViewSetup")
    assert texts(sequence, "ViewSetups/ViewSetup/id") == ["0", "1"]
    assert texts(sequence, "ViewSetups/ViewSetup/name") == ["channel GFP", "channel RFP"]
    for number, setup in enumerate(setups):
        tags = [each.tag for each in setup]
        assert tags == ["id", "name", "size", "voxelSize", "attributes"]
        assert setup.findtext("size") == "10 8 6"
        assert setup.findtext("voxelSize/unit") == "um"
        assert setup.findtext("voxelSize/size") == "0.3 0.3 2.0"
        found = {each.tag: each.text for each in setup[-1]}
        ids = {"illumination": "0", "channel": str(number), "tile": "0", "angle": "0"}
        assert found == ids
    named = {each.get("name"): each for each in sequence.findall("ViewSetups/Attributes")}
    assert list(named) == ["illumination", "channel", "tile", "angle"]
    assert texts(named["channel"], "Channel/id") == ["0", "1"]
    assert texts(named["channel"], "Channel/name") == ["GFP", "RFP"]
    assert texts(named["tile"], "Tile/name") == ["0"]
    times = sequence.find("Timepoints")
    assert times is not None
    assert times.attrib == {"type": "range"}
    assert [(each.tag, each.text) for each in times] == [("first", "2"), ("last", "3")]
    registrations = root.findall("ViewRegistrations/ViewRegistration")
    assert [(each.get("timepoint"), each.get("setup")) for each in registrations] == [
        *(("2", "0"), ("2", "1"), ("3", "0"), ("3", "1")),
    ]
    steps = registrations[0].findall("ViewTransform")
    assert {each.get("type") for each in steps} == {"affine"}
    assert [each.findtext("Name") for each in steps] == ["Translation", "calibration"]
    moved, calibration = ([*map(float, (e.findtext("affine") or "").split())] for e in steps)
    np.testing.assert_allclose(calibration, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2 / 0.3, 0])
    np.testing.assert_allclose(moved, [1, 0, 0, -4 / 0.3, 0, 1, 0, 0, 0, 0, 1, 5 / 0.3])


def test_the_container_is_as_bigstitcher_writes_it(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict(
        {
            "s0": image().to_dataset(),
            "s1": image().coarsen(y=2, x=2).mean().astype("u2").to_dataset(),
        }
    )
    encoding = {f"/s{n}": {"image": {"chunks": (4, 8, 8), "compression": "zstd"}} for n in (0, 1)}
    tree.n5.to_bdv(tmp_path / "dataset.xml", tmp_path / "out.n5", encoding=encoding)

    def facts(path: str) -> Any:
        found = json.loads((tmp_path / "out.n5" / path / "attributes.json").read_text("utf-8"))
        found.pop("compression", None)
        return found

    array = {"dataType": "uint16", "blockSize": [8, 8, 4]}
    full = {**array, "dimensions": [10, 8, 6]}
    assert facts("setup1") == {**full, "downsamplingFactors": [[1, 1, 1], [2, 2, 1]]}
    assert facts("setup1/timepoint0") == {
        "resolution": [1.0, 1.0, 1.0],
        "saved_completely": True,
        "multiScale": True,
    }
    assert facts("setup1/timepoint0/s0") == {**full, "downsamplingFactors": [1, 1, 1]}
    half = {**array, "dimensions": [5, 4, 6], "downsamplingFactors": [2, 2, 1]}
    assert facts("setup1/timepoint0/s1") == half


GEOMETRIES = {
    "usual": (0.4, 0.1, 0.1, "um"),
    "thirds": (1 / 3, 0.7, 0.3, "nm"),
    "cubes": (8.0, 8.0, 8.0, "nm"),
    "cubes of one": (1.0, 1.0, 1.0, "mm"),
    "no unit": (2.0, 1.0, 0.5, None),
}


@pytest.mark.parametrize("kind", GEOMETRIES)
def test_coordinates_lead_to_the_same_coordinates(tmp_path: Path, kind: str) -> None:
    *scales, unit = GEOMETRIES[kind]
    coords = {
        dim: (dim, 7.3 + scale * np.arange(size), {"units": unit} if unit else {})
        for dim, scale, size in zip("zyx", scales, (6, 8, 10), strict=True)
    }
    array = image(**coords)
    array.n5.to_bdv(tmp_path / "image.xml", tmp_path / "out.n5")
    found = xr.open_dataset(tmp_path / "image.xml", engine="n5", level=0)
    np.testing.assert_array_equal(found["image"].sel(t=0), array)
    assert found["image"].dims == ("t", "channel", "z", "y", "x")
    assert found.channel_name.values.tolist() == ["GFP", "RFP"]
    for dim in "zyx":
        np.testing.assert_allclose(found[dim], array[dim], rtol=1e-15)
        assert found[dim].attrs == array[dim].attrs


def test_a_stack_without_coordinates_is_one_setup(tmp_path: Path) -> None:
    stack = xr.DataArray(np.ones((3, 4, 5), "u1"), dims=("z", "y", "x"))
    stack.encoding["compression"] = "lzf"  # of another library, as an opened file has it
    stack.n5.to_bdv(tmp_path / "a.xml", tmp_path / "out.n5")
    found = xr.open_dataset(tmp_path / "a.xml", engine="n5", level=0)
    assert dict(found["a"].sizes) == {"t": 1, "setup": 1, "z": 3, "y": 4, "x": 5}
    assert "units" not in found.x.attrs
    assert "<unit>pixel</unit>" in (tmp_path / "a.xml").read_text("utf-8")
    assert found.x.values.tolist() == [0, 1, 2, 3, 4]


def test_images_that_differ_are_tiles_of_their_own(tmp_path: Path) -> None:
    one, other = image()[0], image()[1, :4]
    tree = xr.DataTree.from_dict(
        {name: each.drop_vars("channel").to_dataset() for name, each in (("a", one), ("b", other))}
    )
    tree.n5.to_bdv(tmp_path / "out.xml", tmp_path / "out.n5")
    found = opened(tmp_path / "out.xml")
    assert list(found.children) == ["setup0", "setup1"]
    assert [found[f"setup{n}/s0"].tile.item() for n in (0, 1)] == [0, 1]
    np.testing.assert_array_equal(found["setup1/s0"]["out"][0], other)
    row = image().drop_vars("channel").rename(channel="setup")
    row.n5.to_bdv(tmp_path / "row.xml", tmp_path / "row.n5")
    ds = xr.open_dataset(tmp_path / "row.xml", engine="bdv", setups="flat")
    assert (ds.setup.values.tolist(), ds.tile.values.tolist()) == ([0, 1], [0, 1])


def test_origins_place_tiles(tmp_path: Path) -> None:
    tiles = xr.concat([image()[0], image()[1]], "tile").drop_vars("channel")
    tiles = tiles.assign_coords(origin_x=("tile", [0.0, 2.7], {"units": "um"}))
    tiles.n5.to_bdv(tmp_path / "a.xml", tmp_path / "out.n5")
    found = xr.open_dataset(tmp_path / "a.xml", engine="n5", level=0)
    np.testing.assert_allclose(found.origin_x, [-4, -1.3])
    np.testing.assert_allclose(found.origin_z, 5)


def test_an_affine_places_views(tmp_path: Path) -> None:
    matrices = np.stack([np.array(TURN, float) * 0.3, diagonal((2.0, 0.3, 0.3), (1, 2, 3))])
    views = (
        image()
        .to_dataset()
        .assign_coords(
            affine=(("channel", "axis", "column"), matrices, {"units": "um"}), axis=list("zyx")
        )
    )
    views.n5.to_bdv(tmp_path / "a.xml", tmp_path / "out.n5")
    found = xr.open_dataset(tmp_path / "a.xml", engine="n5", level=0)
    np.testing.assert_allclose(found.affine[0], matrices, rtol=1e-15, atol=1e-15)
    assert found.affine.attrs["units"] == "um"


@pytest.fixture
def two_tiles() -> xr.Dataset:
    """Two tiles, of which the second is at x = 28 um."""
    return xr.open_dataset(tutorial.path("tiles"), engine="bdv", level=0, chunks={}).isel(t=0)


def moved(tiles: xr.Dataset, name: str) -> xr.DataArray:
    """Their matrices or origins, of which that of the second tile is 2 um further."""
    found = tiles[name].copy()
    if name == "affine":
        found.loc[{"tile": 1, "axis": "x", "column": "1"}] += 2
    else:
        found.loc[{"tile": 1}] += 2
    return found


def test_a_tile_is_moved_by_its_matrix_or_its_origin(two_tiles: xr.Dataset, tmp_path: Path) -> None:
    origins = [f"origin_{axis}" for axis in "zyx"]
    by_matrix = two_tiles.assign_coords(affine=moved(two_tiles, "affine")).drop_vars(origins)
    by_origin = two_tiles.assign_coords(origin_x=moved(two_tiles, "origin_x")).drop_vars("affine")
    alone = by_origin.drop_vars("registration")
    for number, each in enumerate([by_matrix, by_origin, alone, alone["tiles"]]):
        assert each.n5.to_world([0, 0, 0])[0, 1, 2] == 30
        each.n5.to_bdv(tmp_path / f"{number}.xml")
        found = xr.open_dataset(tmp_path / f"{number}.xml", engine="bdv")
        np.testing.assert_array_equal(found.origin_x.sel(channel=0), [0, 30])
    with pytest.raises(ValueError, match="use the methods of its accessor n5"):
        by_matrix["tiles"].n5.to_world([0, 0, 0])
    with pytest.raises(MetadataError):
        by_matrix["tiles"].n5.to_bdv(tmp_path / "no.xml")


@pytest.mark.parametrize("name", ["affine", "origin_x"])
def test_two_positions_of_a_view_are_refused(
    two_tiles: xr.Dataset, name: str, tmp_path: Path
) -> None:
    changed = two_tiles.assign_coords({name: moved(two_tiles, name)})
    for each in (changed, changed.isel(x=slice(3, None, 2), z=slice(1, 2))):
        for use in (
            lambda ds: ds.n5.to_world([0, 0, 0]),
            lambda ds: xarray_n5.world_grid(ds, spacing=1),
            lambda ds: ds.n5.to_bdv(tmp_path / "no.xml"),
        ):
            with pytest.raises(ValueError, match="'affine' and 'origin_x' place a view 2 apart"):
                use(each)
    for plane in (two_tiles.isel(z=1), two_tiles.isel(z=1, drop=True)):
        assert plane.n5.to_world([0, 0, 0])[0, 1, 2] == 28
    assert not [*tmp_path.iterdir()]


def test_what_was_registered_is_not_changed(two_tiles: xr.Dataset, tmp_path: Path) -> None:
    registered = two_tiles.registration.copy()
    registered.loc[{"tile": 1, "axis": "x", "column": "1"}] += 4
    registered.encoding = two_tiles.registration.encoding
    with pytest.raises(MetadataError, match="'registration' was changed"):
        two_tiles.assign_coords(registration=registered).n5.to_bdv(tmp_path / "no.xml")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The XML of two tiles, in a copy of their project."""
    shutil.copytree(tutorial.path("tiles").parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "tiles.xml"


def test_positions_are_registered_and_all_else_stays(copied: Path) -> None:
    before, images = copied.read_bytes(), sorted(copied.parent.rglob("*"))
    ds = xr.open_dataset(copied, engine="bdv", level=0, chunks={})
    xarray_n5.bdv.register(ds, copied)
    assert copied.read_bytes() == before
    origins = [f"origin_{axis}" for axis in "zyx"]
    affine = moved(ds, "affine")
    xarray_n5.bdv.register(ds.assign_coords(affine=affine).drop_vars(origins), copied)
    found = xr.open_datatree(copied, engine="bdv")
    np.testing.assert_array_equal(found["s0"].affine, affine)
    assert (found["s1"].affine.sel(axis="x", column="1") == [0.25, 30.25]).all()
    after = copied.read_bytes()
    parts = [canonical(text).partition("<ViewRegistrations>") for text in (before, after)]
    assert parts[0][0] == parts[1][0]
    ends = [part[2].partition("</ViewRegistrations>")[2] for part in parts]
    assert ends[0] == ends[1]
    assert sorted(copied.parent.rglob("*")) == images
    for transforms in ET.fromstring(after).findall(".//ViewRegistration[@setup='0']"):  # noqa: S314
        assert canonical(ET.tostring(transforms)).strip() in canonical(before)


def test_one_time_point_is_registered_by_its_origin(copied: Path) -> None:
    ds = xr.open_dataset(copied, engine="bdv", level=0, chunks={}).isel(t=1)
    origin = moved(ds, "origin_x")
    xarray_n5.bdv.register(ds.assign_coords(origin_x=origin).drop_vars("affine"), copied)
    found = xr.open_dataset(copied, engine="bdv", level=0)
    np.testing.assert_array_equal(found.origin_x.isel(channel=0), [[0, 28], [0, 30]])


def test_positions_of_something_else_are_not_registered(copied: Path, tmp_path: Path) -> None:
    before = copied.read_bytes()
    ds = xr.open_dataset(copied, engine="bdv", level=0, chunks={})
    cut = ds.drop_vars("affine")
    for wrong, message in (
        (xr.open_dataset(copied, engine="bdv", level=1), "pass the whole base level"),
        (ds.isel(x=slice(4, None)), "these are parts of views"),
        (ds.isel(x=slice(None, None, -1)), "samples in another order"),
        (cut.isel(x=slice(None, None, -1)), "samples in another order"),
        (cut.isel(x=slice(4, None)), "pass the whole base level"),
        (ds.assign_coords(t=[4, 5]), "not in the project at these times"),
        (ds.assign_coords(setup=ds.setup + 9), "setup 9 is not in the project"),
    ):
        with pytest.raises(MetadataError, match=message):
            xarray_n5.bdv.register(wrong, copied)
    with pytest.raises(FileNotFoundError, match="no project at"):
        xarray_n5.bdv.register(ds, tmp_path / "other.xml")
    assert copied.read_bytes() == before


def test_parts_of_a_project_lie_where_they_lay(tmp_path: Path) -> None:
    ds = xr.open_dataset(turned(tmp_path), engine="n5", level=1)
    part = ds.isel(t=[1], setup=[1], y=slice(2, None), x=slice(None, None, 2))
    (tmp_path / "b").mkdir()
    part.n5.to_bdv(tmp_path / "b/project.xml", tmp_path / "b/x.n5")
    found = xr.open_dataset(tmp_path / "b/project.xml", engine="n5", level=0)
    points = np.array([[0, 0, 0], [1, 2, 3]])
    np.testing.assert_allclose(found.n5.to_world(points), part.n5.to_world(points))
    assert (found.t.item(), found.setup.item()) == (1, 3)
    np.testing.assert_array_equal(found["project"], part["project"])


REFUSED: dict[str, tuple[Callable[[xr.DataArray], Any], str]] = {
    "two variables": (lambda a: xr.Dataset({"a": a, "b": a}), "2 variables: a, b"),
    "other dimensions": (lambda a: a.rename(x="u"), "expected z, y, x"),
    "planes": (lambda a: a.isel(z=0), "expected z, y, x"),
    "uneven": (lambda a: a.assign_coords(x=np.arange(10.0) ** 2), "'x' is not evenly spaced"),
    "units": (
        lambda a: a.assign_coords(z=("z", np.arange(6.0) * 2, {"units": "s"})),
        "cannot convert lengths in 's' and in 'um'",
    ),
    "names": (
        lambda a: a.assign_coords(channel=["a\x01", "b"]),
        "XML cannot represent the character",
    ),
    "type": (lambda a: a.astype(complex), "N5 cannot store elements of type complex128"),
    "the same setup": (lambda a: a.assign_coords(setup=("channel", [1, 1])), "have the setup 1"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_a_project_is_refused_before_anything_is_written(
    tmp_path: Path, kind: str
) -> None:
    change, match = REFUSED[kind]
    source = change(image())
    with pytest.raises(MetadataError, match=match):
        source.n5.to_bdv(tmp_path / "a.xml", tmp_path / "out.n5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"data": "a.h5"}, "a project is written as N5, but this is hdf5"),
        ({"data": "a.zarr"}, "a project is written as N5, but this is zarr2"),
        ({"data": "a.n5/inner"}, "omit the group 'inner'"),
        ({"append_dim": "t"}, "append_dim"),
        ({"mode": "r+"}, "mode"),
        ({"encoding": {"image": {"scale_factor": 2}}}, "scale_factor"),
        ({"encoding": {"image": {"chunks": (2, 2)}}}, "sides along z, y, x"),
    ],
)
def test_options_that_are_not_for_projects_are_refused(
    tmp_path: Path, options: dict[str, Any], match: str
) -> None:
    given = {**options, "data": tmp_path / options.get("data", "out.n5")}
    with pytest.raises((ValueError, TypeError, MetadataError), match=match):
        image().n5.to_bdv(tmp_path / "a.xml", **given)
    assert list(tmp_path.iterdir()) == []


# Existing projects


SECTIONS = """<!-- a comment -->
  <ViewInterestPoints>
    <ViewInterestPointsFile setup="0" label="b&amp;w"   params='a'>x</ViewInterestPointsFile>
  </ViewInterestPoints>
  <BoundingBoxes><BoundingBoxDefinition name="box"><min>0 0 0</min></BoundingBoxDefinition>
  </BoundingBoxes>
  <PointSpreadFunctions />
  <StitchingResults>\t</StitchingResults>
  <IntensityAdjustments></IntensityAdjustments>
  <Unknown xmlns:a="b"><a:c>\u00e9<![CDATA[<Timepoints>]]></a:c></Unknown>
"""


@pytest.fixture
def stitched(tmp_path: Path) -> Path:
    """A project with sections and elements that are not known."""
    text = project_xml(grid(), steps_of(grid()), names=NAMES, more=SECTIONS)
    text = text.replace("<ViewSetups>", "<ViewSetups><!-- setups -->")
    text = text.replace("</ViewSetup>", "<own>1</own></ViewSetup>", 1)
    text = text.replace("<Channel><id>0</id>", "<Channel><id>0</id><color>1 2 3</color>")
    return write_project(tmp_path, grid(), text)


def later(path: Path, t: int) -> xr.DataTree:
    """The views of a project at another time point, with other values."""
    tree = opened(path, chunks={})
    return xr.DataTree.from_dict(
        {
            name: (node.to_dataset().isel(t=[0]).assign_coords(t=[t]) + 1).astype("u2")
            for name, node in tree.children.items()
        }
    )


def test_views_are_added_and_all_else_stays(stitched: Path) -> None:
    before, old = canonical(stitched.read_bytes()), opened(stitched).load()
    later(stitched, 5).n5.to_bdv(stitched, stitched.with_name("x.n5"), mode="a")
    assert has_sections(stitched.read_bytes(), SECTIONS)
    after = canonical(stitched.read_bytes())
    start = before.index("<SequenceDescription>"), after.index("<SequenceDescription>")
    assert before[: start[0]] == after[: start[1]]
    for piece in ("<!-- setups -->", "<own>1</own>", "<color>1 2 3</color>"):
        assert before.count(piece) == after.count(piece) == 1
    setups = before[before.index("<ViewSetups>") : before.index("</ViewSetups>")]
    assert setups in after
    registered = before[before.index("<ViewRegistrations>") : before.index("</ViewRegistr")]
    assert registered in after
    new = opened(stitched)
    assert new["s0"].t.values.tolist() == [0, 1, 5]
    for level in ("s0", "s1", "s2"):
        kept = new[level].to_dataset().sel(t=[0, 1]).load()
        xr.testing.assert_identical(kept, old[level].to_dataset())
        found, one = new[level]["project"].sel(t=5), old[level]["project"].sel(t=0)
        np.testing.assert_array_equal(found, one + 1)


def test_the_same_views_again_change_no_byte_of_the_xml(stitched: Path) -> None:
    before = stitched.read_bytes()
    tree = opened(stitched).load()
    tree.n5.to_bdv(stitched, stitched.with_name("x.n5"), mode="a")
    assert stitched.read_bytes() == before
    check_same(tree, opened(stitched))


def test_new_setups_leave_gaps_at_other_time_points(stitched: Path) -> None:
    new = xr.DataTree.from_dict(
        {
            name: node.to_dataset()
            .isel(t=[1], channel=[0], tile=[0])
            .assign_coords(
                tile=[9], tile_name=("tile", ["new"]), setup=(("channel", "tile"), [[7]])
            )
            for name, node in opened(stitched).children.items()
        }
    )
    new.n5.to_bdv(stitched, stitched.with_name("x.n5"), mode="a")
    text = stitched.read_text("utf-8")
    assert '<MissingView timepoint="0" setup="7" />' in text
    assert has_sections(stitched.read_bytes(), SECTIONS)
    ds = xr.open_dataset(stitched, engine="n5", level=0)
    assert ds.setup.values.tolist() == [0, 1, 2, 3, 7]
    assert ds.tile_name.values.tolist()[-1] == "new"
    assert ds.missing.sel(setup=7).values.tolist() == [True, False]
    np.testing.assert_array_equal(ds["project"].sel(t=1, setup=7), values((1, 0), 0, (6, 12, 16)))


def coarser(stack: xr.DataArray, z: int, y: int, x: int) -> xr.DataArray:
    return stack.coarsen(z=z, y=y, x=x).mean().astype(stack.dtype)


def test_new_setups_get_ids_that_are_free(stitched: Path) -> None:
    stack = xr.DataArray(np.full((6, 12, 16), 3, "u2"), dims=("z", "y", "x"))
    nm = {"units": "nm"}
    stack = stack.assign_coords({d: (d, 500.0 * np.arange(n), nm) for d, n in stack.sizes.items()})
    factors = {"s0": stack, "s1": coarser(stack, 1, 2, 2), "s2": coarser(stack, 2, 4, 4)}
    tree = xr.DataTree.from_dict({k: v.to_dataset(name="a") for k, v in factors.items()})
    tree.n5.to_bdv(stitched, stitched.with_name("x.n5"), mode="a")
    with pytest.raises(ValueError, match="differ in shape, type or voxel size"):
        xr.open_dataset(stitched, engine="n5", level=0)
    one = xr.open_dataset(stitched, engine="bdv", level=0, setup=4)
    assert one["project"][0].mean() == 3
    assert (float(one.x[1]), one.x.attrs["units"]) == (0.5, "um")  # as of the other views
    assert one.affine.attrs["world_unit"] == "calibration"
    # It is a tile of its own, and others keep their names.
    assert (one.channel_name.item(), one.tile.item()) == ("GFP", 0)
    assert xr.open_dataset(stitched, engine="bdv", level=0, setup=0).channel_name == "GFP"


CONFLICTS: dict[str, tuple[Callable[[xr.Dataset], xr.Dataset], str]] = {
    "size": (
        lambda ds: ds.isel(x=slice(8)),
        r"a setup of size \(6, 12, 16\); the new one has \(6, 12, 8\)",
    ),
    "voxels": (
        lambda ds: ds.isel(x=slice(None, None, 2)).pad(x=(0, 8)).astype("u2"),
        "a setup with voxel size",
    ),
    "type": (lambda ds: ds.astype("f4"), "a setup of type uint16; the new one has float32"),
    "levels": (lambda ds: ds, r"a setup with factors \[\[1, 1, 1\], \[2, 2, 1\]"),
    "channel": (
        lambda ds: ds.assign_coords(channel=[4, 5]),
        "a setup of channel 0; the new one has 4",
    ),
}


@pytest.mark.parametrize("kind", CONFLICTS)
def test_conflicts_are_refused_before_anything_is_written(stitched: Path, kind: str) -> None:
    change, match = CONFLICTS[kind]
    before = {p: p.read_bytes() for p in stitched.parent.rglob("*") if p.is_file()}
    ds = xr.open_dataset(stitched, engine="n5", level=0).isel(t=[0])
    if kind == "voxels":
        ds = ds.drop_vars(["affine", "registration"]).assign_coords(x=ds.x * 2)
        change = lambda ds: ds  # noqa: E731
    for mode in ("a", "w"):
        with pytest.raises(NodeExistsError, match=match):
            change(ds).n5.to_bdv(stitched, stitched.with_name("x.n5"), mode=mode)
    assert before == {p: p.read_bytes() for p in stitched.parent.rglob("*") if p.is_file()}


def test_setups_may_become_others_if_all_their_views_are_replaced(stitched: Path) -> None:
    ds = xr.open_dataset(stitched, engine="n5", level=0).isel(x=slice(4, None)).load()
    ds.n5.to_bdv(stitched, stitched.with_name("x.n5"), mode="w")
    found = xr.open_dataset(stitched, engine="n5")  # there is one level now
    np.testing.assert_array_equal(found["project"], ds["project"])
    moved = np.zeros((3, 4))
    moved[2, 3] = 2.0
    np.testing.assert_allclose(found.affine, ds.affine + moved)
    assert has_sections(stitched.read_bytes(), SECTIONS)
    assert not (stitched.with_name("x.n5") / "setup0/timepoint0/s1").exists()


def test_nothing_that_exists_is_replaced_by_default(stitched: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeExistsError, match=r"\(a project\); use mode='a' to add views"):
        image().n5.to_bdv(stitched, stitched.with_name("x.n5"))
    with pytest.raises(NodeExistsError, match="a container with setup0"):
        image().n5.to_bdv(tmp_path / "new.xml", stitched.with_name("x.n5"))
    with pytest.raises(
        MetadataError, match=r"the project's container is 'x.n5' \(bdv.n5\), expected"
    ):
        image().n5.to_bdv(stitched, tmp_path / "other.n5", mode="a")
    (tmp_path / "page.xml").write_text("<html/>", "utf-8")
    with pytest.raises(NodeExistsError, match="a file that is not the XML of a project"):
        image().n5.to_bdv(tmp_path / "page.xml", tmp_path / "other.n5", mode="w")
    for xml in (tmp_path, tmp_path / "tiles.n5"):
        with pytest.raises(MetadataError, match="expected the path of an XML file"):
            image().n5.to_bdv(xml, tmp_path / "other.n5")


# Interrupted writes


@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_killed_write_leaves_the_old_xml_or_the_new_one(tmp_path: Path, seed: int) -> None:
    place, xml, log = tmp_path / "out.n5", tmp_path / "out.xml", tmp_path / "log"
    log.mkdir()
    first = xr.DataArray(np.zeros(SHAPE, "u4"), dims=("z", "y", "x"), name="a")
    first.n5.to_bdv(xml, place, encoding={"a": {"chunks": BLOCKS}})
    old = xml.read_bytes().replace(b"</SpimData>", SECTIONS.encode() + b"</SpimData>")
    xml.write_bytes(old)
    moment = [5, 16, 16][seed % 3]
    with Python("-m", "tests.support.killing", place, log, "project", "threads") as writer:
        when(lambda: len(list(log.iterdir())) >= moment, writer)
        if seed % 3 == 2:
            when(lambda: xml.read_bytes() != old, writer)
        kill(writer)  # it may have ended
    left = xml.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = xr.open_dataset(xml, engine="n5")
        if left == old:
            assert ds.t.values.tolist() == [0]
        else:
            np.testing.assert_array_equal(ds["out"].sel(t=1, setup=0), NUMBERS)
    store_project(place, log, resume=True)
    new = xr.open_dataset(xml, engine="n5")
    assert new.t.values.tolist() == [0, 1]
    np.testing.assert_array_equal(new["out"].sel(t=1, setup=0), NUMBERS)
    assert has_sections(xml.read_bytes(), SECTIONS)
    if left != old:
        assert left == xml.read_bytes()


def test_the_xml_of_a_deferred_write_is_written_when_it_is_computed(tmp_path: Path) -> None:
    lazy = image().chunk(channel=1)
    later = lazy.n5.to_bdv(tmp_path / "out.xml", tmp_path / "out.n5", compute=False)
    assert not (tmp_path / "out.xml").exists()
    report = later.compute()
    assert report.arrays["setup1/timepoint0/s0"].chunks == 1
    found = xr.open_dataset(tmp_path / "out.xml", engine="n5")
    np.testing.assert_array_equal(found["out"][0], image())


# Other programs


def test_pybdv_reads_every_view_equal(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        metadata = pytest.importorskip("pybdv.metadata")
        from pybdv.util import get_key, open_file
    tree = opened(gridded(tmp_path)).load()
    (tmp_path / "b").mkdir()
    xml = tmp_path / "b/project.xml"
    tree.n5.to_bdv(xml, tmp_path / "b/x.n5")
    base = tree["s0"].to_dataset()
    assert Path(metadata.get_data_path(str(xml), return_absolute_path=True)) == tmp_path / "b/x.n5"
    for t, channel, tile in np.ndindex(2, 2, 2):
        view = base.isel(t=t, channel=channel, tile=tile)
        setup, time = int(view.setup), int(view.t)
        size = metadata.get_resolution(str(xml), setup)
        assert size == view.setup.attrs["voxel_size"]
        assert metadata.get_size(str(xml), setup) == view["project"].shape
        assert metadata.get_unit(str(xml), setup) == "um"
        steps = metadata.get_affine(str(xml), setup, time)
        whole = np.eye(4)
        for step in steps.values():
            whole = whole @ np.vstack([np.reshape(step, (3, 4)), [0, 0, 0, 1]])
        registered = view.registration.values
        np.testing.assert_array_equal(whole[:3, :3], registered[::-1, -2::-1])
        np.testing.assert_array_equal(whole[:3, 3], registered[::-1, 3])
        with open_file(str(tmp_path / "b/x.n5"), "r") as file:
            for level in range(3):
                key = get_key(is_h5=False, timepoint=time, setup_id=setup, scale=level)
                expected = tree[f"s{level}"]["project"].isel(t=t, channel=channel, tile=tile)
                np.testing.assert_array_equal(file[key][:], expected)


# Levels, and what was opened


def test_levels_of_every_view_are_computed(tmp_path: Path) -> None:
    array = image().chunk(channel=1)
    how: Any = {"factors": [2, (1, 2, 2)], "encoding": {"image": {"chunks": 4}}}
    report = array.n5.to_bdv(tmp_path / "out.xml", **how)
    assert len(report.to_datatree()["setup1/timepoint0"].children) == 3
    tree = opened(tmp_path / "out.xml")
    assert [dict(tree[f"s{n}"].sizes)["x"] for n in range(3)] == [10, 5, 2]
    np.testing.assert_array_equal(tree["s0"]["out"][0], image())
    means = array.astype(float).coarsen(z=2, y=2, x=2).mean()
    np.testing.assert_array_equal(tree["s1"]["out"][0], np.rint(means))
    for dim in "zyx":
        np.testing.assert_allclose(tree["s1"][dim], means[dim])
    image().assign_coords(t=3).n5.to_bdv(tmp_path / "out.xml", mode="a", **how)
    assert opened(tmp_path / "out.xml")["s2"].t.values.tolist() == [0, 3]


@pytest.mark.parametrize("chunked", [True, False])
def test_levels_are_halved_until_one_fits_into_a_chunk(tmp_path: Path, *, chunked: bool) -> None:
    array = image()
    if chunked:
        array = array.chunk(z=4, y=4, x=4)
    array.n5.to_bdv(tmp_path / "a.xml", factors=2, method="max")
    tree = opened(tmp_path / "a.xml")
    assert list(tree.children) == (["s0", "s1", "s2"] if chunked else ["s0"])
    array.n5.to_bdv(tmp_path / "b.xml", levels=1, method="max")
    halved = image().coarsen(z=1, y=2, x=2).max()
    np.testing.assert_array_equal(opened(tmp_path / "b.xml")["s1"]["b"][0], halved)


def test_levels_of_turned_views_have_their_matrices(two_tiles: xr.Dataset, tmp_path: Path) -> None:
    turned = two_tiles.affine.copy()
    turned.loc[{"tile": 1, "axis": "y", "column": "x"}] = 0.1
    ds = two_tiles.assign_coords(affine=turned).drop_vars([f"origin_{axis}" for axis in "zyx"])
    ds.n5.to_bdv(tmp_path / "levels.xml", factors=[(1, 2, 2)])
    tree = xr.open_datatree(tmp_path / "levels.xml", engine="bdv")
    np.testing.assert_allclose(tree["s0"].affine.isel(t=0, drop=True), turned)
    means = two_tiles["tiles"].coarsen(y=2, x=2).mean().round()
    np.testing.assert_allclose(tree["s1/levels"].isel(t=0), means, atol=1)
    view = xarray_n5.open_array(tmp_path / "levels.n5", "setup0/timepoint0/s0")
    with pytest.raises(ValueError, match="is a view of a project"):
        xarray_n5.add_levels(view)


def test_finished_levels_are_resumed(tmp_path: Path) -> None:
    for _ in range(2):
        report = image().n5.to_bdv(tmp_path / "a.xml", levels=1, resume=True)
        assert len(report.to_datatree()["setup0/timepoint0"].children) == 2
        assert (report.arrays["setup0/timepoint0/s1"].kept > 0) == (_ > 0)


def test_levels_that_are_not_for_projects_are_refused(tmp_path: Path) -> None:
    xml = tmp_path / "a.xml"
    tree = xr.DataTree.from_dict(
        {"s0": image().to_dataset(), "s1": image()[..., ::2, ::2].to_dataset()}
    )
    for source, how in (
        (image(), {"levels": 1, "method": "nearest"}),
        (image(), {"levels": 1, "compute": False}),
        (image(), {"factors": 1}),
        (image(), {"factors": [(1, 99, 1)]}),
        (image() > 1, {"levels": 1}),
        (tree, {"levels": 1}),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
            source.n5.to_bdv(xml, **how)
    assert not xml.exists()
    assert not (tmp_path / "a.n5").exists()


def test_pyramids_of_other_formats_become_projects(tmp_path: Path) -> None:
    xarray_n5.pyramid(image(), tmp_path / "a.zarr", "cells", factors=[(1, 1, 2, 2)])
    tree = xr.open_datatree(tmp_path / "a.zarr", engine="n5", group="cells", chunks={})
    report = tree.n5.to_bdv(tmp_path / "b.xml")
    assert len(report.to_datatree()["setup1/timepoint0"].children) == 2
    tree = opened(tmp_path / "b.xml")
    np.testing.assert_array_equal(tree["s0"]["b"][0], image())
    assert tree["s1"].x.attrs["units"] == "um"


# Places, and several writers


def test_the_path_of_a_container_is_relative_to_the_xml_if_it_can_be(tmp_path: Path) -> None:
    for xml, place in (("a/x.xml", "a/b/x.n5"), ("c/d/y.xml", "c/y.n5")):
        image().n5.to_bdv(tmp_path / xml, tmp_path / place)
        assert "image" not in xr.open_dataset(tmp_path / xml, engine="n5", level=0)
    first, second = ((tmp_path / name).read_text("utf-8") for name in ("a/x.xml", "c/d/y.xml"))
    assert '<n5 type="relative">b/x.n5</n5>' in first
    assert f'<n5 type="absolute">{tmp_path}/c/y.n5</n5>' in second


NAMES_OF_CONTAINERS = (
    "plain.n5",
    "größe+1,(2);=@~!$&'.n5",
    "two words.n5",
    " edges ",
    "a%20b.n5",
    "100%.n5",
    "%2e%2e%2fc.n5",
    "no#1.n5",
    "what?.n5",
    "s3:a.n5",
    "c:a.n5",
    "a[1].n5",
    "a{b}^c|d`.n5",
    'a&b<c>".n5',
    "back\\slash.n5",
    "tab\tline\n.n5",
    "no\u00a0break\u3000ideograph.n5",
    "日本 語.n5",
    "..a.n5",
)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", NAMES_OF_CONTAINERS)
def test_bigdataviewer_finds_containers_of_any_name(tmp_path: Path, name: str) -> None:
    for container, xml in (
        (tmp_path / name, tmp_path / "dataset.xml"),
        (tmp_path / name / f"more {name}" / name, tmp_path / "parts.xml"),
        (tmp_path / name, tmp_path / "away" / "dataset.xml"),
    ):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            image().n5.to_bdv(xml, container, mode="a")
        assert bigdataviewer_opens(xml) == str(container)
        warned = any("BigDataViewer before 10.6" in str(each.message) for each in said)
        assert warned == (older_programs_open(xml) != str(container))
        assert xr.open_dataset(xml, engine="n5").sizes["x"] == 10


def test_a_name_that_no_xml_can_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="XML cannot represent"):
        image().n5.to_bdv(tmp_path / "dataset.xml", tmp_path / os.fsdecode(b"\xff.n5"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["two words.n5", "a%20b.n5", "no#1.n5"])
def test_a_path_that_an_older_writer_wrote_is_kept(tmp_path: Path, name: str) -> None:
    xml = tmp_path / "dataset.xml"
    image().n5.to_bdv(xml, tmp_path / "a.n5")
    (tmp_path / "a.n5").rename(tmp_path / name)
    before = xml.read_bytes().replace(b">a.n5<", f">{name}<".encode())
    xml.write_bytes(before)
    image().assign_coords(t=0).n5.to_bdv(xml, tmp_path / name, mode="w")
    assert xml.read_bytes() == before
    image().assign_coords(t=1).n5.to_bdv(xml, tmp_path / name, mode="a")
    assert f'version="1.0"><n5 type="relative">{name}<'.encode() in b"".join(
        line.strip() for line in xml.read_bytes().splitlines()
    )
    assert xr.open_dataset(xml, engine="n5").sizes["t"] == 2


@pytest.mark.parametrize("name", ["no#1.n5", "what ?.n5", "a%20b.n5", "a:b[1].n5"])
@pytest.mark.filterwarnings("ignore:.*BigDataViewer before 10.6")
def test_objects_of_any_name_are_found_from_the_xml(name: str) -> None:
    MemoryFileSystem.store.clear()
    place = f"memory://named/{name}"
    image().n5.to_bdv("memory://named/a.xml", place)
    if re.search("[?#]", name):  # URLs would be cut there
        with pytest.raises(MetadataError, match=r"'\?' or '#'"):
            image().n5.to_bdv("memory://named/xml/a.xml", place, mode="a")
    else:
        image().n5.to_bdv("memory://named/xml/a.xml", place, mode="a")
    for xml in fsspec.filesystem("memory").glob("/named/**/*.xml"):
        root = ET.fromstring(fsspec.filesystem("memory").cat(xml))  # noqa: S314 - our own
        written = str(root.findtext(".//ImageLoader/n5"))
        found = path_of_uri(written.replace("memory://", "file://"))
        assert posixpath.basename(found or "") == name
        views = xr.open_dataset(f"memory:/{xml}", engine="n5")
        np.testing.assert_array_equal(views[Path(xml).stem][0], image())


def test_several_writers_add_their_time_points(tmp_path: Path) -> None:
    def add(t: int) -> None:
        one = image(channel=["a", "b"]).assign_coords(t=t)
        with dask.config.set(scheduler="sync"):
            one.n5.to_bdv(tmp_path / "out.xml", tmp_path / "out.n5", mode="a")

    add(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(1, 9)))
    found = xr.open_dataset(tmp_path / "out.xml", engine="n5")
    assert found.t.values.tolist() == list(range(9))
    assert (found["out"] == image().values).all()


def test_what_only_the_xml_knows_is_stored_again(tmp_path: Path) -> None:
    text = project_xml(grid(), steps_of(grid()), names=NAMES)
    text = text.replace("<Tile><id>5</id>", "<Tile><id>5</id><location>1.0 2.0 3.0</location>")
    text = text.replace("<tile>5</tile>", "<tile>5</tile><displaysettings>2</displaysettings>")
    tree = opened(write_project(tmp_path, grid(), text))
    tree.copy(deep=True).n5.to_bdv(tmp_path / "b/project.xml", tmp_path / "b/x.n5")
    found = ET.parse(tmp_path / "b/project.xml")  # noqa: S314 - our own
    assert found.findtext(".//Attributes/Tile[id='5']/location") == "1.0 2.0 3.0"
    assert found.findtext(".//ViewSetup[id='0']/attributes/displaysettings") == "2"
    check_same(tree, opened(tmp_path / "b/project.xml"))


def test_views_are_read_when_they_are_written_and_not_before(tmp_path: Path) -> None:
    source = gridded(tmp_path)
    tree = opened(source)
    for chunk in (tmp_path / "x.n5").glob("setup3/timepoint1/s0/0/0/0"):
        chunk.write_bytes(b"damaged")
    later = tree.n5.to_bdv(tmp_path / "b/project.xml", tmp_path / "b/x.n5", compute=False)
    with pytest.raises(xarray_n5.ChunkError):
        later.compute()
    assert not (tmp_path / "b/project.xml").exists()


def indented(text: str) -> str:
    root = ET.fromstring(text.encode())  # noqa: S314 - our own
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


STYLES: dict[str, Callable[[str], str]] = {
    "one line": lambda text: text.replace("\n", ""),
    "indented": indented,
    "line ends of Windows": lambda text: indented(text).replace("\n", "\r\n"),
    "tabs": lambda text: indented(text).replace("  ", "\t"),
    "no list of missing views": lambda text: text.replace("<MissingViews />", ""),
    "no registrations": lambda text: re.sub("<ViewReg.*</ViewRegistrations>", "", text),
    "empty registrations": lambda text: re.sub(
        "<ViewReg.*</ViewRegistrations>", "<ViewRegistrations/>", text
    ),
    "no names": lambda text: re.sub("<Attributes.*</Attributes>", "", text),
    "comments": lambda text: indented(text).replace("</", "<!-- </SpimData> ' \" --></"),
    "UTF-16": lambda text: text.replace("UTF-8", "UTF-16"),
    "another encoding": lambda text: text.replace("UTF-8", "ISO-8859-1").replace("RFP", "R&#228;P"),
}


@pytest.mark.parametrize("style", some(STYLES, 2))
def test_xml_of_any_style_is_updated(tmp_path: Path, style: str) -> None:
    text = STYLES[style](project_xml(grid(), steps_of(grid()), names=NAMES, more="<A><b/></A>"))
    path = write_project(tmp_path, grid(), text)
    path.write_bytes(text.encode("utf-16" if style == "UTF-16" else "utf-8"))
    old = opened(path).load()
    new = later(path, 7)
    for _ in range(2):
        new.n5.to_bdv(path, tmp_path / "x.n5", mode="a")
        found, written = opened(path), path.read_bytes()
    for name, node in old.children.items():
        kept, expected = found[name].to_dataset().sel(t=[0, 1]).load(), node.to_dataset()
        if "registrations" in style:  # there were none, and new views have them
            np.testing.assert_array_equal(kept["project"], expected["project"])
        else:
            xr.testing.assert_identical(kept, expected)
    assert found["s0"].t.values.tolist() == [0, 1, 7]
    if style in {"indented", "tabs"}:
        _, _, lines = written.decode().rstrip().partition("\n")  # behind the declaration
        assert lines == STYLES[style](lines)
    assert "<b></b>" in canonical(written)


@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
def test_views_of_an_unfinished_write_are_not_taken_by_another_one(tmp_path: Path) -> None:
    def view(value: int, channel: int) -> xr.Dataset:
        data: Any = da.full((2, 3, 4), value, chunks=-1, dtype="u2", name=f"view-{value}")
        return xr.DataArray(
            data, dims=("z", "y", "x"), name="a", coords={"channel": channel}
        ).to_dataset()

    def write(value: int, channel: int, **options: Any) -> object:
        return view(value, channel).n5.to_bdv(tmp_path / "p.xml", **options)

    write(1, 0)
    write(2, 1, mode="a", compute=False)
    begin(tmp_path / "p.n5", "setup1/timepoint0/s0")
    with pytest.raises(ResumeError):
        write(3, 2, mode="a")  # the XML does not list the second one yet: both have the setup 1
    write(2, 1, mode="a", resume=True)
    write(3, 2, mode="a")
    found = xr.open_dataset(tmp_path / "p.xml", engine="n5", level=0)
    assert sorted(np.unique(next(iter(found.data_vars.values())))) == [1, 2, 3]
