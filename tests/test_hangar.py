"""Hangar's HDF5 files: the corpus of Hangar 0.5.2, and what we write in its layout."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import dask.array as da
import h5py
import hdf5plugin  # noqa: F401 - plain h5py needs its filters
import numcodecs
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from xxhash import xxh64_hexdigest

import xarray_n5
from xarray_n5 import HangarWriter, from_hangar, hangar_records, to_hangar
from xarray_n5.errors import (
    ChunkError,
    MetadataError,
    MissingPackageError,
    NodeExistsError,
    NodeNotFoundError,
    PathError,
)
from xarray_n5.hangar import layout as hangar_layout
from xarray_n5.hangar import writer as hangar_writer
from xarray_n5.hangar.files import Run, written_rows
from xarray_n5.hangar.handles import HANDLES
from xarray_n5.hangar.layout import DTYPES, Layout, following, is_finished
from xarray_n5.hangar.options import filters
from xarray_n5.hangar.records import Record, parse_record
from xarray_n5.hangar.runs import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from distributed import Client

UID, DIGEST = "rlUK3C", "8067007c0f05c359"

LZF = {"complib": "lzf", "complevel": None, "shuffle": True}

BLOSC = {"complib": "blosc:zstd", "complevel": 3, "shuffle": "bit"}


def samples(count: int = 7, shape: tuple[int, ...] = (3, 5), dtype: str = "int16") -> np.ndarray:
    numbers = np.random.default_rng(1).integers(0, 100, (count, *shape))
    return numbers.astype(dtype)


def only_file(folder: Path) -> Path:
    (file,) = folder.glob("*.hdf5")
    return file


def run_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run code in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(  # noqa: S603
        command, env=environment, stdout=subprocess.PIPE, text=True
    )


# Records


@pytest.mark.parametrize(
    ("text", "form", "record"),
    [
        (
            "00:rlUK3C:8067007c0f05c359:16:105:10 10",
            "0.5",
            Record(uid=UID, digest=DIGEST, dataset=16, row=105, shape=(10, 10)),
        ),
        (
            "00:rlUK3C:b89f873d3d153a9c:8:199:20 2 3",
            "0.5",
            Record(uid=UID, digest="b89f873d3d153a9c", dataset=8, row=199, shape=(20, 2, 3)),
        ),
        (
            "00:ab12cd34:8067007c0f05c359:0:0:",
            "0.5",
            Record(uid="ab12cd34", digest=DIGEST, dataset=0, row=0, shape=()),
        ),
        (
            "01:ab12cd34:8067007c0f05c359:0:7:5",
            "0.5",
            Record(uid="ab12cd34", digest=DIGEST, dataset=0, row=7, shape=(5,), backend="01"),
        ),
        (
            "00:rlUK3C$8067007c0f05c359$16 105*10 10",
            "0.4",
            Record(uid=UID, digest=DIGEST, dataset=16, row=105, shape=(10, 10)),
        ),
        (
            "00:rlUK3C$16 105*10 10",
            "0.3",
            Record(uid=UID, digest=None, dataset=16, row=105, shape=(10, 10)),
        ),
        ("00:rlUK3C$0 0*", "0.3", Record(uid=UID, digest=None, dataset=0, row=0, shape=())),
    ],
)
def test_records_of_every_form_are_parsed_and_produced(
    text: str, form: Any, record: Record
) -> None:
    assert parse_record(text) == record
    assert parse_record(text.encode()) == record
    assert record.text(form) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10:rlUK3C:8067007c0f05c359:16:105:10 10",
        "00:rlUK3C:8067007C0F05C359:16:105:10 10",
        "00:rlUK3C:8067007c0f05c35:16:105:10 10",
        "00:rlUK3C:8067007c0f05c359:16:105:10  10",
        "00:rlUK3C:8067007c0f05c359:16:105:10 10\n",
        "00:rlUK3C:8067007c0f05c359:-1:105:10 10",
        "00:rlUK3C:8067007c0f05c359:16:\u0661:10 10",
        "00:../../etc:8067007c0f05c359:16:105:10 10",
        "00:rlUK3C:8067007c0f05c359:16:105",
    ],
)
def test_what_is_no_record_is_named(text: str) -> None:
    with pytest.raises(MetadataError, match="is no record of Hangar's HDF5 files") as caught:
        parse_record(text)
    assert repr(text) in str(caught.value)


def test_records_longer_than_hangar_reads_are_refused(tmp_path: Path) -> None:
    shape = (1,) * 112
    record = Record(uid="ab12cd34", digest=DIGEST, dataset=0, row=0, shape=shape[:111])
    assert len(record.text()) == 254
    with pytest.raises(MetadataError, match="has 256 characters; Hangar reads 255"):
        Record(uid="ab12cd34", digest=DIGEST, dataset=0, row=0, shape=shape).text()
    with pytest.raises(MetadataError, match="characters; Hangar reads 255"):
        parse_record("00:" + "a" * 300)
    with pytest.raises(MetadataError, match="Hangar reads 255"):
        HangarWriter(tmp_path / "new", shape, "u1")
    assert not (tmp_path / "new").exists()


def test_a_record_without_digest_has_only_the_oldest_form() -> None:
    record = Record(uid=UID, digest=None, dataset=1, row=2, shape=(3,))
    assert str(record) == "00:rlUK3C$1 2*3"
    with pytest.raises(MetadataError, match=r"only Hangar 0\.3's form"):
        record.text()


# Options


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, (32001, (0, 0, 0, 0, 5, 1, 2), False)),
        ({"complib": "blosc:blosclz", "complevel": 0, "shuffle": None}, (32001, (0, 0, 0), False)),
        ({"complib": "blosc:lz4", "complevel": 9, "shuffle": "none"}, (32001, (9, 0, 1), False)),
        ({"complib": "blosc:zlib", "complevel": 4, "shuffle": "byte"}, (32001, (4, 1, 4), False)),
        ({**BLOSC, "backend": "00"}, (32001, (3, 2, 5), False)),
        ({"complib": "lzf", "complevel": None, "shuffle": True}, ("lzf", None, True)),
        ({"complib": "lzf", "complevel": False, "shuffle": "byte"}, ("lzf", None, True)),
        ({"complib": "lzf", "complevel": "none", "shuffle": False}, ("lzf", None, False)),
        ({"complib": "lzf", "shuffle": None}, ("lzf", None, False)),
        ({"complib": "gzip", "complevel": 0, "shuffle": "none"}, ("gzip", 0, False)),
        ({"complib": "gzip", "complevel": 9, "shuffle": True}, ("gzip", 9, True)),
    ],
)
def test_options_are_filters(options: Any, expected: tuple[Any, Any, bool]) -> None:
    made = filters(options, 17)
    numbers = made.options[-3:] if isinstance(made.options, tuple) else made.options
    wanted = expected[1][-3:] if isinstance(expected[1], tuple) else expected[1]
    assert (made.compression, numbers, made.shuffle) == (expected[0], wanted, expected[2])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backend": "01"}, "'backend' is '01'; it may be '00'"),
        ({"complib": "blosc:snappy"}, "'complib' is 'blosc:snappy'; it may be 'blosc:blosclz'"),
        ({"complib": None}, "'complib' is None"),
        ({"complevel": 10}, "'complevel' is 10; it may be 0 to 9"),
        ({"complevel": True}, "'complevel' is True; it may be 0 to 9"),
        ({"complevel": None}, "'complevel' is None; it may be 0 to 9"),
        ({"shuffle": True}, "'shuffle' is True; it may be None, 'none', 'byte', 'bit'"),
        ({"complib": "lzf", "complevel": 0, "shuffle": True}, "it may be False, None, 'none'"),
        ({"complib": "lzf", "complevel": None}, "'shuffle' is 'bit'; it may be False, None,"),
        ({"complib": "gzip", "shuffle": 1}, "'shuffle' is 1; it may be False, None, 'none', True"),
        ({"level": 3}, "the key is 'level'; it may be 'backend', 'complib', 'complevel'"),
    ],
)
def test_other_options_are_refused_in_the_words_of_the_page(changes: Any, words: str) -> None:
    with pytest.raises(MetadataError) as caught:
        filters({**BLOSC, **changes}, 1000)
    assert words in str(caught.value)


def test_small_samples_have_lzf_since_blosc_refuses_them() -> None:
    assert filters(None, 17).compression == 32001
    made = filters(None, 16)
    assert (made.compression, made.shuffle) == ("lzf", True)
    with pytest.raises(MetadataError, match="takes no samples of 16 bytes"):
        filters(BLOSC, 16)


# Layout


def test_the_last_dataset_is_never_filled() -> None:
    place, count = (0, 0), 1
    while not is_finished(following(*place)[0]):
        place, count = following(*place), count + 1
    assert (place, count) == ((98, 249), 24_750)


@pytest.mark.parametrize("shape", [(), (1,), (5, 7, 9), (255_001,), (400, 300)])
@pytest.mark.parametrize("dtype", ["?", "u1", "f4", "f8"])
def test_chunks_are_rows_of_at_most_255000_bytes(shape: tuple[int, ...], dtype: str) -> None:
    layout = Layout(shape, np.dtype(dtype))
    assert layout.chunks == (1, min(255_000 // np.dtype(dtype).itemsize, int(np.prod(shape))))


def test_shapes_and_types_that_hangar_cannot_hold_are_refused(tmp_path: Path) -> None:
    for dtype in ("c8", "M8[s]", "S3", "O"):
        with pytest.raises(MetadataError, match="cannot be held by Hangar"):
            HangarWriter(tmp_path / "new", (2,), dtype)
    with pytest.raises(MetadataError, match="no elements"):
        to_hangar(np.zeros((3, 0, 4)), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_shapes_that_are_none_are_refused(tmp_path: Path) -> None:
    wrong: list[Any] = [(-2, 3), (-2, -3), (3.7,), ("3",)]
    for shape in wrong:
        with pytest.raises(MetadataError, match="shape is "):
            HangarWriter(tmp_path / "new", shape, "f4")
    with HangarWriter(tmp_path / "new", (np.int64(2),), "f4") as writer:  # type: ignore[arg-type]
        assert writer.write(np.ones(2, "f4")).endswith(":2")


def test_masks_are_refused_since_nothing_keeps_them(tmp_path: Path) -> None:
    masked = np.ma.masked_less(samples(), 50)  # type: ignore[no-untyped-call]
    lazy = da.from_array(masked, chunks=(2, 3, 5))
    wrong: list[Any] = [masked, lazy, masked[:, 0, 0], list(masked)]
    for each in wrong:
        with pytest.raises(MetadataError, match="keep no masks: fill it"):
            to_hangar(each, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    filled = to_hangar(da.ma.filled(lazy), tmp_path / "new")
    np.testing.assert_array_equal(from_hangar(tmp_path / "new", filled), masked.filled())


def test_urls_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PathError, match="written on local disks only"):
        HangarWriter("s3://bucket/x", (3,), "f8")
    with pytest.raises(PathError, match="written on local disks only"):
        to_hangar(samples(), "memory://x")
    assert not list(tmp_path.iterdir())


# Hangar's own files


def test_every_sample_of_the_corpus_equals_its_hash(corpus: Path) -> None:
    repo = corpus / "peers/hangar-0.5.2"
    rows = json.loads((repo / "manifest.json").read_text())["records"]
    for row in rows:
        record = Record(
            uid=row["file"][-13:-5],
            dataset=int(row["dataset"]),
            row=row["index"],
            shape=tuple(row["shape"]),
            digest=None,
            backend=row["backend"],
        )
        values = np.asarray(from_hangar(repo, [str(record)]))[0]
        assert values.shape == tuple(row["shape"])
        assert values.dtype == row["dtype"]
        assert hashlib.sha256(values.tobytes()).hexdigest() == row["sha256"]
    assert len(rows) == 44


def test_every_record_of_the_corpus_agrees_with_its_digest(corpus: Path) -> None:
    repo = corpus / "peers/hangar-0.5.2"
    rows = json.loads((repo / "manifest.json").read_text())["records"]
    expected = {row["sample"][0]: row for row in rows}
    pytest.importorskip("lmdb")
    found = hangar_records(repo)
    assert sum(map(len, found.values())) == len(expected) == 44
    for column, records in found.items():
        for sample, record in records.items():
            row = expected[f"{column}/{sample}"]
            values = np.asarray(from_hangar(repo, [record]))[0]
            assert values.shape == tuple(row["shape"])
            assert values.dtype == row["dtype"]
            assert hashlib.sha256(values.tobytes()).hexdigest() == row["sha256"]


def test_all_rows_of_the_corpus_are_found_without_records(corpus: Path) -> None:
    repo = corpus / "peers/hangar-0.5.2"
    rows = json.loads((repo / "manifest.json").read_text())["records"]
    dataset = from_hangar(repo)
    assert isinstance(dataset, xr.Dataset)
    assert sorted(map(str, dataset)) == [
        f"{kind}_5x7x9" for kind in ("float32", "float64", "int16", "uint8")
    ]
    found = {
        hashlib.sha256(sample.tobytes()).hexdigest()
        for variable in dataset.values()
        for sample in np.asarray(variable)
    }
    whole = [row for row in rows if row["shape"] == [5, 7, 9]]
    assert found >= {row["sha256"] for row in whole}
    assert sum(map(len, dataset.values())) == len(rows)


def test_columns_of_the_corpus_are_a_dataset(corpus: Path) -> None:
    pytest.importorskip("lmdb")
    repo = corpus / "peers/hangar-0.5.2"
    records = hangar_records(repo)
    assert hangar_records(repo, "STAGED") == hangar_records(repo, "master") == records
    with pytest.raises(MetadataError, match=r"var00: samples of several shapes"):
        from_hangar(repo, records)
    dataset = from_hangar(repo, {name: records[name] for name in ("h00_int16", "h01_int16")})
    assert isinstance(dataset, xr.Dataset)
    assert dataset["h01_int16"].dims == ("sample", "h01_int16_0", "h01_int16_1", "h01_int16_2")
    np.testing.assert_array_equal(dataset["sample"], range(4))
    with pytest.raises(NodeNotFoundError, match="no branch or commit at 'other'"):
        hangar_records(repo, "other")
    with pytest.raises(NodeNotFoundError, match="no Hangar repository"):
        hangar_records(corpus)


def test_our_files_are_made_like_hangars(corpus: Path, tmp_path: Path) -> None:
    theirs = corpus / "peers/hangar-0.5.2/.hangar/data/00"
    made = {"5gx4ox4l": ("f4", None), "u7rpild1": ("i2", None), "rtn68066": ("f4", BLOSC)}
    for uid, (dtype, options) in made.items():
        to_hangar(samples(4, (5, 7, 9), dtype), tmp_path / uid, compression=options)
        with (
            h5py.File(theirs / f"{uid}.hdf5", "r", swmr=True) as one,
            h5py.File(only_file(tmp_path / uid), "r", swmr=True) as two,
        ):
            assert set(one) == set(two)
            assert set(one.attrs) == set(two.attrs)
            for name in set(one.attrs) - {"next_location"}:
                kinds = {file.attrs.get_id(name).dtype.kind for file in (one, two)}
                np.testing.assert_array_equal(one.attrs[name], two.attrs[name], strict=True)
                assert len(kinds) == 1
            assert list(two.attrs["next_location"]) == [0, 3]
            for name in one:
                a, b = (file[name].id.get_create_plist() for file in (one, two))
                assert one[name].dtype == two[name].dtype
                assert one[name].shape == two[name].shape == one[name].maxshape
                assert a.get_chunk() == b.get_chunk()
                assert a.get_filter(0) == b.get_filter(0)
                assert (a.get_nfilters(), b.get_nfilters()) == (1, 1)


# Round trips


@settings(deadline=None, max_examples=25)
@given(
    st.data(),
    st.sampled_from(["?", "u1", "<u2", ">i4", "i8", "f2", "f4", ">f8", "g"]),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=4),
    st.integers(1, 6),
)
def test_samples_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    dtype: str,
    shape: tuple[int, ...],
    count: int,
) -> None:
    values = data.draw(hnp.arrays(np.dtype(dtype), (count, *shape)))
    folder = tmp_path_factory.mktemp("hangar")
    records = to_hangar(values, folder)
    assert len(set(records)) == count
    order = data.draw(st.permutations(range(count)))
    chunks: Any = data.draw(st.sampled_from([None, "auto", 1, 2, 3]))
    every = from_hangar(folder, chunks=chunks)
    some = from_hangar(folder, [records[place] for place in order], chunks=chunks)
    for lazy, expected in ((every, values), (some, values[list(order)])):
        assert isinstance(lazy, da.Array)
        assert lazy.dtype == values.dtype.newbyteorder("=")
        found = lazy.compute()
        assert found.dtype == lazy.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("complib", ["blosc:blosclz", "blosc:lz4", "blosc:zlib", "lzf", "gzip"])
def test_every_compression_comes_back(tmp_path: Path, complib: str) -> None:
    options = {"complib": complib, "complevel": None if complib == "lzf" else 4, "shuffle": "byte"}
    values = samples(5, (300, 301), "f8")
    records = to_hangar(values, tmp_path, compression=options)
    np.testing.assert_array_equal(from_hangar(tmp_path), values)
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < values.nbytes


def test_plain_h5py_reads_what_the_page_says(tmp_path: Path) -> None:
    values = samples(300, (2, 3))
    records = to_hangar(values, tmp_path)
    with h5py.File(only_file(tmp_path), "r", libver="latest", swmr=True) as file:
        assert sorted(file, key=int) == [str(number) for number in range(100)]
        for record, value in zip(records, values, strict=True):
            code, uid, digest, number, row, shape = record.split(":")
            assert (code, f"{uid}.hdf5") == ("00", only_file(tmp_path).name)
            assert file[number].shape == (250, 6)
            stored = file[number][int(row)].reshape([int(size) for size in shape.split()])
            np.testing.assert_array_equal(stored, value)
            assert digest == xxh64_hexdigest(value.tobytes())
        assert records[250].split(":")[3:] == ["1", "0", "2 3"]
        assert list(file.attrs["next_location"]) == [1, 49]
        assert file.attrs["collections_remaining"] == 99


def test_a_full_file_is_followed_by_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangar_layout, "ROWS", 2)
    with HangarWriter(tmp_path, (3,), "u2") as writer:
        records = [parse_record(writer.write(np.full(3, n, "u2"))) for n in range(2 * 99 + 3)]
    first, second = records[0].uid, records[-1].uid
    assert [each.uid for each in records] == [first] * 198 + [second] * 3
    assert (records[197].dataset, records[197].row) == (98, 1)
    assert (records[198].dataset, records[198].row) == (0, 0)
    with h5py.File(tmp_path / f"{first}.hdf5", "r", swmr=True) as file:
        assert list(file.attrs["next_location"]) == [99, 0]
        assert file.attrs["collections_remaining"] == 1
    found = from_hangar([tmp_path / f"{uid}.hdf5" for uid in (first, second)])
    np.testing.assert_array_equal(np.asarray(found)[:, 0], range(201))


def test_writers_never_touch_a_file_that_exists(tmp_path: Path) -> None:
    one = to_hangar(samples(), tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    two = to_hangar(samples(), tmp_path)
    assert {parse_record(each).uid for each in one}.isdisjoint(
        parse_record(each).uid for each in two
    )
    assert all((tmp_path / name).read_bytes() == data for name, data in before.items())
    np.testing.assert_array_equal(from_hangar(tmp_path, [*two, *one]), [*samples(), *samples()])


def test_a_uid_that_is_taken_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aaaaaaaa.hdf5").write_bytes(b"mine")
    letters = iter("a" * 8 + "b" * 8)
    monkeypatch.setattr("secrets.choice", lambda _: next(letters))
    assert to_hangar(samples(1), tmp_path)[0].startswith("00:bbbbbbbb:")
    assert (tmp_path / "aaaaaaaa.hdf5").read_bytes() == b"mine"


def test_blocks_of_dask_are_written_one_after_another(tmp_path: Path) -> None:
    values = samples(20, (4, 6))
    files: list[int] = []

    def note(block: np.ndarray) -> np.ndarray:
        files.append(len(list(tmp_path.glob("*.hdf5"))))
        return block

    lazy = da.from_array(values, chunks=(7, 2, 6)).rechunk((7, 4, 6))
    lazy = lazy.map_blocks(note, meta=values[:0])
    records = to_hangar(lazy, tmp_path)
    assert files == [0, 1, 1]
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)
    again = to_hangar(xr.DataArray(lazy), tmp_path / "other")
    assert [each.split(":")[2:] for each in again] == [each.split(":")[2:] for each in records]


# Shapes that vary


def test_smaller_samples_keep_their_shapes(tmp_path: Path) -> None:
    values = [samples(1, shape)[0] for shape in [(4, 5), (2, 3), (1, 5), (2, 3)]]
    records = to_hangar(values, tmp_path, shape=(4, 6))
    assert [parse_record(each).shape for each in records] == [each.shape for each in values]
    for value, record in zip(values, records, strict=True):
        np.testing.assert_array_equal(from_hangar(tmp_path, [record]), value[None])
    np.testing.assert_array_equal(from_hangar(tmp_path, records[1::2]), values[1::2])
    with pytest.raises(MetadataError, match=r"several shapes.*as \{name: records\}"):
        from_hangar(tmp_path, records)
    rows = np.asarray(from_hangar(tmp_path))
    np.testing.assert_array_equal(rows[1].ravel(), [*values[1].ravel(), *[0] * 18])


def test_samples_that_do_not_fit_are_refused_before_they_are_written(tmp_path: Path) -> None:
    with HangarWriter(tmp_path, (4, 6), "int16") as writer:
        for wrong in (np.zeros((4, 7), "i2"), np.zeros(24, "i2"), np.zeros((4, 6), "i4")):
            with pytest.raises(MetadataError, match="these files hold"):
                writer.write(wrong)
        assert not list(tmp_path.iterdir())
        writer.write(np.ones((4, 6), ">i2"))
    assert written_rows(str(only_file(tmp_path))) == [1]


# What is asked for


def test_one_task_reads_one_run_of_rows(tmp_path: Path) -> None:
    values = samples(600, (2,))
    records = to_hangar(values, tmp_path)
    assert from_hangar(tmp_path).chunks == ((250, 250, 100), (2,))
    assert from_hangar(tmp_path, records).numblocks == (3, 1)
    picked = [*records[10:20], *records[240:260], *records[5:7]]
    lazy = from_hangar(tmp_path, picked)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks[0] == (10, 10, 10, 2)
    assert len(lazy.dask.layers) == 1
    assert len(lazy[3:5].dask.cull(lazy[3:5].__dask_keys__())) <= 2
    assert from_hangar(tmp_path, picked, chunks=16).chunks[0] == (16, 16)
    assert from_hangar(tmp_path, picked, chunks="auto").chunks[0] == (32,)
    expected = np.concatenate([values[10:20], values[240:260], values[5:7]])
    options: list[Any] = [None, 16, np.int64(16), "auto"]
    for chunks in options:
        np.testing.assert_array_equal(from_hangar(tmp_path, picked, chunks=chunks), expected)
    refused: list[Any] = [0, True, "big"]
    for wrong in refused:
        with pytest.raises(ValueError, match="it takes a number of samples"):
            from_hangar(tmp_path, chunks=wrong)


def test_long_runs_are_cut() -> None:
    run = Run(path="a.hdf5", dataset=1, first=3, digests=("x",) * 10)
    cut = blocks_of([run], 4, None)
    assert [(block[0].first, len(block[0].digests)) for block in cut] == [(3, 4), (7, 4), (11, 2)]


def test_names_in_the_graph_say_what_is_read(tmp_path: Path) -> None:
    records = to_hangar(samples(), tmp_path)
    assert from_hangar(tmp_path).name == from_hangar(tmp_path).name
    assert from_hangar(tmp_path, records).name == from_hangar(tmp_path, list(records)).name
    names = {from_hangar(tmp_path, records[:n]).name for n in range(1, 8)}
    assert len(names | {from_hangar(tmp_path).name}) == 8


def test_columns_share_samples_of_the_same_names_only(tmp_path: Path) -> None:
    images = to_hangar(samples(4), tmp_path)
    labels = to_hangar(samples(4, ()), tmp_path)
    one = from_hangar(tmp_path, {"image": images, "label": labels})
    assert isinstance(one, xr.Dataset)
    assert dict(one.sizes) == {"sample": 4, "image_0": 3, "image_1": 5}
    xr.testing.assert_identical(
        one["label"].compute(), xr.DataArray(samples(4, ()), dims="sample", name="label")
    )
    names = {"image": dict(enumerate(images)), "label": dict(zip("abcd", labels, strict=True))}
    two = from_hangar(tmp_path, names)
    assert two["label"].dims == ("label_sample",)
    assert list(two["label_sample"].values) == list("abcd")
    three = from_hangar(tmp_path, {"sample": images, "label": labels[:2]})
    assert three["label"].dims == ("label_sample",)
    assert list(from_hangar(tmp_path)) == ["int16_3x5", "int16"]


def test_dimensions_and_columns_have_names_of_their_own(tmp_path: Path) -> None:
    images = to_hangar(samples(4), tmp_path)
    found = from_hangar(tmp_path, {"b_0": images, "b": images})
    assert isinstance(found, xr.Dataset)
    assert set(found.data_vars) == {"b_0", "b"}
    assert found["b"].dims == ("sample", "b_0_", "b_1")


def test_names_that_would_be_one_are_refused(tmp_path: Path) -> None:
    one, two = to_hangar(samples(2), tmp_path)
    with pytest.raises(MetadataError, match="c: samples are called 1 and '1'"):
        from_hangar(tmp_path, {"c": {1: one, "1": two}})
    columns: Any = {1: [one], "1": [two]}
    with pytest.raises(MetadataError, match="columns are called 1 and '1'"):
        from_hangar(tmp_path, columns)


def test_old_records_without_digests_read_unchecked(tmp_path: Path) -> None:
    records = [parse_record(each) for each in to_hangar(samples(), tmp_path)]
    old = [
        Record(uid=each.uid, digest=None, dataset=0, row=each.row, shape=each.shape).text("0.3")
        for each in records
    ]
    np.testing.assert_array_equal(from_hangar(tmp_path, old), samples())
    middle = [each.text("0.4") for each in records]
    np.testing.assert_array_equal(from_hangar(tmp_path, middle), samples())


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda r: [r[0], "nonsense"], MetadataError, "'nonsense' is no record"),
        (lambda r: r[0], MetadataError, "is one text"),
        (lambda _: [], MetadataError, "none are given"),
        (lambda _: [3], MetadataError, "3 is no record"),
        (lambda r: [r[0].replace(":0:0:", ":100:0:")], MetadataError, ":100:0:3 5' does not fit"),
        (lambda r: [r[0].replace(":0:0:", ":0:250:")], MetadataError, ":0:250:3 5' does not fit"),
        (lambda r: [r[0].replace(":3 5", ":16")], MetadataError, ":16' does not fit"),
        (lambda r: [r[0].replace(":3 5", ":5 3")], MetadataError, ":5 3' does not fit"),
        (lambda r: [f"00:zzzz:{r[0][12:]}"], NodeNotFoundError, "names it"),
        (lambda r: {"a": r[0]}, MetadataError, "a: '00:.*is one text"),
    ],
)
def test_wrong_records_are_named_before_anything_is_read(
    tmp_path: Path, change: Callable[[list[str]], Any], error: type[Exception], words: str
) -> None:
    records = to_hangar(samples(), tmp_path)
    with pytest.raises(error, match=words):
        from_hangar(tmp_path, change(records))


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (record,) = to_hangar(samples(1), tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(MetadataError, match="may be of any of"):
        from_hangar([tmp_path / "a", tmp_path / "b"], [record])


def test_arrays_without_samples_are_refused_or_nothing(tmp_path: Path) -> None:
    unknown = da.from_array(samples(), chunks=(7, 3, 5))
    unknown = unknown[:, (unknown > 1).any(axis=(0, 2))]
    wrong: list[Any] = [np.array(3), unknown]
    for each in wrong:
        with pytest.raises(MetadataError, match="its first axis is the samples"):
            to_hangar(each, tmp_path / "new")
    assert to_hangar([], tmp_path / "new") == []
    assert to_hangar(samples(0), tmp_path / "new") == []
    assert not (tmp_path / "new").exists()


def test_a_file_that_cannot_be_made_whole_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.File, "create_dataset", fail)
    with pytest.raises(OSError, match="No space"):
        to_hangar(samples(), tmp_path)
    assert not list(tmp_path.iterdir())
    assert not HANDLES.written


@pytest.mark.parametrize("renames", [True, False])
def test_a_file_has_its_name_when_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, renames: bool
) -> None:
    # Windows renames no file that is open.
    monkeypatch.setattr(hangar_writer, "RENAMES_OPEN_FILES", renames and os.name != "nt")
    made = h5py.File.create_dataset
    seen: list[list[Path]] = []

    def note(*given: Any, **options: Any) -> Any:
        seen.append([each for each in tmp_path.iterdir() if each.suffix == ".hdf5"])
        return made(*given, **options)

    monkeypatch.setattr(h5py.File, "create_dataset", note)
    code = "import sys, xarray_n5; print(xarray_n5.from_hangar(sys.argv[1]).sum().compute())"
    with HangarWriter(tmp_path, (3, 5), "i2") as writer:
        records = [writer.write(samples()[0])]
        out, _ = run_python(code, tmp_path).communicate()
        assert int(out) == samples()[0].sum()
        records.append(writer.write(samples()[1]))
    assert seen == [[]] * 100
    assert only_file(tmp_path).name == f"{parse_record(records[0]).uid}.hdf5"
    assert list(tmp_path.iterdir()) == [only_file(tmp_path)]
    np.testing.assert_array_equal(from_hangar(tmp_path, records), samples()[:2])
    with h5py.File(only_file(tmp_path), "r") as file:
        assert list(file.attrs["next_location"]) == [0, 1]


def test_a_writer_killed_while_it_makes_a_file_spoils_nothing(tmp_path: Path) -> None:
    to_hangar(samples(), tmp_path)
    code = """
        import os, signal, sys
        import h5py, numpy, xarray_n5

        made = h5py.File.create_dataset

        def create_dataset(file, name, **options):
            if name == "50":
                file.flush()
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
            return made(file, name, **options)

        h5py.File.create_dataset = create_dataset
        xarray_n5.to_hangar(numpy.ones((2, 3)), sys.argv[1])
    """
    killed = run_python(code, tmp_path)
    killed.communicate()
    assert killed.returncode != 0
    assert len(list(tmp_path.glob(".*.partial"))) == 1
    np.testing.assert_array_equal(from_hangar(tmp_path), samples())


def test_a_writer_closes_files_that_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    writer = HangarWriter("data", (3, 5), "i2")
    records = [writer.write(samples()[0])]
    monkeypatch.chdir(tmp_path / "sub")
    writer.close()
    records.append(writer.write(samples()[1]))
    (tmp_path / "data").rename(tmp_path / "moved")
    writer.close()
    np.testing.assert_array_equal(from_hangar(tmp_path / "moved", records), samples()[:2])
    writer.write(samples()[0])
    shutil.rmtree(tmp_path / "data")
    writer.close()
    assert not HANDLES.written


def test_a_writer_that_nobody_has_is_closed(tmp_path: Path) -> None:
    writer = HangarWriter(tmp_path, (3, 5), "i2")
    records = [writer.write(samples()[0])]
    del writer
    gc.collect()
    np.testing.assert_array_equal(from_hangar(tmp_path, records), samples()[:1])


def test_a_writer_that_lives_to_the_end_says_nothing(tmp_path: Path) -> None:
    code = """
        import sys, numpy, xarray_n5
        sys.stderr = sys.stdout
        writer = xarray_n5.HangarWriter(sys.argv[1], (3,), "f8")
        writer.write(numpy.ones(3))
    """
    ended = run_python(code, tmp_path)
    assert ended.communicate()[0] == ""
    assert ended.returncode == 0
    np.testing.assert_array_equal(from_hangar(tmp_path), np.ones((1, 3)))


def test_threads_read_records(corpus: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    repo = corpus / "peers/hangar-0.5.2"
    expected = hangar_records(repo)
    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(hangar_records, [repo] * 40))
    path = str(repo / ".hangar/hash.lmdb")
    with (
        lmdb.open(path, subdir=False, readonly=True, lock=False),
        pytest.raises(MetadataError, match=r"hash\.lmdb: this process has it open"),
    ):
        hangar_records(repo)


def test_samples_of_a_commit_are_in_order(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    records = to_hangar(samples(4), tmp_path / "data")
    keys = ["f:c:b", "f:c:#10", "f:c:#9", "n:parts:#1:left"]
    pairs = {key: f"0={number}" for number, key in enumerate(keys)}
    text = "$".join([*(f"{key} {value}" for key, value in pairs.items()), "s:c:f 1=00"])
    references = {
        "a=1:ref": numcodecs.Blosc("zstd").encode(text.encode()),
        "a=2:ref": b"short",
        "a=3:ref": struct.pack("<BBBBIII", 2, 1, 0x81, 1, 1 << 30, 1 << 18, 64) + bytes(48),
        "a=4:ref": struct.pack("<BBBBIII", 2, 1, 2, 1, 1 << 20, 1 << 20, 64) + bytes(48),
    }
    stored: dict[str, dict[str, bytes]] = {
        "branch": {"head": b"branch:main", "branch:main": b"a=1"},
        "ref": references,
        "hash": {f"h:0={n}": record.encode() for n, record in enumerate(records)},
        "stage_hash": {},
        "stage_ref": {"f:c:lost": b"0=9"},
    }
    (tmp_path / ".hangar").mkdir()
    for name, content in stored.items():
        place = str(tmp_path / f".hangar/{name}.lmdb")
        with lmdb.open(place, subdir=False) as database, database.begin(write=True) as change:
            for key, value in content.items():
                change.put(key.encode(), value)
    found = hangar_records(tmp_path)
    assert found == {
        "c": {9: records[2], 10: records[1], "b": records[0]},
        "parts": {"1/left": records[3]},
    }
    assert list(found["c"]) == [9, 10, "b"]
    dataset: Any = from_hangar(tmp_path / "data", found)
    assert list(dataset["c_sample"].values) == ["9", "10", "b"]
    with pytest.raises(MetadataError, match="sample 'lost' of column 'c' has the digest 0=9"):
        hangar_records(tmp_path, "STAGED")
    with pytest.raises(MetadataError, match="commit a=2: 5 bytes that Blosc did not make"):
        hangar_records(tmp_path, "a=2")
    with pytest.raises(MetadataError, match=f"commit a=3: the blosc frame holds {1 << 30} bytes"):
        hangar_records(tmp_path, "a=3")
    with pytest.raises(MetadataError, match="commit a=4: "):
        hangar_records(tmp_path, "a=4")


def test_places_that_hold_nothing_are_named(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFoundError, match=r"files called \*\.hdf5"):
        from_hangar(tmp_path)
    with pytest.raises(NodeNotFoundError, match="no HDF5 file or folder"):
        from_hangar(tmp_path / "none")
    with pytest.raises(PathError, match="local paths only"):
        from_hangar("s3://bucket/data")
    (tmp_path / "a.hdf5").write_bytes(b"no HDF5 at all")
    with pytest.raises(MetadataError, match=r"a\.hdf5: cannot be opened"):
        from_hangar(tmp_path)
    (tmp_path / ".hangar").mkdir()
    with pytest.raises(NodeExistsError, match="a Hangar repository"):
        to_hangar(samples(), tmp_path)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file.create_dataset("0", (4, 3), "u1", chunks=(1, 3), data=np.ones((4, 3), "u1"))
    makers: dict[str, Callable[[h5py.File], object]] = {
        "no dataset '0'": lambda file: file.create_group("a"),
        "a link": lambda file: file.__setitem__("0", h5py.ExternalLink(secret, "0")),
        "no dataset in chunks": lambda file: file.create_dataset("0", (4, 3), "u1"),
        "real numbers": lambda file: file.create_dataset("0", (4, 3), "c8", chunks=(1, 3)),
    }
    for number, (words, make) in enumerate(makers.items()):
        path = tmp_path / f"{number}.hdf5"
        with h5py.File(path, "w", libver="latest") as file:
            make(file)
        with pytest.raises(MetadataError, match=words):
            from_hangar(path)


def test_no_hdf5_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = to_hangar(samples(), tmp_path)
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(MissingPackageError, match=r"pip install .*xarray-n5\[hdf5\]"):
        from_hangar(tmp_path, records)
    with pytest.raises(ImportError, match=r"pip install .*xarray-n5\[hdf5\]"):
        to_hangar(samples(), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.setitem(sys.modules, "lmdb", None)
    (tmp_path / ".hangar").mkdir()
    (tmp_path / ".hangar/hash.lmdb").touch()
    with pytest.raises(MissingPackageError, match=r"pip install .*xarray-n5\[hangar\]"):
        hangar_records(tmp_path)


def test_importing_the_package_loads_no_hdf5() -> None:
    code = "import sys, xarray_n5; print({'h5py', 'hdf5plugin', 'lmdb'} & set(sys.modules))"
    out, _ = run_python(code).communicate()
    assert out.strip() == "set()"


# Damage


def test_a_changed_row_names_its_record(tmp_path: Path) -> None:
    values = samples()
    records = to_hangar(values, tmp_path)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file["0"][3, 4] += 1
    lazy = from_hangar(tmp_path, records)
    with pytest.raises(ChunkError, match="xxh64") as caught:
        lazy.compute()
    assert records[3] in str(caught.value)
    np.testing.assert_array_equal(from_hangar(tmp_path, records[:3]), values[:3])
    with pytest.raises(ChunkError, match="the record says"):
        from_hangar(tmp_path, [records[0].replace(":0:0:", ":50:0:")]).compute()


def test_a_row_that_cannot_be_decoded_names_its_record(tmp_path: Path) -> None:
    records = to_hangar(samples(), tmp_path, compression=BLOSC)
    path = only_file(tmp_path)
    with h5py.File(path, "r", swmr=True) as file:
        info = file["0"].id.get_chunk_info(3)
    with path.open("r+b") as raw:
        raw.seek(info.byte_offset)
        raw.write(random.Random(1).randbytes(info.size))  # noqa: S311 - any bytes will do
    with pytest.raises(ChunkError) as caught:
        from_hangar(tmp_path, records[3:5]).compute()
    assert records[3] in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).key == records[3]  # noqa: S301


def test_a_digest_of_the_type_that_the_file_names_counts(tmp_path: Path) -> None:
    (record,) = to_hangar(np.zeros((1, 6), "f4"), tmp_path)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file.attrs["schema_dtype_num"] = np.dtype("f8").num
    wide = record.replace(record.split(":")[2], xxh64_hexdigest(np.zeros(6, "f8").tobytes()))
    for each in (record, wide):
        found = np.asarray(from_hangar(tmp_path, [each]))
        np.testing.assert_array_equal(found, np.zeros((1, 6), "f4"), strict=True)


def test_values_are_of_the_type_that_is_stored(tmp_path: Path) -> None:
    values = np.arange(3, dtype="i8")[:, None] + 2**40
    records = to_hangar(values, tmp_path)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file.attrs["schema_dtype_num"] = np.dtype("i4").num
    for chosen in (None, records):
        found = np.asarray(from_hangar(tmp_path, chosen))
        np.testing.assert_array_equal(found, values, strict=True)


def test_bytes_between_numbers_are_in_the_digest(tmp_path: Path) -> None:
    value = np.empty((), "g")
    value.reshape(1).view("u1")[:] = 255
    value[...] = 1.5
    found = np.asarray(from_hangar(tmp_path, to_hangar([value], tmp_path)))
    np.testing.assert_array_equal(found, value[None], strict=True)


def test_rows_are_counted_by_chunks_not_by_attributes(tmp_path: Path) -> None:
    to_hangar([np.ones(400, "f8"), np.ones(3, "f8")], tmp_path, shape=(70_000,))
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file.attrs.modify("next_location", (7, 7))
    assert written_rows(str(only_file(tmp_path))) == [2]
    assert from_hangar(tmp_path).shape == (2, 70_000)


# Processes


def test_arrays_are_pickled_without_handles(tmp_path: Path) -> None:
    values = samples()
    lazy = from_hangar(tmp_path, to_hangar(values, tmp_path))
    np.testing.assert_array_equal(lazy, values)
    data = pickle.dumps(lazy)
    assert len(data) < 4000
    np.testing.assert_array_equal(pickle.loads(data), values)  # noqa: S301
    with (
        HangarWriter(tmp_path, (3, 5), "i2") as writer,
        pytest.raises(TypeError, match="one process"),
    ):
        pickle.dumps(writer)


def test_no_file_stays_open(tmp_path: Path) -> None:
    values = samples()
    records = to_hangar(values, tmp_path)
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)
    with h5py.File(only_file(tmp_path), "r+", libver="latest") as file:
        file["0"][0] = 0
    with pytest.raises(ChunkError, match="xxh64"):
        from_hangar(tmp_path, records).compute()


@pytest.mark.parametrize("options", [{}, {"swmr": True, "libver": "latest"}], ids=["r", "swmr"])
def test_files_that_others_in_this_process_have_open_are_read(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    values = samples(60, (64, 64))
    records = to_hangar(values, tmp_path, compression=LZF)
    with h5py.File(only_file(tmp_path), "r", **options) as file:
        dataset = file["0"]
        np.testing.assert_array_equal(dataset[0], values[0].ravel())
        for chosen in (None, records):
            np.testing.assert_array_equal(from_hangar(tmp_path, chosen), values)
        np.testing.assert_array_equal(dataset[:60], values.reshape(60, -1))
        array = xarray_n5.open_array(only_file(tmp_path), "0")
        np.testing.assert_array_equal(array[:60], values.reshape(60, -1))
    np.testing.assert_array_equal(from_hangar(tmp_path, records), values)


def test_another_open_dataset_is_not_spoilt_while_the_file_is_written(tmp_path: Path) -> None:
    writing = run_python(WRITING, tmp_path, 100_000)
    assert writing.stdout is not None
    records = [writing.stdout.readline().strip()]
    with h5py.File(only_file(tmp_path), "r", libver="latest", swmr=True) as file:
        dataset = file["0"]
        assert dataset[0, 0] == 0
        np.testing.assert_array_equal(np.asarray(from_hangar(tmp_path, records))[:, 1, 1], [0])
        assert dataset[0, 0] == 0
    writing.kill()
    writing.communicate()


def test_a_file_has_several_paths(tmp_path: Path) -> None:
    values = samples(60, (64, 64))
    to_hangar(values, tmp_path, compression=LZF)
    path = only_file(tmp_path)
    (tmp_path / "linked").mkdir()
    linked = tmp_path / "linked" / path.name
    linked.symlink_to(path)
    for _ in range(2):
        for each in (path, linked, tmp_path / "linked" / ".." / path.name):
            np.testing.assert_array_equal(from_hangar(each), values)


def test_threads_read_a_file_in_both_ways(tmp_path: Path) -> None:
    values = samples(60, (64, 64))
    records = to_hangar(values, tmp_path, compression=LZF)
    path = only_file(tmp_path)

    def read(number: int) -> np.ndarray:
        if number % 2:
            return np.asarray(xarray_n5.open_array(path, "0")[:60])
        return np.asarray(from_hangar(path, records)).reshape(60, -1)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(read, range(60)):
            np.testing.assert_array_equal(found, values.reshape(60, -1))


def test_a_file_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    to_hangar(samples(), tmp_path / "a")
    to_hangar(samples(3), tmp_path / "b")
    path = only_file(tmp_path / "a")
    assert written_rows(str(path)) == [7]
    only_file(tmp_path / "b").replace(path)
    assert written_rows(str(path)) == [3]


def test_workers_of_a_cluster_read(cluster: Client, tmp_path: Path) -> None:
    values = samples(600, (4,))
    records = to_hangar(values, tmp_path)
    lazy = from_hangar(tmp_path, records, chunks=100)
    found = cluster.compute(lazy).result()  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(found, values)
    broken = from_hangar(tmp_path, [records[0].replace(":0:0:", ":0:1:")])
    with pytest.raises(ChunkError, match="xxh64"):
        cluster.compute(broken).result()  # type: ignore[no-untyped-call]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_files_of_its_own(tmp_path: Path) -> None:
    to_hangar(samples(), tmp_path)
    code = """
        import os, sys
        import numpy as np
        import xarray_n5

        folder = sys.argv[1]
        path = os.path.join(folder, os.listdir(folder)[0])
        lazy = xarray_n5.from_hangar(path)
        before = lazy.compute(scheduler="sync")
        writer = xarray_n5.HangarWriter(folder, (3,), "u1")
        child = os.fork()
        if child == 0:
            after = lazy.compute(scheduler="sync")
            try:
                writer.write(np.ones(3, "u1"))
            except Exception as error:
                os._exit(0 if (after == before).all() and "forked" in str(error) else 2)
            os._exit(3)
        _, status = os.waitpid(child, 0)
        assert (lazy.compute(scheduler="sync") == before).all()
        print(status)
    """
    out, _ = run_python(code, tmp_path).communicate(timeout=60)
    assert out.strip() == "0"


WRITING = """
    import sys
    import numpy as np
    import xarray_n5

    with xarray_n5.HangarWriter(sys.argv[1], (50, 40), "u4") as writer:
        for number in range(int(sys.argv[2])):
            print(writer.write(np.full((50, 40), number, "u4")), flush=True)
