"""Copies of boxes in physical coordinates are what `crop` selects, and describe themselves."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support.containers import NAMES
from tests.support.exhaustive import cases
from tests.support.projects import Setup, diagonal, project_xml, write_project
from xarray_n5 import Axis, N5Error, copy, create_array, open_array, open_group, pyramid, verify
from xarray_n5.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.formats import FormatName


BOUNDS: dict[str, Any] = {"z": (100, "0.22 um"), "y": (None, 50), "x": ("10 nm", "60 nm")}
"""In a volume of 30 x 40 x 50 samples, of 10, 2 and 2 nm."""

GIVEN = "z=100:0.22 um, y=:50, x=10:60 nm"
"""The same on the command line, except that the first unit is that of the second."""


def volume(folder: Path, name: str = "a.n5", path: str = "em/raw") -> Path:
    """Store a volume with coordinates, and return its container."""
    axes = [Axis(name=d, scale=s, unit="nm") for d, s in zip("zyx", (10.0, 2.0, 2.0), strict=True)]
    array = create_array(
        folder / name, path, shape=(30, 40, 50), dtype="u2", chunks=(8, 16, 16), axes=axes
    )
    array[...] = np.arange(30 * 40 * 50).reshape(30, 40, 50)
    array.attrs["note"] = "kept"
    return folder / name


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levels")
    pyramid(open_array(volume(folder), "em/raw"), folder / "levels.n5", "em", levels=3)
    return folder / "levels.n5"


def tree(url: Path, group: str | None = None) -> Any:
    return xr.open_datatree(url, engine="n5", group=group).load()


@pytest.mark.parametrize("name", NAMES.values())
def test_the_copy_of_a_box_is_that_which_crop_selects(tmp_path: Path, name: str) -> None:
    url = volume(tmp_path)
    copy(url, tmp_path / f"b-{name}", source_path="em/raw", path="part", bounds=BOUNDS)
    raw = xr.open_dataset(url, engine="n5", group="em/raw")["raw"]
    part = xr.open_dataset(tmp_path / f"b-{name}", engine="n5", group="part")["part"]
    wanted: Any = raw.n5.crop(**BOUNDS)
    assert part.shape == (13, 26, 26)
    xr.testing.assert_equal(part, wanted)
    assert all(part[dim].attrs["units"] == "nm" for dim in part.dims)
    stored = open_array(tmp_path / f"b-{name}", "part")
    assert (stored.attrs["note"], stored.chunks) == ("kept", (8, 16, 16))


@pytest.mark.parametrize("name", NAMES.values())
def test_levels_are_cropped_alike_and_described(tmp_path: Path, levels: Path, name: str) -> None:
    url, part = levels, tmp_path / f"part-{name}"
    copy(url, part, bounds=BOUNDS)
    wanted = tree(url).n5.crop(**BOUNDS)
    found = tree(part)
    assert found.groups == wanted.groups
    for node in found.subtree:
        xr.testing.assert_equal(node.to_dataset(), wanted[node.path].to_dataset())
    output = CliRunner().invoke(main, ["doctor", str(part)]).output
    assert re.search("xarray-n5 +agrees", output), output
    assert "damage" not in output


@pytest.mark.parametrize(
    ("name", "dialect", "version"),
    [("b.zarr", None, "0.6"), ("b.zarr", "ngff", "0.5"), ("old.zarr", None, "0.4")],
)
def test_boxes_of_ome_zarr_stay_in_its_version(
    tmp_path: Path, name: str, dialect: str | None, version: str
) -> None:
    source: Any = open_array(volume(tmp_path), "em/raw")
    url = tmp_path / "a.zarr"
    pyramid(source, url, "em", levels=2, format="zarr3", dialect="ngff-0.6")
    form: FormatName = "zarr2" if version == "0.4" else "zarr3"
    copy(url, tmp_path / name, bounds=BOUNDS, format=form, dialect=dialect)
    attributes = dict(open_group(tmp_path / name, "em").attrs)
    described = attributes.get("ome", attributes)
    (image,) = described["multiscales"]
    assert described.get("version", image.get("version")) == version
    assert ("coordinateSystems" in image) == (version == "0.6")
    wanted: Any = tree(url).n5.crop(**BOUNDS)
    for node in wanted.leaves:
        found = tree(tmp_path / name)[node.path].to_dataset()
        xr.testing.assert_allclose(found, node.to_dataset(), rtol=1e-12)


@pytest.mark.parametrize("seed", range(cases(3, 60)))
def test_any_box_of_a_pyramid_has_its_coordinates(tmp_path: Path, levels: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    forms: list[FormatName] = ["n5", "zarr2", "zarr3"]
    url, form = levels, forms[seed % 3]
    bounds: Any = {
        dim: tuple(sorted(rng.uniform(0, end, 2).tolist()))
        for dim, end in zip("zyx", (290, 78, 98), strict=True)
        if rng.random() < 0.8
    }
    wanted = tree(url).n5.crop(**bounds)
    kept = [node for node in wanted.subtree if any(v.size for v in node.data_vars.values())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if not kept:
            with pytest.raises(ValueError, match="no samples"):
                copy(url, tmp_path / "part", bounds=bounds, format=form)
            return
        copy(url, tmp_path / "part", bounds=bounds, format=form)
    found = tree(tmp_path / "part")
    for node in kept:
        xr.testing.assert_allclose(
            found[node.path].to_dataset(), node.to_dataset(), rtol=1e-12, check_dim_order=True
        )
    runner = CliRunner().invoke(main, ["doctor", str(tmp_path / "part")])
    assert "damage" not in runner.output, runner.output


def test_a_box_without_bounds_is_a_whole_copy(tmp_path: Path, levels: Path) -> None:
    url = levels
    copy(url, tmp_path / "a.zarr")
    copy(url, tmp_path / "b.zarr", bounds={})
    one, other = open_group(tmp_path / "a.zarr", "em"), open_group(tmp_path / "b.zarr", "em")
    assert dict(one.attrs) == dict(other.attrs)


def test_levels_without_samples_in_the_box_are_left_out(tmp_path: Path, levels: Path) -> None:
    url = levels
    with pytest.warns(UserWarning, match="left out, as no samples are within the bounds: em/s"):
        copy(url, tmp_path / "b.n5", bounds={"y": (40, 42), "x": (40, 42)})
    found = tree(tmp_path / "b.n5")
    assert 1 <= len(found["em"].children) < len(tree(url)["em"].children)
    assert found["em/s0"].sizes == {"z": 30, "y": 2, "x": 2}


def test_arrays_without_the_dimensions_are_copied_whole(tmp_path: Path) -> None:
    url = volume(tmp_path)
    table = create_array(url, "em/table", shape=(7,), dtype="f4", axes=["object"])
    table[...] = np.arange(7)
    copy(url, tmp_path / "b.n5", bounds={"z": (0, 40)})
    np.testing.assert_array_equal(open_array(tmp_path / "b.n5", "em/table")[...], np.arange(7))
    assert open_array(tmp_path / "b.n5", "em/raw").shape == (5, 40, 50)


def test_coordinates_in_arrays_select_samples_too(tmp_path: Path) -> None:
    x = np.array([0.0, 1, 4, 9, 16])
    dataset = xr.Dataset({"v": (("y", "x"), np.arange(15.0).reshape(3, 5))}, {"x": x})
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=2, consolidated=False)
    copy(tmp_path / "a.zarr", tmp_path / "b.zarr", bounds={"x": (1, 9)})
    found = xr.open_dataset(tmp_path / "b.zarr", engine="n5")
    xr.testing.assert_equal(found, dataset.sel(x=slice(1, 9)))


def test_an_interrupted_copy_of_a_box_is_resumed(
    tmp_path: Path, levels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xarray_n5.writing import tasks

    real, count = tasks.write_block, [0]

    def fail(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        if count[0] == 3:
            raise OSError("no space left")
        return real(*args, **kwargs)

    url, part = levels, tmp_path / "part.zarr"
    monkeypatch.setattr(tasks, "write_block", fail)
    with pytest.raises(OSError, match="no space"):
        copy(url, part, bounds=BOUNDS, resume=True)
    copy(url, part, bounds=BOUNDS, resume=True, verify=True)
    made = count[0]
    again = copy(url, part, bounds=BOUNDS, resume=True)
    assert all(node.seconds.isnull().all() for node in again.leaves)
    assert count[0] == made
    for node in tree(part).subtree:
        wanted: Any = tree(url).n5.crop(**BOUNDS)
        xr.testing.assert_equal(node.to_dataset(), wanted[node.path].to_dataset())
    states = {str(x) for node in verify(part, "em").leaves for x in node["state"].values.ravel()}
    assert states == {"ok"}


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ({"q": (0, 1)}, "no dimension 'q'"),
        ({"z": (0, "1 s")}, "em/raw': z is '1 s', but the coordinates of 'z' are in 'nm'"),
        ({"z": (0,)}, "expected two coordinates"),
        ({"z": (900, 1000)}, r"no samples are within the bounds; .*em/raw: z is 0.0 to 290.0"),
        ({"z": (0, "far")}, "expected a number"),
    ],
)
def test_invalid_bounds_write_nothing(tmp_path: Path, bounds: Any, text: str) -> None:
    url = volume(tmp_path)
    for path in ("", "em/raw"):
        with pytest.raises(ValueError, match=text):
            copy(url, tmp_path / "b.n5", source_path=path, bounds=bounds)
    assert not (tmp_path / "b.n5").exists()


def test_two_ways_to_select_a_part_are_refused(tmp_path: Path) -> None:
    url = volume(tmp_path)
    for more, text in (({"region": (slice(3),)}, "both select"), ({"dialect": "same"}, "part of")):
        with pytest.raises(ValueError, match=text):
            copy(url, tmp_path / "b.n5", bounds={"z": (0, 9)}, **more)
    create_array(url, "bare", shape=(4, 4), dtype="u1")
    with pytest.raises(ValueError, match=r"bare': the dimension .* has no coordinates"):
        copy(url, tmp_path / "b.n5", source_path="bare", bounds={"y": (0, 1)})


def test_views_of_projects_are_cropped(tmp_path: Path) -> None:
    setups = [Setup(id=0)]
    xml = write_project(tmp_path, setups, project_xml(setups), timepoints=(0, 1))
    whole = xr.open_datatree(xml, engine="n5")
    copy(xml, tmp_path / "part.n5", bounds={"z": (4, 10)})
    wanted: Any = whole.n5.crop(z=(4, 10))
    found = tree(tmp_path / "part.n5")
    nodes = [node for node in wanted.subtree if node.data_vars]
    assert nodes
    for node in nodes:
        for name, array in node.data_vars.items():
            np.testing.assert_array_equal(found[node.path][name], array)
            np.testing.assert_array_equal(found[node.path]["z"], array["z"])


def tiles(folder: Path, *, turned: bool = False) -> Path:
    """Two tiles of a project, 8 um apart along x and both at z = 0; one is turned on request."""
    setups = [Setup(id=n, attributes={"tile": n}) for n in range(2)]
    matrices = [diagonal((2, 0.5, 0.5)), diagonal((2, 0.5, 0.5), (0, 0, 8))]
    if turned:
        matrices[1][1:, :2] = matrices[1][1:, 1::-1]
    steps = {(0, n): [("place", matrix)] for n, matrix in enumerate(matrices)}
    once = '<Timepoints type="range"><first>0</first><last>0</last></Timepoints>'
    return write_project(folder, setups, project_xml(setups, steps, timepoints=once))


@pytest.mark.parametrize("turned", [False, True])
def test_a_box_of_views_that_are_apart_is_refused(tmp_path: Path, *, turned: bool) -> None:
    xml = tiles(tmp_path, turned=turned)
    with pytest.raises(N5Error, match=r"along x, coordinates count from the first sample of each"):
        copy(xml, tmp_path / "part.n5", bounds={"x": (2, 4)})
    assert not (tmp_path / "part.n5").exists()
    dataset = xr.open_dataset(xml, engine="bdv", level=0)
    with pytest.warns(UserWarning, match=r"along x count from .*interp_like\(grid.n5.crop"):
        assert dataset.n5.crop(x=(2, 4)).sizes["x"] == 5


@pytest.mark.parametrize("name", ["b.zarr", "b.n5"])
def test_a_box_of_one_view_says_nothing_that_its_levels_contradict(
    tmp_path: Path, name: str
) -> None:
    tiles(tmp_path)
    place = "setup1/timepoint0"
    open_group(tmp_path / "x.n5", place, mode="r+").attrs.update(
        multiScale=True, resolution=[1.0, 1.0, 1.0]
    )
    copy(tmp_path / "x.n5", tmp_path / name, source_path=place, bounds={"x": (10, 12)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coarse = open_array(tmp_path / name, "s1").axes[2]
    assert (coarse.position(0), coarse.step) == (10.25, 1.0)
    assert open_group(tmp_path / name).attrs.get("resolution") != [1.0, 1.0, 1.0]


def test_a_box_along_an_axis_on_which_views_agree_is_copied(tmp_path: Path) -> None:
    xml = tiles(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy(xml, tmp_path / "part.n5", bounds={"z": (4, 8)})
        xr.open_dataset(xml, engine="bdv", level=0).n5.crop(z=(4, 8))
    assert {n.sizes["z"] for n in tree(tmp_path / "part.n5").subtree if n.data_vars} == {3, 1}


def test_a_box_beside_the_views_is_refused_and_levels_without_samples_left_out(
    tmp_path: Path,
) -> None:
    xml = tiles(tmp_path)
    with pytest.raises(ValueError, match=r"no samples are within the bounds; .*s0: z is 0.0 to 10"):
        copy(xml, tmp_path / "part.n5", bounds={"z": (20, 40)})
    assert not (tmp_path / "part.n5").exists()
    with pytest.warns(UserWarning, match="left out, as no samples are within the bounds: /s2"):
        copy(xml, tmp_path / "part.n5", bounds={"z": (0, 0)})
    assert [n.name for n in tree(tmp_path / "part.n5").subtree if n.data_vars] == ["s0", "s1"]


def test_bounds_that_are_no_mapping_are_named(tmp_path: Path) -> None:
    wrong: Any = "z=20:60"
    with pytest.raises(TypeError, match=r"bounds is 'z=20:60'; expected a mapping such as"):
        copy(tmp_path / "a.n5", tmp_path / "b.n5", bounds=wrong)
