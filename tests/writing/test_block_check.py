"""Blocks are stored as Dask describes them, values as their encoding holds them, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from xarray_n5 import MetadataError, create_array, open_array, to_n5
from xarray_n5.errors import BlockError

if TYPE_CHECKING:
    from pathlib import Path

X: Any = da.from_array(np.arange(100).reshape(10, 10), chunks=5)

WRONG: dict[str, Any] = {
    "rows": X.map_blocks(lambda b: b[:1], dtype="i8"),
    "number": X.map_blocks(lambda b: b.sum(), dtype="i8"),
    "transposed": X[:5].rechunk((5, 10)).map_blocks(lambda b: b.T, dtype="i8"),
    "float as int": X.map_blocks(lambda b: b * 1000.7, meta=np.empty((0, 0), "u1")),
    "signed as unsigned": X.map_blocks(lambda b: -b, meta=np.empty((0, 0), "u8")),
    "wide as narrow": X.map_blocks(lambda b: b + (1 << 40), meta=np.empty((0, 0), "i4")),
    "int64 as float64": X.map_blocks(lambda b: b + (1 << 53) + 1, meta=np.empty((0, 0), "f8")),
    "negative as uint32": X.map_blocks(lambda b: b - 1, meta=np.empty((0, 0), "u4")),
    "float64 as float32": X.map_blocks(lambda b: b * 1e300, meta=np.empty((0, 0), "f4")),
    "float64 as int64": X.map_blocks(lambda b: b * 1.0, meta=np.empty((0, 0), "i8")),
    "masked": X.map_blocks(lambda b: np.ma.masked_greater(b, 3), dtype="i8", meta=np.empty((0, 0))),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_block_that_is_not_what_dask_says_is_refused(tmp_path: Path, name: str) -> None:
    source = WRONG[name]
    if name == "masked":
        source = source.astype("i8") if source.dtype != np.dtype("i8") else source
    lazy: Any = to_n5(source, tmp_path, "a", compute=False)
    with pytest.raises(BlockError, match=r"expected .*, got"):
        lazy.compute()


@pytest.mark.parametrize(
    ("given", "wanted"), [("u1", "i4"), ("i4", "f8"), ("f4", "f8"), ("?", "u1")]
)
def test_a_block_whose_values_the_type_holds_is_stored(
    tmp_path: Path, given: str, wanted: str
) -> None:
    source = X.map_blocks(lambda b: (b % 2).astype(given), meta=np.empty((0, 0), wanted))
    to_n5(source, tmp_path, "a")
    stored = open_array(tmp_path, "a")
    assert stored.dtype == wanted
    np.testing.assert_array_equal(stored[...], np.arange(100).reshape(10, 10) % 2)


def test_wider_blocks_than_xarray_and_dask_say_are_stored(tmp_path: Path) -> None:
    floats = da.from_array(np.linspace(0, 1, 16, dtype="f4").reshape(4, 4), chunks=2)
    array = xr.DataArray(floats, dims=("y", "x"), coords={"x": np.arange(4.0)}, name="q")
    moved = array.interp(x=[0.5, 1.5])
    moved.to_dataset().n5.to_n5(tmp_path / "i.n5")
    stored = xr.open_dataset(tmp_path / "i.n5", engine="n5")["q"]
    np.testing.assert_allclose(stored, moved.compute(), rtol=1e-6)
    to_n5(da.percentile(floats[0], [5, 50]), tmp_path / "p.n5", "a")
    labels = X.map_blocks(lambda b: b.astype("i4"), meta=np.empty((0, 0), "u4"))
    to_n5(labels, tmp_path / "l.n5", "a")
    assert open_array(tmp_path / "l.n5", "a").dtype == "u4"


def test_masked_values_are_refused_and_a_mask_of_nothing_is_not(tmp_path: Path) -> None:
    masked = np.ma.masked_greater(np.arange(4), 1)
    for source in (masked, da.from_array(masked, chunks=2)):
        with pytest.raises(MetadataError, match="masks cannot be stored; fill"):
            to_n5(source, tmp_path, "a")
    assert not (tmp_path / "a").exists()
    to_n5(np.ma.masked_greater(np.arange(4), 9), tmp_path, "a")
    to_n5(da.ma.filled(da.from_array(masked, chunks=2), -1), tmp_path, "b")  # type: ignore[no-untyped-call]
    assert open_array(tmp_path, "b")[...].tolist() == [0, 1, -1, -1]
    array = create_array(tmp_path, "c", shape=(4,), dtype="i8")
    with pytest.raises(TypeError, match="masked"):
        array[...] = masked


def test_numbers_that_are_encoded_already_are_stored_as_they_are(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", np.array([1, -999], "i2"), {"_FillValue": np.int16(-999)})})
    dataset.n5.to_n5(tmp_path)
    again = xr.open_dataset(tmp_path, engine="n5", mask_and_scale=False)
    assert again["a"].values.tolist() == [1, -999]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_a_string_that_ends_with_nul_is_refused(tmp_path: Path, chunked: bool) -> None:
    dataset = xr.Dataset({"s": ("x", np.array(["a\0", "b"], object))})
    with pytest.raises(MetadataError, match="NUL at the end"):
        (dataset.chunk() if chunked else dataset).n5.to_n5(tmp_path)
