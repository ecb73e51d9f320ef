"""Samples written into new files, one after another; existing files are never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr

from tests.support.hangar_samples import fork_python, samples
from xarray_n5.errors import MetadataError
from xarray_n5.hangar import from_hangar, to_hangar

if TYPE_CHECKING:
    from pathlib import Path


def uids(records: list[str]) -> list[str]:
    return [record.split(":")[1] for record in records]


def test_a_full_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    full = 99 * 250
    records = to_hangar((np.full(3, n, "u2") for n in range(full + 3)), tmp_path)
    first, second = uids(records)[0], uids(records)[-1]
    assert uids(records) == [first] * full + [second] * 3
    assert records[full - 1].split(":")[3:5] == ["98", "249"]
    assert records[full].split(":")[3:5] == ["0", "0"]
    with h5py.File(tmp_path / f"{first}.hdf5", "r", swmr=True) as file:
        assert list(file.attrs["next_location"]) == [99, 0]
        assert file.attrs["collections_remaining"] == 1
    found = from_hangar([tmp_path / f"{uid}.hdf5" for uid in (first, second)])
    np.testing.assert_array_equal(np.asarray(found)[:, 0], range(full + 3))


def test_writers_never_touch_a_file_that_exists(tmp_path: Path) -> None:
    one = to_hangar(samples(), tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    two = to_hangar(samples(), tmp_path)
    assert set(uids(one)).isdisjoint(uids(two))
    assert all((tmp_path / name).read_bytes() == data for name, data in before.items())
    np.testing.assert_array_equal(from_hangar(tmp_path, [*two, *one]), [*samples(), *samples()])


def test_a_uid_that_is_taken_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aaaaaaaa.hdf5").write_bytes(b"mine")
    uids = iter(["aaaaaaaa", "bbbbbbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(uids))
    assert to_hangar(samples(1), tmp_path)[0].startswith("00:bbbbbbbb:")
    assert (tmp_path / "aaaaaaaa.hdf5").read_bytes() == b"mine"


def test_blocks_of_dask_are_written_one_after_another(tmp_path: Path) -> None:
    values = samples(20, (4, 6))
    files: list[int] = []

    def note(block: np.ndarray) -> np.ndarray:
        files.append(len(list(tmp_path.glob("*.hdf5"))))
        return block

    lazy = da.from_array(values, chunks=(7, 2, 6)).rechunk((7, 4, 6))
    lazy = lazy.map_blocks(note, meta=values[:0])
    records = to_hangar(lazy, tmp_path)
    assert files == [0, 0, 0]  # a file appears when it is complete
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)
    again = to_hangar(xr.DataArray(lazy), tmp_path / "other")
    assert [each.split(":")[2:] for each in again] == [each.split(":")[2:] for each in records]


def test_samples_that_do_not_fit_are_refused_before_they_are_written(tmp_path: Path) -> None:
    fits = np.ones((4, 6), ">i2")
    for wrong in (np.zeros((4, 7), "i2"), np.zeros(24, "i2"), np.zeros((4, 6), "i4")):
        with pytest.raises(MetadataError, match="expected a sample of"):
            to_hangar([fits, wrong], tmp_path)
        assert not list(tmp_path.iterdir())
    to_hangar([fits, fits[:1]], tmp_path)
    assert len(from_hangar(tmp_path)) == 2


def test_arrays_without_samples_are_refused_or_write_nothing(tmp_path: Path) -> None:
    unknown = da.from_array(samples(), chunks=(7, 3, 5))
    unknown = unknown[:, (unknown > 1).any(axis=(0, 2))]
    wrong: list[Any] = [np.array(3), unknown]
    for each in wrong:
        with pytest.raises(MetadataError, match="its first axis is the samples"):
            to_hangar(each, tmp_path / "new")
    assert to_hangar([], tmp_path / "new") == []
    assert to_hangar(samples(0), tmp_path / "new") == []
    assert not (tmp_path / "new").exists()


def test_a_file_that_cannot_be_made_whole_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.File, "create_dataset", fail)
    with pytest.raises(OSError, match="No space"):
        to_hangar(samples(), tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    records = to_hangar(samples(), tmp_path)
    np.testing.assert_array_equal(from_hangar(tmp_path, records), samples())


def test_a_writer_killed_while_it_makes_a_file_spoils_nothing(tmp_path: Path) -> None:
    to_hangar(samples(), tmp_path)
    code = """
        import os, signal, sys
        import h5py, numpy, xarray_n5

        made = h5py.File.create_dataset

        def create_dataset(file, name, **options):
            if name == "50":
                file.flush()
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
            return made(file, name, **options)

        h5py.File.create_dataset = create_dataset
        xarray_n5.hangar.to_hangar(numpy.ones((2, 3)), sys.argv[1])
    """
    killed = fork_python(code, tmp_path)
    killed.communicate()
    assert killed.returncode != 0
    assert len(list(tmp_path.glob(".*.partial"))) == 1
    np.testing.assert_array_equal(from_hangar(tmp_path), samples())
