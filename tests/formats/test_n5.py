"""attributes.json and chunk bytes of N5, without any file."""

from __future__ import annotations

import functools
import json
import re
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import compressions
from xarray_n5 import formats
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.codecs.raw import Raw
from xarray_n5.errors import MetadataError
from xarray_n5.formats.n5.format import DATA_TYPES
from xarray_n5.model.metadata import ArrayMetadata, Content, GroupMetadata, Varlength
from xarray_n5.model.paths import normalize_path

N5 = formats.N5()

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SMALL: dict[str, Any] = {
    "dimensions": [5, 4],
    "blockSize": [3, 2],
    "dataType": "uint16",
    "compression": {"type": "raw"},
}


EXTRA = {"axes": ["x", "y"], "a": {"b": [None, 1.5]}, "µ": "µm"}


def stored(content: bytes | None) -> dict[str, bytes]:
    """A node's documents."""
    return {} if content is None else {"attributes.json": content}


def document(**members: Any) -> dict[str, bytes]:
    content = {k: v for k, v in {**SMALL, **members}.items() if v is not ...}
    return stored(json.dumps(content).encode())


def members_of(documents: Mapping[str, bytes]) -> Any:
    (content,) = documents.values()
    return json.loads(content)


def array(**members: Any) -> ArrayMetadata:
    metadata = N5.read(document(**members), "x/attributes.json")
    assert isinstance(metadata, ArrayMetadata)
    return metadata


def header(*dims: int, mode: int = 0) -> bytes:
    return struct.pack(f">HH{len(dims)}I", mode, len(dims), *dims)


def strings(shape: tuple[int, int], payload: bytes, mode: int = 1) -> bytes:
    count = struct.pack(">I", len(payload)) if mode else b""
    return header(*shape[::-1], mode=mode) + count + payload


# attributes.json


READ: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "C order": ({}, {"shape": (4, 5), "chunks": (2, 3), "dtype": np.dtype("u2")}),
    "floats": ({"dimensions": [5.0, 4.0], "blockSize": [3.0, 2]}, {"shape": (4, 5)}),
    "the largest": ({"dimensions": [(1 << 63) - 1, 0]}, {"shape": (0, (1 << 63) - 1)}),
    "attributes": ({**EXTRA, "n5": "4.0.0"}, {"attributes": EXTRA}),
    "strings": ({"dataType": "string"}, {"content": Content.STRINGS}),
    "objects": ({"dataType": "object"}, {"content": Content.OBJECTS}),
    "two compressions": ({"compressionType": "xz"}, {"compression": Raw()}),
    **{name: ({"dataType": name}, {"dtype": np.dtype(name)}) for name in DATA_TYPES},
    **{
        f"{name} of the first N5": (
            {"compression": ..., "compressionType": name},
            {"compression": array(compression={"type": name}).compression},
        )
        for name in compressions.NAMES
    },
}
"""Members of a document, and facts of the array that it describes."""


@pytest.mark.parametrize("name", READ)
def test_an_array_is_what_its_document_says(name: str) -> None:
    members, expected = READ[name]
    metadata = array(**members)
    assert {fact: getattr(metadata, fact) for fact in expected} == expected


@pytest.mark.parametrize("absent", ["dimensions", "blockSize", "dataType", "compression"])
def test_a_node_without_one_of_the_four_members_is_a_group(absent: str) -> None:
    group = N5.read(document(**{absent: ...}), "x")
    assert isinstance(group, GroupMetadata)
    assert set(group.attributes) == set(SMALL) - {absent}


@pytest.mark.parametrize("content", [None, b"", b" \n", b"{}", b'{"n5": "2.0.0"}'])
def test_nothing_or_a_version_alone_is_a_group_without_attributes(content: bytes | None) -> None:
    assert N5.read(stored(content), "x") == GroupMetadata()


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"dimensions": [5, -4]}, "dimensions"),
        ({"dimensions": "5,4"}, "dimensions"),
        ({"dimensions": [5, 4.5]}, "dimensions"),
        ({"dimensions": [5, True]}, "dimensions"),
        ({"dimensions": [5, 1 << 63]}, "dimensions"),
        ({"dimensions": [5, None]}, "dimensions"),
        ({"blockSize": [3, 0]}, "blockSize"),
        ({"blockSize": [3]}, "blockSize"),
        ({"dataType": "uint7"}, "uint7"),
        ({"dataType": 3}, "dataType"),
        ({"compression": {}}, "compression"),
        ({"compression": 7}, "compression"),
        ({"compression": {"type": "gzip", "level": 99}}, "level"),
        ({"compression": ..., "codecs": []}, "codecs"),
    ],
)
def test_members_that_cannot_be_are_refused_by_file_and_name(
    members: dict[str, Any], word: str
) -> None:
    with pytest.raises(MetadataError, match=word) as raised:
        N5.read(document(**members), "x/attributes.json")
    assert "x/attributes.json" in str(raised.value)


