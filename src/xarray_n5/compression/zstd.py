"""Zstandard frames (n5-zstandard)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.compression.values import check_range

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer


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

        return bytes(numcodecs.zstd.compress(data, self.level))

    def decode(self, data: Buffer, size: int) -> Buffer:  # noqa: ARG002
        """Return what the frames hold; streaming writers do not tell their size."""
        import numcodecs.zstd

        return memoryview(numcodecs.zstd.decompress(data))
