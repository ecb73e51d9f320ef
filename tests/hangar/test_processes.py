"""Hangar's files in several threads and processes."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import xarray_n5
from tests.support.hangar_samples import only_file, samples
from xarray_n5.errors import ChunkError
from xarray_n5.hangar import from_hangar, to_hangar

if TYPE_CHECKING:
    from pathlib import Path

    from distributed import Client


def test_arrays_are_pickled_without_handles(tmp_path: Path) -> None:
    values = samples()
    lazy = from_hangar(tmp_path, to_hangar(values, tmp_path))
    np.testing.assert_array_equal(lazy, values)
    data = pickle.dumps(lazy)
    assert len(data) < 4000
    np.testing.assert_array_equal(pickle.loads(data), values)  # noqa: S301


def test_no_file_stays_open(tmp_path: Path) -> None:
    values = samples()
    records = to_hangar(values, tmp_path)
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file["0"][0] = 0
    with pytest.raises(ChunkError, match="xxh64"):
        from_hangar(tmp_path, records).compute()


@pytest.mark.parametrize("options", [{}, {"swmr": True, "libver": "latest"}], ids=["r", "swmr"])
def test_files_that_others_in_this_process_have_open_are_read(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    values = samples(60, (64, 64))
    records = to_hangar(values, tmp_path)
    with h5py.File(only_file(tmp_path), "r", **options) as file:
        dataset = file["0"]
        np.testing.assert_array_equal(dataset[0], values[0].ravel())
        for chosen in (None, records):
            np.testing.assert_array_equal(from_hangar(tmp_path, chosen), values)
        np.testing.assert_array_equal(dataset[:60], values.reshape(60, -1))
        array = xarray_n5.open_array(only_file(tmp_path), "0")
        np.testing.assert_array_equal(array[:60], values.reshape(60, -1))
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)


def test_threads_read_a_file_in_both_ways(tmp_path: Path) -> None:
    values = samples(60, (64, 64))
    records = to_hangar(values, tmp_path)
    path = only_file(tmp_path)

    def read(number: int) -> np.ndarray:
        if number % 2:
            return np.asarray(xarray_n5.open_array(path, "0")[:60])
        return np.asarray(from_hangar(path, records)).reshape(60, -1)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(read, range(60)):
            np.testing.assert_array_equal(found, values.reshape(60, -1))


def test_a_file_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    to_hangar(samples(), tmp_path / "a")
    to_hangar(samples(3), tmp_path / "b")
    path = only_file(tmp_path / "a")
    assert len(from_hangar(path)) == 7
    only_file(tmp_path / "b").replace(path)
    assert len(from_hangar(path)) == 3


def test_workers_of_a_cluster_read(cluster: Client, tmp_path: Path) -> None:
    values = samples(600, (4,))
    records = to_hangar(values, tmp_path)
    lazy = from_hangar(tmp_path, records, chunks=100)
    found = cluster.compute(lazy).result()  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(found, values)
    broken = from_hangar(tmp_path, [records[0].replace(":0:0:", ":0:1:")])
    with pytest.raises(ChunkError, match="xxh64"):
        cluster.compute(broken).result()  # type: ignore[no-untyped-call]
