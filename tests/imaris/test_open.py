"""Imaris files open as one image with channels, timepoints, levels and coordinates."""

from __future__ import annotations

import json
import pickle
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
from tests.support.imaris import INFO, characters, sizes, values, write_ims
from xarray_n5 import MetadataError, N5Error, NodeNotFoundError
from xarray_n5.cli import main
from xarray_n5.errors import MissingChunkError, PathError
from xarray_n5.formats.hdf5 import nodes
from xarray_n5.imaris.metadata import numbered
from xarray_n5.napari.layers import read_layers
from xarray_n5_engine import N5BackendEntrypoint

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (5, 7, 10)


def changed(group: str, **attributes: Any) -> dict[str, Any]:
    """The metadata with other attributes in one group."""
    return {**INFO, group: {**INFO[group], **attributes}}


def change(url: Path, group: str, key: str, value: Any) -> None:
    """Change an attribute of a group."""
    with h5py.File(url, "a") as file:
        file[group].attrs[key] = characters(value) if isinstance(value, str) else value


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "f4"])
def test_padding_is_not_part_of_the_image(tmp_path: Path, dtype: str) -> None:
    url = write_ims(tmp_path / "cells.ims", dtype=dtype)
    with h5py.File(url) as file:
        stored = file["DataSet/ResolutionLevel 0/TimePoint 0/Channel 0/Data"]
        assert stored.shape == (8, 8, 16)
    for level in range(2):
        ds = xr.open_dataset(url, engine="n5", level=level)
        assert ds["cells"].dims == ("z", "y", "x")
        assert ds["cells"].dtype == dtype
        assert np.array_equal(ds["cells"], values(SHAPE, 0, 0, level, dtype))
        lazy = xr.open_dataset(url, engine="n5", level=level, chunks={})["cells"]
        assert np.array_equal(pickle.loads(pickle.dumps(lazy)), ds["cells"])  # noqa: S301 - our own


