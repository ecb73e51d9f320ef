"""What is stored, chunk by chunk: maps, checks, repairs."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import xxhash

from tests.support import compressions
from tests.support.exhaustive import EXHAUSTIVE
from tests.support.killing import begin
from tests.support.memory import OWN_PEAK
from tests.support.stores import STORES, CountingStore
from xarray_n5 import (
    ChunkError,
    MetadataError,
    MissingChunkError,
    N5Error,
    ResumeError,
    chunk_map,
    copy,
    create_array,
    from_n5,
    open_array,
    pyramid,
    repair,
    to_n5,
    verify,
)
from xarray_n5.arrays.claims import REPAIR

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.stores.base import Store

ROOT = Path(__file__).parents[2]

VALUES = np.arange(6 * 9 * 7, dtype="u2").reshape(6, 9, 7)


def states(report: Any) -> dict[str, int]:
    """How many chunks are in each state."""
    found, counts = np.unique(report.state.values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def damage(place: Path, change: Callable[[bytes], bytes]) -> None:
    place.write_bytes(change(place.read_bytes()))


# Receipts


def test_receipts_tell_what_was_written(tmp_path: Path) -> None:
    receipts: Any = to_n5(da.from_array(VALUES, chunks=4), tmp_path, "a", axes=["z", "y", "x"])
    assert receipts.sizes == {"z": 2, "y": 3, "x": 2}
    assert receipts.z.values.tolist() == [0, 1]
    assert receipts.attrs["chunks"] == 12
    for index in np.ndindex(2, 3, 2):
        chunk = VALUES[open_array(tmp_path, "a").grid.slices(index)]
        assert receipts.digest.values[index] == xxhash.xxh3_64_intdigest(chunk.tobytes())
        size = (tmp_path / "a" / "/".join(map(str, index[::-1]))).stat().st_size
        assert receipts.bytes.values[index] == size
    assert (receipts.seconds > 0).all()
    assert ":" in receipts.worker.values.flat[0]


def test_receipts_of_a_region_are_about_its_chunks() -> None:
    store: Any = CountingStore()
    to_n5(VALUES, store, "a", chunks=4)
    receipts: Any = to_n5(
        VALUES[:2, :1, :],
        store,
        "a",
        region=(slice(2, 4), slice(4, 5), slice(None)),
        partial_chunks="merge",
    )
    assert [receipts[dim].values.tolist() for dim in receipts.dims] == [[0], [1], [0, 1]]


def test_empty_chunks_have_no_bytes() -> None:
    store: Any = CountingStore()
    values = np.zeros((4, 4), "u1")
    values[0, 0] = 1
    receipts: Any = to_n5(values, store, "a", chunks=2, write_empty_chunks=False)
    assert (receipts.bytes.values > 0).tolist() == [[True, False], [False, False]]


# Maps


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_a_map_shows_which_chunks_are_stored(make: Callable[[Path], Store], tmp_path: Path) -> None:
    array = create_array(make(tmp_path), "a", shape=(10, 7), dtype="u1", chunks=(3, 4))
    array[3:6, 4:] = 1
    array[9:, :4] = 1
    found = chunk_map(array.node.container.store, "a")
    assert found.values.tolist() == [[0, 0], [0, 1], [0, 0], [1, 0]]
    assert found.dtype == bool
    assert (found.bytes.values > 0).tolist() == found.values.tolist()
    assert found.sizes == {"dim_0": 4, "dim_1": 2}
    if found.written.notnull().any():
        assert found.written.notnull().values.tolist() == found.values.tolist()


def test_a_map_of_more_than_memory_holds_is_refused(tmp_path: Path) -> None:
    create_array(tmp_path, "a", shape=(1 << 40,), dtype="u1", chunks=64)
    with pytest.raises(ValueError, match="chunk_exists"):
        chunk_map(tmp_path, "a")


@pytest.mark.filterwarnings("ignore::dask.array.core.PerformanceWarning")
def test_a_sparse_array_is_read_where_it_is_stored() -> None:
    store: Any = CountingStore()
    array = create_array(store, "a", shape=(40, 40), dtype="i4", chunks=(4, 4))
    expected = np.zeros((40, 40), "i4")
    for place in ((0, 0), (5, 7), (9, 9), (3, 3)):
        spot = tuple(slice(4 * at, 4 * at + 4) for at in place)
        array[spot] = expected[spot] = 7
    for chunks in (None, (8, 8), (40, 10)):
        lazy = from_n5(array, chunks=chunks, skip_missing=True)
        assert lazy.numblocks == from_n5(array, chunks=chunks).numblocks
        store.requests()
        assert lazy.sum().compute(scheduler="sync") == expected.sum()
        seen = store.requests()
        asked = seen.get("get", 0) + seen.get("get_many", 0)
        assert asked == 4
        np.testing.assert_array_equal(lazy[3:25, 10:].compute(), expected[3:25, 10:])


@pytest.mark.filterwarnings("ignore::dask.array.core.PerformanceWarning")
def test_blocks_that_cut_chunks_are_read_where_any_is_stored() -> None:
    store: Any = CountingStore()
    array = create_array(store, "a", shape=(20,), dtype="i4", chunks=(6,))
    array[6:12] = 3
    lazy = from_n5(array, chunks=(4,), skip_missing=True)
    np.testing.assert_array_equal(lazy.compute(), array[...])


def test_an_array_that_skips_missing_chunks_can_be_stored() -> None:
    store: Any = CountingStore()
    array = create_array(store, "a", shape=(40,), dtype="u1", chunks=4)
    array[8:12] = 5
    to_n5(from_n5(array, skip_missing=True), store, "b")
    np.testing.assert_array_equal(open_array(store, "b")[...], array[...])


# Checks


@pytest.mark.parametrize("compression", [*compressions.NAMES, "lzma"])
def test_each_kind_of_damage_has_its_name(tmp_path: Path, compression: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 50, (8, 12), "u2")
    to_n5(values, tmp_path, "a", chunks=4, compression=compression, checksums=True)
    assert states(verify(tmp_path, "a").compute()) == {"ok": 6}
    folder = tmp_path / "a"
    (folder / "0/0").unlink()
    damage(folder / "0/1", lambda data: data[: len(data) * 2 // 3])
    damage(folder / "1/0", lambda _: b"")
    damage(folder / "1/1", lambda data: b"\0\0\0\7" + data[4:])
    header = struct.pack(">HHII", 0, 2, 4, 3)
    other = create_array(tmp_path, "b", shape=(3, 4), dtype="u2", compression=compression)
    other[...] = 1
    assert (tmp_path / "b/0/0").read_bytes().startswith(header)
    (folder / "2/0").write_bytes((tmp_path / "b/0/0").read_bytes())
    full = create_array(tmp_path, "c", shape=(4, 4), dtype="u2", compression=compression)
    full[...] = 60000
    (folder / "2/1").write_bytes((tmp_path / "c/0/0").read_bytes())
    (folder / "notes.txt").write_text("mine")
    (folder / "3").mkdir()
    (folder / "3/0").write_bytes(b"beyond")
    report = verify(tmp_path, "a").compute()
    found = report.state.values
    assert found[0, 0] == "missing"
    assert found[1, 0] in {"truncated", "undecodable"}
    if compression != "lzma":
        assert found[1, 0] == "truncated"
    assert found[0, 1] == "truncated"
    assert found[1, 1] == "undecodable"
    assert found[0, 2] == "wrong-shape"
    assert found[1, 2] == "digest-differs"
    assert report.attrs["stray"] == ["notes.txt", "3/0"]
    quick = verify(tmp_path, "a", deep=False).compute().state.values
    assert quick[0, 0] == "missing"
    assert quick[0, 1] == "truncated"
    assert quick[1, 1] == "undecodable"
    assert quick[0, 2] == "wrong-shape"
    assert quick[1, 2] == "ok"
    if compression in {"raw", "blosc"}:
        assert quick[1, 0] == "truncated"


SUFFIXES = {"N5": ".n5", "Zarr v2": ".zarr", "Zarr v3": ".zarr", "HDF5": ".h5"}

NOISE = np.random.default_rng(0).poisson(20, (16, 16, 16)).astype("u2")


def rows_of_damage() -> list[Any]:
    """Each compression, format and word of the table in the documentation."""
    page = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    lines = re.search(r"\| compression .*\n\n", page, re.DOTALL)
    assert lines is not None
    head, _, *rows = (line.strip("| ").split("|") for line in lines[0].strip().splitlines())
    formats = [name.strip() for name in head[1:]]
    found = []
    for first, *words in rows:
        names = re.findall(r"`(\w+)`", first)
        if names:
            pairs = zip(formats, map(str.strip, words), strict=False)
            found += [(names[0], form, word) for form, word in pairs if word]
    return found


def stored_noise(folder: Path, name: str, form: str, **options: Any) -> tuple[Path, int, int]:
    """Store an array of one chunk; return the file, and the chunk's first byte and size."""
    place = folder / f"c{SUFFIXES[form]}"
    how: Any = {"format": form.lower().replace(" v", ""), "compression": name, **options}
    to_n5(NOISE, place, "a", chunks=16, **how)
    if form == "HDF5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(place) as file:
            chunk = file["a"].id.get_chunk_info(0)
        return place, chunk.byte_offset, chunk.size
    files = [file for file in (place / "a").rglob("*") if file.is_file()]
    file = max(files, key=lambda each: each.stat().st_size)
    return file, 0, file.stat().st_size


