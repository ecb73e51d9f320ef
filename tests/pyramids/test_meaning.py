"""Levels of stored variables: masked, packed, unsigned by an attribute, times and booleans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from xarray_n5 import add_levels, open_array, pyramid

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {"n5": "a.n5", "zarr2": "a.zarr", "zarr3": "b.zarr", "hdf5": "a.h5"}

KINDS: dict[str, dict[str, Any]] = {
    "masked": {"dtype": "i2", "_FillValue": -600},
    "smallest": {"dtype": "u1", "_FillValue": 0},
    "packed": {"dtype": "i4", "_FillValue": 12, "scale_factor": 0.125, "add_offset": 3.0},
    "reversed": {"dtype": "i2", "_FillValue": -1, "scale_factor": -0.5, "add_offset": 1.0},
    "unsigned": {"dtype": "i1", "_FillValue": -1, "_Unsigned": "true"},
    "single": {"dtype": "f4", "_FillValue": np.float32(1e30)},
    "double": {"_FillValue": -2.5},
    "nan": {"_FillValue": np.nan},
    "missing": {"dtype": "i2", "missing_value": np.int16(-9), "_FillValue": np.int16(-9)},
}


def image(kind: str) -> xr.DataArray:
    """Return an image with three missing samples, for the encoding of a kind."""
    values = np.random.default_rng(5).integers(1, 120, (8, 16)) * 2.0
    values[0, 0] = values[1, 1] = values[5, 6] = np.nan
    dtype = "f4" if kind in {"smallest", "masked", "unsigned", "single", "missing"} else "f8"
    units = {"units": "um"}
    coords = {"y": ("y", np.arange(8) * 0.5, units), "x": ("x", np.arange(16) * 0.5, units)}
    return xr.DataArray(values.astype(dtype), coords, ("y", "x"), "s0")


def stored(tmp_path: Path, kind: str, form: Any, group: str = "") -> tuple[Path, xr.DataArray]:
    place, kept = tmp_path / NAMES[form], image(kind)
    encoding = {"s0": {**KINDS[kind], "chunks": (4, 4)}}
    kept.to_dataset().n5.to_n5(place, group=group, format=form, encoding=encoding)
    return place, kept


def levels_in(place: Path, group: str) -> list[xr.DataArray]:
    found: list[xr.DataArray] = []
    for level in (0, 1, 2):
        with xr.open_dataset(place, engine="n5", group=group, level=level) as opened:
            found += opened.load().data_vars.values()
    return found


def windows(values: np.ndarray, method: str) -> np.ndarray:
    """Return a sample for each window of two by two: missing if one is."""
    parts = np.stack([values[y::2, x::2].astype("f8") for y in (0, 1) for x in (0, 1)])
    reductions: dict[str, Any] = {"mean": np.mean, "max": np.max, "min": np.min}
    result: np.ndarray = reductions[method](parts, axis=0) if method != "nearest" else parts[0]
    return result


@pytest.mark.matrix(16)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("method", ["mean", "max", "min", "nearest"])
@pytest.mark.parametrize("way", ["elsewhere", "in-place"])
def test_levels_are_decoded_and_missing_samples_propagate(
    tmp_path: Path, form: Any, kind: str, method: Any, way: str
) -> None:
    if way == "elsewhere":
        source, kept = stored(tmp_path, kind, form)
        place = tmp_path / f"levels-{NAMES[form]}"
        array = open_array(source, "s0")
        pyramid(array, place, "em", levels=2, factors=2, method=method, format=form)
    elif form in {"n5", "hdf5"}:
        place, kept = stored(tmp_path, kind, form, "em")
        add_levels(place, path="em/s0", levels=2, factors=2, method=method)
    else:
        source, kept = stored(tmp_path, kind, "n5")
        place = tmp_path / NAMES[form]
        pyramid(open_array(source, "s0"), place, "em", levels=0, format=form)
        add_levels(place, path="em/s0", levels=2, factors=2, method=method, mode="w")
    found = levels_in(place, "em")
    expected = kept.to_numpy()
    step = abs(KINDS[kind].get("scale_factor", 1))
    for level in found:
        assert level.dtype == found[0].dtype
        near = 0.5001 * step if method == "mean" and kind not in {"nan", "double"} else 1e-9
        np.testing.assert_allclose(level.to_numpy(), expected, rtol=1e-6, atol=near)
        expected = windows(level.to_numpy(), method)
    assert np.isnan(found[1].to_numpy()[0, 0])
    assert not np.isnan(found[1].to_numpy()[0, 1])


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("form", NAMES)
def test_levels_of_booleans_stay_booleans(tmp_path: Path, form: Any, is_stored: bool) -> None:
    inside = image("nan") > 100
    inside.to_dataset().n5.to_n5(tmp_path / "a.n5", encoding={"s0": {"chunks": (4, 4)}})
    place = tmp_path / f"b-{NAMES[form]}"
    source: Any = open_array(tmp_path / "a.n5", "s0") if is_stored else inside
    pyramid(source, place, "em", levels=2, factors=2, format=form)
    found = levels_in(place, "em")
    assert [level.dtype for level in found] == [bool] * 3
    most = sum(inside.to_numpy()[y::2, x::2].astype(int) for y in (0, 1) for x in (0, 1)) > 2
    assert (found[1].to_numpy() == most).all()


@pytest.mark.parametrize("form", NAMES)
def test_levels_of_times_are_times(tmp_path: Path, form: Any) -> None:
    days = np.datetime64("2012-05-01", "ns") + np.arange(24).reshape(4, 6) * np.timedelta64(1, "D")
    days[0, 0] = "NaT"
    when = image("nan")[:4, :6].copy(data=days)
    encoding = {"s0": {"dtype": "i8", "units": "hours since 2012-01-01", "_FillValue": -1}}
    when.to_dataset().n5.to_n5(tmp_path / NAMES[form], format=form, encoding=encoding)
    place = tmp_path / f"levels-{NAMES[form]}"
    array = open_array(tmp_path / NAMES[form], "s0")
    pyramid(array, place, "em", levels=2, factors=2, format=form)
    found = levels_in(place, "em")
    np.testing.assert_array_equal(found[0].to_numpy(), days)
    assert np.isnat(found[1].to_numpy()[0, 0])
    assert found[1].to_numpy()[1, 2] == days[2:, 4:].min() + np.timedelta64(84, "h")
