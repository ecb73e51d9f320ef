"""Paintera's label multisets: as labels, as votes, copied, drawn, verified."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.containers import write_document
from xarray_n5 import ChunkError, MetadataError, copy, from_n5, open_array, to_n5, verify

if TYPE_CHECKING:
    from pathlib import Path

Sets = list[dict[int, int]]


def chunk(shape: tuple[int, ...], sets: Sets) -> bytes:
    """A block of label multisets, as imglib2-label-multisets stores it."""
    area, offsets = b"", []
    for each in sets:
        offsets.append(len(area))
        area += struct.pack("<i", len(each))
        area += b"".join(struct.pack("<qi", label, votes) for label, votes in each.items())
    payload = struct.pack(f">i{len(sets)}i", 0, *offsets) + area
    header = struct.pack(f">HH{len(shape)}I", 1, len(shape), *shape[::-1])
    return header + struct.pack(">I", len(payload)) + payload


BLOCK: Sets = [{7: 1, 3: 2}, {9: 4, 5: 4}, {2**40: 8}, {}] * 2


def labels(place: Path, kind: str = "label") -> Path:
    """A dataset of Paintera, with two levels of which the finest lacks a chunk."""
    write_document(place, painteraData={"type": kind}, maxId=2**40)
    said = {"resolution": [4, 4, 40], "offset": [0, 0, 400], "isLabelMultiset": True}
    write_document(place / "data", multiScale=True, **said)
    for level, size in enumerate((4, 2)):
        inner = place / f"data/s{level}"
        document: dict[str, Any] = {
            "dimensions": [2, 2, size],
            "blockSize": [2, 2, 2],
            "dataType": "uint8",
            "compression": {"type": "raw"},
            "isLabelMultiset": True,
        }
        if level:
            document["downsamplingFactors"] = [1, 1, 2]
        write_document(inner, **document)
        (inner / "0/0").mkdir(parents=True)
        (inner / "0/0/0").write_bytes(chunk((2, 2, 2), BLOCK))
    return place


WINNERS = np.array([3, 5, 2**40, 0, 3, 5, 2**40, 0], "u8").reshape(2, 2, 2)
VOTES = np.array([2, 4, 8, 0, 2, 4, 8, 0], "i4").reshape(2, 2, 2)


@pytest.mark.parametrize(("how", "expected"), [("argmax", WINNERS), ("count", VOTES)])
def test_label_multisets_are_read_as_labels_or_as_votes(
    tmp_path: Path, how: Any, expected: np.ndarray
) -> None:
    place = labels(tmp_path / "x.n5/labels") / "data"
    array = open_array(place, "s0", label_multisets=how)
    assert array.dtype == expected.dtype
    assert "isLabelMultiset" not in array.attrs
    np.testing.assert_array_equal(array[:2], expected)
    assert not array[2:].any()
    np.testing.assert_array_equal(array.refresh()[:2], expected)
    np.testing.assert_array_equal(from_n5(place, "s0", label_multisets=how)[:2], expected)
    assert float(array.axes[0].offset) == 400.0


def test_label_multisets_raise_by_default_and_say_how_to_read_them(tmp_path: Path) -> None:
    place = labels(tmp_path / "x.n5/labels")
    with pytest.raises(ChunkError, match=r"label_multisets='argmax'.*'count'"):
        open_array(place, "data/s0")[...]
    wrong: Any = "most"
    with pytest.raises(ValueError, match="expected 'error' or 'argmax' or 'count'"):
        open_array(place, "data/s0", label_multisets=wrong)
    with pytest.raises(MetadataError, match="label_multisets='argmax'"):
        copy(place, tmp_path / "y.n5")


@pytest.mark.parametrize("name", ["y.n5", "y.zarr", "y.h5"])
@pytest.mark.parametrize(("how", "expected"), [("argmax", WINNERS), ("count", VOTES)])
def test_label_multisets_are_copied_as_numbers(
    tmp_path: Path, name: str, how: Any, expected: np.ndarray
) -> None:
    place = labels(tmp_path / "x.n5/labels")
    source = open_array(place, "data/s0", label_multisets=how)
    copy(source, tmp_path / name / "labels")
    array = open_array(tmp_path / name, "labels")
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array[:2], expected)
    assert "isLabelMultiset" not in array.attrs
    assert [axis.offset for axis in array.axes] == [400.0, 0.0, 0.0]
    assert array.grid.size == 2


def test_labels_that_are_written_again_are_numbers(tmp_path: Path) -> None:
    place = labels(tmp_path / "x.n5/labels") / "data"
    to_n5(from_n5(place, "s0", label_multisets="argmax"), tmp_path / "y.n5", "labels")
    np.testing.assert_array_equal(open_array(tmp_path / "y.n5", "labels")[:2], WINNERS)


def test_chunks_of_label_multisets_are_verified(tmp_path: Path) -> None:
    place = labels(tmp_path / "x.n5/labels")
    states = verify(place, "data/s0").compute()["state"].values.ravel()
    assert states.tolist() == ["ok", "missing"]
    stored = place / "data/s0/0/0/0"
    stored.write_bytes(stored.read_bytes()[:-3])
    states = verify(place, "data/s0").compute()["state"].values.ravel()
    assert states[0] in {"truncated", "undecodable"}
