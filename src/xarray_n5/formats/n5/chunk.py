"""Encode and decode N5 chunks: a header, then compressed big-endian elements.

A header is ``mode, ndim`` (uint16), the chunk's dimensions (uint32 each) and, in mode 1, the
number of elements (uint32), all big-endian (N5 README, item 9). The dimensions are in reverse
order, so the elements after them are a C-contiguous array.
"""

from __future__ import annotations

import functools
import math
import struct
from operator import gt, lt
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.raw import Raw
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import Content, Varlength

if TYPE_CHECKING:
    from xarray_n5.model.metadata import ArrayMetadata, Buffer

_DEFAULT, _VARLENGTH, _OBJECT = 0, 1, 2
_OBJECTS = "it holds serialised Java objects, which are not read: they could run code from the file"
_MOST_BYTES = 1 << 31

_ALIGNED = 16
"""The largest element is aligned in multiples of this."""

_LARGER, _SMALL_BLOCK = 2, 1 << 20
"""The limit on compressed blocks that are larger than the dataset's: twice their size, or 1 MiB.
An uncompressed one needs no more memory than its file."""

_FEW_LISTS, _ELEMENT, _RATIO = 1 << 22, 1 << 10, 32
"""The limit on lists, strings and label multisets, whose size metadata do not state: the largest of
4 MiB for a block, 1 KiB for each element, and 32 times the stored bytes."""


def decode(metadata: ArrayMetadata, data: bytes) -> np.ndarray:
    """Return a chunk's elements as an array of the shape in its header.

    The result is a view of the decoded bytes, in the stored byte order, possibly read-only.

    Raises
    ------
    ValueError
        If the bytes are not a valid chunk; `Varlength` if they are a list.
    """
    if metadata.content is Content.NUMBERS:
        usual, size, dtype = _usual(metadata.chunks, metadata.dtype)
        start = len(usual)
        if data[:start] == usual:
            return np.ndarray(
                metadata.chunks, dtype, _decompress(metadata, memoryview(data)[start:], size)
            )
    shape, count, start = _header(metadata, data)
    payload = memoryview(data)[start:]
    _check_size(metadata, shape, count, payload.nbytes)
    decoders = {Content.NUMBERS: _numbers, Content.STRINGS: _strings}
    decoder = decoders.get(metadata.content, _label_multisets)
    return decoder(metadata, payload, shape, count)


