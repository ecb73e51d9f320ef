"""What zarr-python's N5Store wrote under a numcodecs id of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.compression.streams import bytes_of

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer

ALLOWED = frozenset(
    {
        "adler32",
        "blosc",
        "bz2",
        "crc32",
        "fletcher32",
        "gzip",
        "lz4",
        "lzma",
        "shuffle",
        "zlib",
        "zstd",
    }
)
"""Ids of codecs that turn bytes into bytes. Others could run code from the file (pickle), or
would need to know more than bytes."""


@dataclass(frozen=True, slots=True)
class Numcodecs:
    """A codec of numcodecs, with the members that it was written with."""

    name: ClassVar[str] = "numcodecs"
    members: tuple[tuple[str, Any], ...]

    def _codec(self) -> Any:
        import numcodecs

        return numcodecs.get_codec({k: v for k, v in self.members if k != "type"})

    def encode(self, data: Buffer) -> Buffer:
        """Return `data` encoded."""
        return bytes_of(self._codec().encode(data))

    def decode(self, data: Buffer, size: int) -> Buffer:  # noqa: ARG002
        """Return `data` decoded."""
        return bytes_of(self._codec().decode(data))
