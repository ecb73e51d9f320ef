"""What a killed or repeated write never does, in each format: promises, one test each."""

from __future__ import annotations

import importlib
import sys
import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.containers import FULL, NAMES
from tests.support.stopping import FailingStore, StoppedError
from tests.support.stores import CountingStore
from tests.whole.test_costs import calls
from xarray_n5 import Axis, Geometry, N5Error, NodeExistsError, ResumeError, open_array, to_n5
from xarray_n5.errors import FinishedAppendError
from xarray_n5.stores import LocalStore
from xarray_n5.writing.deferred import SavedWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")

REFUSALS = (ResumeError, NodeExistsError)


def failing(block: np.ndarray, block_info: Any = None) -> np.ndarray:
    if fails and block_info[None]["chunk-location"] == fails[0]:
        raise StoppedError
    return block


fails: list[tuple[int, ...]] = []
"""The block at which a write is killed."""


def blocks(values: np.ndarray, chunks: Any = 2) -> da.Array:
    """Return blocks that can be killed, under the same name each time."""
    source: Any = da.from_array(values, chunks=chunks)
    return source.map_blocks(failing, name=f"may-fail-{source.name}", dtype=values.dtype)  # type: ignore[no-any-return]


def kill(write: Callable[[], object], at: tuple[int, ...]) -> None:
    """Kill a write at one of its blocks."""
    fails[:] = [at]
    try:
        with dask.config.set(scheduler="sync"), pytest.raises(StoppedError):
            write()
    finally:
        fails.clear()


def frames(first: int, count: int) -> xr.Dataset:
    """Frames whose values are their times; chunks of the stored series have three of them."""
    times = np.arange(first, first + count)
    values = blocks(np.repeat(times[:, None] + 1, 4, axis=1).astype("i4"), (2, 4))
    means = blocks(times * 0.5, 2)
    return xr.Dataset({"v": (("t", "x"), values), "w": ("t", means)}, {"t": times * 1.0})


def begin_series(place: Any, form: Any, count: int = 4) -> None:
    frames(0, count).n5.to_n5(place, format=form, encoding={"v": {"chunks": (3, 4)}})


def append(place: Any, first: int, count: int, **options: Any) -> None:
    frames(first, count).n5.to_n5(place, append_dim="t", **options)


def check_series(place: Any, *times: int) -> None:
    """Each of these frames is stored once, with its values, and nothing is unfinished."""
    series = xr.open_dataset(place, engine="n5").load()
    assert sorted(series["t"].values.tolist()) == sorted(times)
    np.testing.assert_array_equal(series["v"].values, series["t"].values[:, None] + [1] * 4)
    np.testing.assert_array_equal(series["w"].values, series["t"].values * 0.5)
    assert unfinished(place) == []


def unfinished(place: Path) -> list[str]:
    """Return the records of unfinished writes, beside or in a container."""
    return [path.name for path in place.parent.rglob("open-*")] + [
        path.name for path in place.parent.rglob("clears-*")
    ]


# A correction between a kill and its resume

VALUES = np.arange(35.0, dtype="f4").reshape(7, 5)


def image(scale: float, unit: str) -> xr.DataArray:
    x = xr.Variable("x", np.arange(5) * scale, {"units": unit})
    return xr.DataArray(blocks(VALUES), dims=("y", "x"), coords={"x": x}, name="a")


def array(place: Path, form: Any, **more: Any) -> None:
    change = more.pop("change", "")
    axes = [Axis(name="y", scale=2.5), Axis(name="x", scale=4.5 if change == "axes" else 3.5)]
    attributes = {"stain": "DAPI" if change == "attributes" else "GFP"}
    to_n5(blocks(VALUES), place, "a", axes=axes, attributes=attributes, format=form, **more)


def data_array(place: Path, form: Any, **more: Any) -> None:
    change = more.pop("change", "")
    values = image(0.25 if change == "axes" else 0.5, "um")
    stain = "DAPI" if change == "attributes" else "GFP"
    values.assign_attrs(stain=stain).n5.to_n5(place, "a", format=form, **more)