@functools.lru_cache(maxsize=256)
def _usual(chunks: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[bytes, int, np.dtype[Any]]:
    """Return the header of a valid chunk, its bytes and the type of its elements."""
    header = struct.pack(f">HH{len(chunks)}I", _DEFAULT, len(chunks), *chunks[::-1])
    return header, math.prod(chunks) * dtype.itemsize, dtype.newbyteorder(">")


def peek(metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
    """Return the shape in a chunk's header, if its size is consistent.

    Raises
    ------
    EOFError
        If the file is too small for its header, or for the compression's header.
    ValueError
        If the header is invalid.
    """
    shape, count, start = _header(metadata, head)
    _check_size(metadata, shape, count, size - start)
    if metadata.content is not Content.NUMBERS:
        return shape
    stored_size = getattr(metadata.compression, "stored_size", None)
    elements = math.prod(shape) if count is None else count
    if stored_size is not None:
        least = start + stored_size(head[start:], elements * metadata.dtype.itemsize)
    else:
        least = start + 1
    if size < least:
        raise EOFError(f"expected a file of at least {least} bytes by its header, got {size}")
    return shape


def encode(metadata: ArrayMetadata, block: np.ndarray) -> Buffer:
    """Return the bytes of a chunk with the elements and the shape of `block`."""
    header, size, dtype = _usual(block.shape, metadata.dtype)
    if isinstance(metadata.compression, Raw):
        # Copied once, to where the elements are big-endian and aligned behind the header.
        start = -(-len(header) // _ALIGNED) * _ALIGNED
        room = np.empty(start + size, np.uint8)
        room[start - len(header) : start] = np.frombuffer(header, np.uint8)
        np.ndarray(block.shape, dtype, room, start)[...] = block
        return room[start - len(header) :].data
    elements = np.ascontiguousarray(block, dtype)
    return b"".join((header, metadata.compression.encode(elements.data if size else b"")))


def _header(metadata: ArrayMetadata, data: bytes) -> tuple[tuple[int, ...], int | None, int]:
    """Return the shape, the number of elements if present, and the payload's offset."""
    if not data:
        raise EOFError("the file is empty: its writer was stopped; delete it to read zeros")
    if metadata.content is Content.OBJECTS:
        raise ValueError(_OBJECTS)
    try:
        mode, ndim = struct.unpack_from(">HH", data)
        if mode == _OBJECT:
            raise ValueError(_OBJECTS)
        if mode not in {_DEFAULT, _VARLENGTH}:
            raise ValueError(f"the header has mode {mode}; expected 0, 1 or 2")
        if ndim != len(metadata.shape):
            raise ValueError(
                f"the header has {ndim} dimensions; the dataset has {len(metadata.shape)}"
            )
        shape, start = struct.unpack_from(f">{ndim}I", data, 4)[::-1], 4 + 4 * ndim
        if mode == _DEFAULT:
            return shape, None, start
        return shape, struct.unpack_from(">I", data, start)[0], start + 4
    except struct.error:
        raise EOFError(f"the header is truncated after {len(data)} bytes") from None


def _check_shape(
    metadata: ArrayMetadata, shape: tuple[int, ...], count: int | None, stored: int
) -> None:
    """Raise for a shape that no block has, at the array's ends or inside; lists have any shape."""
    elements, chunks = math.prod(shape), metadata.chunks
    numbers = metadata.content is Content.NUMBERS
    if numbers and count not in {None, elements}:
        return
    if 0 in shape or (any(map(lt, shape, chunks)) and any(map(gt, shape, chunks))):
        raise ValueError(f"the header has shape {shape}; expected 1 to {chunks} along each axis")
    nbytes = elements * metadata.dtype.itemsize
    if numbers and isinstance(metadata.compression, Raw) and shape != chunks and stored > nbytes:
        raise ValueError(f"the header has shape {shape}, {nbytes} bytes; {stored} are stored")


def _check_size(
    metadata: ArrayMetadata, shape: tuple[int, ...], count: int | None, stored: int
) -> None:
    """Raise for sizes that no chunk has, before memory is allocated for them."""
    _check_shape(metadata, shape, count, stored)
    elements, itemsize = math.prod(metadata.chunks), metadata.dtype.itemsize
    promised = elements * itemsize
    plain = isinstance(metadata.compression, Raw)
    most = _MOST_BYTES if plain else max(_LARGER * promised, _SMALL_BLOCK)
    size = math.prod(shape) * itemsize
    if size > max(promised, most):
        raise ValueError(
            f"the header has a block of shape {shape}, {size} bytes; the dataset's are {promised}"
        )
    if any(n > c for n, c in zip(shape, metadata.chunks, strict=False)):
        warn(
            f"a stored block of shape {shape} is larger than the dataset's blocks of "
            f"{metadata.chunks}; the elements beyond are ignored"
        )
    if count is None or (count == math.prod(shape) and metadata.content is Content.NUMBERS):
        return
    width = itemsize if metadata.content is Content.NUMBERS else 1
    most = max(_LARGER * promised, _FEW_LISTS, _ELEMENT * elements, _RATIO * stored)
    if count * width > (_MOST_BYTES if plain else most):
        raise ValueError(
            f"the header has {count} elements of {width} bytes; a block of {stored} stored bytes "
            f"has at most {most} bytes"
        )


def _decompress(metadata: ArrayMetadata, payload: memoryview, size: int) -> memoryview:
    decoded = memoryview(metadata.compression.decode(payload, size)).cast("B")
    if decoded.nbytes < size:
        raise EOFError(
            f"expected {size} bytes in the payload, got {decoded.nbytes}: the chunk is truncated, "
            "or its header or the dataset's dataType is wrong"
        )
    return decoded


def _numbers(
    metadata: ArrayMetadata, payload: memoryview, shape: tuple[int, ...], count: int | None
) -> np.ndarray:
    dtype = metadata.dtype.newbyteorder(">")
    listed = count is not None and count != math.prod(shape)
    size = count if listed and count is not None else math.prod(shape)
    decoded = _decompress(metadata, payload, size * dtype.itemsize)
    if listed:
        raise Varlength(np.ndarray((size,), dtype, decoded).astype(metadata.dtype), shape)
    return np.ndarray(shape, dtype, decoded)


def _strings(
    metadata: ArrayMetadata, payload: memoryview, shape: tuple[int, ...], count: int | None
) -> np.ndarray:
    # Java writes mode 0 if the number of bytes happens to be the number of elements.
    decoded = _decompress(metadata, payload, math.prod(shape) if count is None else count)
    size = math.prod(shape)
    # Each string ends with a NUL; Java drops empty ones from the end.
    *texts, rest = str(decoded, "utf-8").split("\0", size)
    if len(texts) < size:
        texts, rest = [*texts, rest], ""
    if rest.strip("\0"):
        raise ValueError(
            f"the block has more strings than its shape {shape}, which has {size} elements"
        )
    result = np.full(size, "", object)
    result[: len(texts)] = texts
    return result.reshape(shape)


def _label_multisets(
    metadata: ArrayMetadata, payload: memoryview, shape: tuple[int, ...], count: int | None
) -> np.ndarray:
    """Return the label with the most votes in each element, the lowest of equals, or its votes.

    Layout (imglib2-label-multisets, LabelUtils): int32 n, n int64 (cached argmaxes), then for each
    element an int32 offset into a list area of little-endian entries: int32 count, then count
    times (int64 label, int32 times). Everything before the list area is big-endian.
    """
    if metadata.content is Content.LABEL_MULTISETS:
        raise ValueError(
            "the dataset has Paintera label multisets, not an array of numbers; read the most "
            "frequent label of each element with label_multisets='argmax', or the number of its "
            "votes with 'count'"
        )
    decoded = bytes(_decompress(metadata, payload, math.prod(shape) if count is None else count))
    size = math.prod(shape)
    try:
        (cached,) = struct.unpack_from(">i", decoded)
        start = 4 + 8 * cached
        offsets = np.frombuffer(decoded, ">i4", size, start)
        entries = decoded[start + 4 * size :]
        winner_of = _winners(entries, np.unique(offsets).tolist())
    except (struct.error, ValueError) as error:
        raise ValueError(f"the label multiset is truncated or damaged ({error})") from error
    winners = [winner_of[offset] for offset in offsets.tolist()]
    if metadata.content is Content.VOTES:
        return np.array([votes for _, votes in winners], metadata.dtype).reshape(shape)
    return np.array([label for label, _ in winners], np.int64).view(np.uint64).reshape(shape)


def _winners(entries: bytes, offsets: list[int]) -> dict[int, tuple[int, int]]:
    """Return the label with the most votes in each list, the lowest of equals, and its votes.

    Without any, it is 0. Lists do not share bytes, which limits their sum.
    """
    winners, left = {}, len(entries)
    for offset in offsets:
        if not 0 <= offset <= len(entries) - 4:
            raise ValueError(f"a list at byte {offset} of {len(entries)}")
        (count,) = struct.unpack_from("<i", entries, offset)
        stop = offset + 4 + 12 * max(count, 0)
        left -= stop - offset
        if stop > len(entries) or left < 0:
            raise ValueError(f"a list of {count} entries at byte {offset} of {len(entries)}")
        counted = struct.iter_unpack("<qi", entries[offset + 4 : stop])
        least, label = min(((-votes, label) for label, votes in counted), default=(0, 0))
        winners[offset] = label, -least
    return winners