def unseen(file: Path, first: int, size: int, place: Path) -> list[int]:
    """Change some bytes of a chunk, one after another; return those that `verify` calls ok."""
    data, missed = file.read_bytes(), []
    for at in np.linspace(0, size - 1, 12).astype(int).tolist():
        changed = bytearray(data)
        changed[first + at] ^= 1 << at % 8
        file.write_bytes(changed)
        state = verify(place, "a").compute(scheduler="sync").state.item()
        try:
            same = np.array_equal(open_array(place, "a")[...], NOISE)
        except N5Error:
            same = True
        # A bit that decoders ignore, such as the time in gzip's header, changes nothing.
        if state == "ok" and not same:
            missed.append(at)
    file.write_bytes(data)
    return missed


@pytest.mark.matrix(4)
@pytest.mark.parametrize(("name", "form", "word"), rows_of_damage())
def test_a_changed_byte_is_found_as_the_table_says(
    tmp_path: Path, name: str, form: str, word: str
) -> None:
    file, first, size = stored_noise(tmp_path, name, form)
    missed = unseen(file, first, size, tmp_path / f"c{SUFFIXES[form]}")
    assert len(missed) == 0 if word == "always" else len(missed) > 2
    if word == "never":
        assert len(missed) > 10


@pytest.mark.matrix(4)
@pytest.mark.parametrize("form", SUFFIXES)
@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_digests_find_every_changed_byte(tmp_path: Path, name: str, form: str) -> None:
    file, first, size = stored_noise(tmp_path, name, form, checksums=True)
    assert unseen(file, first, size, tmp_path / f"c{SUFFIXES[form]}") == []


