"""What zarr-python's N5Store wrote under a numcodecs id of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.compression.streams import bytes_of
from xarray_n5.compression.values import check_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.compression import Buffer

ALLOWED = (
    "adler32",
    "blosc",
    "bz2",
    "crc32",
    "crc32c",
    "fletcher32",
    "gzip",
    "jenkins_lookup3",
    "lz4",
    "lzma",
    "shuffle",
    "zlib",
    "zstd",
)
"""Ids of codecs that turn bytes into bytes. Others could run code from the file (pickle), or
would need to know more than bytes."""


@dataclass(frozen=True, slots=True)
class Numcodecs:
    """A codec of numcodecs, with the members that it was written with.

    >>> Numcodecs({"type": "bz2", "id": "bz2", "level": 1}).encode(b"1234")[:3].tobytes()
    b'BZh'
    """

    name: ClassVar[str] = "numcodecs"
    members: Mapping[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        check_choice("id", self.members.get("id"), ALLOWED)

    def encode(self, data: Buffer) -> Buffer:
        """Return `data` encoded."""
        return bytes_of(self._codec().encode(data))

    def decode(self, data: Buffer, size: int) -> Buffer:  # noqa: ARG002
        """Return `data` decoded."""
        return bytes_of(self._codec().decode(data))

    def _codec(self) -> Any:
        import numcodecs

        return numcodecs.get_codec({k: v for k, v in self.members.items() if k != "type"})
