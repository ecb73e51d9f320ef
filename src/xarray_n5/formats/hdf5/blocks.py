"""Decode chunks of HDF5's filters for LZ4 and bitshuffle, which are made of blocks.

Sources: the filters' descriptions registered with HDF5 (32004 and 32008), and the files that
hdf5plugin writes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import lz4.block
import numpy as np

from xarray_n5.codecs.streams import bytes_of
from xarray_n5.codecs.zstd import Zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xarray_n5.model.codec import Buffer

_HEADER = struct.Struct(">QI")
"""The size of the decoded chunk, and of a decoded block."""

_SIZE = struct.Struct(">I")
"""The size of the stored block that follows."""

_LZ4, _ZSTD = 2, 3
"""Bitshuffle's numbers of compressions."""

_BITS = 8
"""Bitshuffle transposes groups of eight elements."""

_BLOCK, _FEWEST = 8192, 128
"""The default block: this many bytes, but at least this many elements."""

_BATCH = 1 << 18
"""The number of bytes that are transposed at a time: they stay in the cache."""

_SWAPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
"""Shifts and masks that transpose the 8 x 8 bits of a number."""


def decode_lz4(data: Buffer, size: int) -> bytes:
    """Return the content of LZ4 blocks; a block that LZ4 would not shrink is a copy."""
    view = bytes_of(data)
    nbytes, block = _header(view, size)

    def decode(stored: memoryview, count: int) -> Buffer:
        return stored if len(stored) == count else _decode_lz4(stored, count)

    counts = [min(block, nbytes - start) for start in range(0, nbytes, block)]
    return b"".join(_blocks(view, counts, decode))


def decode_bitshuffle(values: Sequence[int], data: Buffer, size: int) -> Buffer:
    """Return elements whose bits were transposed block by block.

    Parameters
    ----------
    values
        The filter's parameters: two numbers of its version, the size of an element, the number of
        elements in a block, and the compression.
    data
        The stored chunk.
    size
        The expected size of the elements.

    Raises
    ------
    EOFError, ValueError
        If the chunk is damaged.
    """
    _, _, item, length, compression, *_ = (*values, *(0,) * 5)
    view = bytes_of(data)
    nbytes = len(view)
    if item < 1:
        raise ValueError("expected the size of an element among the parameters of bitshuffle")
    length = length or max(_BLOCK // item // _BITS * _BITS, _FEWEST)
    if compression in {_LZ4, _ZSTD}:
        nbytes, block = _header(view, size)
        length = block // item
    if nbytes > size or nbytes % item or not length or length % _BITS:
        raise ValueError(
            f"expected {size} bytes, got {nbytes} in blocks of {length} elements of {item} bytes"
        )
    count = nbytes // item
    whole, rest = divmod(count, length)
    lengths = [length] * whole + [rest // _BITS * _BITS] * (rest >= _BITS)
    if compression in {_LZ4, _ZSTD}:
        decode = _decode_lz4 if compression == _LZ4 else Zstd().decode
        pieces = [*_blocks(view, [each * item for each in lengths], decode, count % _BITS * item)]
        view = memoryview(b"".join(pieces))
    source, result = np.frombuffer(view, np.uint8), np.empty(nbytes, np.uint8)
    step, end = max(1, _BATCH // (length * item)) * length * item, whole * length * item
    for start in range(0, end, step):
        part = slice(start, min(start + step, end))
        result[part] = _transposed(source[part], item, length)
    if rest >= _BITS:
        part = slice(end, end + lengths[-1] * item)
        result[part] = _transposed(source[part], item, lengths[-1])
    left = sum(lengths) * item
    result[left:] = source[left:nbytes]
    return result.data


def _header(view: memoryview, size: int) -> tuple[int, int]:
    """Return the decoded size of a chunk and of its blocks."""
    if len(view) < _HEADER.size:
        raise EOFError(f"expected a header of {_HEADER.size} bytes, got {len(view)}")
    nbytes, block = _HEADER.unpack_from(view)
    if nbytes > size or not block:
        raise ValueError(f"expected {size} bytes, the chunk's header states {nbytes} in {block}")
    if -(-nbytes // block) * _SIZE.size > len(view):
        raise EOFError(f"expected blocks of {block} bytes for {nbytes} bytes, got {len(view)}")
    return nbytes, block


def _blocks(
    view: memoryview,
    counts: Sequence[int],
    decode: Callable[[memoryview, int], Buffer],
    copied: int = 0,
) -> Iterator[Buffer]:
    """Iterate over the decoded blocks, of `counts` bytes, and the bytes that are copied."""
    start = _HEADER.size
    for count in counts:
        if start + _SIZE.size > len(view):
            raise EOFError("the chunk ends before its blocks do")
        (stored,) = _SIZE.unpack_from(view, start)
        start += _SIZE.size
        if start + stored > len(view):
            raise EOFError(f"expected {stored} bytes in a block, got {len(view) - start}")
        block = decode(view[start : start + stored], count)
        if len(block) != count:
            raise ValueError(f"expected a block of {count} bytes, got {len(block)}")
        yield block
        start += stored
    if start + copied > len(view):
        raise EOFError(f"expected {copied} bytes after the blocks, got {len(view) - start}")
    yield view[start : start + copied]


def _decode_lz4(stored: memoryview, count: int) -> bytes:
    return bytes(lz4.block.decompress(stored, uncompressed_size=count))


def _transposed(source: np.ndarray, item: int, length: int) -> np.ndarray:
    """Return the elements of whole blocks.

    A block has a row for each bit of an element, with that bit of eight elements in each byte.
    """
    rows = source.reshape(-1, item, _BITS, length // _BITS)
    groups = np.ascontiguousarray(rows.transpose(0, 3, 1, 2)).view("<u8")[..., 0]
    for shift, mask in _SWAPS:
        swapped = (groups >> np.uint64(shift) ^ groups) & np.uint64(mask)
        groups = groups ^ swapped ^ swapped << np.uint64(shift)
    bytes_of_elements = groups.view(np.uint8).reshape(*groups.shape, _BITS)
    return np.ascontiguousarray(bytes_of_elements.swapaxes(-1, -2)).reshape(-1)
