"""Type checkers know what public functions accept and return; ``ci/lint`` runs mypy on this file.

Its ignored errors are errors: an ignore that is not needed fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from xarray_n5.writing.deferred import DeferredWrite
from xarray_n5.writing.report import WriteReport

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.viewing.api import View

VALUES = np.arange(24, dtype="u1").reshape(4, 6)
IMAGE = xr.DataArray(VALUES, dims=("y", "x"), coords={"x": np.arange(6) * 0.5}, name="raw")


def test_to_n5_returns_a_report_or_a_deferred_write(tmp_path: Path) -> None:
    url = tmp_path / "a.n5"
    blocks = da.from_array(VALUES).rechunk(2)
    report = xarray_n5.to_n5(blocks, url, "a", mode="w", chunks=(2, 2), compression="zstd")
    assert_type(report, WriteReport)
    assert dict(report.to_datatree().sizes) == {"dim_0": 2, "dim_1": 3}
    later = xarray_n5.to_n5(IMAGE, url, "b", compute=False, format="n5")
    assert_type(later, DeferredWrite)
    later.run()


def test_open_functions_return_what_they_are_called_for(tmp_path: Path) -> None:
    url = tmp_path / "a.n5"
    group = xarray_n5.create_group(url, "g", mode="a", attributes={"a": 1})
    assert_type(group, xarray_n5.Group)
    array = xarray_n5.create_array(url, "g/a", shape=(4, 6), dtype="uint8", chunks=(2, 3))
    assert_type(array, xarray_n5.Array)
    assert_type(group.arrays(), dict[str, xarray_n5.Array])
    array = xarray_n5.open_array(url, "g/a", mode="r+", missing="fill")
    assert_type(array, xarray_n5.Array)
    assert_type(array.shape, tuple[int, ...])
    assert_type(array.chunks, tuple[int, ...])
    assert_type(array.axes, tuple[xarray_n5.Axis, ...])
    assert_type(array.geometry(), xarray_n5.Geometry)
    array[0] = 1
    assert_type(xarray_n5.open_group(url, "g", mode="r").arrays(), dict[str, xarray_n5.Array])
    blocks = xarray_n5.from_n5(url, "g/a", chunks="auto")
    assert_type(blocks, da.Array)
    assert blocks.compute().sum() == 6


def test_functions_of_containers_return_their_reports(tmp_path: Path) -> None:
    url, other = tmp_path / "a.n5", tmp_path / "b.zarr"
    levels = xarray_n5.pyramid(IMAGE, url, "em", factors=2, levels=1, method="mean", chunks=2)
    assert_type(levels, WriteReport)
    copied = xarray_n5.copy(url, other, mode="w-", format="zarr3", shards=4)
    assert_type(copied, WriteReport)
    assert_type(xarray_n5.digest(other), str)
    assert xarray_n5.digest(other) == xarray_n5.digest(url)
    assert_type(xarray_n5.chunk_map(url, "em/s0"), xr.DataArray)
    assert_type(xarray_n5.repair(url, "em/s0"), xr.Dataset)
    checked = xarray_n5.verify(url, "em/s0")
    assert_type(checked, xr.Dataset | Any)
    assert set(checked.state.values.ravel()) == {"ok"}
    assert_type(xarray_n5.doctor.examine(url), xr.Dataset | xr.DataTree)
    assert_type(xarray_n5.tutorial.names(), list[str])
    assert_type(xarray_n5.tutorial.open_dataset("cells", chunks={}), xr.Dataset)
    with xarray_n5.ProgressBar() as bar:
        assert_type(bar.written, int)


def test_functions_of_arrays_return_arrays() -> None:
    assert_type(xarray_n5.map_overlap(np.negative, IMAGE, depth=1), xr.DataArray)
    assert_type(xarray_n5.world_grid(IMAGE.isel(y=0), spacing=0.5), xr.Dataset)
    axis = xarray_n5.Axis(name="x", unit="nm", scale=4.0)
    assert_type(axis.position(10), float)
    assert_type(xarray_n5.Geometry((axis,)).ndim, int)


def test_hangar_functions_return_records(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    records = xarray_n5.hangar.to_hangar(VALUES, tmp_path / "files")
    assert_type(records, list[str])
    assert_type(xarray_n5.hangar.from_hangar(tmp_path / "files"), da.Array)


def is_refused(blocks: da.Array, url: str) -> None:
    """Calls that no type checker accepts; they are never made."""
    xarray_n5.to_n5(blocks, url, mode="x")  # type: ignore[call-overload]
    xarray_n5.to_n5(blocks, url, format="zarr")  # type: ignore[call-overload]
    xarray_n5.to_n5(blocks, url, chunk=2)  # type: ignore[call-overload]
    xarray_n5.to_n5(blocks, url, edge_chunks="cut")  # type: ignore[call-overload]
    xarray_n5.copy(url, url, mode="r+")  # type: ignore[arg-type]
    xarray_n5.copy(url, url, format="tiff")  # type: ignore[arg-type]
    xarray_n5.pyramid(blocks, url, method="middle")  # type: ignore[arg-type]
    xarray_n5.pyramid(blocks, url, mode="a")  # type: ignore[arg-type]
    xarray_n5.open_array(url, mode="w")  # type: ignore[arg-type]
    xarray_n5.open_array(url, missing="K")  # type: ignore[arg-type]
    xarray_n5.open_group(url, mode="a")  # type: ignore[arg-type]
    xarray_n5.open_group(url, format="n6")  # type: ignore[arg-type]
    xarray_n5.create_array(url, shape=(4,), dtype="u1", mode="x")  # type: ignore[arg-type]
    xarray_n5.create_array(url, shape=4, dtype="u1")  # type: ignore[arg-type]
    xarray_n5.create_group(url, mode="x")  # type: ignore[arg-type]
    xarray_n5.from_n5(url, missing="zero")  # type: ignore[arg-type]
    xarray_n5.from_n5(url, label_multisets="first")  # type: ignore[arg-type]
    xarray_n5.verify(url, depth=1)  # type: ignore[call-arg]
    xarray_n5.digest(url, storage_options=1)  # type: ignore[arg-type]


def is_shown(image: xr.DataArray) -> View:
    """A call that needs Neuroglancer."""
    return xarray_n5.view(image)
