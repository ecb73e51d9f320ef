"""What nobody can do without: the bytes of files, the codec's own library, and one copy."""

from __future__ import annotations

import bz2
import os
import struct
from itertools import product
from typing import TYPE_CHECKING, Any

import deflate
import numcodecs.blosc
import numcodecs.zstd
import numpy as np

import xarray_n5
from ci.benchmarks.data import COMPRESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LIMIT = "limit"

HEADER = 16
"""The bytes of the header of a chunk with three dimensions."""

DECODERS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "raw": lambda data, _: data,
    "gzip": lambda data, room: deflate.gzip_decompress(data, room.nbytes),
    "blosc": numcodecs.blosc.decompress,
    "zstd": numcodecs.zstd.decompress,
    "bzip2": lambda data, _: bz2.decompress(data),
}
"""By a compression's name, what returns the elements, in a buffer that is used again if it can."""

ENCODERS: dict[str, Callable[[np.ndarray, dict[str, Any]], Any]] = {
    "raw": lambda block, _: block,
    "gzip": lambda block, members: deflate.gzip_compress(block, members["level"]),
    "blosc": lambda block, members: numcodecs.blosc.compress(
        block, members["cname"].encode(), members["clevel"], members["shuffle"]
    ),
}


class Limit:
    """A loop over chunks, of which nothing can be left out, in one thread."""

    @staticmethod
    def read(place: Path) -> np.ndarray:
        """Return all values."""
        array = xarray_n5.open_array(place, "a")
        decode, chunks, dtype = DECODERS[array.compression.name], array.chunks, array.dtype
        result = np.empty(array.shape, dtype)
        room = np.empty(np.prod(chunks) * dtype.itemsize, np.uint8)
        numcodecs.blosc.use_threads = False
        for where, name in cubes(array.shape, chunks):
            with (place / "a" / name).open("rb", buffering=0) as file:
                found = decode(memoryview(file.read())[HEADER:], room)
            result[where] = np.ndarray(chunks, dtype.newbyteorder(">"), found)
        numcodecs.blosc.use_threads = None
        return result

    @staticmethod
    def write(values: np.ndarray, place: Path, side: int, compression: str) -> None:
        """Store all values."""
        members = COMPRESSIONS[compression]
        xarray_n5.create_array(
            place, "a", shape=values.shape, chunks=side, dtype=values.dtype, compression=members
        )
        encode = ENCODERS[members["type"]]
        header = struct.pack(">HHIII", 0, 3, side, side, side)
        block = np.empty((side,) * 3, values.dtype.newbyteorder(">"))
        numcodecs.blosc.use_threads = False
        for where, name in cubes(values.shape, block.shape):
            block[...] = values[where]
            path = place / "a" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb", buffering=0) as file:
                os.writev(file.fileno(), [header, encode(block, members)])
        numcodecs.blosc.use_threads = None


def cubes(
    shape: tuple[int, ...], chunks: tuple[int, ...]
) -> Iterator[tuple[tuple[slice, ...], str]]:
    """Iterate over chunks: where they are, and the names of their files."""
    for index in product(*(range(size // side) for size, side in zip(shape, chunks, strict=True))):
        where = tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, chunks, strict=True))
        yield where, "/".join(map(str, index[::-1]))
