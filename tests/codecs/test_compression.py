from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pickle
import struct
import subprocess
import sys
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import lz4.block
import lz4.frame
import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import compressions
from xarray_n5.codecs import COMPRESSIONS, from_json, register_compression, resolve, to_json
from xarray_n5.codecs.blosc import Blosc
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.codecs.lz4 import Lz4
from xarray_n5.codecs.lzma import Lzma
from xarray_n5.codecs.numcodecs import Numcodecs
from xarray_n5.codecs.raw import Raw
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.codecs.zstd import Zstd
from xarray_n5.errors import MetadataError, UnknownCompressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.model.metadata import Buffer, Compression

# What is read and, without the members' order, what is written again.
SAME = [
    {"type": "raw"},
    {"type": "gzip", "level": 6, "useZlib": False},
    {"type": "gzip", "level": 1, "useZlib": True},
    {"type": "bzip2", "blockSize": 9},
    {"type": "xz", "preset": 6},
    {"type": "lz4", "blockSize": 65536},
    {"type": "lz4", "blockSize": 6},
    {"type": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0},
    {"type": "zstd", "level": 3},
    {"type": "zstd", "level": -5},
    {"type": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    {"type": "lzma", "format": 3, "check": -1, "preset": None, "filters": [{"id": 33}]},
    {"type": "zlib", "id": "zlib", "level": 1},
    {"type": "lz4", "id": "lz4", "acceleration": 1},
    {"id": "crc32"},
]

TOLERATED = [
    ("gzip", {"type": "gzip", "level": 6, "useZlib": False}),
    ({"type": "gzip"}, {"type": "gzip", "level": 6, "useZlib": False}),
    ({"type": "gzip", "level": -1}, {"type": "gzip", "level": 6, "useZlib": False}),
    ({"type": "gzip", "level": 4.0}, {"type": "gzip", "level": 4, "useZlib": False}),
    ({"type": "gzip", "level": None}, {"type": "gzip", "level": 6, "useZlib": False}),
    ({"type": "bzip2"}, {"type": "bzip2", "blockSize": 9}),
    ({"type": "xz"}, {"type": "xz", "preset": 6}),
    ({"type": "zstd", "id": "zstd", "level": 0, "checksum": False}, {"type": "zstd", "level": 0}),
    (
        {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "nthreads": 8, "typesize": 2},
        {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    ),
]

REFUSED = [
    ({"type": "gzip", "level": 10}, "level"),
    ({"type": "gzip", "level": -2}, "level"),
    ({"type": "gzip", "level": "6"}, "level"),
    ({"type": "gzip", "level": 1.5}, "level"),
    ({"type": "gzip", "level": True}, "level"),
    ({"type": "gzip", "useZlib": 1}, "useZlib"),
    ({"type": "bzip2", "blockSize": 0}, "blockSize"),
    ({"type": "xz", "preset": 10}, "preset"),
    ({"type": "lz4", "blockSize": -1}, "blockSize"),
    ({"type": "zstd", "level": 23}, "level"),
    ({"type": "blosc", "cname": "lzo"}, "cname"),
    ({"type": "blosc", "cname": ["lz4"]}, "cname"),
    ({"type": "blosc", "clevel": 10}, "clevel"),
    ({"type": "blosc", "shuffle": 3}, "shuffle"),
    ({"type": "blosc", "blocksize": -1}, "blocksize"),
    ({"type": "lzma", "format": 4}, "format"),
    ({"type": "lzma", "format": 3}, "filters"),
    ({"type": "lzma", "filters": [1]}, "filters"),
    ({"type": "lzma", "preset": -1}, "preset"),
]

VARIANTS: list[Compression] = [
    *(kind() for kind in COMPRESSIONS.values()),
    Gzip(use_zlib=True),
    Gzip(level=0),
    Lz4(block_size=64),
    Lzma(format=lzma.FORMAT_ALONE),
    Lzma(format=lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1}]),
    Zstd(level=-5),
    Numcodecs({"type": "zlib", "id": "zlib", "level": 1}),
    *(
        Blosc(cname=cname, shuffle=shuffle)
        for cname in compressions.BLOSC
        for shuffle in (-1, 0, 1, 2)
    ),
]
WRITERS = list(dict.fromkeys(VARIANTS))
LOSSLESS_ENDS = [writer for writer in WRITERS if not isinstance(writer, Numcodecs)]

NUMBERS = np.cumsum(np.arange(600) % 7, dtype=">u2").reshape(10, 60)

