"""A write that is killed at any change of its store, then resumed, ends as an undisturbed one."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.datasets.test_write import days
from tests.support.containers import NAMES
from tests.support.exhaustive import EXHAUSTIVE, spread
from tests.support.memory_store import MemoryStore
from tests.support.stopping import NEVER, FailingFolder, FailingStore, StoppedError
from xarray_n5 import copy, open_array, pyramid, repair, set_options, to_n5
from xarray_n5.errors import FinishedAppendError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMS: dict[str, dict[str, Any]] = {
    "n5": {"format": "n5"},
    "zarr2": {"format": "zarr2"},
    "zarr3": {"format": "zarr3"},
    "shards": {"format": "zarr3"},
    "hdf5": {"format": "hdf5"},
}

computed: list[int] = []
"""The first elements of blocks that were computed."""


def noted(block: np.ndarray) -> np.ndarray:
    if block.size:
        computed.append(int(block.flat[0]))
    return block


def watched(blocks: Any) -> Any:
    """Return blocks whose computation is noted, under the same name each time."""
    meta = np.empty((0,) * blocks.ndim, blocks.dtype)
    return blocks.map_blocks(noted, name=f"noted-{blocks.name}", meta=meta)


BLOCKS = watched(da.from_array(np.arange(1, 37, dtype="i4").reshape(6, 6), chunks=(4, 6)))


def lazy(first: int, count: int) -> xr.Dataset:
    """Days of measurements in blocks, but for the texts."""
    dataset = days(first, count)
    for name in ("count", "temperature"):
        dataset[name] = dataset[name].chunk(time=2)
        dataset[name].data = watched(dataset[name].data)
    return dataset


def options(form: str) -> dict[str, Any]:
    """Return the format and the chunks of an array."""
    return {**FORMS[form], "chunks": 2, **({"shards": 4} if form == "shards" else {})}


def encoding(form: str) -> dict[str, Any]:
    chunks: dict[str, Any] = {"chunks": (2, 3)}
    return {"count": {**chunks, "shards": (4, 6)} if form == "shards" else chunks}


def nothing(*_: Any) -> None:
    """Write nothing first."""


def zeros(url: Any, form: str) -> None:
    to_n5(np.zeros((9, 9), "i4"), url, "a", **options(form))


def series(url: Any, form: str) -> None:
    days(0, 3).n5.to_n5(url, "g", encoding=encoding(form), **FORMS[form])


def array(url: Any, form: str, **more: Any) -> None:
    to_n5(BLOCKS, url, "a", **options(form), **more)


def with_digests(url: Any, form: str, **more: Any) -> None:
    with set_options(checksums=True):
        array(url, form, **more)


def sparse(url: Any, form: str, **more: Any) -> None:
    to_n5(BLOCKS * (BLOCKS > 20), url, "a", write_empty_chunks=False, **options(form), **more)


def region(url: Any, _: str, **more: Any) -> None:
    where = (slice(1, 7), slice(3, 9))
    to_n5(BLOCKS, url, "a", region=where, safe_chunks=False, **more)


def dataset(url: Any, form: str, **more: Any) -> None:
    lazy(0, 4).n5.to_n5(url, "g", encoding=encoding(form), **FORMS[form], **more)


def part_of_dataset(url: Any, _: str, **more: Any) -> None:
    part = lazy(9, 2)[["count"]].drop_vars(["time", "name", "step", "uneven", "x"])
    part.n5.to_n5(url, "g", region={"time": slice(1, 3)}, safe_chunks=False, **more)


def more_variables(url: Any, _: str, **more: Any) -> None:
    new = lazy(5, 3)[["count"]].drop_vars(["time", "name", "step"]).assign(n=("x", np.arange(6)))
    new.n5.to_n5(url, "g", mode="a", **more)


def levels(url: Any, form: str, **more: Any) -> None:
    image = xr.DataArray(BLOCKS, dims=("y", "x"), name="p")
    pyramid(image, url, "p", levels=1, factors=2, **options(form), **more)


@cache
def source_of_copies() -> MemoryStore:
    source = MemoryStore()
    masked: Any = ("x", [1.0, np.nan, 3.0], {}, {"dtype": "u1", "_FillValue": 0, "chunks": 2})
    xr.Dataset({"v": masked, "name": ("x", ["a", "bb", ""])}).n5.to_n5(source, "a/b")
    levels(source, "n5")
    return source


def copied(url: Any, form: str, **more: Any) -> None:
    copy(source_of_copies(), url, **FORMS[form], **more)


def project(url: Any, _: str, **more: Any) -> None:
    image = xr.DataArray(BLOCKS[None].astype("u2"), dims=("z", "y", "x"), name="a")
    image.n5.to_bdv(url.parent / "a.xml", url, **more)


def tree(url: Any, form: str, **more: Any) -> None:
    nodes = xr.DataTree.from_dict({"/": lazy(0, 2), "/a/b": lazy(0, 2)})
    nodes.n5.to_n5(url, **FORMS[form], **more)


def append(url: Any, _: str, **more: Any) -> None:
    lazy(3, 5).n5.to_n5(url, "g", append_dim="time", **more)


def longer_strings(url: Any, form: str, **more: Any) -> None:
    longer = "" if "zarr" in form or form == "shards" else " of a month"  # whose type is fixed
    names = [f"day {number}{longer}" for number in range(4)]
    lazy(3, 4).assign_coords(name=("time", names)).n5.to_n5(url, "g", append_dim="time", **more)


TABLE = xr.Dataset(
    {
        "v": (("y", "x"), np.arange(1, 64, dtype="i2").reshape(7, 9)),
        "s": ("x", [*"abcdef", "longer", "g", "h"]),
    }
)


def higher(url: Any, form: str) -> None:
    """Write the left part of a table, in two appends along its rows."""
    left, how = TABLE.isel(x=slice(5)), {"v": {"chunks": (2, 4)}}
    left.isel(y=slice(3)).n5.to_n5(url, "g", encoding=how, **FORMS[form])
    left[["v"]].isel(y=slice(3, 7)).n5.to_n5(url, "g", append_dim="y")


def wider(url: Any, _: str, **more: Any) -> None:
    TABLE.isel(x=slice(5, 9)).n5.to_n5(url, "g", append_dim="x", **more)


def script(url: Any, form: str, **more: Any) -> None:
    """Write the first days, then append others, as a script does that is started again."""
    with suppress(FinishedAppendError):
        lazy(0, 3).n5.to_n5(url, "g", encoding=encoding(form), **FORMS[form], **more)
    append(url, form, **more)


def deferred(url: Any, form: str, **more: Any) -> None:
    lazily: Any = to_n5(BLOCKS, url, "a", compute=False, **options(form), **more)
    lazily.compute()


def shares(url: Any, form: str, **more: Any) -> None:
    """Compute shares, of which one is late and another one is requeued after the end."""
    lazily: Any = to_n5(BLOCKS, url, "a", compute=False, **options(form), **more)
    saved = lazily._begin()
    saved.run(share=(1, 3))
    saved.run(share=(2, 3))
    saved.run()
    saved.run(share=(3, 3))
    saved.run(share=(2, 3))


def damaged(url: Any, form: str) -> None:
    """Write an array that lacks a chunk and has a damaged one."""
    array(url, form)
    keys = [key for key in url.inner.items if key[:2] == "a/" and key[-1].isdigit()]
    del url.inner.items[keys[0]]
    url.inner.items[keys[1]] = b"damaged"


def repaired(url: Any, form: str, **_: Any) -> None:
    repair(url, "a", how="remove", missing=True)
    array(url, form, resume=True)


WRITES: dict[str, tuple[Callable[[Any, str], None], Callable[..., None], dict[str, Any]]] = {
    "new array": (nothing, array, {}),
    "checksums": (nothing, with_digests, {}),
    "empty chunks left out": (nothing, sparse, {}),
    "w": (zeros, array, {"mode": "w"}),
    "w over a finished call": (array, array, {"mode": "w"}),
    "region": (zeros, region, {}),
    "deferred": (nothing, deferred, {}),
    "shares": (nothing, shares, {}),
    "repair": (damaged, repaired, {}),
    "dataset": (nothing, dataset, {}),
    "dataset w": (series, dataset, {"mode": "w"}),
    "more variables": (series, more_variables, {}),
    "region of a dataset": (series, part_of_dataset, {}),
    "tree": (nothing, tree, {}),
    "pyramid": (nothing, levels, {}),
    "copy": (nothing, copied, {}),
    "copy w": (copied, copied, {"mode": "w"}),
    "project": (nothing, project, {}),
    "append": (series, append, {}),
    "append of longer strings": (series, longer_strings, {}),
    "append along two dimensions": (higher, wider, {}),
    "first write, then append": (nothing, script, {}),
}

DISK = {"project"}
"""Writes that need a folder, for the XML."""

NO_HDF5 = {"repair", "shares"}


def cases() -> list[Any]:
    params = []
    for name in WRITES:
        for form in FORMS:
            if (form == "hdf5" and name in NO_HDF5) or (form != "n5" and name == "project"):
                continue
            other = [*FORMS][1 + len(name) % 4]
            quick = form in {"n5", "shards" if other == "hdf5" else other}
            marks = () if quick else pytest.mark.exhaustive
            params.append(pytest.param(name, form, marks=marks))
    return params


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.parametrize(("name", "form"), cases())
def test_a_write_killed_at_any_change_is_resumed(tmp_path: Path, name: str, form: str) -> None:
    if form == "hdf5" or name in DISK:
        suffix = {"hdf5": "h5", "n5": "n5"}.get(form, "zarr")
        with FailingFolder.at(tmp_path / "folder", f"a.{suffix}") as place:
            check(name, form, place)
    else:
        check(name, form, FailingStore())


def check(name: str, form: str, empty: Any) -> None:
    prepare, write, more = WRITES[name]
    with dask.config.set(scheduler="sync"):
        prepare(empty.url_to_write, form)
        whole = empty.copied()
        before = whole.steps
        write(whole.url_to_write, form, **more)
        expected = whole.outcome()
        if write is wider:
            xr.testing.assert_equal(
                xr.open_dataset(whole.url_to_write, engine="n5", group="g"), TABLE
            )
        assert not [key for key in expected if "open-" in key or "notes-" in key]
        steps = range(whole.steps - before)
        assert len(steps) > 5
        for step in steps if EXHAUSTIVE else spread(steps, 6):
            place = empty.copied()
            place.stop_after(step)
            with pytest.raises(StoppedError):
                write(place.url_to_write, form, **more)
            place.stop_after(NEVER)
            for _ in range(2):
                computed.clear()
                with suppress(FinishedAppendError):
                    write(place.url_to_write, form, **more, resume=True)
                outcome = place.outcome()
                assert outcome.keys() == expected.keys(), step
                assert outcome == expected, step
            assert computed == [], step


@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
@pytest.mark.parametrize("before", [nothing, zeros])
@pytest.mark.parametrize("form", FORMS)
def test_a_resume_writes_the_rest_of_chunks_with_assigned_elements(
    tmp_path: Path, form: str, before: Callable[[Any, str], None]
) -> None:
    if form == "hdf5":
        pytest.importorskip("h5py")
    url = str(tmp_path / NAMES.get(form, "b.zarr"))
    first, expected = list[int](), np.arange(1, 65, dtype="i4").reshape(8, 8)
    before(url, form)

    def fail_later(block: np.ndarray) -> np.ndarray:
        if len(first) == 1:
            first.append(0)
            raise RuntimeError("stopped")
        first.append(int(block[0, 0]))
        return block

    whole: Any = da.from_array(expected.copy(), chunks=4, name="numbers")
    source = whole.map_blocks(fail_later, name="failing", dtype="i4", meta=np.empty((0, 0), "i4"))
    how = {"mode": "w", **options(form)}
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(RuntimeError, match="stopped"):
            to_n5(source, url, "a", **how)
        array = open_array(url, "a", mode="r+")
        array[1, 0] = array[1, 5] = array[5, 0] = array[5, 5] = -1
        to_n5(source, url, "a", resume=True, **how)
    assert len(first) == 2 + 3  # the block that had been stored is not computed again
    row, column = divmod(first[0] - 1, 8)
    expected[row + 1, column + column // 4] = -1  # nor is what was assigned to it lost
    np.testing.assert_array_equal(open_array(url, "a")[...], expected)
    assert not [*tmp_path.rglob("notes-*")]
