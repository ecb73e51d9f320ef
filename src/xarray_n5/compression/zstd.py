"""Zstandard frames (n5-zstandard)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from xarray_n5.compression.streams import bytes_of
from xarray_n5.compression.values import check_range

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer

_MAGIC = b"\x28\xb5\x2f\xfd"


_REPEATED = 1
"""The kind of block that holds one byte, however often it occurs."""


@dataclass(frozen=True, slots=True)
class Zstd:
    """Zstandard at a level up to 22; negative ones are faster, 0 is its default.

    >>> bytes(Zstd().decode(Zstd(level=19).encode(b"1234"), 4))
    b'1234'
    """

    name: ClassVar[str] = "zstd"
    level: int = 3

    def __post_init__(self) -> None:
        check_range("level", self.level, -(1 << 17), 22)

    def encode(self, data: Buffer) -> Buffer:
        """Return one frame that tells its content's size."""
        import numcodecs.zstd

        frame: bytes = numcodecs.zstd.compress(data, self.level)
        return frame

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the frames hold; streaming writers do not tell their size.

        numcodecs leaves the end of a buffer as it was when frames tell a smaller size. So they are
        decoded into one only if the first tells all that is expected, or nothing.
        """
        told = _content_size(bytes(bytes_of(data)[:18]))
        if told is not None and told > size:
            raise ValueError(f"the zstd frame holds {told} bytes, {size} were expected")
        import numcodecs.zstd

        if told is not None and told < size:
            return memoryview(numcodecs.zstd.decompress(data))
        decoded = np.empty(size, np.uint8)
        if size:  # numcodecs takes a frame that tells 0 for damaged
            try:
                numcodecs.zstd.decompress(data, decoded)
            except RuntimeError as error:
                if not _is_whole(bytes_of(data)):
                    raise EOFError("the zstd frame ends early") from error
                raise
        return decoded.data


def _is_whole(view: memoryview) -> bool:
    """Return whether the first frame's blocks all lie within the data (RFC 8878, 3.1.1)."""
    start = len(_MAGIC) + 1
    if len(view) < start or bytes(view[: len(_MAGIC)]) != _MAGIC:
        return len(view) >= start
    descriptor = view[len(_MAGIC)]
    code, single = descriptor >> 6, bool(descriptor & 0x20)
    start += (int(single), 2, 4, 8)[code] + int(not single) + (0, 1, 2, 4)[descriptor & 0b11]
    last = False
    while not last and start + 3 <= len(view):
        block = int.from_bytes(view[start : start + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 0b11, block >> 3
        start += 3 + (1 if kind == _REPEATED else size)
    return last and start + 4 * (descriptor >> 2 & 1) <= len(view)


def _content_size(header: bytes) -> int | None:
    """Return what the first frame tells of its content (RFC 8878, 3.1.1.1), None if nothing.

    It is 0 for what is no frame, or one that is skipped.
    """
    if not header.startswith(_MAGIC) or len(header) == len(_MAGIC):
        return 0
    descriptor = header[len(_MAGIC)]
    code, single = descriptor >> 6, bool(descriptor & 0x20)
    length = (int(single), 2, 4, 8)[code]
    window, dictionary = int(not single), (0, 1, 2, 4)[descriptor & 0b11]
    start = len(_MAGIC) + 1 + window + dictionary
    told = int.from_bytes(header[start : start + length], "little")
    return told + (256 if length == 2 else 0) if length else None  # noqa: PLR2004 - RFC 8878