# lz4-java 1.8.0, LZ4BlockOutputStream: the block of the N5 README; 130 bytes i % 7 in blocks of
# 100; 200 zeros.
README_BLOCK = bytes.fromhex("000100020003000400050006")
JAVA_LZ4 = [
    (
        65536,
        README_BLOCK,
        (
            "4c5a34426c6f636b160c0000000c00000090258b06000100020003000400050006"
            "4c5a34426c6f636b16000000000000000000000000"
        ),
    ),
    (
        100,
        bytes(i % 7 for i in range(130)),
        (
            "4c5a34426c6f636b2011000000640000003b3eba0a7f00010203040506070045500405060001"
            "4c5a34426c6f636b20100000001e000000874cb20d7e020304050600010700500600010203"
            "4c5a34426c6f636b10000000000000000000000000"
        ),
    ),
    (
        65536,
        bytes(200),
        (
            "4c5a34426c6f636b260b000000c800000005db8d0e1f000100af500000000000"
            "4c5a34426c6f636b16000000000000000000000000"
        ),
    ),
]

UNSIZED = bytes.fromhex("28b52ffd0000610000000100020003000400050006")
"""The same in Zstandard without its size, as streaming writers make it."""

SIZED = bytes(Zstd().encode(b"abc"))
SKIPPED = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"

STREAMS: dict[str, tuple[Compression, bytes, bytes]] = {
    "lz4 of Java": (Lz4(block_size=6), bytes.fromhex(JAVA_LZ4[0][2]), README_BLOCK),
    "lz4 frame": (Lz4(), lz4.frame.compress(README_BLOCK), README_BLOCK),
    "lz4 frames": (Lz4(), lz4.frame.compress(b"abc") + lz4.frame.compress(b"d"), b"abcd"),
    "lz4 bare": (Lz4(), bytes.fromhex("c0000100020003000400050006"), README_BLOCK),
    "lz4 after its size": (
        *(Lz4(), bytes.fromhex("0c000000c0000100020003000400050006")),
        README_BLOCK,
    ),
    "lz4 without end mark": (Lz4(), bytes.fromhex(JAVA_LZ4[1][2])[:-21], JAVA_LZ4[1][1]),
    "lz4 behind its end mark": (Lz4(), bytes.fromhex(JAVA_LZ4[1][2] * 2), JAVA_LZ4[1][1]),
    "gzip members": (
        Gzip(),
        gzip.compress(b"abc") + gzip.compress(b"") + gzip.compress(b"d"),
        b"abcd",
    ),
    "gzip and more": (Gzip(), gzip.compress(b"abc") + b"more", b"abc"),
    "gzip and zeros": (Gzip(), gzip.compress(b"abc") + bytes(8), b"abc"),
    "gzip, not zlib": (Gzip(use_zlib=True), gzip.compress(b"abc"), b"abc"),
    "zlib, not gzip": (Gzip(), zlib.compress(b"abc"), b"abc"),
    "zlib and more": (Gzip(use_zlib=True), zlib.compress(b"abc") + b"more", b"abc"),
    "bzip2": (resolve("bzip2"), bz2.compress(b"abc") + bz2.compress(b"def"), b"abcdef"),
    "xz": (resolve("xz"), lzma.compress(b"abc") + bytes(4) + lzma.compress(b"d"), b"abcd"),
    "lzma for xz": (resolve("xz"), lzma.compress(b"abc", lzma.FORMAT_ALONE), b"abc"),
    "zstd": (Zstd(), SIZED + SIZED, b"abcabc"),
    "zstd without size": (Zstd(), UNSIZED * 3, README_BLOCK * 3),
    "zstd with and without": (Zstd(), SIZED + UNSIZED, b"abc" + README_BLOCK),
    "zstd without and with": (Zstd(), UNSIZED + SIZED, README_BLOCK + b"abc"),
    "zstd skipped": (Zstd(), (SKIPPED + SIZED) * 2, b"abcabc"),
}
"""Streams that others write: the compression of the metadata, the bytes and their content."""


def nbytes(data: Buffer) -> int:
    return len(bytes_of(data))


def read(compression: Compression, data: Buffer, size: int) -> bytes:
    decoded = compression.decode(data, size)
    return bytes(bytes_of(decoded))


