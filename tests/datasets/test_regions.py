"""Regions: which chunks they may cut, and how ``region="auto"`` finds them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.containers import contents
from xarray_n5 import ResumeError, open_array, set_options, to_n5, verify
from xarray_n5.errors import AlignmentError

if TYPE_CHECKING:
    from pathlib import Path

LENGTH, CHUNK = 22, 8


def stored(place: Path) -> Path:
    """An array of 22 elements in chunks of 8, and a Dataset of the same."""
    to_n5(np.zeros(LENGTH, "i4"), place / "a.n5", "a", chunks=CHUNK)
    values = xr.Dataset({"v": ("x", np.zeros(LENGTH, "i4"))}, {"x": np.arange(LENGTH) * 2.0})
    values.n5.to_n5(place / "b.n5", encoding={"v": {"chunks": CHUNK}})
    return place


def write(place: Path, region: slice, kind: str, **more: Any) -> np.ndarray:
    """Write ones into a region of either; return what is stored then."""
    count = len(range(*region.indices(LENGTH)))
    ones = da.ones(count, chunks=3, dtype="i4")
    if kind == "array":
        to_n5(ones, place / "a.n5", "a", region=region, **more)
        return np.asarray(open_array(place / "a.n5", "a")[...])
    part = xr.Dataset({"v": ("x", ones)}, {"x": np.arange(LENGTH)[region] * 2.0})
    part.n5.to_n5(place / "b.n5", region={"x": region}, **more)
    return np.asarray(open_array(place / "b.n5", "v")[...])


@pytest.mark.parametrize("kind", ["array", "dataset"])
@pytest.mark.parametrize(
    "region", [slice(0, 8), slice(8, 16), slice(8, 22), slice(16, None), slice(None), slice(-6, 22)]
)
def test_regions_between_chunks_are_written(tmp_path: Path, kind: str, region: slice) -> None:
    expected = np.zeros(LENGTH, "i4")
    expected[region] = 1
    np.testing.assert_array_equal(write(stored(tmp_path), region, kind), expected)


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize(("unit", "fits"), [("\N{MICRO SIGN}m", True), ("nm", False)])
def test_a_region_may_spell_its_units_differently(
    tmp_path: Path, form: str, unit: str, fits: bool
) -> None:
    def values(text: str) -> xr.Dataset:
        places = {"x": ("x", np.arange(8) * 0.5, {"units": text})}
        return xr.Dataset({"v": ("x", np.arange(8), {"units": text})}, places)

    values("micrometer").n5.to_n5(tmp_path / "a", format=form, encoding={"v": {"chunks": 4}})
    part = values(unit).isel(x=slice(4, 8)) * 2 if fits else values(unit).isel(x=slice(4, 8))
    part["v"].attrs["units"] = unit
    if fits:
        part.n5.to_n5(tmp_path / "a", region="auto")
        assert open_array(tmp_path / "a", "v")[...].tolist() == [0, 1, 2, 3, 8, 10, 12, 14]
        return
    with pytest.raises(ValueError, match=r"stored with units|with the unit"):
        part.n5.to_n5(tmp_path / "a", region="auto")


@pytest.mark.parametrize("kind", ["array", "dataset"])
@pytest.mark.parametrize(
    ("region", "nearest"),
    [
        (slice(4, 16), slice(0, 16)),
        (slice(0, 9), slice(0, 16)),
        (slice(17, 22), slice(16, 22)),
        (slice(9, 10), slice(8, 16)),
        (slice(8, 20), slice(8, 22)),
    ],
)
def test_a_region_that_cuts_chunks_is_refused_unless_they_are_merged(
    tmp_path: Path, kind: str, region: slice, nearest: slice
) -> None:
    place = stored(tmp_path)
    before = contents(place)
    with pytest.raises(AlignmentError, match="safe_chunks=False") as caught:
        write(place, region, kind)
    assert (caught.value.axis, caught.value.chunk) == (0, CHUNK)
    assert (caught.value.region, caught.value.nearest) == (region, nearest)
    assert f"write {nearest.start}:{nearest.stop}" in str(caught.value)
    assert contents(place) == before
    expected = np.zeros(LENGTH, "i4")
    expected[region] = 1
    np.testing.assert_array_equal(write(place, region, kind, safe_chunks=False), expected)


def test_the_error_names_the_dimension_and_the_variable(tmp_path: Path) -> None:
    with pytest.raises(AlignmentError, match=r"b\.n5/v: along axis 0 \('x'\), the region 4:16"):
        write(stored(tmp_path), slice(4, 16), "dataset")


def test_other_values_of_safe_chunks_are_refused(tmp_path: Path) -> None:
    for kind in ("array", "dataset"):
        with pytest.raises(ValueError, match="safe_chunks"):
            write(stored(tmp_path / kind), slice(0, 8), kind, safe_chunks="maybe")


def test_coordinates_that_stay_the_same_are_not_written_again(tmp_path: Path) -> None:
    uneven = np.array([0.0, 1.0, 5.0, 6.0])
    whole = xr.Dataset({"v": ("x", da.zeros(4, chunks=2))}, {"x": uneven})
    whole.n5.to_n5(tmp_path)
    assert open_array(tmp_path, "x").chunks == (4,)
    part = xr.Dataset({"v": ("x", [1.0, 2.0])}, {"x": uneven[2:]})
    part.n5.to_n5(tmp_path, region={"x": slice(2, 4)})
    assert open_array(tmp_path, "v")[...].tolist() == [0, 0, 1, 2]
    part.n5.to_n5(tmp_path, region="auto")
    moved = part.assign_coords(x=[7.0, 8.0])
    with pytest.raises(AlignmentError, match=r"/x: along axis 0"):
        moved.n5.to_n5(tmp_path, region={"x": slice(2, 4)})
    moved.n5.to_n5(tmp_path, region={"x": slice(2, 4)}, safe_chunks=False)
    assert open_array(tmp_path, "x")[...].tolist() == [0, 1, 7, 8]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"v": ("x", [1, 2])}, "'x' has no coordinate in the Dataset to be written"),
        ({"v": ("x", [1, 2]), "x": [1.0, 3.0]}, r"1\.0 .* is not among the 22 stored coordinates"),
        ({"v": ("x", [1, 2]), "x": [4.0, 8.0]}, "are not adjacent"),
        ({"v": ("x", [1, 2]), "x": [6.0, 4.0]}, "are not adjacent"),
        ({"v": ("y", [1, 2]), "y": [0.0, 1.0]}, "'y' is not a dimension of both"),
        ({"v": ((), 1)}, "has no dimensions"),
    ],
)
def test_auto_regions_say_why_they_cannot_be_found(
    tmp_path: Path, part: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        xr.Dataset(part).n5.to_n5(stored(tmp_path) / "b.n5", region="auto")


@pytest.mark.matrix(2)
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("name", ["a.n5", "a.zarr"])
def test_regions_that_are_written_at_once_do_not_get_in_each_others_way(
    tmp_path: Path, name: str, *, checksums: bool
) -> None:
    values = np.arange(1, 385, dtype="i4").reshape(64, 6)
    place = tmp_path / name
    with set_options(checksums=checksums):
        to_n5(da.zeros((64, 6), chunks=(1, 6), dtype="i4"), place, "v")

    def write(row: int) -> None:
        region = (slice(row, row + 1), slice(0, 6))
        with dask.config.set(scheduler="synchronous"):
            to_n5(values[row : row + 1], place, "v", region=region)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(64)))
    np.testing.assert_array_equal(open_array(place, "v")[...], values)
    assert not verify(place, "v").attrs["unfinished"]
    assert not [*place.rglob(".xn5/open*"), *place.rglob("*.partial")]


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_region_leaves_an_unfinished_append_alone(tmp_path: Path, form: Any) -> None:
    def fail(block: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError(block)

    values = da.arange(9, chunks=3)
    frames = xr.Dataset({"v": ("t", values)})
    frames.n5.to_n5(tmp_path, format=form)
    failing: Any = values.map_blocks(fail, dtype=values.dtype, meta=np.empty(0, values.dtype))
    with pytest.raises(ZeroDivisionError):
        xr.Dataset({"v": ("t", failing)}).n5.to_n5(tmp_path, append_dim="t")
    with pytest.raises(ResumeError):
        frames.n5.to_n5(tmp_path, region={"t": slice(0, 9)})
    frames.isel(t=slice(0, 3)).n5.to_n5(tmp_path, region={"t": slice(0, 3)})
    with pytest.raises(ResumeError):
        frames.n5.to_n5(tmp_path, append_dim="t")
