"""OME-NGFF 0.5, which is written in Zarr v3: for pyramids, Datasets and copies."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from xarray_n5 import open_array, open_group

if TYPE_CHECKING:
    from pathlib import Path

zarr = pytest.importorskip("zarr")
models: Any = pytest.importorskip("ome_zarr_models.v05")

VALUES = np.arange(2 * 16 * 32, dtype="u2").reshape(2, 16, 32)


def image(**coords: Any) -> xr.DataArray:
    """A volume in micrometres."""
    units = {"units": "um"}
    places = {
        "z": ("z", np.arange(2) * 4.0, units),
        "y": ("y", np.arange(16) * 2.0 + 3, units),
        "x": ("x", np.arange(32) * 2.0, units),
    }
    blocks = da.from_array(VALUES, chunks=8)
    return xr.DataArray(blocks, places | coords, ("z", "y", "x"), "raw")


def validated(place: Path, path: str = "") -> Any:
    """The image of a group, as ome-zarr-models validates it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(str(place), path=path, mode="r")
        return models.Image.from_zarr(group).attributes.ome


def check_pyramid(place: Path, path: str) -> None:
    """Three levels, valid, and where they belong."""
    ome = validated(place, path)
    (found,) = ome.multiscales
    assert ome.version == "0.5"
    assert [each.path for each in found.datasets] == ["s0", "s1", "s2"]
    assert "multiscales" not in open_group(place, path).attrs
    level = xr.open_dataset(place, engine="n5", group=path, level=1)
    assert level["x"].to_numpy()[:2].tolist() == [1, 5]
    assert level["x"].attrs["units"] == "um"
    assert "ome" not in level.attrs


def test_pyramids_in_zarr_3_are_valid_images(tmp_path: Path) -> None:
    options: dict[str, Any] = {"chunks": (1, 4, 4), "shards": (2, 8, 8), "levels": 2}
    xarray_n5.pyramid(image(), tmp_path / "p.zarr", "em", format="zarr3", **options)
    check_pyramid(tmp_path / "p.zarr", "em")
    tree = xr.open_datatree(tmp_path / "p.zarr", engine="n5")
    tree.n5.to_n5(tmp_path / "q.zarr", format="zarr3")
    check_pyramid(tmp_path / "q.zarr", "em")
    xr.testing.assert_identical(
        xr.open_datatree(tmp_path / "q.zarr", engine="n5")["em/s1"].to_dataset(),
        tree["em/s1"].to_dataset(),
    )


@pytest.mark.parametrize(
    ("source", "form"), [("p.n5", "n5"), ("p.zarr", "zarr2"), ("p.h5", "hdf5")]
)
def test_copies_of_pyramids_are_valid_images(tmp_path: Path, source: str, form: str) -> None:
    xarray_n5.pyramid(image(), tmp_path / source, "em", format=form, levels=2, chunks=(1, 4, 4))
    before = dict(open_group(tmp_path / source, "em").attrs)
    xarray_n5.copy(tmp_path / source, tmp_path / "q.zarr", format="zarr3", shards=(2, 8, 8))
    check_pyramid(tmp_path / "q.zarr", "em")
    assert open_array(tmp_path / "q.zarr", "em/s0").shards == (2, 8, 8)
    back = tmp_path / f"back-{source}"
    xarray_n5.copy(tmp_path / "q.zarr", back, format=form)
    assert dict(open_group(back, "em").attrs) == before
    np.testing.assert_array_equal(open_array(back, "em/s0")[...], VALUES)


def test_variables_of_datasets_are_valid_images(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    dataset = image().to_dataset().assign(other=image() * 2)
    dataset.n5.to_n5(place, format="zarr3")
    assert sorted(each.name for each in validated(place).multiscales) == ["other", "raw"]
    assert xr.open_dataset(place, engine="n5").attrs == {}
    xr.testing.assert_identical(xr.open_dataset(place, engine="n5").load(), dataset.compute())
    del open_group(place, mode="r+")["other"]
    assert [each.name for each in validated(place).multiscales] == ["raw"]
    del open_group(place, mode="r+")["raw"]
    assert "ome" not in open_group(place).attrs


def test_images_go_where_coordinates_contradict_them(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    image().to_dataset().n5.to_n5(place, format="zarr3")
    more = image(x=("x", np.arange(32) ** 2 + 100.0, {"units": "um"})).to_dataset()
    more.n5.to_n5(place, append_dim="x")
    assert "ome" not in open_group(place).attrs


def test_other_members_of_ome_are_kept(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    image().to_dataset().n5.to_n5(place, format="zarr3")
    group = open_group(place, mode="r+")
    group.attrs["ome"] = {**group.attrs["ome"], "labels": ["cells"]}
    del group["raw"]
    assert open_group(place).attrs["ome"] == {"version": "0.5", "labels": ["cells"]}
