"""Datasets and trees as Zarr v2: xarray's own engine opens what is written, and so does ours."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest
import xarray as xr
from fsspec.implementations.local import LocalFileSystem

import xarray_n5
from tests.support.containers import contents
from xarray_n5 import MetadataError, NodeExistsError, open_array, set_options, to_n5
from xarray_n5.errors import PathError

if TYPE_CHECKING:
    from pathlib import Path

zarr = pytest.importorskip("zarr")

pytestmark = [
    pytest.mark.filterwarnings("ignore:variable object has data in the form of a dask array"),
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
]


def rich() -> xr.Dataset:
    """A variable of each kind."""
    days = np.array(["2000-01-01", "NaT", "2001-02-03T04:05"], "M8[ns]")
    return xr.Dataset(
        {
            "a": (("y", "x"), np.arange(12.0).reshape(3, 4), {"units": "K", "offset": [1, 2]}),
            "flag": ("x", [True, False, True, True]),
            "complex": ("x", np.arange(4) * 1j),
            "half": ("x", np.arange(4, dtype="f2")),
            "text": ("x", ["a", "bcé", "", "d"]),
            "object": ("x", np.array(["a", "longer text", "", "é\0"], object)),
            "bytes": ("x", np.array([b"a", b"b", b"", b"d"])),
            "day": ("y", days),
            "span": ("y", np.array([1, 2, 3], "m8[s]").astype("m8[ns]")),
            "number": ((), 5),
            "word": ((), "text"),
            "gaps": ("x", [1, np.nan, 2, 3]),
            "nothing": ("z", np.zeros(0)),
        },
        {
            "x": [1.0, 2.0, 4.0, 8.0],
            "y": ("y", [10.0, 12.0, 14.0], {"units": "um"}),
            "lat": (("y", "x"), np.ones((3, 4))),
            "name": ("x", list("abcd")),
            "scalar": 7.5,
        },
        {"title": "t", "multiscales": [{"no": 1}], "transform": {"a": 1}},
    )


def ours(place: object, group: str | None = None) -> xr.Dataset:
    return xr.open_dataset(place, engine="n5", group=group).load()  # type: ignore[arg-type]


def theirs(place: Path, group: str | None = None) -> xr.Dataset:
    opened: xr.Dataset = xr.open_zarr(place, group=group, consolidated=False)
    return opened.load()


@pytest.mark.parametrize("chunked", [False, True])
def test_both_engines_open_what_was_given(tmp_path: Path, chunked: bool) -> None:
    dataset = rich()
    source = dataset.chunk(x=2) if chunked else dataset
    with set_options(checksums=True):
        source.n5.to_n5(tmp_path, "g", format="zarr2")
    for opened in (ours(tmp_path, "g"), theirs(tmp_path, "g")):
        xr.testing.assert_identical(opened, dataset)
        opened.n5.to_n5(tmp_path, "again", mode="w")
        xr.testing.assert_identical(theirs(tmp_path, "again"), dataset)
    assert {path.name for path in (tmp_path / "g").iterdir()} == {
        *dataset.variables, ".zgroup", ".zattrs", ".zmetadata",
    }  # fmt: skip
    note = json.loads((tmp_path / "g/text/.zattrs").read_text())
    assert note == {"_ARRAY_DIMENSIONS": ["x"], "coordinates": note["coordinates"]}


def test_documents_are_those_that_xarray_writes(tmp_path: Path) -> None:
    dataset = rich().drop_vars("bytes")
    dataset.n5.to_n5(tmp_path / "ours", format="zarr2")
    dataset.to_zarr(tmp_path / "theirs", zarr_format=2, consolidated=False)
    for name in dataset.variables:
        mine, other = (
            json.loads((tmp_path / who / str(name) / ".zarray").read_text())
            for who in ("ours", "theirs")
        )
        for key in ("shape", "dtype", "fill_value", "order", "filters"):
            if not (key == "fill_value" and dataset[name].dtype.kind == "O"):
                assert mine[key] == other[key], (name, key)


def test_trees_come_back_identical(tmp_path: Path) -> None:
    dataset = rich()
    nodes = {"/": xr.Dataset(attrs={"r": 1}), "/a": dataset[["a"]], "/a/b": dataset[["day"]]}
    tree = xr.DataTree.from_dict({**nodes, "/empty": xr.Dataset()})
    tree.n5.to_n5(tmp_path, format="zarr2")
    xr.testing.assert_identical(xr.open_datatree(tmp_path, engine="n5"), tree)
    opened = xr.open_datatree(tmp_path, engine="zarr", consolidated=False)
    xr.testing.assert_identical(opened, tree)


def test_what_json_cannot_hold_is_kept_out_of_sight(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", [1], {"nan": np.nan, "inf": -np.inf})})
    dataset.n5.to_n5(tmp_path, format="zarr2")
    xr.testing.assert_identical(ours(tmp_path), dataset)
    assert theirs(tmp_path)["a"].attrs == {}


# Into what is there


@pytest.mark.parametrize("chunked", [False, True])
def test_more_is_appended(tmp_path: Path, chunked: bool) -> None:
    dataset = rich().drop_vars(["nothing", "number", "word", "scalar"])
    parts = dataset.isel(x=slice(0, 3)), dataset.isel(x=slice(3, 4))
    parts[0].n5.to_n5(tmp_path, format="zarr2", encoding={"a": {"chunks": (2, 2)}})
    (parts[1].chunk(x=1) if chunked else parts[1]).n5.to_n5(tmp_path, append_dim="x")
    for opened in (ours(tmp_path), theirs(tmp_path)):
        xr.testing.assert_identical(opened, dataset)


def test_parts_are_replaced(tmp_path: Path) -> None:
    dataset = rich()
    dataset.n5.to_n5(tmp_path, format="zarr2")
    part = dataset[["gaps"]].drop_vars(["scalar", "name"]).isel(x=slice(1, 3)) * 2
    part.drop_vars("x").n5.to_n5(tmp_path, region={"x": slice(1, 3)}, safe_chunks=False)
    dataset["gaps"][1:3] = part["gaps"].to_numpy()
    for opened in (ours(tmp_path), theirs(tmp_path)):
        xr.testing.assert_identical(opened, dataset)
    dataset["flag"] = ~dataset["flag"]
    dataset.n5.to_n5(tmp_path, mode="r+")
    xr.testing.assert_identical(theirs(tmp_path), dataset)


def test_layouts_and_compressions_are_encodings(tmp_path: Path) -> None:
    layout = {"order": "F", "dimension_separator": "/", "dtype": ">f8"}
    encoding = {"a": {"layout": layout, "compression": "zstd", "chunks": (2, 3)}}
    rich().n5.to_n5(tmp_path, format="zarr2", encoding=encoding)
    members = json.loads((tmp_path / "a/.zarray").read_text())
    assert members.items() >= layout.items()
    assert members["compressor"]["id"] == "zstd"
    xr.testing.assert_identical(theirs(tmp_path), rich())
    with pytest.raises(MetadataError, match="_FillValue"):
        rich().n5.to_n5(tmp_path, "g", encoding={"a": {"layout": {"fill_value": 0}}})
    with pytest.raises(MetadataError, match="N5 does not support"):
        rich()[["a"]].n5.to_n5(tmp_path / "n5", encoding=encoding)
    assert not (tmp_path / "g").exists()


# Images of single variables, as earlier versions wrote them


def volume() -> xr.Dataset:
    """Variables with lengths, also with channels, and without."""
    places = {"z": 40.0 * np.arange(2), "y": 8 + 4.0 * np.arange(3), "x": 4.0 * np.arange(4)}
    return xr.Dataset(
        {
            "em": (("z", "y", "x"), np.arange(24.0).reshape(2, 3, 4)),
            "colours": (("c", "y", "x"), np.ones((2, 3, 4))),
            "profile": ("z", [1.0, 2.0]),
            "films": (("day", "y", "x"), np.ones((2, 3, 4))),
        },
        {
            **{name: (name, values, {"units": "nm"}) for name, values in places.items()},
            "c": ["r", "g"],
            "day": np.array(["2000-01-01", "2000-01-05"], "M8[ns]"),
        },
        {"title": "k"},
    )


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_variables_are_not_described_as_images(tmp_path: Path, form: str) -> None:
    volume().n5.to_n5(tmp_path / "a", format=form)
    assert dict(xarray_n5.open_group(tmp_path / "a").attrs) == {"title": "k"}
    xr.testing.assert_identical(theirs(tmp_path / "a"), volume())
    tree = xr.DataTree.from_dict({"/deep": volume()})
    for dialect in ("ngff", ["ngff"], "ngff-0.6", "cosem"):
        for source in (volume(), volume()["em"], volume()["profile"], tree):
            with pytest.raises(MetadataError, match=r"xarray_n5\.pyramid\(.*levels=0\)"):
                source.n5.to_n5(tmp_path / "b", format=form, dialect=dialect)
    assert not (tmp_path / "b").exists()


# Where the container is


class Unlisted(LocalFileSystem):  # type: ignore[misc]
    """A server that lists nothing, but says whether a file is there."""

    protocol = "unlisted"
    refuses = False

    def ls(self, path: str, **_: Any) -> list[Any]:
        """List nothing."""
        if self.refuses:
            raise PermissionError(path)
        return []


@pytest.mark.parametrize("refuses", [False, True])
def test_summaries_tell_what_servers_do_not_list(tmp_path: Path, refuses: bool) -> None:
    class Server(Unlisted):
        pass

    Server.refuses = refuses
    dataset = volume()
    dataset.n5.to_n5(tmp_path, "g", format="zarr2")
    zarr.consolidate_metadata(tmp_path, zarr_format=2)
    place = (Server(skip_instance_cache=True), str(tmp_path))
    xr.testing.assert_identical(ours(place, "g"), dataset)
    assert list(xarray_n5.open_group(place)) == ["g"]
    tree = xr.open_datatree(place, engine="n5")  # type: ignore[arg-type]
    xr.testing.assert_identical(tree["g"].to_dataset(), dataset)
    shutil.rmtree(tmp_path / "g/profile")
    xr.testing.assert_identical(ours(tmp_path, "g"), dataset.drop_vars("profile"))


@pytest.mark.parametrize("form", ["zarr2", "n5"])
def test_zip_files_are_read(tmp_path: Path, form: str) -> None:
    dataset = rich().drop_vars(["complex", "half", "object"])
    folder = tmp_path / "a.n5" if form == "n5" else tmp_path / "a"
    dataset.n5.to_n5(folder, "g", format=form)
    shutil.make_archive(str(tmp_path / "a"), "zip", folder)
    for url in (f"zip::{tmp_path}/a.zip", f"zip://::{tmp_path}/a.zip"):
        xr.testing.assert_identical(ours(url, "g"), dataset)
        assert list(xarray_n5.open_group(url)) == ["g"]
        assert open_array(url, "g/a", missing="fill")[0, 1] == 1
    with fsspec.open(
        f"zip://g/a/{'.zarray' if form == 'zarr2' else 'attributes.json'}::{tmp_path}/a.zip"
    ) as file:
        assert json.load(file)


def test_paths_mean_the_same_as_in_n5(tmp_path: Path) -> None:
    to_n5(np.arange(3), tmp_path, "a/./b", format="zarr2")
    assert open_array(tmp_path, "//a/c/../b/").shape == (3,)
    assert xarray_n5.open_group(tmp_path)["a//b"].path == "a/b"
    for path in ("a\\b", "../a"):
        for act in (
            lambda path=path: open_array(tmp_path, path),
            lambda path=path: to_n5(np.arange(2), tmp_path, path),
            lambda path=path: volume().n5.to_n5(tmp_path, path),
        ):
            with pytest.raises(PathError):
                act()


@pytest.mark.matrix(6)
@pytest.mark.parametrize("make", ["zarr2", "zarr3"])
@pytest.mark.parametrize("mode", ["w-", "w", "a"])
@pytest.mark.parametrize("group", [None, "g", "g/v", "new/deep"])
def test_n5_is_not_written_into_zarr(
    tmp_path: Path, make: str, mode: Any, group: str | None
) -> None:
    dataset = xr.Dataset({"v": (("y", "x"), np.ones((2, 3)))})
    dataset.to_zarr(
        tmp_path, group="g", zarr_format=2 if make == "zarr2" else 3, consolidated=False
    )
    before = contents(tmp_path)
    group_mode: Any = "a" if mode == "w" else mode
    for act in (
        lambda: dataset.n5.to_n5(tmp_path, group, mode=mode, format="n5"),
        lambda: xr.DataTree.from_dict({"/k": dataset}).n5.to_n5(
            tmp_path, group, mode=mode, format="n5"
        ),
        lambda: to_n5(np.ones(3), tmp_path, group or "", mode=mode, format="n5"),
        lambda: xarray_n5.create_group(tmp_path, group or "", mode=group_mode, format="n5"),
    ):
        with pytest.raises(NodeExistsError):
            act()
        assert contents(tmp_path) == before


def test_zarr_below_a_plain_directory_is_left_alone(tmp_path: Path) -> None:
    volume().n5.to_n5(tmp_path / "a.zarr", "g", format="zarr2")
    before = contents(tmp_path)
    for path in ("a.zarr", "a.zarr/g", "a.zarr/new"):
        with pytest.raises(NodeExistsError, match=r"another format.*\.zgroup"):
            volume().n5.to_n5(tmp_path, path, mode="a")
    assert contents(tmp_path) == before


def test_units_of_a_group_are_its_users(tmp_path: Path) -> None:
    dataset = xr.Dataset({"v": (("y", "x"), np.ones((2, 3)))}, attrs={"units": "K"})
    dataset.n5.to_n5(tmp_path, format="zarr2")
    xr.testing.assert_identical(ours(tmp_path), dataset)
    dataset.n5.to_n5(tmp_path, append_dim="x")
    assert ours(tmp_path).sizes == {"y": 2, "x": 6}


def test_variables_leave_out_chunks_where_a_mask_tells_what_they_hold(tmp_path: Path) -> None:
    data = np.zeros((4, 4))
    data[0, 0] = 1
    dataset = xr.Dataset(
        {
            "whole": (("y", "x"), data.astype(int)),
            "masked": (("y", "x"), np.where(data, data, np.nan)),
        }
    ).chunk(2)
    dataset.n5.to_n5(tmp_path, format="zarr2", write_empty_chunks=False)
    stored = {name: len(list((tmp_path / name).glob("[0-9]*"))) for name in ("whole", "masked")}
    assert stored == {"whole": 4, "masked": 1}
    for opened in (ours(tmp_path), theirs(tmp_path)):
        xr.testing.assert_identical(opened, dataset.compute())
        assert opened["whole"].dtype == int