@pytest.mark.matrix(4)
@pytest.mark.parametrize("compression", WRITERS, ids=repr)
@given(data=st.binary(max_size=300) | st.binary(max_size=20).map(lambda piece: piece * 50))
def test_every_compression_returns_the_bytes_it_was_given(
    compression: Compression, data: bytes
) -> None:
    assert read(compression, compression.encode(data), len(data)) == data


@pytest.mark.parametrize("dtype", [">u1", ">i2", ">f4", ">f8"])
@pytest.mark.parametrize("compression", WRITERS, ids=repr)
def test_every_compression_takes_arrays_and_views(compression: Compression, dtype: str) -> None:
    array = NUMBERS.astype(dtype)
    for data in (array.data, array[:0].data, array.reshape(-1)[:1].reshape(()).data):
        encoded = bytes(bytes_of(compression.encode(data)))
        assert read(compression, encoded, data.nbytes) == data.tobytes()
        assert read(compression, memoryview(encoded), data.nbytes) == data.tobytes()
        assert read(compression, bytearray(encoded), data.nbytes) == data.tobytes()


def is_right_or_error(compression: Compression, stream: bytes, size: int, data: bytes) -> bool:
    """Return whether a bad stream is an error, is short, or has the right bytes."""
    try:
        decoded = read(compression, stream, size)
    except Exception:  # noqa: BLE001 - any error will do
        return True
    return len(decoded) <= len(data) and decoded == data[: len(decoded)]


@pytest.mark.parametrize("compression", LOSSLESS_ENDS, ids=repr)
def test_a_stream_that_is_cut_or_of_another_size_is_an_error_or_right(
    compression: Compression,
) -> None:
    data, stream = NUMBERS.tobytes(), bytes(compression.encode(NUMBERS.data))
    for size in (0, 1, 1199, 1201, 5000):
        assert is_right_or_error(compression, stream, size, data)
    # Whatever is missing, nothing but an end mark may be of what has its full length.
    ends = {*range(min(60, len(stream))), *range(max(0, len(stream) - 60), len(stream))}
    for end in ends:
        try:
            decoded = read(compression, stream[:end], len(data))
        except Exception:  # noqa: BLE001, S112 - any error will do
            continue
        assert len(decoded) < len(data) or decoded == data


@pytest.mark.parametrize("members", SAME, ids=str)
def test_json_is_written_as_it_was_read(members: dict[str, Any]) -> None:
    assert to_json(from_json(members)) == members


@pytest.mark.parametrize(("members", "written"), TOLERATED, ids=str)
def test_odd_json_is_read_and_written_straight(members: object, written: dict[str, Any]) -> None:
    found = to_json(from_json(members))
    assert found == written
    assert json.dumps(found) == json.dumps(written)


@pytest.mark.parametrize(("members", "culprit"), REFUSED, ids=str)
def test_a_member_that_cannot_be_is_refused_by_name(members: dict[str, Any], culprit: str) -> None:
    with pytest.raises(MetadataError, match=f"{members['type']}.*'{culprit}'"):
        from_json(members)


def test_an_unknown_type_lists_the_known_ones() -> None:
    with pytest.raises(UnknownCompressionError, match="register_compression") as caught:
        from_json({"type": "middle-out"})
    for name in COMPRESSIONS:
        assert name in str(caught.value)


def test_users_name_a_compression_in_four_ways() -> None:
    assert resolve(None) == Raw()
    assert resolve("gzip") == Gzip()
    assert resolve({"type": "gzip", "level": 1}) == Gzip(level=1)
    assert resolve(Gzip(level=2)) == Gzip(level=2)


