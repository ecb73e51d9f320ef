"""A resumed write warns if the user's functions or stored sources have changed since it began."""

from __future__ import annotations

import functools
import importlib
import linecache
import shutil
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.containers import NAMES
from tests.support.stores import CountingStore
from tests.writing.test_resuming import FailingStore, StoppedError
from xarray_n5 import copy, from_n5, open_array, pyramid, to_n5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FAILS = """
LEVEL = 20
def above(block):
    return block > LEVEL
class Filter:
    def __call__(self, block):
        return work(block)
def work(block):
    above(block)
    raise RuntimeError("out of power")
"""
WORKS = FAILS.replace('raise RuntimeError("out of power")', "return above(block) * 1")
ONES = da.ones(8, chunks=2)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """A module of the user's with a given source."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imported(source: str) -> Any:
        (tmp_path / "steps_of_a_user.py").write_text(source, encoding="utf-8")
        sys.modules.pop("steps_of_a_user", None)
        importlib.invalidate_caches()
        linecache.clearcache()
        return importlib.import_module("steps_of_a_user")

    yield imported
    sys.modules.pop("steps_of_a_user", None)


class Hidden:
    """A function of the user's that loads its attributes, and cannot."""

    def __call__(self, block: Any) -> Any:
        return block

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(name)


def blocks(module: Any) -> Any:
    return ONES.map_blocks(module.work, dtype="i8")


def of_a_partial(module: Any) -> Any:
    return ONES.map_blocks(functools.partial(module.work), dtype="i8")


def of_an_object(module: Any) -> Any:
    return ONES.map_blocks(module.Filter(), dtype="i8", name="filtered")


def of_xarray(module: Any) -> Any:
    found = xr.apply_ufunc(
        module.work, xr.DataArray(ONES), dask="parallelized", output_dtypes=["i8"]
    )
    return found.data


WAYS = [blocks, of_a_partial, of_an_object, of_xarray]


def stop(source: Any) -> None:
    with pytest.raises(RuntimeError, match="power"):
        to_n5(source, "a.n5", "a", resume=True)


@pytest.mark.parametrize("way", WAYS)
def test_changed_functions_are_named(way: Callable[[Any], Any], steps: Any) -> None:
    stop(way(steps(FAILS)))
    with pytest.warns(UserWarning, match="steps_of_a_user.work has changed since the unfinished"):
        to_n5(way(steps(WORKS)), "a.n5", "a", resume=True)
    assert (open_array("a.n5", "a")[...] == 0).all()


def test_a_mixture_is_reported_whichever_version_resumes_it(steps: Any) -> None:
    stop(blocks(steps(FAILS)))
    with pytest.warns(UserWarning, match="has changed"):
        stop(blocks(steps(FAILS.replace("block > LEVEL", "block >= LEVEL"))))
    with pytest.warns(UserWarning, match="has changed"):
        stop(blocks(steps(FAILS)))


