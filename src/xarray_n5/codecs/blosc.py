"""Blosc frames of c-blosc 1, as N5 and Zarr store them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from xarray_n5.codecs.streams import bytes_of
from xarray_n5.model.json import check_choice, check_range

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Buffer

_NAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_HEADER = struct.Struct("<BBBBIII")
"""Two versions, flags, item size, then decoded, block and frame size (c-blosc, README_HEADER)."""
_COPIED, _SNAPPY = 0x2, 2
"""The flag for content that is not compressed, and Snappy in the upper bits of the flags."""


@dataclass(frozen=True, slots=True)
class Blosc:
    """Blosc with a compressor and a shuffle: none (0), by byte (1) or by bit (2).

    >>> bytes(Blosc().decode(Blosc(cname="zstd").encode(b"1234"), 4))
    b'1234'
    """

    name: ClassVar[str] = "blosc"
    cname: str = "lz4"
    clevel: int = 5
    # -1 lets Java and numcodecs choose by item size; TensorStore refuses it.
    shuffle: int = field(default=1, metadata={"written": {-1: 1}})
    blocksize: int = 0

    def __post_init__(self) -> None:
        check_choice("cname", self.cname, _NAMES)
        check_range("clevel", self.clevel, 0, 9)
        check_range("shuffle", self.shuffle, -1, 2)
        check_range("blocksize", self.blocksize, 0, (1 << 31) - 1)

    def encode(self, data: Buffer) -> Buffer:
        """Return one frame; the item size is that of `data`."""
        import numcodecs

        if self.cname == "snappy":
            raise NotImplementedError("numcodecs has no blosc with snappy; choose another cname")
        frame: bytes = numcodecs.blosc.compress(
            data, self.cname.encode(), self.clevel, self.shuffle, self.blocksize
        )
        return frame

    def stored_size(self, head: bytes, size: int) -> int:
        """Return the size of a frame from its first bytes."""
        if len(head) < _HEADER.size:
            return _HEADER.size if size else 0
        return int(_HEADER.unpack_from(head)[-1])

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the content of the frame.

        numcodecs uses Blosc's threads in the main thread only, so Dask's threads do not compete.
        """
        decoded = np.empty(_decoded_size(bytes_of(data), size), np.uint8)
        if decoded.size:
            import numcodecs

            numcodecs.blosc.decompress(data, decoded)
        return decoded.data


def _decoded_size(view: memoryview, size: int) -> int:
    """Return the decoded size from the header.

    Raises
    ------
    EOFError, ValueError, NotImplementedError
        If the frame cannot be decoded.
    """
    if len(view) < _HEADER.size:
        raise EOFError(f"expected a blosc header of {_HEADER.size} bytes, got {len(view)}")
    _, _, flags, _, plain, _, packed = _HEADER.unpack_from(view)
    if plain > size:
        raise ValueError(f"expected {size} bytes in the blosc frame, got {plain}")
    if plain and packed <= _HEADER.size:
        raise ValueError("the blosc frame is only a header, as n5-blosc writes with shuffle -1")
    if packed > len(view):
        raise EOFError(f"expected a blosc frame of {packed} bytes, got {len(view)}")
    if flags >> 5 == _SNAPPY and not flags & _COPIED:
        raise NotImplementedError("the blosc frame uses snappy, which numcodecs does not have")
    return int(plain)