WRONG: dict[str, tuple[type[Exception], Callable[[Any], object], list[Any]]] = {
    "of files": (MetadataError, from_json, [None, 5, [], {}, {"type": None}, {"type": 3}]),
    "of users": (TypeError, resolve, [5, Gzip, b"gzip", object()]),
    "as a class": (TypeError, register_compression, [Gzip(), object, 5]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_compression_is_refused(name: str) -> None:
    kind, take, values = WRONG[name]
    for value in values:
        with pytest.raises(kind):
            take(value)


@pytest.mark.parametrize("compression", WRITERS, ids=repr)
def test_compressions_are_values(compression: Compression) -> None:
    again = pickle.loads(pickle.dumps(compression))  # noqa: S301 - our own
    assert again == compression
    assert hash(again) == hash(compression)


@dataclass(frozen=True, slots=True)
class Reverse:
    name: ClassVar[str] = "reverse"
    step_size: int
    check_twice: bool = False

    def encode(self, data: Buffer) -> Buffer:
        return bytes(data)[::-1]

    def decode(self, data: Buffer, size: int) -> Buffer:
        return bytes(data)[::-1][:size]


@pytest.fixture
def reverse() -> Iterator[None]:
    register_compression(Reverse)
    yield
    del COMPRESSIONS[Reverse.name]


@pytest.mark.usefixtures("reverse")
def test_outsiders_register_their_own() -> None:
    register_compression(Reverse)
    members = {"type": "reverse", "stepSize": 1, "checkTwice": True}
    assert from_json(members) == Reverse(1, check_twice=True)
    assert to_json(from_json(members)) == members


@pytest.mark.usefixtures("reverse")
def test_a_member_without_default_must_be_there() -> None:
    with pytest.raises(MetadataError, match="'stepSize'"):
        from_json({"type": "reverse", "stepSize": None})


def test_a_name_that_is_taken_is_refused() -> None:
    @dataclass(frozen=True)
    class Other(Raw):
        name: ClassVar[str] = "gzip"

    with pytest.raises(ValueError, match="gzip"):
        register_compression(Other)
    assert COMPRESSIONS["gzip"] is Gzip


@pytest.mark.parametrize(("compression", "stream", "content"), STREAMS.values(), ids=STREAMS)
def test_streams_of_others_are_read(
    compression: Compression, stream: bytes, content: bytes
) -> None:
    assert read(compression, stream, len(content)) == content
    if not isinstance(compression, Lz4):  # whose bare blocks need it
        assert read(compression, stream, len(content) + 1) == content


@pytest.mark.parametrize(("block_size", "data", "stream"), JAVA_LZ4)
def test_lz4_is_written_as_java_writes_it(block_size: int, data: bytes, stream: str) -> None:
    assert bytes(Lz4(block_size=block_size).encode(data)).hex() == stream
    assert read(Lz4(), bytes.fromhex(stream), len(data)) == data


@given(
    data=st.binary(min_size=1, max_size=300) | st.binary(max_size=9).map(lambda p: b"a" + p * 40)
)
def test_lz4_tells_the_framings_apart(data: bytes) -> None:
    bare = lz4.block.compress(data, store_size=False)
    for stream in (
        bare,
        len(data).to_bytes(4, "little") + bare,
        lz4.frame.compress(data),
        bytes(Lz4(block_size=64).encode(data)),
    ):
        assert read(Lz4(), stream, len(data)) == data


@pytest.mark.parametrize(
    ("place", "value"), [(8, 0x36), (11, 0xFF), (15, 0xFF), (17, 0xFF), (25, 0xFF)]
)
def test_lz4_refuses_an_invalid_header_or_checksum(place: int, value: int) -> None:
    stream = bytearray.fromhex(JAVA_LZ4[0][2])
    stream[place] = value
    with pytest.raises((ValueError, EOFError), match="LZ4Block stream"):
        Lz4().decode(stream, 12)


@pytest.mark.parametrize("block_size", [0, 6, 63, (1 << 25) + 1])
def test_lz4_writes_no_block_size_that_java_refuses(block_size: int) -> None:
    with pytest.raises(MetadataError, match="'blockSize'"):
        Lz4(block_size=block_size).encode(b"1234")


def test_gzip_writes_the_framing_that_it_declares() -> None:
    assert gzip.decompress(bytes(Gzip().encode(b"abc"))) == b"abc"
    assert zlib.decompress(bytes(Gzip(use_zlib=True).encode(b"abc"))) == b"abc"
    assert bytes(Gzip().encode(b"abc")) == bytes(Gzip(level=-1).encode(b"abc"))


def test_gzip_refuses_a_wrong_checksum() -> None:
    for stream in (bytearray(gzip.compress(b"abc")), bytearray(zlib.compress(b"abc"))):
        stream[-5 if stream[0] == 0x1F else -1] ^= 1
        with pytest.raises(zlib.error, match="incorrect data check"):
            Gzip().decode(stream, 3)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 65_535, 65_791, 65_792, 100_000])
def test_zstd_knows_every_form_of_the_size(size: int) -> None:
    stream = Zstd().encode(bytes(size))
    assert read(Zstd(), stream, size) == bytes(size)
    assert read(Zstd(), stream, size + 1) == bytes(size)
    with pytest.raises(ValueError, match="holds more"):
        Zstd().decode(stream, size - 1)


