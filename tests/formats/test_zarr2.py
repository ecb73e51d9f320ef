"""Zarr v2, read from what others wrote and read by others from what is written."""

from __future__ import annotations

import base64
import json
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from xarray_n5 import (
    MetadataError,
    NodeExistsError,
    create_array,
    create_group,
    open_array,
    to_n5,
    verify,
)
from xarray_n5.errors import UnknownCompressionError

if TYPE_CHECKING:
    from pathlib import Path

zarr = pytest.importorskip("zarr")

TYPES = ["|b1", "|i1", "|u1", "<i2", ">i4", "<u8", ">u2", "<f2", ">f4", "<f8", "<c8", ">c16"]
TYPES += ["|S3", "<U3", ">U2", "<M8[s]", ">m8[ms]", "|V4"]


# Written by us


def test_a_region_cuts_padded_chunks(tmp_path: Path) -> None:
    data = np.zeros((7, 7), "i4")
    to_n5(data, tmp_path, "a", chunks=3, format="zarr2", compression=None)
    data[2:6, 1:7] = 5
    to_n5(data[2:6, 1:7], tmp_path, "a", region=(slice(2, 6), slice(1, 7)), safe_chunks=False)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], data)
    assert {each.stat().st_size for each in (tmp_path / "a").glob("[0-9]*")} == {36}


def test_an_array_grows_with_its_fill_value(tmp_path: Path) -> None:
    theirs = zarr.create_array(
        tmp_path, shape=(5,), chunks=(4,), dtype="f4", zarr_format=2, fill_value=np.nan,
        compressors=None,
    )  # fmt: skip
    theirs[...] = np.arange(5)
    array = open_array(tmp_path, mode="r+")
    array.resize((10,))
    expected = [0, 1, 2, 3, 4, *[np.nan] * 5]
    np.testing.assert_array_equal(array[...], expected)
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], expected)


