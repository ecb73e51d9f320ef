"""Blosc frames, with c-blosc 1 as N5's and Zarr's writers use it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from xarray_n5.compression.values import check_range

if TYPE_CHECKING:
    from xarray_n5.compression import Buffer

_NAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_HEADER = 16


@dataclass(frozen=True, slots=True)
class Blosc:
    """Blocks that are shuffled by byte (1) or bit (2) or not (0), then compressed."""

    name: ClassVar[str] = "blosc"
    cname: str = "lz4"
    clevel: int = 5
    shuffle: int = 1
    blocksize: int = 0

    def __post_init__(self) -> None:
        if self.cname not in _NAMES:
            raise ValueError(f"'cname' is {self.cname!r}; one of {', '.join(_NAMES)} is needed")
        check_range("clevel", self.clevel, 0, 9)
        check_range("shuffle", self.shuffle, -1, 2)
        check_range("blocksize", self.blocksize, 0, 1 << 31)
        if self.shuffle == -1:
            # numcodecs' "automatic" is no value that other readers of N5 know.
            object.__setattr__(self, "shuffle", 1)

    def encode(self, data: Buffer) -> Buffer:
        """Return one frame; elements are as wide as those of `data`."""
        import numcodecs.blosc

        return bytes(
            numcodecs.blosc.Blosc(self.cname, self.clevel, self.shuffle, self.blocksize).encode(
                data if memoryview(data).nbytes else b""
            )
        )

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what the frame holds: it tells itself how it was made."""
        import numcodecs.blosc

        view = memoryview(data)
        if view.nbytes < _HEADER:
            raise ValueError(
                f"a blosc frame has a header of {_HEADER} bytes, here are {view.nbytes}"
            )
        plain, _, packed = struct.unpack_from("<III", view, 4)
        if plain != size:
            raise ValueError(f"the blosc frame holds {plain} bytes, {size} were expected")
        if packed > view.nbytes or (plain and packed <= _HEADER):
            raise ValueError(f"the blosc frame has {packed} bytes, here are {view.nbytes}")
        result = np.empty(size, np.uint8)
        if size:
            numcodecs.blosc.decompress(view[:packed], result)
        return result.data
