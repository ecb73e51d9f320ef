"""How many requests operations make of a store far away, and how many wait for each other."""

from __future__ import annotations

import functools
import json
import warnings
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.axes import with_axes
from tests.support.memory_store import MemoryStore
from tests.support.projects import Setup, project_xml, write_n5
from tests.support.remote import Bucket, Far
from xarray_n5 import Axis, create_array, open_array, pyramid, to_n5, verify
from xarray_n5.errors import RequestError
from xarray_n5.stores import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xarray_n5.stores.base import Store

VALUES = np.arange(1, 3201, dtype="u2").reshape(200, 4, 4)
"""No zero among them, in 200 chunks."""

CHUNKS = (1, 4, 4)

THREE = {name: {"chunks": (4, 16, 16)} for name in "abc"}


def n5(fs: Far, name: str = "x.n5") -> Store:
    """Return a container."""
    return FsspecStore(fs, f"b/{name}")


def series(start: int, stop: int) -> xr.Dataset:
    """Return three variables over time."""
    values = np.ones((stop - start, 16, 16), "f4")
    coordinates = {"t": np.arange(float(start), stop)}
    return xr.Dataset(dict.fromkeys("abc", (("t", "y", "x"), values)), coords=coordinates)


def opened(fs: Far, name: str, group: str | None = None, **options: Any) -> xr.Dataset:
    """Open a node of a container."""
    return xr.open_dataset(n5(fs, name), engine="n5", group=group, **options)  # type: ignore[arg-type]


def views(fs: Far, **options: Any) -> xr.DataArray:
    """Open the project of 100 views."""
    return xr.open_dataset((fs, "b/v/views.xml"), engine="n5", level=0, **options)["views"]  # type: ignore[arg-type]


def blocks() -> da.Array:
    """Return the values in one block a chunk."""
    found: da.Array = da.from_array(VALUES, chunks=CHUNKS)
    return found


OPERATIONS: dict[str, tuple[int, int, Callable[[Bucket], Any]]] = {
    "open_dataset, an array": (1, 4, lambda fs: opened(fs, "x.n5", "g/a")),
    "open_dataset, a level by its path": (1, 5, lambda fs: opened(fs, "x.n5", "p/s1")),
    "open_dataset, level=1": (3, 10, lambda fs: opened(fs, "x.n5", "p", level=1)),
    "open_dataset, 3 arrays and times": (4, 12, lambda fs: opened(fs, "t.n5")),
    "open_dataset, a project of 100 views": (2, 102, views),
    "open_datatree, 2 pyramids": (
        *(6, 19),
        lambda fs: xr.open_datatree(n5(fs, "p.n5"), engine="n5"),  # type: ignore[arg-type]
    ),
    "to_n5, 200 chunks, one a task": (13, 217, lambda fs: to_n5(blocks(), n5(fs, "new.n5"), "a")),
    "to_n5, 3 variables": (
        *(18, 55),
        lambda fs: series(0, 8).n5.to_n5(n5(fs, "new.n5"), encoding=THREE),
    ),
    "to_n5, append_dim, 3 variables": (
        *(18, 63),
        lambda fs: series(8, 12).n5.to_n5(n5(fs, "t.n5"), append_dim="t"),
    ),
    "verify, deep=False": (
        *(2, 5),
        lambda fs: verify(n5(fs), "g/a", deep=False).compute(),
    ),
    "assign, 200 chunks": (
        *(5, 206),
        lambda fs: open_array(n5(fs), "g/a", mode="r+").__setitem__(..., VALUES),
    ),
    "assign zeros, 200 chunks": (
        *(5, 206),
        lambda fs: open_array(n5(fs), "g/a", mode="r+", write_empty_chunks=False).__setitem__(
            ..., 0
        ),
    ),
    "resize, 199 chunks": (
        *(11, 211),
        lambda fs: open_array(n5(fs), "g/a", mode="r+").resize(CHUNKS),
    ),
    "create_array, mode='w', of 200 chunks": (
        *(8, 209),
        lambda fs: create_array(n5(fs), "g/a", shape=(4,), dtype="u1", mode="w"),
    ),
}
"""How many rounds of requests, in which none waits for another one, and how many requests."""


