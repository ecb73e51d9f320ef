"""Samples written into new files, one after another; existing files are never changed."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr

from tests.support.exhaustive import some
from tests.support.hangar_samples import WRITING, fork_python, only_file, run_python, samples
from xarray_n5.errors import MetadataError
from xarray_n5.hangar import HangarWriter, from_hangar, to_hangar
from xarray_n5.hangar import writer as hangar_writer

if TYPE_CHECKING:
    from pathlib import Path


def uids(records: list[str]) -> list[str]:
    return [record.split(":")[1] for record in records]


def test_a_full_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    full = 99 * 250
    with HangarWriter(tmp_path, (3,), "u2") as writer:
        records = [writer.write(np.full(3, n, "u2")) for n in range(full + 3)]
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
    letters = iter("a" * 8 + "b" * 8)
    monkeypatch.setattr("secrets.choice", lambda _: next(letters))
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
    assert files == [0, 1, 1]
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)
    again = to_hangar(xr.DataArray(lazy), tmp_path / "other")
    assert [each.split(":")[2:] for each in again] == [each.split(":")[2:] for each in records]


def test_samples_that_do_not_fit_are_refused_before_they_are_written(tmp_path: Path) -> None:
    with HangarWriter(tmp_path, (4, 6), "int16") as writer:
        for wrong in (np.zeros((4, 7), "i2"), np.zeros(24, "i2"), np.zeros((4, 6), "i4")):
            with pytest.raises(MetadataError, match="expected a sample of"):
                writer.write(wrong)
        assert not list(tmp_path.iterdir())
        writer.write(np.ones((4, 6), ">i2"))
    assert len(from_hangar(tmp_path)) == 1


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


@pytest.mark.parametrize("renames", some([True, False], 1))
def test_a_file_has_its_name_when_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, renames: bool
) -> None:
    # Windows renames no file that is open.
    monkeypatch.setattr(hangar_writer, "RENAMES_OPEN_FILES", renames and os.name != "nt")
    made = h5py.File.create_dataset
    seen: list[list[Path]] = []

    def note(*given: Any, **options: Any) -> Any:
        seen.append([each for each in tmp_path.iterdir() if each.suffix == ".hdf5"])
        return made(*given, **options)

    monkeypatch.setattr(h5py.File, "create_dataset", note)
    code = "import sys, xarray_n5; print(xarray_n5.hangar.from_hangar(sys.argv[1]).sum().compute())"
    with HangarWriter(tmp_path, (3, 5), "i2") as writer:
        records = [writer.write(samples()[0])]
        out, _ = fork_python(code, tmp_path).communicate()
        assert int(out) == samples()[0].sum()
        records.append(writer.write(samples()[1]))
    assert seen == [[]] * 100
    assert only_file(tmp_path).name == f"{uids(records)[0]}.hdf5"
    assert list(tmp_path.iterdir()) == [only_file(tmp_path)]
    np.testing.assert_array_equal(from_hangar(tmp_path, records), samples()[:2])
    with h5py.File(only_file(tmp_path), "r") as file:
        assert list(file.attrs["next_location"]) == [0, 1]


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


def test_a_writer_closes_files_that_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    writer = HangarWriter("data", (3, 5), "i2")
    records = [writer.write(samples()[0])]
    monkeypatch.chdir(tmp_path / "sub")
    writer.close()
    records.append(writer.write(samples()[1]))
    (tmp_path / "data").rename(tmp_path / "moved")
    writer.close()
    np.testing.assert_array_equal(from_hangar(tmp_path / "moved", records), samples()[:2])
    writer.write(samples()[0])
    shutil.rmtree(tmp_path / "data")
    writer.close()
    records = to_hangar(samples(), tmp_path / "data")
    np.testing.assert_array_equal(from_hangar(tmp_path / "data", records), samples())


def test_a_writer_that_nobody_has_is_closed(tmp_path: Path) -> None:
    writer = HangarWriter(tmp_path, (3, 5), "i2")
    records = [writer.write(samples()[0])]
    del writer
    gc.collect()
    np.testing.assert_array_equal(from_hangar(tmp_path, records), samples()[:1])


def test_a_writer_that_lives_to_the_end_says_nothing(tmp_path: Path) -> None:
    code = """
        import sys, numpy, xarray_n5
        sys.stderr = sys.stdout
        writer = xarray_n5.hangar.HangarWriter(sys.argv[1], (3,), "f8")
        writer.write(numpy.ones(3))
    """
    ended = run_python(code, tmp_path)
    assert ended.communicate()[0] == ""
    assert ended.returncode == 0
    np.testing.assert_array_equal(from_hangar(tmp_path), np.ones((1, 3)))


@pytest.mark.parametrize("count", some([1, 40, 260], 1))
def test_what_was_written_before_a_kill_is_read(tmp_path: Path, count: int) -> None:
    writing = fork_python(WRITING, tmp_path, 100_000)
    assert writing.stdout is not None
    records = [writing.stdout.readline().strip() for _ in range(count)]
    writing.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    records += writing.communicate()[0].splitlines()
    records = [each for each in records if each.endswith(":50 40")]
    assert writing.returncode != 0
    found = np.asarray(from_hangar(tmp_path, records))
    np.testing.assert_array_equal(found[:, 7, 7], range(len(records)))
    every = np.asarray(from_hangar(tmp_path))
    assert len(every) - len(records) in (0, 1)
    np.testing.assert_array_equal(every[: len(records), 0, 0], range(len(records)))
    with h5py.File(only_file(tmp_path), "r", libver="latest", swmr=True) as file:
        assert list(file.attrs["next_location"]) == [0, 0]
    before = only_file(tmp_path).read_bytes()
    to_hangar(samples(), tmp_path / "more")
    assert only_file(tmp_path).read_bytes() == before
