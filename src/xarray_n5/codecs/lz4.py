"""LZ4 in the four framings that N5 writers use under one name.

The framing of lz4-java (LZ4BlockOutputStream) is written: each block after a header of 21 bytes,
``LZ4Block``, a token (method and level), then as little-endian int32 the compressed size, the
original size and a checksum; an empty block ends the stream. The LZ4 frame format (rust-n5), a bare
block (z5) and a block after its size (zarr-python) are read, too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import lz4.block
import lz4.frame
import xxhash

from xarray_n5.codecs.streams import bytes_of, read_streams
from xarray_n5.errors import MetadataError
from xarray_n5.model.json import check_range

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Buffer

_JAVA, _FRAME = b"LZ4Block", b"\x04\x22\x4d\x18"
_HEADER = struct.Struct("<8sBIII")
_STORED, _COMPRESSED = 0x10, 0x20
_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF
_SIZE = 4
_SMALLEST, _LARGEST = 64, 1 << 25


@dataclass(frozen=True, slots=True)
class Lz4:
    """LZ4 in blocks of `block_size` bytes.

    >>> bytes(Lz4().decode(Lz4().encode(b"1234"), 4))
    b'1234'
    """

    name: ClassVar[str] = "lz4"
    block_size: int = 1 << 16

    def __post_init__(self) -> None:
        # z5 writes a level here, so any number can be read; encode is stricter.
        check_range("blockSize", self.block_size, 0, (1 << 31) - 1)

    def encode(self, data: Buffer) -> Buffer:
        """Return a stream of lz4-java."""
        if not _SMALLEST <= self.block_size <= _LARGEST:
            raise MetadataError(
                f"lz4's 'blockSize' is {self.block_size}, as z5 writes it; expected {_SMALLEST} to "
                f"{_LARGEST}, as in Java. z5's framing can only be read: copy the array to write it"
            )
        level = max(0, (self.block_size - 1).bit_length() - 10)
        view = bytes_of(data)
        starts = range(0, len(view), self.block_size)
        blocks = [_java_block(view[i : i + self.block_size], level) for i in starts]
        return b"".join([*blocks, _HEADER.pack(_JAVA, _STORED | level, 0, 0, 0)])

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of a stream in any framing.

        A bare block cannot begin like the other framings: it would refer to bytes before its first.
        """
        view = bytes_of(data)
        if view[: len(_JAVA)] == _JAVA:
            return _decode_java(view, size)
        if view[: len(_FRAME)] == _FRAME:
            return read_streams(view, size, lz4.frame.LZ4FrameDecompressor, _FRAME)
        return _decode_bare(view, size)


@dataclass(frozen=True, slots=True)
class SizedLz4:
    """One LZ4 block after its size as little-endian uint32, as numcodecs and Zarr store it.

    >>> int.from_bytes(bytes(SizedLz4().encode(b"1234"))[:4], "little")
    4
    """

    name: ClassVar[str] = "lz4"
    acceleration: int = 1

    def __post_init__(self) -> None:
        check_range("acceleration", self.acceleration, -(1 << 31), (1 << 31) - 1)

    def encode(self, data: Buffer) -> Buffer:
        """Return one block after its size."""
        import numcodecs

        block: bytes = numcodecs.lz4.compress(bytes_of(data), self.acceleration)
        return block

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of the block, whose size is checked before it is allocated."""
        import numcodecs

        view = bytes_of(data)
        if len(view) <= _SIZE:
            raise EOFError(f"expected an LZ4 block after its size, got {len(view)} bytes")
        stored = int.from_bytes(view[:_SIZE], "little")
        if stored > size:
            raise ValueError(f"expected {size} bytes in the LZ4 block, got {stored}")
        # numcodecs writes empty blocks, but refuses to read them.
        return numcodecs.lz4.decompress(view) if stored else b""


def _java_block(block: memoryview, level: int) -> bytes:
    payload, method = lz4.block.compress(block, store_size=False), _COMPRESSED
    if len(payload) >= len(block):
        payload, method = bytes(block), _STORED
    sizes = len(payload), len(block), _checksum(block)
    return b"".join((_HEADER.pack(_JAVA, method | level, *sizes), payload))


def _checksum(block: bytes | memoryview) -> int:
    return xxhash.xxh32_intdigest(block, seed=_SEED) & _MASK


def _decode_java(view: memoryview, size: int) -> bytes:
    """Return the content of lz4-java's blocks; the empty last block may be absent."""
    blocks: list[bytes | memoryview] = []
    left, start = size, 0
    while start + _HEADER.size <= len(view):
        magic, token, packed, original, checksum = _HEADER.unpack_from(view, start)
        if magic != _JAVA:
            raise ValueError(f"expected a block header at byte {start} of the LZ4Block stream")
        if original == 0:
            break
        start += _HEADER.size
        payload = view[start : start + packed]
        left -= original
        if left < 0 or len(payload) < packed:
            error = ValueError if left < 0 else EOFError
            raise error(f"the LZ4Block stream is truncated, or holds more than {size} bytes")
        blocks.append(_decode_java_block(payload, token & 0xF0, original, checksum))
        start += packed
    return b"".join(blocks)


def _decode_java_block(
    payload: memoryview, method: int, original: int, checksum: int
) -> bytes | memoryview:
    block: bytes | memoryview = payload
    if method == _COMPRESSED:
        block = lz4.block.decompress(payload, uncompressed_size=original)
    elif method != _STORED:
        raise ValueError(f"the LZ4Block stream has a block of the unknown method {method:#x}")
    if len(block) != original or _checksum(block) != checksum:
        raise ValueError("the LZ4Block stream has a block whose size or checksum differs")
    return block


def _decode_bare(view: memoryview, size: int) -> bytes:
    """Return the content of a block, with or without its uint32 size before it."""
    if view[:4] == size.to_bytes(4, "little"):
        try:
            decoded = bytes(lz4.block.decompress(view[4:], uncompressed_size=size))
        except lz4.block.LZ4BlockError:
            decoded = b""
        if len(decoded) == size:
            return decoded
    return bytes(lz4.block.decompress(view, uncompressed_size=size))