@pytest.mark.parametrize("form", SUFFIXES)
def test_copies_and_pyramids_store_digests_on_request(tmp_path: Path, form: str) -> None:
    how: Any = {"format": form.lower().replace(" v", ""), "compression": None, "checksums": True}
    source, place = tmp_path / "s.n5", tmp_path / f"d{SUFFIXES[form]}"
    to_n5(NOISE, source, "g/a", chunks=8)
    copy(source, place, fsync=True, **how)
    copy(source, place, source_path="g/a", path="alone", **how)
    pyramid(NOISE, place, "p", levels=1, chunks=8, fsync=True, **how)
    report = verify(place).compute()
    assert {node.path for node in report.leaves} == {"/g/a", "/alone", "/p/s0", "/p/s1"}
    assert all(node.attrs["digests"] for node in report.leaves)
    copy(source, tmp_path / "without.n5")
    assert not verify(tmp_path / "without.n5", "g/a").attrs["digests"]


@pytest.mark.parametrize("form", SUFFIXES)
def test_a_strict_check_raises_for_what_is_missing_damaged_or_unfinished(
    tmp_path: Path, form: str
) -> None:
    place = tmp_path / f"c{SUFFIXES[form]}"
    how: Any = {"format": form.lower().replace(" v", "")}
    to_n5(NOISE, place, "g/whole", chunks=8, compression=None, **how)
    assert verify(place, "g/whole", strict=True).state.size == 8
    assert set(verify(place, strict=True).children) == {"g"}
    create_array(place, "g/part", shape=(8, 8), dtype="u2", chunks=4, **how)[:4] = 1
    assert states(verify(place, "g/part").compute()) == {"ok": 2, "missing": 2}
    for path, deep in (("g/part", True), ("", True), ("g", False)):
        with pytest.raises(MissingChunkError, match=r"missing; of all chunks .*: 2 missing, 2 ok"):
            verify(place, path, strict=True, deep=deep)
    if form != "HDF5":
        open_array(place, "g/part", mode="r+")[4:] = 1
        assert verify(place, strict=True, deep=False) is not None
        chunk = next(each for each in (place / "g/whole").rglob("*[0-9]") if each.is_file())
        chunk.write_bytes(chunk.read_bytes()[:20])
        with pytest.raises(ChunkError, match=r"truncated; of all chunks .*: 7 ok, 1 truncated"):
            verify(place, strict=True)
        repair(place, "g/whole")
        to_n5(da.from_array(NOISE, chunks=8), place, "later", chunks=8, compute=False)
        begin(place, "later")
        with pytest.raises(MissingChunkError, match="later/"):
            verify(place, "later", strict=True)