@pytest.mark.parametrize(
    "data",
    [
        np.array([0, 1], "u1"),
        np.array([False, True]),
        np.array([0, 2**60 + 1], "u8"),
        np.array([0.0, 1.0]),
        np.array(["", "a"]),
        np.array(["NaT", "2000-01-01"], "M8[ns]"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_zeros_are_values_to_everybody(tmp_path: Path, data: np.ndarray) -> None:
    named = xr.DataArray(data, dims="x", name="a")
    to_n5(named, tmp_path, "a", format="zarr2")
    for found in (
        xr.open_dataset(tmp_path, engine="n5")["a"],
        xr.open_zarr(tmp_path, consolidated=False)["a"],
    ):
        np.testing.assert_array_equal(found.values, data)
        assert found.dtype.kind in {data.dtype.kind, "T", "O"}
    assert (verify(tmp_path, "a").state == "ok").all()


def test_a_container_keeps_its_format(tmp_path: Path) -> None:
    to_n5(np.zeros(2), tmp_path, "a", format="zarr2")
    create_group(tmp_path, mode="a", attributes={"k": 1})
    create_group(tmp_path, "g", attributes={"k": 1})
    to_n5(np.ones(3), tmp_path, "g/b")
    to_n5(np.ones(4), tmp_path, "a", mode="w")
    assert not list(tmp_path.rglob("attributes.json"))
    assert dict(zarr.open_group(tmp_path, mode="r", zarr_format=2).attrs) == {"k": 1}
    assert open_array(tmp_path, "a").shape == (4,)
    xr.Dataset({"v": ("x", [1])}).n5.to_n5(tmp_path, "d")
    assert not list(tmp_path.rglob("attributes.json"))


def test_a_damaged_summary_is_told_and_stops_nothing(tmp_path: Path) -> None:
    to_n5(np.ones(3), tmp_path, "a", format="zarr2")
    for content in ("{", "[]", '{"metadata": null}'):
        (tmp_path / ".zmetadata").write_text(content)
        with pytest.warns(UserWarning, match=r"\.zmetadata is corrupt"):
            open_array(tmp_path, "a", mode="r+").resize((5,))


def test_formats_do_not_mix(tmp_path: Path) -> None:
    to_n5(np.ones(3), tmp_path / "n", "a")
    with pytest.raises(NodeExistsError, match="another format"):
        to_n5(np.ones(3), tmp_path / "n", "b", format="zarr2")
    to_n5(np.ones(3), tmp_path / "z", "a", format="zarr2")
    with pytest.raises(NodeExistsError, match="another format"):
        to_n5(np.ones(3), tmp_path / "z", "b", format="n5")


# xarray


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_what_xarray_wrote_opens_as_xarray_opens_it(tmp_path: Path) -> None:
    dataset = xr.Dataset(
        {
            "a": (("y", "x"), np.arange(6.0).reshape(2, 3), {"units": "K"}),
            "n": (("x",), [1, 2, 3]),
            "t": (("y",), np.array(["2000-01-01", "2000-01-02"], "M8[ns]")),
            "s": (("x",), ["a", "bc", ""]),
            "k": (("x",), [True, False, True]),
        },
        {"x": [1.5, 2.5, 4.0]},
        {"title": "t"},
    )
    encoding = {"a": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}}
    dataset.to_zarr(tmp_path / "d.zarr", zarr_format=2, encoding=encoding, consolidated=True)
    theirs = xr.open_zarr(tmp_path / "d.zarr").load()
    ours = xr.open_dataset(tmp_path / "d.zarr", engine="n5").load()
    xr.testing.assert_equal(ours, theirs)
    assert ours["a"].attrs == theirs["a"].attrs
    lazy = xr.open_dataset(tmp_path / "d.zarr", engine="n5", chunks={})
    xr.testing.assert_equal(lazy.load(), theirs)


# What cannot be


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"zarr_format": 3}, MetadataError, "zarr_format"),
        ({"shape": [float("inf"), 4]}, MetadataError, "shape"),
        ({"shape": [1] * 100, "chunks": [1] * 100}, MetadataError, "shape"),
        ({"order": ["C"]}, MetadataError, "order"),
        ({"dimension_separator": {"a": 1}}, MetadataError, "dimension_separator"),
        ({"dtype": "|b1", "fill_value": "maybe"}, MetadataError, "fill_value"),
        ({"dtype": "<U500000000"}, MetadataError, "dtype"),
        ({"dtype": [["a", "=O"]]}, MetadataError, "dtype"),
        ({"compressor": {"id": "gzip", "level": 99}}, MetadataError, "compressor"),
        ({"compressor": {"id": "zstd", "level": "a"}}, MetadataError, "compressor"),
        ({"dtype": "<f3x"}, MetadataError, "dtype"),
        ({"dtype": "<M8"}, MetadataError, "dtype"),
        ({"chunks": [0, 3]}, MetadataError, "chunks"),
        ({"chunks": [3]}, MetadataError, "chunks"),
        ({"shape": "many"}, MetadataError, "shape"),
        ({"order": "A"}, MetadataError, "order"),
        ({"dimension_separator": ":"}, MetadataError, "dimension_separator"),
        ({"fill_value": "nothing"}, MetadataError, "fill_value"),
        ({"fill_value": 1.5}, MetadataError, "fill_value"),
        ({"compressor": {"id": "pickle"}}, UnknownCompressionError, "pickle"),
        ({"compressor": {"id": "brotli"}}, UnknownCompressionError, "brotli.*bz2.*zarr-python"),
        ({"compressor": "gzip"}, MetadataError, "compressor"),
        ({"filters": [{"id": "pickle"}]}, UnknownCompressionError, "pickle"),
        ({"filters": {"id": "delta"}}, MetadataError, "filters"),
        ({"dtype": "|O"}, MetadataError, "objects"),
        ({"dtype": "|O", "filters": [{"id": "pickle"}]}, UnknownCompressionError, "pickle"),
    ],
)
def test_what_cannot_be_is_refused_by_file_and_name(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    members = {
        "zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "<i2", "order": "C",
        "compressor": None, "filters": None, "fill_value": 0,
    }  # fmt: skip
    (tmp_path / ".zarray").write_text(json.dumps({**members, **change}))
    with pytest.raises(error, match=message) as raised:
        open_array(tmp_path)
    assert ".zarray" in str(raised.value)


@pytest.mark.parametrize(
    ("dtype", "stored", "expected"),
    [
        ("<i4", "7", 7),
        ("<u8", 18446744073709551615, 18446744073709551615),
        ("<f4", "NaN", np.float32("nan")),
        ("<f8", "-Infinity", -np.inf),
        ("<f8", "1.5", 1.5),
        ("<c8", [1.0, "NaN"], complex(1, np.nan)),
        ("|b1", True, True),
        ("<M8[s]", "NaT", np.datetime64("NaT", "s")),
        ("<M8[s]", 60, np.datetime64(60, "s")),
        ("|S3", base64.b64encode(b"ab").decode(), b"ab"),
        ("|S3", "", b""),
        ("<U3", "xyz", "xyz"),
        ([["x", "<i4"], ["y", "|S2"]], "AQAAAHgA", (1, b"x")),
        ("<i4", None, 0),
    ],
)
def test_fill_values_are_those_of_the_specification(
    tmp_path: Path, dtype: Any, stored: Any, expected: Any
) -> None:
    members = {
        "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": dtype, "order": "C",
        "compressor": None, "filters": None, "fill_value": stored,
    }  # fmt: skip
    (tmp_path / ".zarray").write_text(json.dumps(members))
    found = open_array(tmp_path)[0]
    np.testing.assert_array_equal(found, np.array(expected, found.dtype))


@pytest.mark.parametrize("dtype", [*TYPES, "O", [("a", "<i4"), ("b", "<f8")]])
def test_zero_is_named_so_that_others_need_no_chunks(tmp_path: Path, dtype: Any) -> None:
    own = np.dtype(dtype).newbyteorder("=")
    array = create_array(tmp_path, "a", shape=(5,), chunks=2, dtype=own, format="zarr2")
    assert json.loads((tmp_path / "a/.zarray").read_text())["fill_value"] is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs: Any = zarr.open_array(str(tmp_path), path="a", mode="r", zarr_format=2)[...]
    np.testing.assert_array_equal(np.asarray(theirs).astype(own), array[...])


@pytest.mark.parametrize(
    ("options", "named", "chunks"),
    [
        ({}, 0, 1),
        ({"axes": ["y", "x"]}, None, 4),
        ({"layout": {"fill_value": None}}, None, 4),
        ({"axes": ["y", "x"], "layout": {"fill_value": 0}}, 0, 1),
    ],
)
def test_chunks_are_left_out_where_a_fill_value_is_named(
    tmp_path: Path, options: dict[str, Any], named: int | None, chunks: int
) -> None:
    data = np.zeros((4, 4), int)
    data[0, 0] = 1
    to_n5(data, tmp_path, "a", chunks=2, write_empty_chunks=False, format="zarr2", **options)
    assert json.loads((tmp_path / "a/.zarray").read_text())["fill_value"] == named
    assert len(list((tmp_path / "a").glob("[0-9]*"))) == chunks
    layout = options.get("layout", {"order": "C"})
    again = create_array(tmp_path, "a", shape=(4, 4), chunks=2, dtype=int, mode="a", layout=layout)
    np.testing.assert_array_equal(again[...], data)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        *[("i4", 1.5), ("u1", np.int64(300)), ("u1", np.float64("nan")), ("?", 2.0)],
        *[("S2", b"abc"), ("M8[D]", np.datetime64(5, "s")), ("f4", b"a")],
    ],
)
def test_fill_values_that_the_type_cannot_hold_are_refused(
    tmp_path: Path, form: Any, dtype: str, fill: Any
) -> None:
    layout = {"fill_value": fill}
    with pytest.raises(MetadataError, match="fill_value"):
        create_array(tmp_path, "a", shape=(2,), dtype=dtype, format=form, layout=layout)


