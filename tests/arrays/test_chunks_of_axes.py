"""Chunks of one number, or by default, along the axes of space, of time and of channels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xarray_n5
from xarray_n5 import Axis

if TYPE_CHECKING:
    from pathlib import Path

FORMATS: list[Any] = ["n5", "zarr2", "zarr3"]

create = partial(xarray_n5.create_array, dtype="u1")

SIZES = {"t": 5, "time": 6, "c": 3, "channel": 4, "setup": 2, "z": 9, "y": 70, "x": 40}


def data_of(dims: tuple[str, ...]) -> np.ndarray:
    return np.zeros([SIZES[dim] for dim in dims], "u1")


def with_axes(place: Path, dims: tuple[str, ...], form: Any, chunks: Any) -> tuple[int, ...]:
    array = xarray_n5.create_array(
        place, "a", shape=data_of(dims).shape, dtype="u1", axes=dims, format=form, **chunks
    )
    return array.chunks


def with_dask(place: Path, dims: tuple[str, ...], form: Any, chunks: Any) -> tuple[int, ...]:
    xarray_n5.to_n5(data_of(dims), place, "a", axes=iter(dims), format=form, **chunks)
    return xarray_n5.open_array(place, "a").chunks


def with_dataset(place: Path, dims: tuple[str, ...], form: Any, chunks: Any) -> tuple[int, ...]:
    dataset = xr.Dataset({"a": (dims, data_of(dims))})
    dataset.n5.to_n5(place, format=form, encoding={"a": chunks})
    return xarray_n5.open_array(place, "a").chunks


def with_pyramid(place: Path, dims: tuple[str, ...], form: Any, chunks: Any) -> tuple[int, ...]:
    image = xr.DataArray(data_of(dims), dims=dims, name="a")
    xarray_n5.pyramid(image, place, "p", levels=1, format=form, **chunks)
    sides = {xarray_n5.open_array(place, f"p/s{number}").chunks for number in (0, 1)}
    (same,) = sides
    return same


def with_copy(place: Path, dims: tuple[str, ...], form: Any, chunks: Any) -> tuple[int, ...]:
    ones = data_of(dims).shape
    source = f"{place}-source"
    xarray_n5.create_array(source, "a", shape=ones, dtype="u1", axes=dims, chunks=ones, format="n5")
    chunks = chunks or {"chunks": "auto"}
    xarray_n5.copy(source, place, format=form, **chunks)
    return xarray_n5.open_array(place, "a").chunks


FUNCTIONS = [with_axes, with_dask, with_dataset, with_pyramid, with_copy]

IMAGES: list[tuple[tuple[str, ...], int]] = [
    (("t", "c", "z", "y", "x"), 2),
    (("t", "y", "x"), 1),
    (("channel", "z", "y", "x"), 1),
    (("time", "y", "x"), 1),
    (("setup", "t", "y", "x"), 2),
]


@pytest.mark.filterwarnings("ignore:.*viewers find no image")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("dims", "count"), IMAGES)
def test_one_number_and_the_default_are_for_axes_of_space(
    tmp_path: Path, form: Any, function: Any, dims: tuple[str, ...], count: int
) -> None:
    sides = function(tmp_path / "a", dims, form, {"chunks": 8})
    assert sides == (1,) * count + (8,) * (len(dims) - count)
    sides = function(tmp_path / "b", dims, form, {})
    assert sides == (1,) * count + tuple(SIZES[dim] for dim in dims[count:])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_shape_of_chunks_is_used_as_it_is(tmp_path: Path, form: Any, function: Any) -> None:
    sides = function(tmp_path / "a", ("t", "c", "y", "x"), form, {"chunks": (2, 3, 8, 16)})
    assert sides == (2, 3, 8, 16)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dims", [("t",), ("t", "c"), ("t", "x"), ("z", "y", "x"), ("a", "b", "t")])
def test_arrays_that_are_not_images_have_cubes(tmp_path: Path, form: Any, dims: Any) -> None:
    dataset = xr.Dataset({"v": (dims, np.zeros((20, 21, 22)[: len(dims)]))})
    dataset.n5.to_n5(tmp_path / "a", format=form, encoding={"v": {"chunks": 4}})
    assert xarray_n5.open_array(tmp_path / "a", "v").chunks == (4,) * len(dims)


def test_arrays_without_axes_have_cubes(tmp_path: Path) -> None:
    shape = (12, 13, 14, 15)
    assert create(tmp_path / "a.n5", "a", shape=shape, chunks=5).chunks == (5,) * 4
    xarray_n5.pyramid(np.zeros(shape, "u1"), tmp_path / "b.n5", "p", levels=0, chunks=5)
    assert xarray_n5.open_array(tmp_path / "b.n5", "p/s0").chunks == (5,) * 4


def test_kinds_and_units_show_what_axes_are(tmp_path: Path) -> None:
    axes = [
        Axis(name="frame", unit="s", scale=0.5),
        Axis(name="dye", kind="channel"),
        Axis(name="depth", unit="um", scale=2.0),
        Axis(name="row", kind="space"),
    ]
    shape = (7, 6, 50, 60)
    array = create(tmp_path / "a.n5", "a", shape=shape, chunks=20, axes=axes)
    assert array.chunks == (1, 1, 20, 20)


def test_the_default_uses_all_elements_for_space(tmp_path: Path) -> None:
    array = create(tmp_path / "a.n5", "a", shape=(50, 4, 3000, 3000), axes=("t", "c", "y", "x"))
    assert array.chunks == (1, 1, 1024, 1024)
    ratio = (1, 1, 2, 2)
    array = create(
        tmp_path / "a.n5",
        "b",
        shape=(50, 4, 3000, 3000),
        axes=("t", "c", "y", "x"),
        chunk_aspect_ratio=ratio,
    )
    assert array.chunks[0] > 1


@pytest.mark.parametrize("shards", [16, (1, 1, 16, 16)])
def test_shards_of_one_number_are_for_axes_of_space(tmp_path: Path, shards: Any) -> None:
    array = create(
        tmp_path / "a.zarr",
        "a",
        shape=(3, 2, 40, 50),
        axes=("t", "c", "y", "x"),
        chunks=8,
        shards=shards,
        format="zarr3",
    )
    assert (array.chunks, array.shards) == ((1, 1, 8, 8), (1, 1, 16, 16))
    array = create(
        tmp_path / "a.zarr",
        "b",
        shape=(3, 2, 40, 50),
        axes=("t", "c", "y", "x"),
        chunks=(3, 1, 8, 8),
        shards=16,
        format="zarr3",
    )
    assert (array.chunks, array.shards) == ((3, 1, 8, 8), (3, 1, 16, 16))
