"""Errors of wrong arguments say what to pass instead."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from xarray_n5 import NodeNotFoundError, create_array, open_array, open_group, pyramid, to_n5, view
from xarray_n5.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IMAGE = xr.DataArray(np.ones((8, 8, 8)), dims=("z", "y", "x"), name="f")


CALLS: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "an option of the encoding": (
        lambda url: IMAGE.n5.to_n5(url, encoding={"f": {"chunksizes": 4}}),
        *(ValueError, "did you mean 'chunks'"),
    ),
    "the encoding of no variable": (
        lambda url: IMAGE.to_dataset().n5.to_n5(url, encoding={"ff": {}}),
        *(KeyError, "'ff'.* the variables are f"),
    ),
    "an option of an encoding as its variable": (
        lambda url: IMAGE.n5.to_n5(url, encoding={"chunks": (4, 4, 4)}),
        *(ValueError, "castable to a dict: encoding="),
    ),
    "an option of a DataArray": (
        lambda url: IMAGE.n5.to_n5(url, overwrite=True),
        *(TypeError, "overwrite"),
    ),
    "an option of a DataTree": (
        lambda url: xr.DataTree(IMAGE.to_dataset()).n5.to_n5(url, overwrite=True),
        *(TypeError, "overwrite"),
    ),
    "an option of a view": (lambda url: view(url, colour="red"), TypeError, "colour"),
    "data after the location": (
        lambda url: to_n5(str(url), da.ones(3)),
        *(TypeError, "got Array; the data comes before the location"),
    ),
    "a number as location": (lambda _: open_array(1.5), TypeError, "got float"),
    "an append to nothing": (
        lambda url: frame(0).n5.to_n5(url, append_dim="time"),
        *(NodeNotFoundError, "omit append_dim in the first write"),
    ),
    "a location as image": (
        lambda url: pyramid(str(url), "raw"),
        *(TypeError, r"got str; .*open_array\(url, path\)"),
    ),
    "a Dataset as image": (
        lambda url: pyramid(IMAGE.to_dataset(), url),
        *(TypeError, "got Dataset; choose one of its variables: f$"),
    ),
    "factors by axis": (
        lambda url: pyramid(IMAGE, url, "p", factors=(1, 2, 2)),
        *(ValueError, r"for a factor per axis, pass \[\(1, 2, 2\)\]"),
    ),
}
"""Calls that create nothing, their errors, and what these say."""


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls_create_nothing_and_are_answered_with_what_to_pass(
    tmp_path: Path, name: str
) -> None:
    call, error, expected = CALLS[name]
    with pytest.raises(error, match=expected):
        call(tmp_path / "a.n5")
    assert not (tmp_path / "a.n5").exists()


@pytest.mark.parametrize("open_it", [xr.open_dataset, xr.open_datatree])
def test_unknown_options_of_the_engine_are_refused_by_name(tmp_path: Path, open_it: Any) -> None:
    IMAGE.n5.to_n5(tmp_path / "a.n5")
    with pytest.raises(TypeError, match="no parameter 'colour'"):
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


def frame(minute: int) -> xr.Dataset:
    """One plane of a time lapse."""
    time = np.datetime64("2026-01-01T00:00", "ns") + np.timedelta64(minute, "m")
    return xr.Dataset({"f": (("time", "x"), np.full((1, 3), minute))}, {"time": [time]})


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


def test_a_misspelt_container_is_answered_with_the_one_beside_it(tmp_path: Path) -> None:
    create_array(tmp_path / "cells.n5", "raw", shape=(4,), dtype="u1")
    with pytest.raises(NodeNotFoundError, match=r"not exist; did you mean 'cells.n5'\?"):
        xr.open_dataset(tmp_path / "cels.n5", engine="n5")


def test_levels_in_groups_of_their_own_are_named(tmp_path: Path) -> None:
    for name in ("scale0/image", "scale1/image"):
        create_array(tmp_path / "a.n5", name, shape=(4, 4), dtype="u1")
    datasets = [{"path": "scale0/image"}, {"path": "scale1/image"}]
    axes = [{"name": name, "type": "space"} for name in "yx"]
    multiscales = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    open_group(tmp_path / "a.n5", mode="r+").attrs["multiscales"] = multiscales
    with pytest.raises(ValueError, match="the levels scale0/image, scale1/image; open one"):
        xr.open_dataset(tmp_path / "a.n5", engine="n5")


def test_a_misspelt_unit_of_a_pyramid_is_answered_once_with_the_one_meant(tmp_path: Path) -> None:
    position = xr.Variable("x", np.arange(8.0), {"units": "micormeter"})
    with pytest.warns(UserWarning, match="did you mean 'micrometer'") as caught:
        pyramid(IMAGE.assign_coords(x=position), tmp_path / "a.n5", "em", factors=2, levels=1)
    assert len([each for each in caught if "did you mean" in str(each.message)]) == 1
