"""Small streams that claim or hold half a gigabyte."""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import struct
import zlib
from typing import TYPE_CHECKING

import lz4.block
import lz4.frame

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 512 << 20
_PIECE = 16 << 20
_ZEROS = bytes(_PIECE)
EXTREMES = (
    0,
    1,
    255,
    1 << 16,
    1 << 24,
    1 << 28,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 16,
    (1 << 32) - 1,
)
"""Sizes that headers may claim."""


def _deflate(bits: int) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, bits)
    pieces = [compressor.compress(_ZEROS) for _ in range(SIZE // _PIECE)]
    return b"".join([*pieces, compressor.flush()])


def _zstd(*, told: bool) -> bytes:
    count = SIZE >> 17
    header = bytes([0xC0, 0x58]) + struct.pack("<Q", SIZE) if told else bytes([0x00, 0x58])
    block = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", (1 << 17) << 3 | 1 << 1 | 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd" + header + block * (count - 1) + last


def _zstd_small() -> bytes:
    block = struct.pack("<I", 64 << 3 | 1 << 1 | 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd" + bytes([0x20, 64]) + block


def _blosc(flags: int, block: int) -> bytes:
    return struct.pack("<BBBBIII", 2, 1, flags, 1, SIZE, block, SIZE + 16) + bytes(48)


def _lz4_sized() -> bytes:
    block: bytes = lz4.block.compress(bytes(SIZE), store_size=False)
    return struct.pack("<I", SIZE) + block


def _lz4_java() -> bytes:
    plain = bytes(32 << 20)
    block: bytes = lz4.block.compress(plain, store_size=False)
    return (struct.pack("<8sBIII", b"LZ4Block", 0x2F, len(block), len(plain), 0) + block) * 16


BOMBS: dict[str, Callable[[], bytes]] = {
    name: functools.cache(make)
    for name, make in {
        "gzip": lambda: _deflate(31),
        "gzip streams": lambda: gzip.compress(b"", mtime=0) * 500,
        "zlib": lambda: _deflate(15),
        "bz2": lambda: bz2.compress(bytes(_PIECE)) * (SIZE // _PIECE),
        "bz2 streams": lambda: bz2.compress(b"") * 500,
        "xz": lambda: lzma.compress(bytes(_PIECE), preset=0) * (SIZE // _PIECE),
        "xz streams": lambda: lzma.compress(b"", preset=0) * 100,
        "zstd": lambda: _zstd(told=False),
        "zstd told": lambda: _zstd(told=True),
        "zstd after another": lambda: _zstd_small() + _zstd(told=False),
        "lz4 frame": lambda: lz4.frame.compress(_ZEROS) * (SIZE // _PIECE),
        "lz4 java": _lz4_java,
        "lz4 sized": _lz4_sized,
        "lz4 claim": lambda: struct.pack("<I", (1 << 31) - 1) + b"\x10\0" * 8,
        "blosc claim": lambda: _blosc(0x81, 1 << 18),
        "blosc copied": lambda: _blosc(2, SIZE),
    }.items()
}
"""Makers of bombs, each of which works once."""