def test_fill_values_of_bytes_are_as_long_as_an_element(tmp_path: Path) -> None:
    create_array(tmp_path, "a", shape=(2,), dtype="S3", format="zarr2", layout={"fill_value": b"a"})
    named = json.loads((tmp_path / "a/.zarray").read_text())["fill_value"]
    assert base64.standard_b64decode(named) == b"a\0\0"
    assert open_array(tmp_path, "a")[...].tolist() == [b"a", b"a"]
    tensorstore = pytest.importorskip("tensorstore")
    place = {"driver": "file", "path": str(tmp_path / "a")}
    tensorstore.open({"driver": "zarr", "kvstore": place}).result()


def test_fields_of_several_byte_orders_are_read_and_merged(tmp_path: Path) -> None:
    dtype = np.dtype([("a", ">i4"), ("b", "<i4")])
    values = np.array([(1, 2)] * 4, dtype)
    document = {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [4],
        "dtype": dtype.descr,
        "compressor": {"id": "zlib", "level": 1},
        "fill_value": None,
        "order": "C",
        "filters": None,
    }
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr/.zarray").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "a.zarr/0").write_bytes(zlib.compress(values.tobytes()))
    array = open_array(tmp_path / "a.zarr", mode="r+")
    assert array[...].tolist() == array[0:4].tolist() == values.tolist()
    array[0:1] = np.array([(7, 8)], array.dtype)
    assert array[...].tolist() == [(7, 8), (1, 2), (1, 2), (1, 2)]
