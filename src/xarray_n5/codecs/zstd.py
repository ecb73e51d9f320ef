"""Zstandard frames (n5-zstandard)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from xarray_n5.codecs.streams import bytes_of
from xarray_n5.model.options import check_range

if TYPE_CHECKING:
    from xarray_n5.model.codec import Buffer

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE, _SKIPPABLE_FIRST = b"\x2a\x4d\x18", 5
"""The magic of skippable frames, without the lower half of its first byte."""

_REPEATED, _COMPRESSED = 1, 2
"""Types of blocks: a repeated byte, and compressed ones."""

_LARGEST_BLOCK = 1 << 17


@dataclass(frozen=True, slots=True)
class Zstd:
    """Zstandard at a level up to 22; negative levels are faster, 0 is the default.

    >>> bytes(Zstd().decode(Zstd(level=19).encode(b"1234"), 4))
    b'1234'
    """

    name: ClassVar[str] = "zstd"
    level: int = 3

    def __post_init__(self) -> None:
        check_range("level", self.level, -(1 << 17), 22)

    def encode(self, data: Buffer) -> Buffer:
        """Return one frame that holds its content's size, and the content's checksum."""
        return compressed(data, self.level, checksum=True)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of the frames; its size is checked before memory is allocated.

        Frames without their size, as streaming writers leave them, are decoded to `size` bytes.
        """
        view = bytes_of(data)
        stated = _content_size(bytes(view[:18]))
        if stated is not None and stated > size:
            raise ValueError(f"the zstd frame holds {stated} bytes, expected {size}")
        if stated != size:
            stated, most = _total_size(view)
            if stated is None:
                return _decode_unknown(view, size, most)
            if stated > size:
                raise ValueError(f"the zstd frames hold {stated} bytes, expected {size}")
        return _decode_into(view, stated)


def compressed(data: Buffer, level: int, *, checksum: bool) -> bytes:
    """Return one frame; all decoders compare the checksum, if there is one (RFC 8878, 3.1.1)."""
    import numcodecs

    frame: bytes = numcodecs.zstd.compress(data, level, checksum)
    return frame


def _decode_into(view: memoryview, size: int) -> memoryview:
    """Return the content of frames that hold exactly `size` bytes."""
    import numcodecs

    decoded = np.empty(size, np.uint8)
    if size:  # numcodecs refuses empty content
        try:
            numcodecs.zstd.decompress(view, decoded)
        except RuntimeError as error:
            if not _is_whole(view):
                raise EOFError("the zstd frame ends early") from error
            raise
    return decoded.data


def _decode_unknown(view: memoryview, size: int, most: int) -> Buffer:
    """Return the content of frames that do not state its size: `size` bytes or fewer.

    numcodecs decodes fewer only without a bound, so their blocks must not hold many more.
    """
    import numcodecs

    try:
        return _decode_into(view, size)
    except RuntimeError:
        if most > size + _LARGEST_BLOCK:
            raise
    decoded: bytes = numcodecs.zstd.decompress(view)
    if len(decoded) > size:
        raise ValueError(f"the zstd frames hold {len(decoded)} bytes, expected {size}")
    return decoded


def _is_whole(view: memoryview) -> bool:
    """Return whether the first frame is complete."""
    try:
        _walk(view, 0)
    except EOFError:
        return False
    except ValueError:
        return True
    return True


def _total_size(view: memoryview) -> tuple[int | None, int]:
    """Return the stated size of all frames, None if one has none, and the most they can hold.

    Raises
    ------
    EOFError
        If a frame is truncated.
    ValueError
        If something else follows a frame.
    """
    total: int | None = 0
    most = start = 0
    while start < len(view) or not start:
        stated, room, start = _walk(view, start)
        total = None if stated is None or total is None else total + stated
        most += room
    return total, most


def _walk(view: memoryview, start: int) -> tuple[int | None, int, int]:
    """Return a frame's stated size, the most that its blocks hold, and its end.

    Source: RFC 8878, 3.1.
    """
    magic = bytes(view[start : start + 4])
    if magic[1:] == _SKIPPABLE and magic[0] >> 4 == _SKIPPABLE_FIRST:
        start += 8 + int.from_bytes(view[start + 4 : start + 8], "little")
        return 0, 0, _within(view, start)
    if magic != _MAGIC:
        raise ValueError(f"byte {start} of the zstd stream is not the beginning of a frame")
    header = bytes(view[start : start + 18])
    descriptor = header[4] if len(header) > len(_MAGIC) else 0
    code, single = descriptor >> 6, bool(descriptor & 0x20)
    start += 5 + (int(single), 2, 4, 8)[code] + int(not single) + (0, 1, 2, 4)[descriptor & 0b11]
    last, most = False, 0
    while not last:
        block = int.from_bytes(view[start : _within(view, start + 3)], "little")
        last, kind, size = bool(block & 1), block >> 1 & 0b11, block >> 3
        most += _LARGEST_BLOCK if kind == _COMPRESSED else size
        start += 3 + (1 if kind == _REPEATED else size)
    return _content_size(header), most, _within(view, start + 4 * (descriptor >> 2 & 1))


def _within(view: memoryview, end: int) -> int:
    if end > len(view):
        raise EOFError("the zstd frame ends early")
    return end


def _content_size(header: bytes) -> int | None:
    """Return the stated size of the first frame (3.1.1.1), or None if it has none.

    It is 0 for anything else, such as a skippable frame.
    """
    if not header.startswith(_MAGIC) or len(header) == len(_MAGIC):
        return 0
    descriptor = header[len(_MAGIC)]
    code, single = descriptor >> 6, bool(descriptor & 0x20)
    length = (int(single), 2, 4, 8)[code]
    window, dictionary = int(not single), (0, 1, 2, 4)[descriptor & 0b11]
    start = len(_MAGIC) + 1 + window + dictionary
    stated = int.from_bytes(header[start : start + length], "little")
    return stated + (256 if length == 2 else 0) if length else None  # noqa: PLR2004 - RFC 8878