def bucket() -> Bucket:
    """Return a bucket with all containers."""
    return Bucket(dict(_objects()))


@functools.cache
def _objects() -> dict[str, bytes]:
    fs = Bucket({})
    volume = np.arange(1, 1 + 64**3, dtype="u4").reshape(64, 64, 64)
    axes = [Axis(name=name, unit="nm", scale=4.0) for name in "zyx"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        to_n5(VALUES, n5(fs), "g/a", chunks=CHUNKS)
        for name, path in (("x.n5", "p"), ("p.n5", "p"), ("p.n5", "q")):
            pyramid(with_axes(volume, axes), n5(fs, name), path, chunks=16, levels=2)
        series(0, 8).n5.to_n5(n5(fs, "t.n5"), encoding=THREE)
        setups = [Setup(id=i, attributes={"tile": i}, shape=(4, 8, 8)) for i in range(20)]
        project = MemoryStore()
        write_n5(project, setups, range(5), factors=((1, 1, 1), (1, 2, 2)))
    fs.objects.update({f"b/v/x.n5/{key}": data for key, data in project.items.items()})
    times = '<Timepoints type="range"><first>0</first><last>4</last></Timepoints>'
    fs.objects["b/v/views.xml"] = project_xml(setups, timepoints=times).encode()
    return fs.objects


def counted(name: str, latency: float = 0.02) -> Bucket:
    """Return the bucket of an operation, whose tasks have as many threads as they need."""
    fs = bucket()
    fs.be_far(latency)
    with warnings.catch_warnings(), dask.config.set(scheduler="threads", num_workers=8):
        warnings.simplefilter("ignore")
        OPERATIONS[name][2](fs)
    return fs


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", OPERATIONS)
def test_requests_wait_for_those_whose_answers_they_need(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.records._TRUSTED", 600.0)  # on a busy machine, too
    rounds, requests, _ = OPERATIONS[name]
    for latency in (0.02, 0.05, 0.2):  # on a busy machine, a request may come late
        fs = counted(name, latency)
        if fs.rounds == rounds:
            break
    assert (fs.rounds, len(fs.log)) == (rounds, requests), sorted(fs.log)


def test_bytes_under_way_are_bounded_when_they_are_put() -> None:
    fs = Far()
    made = create_array(n5(fs), "a", shape=(40 * 256, 256), chunks=256, dtype="u1")
    fs.batch_size = 6
    fs.be_far(0.005)
    made[...] = 1
    assert fs.counts["PUT"] == 40
    assert 2 <= fs.most <= 6


def test_a_put_that_fails_is_raised_when_all_that_began_have_ended() -> None:
    fs = Far()
    to_n5(VALUES, n5(fs), "a", chunks=CHUNKS)
    fs.be_far(0.005)
    array = open_array(n5(fs), "a", mode="r+")

    def fails(verb: str, path: str) -> None:
        if verb == "PUT" and path.endswith(("/0/3", "/0/9")):
            raise OSError(path)

    fs.fails = fails
    with pytest.raises(RequestError, match="a/0/0/3"):
        array[...] = VALUES + 1
    assert fs.under_way == 0
    fs.fails = lambda _verb, _path: None
    stored = np.asarray(array[...])
    old = [number for number in range(200) if (stored[number] == VALUES[number]).all()]
    new = [number for number in range(200) if (stored[number] == VALUES[number] + 1).all()]
    assert sorted(old + new) == list(range(200))
    assert {3, 9} <= set(old)


def test_a_write_that_is_resumed_looks_for_no_chunk_again(tmp_path: Path) -> None:
    fs = Far()
    source = da.from_array(VALUES, chunks=(50, 4, 4), name="values")
    lazy: Any = to_n5(source, n5(fs), "r", chunks=CHUNKS, compute=False)
    lazy.save(tmp_path / "plan").run(share=(1, 2))
    again: Any = to_n5(source, n5(fs), "r", chunks=CHUNKS, resume=True, compute=False)
    fs.reset()
    again.compute(scheduler="sync")
    assert fs.counts["HEAD"] <= 2 + 3  # the record, for each task and at the end
    assert fs.counts["PUT"] <= 100 + 2 + 2  # notes of two tasks, a record and a row
    np.testing.assert_array_equal(open_array(n5(fs), "r")[...], VALUES)


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_quick_verification_is_one_listing_of_a_bucket(form: Any) -> None:
    fs = Bucket()
    values = np.arange(1, 65, dtype="u2").reshape(8, 8)
    to_n5(values, n5(fs, "x"), "g/a", chunks=(3, 3), compression="raw", format=form)
    gone, cut = {"n5": ("0/1", "1/1"), "zarr2": ("1.0", "1.1"), "zarr3": ("c/1/0", "c/1/1")}[form]
    del fs.objects[f"b/x/g/a/{gone}"]
    fs.objects[f"b/x/g/a/{cut}"] = fs.objects[f"b/x/g/a/{cut}"][:-1]
    fs.objects["b/x/g/a/notes.txt"] = b""
    fs.be_far()
    quick = verify(n5(fs, "x"), "g/a", deep=False).compute(scheduler="sync")
    # Where an array is opened, its records are listed; a chunk of another size is looked at.
    assert (fs.counts["LIST"], fs.counts["HEAD"]) == (2, 1)
    whole = verify(n5(fs, "x"), "g/a").compute()
    xr.testing.assert_identical(quick["state"], whole["state"])
    assert [quick["state"].values[1, x] for x in range(3)] == ["missing", "truncated", "ok"]
    assert quick.attrs["stray"] == ["notes.txt"]
    assert quick["bytes"].values[0, 0] == whole["bytes"].values[0, 0]


def test_the_name_of_lazy_views_does_not_depend_on_what_was_read() -> None:
    fs = bucket()
    first, second = (views(fs).chunk(tile=1) for _ in range(2))
    before = first.data.name
    first.compute()
    assert second.data.name == before == views(fs).chunk(tile=1).data.name


def test_setups_are_read_where_views_lack_their_factors() -> None:
    fs = bucket()
    for key in [key for key in fs.objects if key.endswith("s0/attributes.json")]:
        document = json.loads(fs.objects[key])
        fs.objects[key] = json.dumps({**document, "downsamplingFactors": None}).encode()
    fs.be_far()
    image = views(fs)
    assert (fs.rounds, len(fs.log)) == (3, 122)
    fs.be_near()
    assert image.identical(views(bucket()))


@pytest.mark.parametrize(
    ("form", "name", "rounds"),
    [("n5", "x", 1), ("zarr2", "x", 2), ("zarr3", "x", 2), ("zarr2", "x.zarr", 1)],
)
def test_opening_takes_a_round_more_where_the_name_hides_the_format(
    form: Any, name: str, rounds: int
) -> None:
    fs = Far()
    to_n5(VALUES, n5(fs, name), "g/a", format=form, chunks=CHUNKS)
    fs.be_far()
    for read in (lambda: open_array(n5(fs, name), "g/a"), lambda: opened(fs, name, "g/a")):
        fs.reset()
        read()
        assert fs.rounds == rounds


def test_an_append_stores_its_record_then_data_then_shapes_then_its_row() -> None:
    fs = counted("to_n5, append_dim, 3 variables")

    def rounds(verb: str, part: str) -> list[int]:
        return [number for number, how, key in fs.log if how == verb and part in key]

    records = rounds("PUT", "/open-append-")
    data, shapes = rounds("PUT", "/0/0/"), rounds("PUT", "attributes.json")
    rows = rounds("PUT", "/done/append-")
    assert len(rows) == 4  # of each array, and of the times
    assert min(records) < min(data)
    assert max(data) < min(shapes)
    assert max(shapes) < min(rows)
    assert max(rows) < min(rounds("DELETE", "/open-append-"))
