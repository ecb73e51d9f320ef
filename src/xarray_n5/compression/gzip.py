"""DEFLATE streams, framed as gzip or as zlib (N5 README, "gzip").

libdeflate does the work: it is faster than zlib, and lets other threads run meanwhile.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import deflate

from xarray_n5.compression.streams import bytes_of, read_streams
from xarray_n5.compression.values import check_boolean, check_range

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer
    from xarray_n5.compression.streams import Decompressor

_MAGIC = b"\x1f\x8b"
_ANY_FRAME = 32 + zlib.MAX_WBITS
"""What tells zlib to find out how a stream is framed."""


@dataclass(frozen=True, slots=True)
class Gzip:
    """DEFLATE at a level from 0 (stored) to 9 (smallest); -1 is zlib's default, 6."""

    name: ClassVar[str] = "gzip"
    level: int = 6
    use_zlib: bool = False

    def __post_init__(self) -> None:
        check_range("level", self.level, -1, 9)
        check_boolean("useZlib", self.use_zlib)

    def encode(self, data: Buffer) -> Buffer:
        """Return one gzip or zlib stream."""
        level = 6 if self.level == -1 else self.level
        compress = deflate.zlib_compress if self.use_zlib else deflate.gzip_compress
        return bytes_of(compress(bytes_of(data), level))

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the stream holds, however it is framed: some writers mislabel it."""
        view = memoryview(data)
        decompress = deflate.gzip_decompress if view[:2] == _MAGIC else deflate.zlib_decompress
        try:
            decoded = decompress(view, max(size, 1))
        except deflate.DeflateError:
            return read_streams(data, size, _any_frame, _MAGIC)
        # Java reads several members as one stream.
        return decoded if len(decoded) >= size else read_streams(data, size, _any_frame, _MAGIC)


def _any_frame() -> Decompressor:
    return zlib.decompressobj(_ANY_FRAME)
