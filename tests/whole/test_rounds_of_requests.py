"""How many requests to a store far away wait for each other, and how many there are at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.far_work import WORKS, Work, bucket, counted
from tests.support.remote import Bucket, Far
from xarray_n5 import create_array, open_array, set_options, to_n5, verify
from xarray_n5.arrays.records import Record, claim_of, new_attempt
from xarray_n5.doctor import examine
from xarray_n5.errors import RequestError
from xarray_n5.stores import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.arange(1, 200 * 16 + 1, dtype="u2").reshape(200, 4, 4)
"""No zero among them, in 200 chunks."""

CHUNKS = (1, 4, 4)


def far() -> tuple[Far, FsspecStore]:
    """Return an object store that is late, and a container on it with an array of 200 chunks."""
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    to_n5(VALUES, store, "a", chunks=CHUNKS)
    fs.be_far(0.005)
    return fs, store


WRITES: dict[str, Callable[[FsspecStore], Any]] = {
    "array": lambda store: open_array(store, "a", mode="r+").__setitem__(..., VALUES + 1),
    "numpy": lambda store: to_n5(VALUES + 1, store, "a", mode="w", chunks=CHUNKS),
    "dask": lambda store: to_n5(
        da.from_array(VALUES + 1, chunks=-1), store, "a", mode="w", chunks=CHUNKS
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_chunks_of_one_task_are_put_together(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xarray_n5.arrays.records._TRUSTED", 600.0)
    fs, store = far()
    WRITES[name](store)
    np.testing.assert_array_equal(open_array(store, "a")[...], VALUES + 1)
    assert fs.most > 100
    assert fs.rounds < 60


def test_bytes_under_way_are_bounded_when_they_are_put() -> None:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    made = create_array(store, "a", shape=(40 * 256, 256), chunks=256, dtype="u1")
    fs.batch_size = 6
    fs.be_far(0.005)
    made[...] = 1
    assert fs.counts["PUT"] == 40
    assert 2 <= fs.most <= 6


def test_doctor_asks_about_arrays_together() -> None:
    fs, store = far()
    fs.be_near()
    for number in range(40):
        create_array(store, f"g/x{number}", shape=(4, 4), dtype="u1", chunks=2)
    fs.be_far(0.005)
    examine(store)
    assert fs.rounds < 20


REMOVALS: dict[str, Callable[[FsspecStore], Any]] = {
    "resize": lambda store: open_array(store, "a", mode="r+").resize((1, 4, 4)),
    "replace": lambda store: create_array(store, "a", shape=(4,), dtype="u1", mode="w"),
    "tree": lambda store: store.delete_tree("a", "a/attributes.json"),
    "keys": lambda store: store.delete([f"a/0/0/{number}" for number in range(200)]),
}


@pytest.mark.parametrize("name", REMOVALS)
def test_chunks_are_removed_together(name: str) -> None:
    fs, store = far()
    REMOVALS[name](store)
    assert fs.counts["DELETE"] >= 199
    assert fs.rounds < 20
    left = [key for key in fs.objects if "/a/0/0/" in key]
    assert len(left) <= 1


def test_chunks_that_need_not_be_stored_are_removed_together() -> None:
    fs, store = far()
    array = open_array(store, "a", mode="r+", write_empty_chunks=False)
    array[...] = np.where(np.arange(200)[:, None, None] % 2, VALUES, 0)
    assert (fs.counts["PUT"], fs.counts["DELETE"]) == (100, 100)
    assert fs.rounds < 60
    assert sorted(index[0] for index in array.node.stored_chunks()) == list(range(1, 200, 2))


def test_a_put_that_fails_is_raised_when_all_that_began_have_ended() -> None:
    fs, store = far()
    array = open_array(store, "a", mode="r+")

    def fails(verb: str, path: str) -> None:
        if verb == "PUT" and path.endswith(("/0/3", "/0/9")):
            raise OSError(path)

    fs.fails = fails
    with pytest.raises(RequestError, match="a/0/0/3"):
        array[...] = VALUES + 1
    assert fs.under_way == 0
    fs.fails = lambda _verb, _path: None
    found = np.asarray(array[...])
    untouched = [number for number in range(200) if (found[number] == VALUES[number]).all()]
    changed = [n for n in range(200) if (found[n] == VALUES[n] + 1).all()]
    assert sorted(untouched + changed) == list(range(200))
    assert {3, 9} <= set(untouched)


def test_receipts_tell_what_was_put() -> None:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    source = da.from_array(VALUES, chunks=(50, 4, 4))
    with set_options(checksums=True):
        lazy: Any = to_n5(source, store, "a", chunks=CHUNKS, compute=False)
    receipts = lazy.compute(scheduler="sync")
    sizes = [len(fs.objects[f"b/x.n5/a/0/0/{number}"]) for number in range(200)]
    assert receipts.to_datatree()["bytes"].values.ravel().tolist() == sizes
    assert set(verify(store, "a").compute(scheduler="sync")["state"].values.ravel()) == {"ok"}


def test_a_write_that_goes_on_looks_for_no_chunk_again(tmp_path: Path) -> None:
    fs, store = far()
    source = da.from_array(VALUES, chunks=(50, 4, 4), name="values")
    lazy: Any = to_n5(source, store, "r", chunks=CHUNKS, compute=False)
    lazy.save(tmp_path / "plan").run(share=(1, 2))
    again: Any = to_n5(source, store, "r", chunks=CHUNKS, resume=True, compute=False)
    fs.reset()
    again.compute(scheduler="sync")
    assert fs.counts["HEAD"] <= 2 + 3  # the record, for each task and at the end
    put = [key for key in fs.objects if "/r/0/0/" in key]
    assert len(put) == 200
    assert fs.counts["PUT"] <= 100 + 2 + 2  # notes of two tasks, a record and a row
    np.testing.assert_array_equal(open_array(store, "r")[...], VALUES)


def test_a_look_at_heads_is_not_one_after_the_other() -> None:
    fs, store = far()
    found = verify(store, "a", deep=False).compute(scheduler="sync")
    assert set(found["state"].values.ravel()) == {"ok"}
    assert fs.most >= 8
    assert fs.rounds < 150  # of 400 requests, by so many threads


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("compression", ["raw", "gzip"])
def test_a_quick_verification_is_one_listing_of_a_bucket(form: Any, compression: str) -> None:
    fs = Bucket()
    store = FsspecStore(fs, "b/x")
    values = np.arange(1, 65, dtype="u2").reshape(8, 8)
    to_n5(values, store, "g/a", chunks=(3, 3), compression=compression, format=form)
    key = {"n5": "0/1", "zarr2": "1.0", "zarr3": "c/1/0"}[form]
    del fs.objects[f"b/x/g/a/{key}"]
    fs.objects["b/x/g/a/notes.txt"] = b""
    fs.be_far()
    found = verify(store, "g/a", deep=False).compute(scheduler="sync")
    # Where an array is opened, its records are listed.
    assert (fs.counts["LIST"], fs.counts["HEAD"]) == (2, 0)
    assert fs.rounds == (2 if form == "n5" else 3)
    assert (found["state"] == "missing").values.nonzero() == (1, 0)
    assert int((found["state"] == "ok").sum()) == 8
    assert found.attrs["stray"] == ["notes.txt"]
    assert found["bytes"].values[0, 0] == verify(store, "g/a").compute()["bytes"].values[0, 0]


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_chunks_of_another_size_than_listed_ones_are_looked_at(form: Any) -> None:
    fs = Bucket()
    store = FsspecStore(fs, "b/x")
    values = np.arange(1, 65, dtype="u2").reshape(8, 8)
    to_n5(values, store, "a", chunks=(4, 4), compression=None, format=form)
    chunks = [k for k in sorted(fs.objects) if k.endswith("1") and ".xn5" not in k]
    for key, cut in zip(chunks, (-1, -32), strict=True):
        fs.objects[key] = fs.objects[key][:cut]
    fs.be_far()
    quick = verify(store, "a", deep=False).compute(scheduler="sync")
    assert fs.counts["HEAD"] <= 2
    xr.testing.assert_identical(quick["state"], verify(store, "a").compute()["state"])
    assert int((quick["state"] == "truncated").sum()) == 2


@pytest.mark.parametrize(("path", "gets"), [("g/a", 4), ("g/h/a", 5)])
def test_documents_that_are_needed_are_asked_for_at_once(path: str, gets: int) -> None:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    create_array(store, path, shape=(4,), dtype="u1")
    fs.be_far()
    open_array(store, path)
    assert (fs.counts["GET"], fs.counts["LIST"], fs.rounds) == (2, 1, 1)
    fs.reset()
    xr.open_dataset(store, engine="n5", group=path).close()  # type: ignore[arg-type]
    assert fs.counts["GET"] <= gets
    assert fs.rounds <= gets - 3


@pytest.mark.matrix(4)
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.title)
def test_requests_wait_for_those_whose_answers_they_need(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.records._TRUSTED", 600.0)  # on a busy machine, too
    for latency in (0.02, 0.05, 0.2):  # on a busy machine, a request may come late
        fs = counted(work.ours, latency=latency)
        if fs.rounds == work.rounds:
            break
    assert (fs.rounds, len(fs.log)) == (work.rounds, work.requests), sorted(fs.log)


def project(unfinished: str = "", **without: Any) -> Bucket:
    """Return the project of 100 views, with an unfinished write of one of them."""
    fs = bucket()
    if unfinished:
        store = FsspecStore(fs, "b/v/x.n5")
        claim_of(store, unfinished, Record("0" * 16, new_attempt(), None)).begin({})
    for key in [key for key in fs.objects if without and key.endswith("s0/attributes.json")]:
        fs.objects[key] = json.dumps({**json.loads(fs.objects[key]), **without}).encode()
    fs.be_far()
    return fs


def open_views(fs: Bucket, **options: Any) -> xr.DataArray:
    """Return the views of the project."""
    return xr.open_dataset((fs, "b/v/views.xml"), engine="n5", level=0, **options)["views"]  # type: ignore[arg-type]


def test_the_name_of_lazy_views_does_not_depend_on_what_was_read() -> None:
    fs = project()
    fs.be_near()
    first, second = (open_views(fs).chunk(tile=1) for _ in range(2))
    before = first.data.name
    first.compute()
    assert second.data.name == before == open_views(fs).chunk(tile=1).data.name


def test_setups_are_read_where_views_lack_their_factors() -> None:
    fs, others = project(downsamplingFactors=None), project()
    views = open_views(fs)
    assert (fs.rounds, len(fs.log)) == (3, 122)
    fs.be_near()
    others.be_near()
    assert views.identical(open_views(others))


@pytest.mark.parametrize(
    ("form", "name", "rounds"),
    [("n5", "x", 1), ("zarr2", "x", 2), ("zarr3", "x", 2), ("zarr2", "x.zarr", 1)],
)
def test_opening_takes_a_round_more_where_the_name_hides_the_format(
    form: Any, name: str, rounds: int
) -> None:
    fs = Far()
    store = FsspecStore(fs, f"b/{name}")
    to_n5(VALUES, store, "g/a", format=form, chunks=CHUNKS)
    fs.be_far()
    for read in (
        lambda: open_array(store, "g/a"),
        lambda: xr.open_dataset(store, engine="n5", group="g/a"),  # type: ignore[arg-type]
    ):
        fs.reset()
        read()
        assert fs.rounds == rounds


def test_an_append_stores_its_record_then_data_then_shapes_then_its_row() -> None:
    (work,) = (each for each in WORKS if "append_dim" in each.title)
    fs = counted(work.ours)

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