def dataset(place: Path, form: Any, **more: Any) -> None:
    change = more.pop("change", "")
    values = image(0.5, "nm" if change == "axes" else "um").to_dataset()
    values.attrs["operator"] = "B" if change == "attributes" else "A"
    values.n5.to_n5(place, format=form, **more)


KINDS = [array, data_array, dataset]


@pytest.mark.matrix(12)
@pytest.mark.parametrize("resume", [True, "run 7"])
@pytest.mark.parametrize("change", ["axes", "attributes"])
@pytest.mark.parametrize("write", KINDS, ids=lambda write: write.__name__)
@FULL
def test_a_correction_after_a_kill_is_refused_by_name(
    tmp_path: Path, form: Any, write: Any, change: str, resume: bool | str
) -> None:
    place = tmp_path / NAMES[form]
    kill(lambda: write(place, form, resume=resume), (2, 1))
    for error, finish in ((ResumeError, True), (REFUSALS, False)):
        with pytest.raises(error) as refused:
            write(place, form, resume=resume, change=change)
        assert any(word in str(refused.value) for word in NAMED[change]), str(refused.value)
        if finish:
            write(place, form, resume=resume)
    write(place, form, resume=resume)
    stored = open_array(place, "a/a" if write is data_array else "a")
    np.testing.assert_array_equal(stored[...], VALUES)


NAMED = {
    "axes": ("axes", "scale", "unit", "coordinate", "attributes", "'a/x'", "'x'"),
    "attributes": ("attribute",),
}


# Appends


@FULL
def test_an_append_after_a_killed_one_is_refused_by_name(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    begin_series(place, form)
    kill(lambda: append(place, 4, 5), (1, 0))
    for more in ({}, {"resume": True}):
        with pytest.raises(ResumeError, match="append"):
            append(place, 30, 2, **more)
    assert xr.open_dataset(place, engine="n5")["w"].values.tolist() == [0.0, 0.5, 1.0, 1.5]
    if form != "hdf5":  # which has no chunks beyond the end of a dataset, and grows first
        assert open_array(place, "v").shape == (4, 4)
    append(place, 4, 5, resume=True)
    append(place, 30, 2)
    check_series(place, *range(9), 30, 31)


@FULL
def test_an_append_to_an_unfinished_first_write_is_refused(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    kill(lambda: begin_series(place, form), (1, 0))
    with pytest.raises(N5Error, match="unfinished"):
        append(place, 4, 3)
    with pytest.raises(N5Error, match="unfinished"):
        append(place, 4, 3, resume=True)
    frames(0, 4).n5.to_n5(place, format=form, encoding={"v": {"chunks": (3, 4)}}, resume=True)
    append(place, 4, 3)
    check_series(place, *range(7))


# Repeated calls


MODULE = """
LEVEL = {level}
def above(block, block_info=None):
    from tests.writing.test_promises import failing
    return failing((block > LEVEL).astype("u1"), block_info)
"""


@pytest.fixture
def threshold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Any]]:
    """Import a module of the user's with a threshold."""
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "code").mkdir()

    def imported(level: int) -> Any:
        (tmp_path / "code/threshold_of_user.py").write_text(MODULE.format(level=level))
        sys.modules.pop("threshold_of_user", None)
        importlib.invalidate_caches()
        module = importlib.import_module("threshold_of_user")
        return da.from_array(VALUES, chunks=3).map_blocks(module.above, dtype="u1", name="above")

    yield imported
    sys.modules.pop("threshold_of_user", None)


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("name", [True, "a name"])
@FULL
def test_a_changed_threshold_is_refused_by_the_name_of_its_file(
    tmp_path: Path, form: Any, finished: bool, name: Any, threshold: Callable[[int], Any]
) -> None:
    place = tmp_path / NAMES[form]

    def write(level: int) -> None:
        to_n5(threshold(level), place, "mask", format=form, resume=name)

    if finished:
        write(9)
    else:
        kill(lambda: write(9), (2, 1))
    with pytest.raises(REFUSALS, match=r"threshold_of_user.*changed"):
        write(11)
    write(9)
    np.testing.assert_array_equal(open_array(place, "mask")[...], VALUES > 9)


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_repeated_call_makes_as_many_requests_at_any_number_of_chunks(form: Any) -> None:
    counts = {}
    for count in (10, 10_000):
        store: Any = CountingStore()
        source = da.arange(count, chunks=-1, dtype="u2")
        to_n5(source, store, "a", chunks=1, format=form)
        store.requests()
        to_n5(source, store, "a", chunks=1, format=form, resume=True)
        counts[count] = store.requests()
    assert counts[10] == counts[10_000]
    assert sum(counts[10].values()) <= 5, counts


