"""The layout of Hangar's HDF5 files: filters, chunks, attributes, and what cannot be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import h5py
import numpy as np
import pytest
from xxhash import xxh64_hexdigest

import xarray_n5
from tests.support.hangar_samples import only_file, samples
from xarray_n5.errors import MetadataError, PathError
from xarray_n5.hangar import from_hangar, to_hangar
from xarray_n5.hangar.records import DTYPES

if TYPE_CHECKING:
    from pathlib import Path


def test_small_samples_have_lzf_since_blosc_refuses_them(tmp_path: Path) -> None:
    for size, filter_ in ((17, "32001"), (16, "lzf")):
        to_hangar(np.ones((1, size), "u1"), tmp_path / filter_)
        with h5py.File(only_file(tmp_path / filter_)) as file:
            assert filter_ in {*file["0"]._filters}
            assert file["0"].shuffle is (filter_ == "lzf")


def test_chunks_are_rows_of_at_most_255000_bytes(tmp_path: Path) -> None:
    for shape, dtype, side in (((), "?", 1), ((5, 7, 9), "f4", 315), ((400, 300), "f4", 63_750)):
        to_hangar(np.ones((1, *shape), dtype), tmp_path / dtype / str(side))
        with h5py.File(only_file(tmp_path / dtype / str(side))) as file:
            assert file["0"].chunks == (1, side)


def test_shapes_and_types_that_hangar_cannot_hold_are_refused(tmp_path: Path) -> None:
    for dtype in ("c8", "M8[s]", "S3", "O"):
        with pytest.raises(MetadataError, match="Hangar cannot store"):
            to_hangar(np.zeros((1, 2), dtype), tmp_path / "new")
    with pytest.raises(MetadataError, match="at least 1"):
        to_hangar(np.zeros((3, 0, 4)), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_invalid_shapes_are_refused(tmp_path: Path) -> None:
    wrong: list[Any] = [(-2, 3), (-2, -3), (3.7,), ("3",)]
    for shape in wrong:
        with pytest.raises(MetadataError, match="shape is "):
            to_hangar(np.ones((1, 2), "f4"), tmp_path / "new", shape=shape)
    (record,) = to_hangar(np.ones((1, 2), "f4"), tmp_path / "new", shape=(np.int64(2),))  # type: ignore[arg-type]
    assert record.endswith(":2")


def test_masks_are_refused_since_nothing_keeps_them(tmp_path: Path) -> None:
    masked = np.ma.masked_less(samples(), 50)  # type: ignore[no-untyped-call]
    lazy = da.from_array(masked, chunks=(2, 3, 5))
    wrong: list[Any] = [masked, lazy, masked[:, 0, 0], list(masked)]
    for each in wrong:
        with pytest.raises(MetadataError, match="do not store masks"):
            to_hangar(each, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    filled = to_hangar(da.ma.filled(lazy), tmp_path / "new")
    np.testing.assert_array_equal(from_hangar(tmp_path / "new", filled), masked.filled())


def test_urls_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PathError, match="local disks"):
        to_hangar(samples(), "memory://x")
    assert not list(tmp_path.iterdir())


def test_our_files_are_made_like_hangars(corpus: Path, tmp_path: Path) -> None:
    theirs = corpus / "peers/hangar-0.5.2/.hangar/data/00"
    for uid, dtype in {"5gx4ox4l": "f4", "u7rpild1": "i2"}.items():
        to_hangar(samples(4, (5, 7, 9), dtype), tmp_path / uid)
        with (
            h5py.File(theirs / f"{uid}.hdf5", "r", swmr=True) as one,
            h5py.File(only_file(tmp_path / uid), "r", swmr=True) as two,
        ):
            assert set(one) == set(two)
            assert set(one.attrs) == set(two.attrs)
            for name in set(one.attrs) - {"next_location"}:
                kinds = {file.attrs.get_id(name).dtype.kind for file in (one, two)}
                np.testing.assert_array_equal(one.attrs[name], two.attrs[name], strict=True)
                assert len(kinds) == 1
            assert list(two.attrs["next_location"]) == [0, 3]
            for name in one:
                a, b = (file[name].id.get_create_plist() for file in (one, two))
                assert one[name].dtype == two[name].dtype
                assert one[name].shape == two[name].shape == one[name].maxshape
                assert a.get_chunk() == b.get_chunk()
                assert a.get_filter(0) == b.get_filter(0)
                assert (a.get_nfilters(), b.get_nfilters()) == (1, 1)


def test_plain_h5py_reads_samples_by_their_records(tmp_path: Path) -> None:
    values = samples(300, (2, 3))
    records = to_hangar(values, tmp_path)
    with h5py.File(only_file(tmp_path), "r", libver="latest", swmr=True) as file:
        assert sorted(file, key=int) == [str(number) for number in range(100)]
        for record, value in zip(records, values, strict=True):
            code, uid, digest, number, row, shape = record.split(":")
            assert (code, f"{uid}.hdf5") == ("00", only_file(tmp_path).name)
            assert file[number].shape == (250, 6)
            stored = file[number][int(row)].reshape([int(size) for size in shape.split()])
            np.testing.assert_array_equal(stored, value)
            assert digest == xxh64_hexdigest(value.tobytes())
        assert records[250].split(":")[3:] == ["1", "0", "2 3"]
        assert list(file.attrs["next_location"]) == [1, 49]
        assert file.attrs["collections_remaining"] == 99


def test_all_types_have_their_numbers_in_the_file(tmp_path: Path) -> None:
    for code in DTYPES:
        values = samples(2, (20,)).astype(code)
        folder = tmp_path / str(np.dtype(code).num)
        records = xarray_n5.hangar.to_hangar(values, folder)
        with h5py.File(only_file(folder), "r", swmr=True) as file:
            assert file.attrs["schema_dtype_num"] == np.dtype(code).num
        np.testing.assert_array_equal(np.asarray(from_hangar(folder, records)), values)