def test_coordinates_are_the_centres_of_voxels_at_every_level(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims")
    tree = xr.open_datatree(url, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1"]
    for level in range(2):
        for axis, size, n in zip("zyx", sizes(SHAPE, level), (2, 1, 0), strict=True):
            low, high = (float(INFO["Image"][f"Ext{end}{n}"]) for end in ("Min", "Max"))
            expected = low + (np.arange(size) + 0.5) * (high - low) / size
            found = tree[f"s{level}"][axis]
            assert np.allclose(found, expected, rtol=0, atol=1e-12)
            assert found.attrs["units"] == "um"
    assert xr.open_dataset(url, engine="n5").identical(tree["s0"].to_dataset())


def test_channels_and_timepoints_are_stacked_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims", times=12, channels=2)
    for level in range(2):
        image = xr.open_dataset(url, engine="n5", level=level, chunks={})["cells"]
        assert image.dims == ("t", "c", "z", "y", "x")
        assert image.c.values.tolist() == ["DAPI", "GFP"]
        assert image.t.values.tolist() == [2.5 * n for n in range(12)]
        assert image.t.attrs["units"] == "s"
        for t, c in [(0, 0), (2, 1), (10, 0), (11, 1)]:
            assert np.array_equal(image[t, c], values(SHAPE, t, c, level))


@pytest.mark.parametrize(("times", "channels", "dims"), [(1, 2, "czyx"), (3, 1, "tzyx")])
def test_an_axis_with_one_part_is_no_dimension(
    tmp_path: Path, times: int, channels: int, dims: str
) -> None:
    url = write_ims(tmp_path / "cells.ims", times=times, channels=channels)
    image = xr.open_dataset(url, engine="n5")["cells"]
    assert image.dims == tuple(dims)
    assert np.array_equal(image[-1], values(SHAPE, times - 1, channels - 1, 0))


def test_irregular_times_are_kept(tmp_path: Path) -> None:
    info = changed("TimeInfo", TimePoint2="2026-01-01 00:00:01")
    url = write_ims(tmp_path / "cells.ims", info, times=3)
    assert xr.open_dataset(url, engine="n5").t.values.tolist() == [0, 1, 5]


def test_times_that_do_not_increase_are_numbers_of_timepoints(tmp_path: Path) -> None:
    info = changed("TimeInfo", TimePoint2="2026-01-01 00:00:00")
    url = write_ims(tmp_path / "cells.ims", info, times=3)
    found = xr.open_dataset(url, engine="n5").t
    assert found.values.tolist() == [0, 1, 2]
    assert "units" not in found.attrs


def test_a_file_without_metadata_has_no_coordinates_of_space(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims", {}, channels=2)
    ds = xr.open_dataset(url, engine="n5")
    assert {name: ds[name].values.tolist() for name in ds.coords} == {"c": [0, 1]}
    assert np.array_equal(ds["cells"][1], values(SHAPE, 0, 1, 0))


def test_a_unit_that_is_missing_is_not_invented(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims", changed("Image", Unit=""))
    found = xr.open_dataset(url, engine="n5").x
    assert found.values[0] == 100.25
    assert "units" not in found.attrs


def test_letters_beyond_ascii_are_read(tmp_path: Path) -> None:
    info = {**changed("Image", Unit="µm"), "Channel 1": {"Name": "β-Catenin"}}
    ds = xr.open_dataset(write_ims(tmp_path / "cells.ims", info, channels=2), engine="n5")
    assert (ds.x.attrs["units"], ds.c.values.tolist()) == ("µm", ["DAPI", "β-Catenin"])


@pytest.mark.parametrize(
    ("ends", "first", "step"),
    [(("5", "0"), 0.25, 0.5), (("3", "3"), 3.5, 1.0)],
)
def test_extents_are_read_as_imaris_writer_corrects_them(
    tmp_path: Path, ends: tuple[str, str], first: float, step: float
) -> None:
    info = changed("Image", ExtMin0=ends[0], ExtMax0=ends[1])
    x = xr.open_dataset(write_ims(tmp_path / "cells.ims", info), engine="n5").x.values
    assert (x[0], x[1] - x[0]) == (first, step)


def test_a_file_is_guessed_by_its_name(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.IMS")
    assert N5BackendEntrypoint().guess_can_open(url)
    assert list(xr.open_dataset(url, engine="n5").data_vars) == ["cells"]


def test_other_hdf5_files_and_paths_in_a_file_open_as_before(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims")
    path = "DataSet/ResolutionLevel 0/TimePoint 0/Channel 0"
    assert xarray_n5.open_array(url, f"{path}/Data").shape == (8, 8, 16)
    assert xr.open_dataset(url, engine="n5", group=f"{path}/Data")["Data"].shape == (8, 8, 16)
    with h5py.File(url, "a") as file:
        del file.attrs["ImarisDataSet"]
    assert "DataSet" in xr.open_datatree(url, engine="n5")


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_a_copy_has_levels_coordinates_and_channels(tmp_path: Path, format: Any) -> None:
    url = write_ims(tmp_path / "cells.ims", times=3, channels=2)
    target = tmp_path / ("copy.n5" if format == "n5" else "copy.zarr")
    xarray_n5.copy(url, target, format=format)
    before, after = (xr.open_datatree(each, engine="n5") for each in (url, target))
    assert list(after.groups) == list(before.groups)
    for level in ("s0", "s1"):
        one, other = before[level]["cells"], after[level]["cells"]
        assert np.array_equal(one, other)
        for axis in "tzyx":
            assert np.allclose(one[axis], other[axis], rtol=0, atol=1e-9)
        assert other.c.values.tolist() == ["DAPI", "GFP"]


def test_a_copy_to_ome_zarr_is_read_by_its_metadata(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    url = write_ims(tmp_path / "cells.ims", times=3, channels=2)
    xarray_n5.copy(url, tmp_path / "copy.zarr", format="zarr3", verify=True)
    image = zarr.open_group(tmp_path / "copy.zarr", mode="r")
    (multiscale,) = image.attrs["ome"]["multiscales"]
    assert [axis["name"] for axis in multiscale["axes"]] == [*"tczyx"]
    for level, entry in enumerate(multiscale["datasets"]):
        scale, moved = (each[each["type"]] for each in entry["coordinateTransformations"])
        size = sizes(SHAPE, level)[2]
        assert (scale[0], scale[4], moved[4]) == (2.5, 5 / size, 100 + 2.5 / size)
        assert np.array_equal(image[entry["path"]][2, 1], values(SHAPE, 2, 1, level))
    labels = [each["label"] for each in image.attrs["ome"]["omero"]["channels"]]
    assert labels == ["DAPI", "GFP"]


COLORED = {**INFO, "Channel 0": {**INFO["Channel 0"], "ColorRange": "10 500.5", "Color": "0 0.5 1"}}


@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_channels_have_colours_and_ranges_of_display(tmp_path: Path, dtype: str) -> None:
    url = write_ims(tmp_path / "cells.ims", COLORED, channels=2, dtype=dtype)
    window = {"min": 10, "max": 500.5, "start": 10, "end": 500.5}
    expected: list[dict[str, Any]] = [
        {"label": "DAPI", "color": "0080FF", "active": True, "window": window},
        {"label": "GFP", "color": "00FF00", "active": True},
    ]
    assert xr.open_dataset(url, engine="n5").attrs == {"omero": {"channels": expected}}
    for form in ("zarr2", "zarr3"):
        xarray_n5.copy(url, tmp_path / form, format=form)
    attributes = json.loads((tmp_path / "zarr3" / "zarr.json").read_bytes())["attributes"]
    assert attributes["ome"]["omero"] == {"channels": expected}
    for place in (url, tmp_path / "zarr2", tmp_path / "zarr3"):
        shown = [facts for _, facts, _ in read_layers(place)]
        assert [each["colormap"] for each in shown] == ["#0080ff", "#00ff00"]
        assert [each.get("contrast_limits") for each in shown] == [(10, 500.5), None]


@pytest.mark.parametrize("color", ["", "0 1", "0 1 2", "0 nan 1", "red", "0 1 0 1", "1e999 0 0"])
def test_an_invalid_colour_leaves_channels_without(tmp_path: Path, color: str) -> None:
    url = write_ims(tmp_path / "cells.ims", channels=2)
    change(url, "DataSetInfo/Channel 1", "Color", color)
    ds = xr.open_dataset(url, engine="n5")
    assert ds.attrs == {}
    assert ds.c.values.tolist() == ["DAPI", "GFP"]


def test_further_data_sets_are_named(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims")
    change(url, "/", "NumberOfDataSets", np.array([2], "u4"))
    with pytest.warns(UserWarning, match="has 2 data sets, of which the first is read"):
        assert xr.open_dataset(url, engine="n5")["cells"].shape == SHAPE


def test_a_file_without_data_is_refused(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims", levels=0)
    with pytest.raises(NodeNotFoundError, match="ResolutionLevel 0"):
        xr.open_dataset(url, engine="n5")


def data(t: int, c: int, level: int = 0) -> str:
    """The path of an array."""
    return f"DataSet/ResolutionLevel {level}/TimePoint {t}/Channel {c}/Data"


@pytest.mark.parametrize(
    ("t", "c", "odd"),
    [
        (1, 0, np.ones((4, 7, 10), "u2")),
        (0, 1, np.ones((5, 7, 10), "i2")),
        (2, 1, np.ones((5, 7, 10, 2), "u2")),
        (1, 1, np.ones((7, 10), "u2")),
        (2, 0, np.ones((), "u2")),
        (2, 0, h5py.ExternalLink("other.h5", "/a")),
    ],
    ids=["shape", "type", "more axes", "fewer axes", "no axes", "link"],
)
def test_an_array_unlike_the_others_is_refused_when_it_is_read(
    tmp_path: Path, t: int, c: int, odd: Any
) -> None:
    url = write_ims(tmp_path / "cells.ims", times=3, channels=2, levels=1)
    with h5py.File(url, "a") as file:
        del file[data(t, c)]
        file[data(t, c)] = odd
    ways: list[dict[str, Any]] = [{}, {"chunks": {}}]
    for options in ways:
        image = xr.open_dataset(url, engine="n5", **options)["cells"]
        assert image.shape == (3, 2, *SHAPE)
        for time, channel in np.ndindex(3, 2):
            if (time, channel) != (t, c):
                assert np.array_equal(image[time, channel], values(SHAPE, time, channel, 0))
        with pytest.raises((MetadataError, PathError), match=f"TimePoint {t}/Channel {c}/Data"):
            image[t, c].load()


@pytest.mark.parametrize("gone", [data(1, 1), data(1, 1)[:-5], data(0, 0), data(0, 0)[:-5]])
def test_a_missing_array_reads_as_fill_value(tmp_path: Path, gone: str) -> None:
    url = write_ims(tmp_path / "cells.ims", times=3, channels=2, levels=1)
    with h5py.File(url, "a") as file:
        del file[gone]
    image = xr.open_dataset(url, engine="n5")["cells"]
    strict = xr.open_dataset(url, engine="n5", missing="error")["cells"]
    assert image.shape == (3, 2, *SHAPE)
    for t, c in np.ndindex(3, 2):
        if data(t, c).startswith(gone):
            assert not image[t, c].any()
            with pytest.raises(MissingChunkError):
                strict[t, c].load()
        else:
            assert np.array_equal(image[t, c], values(SHAPE, t, c, 0))
            assert np.array_equal(strict[t, c], values(SHAPE, t, c, 0))


def test_a_group_in_place_of_an_array_is_a_missing_array(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims", channels=2, levels=1)
    with h5py.File(url, "a") as file:
        del file[data(0, 1)]
        file.create_group(data(0, 1))
    image = xr.open_dataset(url, engine="n5")["cells"]
    assert np.array_equal(image[0], values(SHAPE, 0, 0, 0))
    assert not image[1].any()


def linked(path: Path, times: int, channels: int) -> Path:
    """Write a file in which all time points are one group, and all channels another one."""
    write_ims(path, {}, levels=2)
    with h5py.File(path, "a") as file:
        for level in range(2):
            group = file[f"DataSet/ResolutionLevel {level}"]
            for channel in range(1, channels):
                group[f"TimePoint 0/Channel {channel}"] = group["TimePoint 0/Channel 0"]
            for time in range(1, times):
                group[f"TimePoint {time}"] = group["TimePoint 0"]
    return path


def test_one_array_of_each_level_is_opened_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = linked(tmp_path / "cells.ims", 40, 30)
    read, paths = nodes.read, []

    def counted(file: Any, path: str, where: str) -> Any:
        paths.append(path)
        return read(file, path, where)

    monkeypatch.setattr(nodes, "read", counted)
    assert xr.open_dataset(url, engine="n5").sizes == {"t": 40, "c": 30, "z": 5, "y": 7, "x": 10}
    assert len(xr.open_datatree(url, engine="n5").children) == 2
    assert CliRunner().invoke(main, ["info", str(url)]).exit_code == 0
    assert CliRunner().invoke(main, ["tree", str(url)]).exit_code == 0
    assert {path for path in paths if path.endswith("Data")} == {data(0, 0), data(0, 0, 1)}
    image = xr.open_dataset(url, engine="n5", level=1)["cells"]
    paths.clear()
    assert np.array_equal(image[39, 29], values(SHAPE, 0, 0, 1))
    assert {path for path in paths if path.endswith("Data")} == {data(39, 29, 1)}


@pytest.mark.filterwarnings("ignore:.*resolution level")
def test_few_paths_are_tried_in_levels_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = linked(tmp_path / "cells.ims", 12, 9)
    with h5py.File(url, "a") as file:
        levels, empty = file["DataSet"], file.create_group("empty")
        for level in range(2, 60):
            levels[f"ResolutionLevel {level}"] = empty
    read, paths = nodes.read, []

    def counted(file: Any, path: str, where: str) -> Any:
        paths.append(path)
        return read(file, path, where)

    monkeypatch.setattr(nodes, "read", counted)
    assert len(xr.open_datatree(url, engine="n5").children) == 2
    assert len([path for path in paths if path.endswith("Data")]) < 60


def test_a_project_is_written_from_a_file(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims", channels=2, levels=1)
    xr.open_dataset(url, engine="n5", chunks={}).n5.to_bdv(tmp_path / "out.xml")
    views = xr.open_dataset(tmp_path / "out.xml", engine="bdv")
    (name,) = (name for name, each in views.data_vars.items() if each.ndim > 3)
    for channel in range(2):
        assert np.array_equal(views[name].squeeze()[channel], values(SHAPE, 0, channel, 0))


def test_data_without_chunks_may_have_padding(tmp_path: Path) -> None:
    url = write_ims(tmp_path / "cells.ims", levels=1)
    with h5py.File(url, "a") as file:
        group = file["DataSet/ResolutionLevel 0/TimePoint 0/Channel 0"]
        data = group["Data"][()]
        del group["Data"]
        group["Data"] = data
    assert np.array_equal(xr.open_dataset(url, engine="n5")["cells"], values(SHAPE, 0, 0, 0))


@pytest.mark.parametrize("command", ["info", "tree", "preview"])
def test_the_command_line_shows_the_image(tmp_path: Path, command: str) -> None:
    url = write_ims(tmp_path / "cells.ims", channels=2)
    more = ["-o", str(tmp_path / "out.png")] if command == "preview" else []
    result = CliRunner().invoke(main, [command, str(url), *more], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.output


def test_names_are_in_the_order_of_their_numbers() -> None:
    names = ["Channel 10", "Channel 2", "Channel 02", "Channel", "Channel x", "TimePoint 1"]
    assert numbered([*names, "Channel " + "9" * 40], "Channel") == (2, 10)


INVALID = [
    *(
        "",
        "nan",
        "inf",
        "-1e999",
        "1e308",
        "-1e308",
        "1e-320",
        "0",
        "-1",
        "1.5",
        "a",
        "1 2",
        "9" * 400,
    ),
    *(np.array([1, 2]), np.float32(np.nan), "plain", np.array([b"ab", b"c"]), characters("\xff")),
    *(np.zeros((2, 2)), np.array([b"\xff"], "S1"), h5py.Empty("f4"), "\0" * 5),
]
"""Values of attributes."""

KEYS = [
    *(("Image", key) for key in ("ExtMin0", "ExtMax0", "ExtMin2", "Unit")),
    *(("TimeInfo", key) for key in ("TimePoint1", "TimePoint2")),
    ("Channel 1", "Name"),
]


@pytest.mark.matrix(2)
@pytest.mark.parametrize("key", KEYS, ids="-".join)
def test_invalid_metadata_do_not_prevent_reading(tmp_path: Path, key: tuple[str, str]) -> None:
    url = write_ims(tmp_path / "cells.ims", times=2, channels=2, levels=1)
    for value in INVALID:
        change(url, f"DataSetInfo/{key[0]}", key[1], value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ds = xr.open_dataset(url, engine="n5")
            assert np.array_equal(ds["cells"][1, 1], values(SHAPE, 1, 1, 0))
        for coordinate in ds.coords.values():
            assert coordinate.dtype.kind != "f" or np.isfinite(coordinate).all()


@pytest.mark.parametrize("key", ["ImageSizeX", "ImageSizeZ"])
def test_an_invalid_size_leaves_the_padding(tmp_path: Path, key: str) -> None:
    url = write_ims(tmp_path / "cells.ims", levels=1)
    for value in INVALID:
        change(url, "DataSet/ResolutionLevel 0/TimePoint 0/Channel 0", key, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = xr.open_dataset(url, engine="n5")["cells"]
        axis = "xyz".index(key[-1].lower())
        whole = image.sizes[key[-1].lower()]
        assert whole in {(16, 8, 8)[axis], *range(1, 3)}
        expected = np.zeros(image.shape, "u2")
        own = values(SHAPE, 0, 0, 0)[tuple(map(slice, image.shape))]
        expected[tuple(map(slice, own.shape))] = own
        assert np.array_equal(image, expected)


@pytest.mark.parametrize(
    "name", ["DataSetDirectoryName", "DataSetInfoDirectoryName", "ImarisDataSet"]
)
def test_invalid_attributes_of_the_file_are_survived(tmp_path: Path, name: str) -> None:
    url = write_ims(tmp_path / "cells.ims", levels=1)
    for value in [*INVALID, "../x", "/", "..", "a/b"]:
        change(url, "/", name, value)
        with warnings.catch_warnings(), suppress(N5Error):
            warnings.simplefilter("ignore")
            xr.open_dataset(url, engine="n5").load()