def test_a_strict_check_raises_for_an_unfinished_write_and_for_odd_metadata(tmp_path: Path) -> None:
    to_n5(da.from_array(VALUES, chunks=4), tmp_path, "a", chunks=4, compute=False)
    begin(tmp_path, "a")
    open_array(tmp_path, "a", mode="r+")[...] = VALUES
    with pytest.raises(MetadataError, match="has an unfinished write"):
        verify(tmp_path, "a", strict=True)
    (tmp_path / "other/b").mkdir(parents=True)
    (tmp_path / "other/b/attributes.json").write_text(
        '{"dimensions": [4], "blockSize": [2], "dataType": "int33", "compression": {"type": "raw"}}'
    )
    assert verify(tmp_path / "other").attrs["errors"].keys() == {"b"}
    with pytest.raises(MetadataError, match="int33"):
        verify(tmp_path / "other", strict=True)


def test_checks_are_lazy_and_few(tmp_path: Path) -> None:
    create_array(tmp_path, "a", shape=(100, 100, 100), dtype="u1", chunks=1)
    report = verify(tmp_path, "a")
    assert report.state.shape == (100, 100, 100)
    assert report.state.data.npartitions < 10000
    part = report.isel(dim_0=slice(2), dim_1=slice(2), dim_2=slice(2)).compute()
    assert states(part) == {"missing": 8}


def test_no_digests_no_comparison(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4)
    to_n5(VALUES + 1, tmp_path, "b", chunks=4)
    (tmp_path / "a/0/0/0").write_bytes((tmp_path / "b/0/0/0").read_bytes())
    report = verify(tmp_path, "a").compute()
    assert states(report) == {"ok": 12}
    assert not report.attrs["digests"]


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array.__setitem__(0, 999),
        lambda array: array.write_chunk((0, 0, 0), np.ones((4, 4, 4), "u2")),
        lambda array: array.delete_chunk((0, 0, 0)),
        lambda array: array.resize((5, 9, 7)).resize((6, 9, 7)),
        lambda array: array.resize((6, 9, 8)),
        lambda array: to_n5(VALUES + 1, array.node.container.store, "a", mode="r+"),
        lambda array: to_n5(VALUES + 1, array.node.container.store, "a", mode="w", chunks=4),
        lambda array: to_n5(
            VALUES[:4] + 1, array.node.container.store, "a", region=(slice(0, 4),) * 1
        ),
        lambda array: to_n5(
            np.ones((6, 9, 7), "u2"), array.node.container.store, "a", mode="r+", compute=False
        ).compute(),
    ],
    ids=["brackets", "a chunk", "deletion", "resize", "growth", "r+", "w", "region", "deferred"],
)
def test_digests_go_where_they_would_call_right_what_is_meant(tmp_path: Path, change: Any) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4, checksums=True)
    change(open_array(tmp_path, "a", mode="r+"))
    report = verify(tmp_path, "a").compute()
    assert not report.attrs["digests"]
    assert set(states(report)) <= {"ok", "missing"}


@pytest.mark.parametrize("options", [{"mode": "w", "chunks": 4}, {"mode": "r+"}])
def test_digests_of_a_second_write_replace_those_of_the_first(tmp_path: Path, options: Any) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4, checksums=True)
    to_n5(VALUES + 1, tmp_path, "a", checksums=True, **options)
    report = verify(tmp_path, "a").compute()
    assert report.attrs["digests"]
    assert states(report) == {"ok": 12}