def test_zstd_refuses_a_window_of_another_size() -> None:
    """A header of a few bytes may request a window of 2 GiB."""
    with pytest.raises(Exception, match="memory"):
        Zstd().decode(bytes.fromhex("28b52ffd00a8090000") + b"a", 1)


def test_blosc_shuffles_by_the_size_of_elements() -> None:
    assert bytes(Blosc().encode(NUMBERS.data))[3] == 2
    assert bytes(Blosc().encode(NUMBERS.tobytes()))[3] == 1


def test_blosc_refuses_a_header_alone() -> None:
    header = bytes.fromhex("020196020c0000000c00000010000000")
    with pytest.raises(ValueError, match="only a header"):
        Blosc().decode(header, 12)
    with pytest.raises(EOFError, match="16 bytes"):
        Blosc().decode(header[:12], 12)


def test_blosc_refuses_a_size_before_it_allocates_it() -> None:
    header = struct.pack("<BBBBIII", 2, 1, 0x21, 2, 0x7FFFFFFF, 0x7FFFFFFF, 30)
    with pytest.raises(ValueError, match="got 2147483647"):
        Blosc().decode(header + bytes(14), 12)


def test_blosc_reads_a_frame_that_is_not_compressed() -> None:
    noise = np.random.default_rng(0).bytes(1000)
    frame = bytes(Blosc(clevel=9).encode(noise))
    assert frame[2] & 2
    assert read(Blosc(), frame + b"rest", 1000) == noise
    # Sizes that do not fit are left to the library.
    for at, value in ((12, 1000), (8, 0), (8, 0xFFFFFFFF)):
        wrong = frame[:at] + value.to_bytes(4, "little") + frame[at + 4 :]
        with pytest.raises(RuntimeError):
            Blosc().decode(wrong, 1000)


def test_blosc_says_that_it_has_no_snappy() -> None:
    with pytest.raises(NotImplementedError, match="snappy"):
        Blosc(cname="snappy").encode(b"1234")
    frame = struct.pack("<BBBBIII", 2, 1, 2 << 5, 2, 12, 12, 30)
    with pytest.raises(NotImplementedError, match="snappy"):
        Blosc().decode(frame + bytes(14), 12)


@pytest.mark.parametrize("codec", ["bz2", "crc32", "fletcher32", "shuffle", "zlib"])
def test_a_numcodecs_id_is_decoded_with_numcodecs(codec: str) -> None:
    stream = numcodecs.get_codec({"id": codec}).encode(NUMBERS.tobytes())
    compression = from_json({"type": codec, "id": codec})
    assert read(compression, stream, NUMBERS.nbytes) == NUMBERS.tobytes()


@pytest.mark.matrix(6)
@given(data=st.binary(max_size=80))
@pytest.mark.parametrize("compression", LOSSLESS_ENDS, ids=repr)
def test_garbage_raises_or_gives_bytes(compression: Compression, data: bytes) -> None:
    try:
        decoded = compression.decode(data, 64)
    except Exception:  # noqa: BLE001 - any error will do
        return
    assert isinstance(compression, Raw) or nbytes(decoded) <= 65


@pytest.mark.parametrize("name", compressions.NAMES)
def test_a_damaged_stream_is_an_error_or_right(name: str) -> None:
    data = (np.arange(1200) * 7919 % 97).astype(">u2").tobytes()
    compression = COMPRESSIONS[name]()
    stream = bytearray(compression.encode(data))
    wrong = 0
    for place in range(len(stream)):
        damaged = bytes(stream[:place]) + bytes([stream[place] ^ 1]) + bytes(stream[place + 1 :])
        try:
            decoded = bytes(compression.decode(damaged, len(data)))
        except Exception:  # noqa: BLE001, S112 - any error will do
            continue
        wrong += len(decoded) >= len(data) and decoded[: len(data)] != data
    assert wrong == 0 or name in compressions.WITHOUT_CHECKSUM


FIRST_USE = """
import sys, threading
import numpy as np
from xarray_n5.codecs import COMPRESSIONS

names = ["blosc", "zstd", "lz4"]
barrier = threading.Barrier(len(names))
failed = []

def use(name):
    barrier.wait()
    try:
        COMPRESSIONS[name]().encode(np.zeros(64, "u1"))
    except BaseException as error:
        failed.append(error)

sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=use, args=[name]) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(failed)
"""


def test_several_threads_use_compressions_for_the_first_time() -> None:
    """Imports of submodules at the same time fail, if each waits for the package of the others."""
    command = [sys.executable, "-c", FIRST_USE]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
