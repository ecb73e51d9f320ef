"""LZMA with the parameters of Python's lzma module, as zarr-python's N5Store wrote it."""

from __future__ import annotations

import functools
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.codecs.streams import bytes_of, read_streams
from xarray_n5.errors import MetadataError
from xarray_n5.model.json import check_range

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Buffer

_DICTIONARY = 1 << 27
"""The largest dictionary that any stream may use; that of preset 9 has 1 << 26 bytes."""


def open_stream(size: int) -> lzma.LZMADecompressor:
    """Return a decompressor of xz or LZMA streams for a content of `size` bytes.

    Its memory is bounded: a header of a few bytes can request a dictionary of 4 GiB.
    """
    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, _DICTIONARY + 2 * size)


@dataclass(frozen=True, slots=True)
class Lzma:
    """LZMA with a container format and filters, as numcodecs' LZMA stores it."""

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
        if self.filters is None and self.format != lzma.FORMAT_RAW:
            return
        steps: list[Any] = self.filters if isinstance(self.filters, list) else []
        if not steps or not all(isinstance(step, Mapping) and "id" in step for step in steps):
            raise MetadataError(
                f"'filters' is {self.filters!r}; expected a list of objects with an 'id'"
            )

    def encode(self, data: Buffer) -> Buffer:
        """Return one stream."""
        return lzma.compress(bytes_of(data), self.format, self.check, self.preset, self.filters)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of the streams; of a raw stream without container, there is one."""
        if self.format != lzma.FORMAT_RAW:
            return read_streams(data, size, functools.partial(open_stream, size), b"\xfd7zXZ\0")
        filters = self.filters or []
        largest = max(step.get("dict_size", 0) for step in filters)
        if largest > _DICTIONARY + 2 * size:
            raise ValueError(
                f"the LZMA dictionary has {largest} bytes for {size} bytes of data; it is corrupt"
            )
        new = functools.partial(lzma.LZMADecompressor, lzma.FORMAT_RAW, filters=filters)
        return read_streams(data, size, new, b"\0")


@dataclass(frozen=True, slots=True)
class Xz:
    """xz with a preset from 0 (fast) to 9 (small)."""

    name: ClassVar[str] = "xz"
    preset: int = 6

    def __post_init__(self) -> None:
        check_range("preset", self.preset, 0, 9)

    def encode(self, data: Buffer) -> Buffer:
        """Return a single stream, because Java refuses several."""
        return lzma.compress(bytes_of(data), preset=self.preset)

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of xz or LZMA streams."""
        return read_streams(data, size, functools.partial(open_stream, size), b"\xfd7zXZ\0")
