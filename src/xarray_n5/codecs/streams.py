"""Flat views of buffers, and concatenated compressed streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.model.metadata import Buffer


_WINDOW = 1 << 12
"""The number of bytes that the decompressor of a later stream gets first."""


_LONGEST_MAGIC = 8


def bytes_of(data: Buffer) -> memoryview:
    """Return a flat view of a buffer's bytes."""
    return np.frombuffer(data, np.uint8).data


def read_streams(
    data: Buffer, size: int, new: Callable[[], Any], magic: bytes | tuple[bytes, ...]
) -> bytes:
    """Return the content of concatenated streams, at most `size` bytes.

    `new` makes a decompressor of one stream, as in zlib, bz2, lzma and lz4.frame. After the first
    stream, zeros (the padding of xz) and bytes that do not begin with `magic` are ignored.

    Raises
    ------
    EOFError
        If a stream is truncated.
    ValueError
        If there are more than `size` bytes, as in a damaged stream.
    """
    pieces: list[bytes] = []
    view = bytes_of(data)
    left, start = size + 1, 0
    while True:
        piece, end = _read_stream(view, start, left, new())
        pieces.append(piece)
        left -= len(piece)
        if not left:
            raise ValueError(f"the compressed stream holds more than the expected {size} bytes")
        if end is None:
            raise EOFError(
                f"the compressed stream is truncated: it ends after {size + 1 - left} bytes"
            )
        start = _skip_zeros(view, end)
        if not bytes(view[start : start + _LONGEST_MAGIC]).startswith(magic):
            return b"".join(pieces)


def _read_stream(view: memoryview, start: int, left: int, stream: Any) -> tuple[bytes, int | None]:
    """Return at most `left` bytes of a stream, and its end, or None if it was not reached.

    The first stream gets all bytes at once. Later ones get a growing window, because a decompressor
    copies all bytes after its end, which is too slow for thousands of streams.
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