# Repairs


@pytest.mark.parametrize("how", ["quarantine", "remove"])
def test_what_is_damaged_is_taken_away_and_written_again(tmp_path: Path, how: Any) -> None:
    source = da.from_array(VALUES, chunks=4)
    to_n5(source, tmp_path, "a", chunks=4, checksums=True)
    whole = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    inodes = {f: f.stat().st_ino for f in whole}
    bad = [tmp_path / "a/0/0/0", tmp_path / "a/1/2/1"]
    for each in bad:
        damage(each, lambda data: data[:-3])
    report = repair(tmp_path, "a", how=how)
    assert report.attrs["repaired"] == 2
    assert not any(each.exists() for each in bad)
    kept = sorted(f.name for f in tmp_path.rglob(".xn5/quarantine/**/*") if f.is_file())
    assert len(kept) == (2 if how == "quarantine" else 0)
    receipts: Any = to_n5(source, tmp_path, "a", chunks=4, checksums=True, resume=True)
    assert (receipts.seconds > 0).sum() == 2
    for each, content in whole.items():
        assert each.read_bytes() == content
        if each not in bad and ".xn5" not in each.parts:
            assert each.stat().st_ino == inodes[each]
    assert states(verify(tmp_path, "a").compute()) == {"ok": 12}
    assert not list(tmp_path.rglob(".xn5/open*"))


def test_an_interrupted_write_is_repaired_too(tmp_path: Path) -> None:
    source = da.from_array(VALUES, chunks=4)
    every: Any = ({}, {"checksums": True}, {"write_empty_chunks": False})
    for number, options in enumerate(every):
        name = f"a{number}"
        to_n5(source, tmp_path, name, chunks=4, **options)
        other = f"b{number}"
        to_n5(source, tmp_path, other, chunks=4, compute=False, **options)
        begin(tmp_path, other)
        # As if all but the end had been computed.
        for file in (tmp_path / name).rglob("[0-9]"):
            if file.is_file():
                target = tmp_path / other / file.relative_to(tmp_path / name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
        damage(tmp_path / other / "0/0/0", lambda data: data[:9])
        repair(tmp_path, other)
        with pytest.raises(ResumeError):
            to_n5(source + 1, tmp_path, other, chunks=4, resume=True, **options)
        to_n5(source, tmp_path, other, chunks=4, resume=True, **options)
        np.testing.assert_array_equal(open_array(tmp_path, other)[...], VALUES)


def test_missing_chunks_are_written_again_on_request(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4)
    (tmp_path / "a/0/0/0").unlink()
    repair(tmp_path, "a")
    assert verify(tmp_path, "a").attrs["unfinished"] == []
    to_n5(VALUES, tmp_path, "a", chunks=4, resume=True)  # has finished: no chunk is asked for
    assert states(verify(tmp_path, "a").compute()) == {"ok": 11, "missing": 1}
    repair(tmp_path, "a", missing=True)
    assert len(verify(tmp_path, "a").attrs["unfinished"]) == 1
    to_n5(VALUES, tmp_path, "a", chunks=4, resume=True)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], VALUES)
    assert verify(tmp_path, "a").attrs["unfinished"] == []


def test_a_repaired_array_is_still_the_result_of_its_own_write(tmp_path: Path) -> None:
    lazy = da.from_array(VALUES, chunks=4)
    stored = xr.Dataset({"a": (("z", "y", "x"), lazy)})
    for write, path in (
        (lambda: to_n5(lazy, tmp_path, "alone", chunks=4, resume=True), "alone"),
        (lambda: stored.n5.to_n5(tmp_path, group="g", resume=True), "g/a"),
    ):
        write()
        (tmp_path / path / "0/0/0").unlink()
        repair(tmp_path, path, missing=True)
        write()
        np.testing.assert_array_equal(open_array(tmp_path, path)[...], VALUES)
        kept = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("[!.]*") if p.is_file()}
        write()  # raises nothing, and computes nothing
        assert kept == {p: p.stat().st_mtime_ns for p in kept}


