"""Configurations and sizes that a file chooses: refused when it is opened, or before memory is."""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import struct
import time
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import numcodecs
import numpy as np
import pytest

from tests.support import compressions
from tests.support.bombs import BOMBS
from tests.support.memory_store import MemoryStore
from xarray_n5 import ChunkError, MetadataError, N5Error, create_array, open_array, verify
from xarray_n5.errors import UnknownCompressionError

if TYPE_CHECKING:
    from pathlib import Path

HEADER = struct.pack(">HHI", 0, 1, 64)


def zarr(chunk: bytes, *filters: Any, compressor: Any = None, dtype: Any = "|u1") -> MemoryStore:
    """A container with an array of one chunk of 64 elements."""
    members = {
        "zarr_format": 2,
        "shape": [64],
        "chunks": [64],
        "order": "C",
        "dtype": dtype,
        "fill_value": None,
        "compressor": compressor,
        "filters": list(filters) or None,
    }
    store = MemoryStore()
    store.set(".zgroup", b'{"zarr_format": 2}')
    store.set("a/.zarray", json.dumps(members).encode())
    store.set("a/0", chunk)
    return store


def n5(chunk: bytes, compression: Any, dtype: str = "uint8", **others: Any) -> MemoryStore:
    """The same in N5; `chunk` begins with its header."""
    members = {"dimensions": [64], "blockSize": [64], "dataType": dtype, "compression": compression}
    store = MemoryStore()
    store.set("a/attributes.json", json.dumps({**members, **others}).encode())
    store.set("a/0", chunk)
    return store


SIZES: tuple[object, ...] = (-1, 1 << 31, 1 << 40, "2", 3.5, [], True)

JUNK: list[dict[str, Any]] = [
    *[{"id": "shuffle", "elementsize": size} for size in SIZES],
    *({"id": "delta", "dtype": dtype} for dtype in ("O", "i4,O", "|V0", "", 7, None, [["x", "O"]])),
    {"id": "delta"},
    {"id": "delta", "dtype": "<u1", "astype": "O"},
    {"id": "astype", "encode_dtype": "O", "decode_dtype": "O"},
    {"id": "astype", "encode_dtype": "|u1", "decode_dtype": "|S20000000"},
    {"id": "astype", "encode_dtype": "|V0", "decode_dtype": "|u1"},
    {"id": "fixedscaleoffset", "offset": 0, "scale": 0, "dtype": "<f8", "astype": "|u1"},
    {"id": "fixedscaleoffset", "offset": "x", "scale": 1, "dtype": "<f8"},
    {"id": "fixedscaleoffset", "offset": 0, "scale": 10**400, "dtype": "<f8"},
    {"id": "quantize", "digits": 2, "dtype": "O"},
    {"id": "bitround", "keepbits": -5},
    {"id": "bitround"},
    {"id": "lzma", "format": 3, "filters": []},
    {"id": "lzma", "preset": -1},
    {"id": "zstd", "level": 1 << 40},
    {"id": "blosc", "cname": "lzo"},
    {"id": "blosc", "shuffle": 9},
    {"id": "gzip", "level": 99},
    {"id": "zlib", "level": "1"},
    {"id": "bz2", "level": 0},
    {"id": "lz4", "acceleration": -(1 << 40)},
    {"id": "crc32", "location": "x"},
]
"""Configurations that no codec can have."""

ALSO_N5 = [
    each
    for each in JUNK
    if each["id"] not in {"delta", "astype", "fixedscaleoffset", "quantize", "bitround"}
]


@pytest.mark.parametrize("config", JUNK, ids=json.dumps)
def test_a_filter_that_cannot_be_is_refused_when_the_array_is_opened(config: Any) -> None:
    with pytest.raises(MetadataError, match=config["id"]):
        open_array(zarr(bytes(64), config), "a")


@pytest.mark.parametrize("config", ALSO_N5, ids=json.dumps)
def test_a_numcodecs_id_that_cannot_be_is_refused_when_the_array_is_opened(config: Any) -> None:
    with pytest.raises(MetadataError, match=r"attributes\.json"):
        open_array(n5(HEADER + bytes(64), config), "a")


