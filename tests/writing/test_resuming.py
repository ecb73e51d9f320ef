"""Writes that stop at any step go on, and end as if they had never stopped."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.datasets.test_write import again, days
from tests.support.exhaustive import EXHAUSTIVE, some, spread
from tests.support.killing import begin
from tests.support.stores import CountingStore
from xarray_n5 import (
    FinishedAppendError,
    NodeExistsError,
    ResumeError,
    open_array,
    pyramid,
    repair,
    to_n5,
)
from xarray_n5.datasets import other_appends
from xarray_n5.model.paths import partial_key
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from xarray_n5.model.codec import Buffer


@pytest.fixture(autouse=True)
def _stopped_appends_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_appends, "BEGINNING", 0.0)


class StoppedError(BaseException):
    """The process was killed."""


@dataclass(frozen=True, eq=False)
class FailingStore(CountingStore):
    """A store of a process that is killed at one of its changes."""

    left: list[int] = field(default_factory=lambda: [1 << 60])

    @property
    def steps(self) -> int:
        """How many changes were made."""
        return (1 << 60) - self.left[0]

    def _step(self) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise StoppedError

    def set(self, key: str, data: Buffer) -> None:
        self._step()
        super().set(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._step()
            super().delete([key])

    def delete_tree(self, prefix: str, first: str) -> None:
        self.delete([f"{prefix}/{first}"])
        self.delete([f"{prefix}/{key}" for key in self.inner.walk(prefix)])


@pytest.fixture
def alone() -> Iterator[None]:
    """One thread, which a StoppedError stops."""
    with dask.config.set(scheduler="sync"):
        yield


def lazy(first: int, count: int) -> xr.Dataset:
    """Days of measurements in blocks, but for the texts."""
    dataset = days(first, count)
    for name in ("count", "temperature"):
        dataset[name] = dataset[name].chunk(time=2)
    return dataset


SMALL = {"count": {"chunks": (2, 3)}}

BLOCKS = da.from_array(np.arange(1, 37, dtype="i4").reshape(6, 6), chunks=(2, 3))


def old(store: Any) -> None:
    days(0, 4).n5.to_n5(store, "g", encoding=SMALL)


def array(store: Any) -> None:
    to_n5(np.zeros((9, 9), "i4"), store, "a", chunks=2)


WRITES: dict[str, tuple[Callable[[Any], None], Callable[..., Any]]] = {
    "array": (
        lambda _: None,
        lambda store, **more: to_n5(BLOCKS, store, "a", chunks=2, **more),
    ),
    "array with digests": (
        lambda _: None,
        lambda store, **more: to_n5(BLOCKS, store, "a", chunks=2, checksums=True, **more),
    ),
    "sparse array": (
        lambda _: None,
        lambda store, **more: to_n5(
            BLOCKS * (BLOCKS > 20), store, "a", chunks=2, write_empty_chunks=False, **more
        ),
    ),
    "array again": (
        array,
        lambda store, **more: to_n5(BLOCKS, store, "a", mode="w", chunks=2, **more),
    ),
    "region": (
        array,
        lambda store, **more: to_n5(
            BLOCKS, store, "a", region=(slice(1, 7), slice(3, 9)), partial_chunks="merge", **more
        ),
    ),
    "same array": (
        array,
        lambda store, **more: to_n5(
            da.ones((9, 9), chunks=3, dtype="i4"), store, "a", mode="r+", **more
        ),
    ),
    "dataset": (
        lambda _: None,
        lambda store, **more: lazy(0, 4).n5.to_n5(store, "g", encoding=SMALL, **more),
    ),
    "zarr array": (
        lambda _: None,
        lambda store, **more: to_n5(
            BLOCKS, store, "g/a", chunks=2, format="zarr2", attributes={"unit": "K"}, **more
        ),
    ),
    "zarr dataset": (
        lambda _: None,
        lambda store, **more: lazy(0, 4).n5.to_n5(store, "g", format="zarr2", **more),
    ),
    "dataset again": (
        old,
        lambda store, **more: lazy(3, 5).n5.to_n5(store, "g", mode="w", **more),
    ),
    "more variables": (
        old,
        lambda store, **more: (
            lazy(5, 4)[["count"]]
            .drop_vars(["time", "name", "step"])
            .assign(new=("x", np.arange(6)))
            .n5.to_n5(store, "g", mode="a", **more)
        ),
    ),
    "longer": (
        old,
        lambda store, **more: lazy(4, 5).n5.to_n5(store, "g", append_dim="time", **more),
    ),
    "part": (
        old,
        lambda store, **more: (
            lazy(9, 2)[["count"]]
            .drop_vars(["time", "name", "step", "uneven", "x"])
            .n5.to_n5(store, "g", region={"time": slice(1, 3)}, partial_chunks="merge", **more)
        ),
    ),
    "tree": (
        lambda _: None,
        xr.DataTree.from_dict({"/": lazy(0, 2), "/a/b": lazy(0, 2)}).n5.to_n5,
    ),
}


def outcome(store: FailingStore) -> dict[str, bytes]:
    """All that is stored, but for the records of finished writes, which `resume` alone leaves."""
    records = ("appended.json", "finished.json")
    return {k: data for k, data in store.inner.items.items() if not k.endswith(records)}


@pytest.mark.matrix(5)
@pytest.mark.more
@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_stops_at_any_step_goes_on(name: str) -> None:
    prepare, write = WRITES[name]
    with dask.config.set(scheduler="sync"):
        whole = FailingStore()
        prepare(whole)
        before, prepared = whole.steps, outcome(whole)
        write(whole)
        expected = outcome(whole)
        assert not any("/.w" in key for key in expected)
        steps = range(whole.steps - before)
        assert len(steps) > 5
        for step in steps if EXHAUSTIVE else spread(steps, 8):
            store = FailingStore()
            store.inner.items.update(prepared)
            store.left[0] = step
            with pytest.raises(StoppedError):
                write(store)
            store.left[0] = 1 << 60
            begun = any(".writing" in key for key in store.inner.items)
            try:
                write(store, resume=True)
            except FileExistsError:
                assert not begun  # all is over, or not a byte of it was written
            assert outcome(store) == expected, step


def test_what_is_done_is_not_computed_again() -> None:
    seen: list[int] = []

    def noted(block: np.ndarray) -> np.ndarray:
        seen.append(int(block.flat[0]))
        return block

    source = BLOCKS.rechunk(2).map_blocks(noted, name="noted", meta=np.empty((0, 0), "i4"))
    choices: list[dict[str, Any]] = [{}, {"checksums": True}]
    for options in choices:
        for step in range(3, 12):
            store = FailingStore()
            with dask.config.set(scheduler="sync"):
                store.left[0] = step
                seen.clear()
                with pytest.raises(StoppedError):
                    to_n5(source, store, "a", chunks=2, **options)
                store.left[0] = 1 << 60
                first = list(seen)
                seen.clear()
                to_n5(source, store, "a", chunks=2, resume=True, **options)
            assert len(first) + len(seen) <= 9 + 1
            np.testing.assert_array_equal(open_array(store, "a")[...], BLOCKS)


def test_a_tree_goes_on_under_a_name_of_the_callers() -> None:
    def data() -> xr.Dataset:
        return xr.Dataset({"v": ("x", da.random.random(20, chunks=5))})

    store = FailingStore()
    store.left[0] = 9
    with dask.config.set(scheduler="sync"), pytest.raises(StoppedError):
        data().n5.to_n5(store, resume="mine")
    store.left[0] = 1 << 60
    data().n5.to_n5(store, resume="mine")
    assert (open_array(store, "v")[...] > 0).all()


def line(count: int, first: int, value: int) -> xr.Dataset:
    """Some values along time."""
    times = np.arange(first, first + count) * 1.0
    return xr.Dataset({"v": ("t", np.full(count, value, "i4"))}, {"t": ("t", times)}).chunk(t=2)


def interrupted(source: da.Array, blocks: int) -> da.Array:
    """An array of which only some blocks can be computed until it is asked again."""
    left = [blocks]

    def once(block: np.ndarray) -> np.ndarray:
        left[0] -= 1
        if left[0] < 0:
            raise StoppedError
        return block

    name, meta = f"slow-{source.name}", np.empty(0, source.dtype)
    whole: Any = source
    return cast("da.Array", whole.map_blocks(once, name=name, meta=meta))


@pytest.mark.usefixtures("alone")
def test_what_was_appended_since_stays() -> None:
    for first in (None, line(20, 10, 9)):
        store: Any = FailingStore()
        line(4, 0, 1).n5.to_n5(store)
        late = line(2, 4, 2)
        late.n5.to_n5(store, mode="a", append_dim="t", compute=False)
        if first is None:
            line(4, 6, 3).n5.to_n5(store, mode="a", append_dim="t", resume=True)
            late.n5.to_n5(store, mode="a", append_dim="t", resume=True)
            assert open_array(store, "v")[...].tolist() == [1] * 4 + [2] * 2 + [3] * 4
        else:
            first.n5.to_n5(store, mode="w")
            late.n5.to_n5(store, mode="a", append_dim="t", resume=True)
            assert open_array(store, "v")[...].tolist() == [9] * 20 + [2] * 2


def frames(first: int, count: int) -> xr.Dataset:
    """Frames whose values are their times, with another variable and a chunk of three frames."""
    times = np.arange(first, first + count)
    values = np.repeat(times[:, None] + 1, 2, axis=1).astype("i4")
    data = {"v": (("t", "x"), values), "w": ("t", times * 0.5)}
    return xr.Dataset(data, {"t": ("t", times * 1.0)}).chunk(t=2)


def begin_series(form: str) -> FailingStore:
    """Return a store with frames 0 to 3."""
    store = FailingStore()
    frames(0, 4).n5.to_n5(cast("Any", store), format=form, encoding={"v": {"chunks": (3, 2)}})
    return store


def copied(store: FailingStore) -> FailingStore:
    """Return a store that holds the same."""
    found = FailingStore()
    found.inner.items.update(store.inner.items)
    return found


def append(store: Any, first: int, count: int, *, stop: int = 1 << 60, resume: bool = False) -> str:
    """Append frames, or stop at a change of the store; return how that ended."""
    store.left[0] = stop
    try:
        frames(first, count).n5.to_n5(store, append_dim="t", resume=resume)
    except StoppedError:
        return "stopped"
    except FileExistsError:
        return "has been appended"
    finally:
        store.left[0] = 1 << 60
    return "done"


def check_frames(store: Any, *times: int) -> None:
    """Each of these frames is stored once, with its values."""
    found = xr.open_dataset(store, engine="n5").load()
    assert sorted(found["t"].values) == list(times)
    np.testing.assert_array_equal(found["v"].values[:, 1], found["t"].values + 1)
    np.testing.assert_array_equal(found["w"].values, found["t"].values * 0.5)
    assert not any("/.writing" in f"/{key}" or ".unf" in key for key in store.inner.items)


STEPS = [*range(12), 16, 20, 24]
"""Changes of the store at which an append stops: most are before its arrays have all grown."""


@pytest.mark.matrix(2)
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.usefixtures("alone")
def test_an_append_that_stopped_keeps_its_place(form: str) -> None:
    base = begin_series(form)
    for step in STEPS:
        store = copied(base)
        append(store, 4, 4, stop=step)
        assert append(store, 20, 3) == "done"
        append(store, 4, 4, resume=True)
        check_frames(store, *range(8), 20, 21, 22)


@dataclass(frozen=True, eq=False)
class Interleaved(FailingStore):
    """A store in which something happens right after the first marker has been read."""

    then: list[Callable[[], object]] = field(default_factory=list)

    def get(self, key: str) -> bytes | None:
        found = super().get(key)
        if self.then and key.endswith("mark.json") and found is not None:
            self.then.pop()()
        return found


@pytest.mark.parametrize("others", some([[(50, True)], [], [(50, False)]], 1))
@pytest.mark.parametrize("form", some(["n5", "zarr2", "zarr3"], 1))
@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.usefixtures("alone")
def test_an_append_that_moves_the_coordinate_is_resumed_from_any_step(
    form: str, others: list[tuple[int, bool]]
) -> None:
    base = begin_series(form)
    times = [*range(4), 20, 21, *(n for first, _ in others for n in (first, first + 1))]
    for step in range(100):
        store = copied(base)
        ended = append(store, 20, 2, stop=step, resume=True) == "done"
        for first, resumes in others:
            assert append(store, first, 2, resume=resumes) == "done", step
        assert append(store, 20, 2, resume=True) in {"done", "has been appended"}, step
        assert append(store, 20, 2, resume=True) == "has been appended"
        for first, resumes in others:
            if resumes:
                assert append(store, first, 2, resume=True) == "has been appended"
        check_frames(store, *times)
        if ended:
            assert step > 20
            return
    pytest.fail("it takes more steps")


@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.usefixtures("alone")
def test_an_append_that_ends_while_another_begins_leaves_no_marker() -> None:
    base = begin_series("n5")
    append(base, 20, 2)
    met = 0
    for step in range(6, 24, 2):
        store = Interleaved()
        store.inner.items.update(base.inner.items)
        assert append(store, 30, 2, stop=step, resume=True) == "stopped"
        if any(open_array(store, name).shape[0] < 8 for name in "vwt"):  # type: ignore[arg-type]
            continue
        store.then.append(partial(append, store, 30, 2, resume=True))
        assert append(store, 50, 2) == "done"
        assert not store.then
        check_frames(store, *range(4), 20, 21, 30, 31, 50, 51)
        met += 1
    assert met


@pytest.mark.matrix(2)
@pytest.mark.more
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.usefixtures("alone")
def test_three_appends_that_stop_are_resumed_in_any_order(form: str) -> None:
    parts = [(4, 4), (8, 2), (30, 3)]
    orders = [*permutations(range(3))]
    pairs = [*product(STEPS, STEPS)]
    chosen = pairs if EXHAUSTIVE else spread(pairs, 4)
    base = begin_series(form)
    begun = {first: copied(base) for first, _ in chosen}
    for stop, store in begun.items():
        append(store, *parts[0], stop=stop)
    for number, (first, second) in enumerate(chosen):
        store, order = copied(begun[first]), orders[number % 6]
        append(store, *parts[1], stop=second)
        append(store, *parts[2], stop=14)
        for each in order:
            append(store, *parts[each], resume=True)
        check_frames(store, *range(10), 30, 31, 32)
        for each in order:
            assert append(store, *parts[each], resume=True) == "has been appended"
        check_frames(store, *range(10), 30, 31, 32)


@pytest.mark.usefixtures("alone")
def test_an_append_that_stops_while_it_ends_is_not_made_again() -> None:
    part: Any = xr.Dataset({"v": ("x", da.full(2, 7, chunks=1))})
    for step in range(8, 40):
        store: Any = FailingStore()
        xr.Dataset({"v": ("x", np.arange(2))}).n5.to_n5(store)
        store.left[0] = step
        with suppress(StoppedError):
            part.n5.to_n5(store, append_dim="x", resume=True)
        ended, store.left[0] = store.left[0] >= 0, 1 << 60
        for _ in range(2):
            with suppress(FileExistsError):
                part.n5.to_n5(store, append_dim="x", resume=True)
        assert open_array(store, "v")[...].tolist() == [0, 1, 7, 7], step
        if ended:
            return
    pytest.fail("it takes more steps")


def extend_elsewhere(store: Any, count: int) -> None:
    """Append frames as a program does that knows nothing of markers."""
    for name in ("v", "w", "t"):
        if (
            f"{name}/attributes.json" in store.inner.items
            or f"{name}/zarr.json" in store.inner.items
        ):
            array = open_array(store, name, mode="r+")
            array.resize((4 + count, *array.shape[1:]))
            array[4:] = 77


@pytest.mark.matrix(2)
@pytest.mark.parametrize("form", ["n5", "zarr3"])
@pytest.mark.parametrize("count", [2, 4, 5])
@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.usefixtures("alone")
def test_what_another_program_appended_meanwhile_is_not_overwritten(form: str, count: int) -> None:
    refused = 0
    for step in range(12):
        store = begin_series(form)
        append(store, 4, 4, stop=step)
        begun = any(".writing" in key for key in store.inner.items)
        if not begun or open_array(store, "w").shape != (4,) or open_array(store, "v").shape[0] > 4:
            continue
        extend_elsewhere(store, count)
        with pytest.raises(
            ResumeError, match="unless they are these samples, repeat the call without resume"
        ):
            append(store, 4, 4, resume=True)
        assert append(store, 4, 4) == "done"
        assert open_array(store, "w")[4 : 4 + count].tolist() == [77] * count
        assert open_array(store, "v")[-4:, 0].tolist() == [5, 6, 7, 8]
        assert not any(".writing" in key for key in store.inner.items)
        refused += 1
    assert refused


@pytest.mark.usefixtures("alone")
def test_what_is_appended_already_is_not_appended_again() -> None:
    store: Any = FailingStore()
    line(4, 0, 1).n5.to_n5(store)
    line(2, 4, 2).n5.to_n5(store, append_dim="t", resume=True)
    with pytest.raises(FinishedAppendError, match="has been appended") as caught:
        line(2, 4, 2).n5.to_n5(store, append_dim="t", resume=True)
    assert caught.value.samples == slice(4, 6)
    assert isinstance(caught.value, NodeExistsError)


@pytest.mark.parametrize("kind", ["the same begins anew", "another is written", "brackets"])
@pytest.mark.usefixtures("alone")
def test_records_do_not_outlive_what_they_are_about(kind: str) -> None:
    store: Any = FailingStore()
    to_n5(np.zeros(40, "i4"), store, "a", chunks=10)
    numbers, region = da.arange(1, 41, chunks=10, dtype="i4"), slice(0, 40)
    with pytest.raises(StoppedError):
        to_n5(interrupted(numbers, 2), store, "a", region=region)
    if kind == "the same begins anew":
        open_array(store, "a", mode="r+")[...] = -7
        with pytest.raises(StoppedError):
            to_n5(interrupted(numbers, 0), store, "a", region=region)
    elif kind == "another is written":
        to_n5(np.full(30, -7, "i4"), store, "a", region=slice(0, 30))
    to_n5(interrupted(numbers, 9), store, "a", region=region, resume=True)
    assert open_array(store, "a")[...].tolist() == list(range(1, 41))
    assert not any(".writing" in key for key in store.inner.items)


@pytest.mark.usefixtures("alone")
def test_a_dataset_that_meets_another_write_changes_nothing() -> None:
    store: Any = FailingStore()
    xr.Dataset({"old": ("x", np.arange(4.0))}, attrs={"k": 1}).n5.to_n5(store)
    to_n5(da.ones(4, chunks=2), store, "v", compute=False)
    begin(store, "v")
    before = outcome(store)
    with pytest.raises(ResumeError):
        xr.Dataset({"v": ("x", np.arange(4.0))}).n5.to_n5(store, mode="w", resume=True)
    assert outcome(store) == before


@pytest.mark.usefixtures("alone")
def test_a_write_that_was_replaced_does_not_go_on() -> None:
    store: Any = FailingStore()
    first = xr.Dataset({"a": ("x", np.arange(4.0))})
    first.chunk(2).n5.to_n5(store, compute=False)
    begin(store)
    xr.Dataset({"b": ("x", np.arange(4.0))}).n5.to_n5(store, mode="w")
    with pytest.raises(FileExistsError):
        first.chunk(2).n5.to_n5(store, resume=True)
    assert not any(".writing" in key for key in store.inner.items)


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_killed_write_can_begin_anew(tmp_path: Path, mode: Any) -> None:
    dataset = days(0, 3)
    store = LocalStore(str(tmp_path / "a.n5"))
    with pytest.MonkeyPatch.context() as patch:
        real = LocalStore.set

        def stopping(self: LocalStore, key: str, data: Any) -> None:
            if key == "g/wet/attributes.json":
                raise StoppedError
            real(self, key, data)

        patch.setattr(LocalStore, "set", stopping)
        with pytest.raises(StoppedError):
            dataset.n5.to_n5(store, "g")
    dataset.n5.to_n5(store, "g", mode=mode)
    xr.testing.assert_identical(again(tmp_path / "a.n5", "g"), dataset)


@pytest.mark.parametrize("values", [np.array(3, "i4"), np.zeros((0, 4), "i4"), np.zeros((3, 0))])
@pytest.mark.usefixtures("alone")
def test_arrays_of_no_axes_or_no_size_go_on(values: np.ndarray) -> None:
    store: Any = FailingStore()
    source = da.from_array(values)
    to_n5(source, store, "a", compute=False)
    to_n5(source, store, "a", resume=True)
    np.testing.assert_array_equal(open_array(store, "a")[...], values)
    to_n5(source + 1, store, "a", mode="r+")
    np.testing.assert_array_equal(open_array(store, "a")[...], values + 1)


def test_an_array_of_other_axes_is_replaced_whatever_stops(tmp_path: Path) -> None:
    to_n5(np.ones((4, 4, 4)), tmp_path, "a", chunks=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: (_ for _ in ()).throw(StoppedError()))
        with pytest.raises(StoppedError):
            to_n5(np.ones((6, 6)), tmp_path, "a", mode="w", chunks=2)
    to_n5(np.ones((6, 6)), tmp_path, "a", mode="w", chunks=2, resume=True)
    assert open_array(tmp_path, "a").shape == (6, 6)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_documents_that_were_half_written_are_swept(tmp_path: Path) -> None:
    source = da.ones(4, chunks=2)
    to_n5(source, tmp_path, "g/a", compute=False)
    left = [tmp_path / f / f".attributes.json.{'0' * 32}.partial" for f in ("", "g", "g/a")]
    for each in left:
        each.write_text("{")
    to_n5(source, tmp_path, "g/a", resume=True)
    assert not any(each.exists() for each in left)


def test_a_container_that_was_killed_at_birth_is_one_all_the_same(tmp_path: Path) -> None:
    (tmp_path / f".attributes.json.{'0' * 32}.partial").write_text("{")
    to_n5(np.ones(3), tmp_path, "a", resume=True)
    assert json.loads((tmp_path / "attributes.json").read_text())["n5"]


def test_an_end_that_does_not_see_the_container_says_so(tmp_path: Path) -> None:
    total: Any = to_n5(np.ones((0,)), tmp_path / "x.n5", "a", compute=False)
    (tmp_path / "x.n5").rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError, match=r"cannot find .* the marker of this write"):
        total.compute()


def test_a_flushed_write_flushes_the_folders_that_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []
    real = os.fsync

    def fsync(file: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        real(file)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system does not tell what a file descriptor is")
    monkeypatch.setattr(os, "fsync", fsync)
    store = LocalStore(str(tmp_path / "x")).with_fsync()
    store.set("a/b/c", b"1")
    folders = {each for each in flushed if not each.endswith(".partial")}
    assert folders == {str(tmp_path / each) for each in ("", "x", "x/a", "x/a/b")}


RESUMED: dict[str, Callable[..., Any]] = {
    "array": lambda data, place, form: to_n5(
        data, place, "a", chunks=8, format=form, resume="again", checksums=True
    ),
    "dataset": lambda data, place, form: xr.Dataset({"v": ("x", data)}).n5.to_n5(
        place, "a", format=form, resume="again"
    ),
    "pyramid": lambda data, place, form: pyramid(
        data, place, "a", factors=2, levels=1, chunks=8, format=form, resume="again"
    ),
}


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("what", RESUMED)
def test_temporary_files_of_killed_markers_go_with_the_marker(
    tmp_path: Path, what: str, form: str
) -> None:
    fails = [True]

    def once(block: np.ndarray) -> np.ndarray:
        if block.size and fails[0]:
            raise RuntimeError("out of power")
        return block

    data = da.arange(32, chunks=8).map_blocks(once, dtype="i8", meta=np.empty(0, "i8"))
    with pytest.raises(RuntimeError), dask.config.set(scheduler="sync"):
        RESUMED[what](data, tmp_path, form)
    marks = [each for each in tmp_path.rglob(".writing-*") if each.is_dir()]
    assert marks
    for mark in marks:
        (mark / partial_key("mark.json")).write_bytes(b"{")
        (mark.parent / partial_key(".unfinished")).write_bytes(b"{")
    fails[0] = False
    RESUMED[what](data, tmp_path, form)
    assert [each for each in tmp_path.rglob("*") if "partial" in each.name] == []
    assert [*tmp_path.rglob(".writing-*"), *tmp_path.rglob(".unfinished")] == []


SQUARES = da.arange(100, chunks=-1, dtype="i4").reshape(10, 10).rechunk(5)
TOP = (slice(0, 3), slice(0, 10))


def test_chunks_that_another_made_for_its_own_are_written_again(tmp_path: Path) -> None:
    to_n5(SQUARES, tmp_path, "a", chunks=5, compute=False)
    begin(tmp_path, "a")
    to_n5(SQUARES[:3], tmp_path, "a", region=TOP, partial_chunks="merge")
    to_n5(SQUARES, tmp_path, "a", chunks=5, resume=True)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], SQUARES)


@pytest.mark.parametrize("resume", [False, True])
def test_a_repaired_chunk_is_not_done_because_a_part_of_it_is(tmp_path: Path, resume: bool) -> None:
    to_n5(SQUARES, tmp_path, "a", chunks=5)
    os.truncate(tmp_path / "a/1/0", 5)
    repair(tmp_path, "a")
    to_n5(SQUARES[:3], tmp_path, "a", region=TOP, resume=resume, partial_chunks="merge")
    to_n5(SQUARES, tmp_path, "a", chunks=5, resume=True)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], SQUARES)
    assert not list((tmp_path / "a").glob(".writing*"))


def test_a_part_does_not_end_what_is_whole(tmp_path: Path) -> None:
    to_n5(SQUARES, tmp_path, "a", chunks=5, compute=False)
    begin(tmp_path, "a")
    region = (slice(0, 7), slice(0, 10))
    to_n5(SQUARES[:7], tmp_path, "a", region=region, partial_chunks="merge")
    to_n5(SQUARES, tmp_path, "a", chunks=5, resume=True)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], SQUARES)


def test_what_is_left_of_removed_folders_stops_nothing(tmp_path: Path) -> None:
    to_n5(SQUARES, tmp_path, "a", chunks=5)
    left = [tmp_path / f / f".{n}.{'0' * 32}.partial" for f, n in (("", "a"), ("a", "0"))]
    for each in left:
        each.mkdir()
        (each / "mark.json").write_text("{}")
    to_n5(SQUARES, tmp_path, "a", mode="w", chunks=5)
    to_n5(SQUARES, tmp_path, "a", mode="w", chunks=5, resume=True)
    assert not any(each.exists() for each in left)
    assert not list(tmp_path.rglob("*.partial*"))


def test_a_root_of_other_axes_is_replaced_whatever_stops(tmp_path: Path) -> None:
    to_n5(np.ones((3, 3, 3)), tmp_path, chunks=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: (_ for _ in ()).throw(StoppedError()))
        with pytest.raises(StoppedError):
            to_n5(da.ones((9, 9), chunks=3), tmp_path, mode="w")
    to_n5(da.ones((9, 9), chunks=3), tmp_path, mode="w", resume=True)
    assert open_array(tmp_path).shape == (9, 9)
    assert json.loads((tmp_path / "attributes.json").read_text())["n5"]


def test_digests_that_were_half_written_are_swept(tmp_path: Path) -> None:
    to_n5(SQUARES, tmp_path, "a", chunks=5, checksums=True, compute=False)
    begin(tmp_path, "a")
    left = tmp_path / f"a/.digests/.all.npz.{'0' * 32}.partial"
    left.parent.mkdir()
    left.write_text("half")
    to_n5(SQUARES, tmp_path, "a", chunks=5, checksums=True, resume=True)
    assert not left.exists()
