"""Views of bytes, and compressed streams that stand one after another in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.compression import Buffer


def bytes_of(data: Buffer) -> memoryview:
    """Return a flat view of the bytes, of big-endian elements too."""
    return np.frombuffer(data, np.uint8).data


class Decompressor(Protocol):
    """What zlib, bz2, lzma and lz4.frame have to read one stream with."""

    @property
    def eof(self) -> bool:
        """Whether the stream's end mark has been read."""

    @property
    def unused_data(self) -> bytes | None:
        """What stands behind the end mark."""

    def decompress(self, data: Any, max_length: int, /) -> bytes:
        """Return at most `max_length` bytes."""


def read_streams(data: Buffer, size: int, new: Callable[[], Decompressor], magic: bytes) -> bytes:
    """Return what the streams in `data` hold, `size` bytes at most.

    Behind the first stream, what does not begin with `magic` is ignored, as are zeros (xz's
    padding).

    Raises
    ------
    EOFError
        If a stream has no end mark.
    ValueError
        If there is more: a damaged stream may run on, and its checksum stands at its end.
    """
    pieces: list[bytes] = []
    rest: bytes | memoryview = bytes_of(data)
    left = size + 1
    while True:
        stream = new()
        pieces.append(stream.decompress(rest, left))
        left -= len(pieces[-1])
        if not left:
            raise ValueError(f"the compressed stream holds more than the {size} bytes expected")
        if not stream.eof:
            raise EOFError(f"the compressed stream ends early, after {size + 1 - left} bytes")
        rest = (stream.unused_data or b"").lstrip(b"\0")
        if not rest.startswith(magic):
            break
    return b"".join(pieces)