"""


def test_readers_see_rows_while_they_are_written(tmp_path: Path) -> None:
    writing = run_python(WRITING, tmp_path, 100_000)
    assert writing.stdout is not None
    try:
        records: list[str] = []
        for wanted in (1, 5, 300):
            records += [writing.stdout.readline().strip() for _ in range(wanted - len(records))]
            found = np.asarray(from_hangar(tmp_path, records))
            np.testing.assert_array_equal(found[:, 0, 0], range(wanted))
            every = np.asarray(from_hangar(tmp_path))
            np.testing.assert_array_equal(every[:, -1, -1], range(len(every)))
            assert len(every) >= wanted
        assert writing.poll() is None
    finally:
        writing.kill()
        writing.communicate()


@pytest.mark.parametrize("count", [1, 40, 260])
def test_what_was_written_before_a_kill_is_read(tmp_path: Path, count: int) -> None:
    writing = run_python(WRITING, tmp_path, 100_000)
    assert writing.stdout is not None
    records = [writing.stdout.readline().strip() for _ in range(count)]
    writing.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    records += writing.communicate()[0].splitlines()
    records = [each for each in records if each.endswith(":50 40")]
    assert writing.returncode != 0
    found = np.asarray(from_hangar(tmp_path, records))
    np.testing.assert_array_equal(found[:, 7, 7], range(len(records)))
    every = np.asarray(from_hangar(tmp_path))
    assert len(every) - len(records) in (0, 1)
    np.testing.assert_array_equal(every[: len(records), 0, 0], range(len(records)))
    with h5py.File(only_file(tmp_path), "r", libver="latest", swmr=True) as file:
        assert list(file.attrs["next_location"]) == [0, 0]
    before = only_file(tmp_path).read_bytes()
    to_hangar(samples(), tmp_path / "more")
    assert only_file(tmp_path).read_bytes() == before


def test_a_file_that_this_process_writes_says_so(tmp_path: Path) -> None:
    with HangarWriter(tmp_path, (3, 5), "i2") as writer:
        writer.write(samples()[0])
        with pytest.raises(MetadataError, match="this process writes it"):
            from_hangar(tmp_path)
    np.testing.assert_array_equal(from_hangar(tmp_path), samples()[:1])


def test_all_types_have_their_numbers_in_the_file(tmp_path: Path) -> None:
    for code in DTYPES:
        values = samples(2, (20,)).astype(code)
        folder = tmp_path / str(np.dtype(code).num)
        records = xarray_n5.to_hangar(values, folder)
        with h5py.File(only_file(folder), "r", swmr=True) as file:
            assert file.attrs["schema_dtype_num"] == np.dtype(code).num
        np.testing.assert_array_equal(np.asarray(from_hangar(folder, records)), values)