@pytest.mark.parametrize(
    "name", ["pickle", "json2", "msgpack2", "vlen-array", "categorize", "zfpy", "n5_wrapper"]
)
def test_codecs_that_could_run_code_or_are_not_known_are_refused(name: str) -> None:
    for store in (
        zarr(b"", {"id": name}),
        zarr(b"", {"id": name}, dtype="|O"),
        zarr(b"", {"id": "vlen-utf8"}, {"id": name}, dtype="|O"),
        zarr(b"", compressor={"id": name}),
        n5(b"", {"id": name}),
    ):
        with pytest.raises(UnknownCompressionError, match=name):
            open_array(store, "a")


def test_filters_are_so_many_at_most() -> None:
    with pytest.raises(MetadataError, match="filters, got 1000"):
        open_array(zarr(b"", *[{"id": "crc32"}] * 1000), "a")


def test_a_filter_that_does_not_fit_the_chunks_is_refused() -> None:
    with pytest.raises(ChunkError, match="not an integer multiple"):
        open_array(zarr(bytes(64), {"id": "shuffle", "elementsize": 3}), "a")[...]


@pytest.mark.parametrize(
    ("filters", "dtype"),
    [
        ([{"id": "zlib"}, {"id": "shuffle", "elementsize": 3}, {"id": "bz2"}], "<u2"),
        ([{"id": "delta", "dtype": "<u2"}, {"id": "lz4"}], "<u2"),
        ([{"id": "bitround", "keepbits": 3}, {"id": "lzma"}], "<f4"),
        ([{"id": "crc32"}, {"id": "fletcher32"}], "<u2"),
        ([{"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<u2"}, {"id": "blosc"}], "<u2"),
        ([{"id": "packbits"}, {"id": "zstd"}], "|b1"),
    ],
    ids=str,
)
def test_filters_behind_filters_are_read(filters: list[dict[str, Any]], dtype: str) -> None:
    values = (np.arange(64) % 3).astype(dtype)
    chunk: Any = values
    for config in filters:
        chunk = numcodecs.get_codec(dict(config)).encode(chunk)
        if config["id"] == "zlib":
            chunk += bytes(-len(chunk) % 3)  # zlib ignores what follows its stream
    found = open_array(zarr(bytes(memoryview(chunk)), *filters, dtype=dtype), "a")[...]
    np.testing.assert_array_equal(found, values)


def test_filters_that_compress_may_make_a_chunk_larger(tmp_path: Path) -> None:
    noise = np.frombuffer(np.random.default_rng(0).bytes(32 << 16), "V32")
    layout = {"filters": [{"id": "lz4"}]}
    options: dict[str, Any] = {"chunks": 1 << 16, "compression": "lz4", "layout": layout}
    array = create_array(tmp_path / "c.zarr", "a", shape=noise.shape, dtype="V32", **options)
    array[...] = noise
    assert array[...].tobytes() == noise.tobytes()


# Sizes


def test_a_truncated_blosc_chunk_behind_a_filter_is_damaged(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 60_000, (100, 100)).astype("u2")
    layout = {"filters": [{"id": "delta", "dtype": "<u2"}]}
    where = tmp_path / "c.zarr"
    array = create_array(
        where, "a", shape=values.shape, dtype="u2", chunks=100, compression="blosc", layout=layout
    )
    array[...] = values
    file = where / "a" / "0.0"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ChunkError, match="blosc frame"):
        array[...]
    states: Any = verify(where, "a").compute()
    assert [str(state) for state in states["state"].values.flat] != ["ok"]


LARGER = [
    ("gzip", struct.pack(">HHI", 0, 1, 1 << 31), "uint8"),
    ("gzip", struct.pack(">HHI", 0, 1, 3 << 20), "uint8"),
    ("zstd", struct.pack(">HHI", 0, 1, 1 << 31), "uint8"),
    ("lz4", struct.pack(">HHI", 0, 1, (1 << 31) - 1), "uint8"),
    ("raw", struct.pack(">HHI", 0, 1, (1 << 31) - 1), "uint8"),
    ("gzip", struct.pack(">HHII", 1, 1, 64, (1 << 31) - 1), "float64"),
    ("zstd", struct.pack(">HHII", 1, 1, 64, 1 << 30), "float64"),
    ("lz4", struct.pack(">HHII", 1, 1, 64, (1 << 31) - 1), "float64"),
    ("gzip", struct.pack(">HHII", 1, 1, 64, 1 << 27), "string"),
]


@pytest.mark.parametrize(("name", "header", "dtype"), LARGER)
def test_a_header_that_claims_far_more_than_a_chunk_takes_no_memory(
    name: str, header: bytes, dtype: str
) -> None:
    array = open_array(n5(header + zlib.compress(bytes(1000)), name, dtype), "a")
    tracemalloc.start()
    try:
        with pytest.raises(ChunkError):
            array[...]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["n5", "zarr2"])
