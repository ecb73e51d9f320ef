"""Writes that stop at any step go on, and end as if they had never stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.stores import CountingStore
from tests.test_writer import days
from xarray_n5 import open_array, to_n5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xarray_n5.compression import Buffer


class StoppedError(BaseException):
    """The process was killed."""


@dataclass(frozen=True, eq=False)
class FailingStore(CountingStore):
    """A store of a process that is killed at one of its changes."""

    left: list[int] = field(default_factory=lambda: [1 << 60])

    def _step(self) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise StoppedError

    def durable(self) -> FailingStore:
        return self

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
        lambda store, **more: to_n5(BLOCKS, store, "a", region=(slice(1, 7), slice(3, 9)), **more),
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
            .n5.to_n5(store, "g", region={"time": slice(1, 3)}, **more)
        ),
    ),
    "tree": (
        lambda _: None,
        xr.DataTree.from_dict({"/": lazy(0, 2), "/a/b": lazy(0, 2)}).n5.to_n5,
    ),
}


def outcome(store: FailingStore) -> dict[str, bytes]:
    return dict(store.inner.items)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_stops_at_any_step_goes_on(name: str) -> None:
    prepare, write = WRITES[name]
    with dask.config.set(scheduler="sync"):
        whole = FailingStore()
        prepare(whole)
        write(whole)
        expected = outcome(whole)
        assert not any("/.w" in key for key in expected)
        step = 0
        while True:
            store = FailingStore()
            prepare(store)
            store.left[0] = step
            try:
                write(store)
            except StoppedError:
                store.left[0] = 1 << 60
            else:
                break
            begun = any(".writing" in key for key in store.inner.items)
            try:
                write(store, resume=True)
            except FileExistsError:
                assert not begun  # all is over, or not a byte of it was written
            assert outcome(store) == expected, step
            step += 1
        assert step > 5


def test_what_is_done_is_not_computed_again() -> None:
    seen: list[int] = []

    def noted(block: np.ndarray) -> np.ndarray:
        seen.append(int(block.flat[0]))
        return block

    source = BLOCKS.rechunk(2).map_blocks(noted, name="noted", meta=np.empty((0, 0), "i4"))
    for options in ({}, {"checksums": True}):
        for step in range(3, 12):
            store = FailingStore()
            with dask.config.set(scheduler="sync"):
                store.left[0] = step
                seen.clear()
                with pytest.raises(StoppedError):
                    to_n5(source, store, "a", chunks=2, **options)  # type: ignore[arg-type]
                store.left[0] = 1 << 60
                first = list(seen)
                seen.clear()
                to_n5(source, store, "a", chunks=2, resume=True, **options)  # type: ignore[arg-type]
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