def test_repaired_array_refuses_the_values_of_another_write(tmp_path: Path) -> None:
    stored = da.from_array(VALUES, chunks=4)
    to_n5(stored, tmp_path, "a", chunks=4, resume=True)
    (tmp_path / "a/0/0/0").unlink()
    repair(tmp_path, "a", missing=True)
    for resume in (True, False):
        with pytest.raises(ResumeError):
            to_n5(stored + 1, tmp_path, "a", chunks=4, resume=resume)
    assert not (tmp_path / "a/0/0/0").exists()
    to_n5(stored, tmp_path, "a", chunks=4, resume=True)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], VALUES)


def test_parts_that_share_a_damaged_chunk_are_both_written_again(tmp_path: Path) -> None:
    values = np.arange(10, dtype="i4")
    to_n5(np.zeros(10, "i4"), tmp_path, "a", chunks=4)
    parts = [slice(0, 6), slice(6, 10)]
    for part in parts:
        to_n5(values[part], tmp_path, "a", region=part, partial_chunks="merge")
    (tmp_path / "a/1").write_bytes(b"xx")
    repair(tmp_path, "a")
    with pytest.raises(ResumeError):  # until the last writer of the chunk has written it again
        to_n5(values[:6], tmp_path, "a", region=parts[0], resume=True, partial_chunks="merge")
    for part in reversed(parts):
        to_n5(values[part], tmp_path, "a", region=part, resume=True, partial_chunks="merge")
    assert open_array(tmp_path, "a", mode="r+")[...].tolist() == values.tolist()


def test_repair_of_a_finished_write_ends_when_that_write_is_repeated(tmp_path: Path) -> None:
    values = np.arange(40, dtype="i4")
    to_n5(values, tmp_path, "a", chunks=10)
    (tmp_path / "a/1").write_bytes(b"xx")
    repair(tmp_path, "a")
    repair(tmp_path, "a")
    (token,) = verify(tmp_path, "a").attrs["unfinished"]
    assert token != REPAIR
    for part in (slice(10, 20), slice(20, 40)):  # the record of a write has all its chunks
        with pytest.raises(ResumeError):
            to_n5(values[part], tmp_path, "a", region=part, resume=True)
    to_n5(values, tmp_path, "a", chunks=10, resume=True)
    assert verify(tmp_path, "a").attrs["unfinished"] == []
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], values)


def test_repair_of_chunks_of_no_write_ends_with_a_write_that_covers_them(tmp_path: Path) -> None:
    values = np.arange(40, dtype="i4")
    create_array(tmp_path, "a", shape=(40,), dtype="i4", chunks=10)[...] = values
    (tmp_path / "a/1").write_bytes(b"xx")
    repair(tmp_path, "a")
    repair(tmp_path, "a")
    to_n5(values[20:], tmp_path, "a", region=slice(20, 40), resume=True)
    assert verify(tmp_path, "a").attrs["unfinished"] == ["repair"]
    to_n5(values[10:20], tmp_path, "a", region=slice(10, 20), resume=True)
    assert verify(tmp_path, "a").attrs["unfinished"] == []
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], values)


def test_repair_beside_another_write_is_not_forgotten(tmp_path: Path) -> None:
    values = da.arange(1, 41, chunks=10, dtype="i4")
    to_n5(values, tmp_path, "a")
    to_n5(values[20:], tmp_path, "a", region=slice(20, 40), compute=False)
    (tmp_path / "a/0").write_bytes(b"x")
    repair(tmp_path, "a")
    with pytest.raises(ResumeError):
        to_n5(values[20:], tmp_path, "a", region=slice(20, 40), resume=True)
    to_n5(values, tmp_path, "a", resume=True)
    to_n5(values[20:], tmp_path, "a", region=slice(20, 40), resume=True)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], values)
    assert not list(tmp_path.rglob(".xn5/open*"))


def test_what_others_left_short_is_not_taken_away(tmp_path: Path) -> None:
    to_n5(np.arange(1, 7, dtype="u1"), tmp_path, "a", chunks=4)
    document = tmp_path / "a/attributes.json"
    document.write_text(document.read_text().replace("[6]", "[8]"))
    report = repair(tmp_path, "a")
    assert states(report) == {"ok": 1, "wrong-shape": 1}
    assert open_array(tmp_path, "a")[...].tolist() == [1, 2, 3, 4, 5, 6, 0, 0]


