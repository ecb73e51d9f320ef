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
    shape = tuple(range(2, 2 + len(dims)))
    assert function(tmp_path / "c", dims, form, {"chunks": shape}) == shape


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dims", [("t",), ("t", "c"), ("t", "x"), ("z", "y", "x"), ("a", "b", "t")])
def test_arrays_that_are_not_images_have_cubes(tmp_path: Path, form: Any, dims: Any) -> None:
    dataset = xr.Dataset({"v": (dims, np.zeros((20, 21, 22)[: len(dims)]))})
    dataset.n5.to_n5(tmp_path / "a", format=form, encoding={"v": {"chunks": 4}})
    assert xarray_n5.open_array(tmp_path / "a", "v").chunks == (4,) * len(dims)


FRAMES = [
    Axis(name="frame", unit="s", scale=0.5),
    Axis(name="dye", kind="channel"),
    Axis(name="depth", unit="um", scale=2.0),
    Axis(name="row", kind="space"),
]

TCYX = {"axes": ("t", "c", "y", "x")}

CREATED: dict[str, tuple[tuple[int, ...], dict[str, Any], Any, Any]] = {
    "no axes": ((12, 13, 14, 15), {"chunks": 5}, (5,) * 4, None),
    "kinds and units": ((7, 6, 50, 60), {"axes": FRAMES, "chunks": 20}, (1, 1, 20, 20), None),
    "all elements for space": ((50, 4, 3000, 3000), TCYX, (1, 1, 1024, 1024), None),
    "a ratio": (
        (50, 4, 3000, 3000),
        {**TCYX, "chunk_aspect_ratio": (1, 1, 2, 2)},
        (40, 4, 80, 80),
        None,
    ),
    "shards of one number": (
        (3, 2, 40, 50),
        {**TCYX, "chunks": 8, "shards": 16},
        (1, 1, 8, 8),
        (1, 1, 16, 16),
    ),
    "a shape of shards": (
        (3, 2, 40, 50),
        {**TCYX, "chunks": 8, "shards": (1, 1, 16, 16)},
        (1, 1, 8, 8),
        (1, 1, 16, 16),
    ),
    "a shape of chunks and shards of one number": (
        (3, 2, 40, 50),
        {**TCYX, "chunks": (3, 1, 8, 8), "shards": 16},
        (3, 1, 8, 8),
        (3, 1, 16, 16),
    ),
}
"""The shape of an array, its options, and the shapes of chunks and shards."""


@pytest.mark.parametrize("name", CREATED)
def test_chunks_of_created_arrays(tmp_path: Path, name: str) -> None:
    shape, options, chunks, shards = CREATED[name]
    array = create(tmp_path / "a.zarr", "a", shape=shape, format="zarr3", **options)
    assert (array.chunks, array.shards) == (chunks, shards)


def test_pyramids_without_axes_have_cubes(tmp_path: Path) -> None:
    xarray_n5.pyramid(np.zeros((12, 13, 14, 15), "u1"), tmp_path, "p", levels=0, chunks=5)
    assert xarray_n5.open_array(tmp_path, "p/s0").chunks == (5,) * 4
