"""One volume in every format: opened identical, and converted between all of them."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support import compressions
from tests.support.containers import FULL, NAMES, PAIRS
from tests.support.exhaustive import some
from xarray_n5 import Axis, MetadataError, to_n5

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = pytest.mark.filterwarnings("ignore:variable label has data in the form of a dask array")
"""xarray does not know how long texts are before it has read them."""

X = np.random.default_rng(0).integers(0, 4000, (9, 14, 23)).astype("u2")

AXES = [
    Axis(name="z", unit="nm", scale=40.0, offset=20.0),
    Axis(name="y", unit="nm", scale=4.0),
    Axis(name="x", unit="nm", scale=4.0, offset=-8.0),
]

ATTRIBUTES = {"title": "é", "threshold": 0.5, "levels": [1, 2, 3], "of": {"a": [None, True]}}


def volume(place: Path, form: Any) -> str:
    """Store the volume, and return where."""
    url = str(place / NAMES[form])
    source = da.from_array(X, chunks=(4, 5, 10))
    to_n5(source, url, "em/raw", axes=AXES, attributes=ATTRIBUTES, format=form)
    return url


def test_arrays_open_identical(tmp_path: Path) -> None:
    first, *others = (
        xr.open_dataset(volume(tmp_path, form), engine="n5", group="em/raw", chunks={})
        for form in NAMES
    )
    assert (first["raw"].to_numpy() == X).all()
    assert first["z"].to_numpy()[:2].tolist() == [20, 60]
    assert first["raw"].attrs == ATTRIBUTES
    for other in others:
        xr.testing.assert_identical(first, other)
        assert first.chunks == other.chunks
        assert first["raw"].encoding["n5_compression"] == other["raw"].encoding["n5_compression"]


def dataset() -> xr.Dataset:
    """Return a Dataset of many kinds."""
    z, y, x = (
        np.arange(n) * s + o for n, s, o in zip(X.shape, (40.0, 4, 4), (20, 0, -8), strict=True)
    )
    nm = {"units": "nm"}
    return xr.Dataset(
        {
            "raw": (("z", "y", "x"), X, {"long_name": "electrons"}),
            "mask": (("y", "x"), X[0] > 2000),
            "label": (("z",), [f"section {k}" for k in range(9)]),
            "when": (("z",), np.datetime64("2024-01-01", "ns") + np.arange(9) * 10**10),
            "gain": ((), 2.5),
            "drift": (("z",), np.where(np.arange(9) % 3, 0.5, np.nan), {"units": "px"}),
        },
        {
            "z": ("z", z, nm),
            "y": ("y", y, nm),
            "x": ("x", x, nm),
            "tile": ("x", np.arange(23) // 5),
        },
        {"title": "one", "of": [1, 2], "deep": {"a": "b"}},
    )


@pytest.mark.parametrize(
    ("first", "second", "compression"),
    some(
        [
            (*pair, name)
            for pair in permutations(NAMES, 2)
            for name in (*compressions.NAMES, "lzma")
        ],
        8,
    ),
)
def test_compressions_are_converted_or_give_way(
    tmp_path: Path, first: str, second: str, compression: str
) -> None:
    kept = dataset()[["raw"]]
    encoding = {"raw": {"compression": compression}}
    if first == "hdf5" and compression not in compressions.FILTERS:
        with pytest.raises(MetadataError, match="no filter"):
            kept.n5.to_n5(tmp_path / NAMES[first], format=first, encoding=encoding)
        assert not list(tmp_path.iterdir())
        return
    kept.n5.to_n5(tmp_path / NAMES[first], format=first, encoding=encoding)
    between = xr.open_dataset(tmp_path / NAMES[first], engine="n5")
    between.n5.to_n5(tmp_path / NAMES[second], format=second)
    again = xr.open_dataset(tmp_path / NAMES[second], engine="n5")
    xr.testing.assert_identical(again, kept)
    if second == "hdf5" and compression not in compressions.FILTERS:
        assert again["raw"].encoding["n5_compression"]["type"] == "gzip"


@pytest.mark.matrix(3)
@PAIRS
@TEXTS
def test_trees_are_converted(tmp_path: Path, first: str, second: str) -> None:
    kept = xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs={"k": 1}), "/a": dataset(), "/a/b": dataset()[["gain"]]}
    )
    kept.n5.to_n5(tmp_path / NAMES[first], format=first)
    between = xr.open_datatree(tmp_path / NAMES[first], engine="n5", chunks={})
    xr.testing.assert_identical(between, kept)
    between.n5.to_n5(tmp_path / NAMES[second], format=second)
    xr.testing.assert_identical(xr.open_datatree(tmp_path / NAMES[second], engine="n5"), kept)


@FULL
def test_datasets_grow_and_change(tmp_path: Path, form: str) -> None:
    place, kept = tmp_path / NAMES[form], dataset().drop_vars("label")
    kept.isel(z=slice(0, 4)).n5.to_n5(place, format=form)
    kept.isel(z=slice(4, None)).n5.to_n5(place, mode="a", append_dim="z")
    changed = kept[["raw"]].isel(z=slice(2, 5)) + np.uint16(1)
    changed["raw"].attrs = kept["raw"].attrs
    changed = changed.drop_vars(["y", "x", "tile"])
    changed.n5.to_n5(place, mode="r+", region={"z": slice(2, 5)}, safe_chunks=False)
    expected = kept.copy(deep=True)
    expected["raw"][2:5] += 1
    xr.testing.assert_equal(xr.open_dataset(place, engine="n5"), expected)
