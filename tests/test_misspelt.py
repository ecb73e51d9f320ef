"""What is misspelt, or asked for in the wrong place, is answered with what is meant."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from xarray_n5 import MissingPackageError, NodeNotFoundError, open_array, pyramid, to_n5

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = xr.DataArray(np.ones((8, 8, 8)), dims=("z", "y", "x"), name="f")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"chunks": 4}, r"encoding=\{'f': \{'chunks': \.\.\.\}\}"),
        ({"compression": "zstd"}, r"encoding=\{'f': \{'compression': \.\.\.\}\}"),
        ({"compressor": None}, r"encoding=\{'f': \{'compression': \.\.\.\}\}"),
        ({"overwrite": True}, "mode='w'"),
        ({"component": "a"}, "group="),
        ({"append_dims": "z"}, "did you mean 'append_dim'"),
        ({"colour": 1}, "it takes url, group, mode"),
    ],
)
def test_options_that_to_n5_lacks_are_told_where_they_belong(
    tmp_path: Path, option: dict[str, Any], expected: str
) -> None:
    for stored in (IMAGE, IMAGE.to_dataset()):
        with pytest.raises(TypeError, match=expected):
            stored.n5.to_n5(tmp_path / "a.n5", **option)
    with pytest.raises(TypeError, match=next(iter(option))):
        xr.DataTree(IMAGE.to_dataset()).n5.to_n5(tmp_path / "a.n5", **option)
    assert not (tmp_path / "a.n5").exists()


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ({"f": {"chunksizes": 4}}, "did you mean 'chunks'"),
        ({"f": {"compressions": "gzip"}}, "did you mean 'compression'"),
        ({"f": {"zlib": True}}, "did you mean 'compression'"),
        ({"f": {"xyz": 1}}, "known are .*chunks, .*compression"),
        ({"chunks": (4, 4, 4)}, r"by variable: encoding=\{'f': \{'chunks': \.\.\.\}\}"),
    ],
)
def test_encodings_that_are_none_are_answered_with_those_meant(
    tmp_path: Path, encoding: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        IMAGE.n5.to_n5(tmp_path / "a.n5", encoding=encoding)
    assert not (tmp_path / "a.n5").exists()


@pytest.mark.parametrize("open_it", [xr.open_dataset, xr.open_datatree])
def test_options_that_the_engine_lacks_are_answered_with_those_meant(
    tmp_path: Path, open_it: Any
) -> None:
    IMAGE.n5.to_n5(tmp_path / "a.n5")
    with pytest.raises(TypeError, match=r"takes no 'axisorder'; did you mean 'axis_order'\?"):
        open_it(tmp_path / "a.n5", engine="n5", axisorder="F")
    with pytest.raises(TypeError, match=r"it takes mask_and_scale, .*group"):
        open_it(tmp_path / "a.n5", engine="n5", colour="red")


@pytest.mark.parametrize(
    ("url", "extra"),
    [
        ("s3://bucket/a.n5", "s3"),
        ("simplecache::s3://bucket/a.n5", "s3"),
        ("gs://bucket/a.n5", "gcs"),
        ("abfs://container/a.n5", "azure"),
        ("https://host/a.n5", "http"),
    ],
)
def test_urls_that_need_a_package_name_the_extra(url: str, extra: str) -> None:
    absent = dict.fromkeys(["s3fs", "gcsfs", "adlfs", "fsspec.implementations.http"])
    registry: Any = importlib.import_module("fsspec.registry")
    with (
        mock.patch.dict(sys.modules, absent),
        mock.patch.dict(registry._registry, clear=True),
        pytest.raises(MissingPackageError, match=rf'install "xarray-n5\[{extra}\]"') as caught,
    ):
        open_array(url)
    assert caught.value.extra == extra


def test_what_is_no_place_is_named_by_its_type(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"a Array is no place.* comes before the place"):
        to_n5(str(tmp_path / "a.n5"), da.ones(3))
    with pytest.raises(TypeError, match="a float is no place") as caught:
        open_array(1.5)
    assert "before the place" not in str(caught.value)


def test_a_pyramid_of_what_holds_no_numbers_says_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"got a str; .*open_array\(url, path\)"):
        pyramid("cells.n5", "raw")
    with pytest.raises(TypeError, match=r"got a Dataset; choose one of its variables: f$"):
        pyramid(IMAGE.to_dataset(), "a.n5")


def test_factors_by_axis_are_told_from_those_by_level(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"for each axis give \[\(1, 2, 2\)\]"):
        pyramid(IMAGE, tmp_path / "a.n5", "p", factors=(1, 2, 2))
    with pytest.raises(ValueError, match=r"it would not be coarser$"):
        pyramid(IMAGE, tmp_path / "a.n5", "p", factors=[(1, 1, 1)])
    pyramid(IMAGE, tmp_path / "a.n5", "p", factors=[(1, 2, 2)])
    assert open_array(tmp_path / "a.n5", "p/s1").shape == (8, 4, 4)


def frame(minute: int) -> xr.Dataset:
    """One plane of a time lapse."""
    time = np.datetime64("2026-01-01T00:00", "ns") + np.timedelta64(minute, "m")
    return xr.Dataset({"f": (("time", "x"), np.full((1, 3), minute))}, {"time": [time]})


def test_what_is_not_there_is_not_appended_to(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFoundError, match="leave append_dim out of the first write"):
        frame(0).n5.to_n5(tmp_path / "a.n5", append_dim="time")
    assert not (tmp_path / "a.n5").exists()


def test_the_cure_of_times_that_do_not_fit_is_told_and_works(tmp_path: Path) -> None:
    frame(0).n5.to_n5(tmp_path / "a.n5")
    cure = {"time": {"units": "minutes since 2026-01-01"}}
    with pytest.raises(ValueError, match="the first write chooses it") as caught:
        frame(1).n5.to_n5(tmp_path / "a.n5", append_dim="time")
    assert f"encoding={cure}" in str(caught.value).replace(" 00:00:00", "")
    frame(0).n5.to_n5(tmp_path / "b.n5", encoding=cure)
    for minute in (1, 2):
        frame(minute).n5.to_n5(tmp_path / "b.n5", append_dim="time")
    again = xr.open_dataset(tmp_path / "b.n5", engine="n5")
    assert again.identical(xr.concat([frame(minute) for minute in range(3)], "time"))