def test_what_is_no_json_object_is_refused() -> None:
    for content in (b"{", b"[]", b"nonsense"):
        with pytest.raises(MetadataError, match=r"x/attributes\.json"):
            N5.read(stored(content), "x/attributes.json")


@pytest.mark.parametrize("name", ["bool", "float16"])
def test_types_that_zarr_wrote_are_read_with_a_warning(name: str) -> None:
    with pytest.warns(UserWarning, match=name):
        assert array(dataType=name).dtype == np.dtype(name)


def test_text_in_another_charset_is_still_read() -> None:
    content = '{"unit": "µm"}'.encode("latin-1")
    assert N5.read(stored(content), "x").attributes == {"unit": "µm"}


def test_a_container_from_the_future_warns() -> None:
    N5.check_container(stored(b'{"n5": "4.0.0"}'), "x")
    N5.check_container(stored(b'{"n5": 3}'), "x")
    N5.check_container({}, "x")
    with pytest.warns(UserWarning, match=r"5\.1\.0"):
        N5.check_container(stored(b'{"n5": "5.1.0"}'), "x")


def test_a_new_document_holds_exactly_what_every_reader_needs() -> None:
    metadata = ArrayMetadata(
        shape=(4, 5), chunks=(2, 3), dtype=np.dtype("u2"), compression=Gzip(), attributes={"a": "µ"}
    )
    written = N5.create(metadata, {}, "x")
    assert written["attributes.json"].isascii()
    assert members_of(written) == {
        "dimensions": [5, 4],
        "blockSize": [3, 2],
        "dataType": "uint16",
        "compression": {"type": "gzip", "level": 6, "useZlib": False},
        "a": "µ",
    }
    assert N5.read(written, "x") == metadata


def test_the_version_of_a_container_is_written_once_and_kept() -> None:
    assert members_of(N5.above({}, "x", fresh=True)) == {"n5": "2.0.0"}
    assert members_of(N5.above({}, "x", fresh=False)) == {}
    assert N5.above(stored(b'{"n5": "4.0.0"}'), "x", fresh=True) == {}
    before = stored(b'{"n5": "4.0.0", "a": 1}')
    assert members_of(N5.create(array(), before, "x"))["n5"] == "4.0.0"


def test_changed_attributes_leave_every_other_member_to_the_letter() -> None:
    members = {
        **SMALL,
        "n5": "1.5.0",
        "compression": {"type": "blosc", "cname": "lz4", "nthreads": 3, "unknown": None},
        "old": 1,
    }
    changed = members_of(
        N5.with_attributes(stored(json.dumps(members).encode()), {"new": [1]}, "x")
    )
    assert changed == {**{k: v for k, v in members.items() if k != "old"}, "new": [1]}
    resized = members_of(N5.with_shape(stored(json.dumps(members).encode()), (7, 8), "x"))
    assert resized == {**members, "dimensions": [8, 7]}


UNWRITABLE: dict[str, Callable[[], object]] = {
    **{
        name: functools.partial(N5.with_attributes, document(), {name: 1}, "x")
        for name in (*SMALL, "n5")
    },
    "reserved by N5": lambda: N5.with_attributes(stored(b"{}"), SMALL, "x"),
    "'bad'": lambda: N5.with_attributes(stored(b"{}"), {"good": 1, "bad": float("nan")}, "x"),
    "2147483647": lambda: N5.create(replace(array(), chunks=(1 << 15, 1 << 15)), {}, "x"),
    **{
        f"cannot store elements of type {name}": functools.partial(
            N5.create, replace(array(), dtype=np.dtype(name)), {}, "x"
        )
        for name in ("bool", "float16", "complex64", r"datetime64[ns]", "object")
    },
}
"""What is refused by a message that says this."""


@pytest.mark.parametrize("word", UNWRITABLE)
def test_what_n5_cannot_hold_is_refused_by_name(word: str) -> None:
    with pytest.raises(MetadataError, match=re.escape(word)):
        UNWRITABLE[word]()


# Paths and keys


