"""The bytes of an HDF5 chunk: filters in their order, each of which a chunk may pass over.

Source: the HDF5 file format specification (the filter pipeline message), h5py, and hdf5plugin for
the parameters of Blosc and Zstandard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.blosc import Blosc
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.codecs.raw import Raw
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.codecs.zstd import Zstd
from xarray_n5.errors import MetadataError
from xarray_n5.formats.hdf5.chunk_index import (
    BLOSC,
    DEFLATE,
    FLETCHER32,
    MASK,
    PLAIN,
    SHUFFLE,
    ZSTD,
)

if TYPE_CHECKING:
    from xarray_n5.model.codec import Buffer, Compression
    from xarray_n5.model.metadata import ArrayMetadata

_USUAL_LEVEL = 6
_BY_BYTE, _BY_BIT = 1, 2
_BLOSC_VALUES = 7
_BLOSC_NAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")

Filters = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """What an HDF5 file says of the way in which chunks are stored."""

    dtype: np.dtype[Any]
    """The type of a stored element, in its byte order."""
    filters: Filters = ()
    """The filters in the order in which they encode, by HDF5's numbers, with their parameters."""
    direct: bool = True
    """Whether all of them are undone here; else HDF5 gives elements, and takes them."""


def filters_for(compression: Compression, dtype: np.dtype[Any], nbytes: int) -> Filters:
    """Return the filters that a new array has.

    Raises
    ------
    MetadataError
        If HDF5 has none for a compression.
    """
    shuffle = ((SHUFFLE, (dtype.itemsize,)),) if dtype.itemsize > 1 else ()
    match compression:
        case Raw():
            return ()
        case Gzip(level=level):
            return (*shuffle, (DEFLATE, (level if level >= 0 else _USUAL_LEVEL,)))
        case Blosc():
            code = _BLOSC_NAMES.index(compression.cname)
            # -1 is Blosc's own choice, which HDF5's filter does not leave to it.
            usual = _BY_BIT if dtype.itemsize == 1 else _BY_BYTE
            by = compression.shuffle if compression.shuffle >= 0 else usual
            return ((BLOSC, (2, 2, dtype.itemsize, nbytes, compression.clevel, by, code)),)
        case Zstd(level=level):
            return (*shuffle, (ZSTD, (max(level, 1),)))
    raise MetadataError(
        f"HDF5 has no filter for {compression.name!r}; use 'gzip', which all read, 'blosc' or "
        "'zstd', for which others need hdf5plugin, or None"
    )


def compression_of(filters: Filters) -> Compression:
    """Return the compression that filters come nearest to."""
    for number, values in filters:
        if number == DEFLATE:
            return Gzip(level=values[0] if values else _USUAL_LEVEL)
        if number == ZSTD:
            return Zstd(level=values[0] if values else 3)
        if number == BLOSC and len(values) >= _BLOSC_VALUES and values[6] < len(_BLOSC_NAMES):
            shuffle = values[5] if values[5] in {0, 1, 2} else 0
            return Blosc(cname=_BLOSC_NAMES[values[6]], clevel=min(values[4], 9), shuffle=shuffle)
    return Raw()


def decode(metadata: ArrayMetadata, data: Buffer) -> np.ndarray:
    """Return a chunk's elements, in the byte order that they are stored in.

    Raises
    ------
    EOFError
        If the bytes are fewer than a chunk has.
    ValueError
        If they are others.
    """
    layout: Layout = metadata.layout
    count = math.prod(metadata.chunks)
    mask, payload = int.from_bytes(memoryview(data)[:MASK], "little"), memoryview(data)[MASK:]
    if metadata.dtype.kind == "O":
        from numcodecs import VLenUTF8

        return np.asarray(VLenUTF8().decode(payload), object).reshape(metadata.chunks)
    expected = count * layout.dtype.itemsize
    plain = payload if mask == PLAIN else _undone(layout.filters, mask, payload, expected)
    if len(plain) < expected:
        raise EOFError(
            f"the chunk holds {len(plain)} bytes, {expected} were expected: it is cut off, or the "
            "file is damaged"
        )
    if len(plain) > expected:
        raise ValueError(f"the chunk holds {len(plain)} bytes, {expected} were expected")
    return np.frombuffer(plain, layout.dtype).reshape(metadata.chunks)


def _undone(filters: Filters, mask: int, payload: memoryview, expected: int) -> memoryview:
    """Return what filters were applied to."""
    used = [each for place, each in enumerate(filters) if not mask >> place & 1]
    for place in reversed(range(len(used))):
        number, values = used[place]
        # A checksum before it makes what a compression gives longer.
        size = expected + 4 * sum(before == FLETCHER32 for before, _ in used[:place])
        if number == FLETCHER32:
            from numcodecs import Fletcher32

            payload = memoryview(Fletcher32().decode(bytes(payload)))
        elif number == SHUFFLE:
            payload = _unshuffled(payload, values[0] if values else 1)
        elif number == DEFLATE:
            payload = bytes_of(Gzip(use_zlib=True).decode(payload, size))
        elif number == ZSTD:
            payload = bytes_of(Zstd().decode(payload, size))
        else:
            payload = bytes_of(Blosc().decode(payload, size))
    return payload


def _unshuffled(payload: memoryview, width: int) -> memoryview:
    """Return elements whole, of which all first bytes came first, then all second ones."""
    count, rest = divmod(len(payload), max(width, 1))
    if width < 2 or not count:  # noqa: PLR2004 - one byte is in its place, and a part of an element
        return payload
    rows = np.frombuffer(payload, np.uint8, count * width).reshape(width, count)
    whole = np.empty(len(payload), np.uint8)
    elements = whole[: count * width].reshape(count, width)
    for place, row in enumerate(rows):
        elements[:, place] = row  # several times faster than numpy's transposed copy
    if rest:
        whole[-rest:] = np.frombuffer(payload[-rest:], np.uint8)
    return whole.data


def _shuffled(data: Buffer, width: int) -> memoryview:
    if width < 2:  # noqa: PLR2004 - as above
        return memoryview(data)
    elements = np.frombuffer(data, np.uint8).reshape(-1, width)
    rows = np.empty((width, len(elements)), np.uint8)
    for place in range(width):
        rows[place] = elements[:, place]
    return rows.reshape(-1).data


def encode(metadata: ArrayMetadata, block: np.ndarray) -> bytes:
    """Return the bytes of a chunk that stores `block`, of a chunk's full shape."""
    layout: Layout = metadata.layout
    elements = np.ascontiguousarray(block, layout.dtype)
    data: Buffer = elements.reshape(-1).view(np.uint8).data
    if not layout.direct:
        return PLAIN.to_bytes(MASK, "little") + bytes(data)
    for number, values in layout.filters:
        if number == FLETCHER32:
            from numcodecs import Fletcher32

            data = Fletcher32().encode(np.frombuffer(data, np.uint8))
        elif number == SHUFFLE:
            data = _shuffled(data, values[0] if values else 1)
        elif number == DEFLATE:
            data = Gzip(level=values[0], use_zlib=True).encode(data)
        elif number == ZSTD:
            data = Zstd(level=values[0] if values else 3).encode(data)
        else:
            data = _blosc(data, layout)
    return b"".join((bytes(MASK), data))


def _blosc(data: Buffer, layout: Layout) -> Buffer:
    """Return bytes as Blosc compresses elements: their size is what it shuffles by."""
    items = np.frombuffer(data, f"V{layout.dtype.itemsize}")
    return compression_of(layout.filters).encode(items.data)
