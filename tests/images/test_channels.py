"""How viewers show channels: colours of dyes, and contrast from the data of the coarsest level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xarray_n5
from xarray_n5.dialects.groups import colors_of, omero_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ["Hoechst 33342", "GFP-actin", "mCherry"]
COLORS = ["0000FF", "00FF00", "FF0000"]


def cells(dtype: str = "u2", names: list[str] = NAMES) -> xr.DataArray:
    """Channels of which each has noise of another strength, and one sample that is far brighter."""
    random = np.random.default_rng(5)
    values = np.stack([random.integers(0, 10 ** (1 + at), (64, 64)) for at in range(len(names))])
    values[:, 1, 1] = 60_000
    space = {name: (name, np.arange(64) * 0.5, {"units": "um"}) for name in "yx"}
    dims = ("channel", "y", "x")
    return xr.DataArray(values.astype(dtype), {"channel": names, **space}, dims, "cells")


def channels_at(place: Path) -> list[dict[str, Any]]:
    return list(omero_of(xarray_n5.open_group(place).attrs)["channels"])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["DAPI", "EGFP", "mCherry-H2B"], ["0000FF", "00FF00", "FF0000"]),
        (["405 nm", "488 nm", "561 nm", "640 nm"], ["0000FF", "00FF00", "FF0000", "FF00FF"]),
        (["membrane"], ["FFFFFF"]),
        (["tubulin", "actin"], ["FF00FF", "00FF00"]),
        (["a", "b", "FITC", "d"], ["00FFFF", "FFFF00", "00FF00", "FF0000"]),
        ([], []),
    ],
)
def test_colours_are_those_of_dyes_or_those_of_napari(
    labels: list[str], expected: list[str]
) -> None:
    assert colors_of(labels) == expected


def by_pyramid(place: Path, form: Any, dialect: Any) -> None:
    how: dict[str, Any] = {"factors": 2, "levels": 2, "format": form, "dialect": dialect}
    xarray_n5.pyramid(cells(), place, **how)


def by_tree(place: Path, form: Any, dialect: Any) -> None:
    by_pyramid(place.with_name("source.n5"), "n5", "ngff")
    tree = xr.open_datatree(place.with_name("source.n5"), engine="n5")
    tree.n5.to_n5(place, format=form, dialect=dialect)


def by_copy(place: Path, form: Any, dialect: Any) -> None:
    by_pyramid(place.with_name("source.n5"), "n5", "ngff")
    xarray_n5.copy(place.with_name("source.n5"), place, format=form, dialect=dialect)


def one_level(place: Path, form: Any, dialect: Any) -> None:
    coarse = cells().isel(y=slice(0, None, 4), x=slice(0, None, 4))
    xarray_n5.pyramid(coarse, place, levels=0, format=form, dialect=dialect)


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("store", [by_pyramid, by_tree, by_copy, one_level])
def test_windows_are_percentiles_of_the_coarsest_level(
    tmp_path: Path, store: Callable[..., None], form: str
) -> None:
    place = tmp_path / "cells.zarr"
    store(place, form, "ngff" if form == "n5" else None)
    channels = channels_at(place)
    assert [channel["label"] for channel in channels] == NAMES
    assert [channel["color"] for channel in channels] == COLORS
    group = xarray_n5.open_group(place)
    coarsest = xarray_n5.open_array(place, max(group))[...]
    for channel, values in zip(channels, coarsest, strict=True):
        window = channel["window"]
        low, high = np.percentile(values, (0.1, 99.9), method="nearest")
        assert window == {"min": values.min(), "max": values.max(), "start": low, "end": high}


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize("value", [0, 7, np.nan, np.inf])
def test_windows_of_constants_and_of_nothing_can_be_shown(
    tmp_path: Path, dtype: str, value: float
) -> None:
    with np.errstate(invalid="ignore"):
        image = xr.full_like(cells(names=["a", "b"]), value, dtype)
    xarray_n5.pyramid(image, tmp_path / "c.zarr", levels=0, format="zarr2")
    for channel in channels_at(tmp_path / "c.zarr"):
        window = channel["window"]
        assert np.isfinite([*window.values()]).all()
        assert window["min"] <= window["start"] < window["end"] <= window["max"]


def test_what_others_chose_is_kept_by_copies_and_other_versions(tmp_path: Path) -> None:
    by_pyramid(tmp_path / "a.zarr", "zarr2", None)
    group = xarray_n5.open_group(tmp_path / "a.zarr", mode="r+")
    chosen = channels_at(tmp_path / "a.zarr")
    chosen[1] |= {"window": {"min": 0, "max": 9, "start": 3, "end": 5}, "color": "123456"}
    del chosen[2]["window"]
    group.attrs["omero"] = {"channels": chosen}
    for form in ("zarr2", "zarr3"):
        xarray_n5.copy(tmp_path / "a.zarr", tmp_path / form, format=form)
        assert channels_at(tmp_path / form) == chosen


def test_large_images_are_looked_at_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.images.channels._MOST", 100)
    xarray_n5.pyramid(cells(), tmp_path / "c.zarr", levels=0, format="zarr3")
    for channel, values in zip(channels_at(tmp_path / "c.zarr"), cells().values, strict=True):
        assert channel["window"]["max"] == values[28:36, 28:36].max()