def test_chunk_keys_name_the_first_dimension_first() -> None:
    assert N5.chunk_key(array(), (1, 0)) == "0/1"
    scalar = array(dimensions=[], blockSize=[])
    assert N5.chunk_key(scalar, ()) == "0"
    assert N5.chunk_index(scalar, "0") == ()


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=5).map(tuple))
def test_chunk_keys_lead_back_to_their_index(index: tuple[int, ...]) -> None:
    metadata = array(dimensions=[1] * len(index), blockSize=[1] * len(index))
    assert N5.chunk_index(metadata, N5.chunk_key(metadata, index)) == index


@pytest.mark.parametrize(
    "key", ["0", "0/0/0", "0/x", "0/01", "0/-1", "attributes.json", "0/.1", "0/٣"]
)
def test_other_files_are_no_chunks(key: str) -> None:
    assert N5.chunk_index(array(), key) is None


@pytest.mark.parametrize(
    ("path", "normal"),
    [("", ""), ("/", ""), ("/a//b/", "a/b"), ("./a/./b", "a/b"), ("a/../b", "b"), ("ä b", "ä b")],
)
def test_paths_are_normalised(path: str, normal: str) -> None:
    assert normalize_path(path) == normal


@pytest.mark.parametrize("path", ["..", "a/../..", "/../a", "a\\b", "a\0b"])
def test_paths_never_leave_the_container(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        normalize_path(path)


# Chunks


@given(st.data())
def test_chunks_round_trip_for_every_type_and_shape(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=4)))
    name = data.draw(st.sampled_from(DATA_TYPES))
    metadata = array(dimensions=[9] * len(shape), blockSize=[4] * len(shape), dataType=name)
    block = np.random.default_rng(0).integers(0, 100, shape).astype(name)
    decoded = N5.decode(metadata, bytes(N5.encode(metadata, block)))
    assert decoded.shape == shape
    np.testing.assert_array_equal(decoded, block)


def test_bytes_are_those_of_the_readme() -> None:
    metadata = array(dimensions=[1, 2, 3], blockSize=[1, 2, 3])
    block = np.arange(1, 7, dtype="u2").reshape(3, 2, 1)
    expected = "0000 0003 00000001 00000002 00000003 0001 0002 0003 0004 0005 0006"
    assert N5.encode(metadata, block) == bytes.fromhex(expected)


DECODED: dict[str, tuple[str, bytes, Any]] = {
    "the header's shape wins": ("uint16", header(2, 1) + b"\0\7\0\x08", [[7, 8]]),
    "surplus bytes": ("uint16", header(3, 2) + b"\0\7" * 6 + b"surplus", [[7] * 3] * 2),
    "varlength with all elements": (
        *("uint16", header(2, 1, mode=1) + struct.pack(">I", 2) + b"\0\7\0\x08", [[7, 8]]),
    ),
    "strings end with a NUL each": (
        *("string", strings((2, 2), "a\0µ\0\0d\0".encode()), [["a", "µ"], ["", "d"]]),
    ),
    "strings that Java dropped": ("string", strings((1, 3), b"a\0"), [["a", "", ""]]),
    "as many strings as bytes": ("string", strings((1, 2), b"\0\0", 0), [["", ""]]),
}
"""The type of elements, a chunk, and its elements."""


@pytest.mark.parametrize("name", DECODED)
def test_unusual_chunks_are_decoded(name: str) -> None:
    kind, data, expected = DECODED[name]
    assert N5.decode(array(dataType=kind), data).tolist() == expected


def test_a_varlength_block_with_others_is_a_list() -> None:
    data = header(2, 1, mode=1) + struct.pack(">I", 3) + b"\0\7\0\x08\0\x09"
    with pytest.raises(Varlength, match="read_chunk") as raised:
        N5.decode(array(), data)
    assert raised.value.elements.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"\0\0\0", "truncated"),
        (header(2, 1)[:-1], "truncated"),
        (header(2, 1), "truncated"),
        (header(2, 1) + b"\0\7\0", "expected 4 bytes in the payload, got 3"),
        (header(2) + b"\0\7\0\7", "1 dimensions"),
        (header(2, 1, mode=7) + bytes(4), "mode 7"),
        (header(1 << 20, 1 << 20) + bytes(4), "shape"),
        (header(2, 1, mode=1) + b"\xff\xff\xff\xff", "elements"),
        (struct.pack(">HI", 2, 5) + b"hello", "Java objects"),
    ],
)
def test_bytes_that_are_no_chunk_are_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises((ValueError, EOFError), match=why):
        N5.decode(array(), data)


def test_objects_are_never_decoded() -> None:
    with pytest.raises(ValueError, match="run code"):
        N5.decode(array(dataType="object"), strings((1, 1), b"\xac\xed\0\5"))
