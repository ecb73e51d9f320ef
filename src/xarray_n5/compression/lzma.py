"""LZMA with the parameters of Python's lzma module, as zarr-python's N5Store wrote it."""

from __future__ import annotations

import functools
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.compression.streams import bytes_of, read_streams
from xarray_n5.compression.values import check_range
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer


@dataclass(frozen=True, slots=True)
class Lzma:
    """LZMA in the container and with the filters that numcodecs' LZMA names."""

    name: ClassVar[str] = "lzma"
    format: int = lzma.FORMAT_XZ
    check: int = -1
    preset: int | None = None
    filters: list[dict[str, Any]] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        check_range("format", self.format, lzma.FORMAT_XZ, lzma.FORMAT_RAW)
        check_range("check", self.check, -1, lzma.CHECK_ID_MAX)
        if self.preset is not None:
            check_range("preset", self.preset, 0, 9 | lzma.PRESET_EXTREME)
        if not _is_chain(self.filters, needed=self.format == lzma.FORMAT_RAW):
            raise MetadataError(
                f"'filters' is {self.filters!r}; a list of objects with an 'id' is needed"
            )

    def encode(self, data: Buffer) -> Buffer:
        """Return one stream."""
        return lzma.compress(bytes_of(data), self.format, self.check, self.preset, self.filters)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the streams hold, or the one that has no container."""
        if self.format != lzma.FORMAT_RAW:
            return read_streams(data, size, lzma.LZMADecompressor, b"\xfd7zXZ\0")
        new = functools.partial(lzma.LZMADecompressor, lzma.FORMAT_RAW, filters=self.filters)
        return read_streams(data, size, new, b"\0")


def _is_chain(filters: object, *, needed: bool) -> bool:
    match filters:
        case None:
            return not needed
        case [*links]:
            return all(isinstance(link, Mapping) and "id" in link for link in links)
    return False
