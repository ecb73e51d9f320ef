"""Views of bytes, and compressed streams that stand one after another in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.model.codec import Buffer


_WINDOW = 1 << 12
"""How many bytes a stream behind the first one is given to begin with."""


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

    Behind the first stream, bytes that do not begin with `magic` are ignored, as are zeros (xz's
    padding).

    Raises
    ------
    EOFError
        If a stream has no end mark.
    ValueError
        If there is more: a damaged stream may run on, and its checksum stands at its end.
    """
    pieces: list[bytes] = []
    view = bytes_of(data)
    left, start = size + 1, 0
    while True:
        piece, end = _read_stream(view, start, left, new())
        pieces.append(piece)
        left -= len(piece)
        if not left:
            raise ValueError(f"the compressed stream holds more than the {size} bytes expected")
        if end is None:
            raise EOFError(f"the compressed stream ends early, after {size + 1 - left} bytes")
        start = _skip_zeros(view, end)
        if view[start : start + len(magic)] != magic:
            return b"".join(pieces)


def _read_stream(
    view: memoryview, start: int, left: int, stream: Decompressor
) -> tuple[bytes, int | None]:
    """Return at most `left` bytes of a stream, and where it ends; None if that was not reached.

    The first stream gets all bytes at once. Later ones get a window that grows: each decompressor
    copies the bytes behind its end mark, which takes forever where thousands of streams follow.
    """
    window = len(view) if start == 0 else _WINDOW
    pieces: list[bytes] = []
    while start < len(view) or not pieces:
        given = view[start : start + window]
        pieces.append(stream.decompress(given, left))
        start += len(given)
        left -= len(pieces[-1])
        if stream.eof:
            return b"".join(pieces), start - len(stream.unused_data or b"")
        if not left:
            break
        window *= 2
    return b"".join(pieces), None


def _skip_zeros(view: memoryview, start: int) -> int:
    """Return the position of the first byte from `start` that is not zero."""
    while start < len(view) and view[start] == 0:
        piece = bytes(view[start : start + _WINDOW])
        start += len(piece) - len(piece.lstrip(b"\0"))
    return start
