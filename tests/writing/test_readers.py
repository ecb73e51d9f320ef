"""Readers of a growing series, at every change of its store, see the old or the new one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import xarray as xr

from tests.support.exhaustive import EXHAUSTIVE, spread
from tests.support.stopping import FailingStore
from tests.writing.test_promises import append, begin_series
from xarray_n5 import ResumeError
from xarray_n5.errors import AlignmentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

OLD, NEW = 4, 9
"""The lengths of the series."""


def check_array(values: np.ndarray, expected: np.ndarray) -> None:
    """An array is as before, or as after."""
    assert len(values) in (OLD, NEW)
    np.testing.assert_array_equal(values, expected[: len(values)])


FRAMES = np.arange(NEW)
EXPECTED = {"v": np.repeat(FRAMES[:, None] + 1, 4, axis=1), "w": FRAMES * 0.5, "t": FRAMES * 1.0}


def by_zarr(place: Path, _: str) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    for name in ("v", "w"):
        check_array(zarr.open_array(place / name, mode="r")[...], EXPECTED[name])


def by_tensorstore(place: Path, form: str) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    driver = {"n5": "n5", "zarr2": "zarr", "zarr3": "zarr3"}[form]
    for name in ("v", "w"):
        kvstore = {"driver": "file", "path": f"{place / name}/"}
        array = tensorstore.open({"driver": driver, "kvstore": kvstore}).result()
        values = np.asarray(array.read().result())
        check_array(values.T if form == "n5" else values, EXPECTED[name])


def check_dataset(dataset: xr.Dataset) -> None:
    assert len({dataset[name].sizes["t"] for name in EXPECTED}) == 1
    for name, values in EXPECTED.items():
        check_array(dataset[name].values, values)


def by_our_engine(place: Path, _: str) -> None:
    check_dataset(xr.open_dataset(place, engine="n5").load())


def by_consolidated_metadata(place: Path, _: str) -> None:
    pytest.importorskip("zarr", minversion="3")
    check_dataset(xr.open_zarr(place, consolidated=True).load())


READERS: dict[Any, tuple[str, ...]] = {
    by_zarr: ("zarr2", "zarr3"),
    by_tensorstore: ("n5", "zarr2", "zarr3"),
    by_our_engine: ("n5", "zarr2", "zarr3"),
    by_consolidated_metadata: ("zarr2", "zarr3"),
}


@dataclass(frozen=True, eq=False)
class Steps(FailingStore):
    """A store that keeps its state after each change."""

    states: list[dict[str, bytes]] = field(default_factory=list)

    def _step(self) -> None:
        self.states.append(dict(self.inner.items))


@pytest.mark.more
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_readers_see_the_old_or_the_new_series_at_every_change(tmp_path: Path, form: str) -> None:
    store = Steps()
    with dask.config.set(scheduler="sync"):
        begin_series(store, form)
        store.states.clear()
        append(store, OLD, NEW - OLD)
    states = [*store.states, dict(store.inner.items)]
    assert len(states) > 15
    readers: list[Callable[[Path, str], None]] = [
        r for r, forms in READERS.items() if form in forms
    ]
    for state in states if EXHAUSTIVE else [*spread(states[:-14], 3), *states[-14:]]:
        place = tmp_path / "series"
        shutil.rmtree(place, ignore_errors=True)
        for key, data in state.items():
            (place / key).parent.mkdir(parents=True, exist_ok=True)
            (place / key).write_bytes(data)
        for reader in readers:
            reader(place, form)


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize(("first", "count"), [(0, 3), (3, 1)])
def test_a_region_is_written_or_refused_by_name_while_a_series_grows(
    form: str, first: int, count: int
) -> None:
    """Some arrays may have grown, and others not yet."""
    store = Steps()
    with dask.config.set(scheduler="sync"):
        begin_series(store, form)
        store.states.clear()
        append(store, OLD, NEW - OLD)
        refused = 0
        for state in store.states:
            place: Any = FailingStore()
            place.inner.items.update(state)
            part = xr.Dataset({"v": (("t", "x"), np.full((count, 4), -5, "i4"))})
            try:
                part.n5.to_n5(place, region={"t": slice(first, first + count)})
            except (ResumeError, AlignmentError):
                refused += 1
                continue
            series = xr.open_dataset(place, engine="n5").load()
            values = np.array(EXPECTED["v"])[: series.sizes["t"]]
            values[first : first + count] = -5
            np.testing.assert_array_equal(series["v"].values, values)
    assert 5 < refused < len(store.states)
