"""LZ4 blocks, in the four framings that writers of N5 use under one name.

Written is lz4-java's (LZ4BlockOutputStream): blocks behind headers of 21 bytes, each ``LZ4Block``,
a token (method and level), then little-endian int32 of the compressed size, the original size and
a checksum; an empty block ends the stream. Read are also the LZ4 frame format (rust-n5), a bare
block (z5), and numcodecs' block behind its size (zarr-python).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import lz4.block
import lz4.frame
import xxhash

from xarray_n5.compression.streams import bytes_of, read_streams
from xarray_n5.compression.values import check_range

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer

_JAVA, _FRAME = b"LZ4Block", b"\x04\x22\x4d\x18"
_HEADER = struct.Struct("<8sBiii")
_SIZE = struct.Struct("<I")
_STORED, _COMPRESSED = 0x10, 0x20
_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF
_SMALLEST, _LARGEST = 64, 1 << 25


@dataclass(frozen=True, slots=True)
class Lz4:
    """LZ4 in blocks of so many bytes."""

    name: ClassVar[str] = "lz4"
    block_size: int = 1 << 16

    def __post_init__(self) -> None:
        # z5 writes a level there, so reading takes any; encode is stricter.
        check_range("blockSize", self.block_size, 0, 1 << 31)

    def encode(self, data: Buffer) -> Buffer:
        """Return the stream that lz4-java would write."""
        check_range("blockSize", self.block_size, _SMALLEST, _LARGEST)
        level = max(0, (self.block_size - 1).bit_length() - 10)
        view = bytes_of(data)
        parts: list[bytes] = []
        for start in range(0, view.nbytes, self.block_size):
            block = view[start : start + self.block_size]
            payload = lz4.block.compress(block, store_size=False)
            method = _COMPRESSED
            if len(payload) >= block.nbytes:
                payload, method = bytes(block), _STORED
            sizes = len(payload), block.nbytes, _checksum(block)
            parts += [_HEADER.pack(_JAVA, method | level, *sizes), payload]
        parts.append(_HEADER.pack(_JAVA, _STORED | level, 0, 0, 0))
        return b"".join(parts)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the stream holds, in whichever framing."""
        view = memoryview(data)
        if view[:8] == _JAVA:
            return _decode_java(view, size)
        if view[:4] == _FRAME:
            return read_streams(data, size, lz4.frame.LZ4FrameDecompressor, _FRAME)
        if view.nbytes >= _SIZE.size and _SIZE.unpack_from(view)[0] == size:
            try:
                decoded = lz4.block.decompress(view[_SIZE.size :], uncompressed_size=size)
            except lz4.block.LZ4BlockError:
                decoded = b""
            if len(decoded) == size:
                return bytes(decoded)
        return bytes(lz4.block.decompress(view, uncompressed_size=size))


def _checksum(block: memoryview) -> int:
    return xxhash.xxh32_intdigest(block, seed=_SEED) & _MASK


def _decode_java(data: memoryview, size: int) -> bytes:
    parts: list[bytes] = []
    start = done = 0
    while start < data.nbytes or done < size:
        if data.nbytes - start < _HEADER.size:
            raise ValueError(f"the LZ4Block stream ends after {done} of {size} bytes")
        magic, token, packed, original, checksum = _HEADER.unpack_from(data, start)
        start += _HEADER.size
        method = token & 0xF0
        if magic != _JAVA or method not in {_STORED, _COMPRESSED} or packed < 0 or original < 0:
            raise ValueError(
                f"byte {start - _HEADER.size} of the LZ4Block stream is no block header"
            )
        if original == 0:
            break
        block = data[start : start + packed]
        if block.nbytes < packed or done + original > max(size, 1) + (1 << 25):
            raise ValueError(f"the LZ4Block stream ends after {done} of {size} bytes")
        start += packed
        plain = bytes(block) if method == _STORED else _unpack(block, original)
        if len(plain) != original or _checksum(memoryview(plain)) != checksum:
            raise ValueError(f"the LZ4Block stream's checksum differs at byte {done}")
        parts.append(plain)
        done += original
    return b"".join(parts)


def _unpack(block: memoryview, size: int) -> bytes:
    return bytes(lz4.block.decompress(block, uncompressed_size=size))
