"""bzip2 streams (N5 README, "bzip2")."""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.codecs.streams import bytes_of, read_streams
from xarray_n5.model.json import check_range

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Buffer


@dataclass(frozen=True, slots=True)
class Bzip2:
    """bzip2 in blocks of 1 to 9 times 100 kB."""

    name: ClassVar[str] = "bzip2"
    block_size: int = 9

    def __post_init__(self) -> None:
        check_range("blockSize", self.block_size, 1, 9)

    def encode(self, data: Buffer) -> Buffer:
        """Return a single stream, because Java refuses several."""
        return bz2.compress(bytes_of(data), self.block_size)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of the streams."""
        return read_streams(data, size, bz2.BZ2Decompressor, b"BZh")