def test_planning_to_replace_costs_the_same_for_any_number_of_tasks() -> None:
    counts = []
    for side in (2, 60):
        store: Any = CountingStore()
        to_n5(np.zeros((side,) * 3), store, "a", chunks=1 if side == 2 else 60)
        source: Any = da.ones((side,) * 3, chunks=1) + da.zeros((side,) * 3, chunks=1)
        write = partial(to_n5, source, store, "a", mode="w", compute=False)
        counts.append(calls(write))
    assert counts[1] < counts[0] + 5000, counts  # for 8 and 216,000 tasks


AXES = {
    "a scale of nine digits": [Axis(name="y"), Axis(name="x", scale=4.00000001, unit="nm")],
    "an offset": [Axis(name="y"), Axis(name="x", scale=4.0, offset=1e-9, unit="nm")],
    "the last of many names": [
        Axis(name="y", labels=(*"abcde", "g")),
        Axis(name="x", scale=4.0, unit="nm"),
    ],
}


@pytest.mark.parametrize("name", AXES)
def test_a_small_correction_of_axes_is_never_ignored(tmp_path: Path, name: str) -> None:
    labels = tuple("abcdef") if "names" in name else None
    axes = [Axis(name="y", labels=labels), Axis(name="x", scale=4.0, unit="nm")]
    values = da.arange(6 * 5, chunks=-1, dtype="i4").reshape(6, 5).rechunk(3)
    to_n5(values, tmp_path / "a.n5", "a", axes=Geometry(tuple(axes)))
    to_n5(values, tmp_path / "a.n5", "a", axes=Geometry(tuple(axes)), resume=True)
    with pytest.raises(NodeExistsError, match=r"axes|along|axis"):
        to_n5(values, tmp_path / "a.n5", "a", axes=Geometry(tuple(AXES[name])), resume=True)


@FULL
def test_an_assignment_after_a_resumed_write_is_saved_is_no_chunk_of_it(
    tmp_path: Path, form: Any
) -> None:
    place, expected = tmp_path / NAMES[form], np.arange(1, 36, dtype="i2").reshape(7, 5)
    source = blocks(expected.copy(), (3, 2))
    kill(lambda: to_n5(source, place, "a", format=form), (2, 1))
    resumed = to_n5(source, place, "a", format=form, resume=True, compute=False)
    resumed.save(tmp_path / "plan")
    array = open_array(place, "a", mode="r+")
    missing, stored = (tuple(np.argwhere((array[...] != 0) == full)[0]) for full in (False, True))
    array[missing] = array[stored] = -1
    expected[stored] = -1
    for share in ((1, 5), (3, 5), None) if form != "hdf5" else (None,):
        SavedWrite.load(tmp_path / "plan").run(share=share)
    np.testing.assert_array_equal(array[...], expected)
    assert unfinished(place) == []


# Records that others have written

