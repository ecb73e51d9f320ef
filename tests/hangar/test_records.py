"""Hangar's records: three forms of strings, and the databases that hold them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.hangar_samples import samples
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.hangar import from_hangar, to_hangar
from xarray_n5.hangar.records import SampleRecord, parse_record

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
            SampleRecord(uid=UID, digest=DIGEST, dataset=16, row=105, shape=(10, 10)),
        ),
        (
            "00:rlUK3C:b89f873d3d153a9c:8:199:20 2 3",
            "0.5",
            SampleRecord(uid=UID, digest="b89f873d3d153a9c", dataset=8, row=199, shape=(20, 2, 3)),
        ),
        (
            "00:ab12cd34:8067007c0f05c359:0:0:",
            "0.5",
            SampleRecord(uid="ab12cd34", digest=DIGEST, dataset=0, row=0, shape=()),
        ),
        (
            "00:rlUK3C$8067007c0f05c359$16 105*10 10",
            "0.4",
            SampleRecord(uid=UID, digest=DIGEST, dataset=16, row=105, shape=(10, 10)),
        ),
        (
            "00:rlUK3C$16 105*10 10",
            "0.3",
            SampleRecord(uid=UID, digest=None, dataset=16, row=105, shape=(10, 10)),
        ),
        ("00:rlUK3C$0 0*", "0.3", SampleRecord(uid=UID, digest=None, dataset=0, row=0, shape=())),
    ],
)
def test_records_of_every_form_are_parsed_and_those_of_the_last_one_produced(
    text: str, form: str, record: SampleRecord
) -> None:
    assert parse_record(text) == record
    assert (str(record) == text) is (form != "0.4")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10:rlUK3C:8067007c0f05c359:16:105:10 10",
        "01:rlUK3C:8067007c0f05c359:16:105:10 10",
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
    with pytest.raises(MetadataError, match="is not a record of Hangar's") as caught:
        parse_record(text)
    assert repr(text) in str(caught.value)


def test_records_longer_than_hangar_reads_are_refused(tmp_path: Path) -> None:
    shape = (1,) * 112
    record = SampleRecord(uid="ab12cd34", digest=DIGEST, dataset=0, row=0, shape=shape[:111])
    assert len(str(record)) == 254
    assert parse_record(str(record)) == record
    with pytest.raises(MetadataError, match="has 256 characters, expected at most 255"):
        parse_record(str(replace(record, shape=shape)))
    with pytest.raises(MetadataError, match="characters, expected at most 255"):
        parse_record("00:" + "a" * 300)
    with pytest.raises(MetadataError, match="expected at most 255"):
        to_hangar([np.ones(1, "u1")], tmp_path / "new", shape=shape)
    assert not (tmp_path / "new").exists()


def test_a_record_without_digest_has_only_the_oldest_form() -> None:
    record = SampleRecord(uid=UID, digest=None, dataset=1, row=2, shape=(3,))
    assert str(record) == "00:rlUK3C$1 2*3"


def test_old_records_without_digests_read_unchecked(tmp_path: Path) -> None:
    records = [parse_record(each) for each in to_hangar(samples(), tmp_path)]
    old = [
        str(SampleRecord(uid=each.uid, digest=None, dataset=0, row=each.row, shape=each.shape))
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
    ],
)
def test_wrong_records_are_named_before_anything_is_read(
    tmp_path: Path, change: Callable[[list[str]], Any], error: type[Exception], words: str
) -> None:
    records = to_hangar(samples(), tmp_path)
    with pytest.raises(error, match=words):
        from_hangar(tmp_path, change(records))