def test_objects_that_fail_when_they_are_looked_at_are_written(steps: Any) -> None:
    steps("")
    to_n5(ONES.map_blocks(Hidden(), dtype="f8", name="hidden"), "a.n5", "a", resume=True)
    assert (open_array("a.n5", "a")[...] == 1).all()


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        pytest.param("LEVEL = 20", "LEVEL = 0", "above", id="a constant"),
        pytest.param("block > LEVEL", "block >= LEVEL", "above", id="a function of a function"),
    ],
)
def test_what_functions_name_counts(before: str, after: str, name: str, steps: Any) -> None:
    stop(blocks(steps(FAILS)))
    with pytest.warns(UserWarning, match=f"code of steps_of_a_user.{name} has changed"):
        stop(blocks(steps(FAILS.replace(before, after))))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("    above", "    # now\n\n    above"), id="a comment"),
        pytest.param(("class", "def other():\n    return 1\nclass"), id="another function"),
        pytest.param(("", ""), id="nothing"),
    ],
)
def test_other_changes_are_not_reported(change: tuple[str, str], steps: Any) -> None:
    stop(blocks(steps(FAILS)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stop(blocks(steps(FAILS.replace(*change, 1))))


def test_a_damaged_record_is_ignored(steps: Any, tmp_path: Path) -> None:
    stop(blocks(steps(FAILS)))
    (mark,) = tmp_path.glob("a.n5/a/.writing*/mark.json")
    text = mark.read_text(encoding="utf-8")
    begin = text.index('"code": {')
    end = text.index("}", begin) + 1
    mark.write_text(f'{text[:begin]}"code": [[1]]{text[end:]}', encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_n5(blocks(steps(WORKS)), "a.n5", "a", resume=True)


# Stored sources

VALUES = np.arange(1, 65, dtype="u2").reshape(8, 8)


def by_the_package(place: Any) -> Any:
    return from_n5(place, "a") + 1


def by_the_engine(place: Any) -> Any:
    return xr.open_dataset(place, engine="n5", chunks={})["a"].data + 1


def as_array(data: Any, store: Any, **options: Any) -> None:
    to_n5(data, store, "b", chunks=2, **options)


def as_dataset(data: Any, store: Any, **options: Any) -> None:
    xr.Dataset({"b": (("y", "x"), data)}).n5.to_n5(store, **options)


def as_pyramid(data: Any, store: Any, **options: Any) -> None:
    pyramid(data, store, "p", levels=1, chunks=2, axes=["y", "x"], **options)


def killed(write: Callable[[Any], object]) -> FailingStore:
    """Write to a store, until the process is killed after a part of it; return the store."""
    whole, store = FailingStore(), FailingStore()
    with dask.config.set(scheduler="sync"):
        write(whole)
        store.left[0] = whole.steps // 2
        with pytest.raises(StoppedError):
            write(store)
    store.left[0] = 1 << 60
    return store


def change(place: Path, how: str) -> None:
    """Change all of a stored array, or one chunk."""
    array = open_array(place, "a", mode="r+")
    if how == "one chunk":
        array[2:4, 2:4] = 7
    else:
        array[...] = VALUES + 100


@pytest.mark.matrix(4)
@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("read", [by_the_package, by_the_engine])
@pytest.mark.parametrize("write", [as_array, as_dataset, as_pyramid])
def test_a_resume_warns_if_a_source_has_changed(
    tmp_path: Path, form: str, read: Any, write: Any
) -> None:
    place = tmp_path / NAMES[form]
    to_n5(VALUES, place, "a", chunks=2)
    data = read(place)
    store = killed(lambda store: write(data, store, resume="mine"))
    change(place, "one chunk" if write is as_dataset else "all")
    with dask.config.set(scheduler="sync"):
        store.left[0] = 5
        for _ in range(2):  # and so does each later one
            with (
                pytest.warns(UserWarning, match=r"a changed since the unfinished write of"),
                suppress(StoppedError),
            ):
                write(read(place), store, resume="mine")
            store.left[0] = 1 << 60


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_resumed_copy_warns_if_its_source_has_changed(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    to_n5(VALUES, place, "a", chunks=2)
    to_n5(VALUES, place, "b", chunks=2)
    store: Any = killed(lambda store: copy(place, store, format=form))
    change(place, "one chunk")
    with dask.config.set(scheduler="sync"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        copy(place, store, format=form, resume=True)
    assert [str(each.message).partition(" changed since")[0] for each in seen] == [f"{place}/a"]


@pytest.mark.matrix(3)
@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("write", [as_array, as_dataset, as_pyramid])
def test_a_resume_is_silent_if_no_source_has_changed(tmp_path: Path, form: str, write: Any) -> None:
    def earlier() -> None:
        """Write the source as the first step of a script, which is repeated."""
        to_n5(da.from_array(VALUES, chunks=2), tmp_path / NAMES[form], "a", resume=True)

    earlier()
    store = killed(lambda store: write(by_the_package(tmp_path / NAMES[form]), store, resume=True))
    earlier()
    with dask.config.set(scheduler="sync"), warnings.catch_warnings():
        warnings.simplefilter("error")
        write(by_the_package(tmp_path / NAMES[form]), store, resume=True)


def test_an_append_that_reads_its_own_group_is_resumed_silently() -> None:
    def write(store: Any) -> None:
        if "attributes.json" not in store.inner.items:
            whole = {"a": (("y", "x"), VALUES), "b": (("y", "x"), VALUES)}
            xr.Dataset(whole).n5.to_n5(store, encoding={"a": {"chunks": (2, 8)}})
        stored = [from_n5(store, name)[:8] for name in ("b", "a")]
        more = {name: (("y", "x"), data + 1) for name, data in zip("ab", stored, strict=True)}
        xr.Dataset(more).n5.to_n5(store, append_dim="y", resume="mine")

    store: Any = killed(write)
    with dask.config.set(scheduler="sync"), warnings.catch_warnings():
        warnings.simplefilter("error")
        write(store)
    np.testing.assert_array_equal(open_array(store, "a")[8:], VALUES + 1)


def test_a_stamp_is_a_few_requests_however_many_chunks_there_are(tmp_path: Path) -> None:
    for size in (8, 80):
        source = CountingStore()
        to_n5(np.ones((size, size), "u1"), source, "a", chunks=2)
        lazy = from_n5(source, "a", chunks=-1)
        source.requests()
        to_n5(lazy, tmp_path / f"{size}.n5", "b", compute=False)
        assert source.requests() == {"stamp": 5}


@pytest.mark.parametrize("name", ["h5py", "zarr"])
def test_a_resume_warns_if_a_file_of_another_library_has_changed(tmp_path: Path, name: str) -> None:
    library: Any = pytest.importorskip(name)
    place = tmp_path / "source"

    @contextmanager
    def stored(value: int) -> Iterator[Any]:
        """Store an array anew, and return it as a Dask array that always has the same name."""
        values = np.full(8 + value, value)
        if name == "h5py":
            with library.File(place, "w") as file:
                file["a"] = values
            file = library.File(place, "r")
            opened = file["a"]
        else:
            shutil.rmtree(place, ignore_errors=True)
            library.save_array(str(place), values)
            opened = library.open_array(str(place), mode="r")
        yield da.from_array(opened, chunks=2, name="source", inline_array=True)[:8]
        if name == "h5py":
            file.close()

    def write(store: Any) -> None:
        to_n5(data, store, "b", resume=True)

    with stored(1) as data:
        store = killed(write)
    with (
        stored(2) as data,
        dask.config.set(scheduler="sync"),
        pytest.warns(UserWarning, match="source.* changed since"),
    ):
        write(store)
