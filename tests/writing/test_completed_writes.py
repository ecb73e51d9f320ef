"""Who resumes a write that has ended is told that nothing is left, and not to replace it."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.containers import (
    NAMES,
    NUMBERS,
    contents,
    write_array,
    write_dataset,
    write_pyramid,
)
from tests.support.exhaustive import EXHAUSTIVE, spread
from tests.support.killing import begin
from xarray_n5 import (
    NodeExistsError,
    UnfinishedWriteWarning,
    copy,
    create_array,
    open_array,
    pyramid,
    to_n5,
)
from xarray_n5.arrays.marker import WriteMarker
from xarray_n5.arrays.node import ArrayNode
from xarray_n5.copying.copy import begin_copy
from xarray_n5.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., object]


def test_a_pyramid_that_has_ended_has_nothing_left_to_resume(tmp_path: Path) -> None:
    first: Any = write_pyramid(tmp_path / "b.n5", resume=True)
    before = contents(tmp_path)
    again: Any = write_pyramid(tmp_path / "b.n5", resume=True)
    assert list(again) == list(first)
    assert all((each["worker"] == "an earlier run").all() for each in again.values())
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", NAMES.values())
def test_levels_next_to_a_stored_array_are_resumed_and_finished_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place = tmp_path / name
    stored = create_array(place, "p/s0", shape=(16, 16), dtype="u2", chunks=4, axes=["y", "x"])
    stored[...] = 1

    def write() -> Any:
        return pyramid(place, path="p/s0", factors=2, levels=2, resume=True)

    save, count = ArrayNode.save, iter(range(100))

    def stop(self: ArrayNode, *chunk: Any) -> int:
        if next(count) == 2:
            raise RuntimeError("out of power")
        return save(self, *chunk)

    with monkeypatch.context() as patch, dask.config.set(scheduler="synchronous"):
        patch.setattr(ArrayNode, "save", stop)
        with pytest.raises(RuntimeError, match="out of power"):
            write()
    for finished in (False, True):
        report = write()
        assert list(report) == ["s1", "s2"]
        kept = [(each["worker"] == "an earlier run").values for each in report.values()]
        assert all(each.all() for each in kept) == finished
        assert (open_array(place, "p/s2")[...] == 1).all()
    open_array(place, "p/s0", mode="r+")[:4, :4] = 9
    with pytest.raises(NodeExistsError, match=r"base level has changed since|no write of it is"):
        write()


def test_a_pyramid_that_left_no_record_is_not_taken_for_finished(tmp_path: Path) -> None:
    write_pyramid(tmp_path / "b.n5")
    with pytest.raises(NodeExistsError, match="no write of it is unfinished") as caught:
        write_pyramid(tmp_path / "b.n5", resume=True)
    assert "if this write has finished before" in str(caught.value)


def test_a_lost_chunk_of_a_finished_pyramid_is_written_again(tmp_path: Path) -> None:
    write_pyramid(tmp_path / "b.n5", resume=True)
    before = contents(tmp_path)
    lost = [next(tmp_path.rglob(f"{level}/0")) for level in ("s0", "s1")]
    for each in lost:
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    again: Any = write_pyramid(tmp_path / "b.n5", resume=True)
    assert not all((each["worker"] == "an earlier run").all() for each in again.values())
    after = contents(tmp_path)
    assert {key: after[key] for key in before if ".digests" not in key} == {
        key: each for key, each in before.items() if ".digests" not in key
    }


@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize("write", [write_array, write_dataset])
def test_resuming_a_finished_write_returns_its_report(
    tmp_path: Path, write: Write, name: str
) -> None:
    first: Any = write(tmp_path / name, resume=True)
    before = contents(tmp_path)
    for _ in range(2):
        again: Any = write(tmp_path / name, resume=True)
        for report in [again["a"] if write is write_dataset else again]:
            assert set(report["worker"].values.flat) == {"an earlier run"}
            assert not report["seconds"].notnull().any()
        assert again.sizes == first.sizes
    assert list(contents(tmp_path)) == list(before)
    np.testing.assert_array_equal(open_array(tmp_path / name, "a")[...], NUMBERS)


REGION = (slice(0, 4), slice(0, 3))

CHANGES: dict[str, Callable[[Path], object]] = {
    "an element": lambda place: open_array(place, "a", mode="r+").__setitem__((0, 0), 9),
    "a chunk": lambda place: open_array(place, "a", mode="r+").delete_chunk((0, 0)),
    "an attribute": lambda place: open_array(place, "a", mode="r+").attrs.update(b=1),
    "a region": lambda place: to_n5(
        np.full((2, 6), 3, "u1"),
        place,
        "a",
        region=(slice(0, 2), slice(0, 6)),
        partial_chunks="merge",
    ),
    "all": lambda place: to_n5(NUMBERS + 1, place, "a", mode="r+"),
}


@pytest.mark.matrix(6)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize("write", [write_array, write_dataset])
def test_what_changed_since_a_write_has_ended_is_not_called_its_result(
    tmp_path: Path, write: Write, name: str, change: Callable[[Path], object]
) -> None:
    write(tmp_path / name, resume=True)
    change(tmp_path / name)
    after = open_array(tmp_path / name, "a")[...]
    with pytest.raises(NodeExistsError, match="no write of it is unfinished"):
        write(tmp_path / name, resume=True)
    np.testing.assert_array_equal(open_array(tmp_path / name, "a")[...], after)


@pytest.mark.parametrize("name", ["a.n5", "a.zarr"])
@pytest.mark.parametrize("write", [write_array, write_dataset])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_chunk_that_was_removed_is_written_again(
    tmp_path: Path, write: Write, name: str, sparse: bool
) -> None:
    options = {"resume": True, "write_empty_chunks": not sparse}
    write(tmp_path / name, **options)
    chunk, kept = (
        tmp_path / name / open_array(tmp_path / name, "a").node.key(index)
        for index in ((1, 0), (2, 0))
    )
    inode = kept.stat().st_ino
    for _ in range(2):
        chunk.unlink()
        report: Any = write(tmp_path / name, **options)
        found = report["a"] if write is write_dataset else report
        assert int((found["worker"] != "an earlier run").sum()) == 1
        np.testing.assert_array_equal(open_array(tmp_path / name, "a")[...], NUMBERS)
    assert kept.stat().st_ino == inode
    assert not list(tmp_path.rglob(".writing-*"))


def test_a_chunk_of_another_size_is_not_called_the_result(tmp_path: Path) -> None:
    write_array(tmp_path / "b.n5", resume=True)
    chunk = tmp_path / "b.n5/a/0/0"
    before = chunk.stat()
    chunk.write_bytes(chunk.read_bytes() + b"0")
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(NodeExistsError):
        write_array(tmp_path / "b.n5", resume=True)


def test_a_later_write_removes_the_record(tmp_path: Path) -> None:
    record = tmp_path / "b.n5/a/.digests/finished.json"
    for change in ("an element", "a region", "all"):
        write_array(tmp_path / "b.n5", mode="w")
        shutil.rmtree(tmp_path / "b.n5/a")
        write_array(tmp_path / "b.n5", resume=True)
        assert record.exists()
        CHANGES[change](tmp_path / "b.n5")
        assert not record.exists()


def test_a_store_without_times_has_no_finished_writes() -> None:
    store: Any = MemoryStore()
    write_array(store, resume=True)
    with pytest.raises(NodeExistsError):
        write_array(store, resume=True)


class StoppedError(BaseException):
    """The process was killed."""


@pytest.mark.more
@pytest.mark.parametrize("write", [write_array, write_dataset])
def test_a_write_that_stops_at_any_step_is_known_to_have_finished(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [1 << 60]

    def stops(method: Callable[..., None]) -> Callable[..., None]:
        def call(store: LocalStore, *arguments: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise StoppedError
            method(store, *arguments)

        return call

    for name in ("set", "delete", "clear_folder"):
        monkeypatch.setattr(LocalStore, name, stops(getattr(LocalStore, name)))
    with dask.config.set(scheduler="sync"):
        write(tmp_path / "whole.n5", resume=True)
        steps = range((1 << 60) - left[0])
        assert len(steps) > 10
        expected = contents(tmp_path / "whole.n5").keys()
        for step in steps if EXHAUSTIVE else spread(steps, 8):
            place, left[0] = tmp_path / f"{step}.n5", step
            with pytest.raises(StoppedError):
                write(place, resume=True)
            left[0] = 1 << 60
            write(place, resume=True)
            again: Any = write(place, resume=True)
            report = again["a"] if write is write_dataset else again
            assert set(report["worker"].values.flat) == {"an earlier run"}
            np.testing.assert_array_equal(open_array(place, "a")[...], NUMBERS)
            assert contents(place).keys() == expected


def test_a_copied_container_does_not_count_as_finished(tmp_path: Path) -> None:
    write_array(tmp_path / "b.n5", resume=True)
    shutil.copytree(tmp_path / "b.n5", tmp_path / "c.n5", copy_function=shutil.copyfile)
    (tmp_path / "c.n5/a/0/0").touch()
    with pytest.raises(NodeExistsError):
        write_array(tmp_path / "c.n5", resume=True)


def test_a_copy_that_has_ended_is_known_by_its_source(tmp_path: Path) -> None:
    to_n5(NUMBERS, tmp_path / "b.n5", "a")
    copy(tmp_path / "b.n5", tmp_path / "c.n5", resume=True)
    assert begin_copy(tmp_path / "b.n5", "", tmp_path / "c.n5", resume=True).ended
    open_array(tmp_path / "c.n5", "a", mode="r+")[...] = 0
    with pytest.raises(NodeExistsError, match="no write of it is unfinished"):
        copy(tmp_path / "b.n5", tmp_path / "c.n5", resume=True)


def test_an_array_of_another_shape_is_told_to_be_another(tmp_path: Path) -> None:
    to_n5(da.ones((2, 2)), tmp_path / "b.n5", "a")
    with pytest.raises(NodeExistsError, match=r"the new array is \(4, 6\) uint8"):
        write_array(tmp_path / "b.n5", resume=True)
    np.testing.assert_array_equal(open_array(tmp_path / "b.n5", "a")[...], np.ones((2, 2)))


def test_the_first_frame_is_not_told_to_replace_what_was_appended(tmp_path: Path) -> None:
    frames = [xr.Dataset({"a": (("time", "x"), np.full((1, 8), n))}) for n in range(3)]
    frames[0].n5.to_n5(tmp_path / "b.n5", resume=True)
    for frame in frames[1:]:
        frame.n5.to_n5(tmp_path / "b.n5", append_dim="time", resume=True)
    before = contents(tmp_path)
    with pytest.raises(NodeExistsError, match="larger along 'time' from 1 to 3") as caught:
        frames[0].n5.to_n5(tmp_path / "b.n5", resume=True)
    assert "there is nothing to do" in str(caught.value)
    assert "mode='w' would remove what was appended" in str(caught.value)
    assert contents(tmp_path) == before


@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
def test_what_another_write_left_is_not_called_finished(tmp_path: Path) -> None:
    to_n5(NUMBERS, tmp_path / "b.n5", "a", compute=False)
    begin(tmp_path / "b.n5", "a")
    with pytest.raises(NodeExistsError, match="an unfinished write of different data"):
        xr.Dataset({"b": ("x", [1.0])}).n5.to_n5(tmp_path / "b.n5", resume=True)
    begin_copy(tmp_path / "b.n5", "", tmp_path / "c.n5")
    to_n5(NUMBERS, tmp_path / "b.n5", "more")
    with pytest.raises(NodeExistsError, match="it has an unfinished write of something else"):
        copy(tmp_path / "b.n5", tmp_path / "c.n5", resume=True)


@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
def test_a_write_again_without_resume_is_refused_with_the_unfinished_arrays(tmp_path: Path) -> None:
    def stop(_: np.ndarray) -> np.ndarray:
        raise RuntimeError("killed")

    numbers = da.ones((4, 6), chunks=2).map_blocks(stop, dtype="f8")
    dataset = xr.Dataset({"slow": (("y", "x"), numbers)})
    with pytest.raises(RuntimeError, match="killed"):
        dataset.n5.to_n5(tmp_path / "b.n5")
    hint = "it has an unfinished write of slow; resume it with resume=True"
    with pytest.raises(NodeExistsError, match=hint):
        dataset.n5.to_n5(tmp_path / "b.n5")


def test_a_write_that_begins_while_another_ends_keeps_its_hint(tmp_path: Path) -> None:
    create_array(tmp_path, "a", shape=(4,), dtype="u1")
    store = LocalStore(str(tmp_path))
    one, other = (WriteMarker(store=store, path="a", token=char * 32) for char in "ab")
    one.begin({})
    end = one.ending(records=True)
    other.begin({})
    end()
    with pytest.warns(UnfinishedWriteWarning):
        open_array(tmp_path, "a")
    other.end()
    assert not list((tmp_path / "a").glob(".*"))


def frame(number: int, *, placed: bool = True) -> xr.Dataset:
    """One frame, perhaps with its time."""
    dataset = xr.Dataset({"a": (("t", "x"), da.full((1, 4), number + 1, chunks=2, dtype="i2"))})
    return dataset.assign_coords(t=[float(number)]) if placed else dataset


def append_frames(place: Path, *, placed: bool, named: bool = False) -> int:
    """Append three frames as a script does; return how many of them had been appended."""
    refused = 0
    for number in (1, 2, 3):
        name: Any = f"frame {number}" if named else True
        try:
            frame(number, placed=placed).n5.to_n5(place, append_dim="t", resume=name)
        except NodeExistsError as error:
            assert "it has been appended already" in str(error)  # noqa: PT017
            refused += 1
    return refused


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize(("placed", "named"), [(True, False), (False, False), (False, True)])
def test_a_finished_append_is_recognised_wherever_it_is(
    tmp_path: Path, name: str, placed: bool, named: bool
) -> None:
    place = tmp_path / name
    frame(0, placed=placed).n5.to_n5(place)
    for refused in (0, 3, 3):
        assert append_frames(place, placed=placed, named=named) == refused
        assert open_array(place, "a")[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize("how", ["replaced", "trimmed", "not recorded"])
def test_what_is_gone_is_appended_again(tmp_path: Path, name: str, how: str) -> None:
    place = tmp_path / name
    frame(0, placed=False).n5.to_n5(place)
    append_frames(place, placed=False)
    if how == "replaced":
        frame(0, placed=False).n5.to_n5(place, mode="w")
    elif how == "trimmed":
        open_array(place, "a", mode="r+").resize((1, 4))
    else:
        (record,) = tmp_path.rglob("appended.json")
        record.write_text('[["x", 1], 7, {"a": []}]')
        open_array(place, "a", mode="r+").resize((1, 4))
    assert append_frames(place, placed=False) == 0
    assert open_array(place, "a")[:, 0].tolist() == [1, 2, 3, 4]


def test_the_record_of_appends_is_bounded(tmp_path: Path) -> None:
    frame(0, placed=False).n5.to_n5(tmp_path)
    append_frames(tmp_path, placed=False)
    record = tmp_path / ".digests/appended.json"
    rows = json.loads(record.read_text())
    record.write_text(json.dumps([[f"{n:032x}", n, n + 1] for n in range(1000)] + rows))
    frame(4, placed=False).n5.to_n5(tmp_path, append_dim="t", resume=True)
    after = json.loads(record.read_text())
    assert len(after) == 1000
    assert after[-4:-1] == rows
    frame(5, placed=False).n5.to_n5(tmp_path, append_dim="t")
    assert json.loads(record.read_text()) == after  # without `resume` nothing is recorded


def test_changes_of_a_report_are_not_in_the_next_one() -> None:
    store = MemoryStore()
    first, second = (to_n5(np.ones((4, 6)), store, name, chunks=2) for name in "ab")
    assert isinstance(first, xr.Dataset)
    assert isinstance(second, xr.Dataset)
    before = second.copy(deep=True)
    for dim in first.dims:
        first[dim].attrs["seen"] = True
        first.coords[dim].encoding["dtype"] = "i1"
        assert not first[dim].values.flags.writeable
    third = to_n5(np.ones((4, 6)), store, "b", chunks=2, mode="w")
    xr.testing.assert_identical(third[["bytes", "digest"]], before[["bytes", "digest"]])
    assert all(not third[dim].encoding for dim in third.dims)
    assert third.sel(dict.fromkeys(third.dims, 1))["bytes"] > 0
