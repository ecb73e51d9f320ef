"""Zstandard frames (n5-zstandard; RFC 8878)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.compression.streams import bytes_of
from xarray_n5.compression.values import check_range

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer

_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Zstd:
    """Zstandard at a level up to 22; negative ones are faster."""

    name: ClassVar[str] = "zstd"
    level: int = 3

    def __post_init__(self) -> None:
        check_range("level", self.level, -(1 << 17), 22)

    def encode(self, data: Buffer) -> Buffer:
        """Return one frame that tells its content's size."""
        import numcodecs.zstd

        return bytes(numcodecs.zstd.compress(bytes_of(data), self.level))

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the frames hold; streaming writers do not tell their size."""
        import numcodecs.zstd

        view = memoryview(data)
        told = _content_size(view)
        if told is not None and told > size:
            raise ValueError(f"the zstd frame holds {told} bytes, {size} were expected")
        return bytes(numcodecs.zstd.decompress(view))


def _content_size(frame: memoryview) -> int | None:
    """Return the content's size that a frame's header tells, or None (RFC 8878, 3.1.1.1)."""
    if frame[:4] != _MAGIC or frame.nbytes < len(_MAGIC) + 1:
        return None
    descriptor = frame[4]
    flag, single = descriptor >> 6, descriptor >> 5 & 1
    width = (single, 2, 4, 8)[flag]
    start = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    field = bytes(frame[start : start + width])
    if not width or len(field) < width:
        return None
    # A field of two bytes counts from 256.
    return int.from_bytes(field, "little") + (256 if flag == 1 else 0)
