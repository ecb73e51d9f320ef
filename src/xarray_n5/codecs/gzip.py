"""DEFLATE streams, framed as gzip or as zlib (N5 README, "gzip").

libdeflate is faster than zlib and releases the GIL.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import deflate

from xarray_n5.codecs.streams import read_streams
from xarray_n5.model.json import check_boolean, check_range

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Buffer

_MAGIC = b"\x1f\x8b"
_USUAL_LEVEL = 6
_any_frame = functools.partial(zlib.decompressobj, 32 + zlib.MAX_WBITS)


@dataclass(frozen=True, slots=True)
class Gzip:
    """DEFLATE at a level from 0 (stored) to 9 (smallest); -1 is zlib's default, 6.

    >>> bytes(Gzip().decode(Gzip(use_zlib=True).encode(b"1234"), 4))
    b'1234'
    """

    name: ClassVar[str] = "gzip"
    # Java's N5 writes -1, which Zarr forbids.
    level: int = field(default=_USUAL_LEVEL, metadata={"written": {-1: _USUAL_LEVEL}})
    use_zlib: bool = False

    def __post_init__(self) -> None:
        check_range("level", self.level, -1, 9)
        check_boolean("useZlib", self.use_zlib)

    def encode(self, data: Buffer) -> Buffer:
        """Return one gzip or zlib stream without time and file name."""
        level = _USUAL_LEVEL if self.level == -1 else self.level
        compress = deflate.zlib_compress if self.use_zlib else deflate.gzip_compress
        return compress(data, level)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of a gzip or zlib stream, whatever `use_zlib` claims.

        libdeflate decodes one member of a known size, framed as expected; zlib anything else.
        """
        decompress = deflate.zlib_decompress if self.use_zlib else deflate.gzip_decompress
        if size:  # 0 means unknown to libdeflate
            try:
                decoded = decompress(data, size)
            except deflate.DeflateError:
                decoded = bytearray()
            if len(decoded) == size:
                return decoded
        return read_streams(data, size, _any_frame, _MAGIC)
