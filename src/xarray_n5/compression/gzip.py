"""DEFLATE streams, framed as gzip or as zlib (N5 README, "gzip").

libdeflate does the work: it is faster than zlib, and lets other threads run meanwhile.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import deflate

from xarray_n5.compression.values import check_range

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer

_MAGIC = b"\x1f\x8b"
_ANY_FRAME = 47  # what tells zlib to find out whether a stream is framed as gzip or zlib


@dataclass(frozen=True, slots=True)
class Gzip:
    """DEFLATE at a level from 0 (stored) to 9 (smallest); -1 is zlib's default, 6."""

    name: ClassVar[str] = "gzip"
    level: int = 6
    use_zlib: bool = False

    def __post_init__(self) -> None:
        check_range("level", self.level, -1, 9)
        if not isinstance(self.use_zlib, bool):
            raise ValueError(f"'useZlib' is {self.use_zlib!r}; true or false is needed")  # noqa: TRY004

    def encode(self, data: Buffer) -> Buffer:
        """Return one gzip or zlib stream."""
        level = 6 if self.level == -1 else self.level
        compress = deflate.zlib_compress if self.use_zlib else deflate.gzip_compress
        return compress(memoryview(data).cast("B"), level)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the stream holds, however it is framed: some writers mislabel it."""
        view = memoryview(data)
        decompress = deflate.gzip_decompress if view[:2] == _MAGIC else deflate.zlib_decompress
        try:
            decoded = decompress(view, max(size, 1))
        except deflate.DeflateError:
            return _all_members(view, size)
        # Java reads several members as one stream.
        return decoded if len(decoded) >= size else _all_members(view, size)


def _all_members(data: memoryview, size: int) -> bytes:
    """Return the concatenated contents of all members, up to a little more than `size` bytes."""
    decoded = b""
    rest: bytes | memoryview = data
    while len(rest) and len(decoded) <= size:
        member = zlib.decompressobj(_ANY_FRAME)
        try:
            decoded += member.decompress(rest, size + 1 - len(decoded))
        except zlib.error:
            if decoded:
                break  # padding behind the last member
            raise
        if not member.eof and len(decoded) <= size:
            raise zlib.error("the stream ends early")
        rest = member.unused_data
    return decoded
