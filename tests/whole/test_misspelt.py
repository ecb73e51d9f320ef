"""What is misspelt, or asked for in the wrong place, is answered with what is meant."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.reference import public_functions
from xarray_n5 import (
    MissingPackageError,
    NodeNotFoundError,
    ProgressBar,
    copy,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    pyramid,
    to_n5,
    verify,
    view,
)

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = xr.DataArray(np.ones((8, 8, 8)), dims=("z", "y", "x"), name="f")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"chunks": 4}, r"encoding=\{.*\{'chunks': \.\.\.\}\}"),
        ({"compression": "zstd"}, r"encoding=\{.*\{'compression': \.\.\.\}\}"),
        ({"compressor": None}, r"encoding=\{.*\{'compression': \.\.\.\}\}"),
        ({"shards": 8}, r"encoding=\{.*\{'shards': \.\.\.\}\}"),
        ({"overwrite": True}, "mode='w'"),
        ({"component": "a"}, "did you mean 'group'"),
        ({"chunksizes": (4, 4)}, r"'chunks': \.\.\."),
        ({"append_dims": "z"}, "did you mean 'append_dim'"),
        ({"colour": 1}, "its parameters are url, group, mode"),
    ],
)
def test_unknown_options_of_to_n5_are_refused_with_a_suggestion(
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
        ({"f": {"xyz": 1}}, "expected one of .*chunks, .*compression"),
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
def test_unknown_options_of_the_engine_are_refused_with_a_suggestion(
    tmp_path: Path, open_it: Any
) -> None:
    IMAGE.n5.to_n5(tmp_path / "a.n5")
    with pytest.raises(
        TypeError, match=r"no parameter 'attributeorder'; did you mean 'attribute_order'\?"
    ):
        open_it(tmp_path / "a.n5", engine="n5", attributeorder="C")
    with pytest.raises(TypeError, match=r"its parameters are mask_and_scale, .*group"):
        open_it(tmp_path / "a.n5", engine="n5", colour="red")


def passes_on(function: Any) -> bool:
    """Whether a function accepts any keyword, for another one to check."""
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


FUNCTIONS = {
    name: function
    for name, function in public_functions().items()
    if name == "xarray_n5.view" or not passes_on(function)
    if name.split(".")[1] not in {"Axis", "Geometry"}
}
"""Public functions that do not pass any keywords on; values leave it to Python."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_refuses_unknown_keywords_with_its_parameters(name: str) -> None:
    short = re.escape(name.rpartition(".")[2])
    hint = "did you mean|its parameters are|it accepts no keywords"
    with pytest.raises(TypeError, match=rf"^{short}\(\) has no parameter 'zzz'; ({hint})"):
        FUNCTIONS[name](zzz=1)


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (create_array, {"compressor": "gzip"}, "did you mean 'compression'?"),
        (create_array, {"chunk": 64}, "did you mean 'chunks'?"),
        (create_array, {"block_size": 64}, "did you mean 'chunks'?"),
        (create_array, {"overwrite": True}, "mode='w' replaces"),
        (create_array, {"fill_value": 1}, "layout={'fill_value': ...}"),
        (create_array, {"zarr_format": 2}, "format='zarr2'"),
        (create_group, {"attrs": {}}, "did you mean 'attributes'?"),
        (from_n5, {"chunksize": 64}, "did you mean 'chunks'?"),
        (from_n5, {"path": "a"}, "did you mean 'component'?"),
        (to_n5, {"compressor": None}, "did you mean 'compression'?"),
        (to_n5, {"overwrite": True}, "mode='w' replaces"),
        (copy, {"shape_of_chunks": 1}, "its parameters are source, destination"),
        (open_array, {"read_only": False}, "mode='r+' opens for writing"),
        (open_array, {"fs_kwargs": {}}, "did you mean 'storage_options'?"),
        (pyramid, {"scale_factors": [2]}, "did you mean 'factors'?"),
        (verify, {"storageoptions": {}}, "did you mean 'storage_options'?"),
        (view, {"labels_": True}, "did you mean 'labels'?"),
        (ProgressBar, {"dt": 1}, "its parameters are"),
    ],
)
def test_misspelt_keywords_are_answered_with_those_meant(
    function: Any, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(expected)):
        function(**options)


def test_methods_suggest_keywords_too(tmp_path: Path) -> None:
    group = create_group(tmp_path / "a.n5")
    with pytest.raises(TypeError, match=r"arrays\(\) has no parameter 'with'"):
        group.arrays(**{"with": ["a"]})  # type: ignore[arg-type]


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
    with pytest.raises(TypeError, match="got Array; the data comes before the location"):
        to_n5(str(tmp_path / "a.n5"), da.ones(3))
    with pytest.raises(TypeError, match="got float") as caught:
        open_array(1.5)
    assert "before the location" not in str(caught.value)


def test_a_pyramid_of_what_holds_no_numbers_says_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"got str; .*open_array\(url, path\)"):
        pyramid("cells.n5", "raw")
    with pytest.raises(TypeError, match=r"got Dataset; choose one of its variables: f$"):
        pyramid(IMAGE.to_dataset(), "a.n5")


def test_factors_by_axis_are_told_from_those_by_level(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"for a factor per axis, pass \[\(1, 2, 2\)\]"):
        pyramid(IMAGE, tmp_path / "a.n5", "p", factors=(1, 2, 2))
    with pytest.raises(ValueError, match=r"the level would not be coarser$"):
        pyramid(IMAGE, tmp_path / "a.n5", "p", factors=[(1, 1, 1)])
    pyramid(IMAGE, tmp_path / "a.n5", "p", factors=[(1, 2, 2)])
    assert open_array(tmp_path / "a.n5", "p/s1").shape == (8, 4, 4)


def frame(minute: int) -> xr.Dataset:
    """One plane of a time lapse."""
    time = np.datetime64("2026-01-01T00:00", "ns") + np.timedelta64(minute, "m")
    return xr.Dataset({"f": (("time", "x"), np.full((1, 3), minute))}, {"time": [time]})


def test_what_is_not_there_is_not_appended_to(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFoundError, match="omit append_dim in the first write"):
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


def test_xarrays_own_parameters_are_suggested_too(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "raw", shape=(4,), dtype="u1")
    with pytest.raises(TypeError, match=r"no parameter 'chnks'; did you mean 'chunks'\?"):
        xr.open_dataset(tmp_path / "a.n5", engine="n5", chnks={})


def test_a_misspelt_container_is_answered_with_the_one_beside_it(tmp_path: Path) -> None:
    create_array(tmp_path / "cells.n5", "raw", shape=(4,), dtype="u1")
    with pytest.raises(NodeNotFoundError, match=r"not exist; did you mean 'cells.n5'\?"):
        xr.open_dataset(tmp_path / "cels.n5", engine="n5")


def test_an_encoding_of_no_variable_is_answered_with_the_variables(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="names 'ff', which is not a variable; the variables are f"):
        IMAGE.to_dataset().n5.to_n5(tmp_path / "a.n5", encoding={"ff": {}})


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
