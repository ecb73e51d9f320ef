"""Damaged files of Hangar: errors name the record of a changed sample; chunks are counted."""

from __future__ import annotations

import pickle
import random
import sys
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest
from xxhash import xxh64_hexdigest

from tests.support.hangar_samples import only_file, samples
from xarray_n5.errors import ChunkError, MissingPackageError
from xarray_n5.hangar import from_hangar, to_hangar

if TYPE_CHECKING:
    from pathlib import Path


def test_a_changed_row_names_its_record(tmp_path: Path) -> None:
    values = samples()
    records = to_hangar(values, tmp_path)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file["0"][3, 4] += 1
    lazy = from_hangar(tmp_path, records)
    with pytest.raises(ChunkError, match="xxh64") as caught:
        lazy.compute()
    assert records[3] in str(caught.value)
    np.testing.assert_array_equal(from_hangar(tmp_path, records[:3]), values[:3])
    with pytest.raises(ChunkError, match="by the record"):
        from_hangar(tmp_path, [records[0].replace(":0:0:", ":50:0:")]).compute()


def test_a_row_that_cannot_be_decoded_names_its_record(tmp_path: Path) -> None:
    records = to_hangar(samples(), tmp_path)
    path = only_file(tmp_path)
    with h5py.File(path, "r", swmr=True) as file:
        info = file["0"].id.get_chunk_info(3)
    with path.open("r+b") as raw:
        raw.seek(info.byte_offset)
        raw.write(random.Random(1).randbytes(info.size))  # noqa: S311 - any bytes will do
    with pytest.raises(ChunkError) as caught:
        from_hangar(tmp_path, records[3:5]).compute()
    assert records[3] in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).key == records[3]  # noqa: S301


def test_a_digest_of_the_type_that_the_file_names_counts(tmp_path: Path) -> None:
    (record,) = to_hangar(np.zeros((1, 6), "f4"), tmp_path)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file.attrs["schema_dtype_num"] = np.dtype("f8").num
    wide = record.replace(record.split(":")[2], xxh64_hexdigest(np.zeros(6, "f8").tobytes()))
    for each in (record, wide):
        found = np.asarray(from_hangar(tmp_path, [each]))
        np.testing.assert_array_equal(found, np.zeros((1, 6), "f4"), strict=True)


def test_values_are_of_the_type_that_is_stored(tmp_path: Path) -> None:
    values = np.arange(3, dtype="i8")[:, None] + 2**40
    records = to_hangar(values, tmp_path)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file.attrs["schema_dtype_num"] = np.dtype("i4").num
    for chosen in (None, records):
        found = np.asarray(from_hangar(tmp_path, chosen))
        np.testing.assert_array_equal(found, values, strict=True)


def test_bytes_between_numbers_are_in_the_digest(tmp_path: Path) -> None:
    value = np.empty((), "g")
    value.reshape(1).view("u1")[:] = 255
    value[...] = 1.5
    found = np.asarray(from_hangar(tmp_path, to_hangar([value], tmp_path)))
    np.testing.assert_array_equal(found, value[None], strict=True)


def test_rows_are_counted_by_chunks_not_by_attributes(tmp_path: Path) -> None:
    to_hangar([np.ones(400, "f8"), np.ones(3, "f8")], tmp_path, shape=(70_000,))
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file.attrs.modify("next_location", (7, 7))
    assert from_hangar(tmp_path).shape == (2, 70_000)


def test_no_hdf5_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = to_hangar(samples(), tmp_path)
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(MissingPackageError, match=r"pip install .*xarray-n5\[hdf5\]"):
        from_hangar(tmp_path, records)
    with pytest.raises(ImportError, match=r"pip install .*xarray-n5\[hdf5\]"):
        to_hangar(samples(), tmp_path / "new")
    assert not (tmp_path / "new").exists()
