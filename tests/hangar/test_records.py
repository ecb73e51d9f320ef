"""Hangar's records: three forms of strings, and the databases that hold them."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numcodecs
import numpy as np
import pytest

from tests.support.hangar_samples import samples
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.hangar import HangarWriter, from_hangar, hangar_records, to_hangar
from xarray_n5.hangar.records import Record, parse_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


UID, DIGEST = "rlUK3C", "8067007c0f05c359"


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
def test_records_of_every_form_are_parsed_and_those_of_the_last_one_produced(
    text: str, form: str, record: Record
) -> None:
    assert parse_record(text) == record
    assert parse_record(text.encode()) == record
    assert (str(record) == text) is (form != "0.4")


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
def test_invalid_records_are_named(text: str) -> None:
    with pytest.raises(MetadataError, match="is not a record of Hangar's HDF5 files") as caught:
        parse_record(text)
    assert repr(text) in str(caught.value)


def test_records_longer_than_hangar_reads_are_refused(tmp_path: Path) -> None:
    shape = (1,) * 112
    record = Record(uid="ab12cd34", digest=DIGEST, dataset=0, row=0, shape=shape[:111])
    assert len(str(record)) == 254
    assert parse_record(str(record)) == record
    with pytest.raises(MetadataError, match="has 256 characters, expected at most 255"):
        parse_record(str(replace(record, shape=shape)))
    with pytest.raises(MetadataError, match="characters, expected at most 255"):
        parse_record("00:" + "a" * 300)
    with pytest.raises(MetadataError, match="expected at most 255"):
        HangarWriter(tmp_path / "new", shape, "u1")
    assert not (tmp_path / "new").exists()


def test_a_record_without_digest_has_only_the_oldest_form() -> None:
    record = Record(uid=UID, digest=None, dataset=1, row=2, shape=(3,))
    assert str(record) == "00:rlUK3C$1 2*3"


def test_old_records_without_digests_read_unchecked(tmp_path: Path) -> None:
    records = [parse_record(each) for each in to_hangar(samples(), tmp_path)]
    old = [
        str(Record(uid=each.uid, digest=None, dataset=0, row=each.row, shape=each.shape))
        for each in records
    ]
    np.testing.assert_array_equal(from_hangar(tmp_path, old), samples())
    middle = [f"00:{each.uid}${each.digest}$0 {each.row}*3 5" for each in records]
    np.testing.assert_array_equal(from_hangar(tmp_path, middle), samples())


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda r: [r[0], "nonsense"], MetadataError, "'nonsense' is not a record"),
        (lambda r: r[0], MetadataError, "is a string"),
        (lambda _: [], MetadataError, "at least one record"),
        (lambda _: [3], MetadataError, "3 is not a record"),
        (lambda r: [r[0].replace(":0:0:", ":100:0:")], MetadataError, ":100:0:3 5' does not fit"),
        (lambda r: [r[0].replace(":0:0:", ":0:250:")], MetadataError, ":0:250:3 5' does not fit"),
        (lambda r: [r[0].replace(":3 5", ":16")], MetadataError, ":16' does not fit"),
        (lambda r: [r[0].replace(":3 5", ":5 3")], MetadataError, ":5 3' does not fit"),
        (lambda r: [f"00:zzzz:{r[0][12:]}"], NodeNotFoundError, "names it"),
        (lambda r: {"a": r[0]}, MetadataError, "a: '00:.*is a string"),
    ],
)
def test_wrong_records_are_named_before_anything_is_read(
    tmp_path: Path, change: Callable[[list[str]], Any], error: type[Exception], words: str
) -> None:
    records = to_hangar(samples(), tmp_path)
    with pytest.raises(error, match=words):
        from_hangar(tmp_path, change(records))


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
    with pytest.raises(MetadataError, match="commit a=2: 5 bytes are not a valid Blosc frame"):
        hangar_records(tmp_path, "a=2")
    with pytest.raises(MetadataError, match=rf"commit a=3: .* in the blosc frame, got {1 << 30}"):
        hangar_records(tmp_path, "a=3")
    with pytest.raises(MetadataError, match="commit a=4: "):
        hangar_records(tmp_path, "a=4")
