"""xz streams (N5 README, "xz")."""

from __future__ import annotations

import functools
import lzma
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.codecs.lzma import open_stream
from xarray_n5.codecs.parameters import check_range
from xarray_n5.codecs.streams import bytes_of, read_streams

if TYPE_CHECKING:
    from xarray_n5.model.codec import Buffer


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
