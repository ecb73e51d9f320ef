"""LZMA with the parameters of Python's lzma module, as zarr-python's N5Store wrote it."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.compression.streams import bytes_of, read_streams

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer


@dataclass(frozen=True, slots=True)
class Lzma:
    """LZMA in the container and with the filters that numcodecs' LZMA names."""

    name: ClassVar[str] = "lzma"
    format: int = lzma.FORMAT_XZ
    check: int = -1
    preset: int | None = None
    filters: Any = None

    def __post_init__(self) -> None:
        if self.filters is not None and not isinstance(self.filters, list):
            raise ValueError(f"'filters' is {self.filters!r}; a list of objects is needed")
        if self.format not in {lzma.FORMAT_XZ, lzma.FORMAT_ALONE, lzma.FORMAT_RAW}:
            raise ValueError(f"'format' is {self.format!r}; 1 (xz), 2 (alone) or 3 (raw) is needed")

    def __hash__(self) -> int:
        return hash((self.format, self.check, self.preset, json.dumps(self.filters)))

    def encode(self, data: Buffer) -> Buffer:
        """Return one stream."""
        return lzma.compress(
            bytes_of(data), self.format, self.check, self.preset, filters=self.filters
        )

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the stream holds."""
        filters = self.filters if self.format == lzma.FORMAT_RAW else None
        if filters:
            # A raw stream has no end that shows where it was cut off.
            return lzma.LZMADecompressor(self.format, filters=filters).decompress(data, size)
        return read_streams(data, size, lzma.LZMADecompressor, b"\xfd7zXZ")
