"""A resumed write warns if the user's functions have changed since it began."""

from __future__ import annotations

import functools
import importlib
import linecache
import sys
import warnings
from typing import TYPE_CHECKING, Any

import dask.array as da
import pytest
import xarray as xr

from xarray_n5 import open_array, to_n5

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
