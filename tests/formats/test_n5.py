"""attributes.json and chunk bytes of N5, without any file."""

from __future__ import annotations

import json
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
    from collections.abc import Mapping

SMALL: dict[str, Any] = {
    "dimensions": [5, 4],
    "blockSize": [3, 2],
    "dataType": "uint16",
    "compression": {"type": "raw"},
}


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
    found = N5.read(document(**members), "x/attributes.json")
    assert isinstance(found, ArrayMetadata)
    return found


def header(*dims: int, mode: int = 0) -> bytes:
    return struct.pack(f">HH{len(dims)}I", mode, len(dims), *dims)


# attributes.json


def test_shapes_are_read_in_c_order() -> None:
    found = array()
    assert (found.shape, found.chunks, found.dtype) == ((4, 5), (2, 3), np.dtype("u2"))


@pytest.mark.parametrize("name", DATA_TYPES)
def test_every_data_type_is_read_in_native_order(name: str) -> None:
    assert array(dataType=name).dtype == np.dtype(name)


@pytest.mark.parametrize("absent", ["dimensions", "blockSize", "dataType", "compression"])
def test_a_node_without_one_of_the_four_members_is_a_group(absent: str) -> None:
    found = N5.read(document(**{absent: ...}), "x")
    assert isinstance(found, GroupMetadata)
    assert set(found.attributes) == set(SMALL) - {absent}


@pytest.mark.parametrize("content", [None, b"", b" \n", b"{}", b'{"n5": "2.0.0"}'])
def test_nothing_or_a_version_alone_is_a_group_without_attributes(content: bytes | None) -> None:
    assert N5.read(stored(content), "x") == GroupMetadata()


def test_user_attributes_are_all_members_but_the_formats_own() -> None:
    extra = {"axes": ["x", "y"], "a": {"b": [None, 1.5]}, "µ": "µm", "n5": "4.0.0"}
    assert array(**extra).attributes == {k: v for k, v in extra.items() if k != "n5"}


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert array(dimensions=[5.0, 4.0], blockSize=[3.0, 2]).shape == (4, 5)


def test_the_largest_extents_are_read() -> None:
    assert array(dimensions=[(1 << 63) - 1, 0]).shape == (0, (1 << 63) - 1)


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


@pytest.mark.parametrize("name", compressions.NAMES)
def test_the_first_n5_named_its_compression_alone(name: str) -> None:
    found = array(compression=..., compressionType=name)
    assert found.compression == array(compression={"type": name}).compression
    assert array(compression={"type": "raw"}, compressionType="xz").compression == Raw()


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


@pytest.mark.parametrize("name", ["dimensions", "blockSize", "dataType", "compression", "n5"])
def test_attributes_cannot_take_the_formats_names(name: str) -> None:
    with pytest.raises(MetadataError, match=name):
        N5.with_attributes(document(), {name: 1}, "x")


def test_attributes_cannot_make_an_array_of_a_group() -> None:
    with pytest.raises(MetadataError, match="reserved by N5"):
        N5.with_attributes(stored(b"{}"), SMALL, "x")


def test_what_json_cannot_hold_is_refused_by_name() -> None:
    with pytest.raises(MetadataError, match="'bad'"):
        N5.with_attributes(stored(b"{}"), {"good": 1, "bad": float("nan")}, "x")


@pytest.mark.parametrize("name", ["bool", "float16", "complex64", "datetime64[ns]", "U4", "O"])
def test_types_that_n5_lacks_are_not_written(name: str) -> None:
    with pytest.raises(MetadataError, match="cannot store"):
        N5.create(replace(array(), dtype=np.dtype(name)), {}, "x")


def test_chunks_that_java_cannot_hold_are_not_written() -> None:
    with pytest.raises(MetadataError, match="2147483647"):
        N5.create(replace(array(), chunks=(1 << 15, 1 << 15)), {}, "x")


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


def test_the_headers_shape_wins_over_the_grids() -> None:
    decoded = N5.decode(array(), header(2, 1) + b"\0\7\0\x08")
    np.testing.assert_array_equal(decoded, [[7, 8]])


def test_surplus_bytes_of_a_whole_raw_block_are_ignored() -> None:
    decoded = N5.decode(array(), header(3, 2) + b"\0\7" * 6 + b"surplus")
    assert decoded.tolist() == [[7] * 3] * 2


def test_a_varlength_block_with_all_elements_is_an_ordinary_one() -> None:
    data = header(2, 1, mode=1) + struct.pack(">I", 2) + b"\0\7\0\x08"
    assert N5.decode(array(), data).tolist() == [[7, 8]]


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


# Strings, objects, label multisets


def strings(shape: tuple[int, int], payload: bytes, mode: int = 1) -> bytes:
    count = struct.pack(">I", len(payload)) if mode else b""
    return header(*shape[::-1], mode=mode) + count + payload


def test_strings_end_with_a_nul_each() -> None:
    metadata = array(dataType="string")
    assert metadata.content is Content.STRINGS
    decoded = N5.decode(metadata, strings((2, 2), "a\0µ\0\0d\0".encode()))
    assert decoded.tolist() == [["a", "µ"], ["", "d"]]


def test_strings_that_java_dropped_from_the_end_are_empty() -> None:
    assert N5.decode(array(dataType="string"), strings((1, 3), b"a\0")).tolist() == [["a", "", ""]]


def test_strings_come_in_the_default_mode_where_bytes_and_elements_are_as_many() -> None:
    assert N5.decode(array(dataType="string"), strings((1, 2), b"\0\0", 0)).tolist() == [["", ""]]


def test_objects_are_never_decoded() -> None:
    metadata = array(dataType="object")
    assert metadata.content is Content.OBJECTS
    with pytest.raises(ValueError, match="run code"):
        N5.decode(metadata, strings((1, 1), b"\xac\xed\0\5"))
