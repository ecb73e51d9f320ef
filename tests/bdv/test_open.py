"""Projects of BigDataViewer and BigStitcher are opened by their XML."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
from tests.support.projects import (
    FACTORS,
    Setup,
    diagonal,
    level_shape,
    project_xml,
    values,
    write_n5,
    write_project,
)
from xarray_n5 import MetadataError, NodeNotFoundError, digest, open_array
from xarray_n5.cli import main
from xarray_n5.errors import MissingChunkError
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VOXEL = (2.0, 0.5, 0.5)

TURN = [[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0]]
"""A rotation of y and x."""


# The unit of the world


WORLDS: dict[str, tuple[list[tuple[str, Any]], tuple[float, ...], str | None]] = {
    "BigStitcher divides by the smallest voxel size": (
        [("Translation", diagonal((1, 1, 1), (8, 6, 4))), ("calibration", diagonal((4, 1, 1)))],
        (2.0, 0.5, 0.5, 4.0, 3.0, 2.0),
        "um",
    ),
    "others scale to the voxel size": (
        [("Translation", diagonal((1, 1, 1), (8, 6, 4))), ("", diagonal(VOXEL))],
        (2.0, 0.5, 0.5, 8.0, 6.0, 4.0),
        "um",
    ),
    "without a calibration, it is a voxel": (
        [("Translation", diagonal((1, 1, 1), (8, 6, 4)))],
        (2.0, 0.5, 0.5, 16.0, 3.0, 2.0),
        "um",
    ),
    "rotations and translations before it are skipped": (
        [("calibration", diagonal((4, 1, 1))), ("moved", diagonal((1, 1, 1), (1, 2, 4)))],
        (2.0, 0.5, 0.5, 2.0, 1.0, 2.0),
        "um",
    ),
    "otherwise, it is believed to be physical": (
        [("registered", diagonal((2.2, 0.5, 0.6), (8, 6, 4)))],
        (2.2, 0.5, 0.6, 8.0, 6.0, 4.0),
        "um",
    ),
}


@pytest.mark.parametrize("kind", WORLDS)
def test_the_unit_of_the_world_is_found_by_the_first_step(tmp_path: Path, kind: str) -> None:
    steps, expected, unit = WORLDS[kind]
    setup = Setup(id=0, voxel=VOXEL)
    write_n5(tmp_path / "x.n5", [setup], (0,))
    (tmp_path / "x.xml").write_text(project_xml([setup], {(0, 0): steps}), "utf-8")
    axes = open_array(tmp_path / "x.n5", "setup0/timepoint0/s0").axes
    found = [*(axis.scale for axis in axes), *(axis.offset for axis in axes)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # type: ignore[arg-type]
    assert [axis.unit for axis in axes] == [unit] * 3


def test_views_that_do_not_agree_upon_the_world_have_no_unit(tmp_path: Path) -> None:
    setups = [Setup(id=0, voxel=VOXEL), Setup(id=1, voxel=VOXEL)]
    write_n5(tmp_path / "x.n5", setups, (0,))
    steps = {(0, 0): [("", diagonal(VOXEL))], (0, 1): [("calibration", diagonal((4, 1, 1)))]}
    (tmp_path / "x.xml").write_text(project_xml(setups, steps), "utf-8")
    axes = open_array(tmp_path / "x.n5", "setup1/timepoint0/s0").axes
    assert [(axis.unit, axis.scale) for axis in axes] == [(None, 4.0), (None, 1.0), (None, 1.0)]


# Opening


def grid() -> list[Setup]:
    """Two channels and two tiles; the angle and the illumination are the same."""
    ids = [{"illumination": 0, "channel": i % 2, "tile": 5 + i // 2, "angle": 3} for i in range(4)]
    return [Setup(id=i, attributes=each) for i, each in enumerate(ids)]


def steps_of(setups: Sequence[Setup], times: Sequence[int] = (0, 1)) -> Any:
    """Registrations as BigStitcher begins with: each tile is moved along x."""
    moved = {s.id: diagonal((1, 1, 1), (0, 0, 10 * s.attributes.get("tile", s.id))) for s in setups}
    return {
        (t, s.id): [("Translation", moved[s.id]), ("calibration", diagonal((4, 1, 1)))]
        for s in setups
        for t in times
    }


NAMES = {"channel": {0: "GFP", 1: "RFP"}, "tile": {5: "left", 6: "right"}}


@pytest.fixture
def tiled(tmp_path: Path) -> Path:
    """Two channels, two tiles and two time points."""
    return write_project(tmp_path, grid(), project_xml(grid(), steps_of(grid()), names=NAMES))


def test_a_tree_has_a_node_for_each_level(tiled: Path) -> None:
    tree: Any = xr.open_datatree(tiled, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1", "/s2"]
    for level, factors in enumerate(FACTORS):
        image = tree[f"s{level}"]["project"]
        shape = level_shape((6, 12, 16), factors)
        assert image.dims == ("t", "channel", "tile", "z", "y", "x")
        assert image.shape == (2, 2, 2, *shape)
        for t, channel, tile in np.ndindex(2, 2, 2):
            expected = values((t, 2 * tile + channel), level, shape)
            np.testing.assert_array_equal(image[t, channel, tile], expected)
        one = xr.open_dataset(tiled, level=level, chunks={})
        xr.testing.assert_identical(one.load(), tree[f"s{level}"].to_dataset().load())


def test_channels_and_tiles_that_form_a_grid_are_dimensions(tiled: Path) -> None:
    ds = xr.open_dataset(tiled, engine="n5", level=0)
    assert ds.channel.values.tolist() == [0, 1]
    assert ds.tile.values.tolist() == [5, 6]
    assert ds.channel_name.values.tolist() == ["GFP", "RFP"]
    assert ds.tile_name.values.tolist() == ["left", "right"]
    assert ds.setup.dims == ("channel", "tile")
    assert ds.setup.values.tolist() == [[0, 2], [1, 3]]
    assert (ds.angle.item(), ds.illumination.item()) == (3, 0)
    assert ds.angle.dims == ()
    found = ds["project"].sel(t=1, channel=1, tile=6)
    np.testing.assert_array_equal(found, values((1, 3), 0, (6, 12, 16)))


def test_flat_setups_keep_ids_and_names_as_coordinates(tiled: Path) -> None:
    ds = xr.open_dataset(tiled, engine="bdv", level=0, setups="flat")
    assert ds["project"].dims == ("t", "setup", "z", "y", "x")
    assert ds.setup.values.tolist() == [0, 1, 2, 3]
    assert ds.channel.dims == ds.channel_name.dims == ("setup",)
    assert ds.channel.values.tolist() == [0, 1, 0, 1]
    assert ds.channel_name.values.tolist() == ["GFP", "RFP", "GFP", "RFP"]
    assert ds.tile.values.tolist() == [5, 5, 6, 6]
    assert ds.setup_name.values.tolist() == [f"setup {i}" for i in range(4)]
    tree: Any = xr.open_datatree(tiled, engine="bdv", setups="flat")
    xr.testing.assert_identical(tree["s0"].to_dataset(), ds)


def test_setups_that_form_no_grid_are_flat(tmp_path: Path) -> None:
    setups = grid()[:3]
    path = write_project(tmp_path, setups, project_xml(setups))
    assert xr.open_dataset(path, engine="n5", level=0)["project"].sizes["setup"] == 3
    with pytest.raises(ValueError, match="do not form a grid"):
        xr.open_dataset(path, engine="bdv", level=0, setups="grid")
    with pytest.raises(ValueError, match="setups"):
        xr.open_dataset(path, engine="bdv", level=0, setups="rows")


def test_one_setup_keeps_its_dimension_unless_it_is_selected(tmp_path: Path) -> None:
    setups = [Setup(id=7, attributes={"channel": 2})]
    path = write_project(tmp_path, setups, project_xml(setups))
    ds = xr.open_dataset(path, engine="n5", level=0)
    assert ds["project"].dims == ("t", "setup", "z", "y", "x")
    assert (ds.setup.item(), ds.channel.item()) == (7, 2)
    assert xr.open_dataset(path, level=0, setup=7)["project"].dims == ("t", "z", "y", "x")
    assert xr.open_dataset(path, level=0, setups="grid")["project"].dims == ("t", "z", "y", "x")


@pytest.mark.parametrize("setups", ["grid", "flat"])
@pytest.mark.parametrize("level", [0, 1, -1])
def test_ids_select_one_view(tiled: Path, setups: Any, level: int) -> None:
    whole = xr.open_dataset(tiled, level=level, setups="flat").sel(t=1, setup=2)
    one = xr.open_dataset(tiled, level=level, setup=2, timepoint=1, setups=setups)
    assert one["project"].dims == ("z", "y", "x")
    assert (one.t.item(), one.setup.item(), one.tile_name.item()) == (1, 2, "right")
    np.testing.assert_array_equal(one["project"], whole["project"])
    np.testing.assert_array_equal(one.affine, whole.affine)
    np.testing.assert_allclose(one.x, whole.x + whole.origin_x)
    again = xr.open_dataset(tiled, group=f"setup2/timepoint1/s{level % 3}", engine="n5")
    xr.testing.assert_identical(one, again)


def test_what_does_not_exist_is_named(tiled: Path) -> None:
    for options, match in (
        ({"setup": 9}, "the setups are 0, 1, 2, 3"),
        ({"timepoint": 2}, "the timepoints are 0, 1"),
        ({"level": 3}, "the levels are s0, s1, s2"),
        ({"level": "s3"}, "the levels are s0, s1, s2"),
    ):
        with pytest.raises(NodeNotFoundError, match=match):
            xr.open_dataset(tiled, engine="bdv", **options)
    with pytest.raises(ValueError, match=r"levels s0, s1, s2; open one of them with level=0"):
        xr.open_dataset(tiled, engine="n5")
    with pytest.raises(ValueError, match="a tree has all levels"):
        xr.open_datatree(tiled, engine="n5", level=0)
    with pytest.raises(ValueError, match="exclude each other"):
        xr.open_dataset(tiled, engine="n5", level=1, group="s0")
    with pytest.raises(ValueError, match="not a node of a project"):
        xr.open_dataset(tiled, engine="n5", group="a/b")
    with pytest.raises(TypeError, match="'setup', which is for projects: open their XML"):
        xr.open_dataset(tiled.with_name("x.n5"), engine="n5", level=0, setup=0)
    with pytest.raises(NodeNotFoundError, match="engine='n5' opens containers"):
        xr.open_dataset(tiled.with_name("x.n5"), engine="bdv", level=0, setup=0)
    with pytest.raises(NodeNotFoundError, match="the file does not exist"):
        xr.open_dataset(tiled.with_name("nope.xml"), engine="bdv", level=0)
    with pytest.raises(NodeNotFoundError, match="open one, or all and select by dimension"):
        xr.open_dataset(tiled, engine="bdv", level=0, setup=[0, 1])


def test_functions_of_containers_refuse_projects_and_say_what_to_do(tiled: Path) -> None:
    for open_it in (
        lambda: da.from_n5(tiled, "setup0/timepoint0/s0"),  # type: ignore[attr-defined]
        lambda: open_array(tiled),
        lambda: xarray_n5.open_group(tiled),
    ):
        with pytest.raises(NodeNotFoundError, match=r"project of BigDataViewer.*'x.n5'"):
            open_it()


def test_a_project_is_known_by_what_it_says(tiled: Path) -> None:
    tree = xr.open_datatree(tiled, engine="n5")
    other = tiled.rename(tiled.with_name("anything~1"))
    renamed = xr.open_dataset(other, level=1)
    assert list(renamed.data_vars) == ["anything~1"]
    np.testing.assert_array_equal(renamed["anything~1"], tree["s1"]["project"])
    engine = xr.backends.list_engines()["bdv"]
    assert engine.guess_can_open(other)
    for text in ("", "<html><SpimData>", "<!-- <SpimData> --><a/>", "<SpimDatas/>"):
        other.with_suffix(".xml").write_text(text, "utf-8")
        assert not engine.guess_can_open(other.with_suffix(".xml"))
    assert not engine.guess_can_open(tiled.with_name("none.xml"))
    assert not engine.guess_can_open("https://127.0.0.1:9/dataset.xml")
    for encoding in ("utf-8-sig", "utf-16", "utf-8"):
        text = project_xml(grid()).replace("UTF-8", encoding.removesuffix("-sig"))
        other.write_bytes(f"<!-- \u00e4 -->{text.partition('?>')[2]}".encode(encoding))
        assert engine.guess_can_open(other)
        assert xr.open_dataset(other, level=1).sizes["channel"] == 2


def test_only_an_xml_imports_the_package_of_projects(tiled: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain/x.n5"
    shutil.copytree(tiled.with_name("x.n5"), plain)
    code = (
        "import sys, xarray as xr, xarray_n5\n"
        "for place in sys.argv[1:]:\n"
        "    xr.open_dataset(place, engine='n5', group='setup0/timepoint0/s0')\n"
        "    xr.open_datatree(place, engine='n5')\n"
        "    print('xarray_n5.bdv' in sys.modules)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(plain), str(tiled.with_name("x.n5"))]
    done = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603
    assert done.stdout.split() == ["False", "True"]


def test_a_level_is_chosen_by_distance(tiled: Path) -> None:
    assert xr.open_dataset(tiled, engine="n5", level={"x": 1.0})["project"].sizes["x"] == 8
    assert xr.open_dataset(tiled, engine="n5", level={"z": 4.0})["project"].sizes["x"] == 4


def test_setups_that_differ_are_images_of_their_own(tmp_path: Path) -> None:
    setups = [Setup(id=0), Setup(id=1, shape=(4, 8, 8)), Setup(id=2, voxel=(1.0, 0.5, 0.5))]
    path = write_project(tmp_path, setups, project_xml(setups))
    tree: Any = xr.open_datatree(path, engine="n5")
    assert "/setup1/s2" in tree.groups
    assert tree["setup1/s0"]["project"].dims == ("t", "z", "y", "x")
    assert tree["setup1/s0"].setup.item() == 1
    assert tree["setup2/s0"].z.values[1] == 1.0
    with pytest.raises(ValueError, match=r"\(setup0, setup1, setup2\); open one with setup="):
        xr.open_dataset(path, engine="n5", level=0)
    one = xr.open_dataset(path, engine="bdv", level=0, setup=1)
    xr.testing.assert_identical(one, tree["setup1/s0"].to_dataset())
    inner: Any = xr.open_datatree(path, engine="n5", group="setup1")
    assert list(inner.groups) == ["/", "/s0", "/s1", "/s2"]


def test_views_that_differ_in_time_are_images_of_their_own(tmp_path: Path) -> None:
    write_n5(tmp_path / "x.n5", [Setup(id=0)], (0,))
    write_n5(tmp_path / "y.n5", [Setup(id=0, shape=(4, 8, 8))], (1,))
    shutil.move(tmp_path / "y.n5/setup0/timepoint1", tmp_path / "x.n5/setup0/timepoint1")
    path = tmp_path / "my.project.XML~2"
    path.write_text(project_xml([Setup(id=0)]), "utf-8")
    tree: Any = xr.open_datatree(path, engine="n5")
    assert "/setup0/timepoint1/s1" in tree.groups
    image = tree["setup0/timepoint1/s0"]["my.project"]
    np.testing.assert_array_equal(image, values((1, 0), 0, (4, 8, 8)))
    with pytest.raises(ValueError, match="open one with setup= and timepoint="):
        xr.open_dataset(path, engine="bdv", level=0, setup=0)
    one = xr.open_dataset(path, engine="bdv", level=0, setup=0, timepoint=1)
    np.testing.assert_array_equal(one["my.project"], image)


# Time points and missing views


TIMES: dict[str, tuple[str, list[int]]] = {
    "range": ('type="range"><first>2</first><last>4</last>', [2, 3, 4]),
    "pattern": ('type="pattern"><integerpattern>1, 5,10-20:5</integerpattern>', [1, 5, 10, 15, 20]),
    "empty": ('type="pattern"><integerpattern />', [0]),
    "list": (
        'type="list"><Timepoint><id>7</id></Timepoint><Timepoint><id>3</id></Timepoint>',
        [3, 7],
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_time_points_are_those_of_the_xml(tmp_path: Path, kind: str) -> None:
    text, times = TIMES[kind]
    setups = [Setup(id=0)]
    xml = project_xml(setups, timepoints=f"<Timepoints {text}</Timepoints>")
    path = write_project(tmp_path, setups, xml, timepoints=times, factors=FACTORS[:1])
    ds = xr.open_dataset(path, engine="n5")
    assert ds.t.values.tolist() == times
    found = ds["project"].sel(t=times[-1], setup=0)
    np.testing.assert_array_equal(found, values((times[-1], 0), 0, (6, 12, 16)))


@pytest.mark.parametrize(
    "text",
    [
        'type="range"><first>0</first><last>1000000000000</last>',
        'type="range"><first>0</first><last>2000000000</last>',
        'type="pattern"><integerpattern>0-2000000000</integerpattern>',
        'type="pattern"><integerpattern>1-x</integerpattern>',
        'type="list"><Timepoint><id>-3</id></Timepoint>',
        'type="none">',
    ],
)
def test_time_points_that_make_no_sense_are_refused(tmp_path: Path, text: str) -> None:
    xml = project_xml([Setup(id=0)], timepoints=f"<Timepoints {text}</Timepoints>")
    (tmp_path / "a.xml").write_text(xml, "utf-8")
    with pytest.raises(MetadataError, match=r"(?i)a\.xml: the project cannot be read: .*time"):
        xr.open_datatree(tmp_path / "a.xml", engine="n5")


HOSTILE = {
    "laughs": ('<!DOCTYPE a [<!ENTITY b "lol"><!ENTITY c "&b;&b;">]>', "", "document type"),
    "outside": ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>', "", "document type"),
    "elsewhere": ('<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd">', "", "document type"),
    "deep": ("", "<a>" * 200 + "</a>" * 200, "nested more than"),
    "deeper": ("", "<a>" * 300_000 + "</a>" * 300_000, "nested more than"),
    "unknown entity": ("", "<a>&b;</a>", "undefined entity"),
    "digits": (
        "",
        (
            f'<ViewRegistrations><ViewRegistration timepoint="{"9" * 5000}" setup="0"/>'
            "</ViewRegistrations>"
        ),
        "timepoint of a view",
    ),
    "large": (
        "",
        '<ViewRegistrations><ViewRegistration timepoint="0" setup="0">'
        + "<ViewTransform><affine>1e200 0 0 0 0 1 0 0 0 0 1 0</affine></ViewTransform>" * 2
        + "</ViewRegistration></ViewRegistrations>",
        "too large",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_hostile_xml_is_refused(tmp_path: Path, kind: str, encoding: str) -> None:
    head, more, match = HOSTILE[kind]
    text = project_xml([Setup(id=0)], more=more).partition("?>")[2]
    path = tmp_path / "a.xml"
    path.write_bytes(f"{head}{text}".encode(encoding))
    if head:  # it does not begin as a project does, so that nothing else is done with it
        with pytest.raises(NodeNotFoundError):
            xr.open_datatree(path, engine="n5")
        path.write_bytes(f"<SpimData>{head}</SpimData>".encode(encoding))
        with pytest.raises(MetadataError, match="cannot be read"):
            xr.open_datatree(path, engine="n5")
        return
    with pytest.raises(MetadataError, match=match):
        xr.open_datatree(path, engine="n5")


def test_time_points_that_are_only_claimed_cost_nothing(tmp_path: Path) -> None:
    times = '<Timepoints type="range"><first>0</first><last>200000</last></Timepoints>'
    path = write_project(tmp_path, [Setup(id=0)], project_xml([Setup(id=0)], timepoints=times))
    with pytest.warns(UserWarning, match="199999 of 200001 views are not stored"):
        ds = xr.open_dataset(path, engine="n5", level=0)
    assert ds.sizes["t"] == 200001
    assert not ds["project"][100, 0].any()


@pytest.fixture
def gappy(tmp_path: Path) -> Path:
    """Of two setups, one view is listed as missing, and another is not stored."""
    setups = [Setup(id=0), Setup(id=1)]
    times = '<Timepoints type="range"><first>0</first><last>2</last></Timepoints>'
    steps = steps_of(setups, times=(0, 1, 2))
    xml = project_xml(setups, steps, timepoints=times, missing=[(1, 0)])
    return write_project(tmp_path, setups, xml, timepoints=(0, 1, 2), without=[(2, 1)])


def test_missing_views_read_as_the_fill_value(gappy: Path) -> None:
    message = r"2 of 6 views are not stored \(1 is listed as missing\).*: timepoint 1 of setup 0"
    with pytest.warns(UserWarning, match=message) as said:
        tree: Any = xr.open_datatree(gappy, engine="n5")
    assert len(said) == 1
    image = tree["s0"]["project"]
    assert not image.sel(t=1, setup=0).any()
    assert not image.sel(t=2, setup=1).any()
    np.testing.assert_array_equal(image.sel(t=1, setup=1), values((1, 1), 0, (6, 12, 16)))
    assert np.isfinite(tree["s0"].affine).all()
    with pytest.warns(UserWarning, match="not stored"):
        one = xr.open_dataset(gappy, engine="bdv", level=0, setup=0, timepoint=1)
    assert one["project"].shape == (6, 12, 16)
    assert not one["project"].any()
    assert one.t.item() == 1


def test_missing_views_raise_if_that_is_wanted(gappy: Path) -> None:
    with pytest.warns(UserWarning, match="not stored"):
        image = xr.open_dataset(gappy, engine="n5", level=0, missing="error")["project"]
    assert image.sel(t=0, setup=0).all()
    for t, setup in ((1, 0), (2, 1)):
        with pytest.raises(MissingChunkError, match=f"t={t}, setup={setup}"):
            image.sel(t=t, setup=setup).load()


def test_a_view_that_cannot_be_read_is_not_taken_for_a_missing_one(tiled: Path) -> None:
    broken = tiled.with_name("x.n5") / "setup1" / "timepoint1" / "s0" / "attributes.json"
    broken.write_text('{"dimensions": [1]', "utf-8")
    with pytest.warns(UserWarning, match="the view of timepoint 1 and setup 1 cannot be read"):
        ds = xr.open_dataset(tiled, engine="n5", level=0)
    assert ds["project"].sel(t=0, channel=1, tile=5).all()
    with pytest.raises(MetadataError):
        ds["project"].sel(t=1, channel=1, tile=5).load()


def test_levels_that_some_views_lack_are_left_out(tmp_path: Path) -> None:
    setups = [Setup(id=0), Setup(id=1)]
    write_n5(tmp_path / "x.n5", setups[:1])
    write_n5(tmp_path / "x.n5", setups[1:], factors=FACTORS[:2])
    path = tmp_path / "a.xml"
    path.write_text(project_xml(setups), "utf-8")
    lacks = r"level s2 is left out: it is not stored for timepoint 0 of setup 1"
    with pytest.warns(UserWarning, match=lacks):
        tree: Any = xr.open_datatree(path, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1"]
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(NodeNotFoundError, match="the levels are s0, s1"),
    ):
        xr.open_dataset(path, engine="n5", level=2)


# Registrations


def total(steps: Sequence[tuple[str, Any]]) -> np.ndarray:
    """The product of transforms for z, y, x: the first listed is applied last."""
    whole = np.eye(4)
    for _, rows in steps:
        whole = whole @ np.vstack([rows, [0, 0, 0, 1]])
    return whole


def level_matrix(factors: Sequence[float]) -> np.ndarray:
    """From samples of a level to samples of the base level: the middle of those it covers."""
    found = np.diag([*map(float, factors), 1.0])
    found[:3, 3] = [(factor - 1) / 2 for factor in factors]
    return found


@pytest.fixture
def turned(tmp_path: Path) -> tuple[Path, Mapping[tuple[int, int], Any]]:
    """Two setups that are rotated, sheared and moved, each in its own way."""
    setups = [Setup(id=0), Setup(id=3)]
    rng = np.random.default_rng(0)
    steps = {
        (t, s.id): [
            ("refined", np.eye(3, 4) + rng.normal(0, 0.1, (3, 4))),
            ("turned", TURN),
            ("moved", diagonal((1, 1, 1), rng.normal(0, 100, 3).tolist())),
            ("calibration", diagonal((4, 1, 1))),
        ]
        for t in (0, 1)
        for s in setups
    }
    return write_project(tmp_path, setups, project_xml(setups, steps)), steps


def test_the_affine_is_the_product_of_all_transforms(turned: Any) -> None:
    path, steps = turned
    tree: Any = xr.open_datatree(path, engine="n5")
    for level, factors in enumerate(FACTORS):
        ds = tree[f"s{level}"].to_dataset()
        assert ds.affine.dims == ("t", "setup", "axis", "column")
        assert ds.axis.values.tolist() == ["z", "y", "x"]
        assert ds.column.values.tolist() == ["z", "y", "x", "1"]
        assert ds.affine.attrs["units"] == "um"
        for (t, setup), each in steps.items():
            registered = ds.registration.sel(t=t, setup=setup)
            np.testing.assert_allclose(registered, total(each)[:3], rtol=1e-13, atol=1e-12)
            # A unit of the world is as long as the smallest side of a voxel.
            physical = 0.5 * (total(each) @ level_matrix(factors))[:3]
            affine = ds.affine.sel(t=t, setup=setup)
            np.testing.assert_allclose(affine, physical, rtol=1e-13, atol=1e-12)
        expected = [2.0 * factors[0], 0.5 * factors[1], 0.5 * factors[2]]
        assert [float(ds[axis][1] - ds[axis][0]) for axis in "zyx"] == expected
        starts = [2.0 * (factors[0] - 1) / 2, *(0.5 * (f - 1) / 2 for f in factors[1:])]
        assert [float(ds[axis][0]) for axis in "zyx"] == starts


def test_views_that_share_a_diagonal_lie_where_it_says(tmp_path: Path) -> None:
    setups = [Setup(id=0, voxel=(3.0, 0.75, 0.25)), Setup(id=1, voxel=(3.0, 0.75, 0.25))]
    moved = ("moved", diagonal((1, 1, 1), (12, 8, -4)))
    steps = {
        (t, s.id): [moved, ("calibration", diagonal((12, 3, 1)))] for s in setups for t in (0, 1)
    }
    path = write_project(tmp_path, setups, project_xml(setups, steps))
    ds = xr.open_dataset(path, engine="n5", level=2)
    assert "origin_x" not in ds.coords
    np.testing.assert_allclose(ds.z, 3.0 + 1.5 + 6.0 * np.arange(3))
    np.testing.assert_allclose(ds.y, 2.0 + 0.75 * 1.5 + 3.0 * np.arange(3))
    np.testing.assert_allclose(ds.x, -1.0 + 0.25 * 1.5 + 1.0 * np.arange(4))
    assert ds.x.attrs["units"] == "um"


def test_views_that_share_a_scale_have_origins(tiled: Path) -> None:
    ds = xr.open_dataset(tiled, engine="bdv", level=1, setups="flat")
    assert ds.origin_x.dims == ds.origin_z.dims == ("setup",)
    np.testing.assert_allclose(ds.origin_x, [25, 25, 30, 30])  # 10 voxels a tile, of 0.5 um
    np.testing.assert_allclose(ds.origin_z, 0)
    np.testing.assert_allclose(ds.x, 0.25 + np.arange(8))
    assert ds.origin_x.attrs["units"] == "um"
    assert xr.open_dataset(tiled, engine="n5", level=0).origin_y.dims == ("channel", "tile")


def test_origins_that_drift_have_time(tmp_path: Path) -> None:
    steps = {
        (t, 0): [("drift", diagonal((1, 1, 1), (0, 2 * t, 0))), ("", diagonal(VOXEL))]
        for t in (0, 1)
    }
    path = write_project(tmp_path, [Setup(id=0)], project_xml([Setup(id=0)], steps))
    ds = xr.open_dataset(path, engine="n5", level=0)
    assert ds.origin_y.dims == ("t", "setup")
    assert ds.origin_y.values.tolist() == [[0], [2]]


def test_views_without_registrations_have_the_voxel_size(tmp_path: Path) -> None:
    setups = [Setup(id=0), Setup(id=1)]
    path = write_project(tmp_path, setups, project_xml(setups))
    ds = xr.open_dataset(path, engine="n5", level=0)
    assert "affine" not in ds.coords
    assert [float(ds[axis][1]) for axis in "zyx"] == [2.0, 0.5, 0.5]
    plain = [replace(setup, voxel=None) for setup in setups]
    path.write_text(project_xml(plain), "utf-8")
    ds = xr.open_dataset(path, engine="n5", level=1)
    assert [float(ds[axis][0]) for axis in "zyx"] == [0.0, 0.5, 0.5]
    assert "units" not in ds.x.attrs


@pytest.mark.parametrize("level", [0, 1, 2])
def test_samples_lead_to_the_world_and_back(turned: Any, level: int) -> None:
    path, steps = turned
    ds = xr.open_dataset(path, engine="n5", level=level)
    rng = np.random.default_rng(level)
    points = rng.uniform(-3, 20, (2, 5, 3))
    ones = np.concatenate([points, np.ones((2, 5, 1))], axis=-1)
    everywhere = ds.n5.to_world(points)
    assert everywhere.shape == (2, 2, 2, 5, 3)
    for (t, setup), each in steps.items():
        matrix = 0.5 * (total(each) @ level_matrix(FACTORS[level]))[:3]
        one = ds.sel(t=t, setup=setup)
        expected = ones @ matrix.T
        np.testing.assert_allclose(one.n5.to_world(points), expected, rtol=1e-12, atol=1e-11)
        np.testing.assert_array_equal(everywhere[t, [0, 3].index(setup)], one.n5.to_world(points))
        np.testing.assert_allclose(one.n5.from_world(expected), points, rtol=1e-9, atol=1e-9)
        alone = xr.open_dataset(path, engine="bdv", level=level, timepoint=t, setup=setup)
        np.testing.assert_array_equal(alone.n5.to_world(points), one.n5.to_world(points))


def test_samples_of_crops_lie_where_they_lay(turned: Any) -> None:
    path, _ = turned
    ds = xr.open_dataset(path, engine="bdv", level=0, timepoint=1, setup=3)
    points = np.array([[0, 0, 0], [1, 1, 1], [1, 2, 3]])
    crop = ds.isel(z=slice(2, None), y=slice(None, None, 3), x=slice(None, None, -2))
    inner = points * [1, 3, -2] + [2, 0, 15]
    np.testing.assert_allclose(crop.n5.to_world(points), ds.n5.to_world(inner), rtol=1e-13)
    plane = ds.isel(z=4).load() * 2
    np.testing.assert_allclose(plane.n5.to_world([0, 5, 6]), ds.n5.to_world([4, 5, 6]))
    coarse = ds.coarsen(y=4, x=2).mean()
    np.testing.assert_allclose(coarse.n5.to_world([0, 0, 0]), ds.n5.to_world([0, 1.5, 0.5]))
    np.testing.assert_allclose(coarse.n5.from_world(ds.n5.to_world([2, 5.5, 2.5])), [2, 1, 1])


def test_datasets_without_an_affine_lie_where_their_coordinates_say(tiled: Path) -> None:
    path = tiled.with_name("x.n5")
    ds = xr.open_dataset(path, engine="n5", group="setup0/timepoint0", level=1)
    expected = [float(ds.z[2]), float(ds.y[3]), float(ds.x[4])]
    np.testing.assert_allclose(ds.n5.to_world([2, 3, 4]), expected)
    np.testing.assert_allclose(ds.n5.from_world(expected), [2, 3, 4])
    with pytest.raises(ValueError, match="no affine, and no coordinates y"):
        ds.drop_vars("y").n5.to_world([0, 0, 0])
    with pytest.raises(ValueError, match=r"shape \(\.\.\., 3\)"):
        ds.n5.to_world([0, 0])


def test_what_lost_its_affine_does_not_lie(turned: Any, tmp_path: Path) -> None:
    path, _ = turned
    ds = xr.open_dataset(path, engine="n5", level=1)
    for rotated in (ds[["project"]], ds["project"], ds["project"].load() * 2):
        with pytest.raises(ValueError, match="distances in a view, whose position is in 'affine'"):
            rotated.n5.to_world([0, 0, 0])
    folder = tmp_path / "moved"
    folder.mkdir()
    path = write_project(folder, grid(), project_xml(grid(), steps_of(grid())))
    ds = xr.open_dataset(path, engine="n5", level=1).isel(t=0)
    points = [[0, 0, 0], [1, 2, 3]]
    expected = ds.n5.to_world(points)
    np.testing.assert_allclose(ds["project"].n5.to_world(points), expected)
    one = ds.sel(channel=1, tile=6)
    np.testing.assert_allclose(one["project"].n5.to_world(points), one.n5.to_world(points))
    back = one["project"].n5.from_world(one.n5.to_world(points))
    np.testing.assert_allclose(back, points, atol=1e-12)
    crop = one["project"].isel(x=slice(2, None, 2))
    np.testing.assert_allclose(crop.n5.to_world([0, 0, 1]), one.n5.to_world([0, 0, 4]))


def test_rotated_views_of_containers_have_a_matrix(turned: Any) -> None:
    path, _ = turned
    expected = xr.open_dataset(path, engine="bdv", level=1, setup=3, timepoint=1)
    inner = "setup3/timepoint1/s1"
    ds = xr.open_dataset(path.with_name("x.n5"), engine="n5", group=inner)
    points = [[0, 0, 0], [1, 2, 3]]
    np.testing.assert_allclose(ds.n5.to_world(points), expected.n5.to_world(points))


def test_a_flat_affine_has_no_inverse(tmp_path: Path) -> None:
    steps = {(t, 0): [("flat", np.zeros((3, 4)))] for t in (0, 1)}
    path = write_project(tmp_path, [Setup(id=0)], project_xml([Setup(id=0)], steps))
    ds = xr.open_dataset(path, engine="n5", level=0)
    with pytest.raises(ValueError, match="cannot be inverted"):
        ds.n5.from_world([0, 0, 0])


# The XML beside a container


OTHERS = {
    "relative": '<n5 type="relative">x.n5</n5>',
    "here": '<n5 type="relative">./x.n5/</n5>',
    "absolute": '<n5 type="absolute">{folder}/x.n5</n5>',
    "uri": "<n5>file://{folder}/x.n5</n5>",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_the_only_xml_that_points_at_a_container_is_found(tmp_path: Path, kind: str) -> None:
    place = OTHERS[kind].format(folder=tmp_path)
    loader = f'<ImageLoader format="bdv.n5" version="1.1">{place}</ImageLoader>'
    setups = [Setup(id=0)]
    write_n5(tmp_path / "x.n5", setups)
    array = open_array(tmp_path / "x.n5", "setup0/timepoint0/s0")
    assert array.geometry().axes[0].unit is None
    for name, text in (
        ("other.xml", project_xml(setups).replace("x.n5", "y.n5")),
        ("page.xml", "<html>x.n5</html>"),
        ("empty.xml", ""),
        ("broken.xml", project_xml(setups)[:-20]),
        ("fusion.xml", project_xml(setups, steps_of(setups), loader=loader)),
    ):
        (tmp_path / name).write_text(text, "utf-8")
    found = array.geometry().axes[0]
    assert (found.scale, found.unit) == (2.0, "um")
    tree: Any = xr.open_datatree(tmp_path / "x.n5", engine="n5")
    assert tree["s1"].x.attrs["units"] == "um"
    (tmp_path / "copy.xml").write_bytes((tmp_path / "fusion.xml").read_bytes())
    with pytest.warns(UserWarning, match=r"copy\.xml, fusion\.xml next to .* all refer to it"):
        assert array.geometry().axes[0].unit is None
    # One of the same name is the container's own.
    (tmp_path / "x.xml").write_bytes((tmp_path / "fusion.xml").read_bytes())
    assert array.geometry().axes[0].unit == "um"


class Around(LocalStore):
    """A directory that must not be listed; it and all around it are of this kind."""

    def list(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if not prefix and not self.root.endswith(".n5"):
            raise AssertionError(self.root)
        return super().list(prefix)

    def parent(self) -> Around:
        return Around(str(Path(self.root).parent))


def test_only_what_is_around_containers_of_bigdataviewer_is_listed(tmp_path: Path) -> None:
    write_n5(tmp_path / "x.n5", [Setup(id=0)])
    xarray_n5.create_array(tmp_path / "x.n5", "a/s0", shape=(2, 2, 2), dtype="u1")
    store = Around(str(tmp_path / "x.n5"))
    assert open_array(store, "a/s0").geometry().axes[0].unit is None
    with pytest.raises(AssertionError):
        open_array(store, "setup0/timepoint0/s0").geometry()
    (tmp_path / "x.xml").write_text(project_xml([Setup(id=0)]), "utf-8")
    assert open_array(store, "setup0/timepoint0/s0").geometry().axes[0].unit == "um"


# On the command line


def run(*args: object) -> str:
    """Run a command, and return what it printed."""
    found = CliRunner().invoke(main, list(map(str, args)))
    assert found.exit_code == 0, found.output
    return found.stdout


def test_setups_that_differ_are_branches(tmp_path: Path) -> None:
    setups = [Setup(id=0), Setup(id=1, shape=(4, 8, 8))]
    path = write_project(tmp_path, setups, project_xml(setups))
    lines = run("tree", path).splitlines()
    assert [line for line in lines if line.endswith("/")] == ["├── setup0/", "└── setup1/"]
    assert "│   ├── s0  2 x 6 x 12 x 16 uint16, chunks 1 x 4 x 8 x 8, gzip" in lines
    assert len(run("tree", path, "--depth", 1).splitlines()) == 3
    assert "image  setup1: 2 x 4 x 8 x 8 (t, z, y, x), levels s0, s1, s2" in run("info", path)


def test_a_project_is_described(tiled: Path) -> None:
    text = run("info", tiled)
    assert f"<project '{tiled}'>" in text
    assert "2 x 2 x 2 x 6 x 12 x 16 (t, channel, tile, z, y, x), levels s0, s1, s2" in text
    facts = json.loads(run("info", tiled, "--json"))
    assert (facts["kind"], facts["url"]) == ("project", str(tiled))
    assert facts["images"][1]["shape"] == [2, 2, 2, 6, 6, 8]


@pytest.mark.parametrize("name", ["x.xml", "dataset.xml"])
def test_the_hint_for_a_container_names_the_xml_next_to_it(tmp_path: Path, name: str) -> None:
    setups = [Setup(id=n) for n in range(2)]
    steps = {(t, n): [("s", diagonal((4, 1, 1), (0, 0, 8 * n)))] for t in (0, 1) for n in (0, 1)}
    path = write_project(tmp_path, setups, project_xml(setups, steps))
    path.rename(tmp_path / name)
    advice = f"'{name}' next to it describes its views: open that instead"
    with pytest.raises(ValueError, match=advice):
        xr.open_dataset(tmp_path / "x.n5", engine="n5")
    with pytest.raises(NodeNotFoundError, match=f"opens containers; {advice}"):
        xr.open_dataset(tmp_path / "x.n5", engine="bdv")
    (tmp_path / name).write_text(project_xml(setups))  # without positions, the views are alike
    with pytest.raises(ValueError, match=f"open one of them with level=0, .*; {advice}"):
        xr.open_dataset(tmp_path / "x.n5", engine="n5")
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=r"or all with xarray.open_datatree$"):
        xr.open_dataset(tmp_path / "x.n5", engine="n5")


def test_the_first_view_of_a_project_is_drawn(tiled: Path) -> None:
    picture = tiled.with_name("a.png")
    shown = run("preview", tiled, "-o", picture, "--pixels", 16)
    assert shown == f"{picture}: project, z = 6 um\n"
    shown = run("preview", tiled, "setup3/timepoint1", "-o", picture, "--at", 4, "--pixels", 16)
    assert shown == f"{picture}: project, z = 4 um\n"
    assert picture.stat().st_size > 100
    assert CliRunner().invoke(main, ["preview", str(tiled), "s7", "-o", str(picture)]).exit_code


@pytest.mark.parametrize("name", ["out.n5", "out.zarr"])
def test_a_project_is_copied_as_its_datasets(tiled: Path, name: str) -> None:
    out = tiled.with_name(name)
    run("copy", tiled, out)
    tree: Any = xr.open_datatree(tiled, engine="n5")
    copied: Any = xr.open_datatree(out, engine="n5")
    for level in ("s0", "s1", "s2"):
        one, other = tree[level].to_dataset(), copied[level].to_dataset()
        np.testing.assert_array_equal(one["project"], other["project"])
        np.testing.assert_array_equal(one.affine, other.affine)
        assert set(one.coords) == set(other.coords)
    assert run("copy", tiled, out, "--resume") == f"nothing to resume: {out} is complete\n"
    (out / "s1" / "project").rename(out / "s1" / "other")
    found = CliRunner().invoke(main, ["copy", str(tiled), str(out), "--resume"])
    assert found.exit_code == 1
    assert "exists" in found.stderr


# More of xarray


def test_xarrays_own_options_work_for_projects(tiled: Path) -> None:
    groups = xr.open_groups(tiled, engine="n5")
    assert list(groups) == ["/", "/s0", "/s1", "/s2"]
    assert groups["/s1"]["project"].dtype == np.dtype("u2")
    without = xr.open_dataset(tiled, engine="n5", level=0, drop_variables="project")
    assert not without.data_vars
    with pytest.raises(TypeError, match="setip"):
        xr.open_dataset(tiled, engine="n5", level=0, setip=1)
    with pytest.raises(ValueError, match="does not apply to projects"):
        xr.open_dataset(tiled, engine="n5", level=0, dialect="cosem")


def test_a_project_is_computed_by_dask(tiled: Path) -> None:
    lazy = xr.open_dataset(tiled, engine="n5", level=0, chunks={})["project"]
    whole = xr.open_dataset(tiled, engine="n5", level=0, chunks={})
    assert whole.chunksizes["tile"] == lazy.chunksizes["tile"] == (1, 1)
    assert whole.chunksizes["axis"] == (3,)
    whole.n5.to_n5(tiled.with_name("stored.n5"))
    assert open_array(tiled.with_name("stored.n5"), "affine").grid.size == 1
    again = pickle.loads(pickle.dumps(lazy))  # noqa: S301 - our own
    with dask.config.set(scheduler="threads"):
        np.testing.assert_array_equal(again.max(("z", "y", "x")), lazy.max(("z", "y", "x")))
    one = lazy.sel(t=1, channel=1, tile=6)
    np.testing.assert_array_equal(one, values((1, 3), 0, (6, 12, 16)))


def test_units_of_pixels_are_none(tmp_path: Path) -> None:
    setups = [Setup(id=0, voxel=(1.0, 1.0, 1.0), unit="px")]
    steps = {(t, 0): [("moved", diagonal((1, 1, 1), (5, 6, 7)))] for t in (0, 1)}
    path = write_project(tmp_path, setups, project_xml(setups, steps))
    ds = xr.open_dataset(path, engine="n5", level=0)
    assert [float(ds[axis][0]) for axis in "zyx"] == [5, 6, 7]
    assert "units" not in ds.z.attrs
    assert "units" not in ds.affine.attrs


def test_the_digest_of_a_project_is_that_of_its_container(tiled: Path) -> None:
    assert run("digest", tiled) == f"{digest(tiled.with_name('x.n5'))}\n"


@pytest.mark.parametrize("of", ["a view", "an array", "all views"])
def test_a_crop_of_a_turned_view_warns(tmp_path: Path, of: str) -> None:
    units = {"units": "um"}
    coords = {dim: (dim, 0.5 * np.arange(8), units) for dim in "zyx"}
    matrix = [[0.5, 0, 0, 0], [0, 0, 0.5, 100], [0, -0.5, 0, 200]]
    image = xr.Dataset({"v": (("z", "y", "x"), np.ones((8, 8, 8), "u1"))}, coords)
    image = image.assign_coords(affine=(("axis", "column"), matrix, units))
    image.n5.to_bdv(tmp_path / "a.xml")
    choice: Any = {} if of == "all views" else {"setup": 0, "timepoint": 0}
    dataset = xr.open_dataset(tmp_path / "a.xml", engine="bdv", **choice)
    opened: Any = dataset["a"] if of == "an array" else dataset
    with pytest.warns(UserWarning, match="this is another box in each"):
        opened.n5.crop(x=(1, 2))