def test_a_sparse_file_of_terabytes_takes_no_memory(tmp_path: Path, form: Any) -> None:
    array = create_array(tmp_path, "a", shape=(64,), dtype="u1", chunks=64, format=form)
    array[...] = 7
    (chunk,) = (path for path in (tmp_path / "a").iterdir() if path.name == "0")
    os.truncate(chunk, 1 << 40)
    tracemalloc.start()
    try:
        with contextlib.suppress(ChunkError):
            assert (array[...] == 7).all()
        assert verify(tmp_path, "a").compute().state.item() in {"ok", "undecodable"}
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_a_block_that_is_somewhat_larger_is_read_with_a_warning() -> None:
    store = n5(struct.pack(">HHI", 0, 1, 128) + zlib.compress(bytes([7]) * 128), "gzip")
    with pytest.warns(UserWarning, match="larger"):
        assert open_array(store, "a")[...].tolist() == [7] * 64


@pytest.mark.parametrize("chunk", [b"\0" * 100_000, b"a\0" * 65])
def test_more_strings_than_elements_are_not_made(chunk: bytes) -> None:
    header = struct.pack(">HHII", 1, 1, 64, len(chunk))
    array = open_array(n5(header + chunk, "raw", "string"), "a")
    if b"a" in chunk:
        with pytest.raises(ChunkError, match="which has 64 elements"):
            array[...]
    else:
        assert array[...].tolist() == [""] * 64


@pytest.mark.parametrize("name", ["vlen-utf8", "vlen-bytes"])
@pytest.mark.parametrize("others", [[], [{"id": "shuffle", "elementsize": 1}]])
def test_no_room_is_made_for_strings_that_are_only_claimed(name: str, others: list[Any]) -> None:
    for count in ((1 << 31) - 1, 64):
        chunk = struct.pack("<I", count) + bytes(60)
        array = open_array(zarr(chunk, {"id": name}, *others, dtype="|O"), "a")
        with pytest.raises(ChunkError, match=r"expected 64\b"):
            array[...]


@pytest.mark.parametrize("bomb", ["gzip streams", "bz2 streams", "xz streams"])
def test_thousands_of_empty_streams_take_no_time(bomb: str) -> None:
    kind = {"gzip": "gzip", "bz2": "bzip2", "xz": "xz"}[bomb.split(maxsplit=1)[0]]
    array = open_array(n5(HEADER + BOMBS[bomb]() * 400, kind), "a")
    began = time.process_time()
    with pytest.raises(ChunkError, match=r"expected 64\b"):
        array[...]
    assert time.process_time() - began < 20  # minutes, where each stream copies all that follow


def test_a_dictionary_of_gigabytes_is_refused() -> None:
    chain = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    stream = lzma.compress(bytes(64), lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2}])
    array = open_array(n5(HEADER + stream, {"type": "lzma", "format": 3, "filters": chain}), "a")
    with pytest.raises(ChunkError, match="dictionary"):
        array[...]


def multiset(*lists: bytes, offsets: list[int]) -> MemoryStore:
    """A block of 64 label multisets."""
    area = b"".join(lists)
    payload = struct.pack(">i", 0) + struct.pack(f">{len(offsets)}i", *offsets) + area
    header = struct.pack(">HHII", 1, 1, 64, len(payload))
    return n5(header + payload, "raw", isLabelMultiset=True)


ENTRY = struct.pack("<iqi", 1, 7, 1)


@pytest.mark.parametrize(
    "offsets",
    [[-16] * 64, [1 << 20] * 64, [0] * 63 + [2], [len(ENTRY)] * 64],
    ids=["before", "behind", "overlapping", "at the end"],
)
def test_lists_of_label_multisets_lie_side_by_side(offsets: list[int]) -> None:
    long = struct.pack("<i", 1 << 30)
    store = multiset(ENTRY, long if offsets[0] == len(ENTRY) else b"", offsets=offsets)
    with pytest.raises(ChunkError, match="multiset"):
        open_array(store, "a", label_multisets="argmax")[...]


def test_every_error_of_a_damaged_chunk_is_one_of_the_package() -> None:
    for chunk in (b"", b"\0", bytes(100), b"\xff" * 100):
        for compression in (*compressions.NAMES, {"id": "crc32"}):
            with pytest.raises(N5Error):
                open_array(n5(chunk, compression), "a")[...]
