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
from xarray_n5 import Axis, MetadataError, create_group, from_n5, open_array, open_group, to_n5
from xarray_n5.formats import FORMATS
from xarray_n5.model.axes import Geometry

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


def test_every_format_is_here() -> None:
    assert set(NAMES) == set(FORMATS)


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


@pytest.mark.matrix(4)
@PAIRS
def test_arrays_are_converted(tmp_path: Path, first: str, second: Any) -> None:
    url, copy = volume(tmp_path, first), str(tmp_path / f"copy-{NAMES[second]}")
    array = open_array(url, "em/raw")
    own = {key: value for key, value in array.attrs.items() if key in ATTRIBUTES}
    to_n5(
        from_n5(url, "em/raw"), copy, "b", axes=Geometry(array.axes), attributes=own, format=second
    )
    again = open_array(copy, "b")
    assert (again.shape, again.chunks, again.dtype) == (array.shape, array.chunks, array.dtype)
    assert (again[...] == X).all()
    assert [(a.name, a.unit, a.scale, a.offset) for a in again.axes] == [
        (a.name, a.unit, a.scale, a.offset) for a in array.axes
    ]
    assert {key: again.attrs[key] for key in ATTRIBUTES} == ATTRIBUTES


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


@FULL
def test_datasets_are_the_same_again(tmp_path: Path, form: str) -> None:
    kept = dataset()
    kept.chunk({"z": 4}).n5.to_n5(tmp_path / NAMES[form], format=form)
    again = xr.open_dataset(tmp_path / NAMES[form], engine="n5")
    xr.testing.assert_identical(again, kept)


@pytest.mark.matrix(3)
@PAIRS
@TEXTS
def test_datasets_are_converted(tmp_path: Path, first: str, second: str) -> None:
    kept = dataset()
    kept.n5.to_n5(tmp_path / NAMES[first], format=first)
    between = xr.open_dataset(tmp_path / NAMES[first], engine="n5", chunks={})
    between.n5.to_n5(tmp_path / NAMES[second], format=second)
    again = xr.open_dataset(tmp_path / NAMES[second], engine="n5")
    xr.testing.assert_identical(again, kept)
    for name in ("raw", "mask"):
        assert again[name].encoding["chunks"] == between[name].encoding["chunks"], name


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


@FULL
def test_groups_tell_the_same(tmp_path: Path, form: Any) -> None:
    url = volume(tmp_path, form)
    create_group(url, "em/more", attributes=ATTRIBUTES, format=form)
    group: Any = open_group(url, mode="r+")
    assert (group.format, list(group), sorted(group["em"])) == (form, ["em"], ["more", "raw"])
    assert dict(group["em/more"].attrs) == ATTRIBUTES
    group["em/raw"].attrs["threshold"] = 0.75
    group["em/raw"].resize((4, 14, 23))
    assert open_array(url, "em/raw").attrs["threshold"] == 0.75
    assert (open_array(url, "em/raw")[...] == X[:4]).all()
    del group["em/more"]
    assert list(open_group(url, "em")) == ["raw"]