DAMAGE: dict[str, bytes] = {
    "not JSON": b'{"token": ',
    "empty": b"",
    "a list": b"[1, 2]",
    "huge": b'{"by": "' + b"x" * (1 << 21) + b'"}',
    "deep": b"[" * 100_000,
    "wrong types": b'{"token": 7, "began": [], "fresh": "yes", "is": 3, "grows": {"v": 4}}',
    "other paths": b'{"began": "../../x", "grows": {"../v": [[4], [9]]}, "commit": true}',
    "foreign members": b'{"token": "0123456789abcdef", "by": null, "exec": "rm"}',
    "surrogates": b'{"by": "\\ud800", "at": "\\udfff"}',
}


def damage(place: Path, what: str) -> None:
    for record in [*place.parent.rglob("open-*.json")]:
        record.write_bytes(DAMAGE[what])


@pytest.mark.matrix(9)
@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("kind", ["array", "dataset", "append"])
@FULL
def test_a_damaged_record_is_never_a_raw_error(
    tmp_path: Path, form: Any, kind: str, what: str
) -> None:
    place = tmp_path / NAMES[form]
    if kind == "array":
        kill(lambda: array(place, form), (1, 1))
    elif kind == "dataset":
        kill(lambda: begin_series(place, form), (1, 0))
    else:
        begin_series(place, form)
        kill(lambda: append(place, 4, 5), (1, 0))
    damage(place, what)
    writes: list[Callable[[], object]] = [
        lambda: array(place, form, resume=True),
        lambda: append(place, 4, 5, resume=True),
        lambda: append(place, 4, 5),
        lambda: xr.open_dataset(place, engine="n5").load(),
        lambda: dataset(place, form, mode="w"),
    ]
    for write in writes[:1] + writes[3:] if kind == "array" else writes[1:]:
        with suppress(N5Error), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write()
    assert unfinished(place) == [] or form == "hdf5" or kind == "append"
    np.testing.assert_array_equal(open_array(place, "a")[...], VALUES)


FOREIGN = ["open-x.json", "open-append-.json", "done", "notes-zz", "clears-", ".DS_Store", "a b"]


@FULL
def test_foreign_names_among_records_are_ignored(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    begin_series(place, form)
    root = LocalStore(str(tmp_path if form != "hdf5" else tmp_path / f".{place.name}.kept"))
    for path in ("", "v"):
        for name in FOREIGN:
            key = "/".join(filter(None, [place.name * (form != "hdf5"), path, ".xn5", name]))
            with suppress(OSError):  # "done" is a folder
                root.set(key, b"foreign")
    append(place, 4, 3, resume=True)
    with pytest.raises(FinishedAppendError):
        append(place, 4, 3, resume=True)
    assert xr.open_dataset(place, engine="n5")["w"].shape == (7,)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_zarr_lists_a_group_without_warnings_after_writes_and_appends(
    tmp_path: Path, form: Any
) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    place = tmp_path / NAMES[form]
    begin_series(place, form)
    append(place, 4, 3, resume=True)
    append(place, 7, 3)
    array(place, form, mode="w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        members = dict(zarr.open_group(place, mode="r").members(max_depth=None))
    assert {"v", "w", "t", "a"} <= members.keys()


@pytest.mark.parametrize("mode", ["w-", "w"])
def test_chunks_of_another_write_are_not_those_of_one_killed_before_its_look(mode: Any) -> None:
    """The other one has begun between two changes of the killed one, and has removed `clears`."""
    killed, store = FailingStore(), FailingStore()
    ours, theirs = blocks(VALUES), blocks(VALUES + 7)
    with dask.config.set(scheduler="sync"):
        for steps in range(99):
            killed.stop_after(steps)
            with suppress(StoppedError):
                to_n5(ours, killed, "a", mode="w")  # type: ignore[arg-type]
            records = {key: data for key, data in killed.inner.items.items() if "/open-" in key}
            if records:
                break
        to_n5(theirs, store, "a")  # type: ignore[arg-type]
        store.inner.items.update(records)
        with suppress(N5Error):
            to_n5(ours, store, "a", mode=mode, resume=True)  # type: ignore[arg-type]
            np.testing.assert_array_equal(open_array(store, "a")[...], VALUES)  # type: ignore[arg-type]