@pytest.mark.parametrize(
    "dims", [("time", "x"), ("bytes", "digest"), ("state", "worker"), ("bytes", "bytes_")]
)
def test_dimensions_may_be_called_like_what_is_told_of_chunks(
    tmp_path: Path, dims: tuple[str, str]
) -> None:
    data = xr.DataArray(np.ones((4, 4)), {dims[0]: np.arange(4.0)}, dims)
    receipts: Any = to_n5(data, tmp_path, "a", chunks=2)
    assert receipts["bytes"].shape == (2, 2)
    assert chunk_map(tmp_path, "a").all()
    assert states(verify(tmp_path, "a").compute()) == {"ok": 4}


def test_a_report_about_another_array_repairs_nothing(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4)
    to_n5(VALUES, tmp_path, "b", chunks=4)
    with pytest.raises(ValueError, match="about"):
        repair(tmp_path, "a", verify(tmp_path, "b"))


# What is under way


def test_a_flushed_write_is_like_any_other(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4, fsync=True)
    np.testing.assert_array_equal(open_array(tmp_path, "a")[...], VALUES)


def test_a_write_under_way_is_seen_and_leaves_nothing(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4, compute=False)
    begin(tmp_path, "a")
    (mark,) = (tmp_path / "a").glob(".xn5/open*")
    (token,) = verify(tmp_path, "a").attrs["unfinished"]
    assert mark.name.startswith(f"open-{token}-")
    (tmp_path / "a/0/0").mkdir(parents=True)
    stale = tmp_path / f"a/0/0/.1.{'0' * 32}.partial"
    stale.write_bytes(b"half")
    to_n5(VALUES, tmp_path, "a", chunks=4, resume=True)
    assert not mark.exists()
    assert not stale.exists()


def test_partials_of_others_stay_while_their_chunks_are_not_written(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4)
    other = tmp_path / f"a/1/2/.1.{'0' * 32}.partial"
    other.write_bytes(b"half")
    to_n5(VALUES[:4, :4, :4], tmp_path, "a", region=(slice(4), slice(4), slice(4)))
    assert other.exists()


def test_plans_cost_nothing_however_many_chunks_there_are() -> None:
    store: Any = CountingStore()
    source = da.zeros((800, 400, 400), chunks=4, dtype="u1")
    assert source.npartitions == 2_000_000
    total: Any = to_n5(source, store, "a", compute=False)
    layers = total.dask.layers.values()
    assert sum(len(layer) for layer in layers if layer.is_materialized()) < 4
    assert sum(store.requests().values()) < 20


@pytest.mark.matrix(2)
@pytest.mark.parametrize("side", [100, 1002, 2100])
def test_many_blocks_give_all_their_receipts(side: int) -> None:
    store: Any = CountingStore()
    source = da.ones(side * 10, chunks=10, dtype="u1")
    receipts: Any = to_n5(source, store, "a", compression=None)
    assert receipts["bytes"].values.tolist() == [8 + 10] * side
    gone = [f"a/{n}" for n in range(side) if n % 10]
    store.delete(gone)
    repair(store, "a", missing=True)
    receipts = to_n5(source, store, "a", compression=None, resume=True)
    assert (receipts["seconds"] > 0).sum() == len(gone)
    assert (open_array(store, "a")[...] == 1).all()


def test_a_write_has_hardly_more_tasks_than_blocks() -> None:
    store: Any = CountingStore()
    source = da.zeros((90, 40, 40), chunks=2, dtype="u1") + 1
    total: Any = to_n5(source, store, "a", compute=False)
    from dask.base import optimize

    (small,) = optimize(total)
    assert len(dict(small.dask)) <= source.npartitions * 1.002 + 2


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
def test_memory_does_not_grow_with_what_is_written(tmp_path: Path) -> None:
    script = (
        f"import sys, dask, dask.array as da, xarray_n5\n{OWN_PEAK}\n"
        "dask.config.set(scheduler='threads', num_workers=2)\n"
        "x = da.ones((int(sys.argv[1]), 1 << 20), chunks=(1, -1), dtype='u4')\n"
        "gzip = {'type': 'gzip', 'level': 1}\n"
        "xarray_n5.to_n5(x + 1, sys.argv[2], 'a', chunks=(1, 1 << 20), compression=gzip)\n"
        "print(own_peak())\n"
    )
    peaks = []
    for blocks in (10, 60 if EXHAUSTIVE else 35):  # of 4 MiB each
        command = [sys.executable, "-c", script, str(blocks), str(tmp_path / str(blocks))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 40_000_000  # ten blocks, of all that are more
