"""Zstandard frames (n5-zstandard)."""

from __future__ import annotations

import contextlib
import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from xarray_n5.codecs.streams import bytes_of, read_streams
from xarray_n5.model.json import check_range

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Buffer

_MAGIC = (b"\x28\xb5\x2f\xfd", *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60)))
"""The magic numbers of frames, and of skippable ones (RFC 8878, 3.1)."""

_LONGEST_HEADER = 18
_SMALLEST_WINDOW, _LARGEST_WINDOW = 27, 31
"""The logarithms of the limits on a decoder's window, which a frame of a few bytes can request."""


@dataclass(frozen=True, slots=True)
class Zstd:
    """Zstandard at a level up to 22; negative levels are faster, 0 is the default.

    >>> bytes(Zstd().decode(Zstd(level=19).encode(b"1234"), 4))
    b'1234'
    """

    name: ClassVar[str] = "zstd"
    level: int = 3

    def __post_init__(self) -> None:
        check_range("level", self.level, -(1 << 17), 22)

    def encode(self, data: Buffer) -> Buffer:
        """Return one frame that holds its content's size, and the content's checksum."""
        parameter = zstd.CompressionParameter
        options: dict[int, int] = {parameter.compression_level: self.level}
        options[parameter.checksum_flag] = 1  # compared by all decoders (RFC 8878, 3.1.1)
        frame: bytes = zstd.compress(bytes_of(data), options=options)
        return frame

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of the frames.

        numcodecs decodes one frame that states the expected size, into memory of that size; the
        decompressor of streams anything else.
        """
        view = bytes_of(data)
        with contextlib.suppress(zstd.ZstdError, RuntimeError):  # an error below says which
            if size and zstd.get_frame_info(view[:_LONGEST_HEADER]).decompressed_size == size:
                import numcodecs

                decoded = np.empty(size, np.uint8)
                numcodecs.zstd.decompress(view, decoded)
                return decoded.data
        window = min(max(_SMALLEST_WINDOW, size.bit_length()), _LARGEST_WINDOW)
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: window}
        new = functools.partial(zstd.ZstdDecompressor, options=options)
        return read_streams(view, size, new, _MAGIC)
