"""HDF5 as n5-hdf5 uses it: datasets are arrays in NumPy's axis order, groups are groups.

Chunks are decoded and encoded without HDF5. A stored chunk is its filter mask, four bytes, and the
bytes in the file. Bit i of the mask is set if filter i was skipped.

Source: n5-hdf5 1.4.2 and 2.2.1, the HDF5 file format specification (the filter pipeline message),
h5py, and hdf5plugin for the parameters of Blosc and Zstandard.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.codecs.blosc import Blosc
from xarray_n5.codecs.bzip2 import Bzip2
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.codecs.hdf5 import BLOSC
from xarray_n5.codecs.numcodecs import Checksum, Shuffle
from xarray_n5.codecs.raw import Raw
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.codecs.zstd import Zstd
from xarray_n5.errors import MetadataError
from xarray_n5.formats.hdf5.attributes import split_attributes
from xarray_n5.formats.protocol import Format
from xarray_n5.model.json import check_json
from xarray_n5.model.metadata import ArrayMetadata

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Attributes, Buffer, Compression, Metadata

SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ilp")
"""Suffixes of HDF5 files."""

MAX_CHUNK_BYTES = (1 << 32) - 1

_NUMBERS = frozenset({"?", *"bhilqBHILQefdFD"})
"""NumPy's codes of the number types that can be written; platforms have several for one type."""

MASK_BYTES = 4
"""The size of a filter mask."""

NO_FILTERS = 0xFFFFFFFF
"""The mask of a chunk that skipped all filters, however many there are."""

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
BZIP2, ZSTD = 307, 32015
"""HDF5's numbers of the filters."""

ENCODABLE = frozenset({DEFLATE, SHUFFLE, FLETCHER32, BLOSC, ZSTD})
"""The filters that are encoded here."""

DECODABLE = ENCODABLE | {BZIP2}
"""The filters that are decoded here."""

_NAMES = {SHUFFLE: "shuffle", FLETCHER32: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"}
_NAMES |= {BZIP2: "bzip2", 32000: "lzf", 32004: "lz4", 32008: "bitshuffle"}

_DEFAULT_LEVEL = 6
_SHUFFLE_BYTES, _SHUFFLE_BITS = 1, 2
_BLOSC_VALUES = 7
_BLOSC_NAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")

Filters = tuple[tuple[int, tuple[int, ...]], ...]
"""HDF5's filter numbers with their parameters, in the order of encoding."""


@dataclass(frozen=True, slots=True)
class FilterLayout:
    """The storage of a dataset's chunks."""

    dtype: np.dtype[Any]
    """The type of a stored element, in its byte order."""
    filters: Filters = ()
    direct: bool = True
    """Whether chunks are filtered here; otherwise HDF5 filters them, and returns elements."""
    filled: ClassVar[bool] = True
    masks: ClassVar[bool] = True

    @property
    def other_filters(self) -> str:
        """The names of filters of which none is a compression of this package, such as lzf."""
        if not isinstance(compression_of(self.filters), Raw):
            return ""
        return "+".join(_NAMES.get(number, f"filter-{number}") for number, _ in self.filters)


def filters_of(dataset: Any) -> Filters:
    """Return the filters of an h5py dataset."""
    properties = dataset.id.get_create_plist()
    filters = (properties.get_filter(position) for position in range(properties.get_nfilters()))
    return tuple((number, tuple(values)) for number, _, values, _ in filters)


def filters_for(compression: Compression, dtype: np.dtype[Any], nbytes: int) -> Filters:
    """Return the filters of a new array whose chunks have `nbytes` bytes.

    Raises
    ------
    MetadataError
        If HDF5 has no filter for the compression.
    """
    shuffle = ((SHUFFLE, (dtype.itemsize,)),) if dtype.itemsize > 1 else ()
    match compression:
        case Raw():
            return ()
        case Gzip(level=level):
            return (*shuffle, (DEFLATE, (level if level >= 0 else _DEFAULT_LEVEL,)))
        case Blosc():
            code = _BLOSC_NAMES.index(compression.cname)
            # -1 leaves the choice to Blosc, which HDF5's filter does not support.
            default = _SHUFFLE_BITS if dtype.itemsize == 1 else _SHUFFLE_BYTES
            by = compression.shuffle if compression.shuffle >= 0 else default
            return ((BLOSC, (2, 2, dtype.itemsize, nbytes, compression.clevel, by, code)),)
        case Zstd(level=level):
            return (*shuffle, (ZSTD, (max(level, 1),)))
    raise MetadataError(
        f"HDF5 has no filter for {compression.name!r}; use 'gzip' (supported by all readers), "
        "'blosc' or 'zstd' (other readers need hdf5plugin), or None"
    )


def compression_of(filters: Filters) -> Compression:
    """Return the compression among the filters."""
    for number, values in filters:
        if number == DEFLATE:
            return Gzip(level=values[0] if values else _DEFAULT_LEVEL)
        if number == ZSTD:
            return Zstd(level=values[0] if values else 3)
        if number == BLOSC and len(values) >= _BLOSC_VALUES and values[6] < len(_BLOSC_NAMES):
            shuffle = values[5] if values[5] in {0, 1, 2} else 0
            return Blosc(cname=_BLOSC_NAMES[values[6]], clevel=min(values[4], 9), shuffle=shuffle)
    return Raw()


def with_mask(mask: int, data: Buffer) -> bytes:
    """Return a stored chunk: its filter mask and the bytes in the file."""
    return b"".join((mask.to_bytes(MASK_BYTES, "little"), data))


def split_mask(chunk: Buffer) -> tuple[int, memoryview]:
    """Return a stored chunk's filter mask, and the bytes in the file."""
    view = memoryview(chunk)
    return int.from_bytes(view[:MASK_BYTES], "little"), view[MASK_BYTES:]


def decode(metadata: ArrayMetadata, data: Buffer) -> np.ndarray:
    """Return a stored chunk's elements, in the file's byte order.

    Raises
    ------
    EOFError
        If the chunk is too short.
    ValueError
        If the chunk is too long, or a filter cannot decode it.
    """
    layout: FilterLayout = metadata.layout
    mask, payload = split_mask(data)
    if metadata.dtype.kind == "O":
        from numcodecs import VLenUTF8

        return np.asarray(VLenUTF8().decode(payload), object).reshape(metadata.chunks)
    expected = math.prod(metadata.chunks) * layout.dtype.itemsize
    plain = payload if mask == NO_FILTERS else _unfiltered(layout.filters, mask, payload, expected)
    if len(plain) < expected:
        raise EOFError(
            f"expected {expected} bytes in the chunk, got {len(plain)}: it is truncated, or the "
            "file is damaged"
        )
    if len(plain) > expected:
        raise ValueError(f"expected {expected} bytes in the chunk, got {len(plain)}")
    return np.frombuffer(plain, layout.dtype).reshape(metadata.chunks)


def _unfiltered(filters: Filters, mask: int, payload: memoryview, expected: int) -> memoryview:
    used = [step for position, step in enumerate(filters) if not mask >> position & 1]
    for position in reversed(range(len(used))):
        # Each checksum before a compression adds four bytes to its input.
        size = expected + 4 * sum(number == FLETCHER32 for number, _ in used[:position])
        payload = bytes_of(_codec(*used[position]).decode(payload, size))
    return payload


def encode(metadata: ArrayMetadata, block: np.ndarray) -> bytes:
    """Return the stored chunk of a `block` of a chunk's full shape."""
    layout: FilterLayout = metadata.layout
    elements = np.ascontiguousarray(block, layout.dtype)
    data: Buffer = elements.reshape(-1).view(np.uint8).data
    if not layout.direct:
        return with_mask(NO_FILTERS, data)
    for number, values in layout.filters:
        if number == BLOSC:  # which shuffles by the size of an element
            data = np.frombuffer(data, f"V{layout.dtype.itemsize}").data
        data = _codec(number, values).encode(data)
    return with_mask(0, data)


@functools.lru_cache(maxsize=64)
def _codec(number: int, values: tuple[int, ...]) -> Compression:
    if number == FLETCHER32:
        return Checksum("fletcher32")
    if number == BZIP2:
        return Bzip2()
    if number == SHUFFLE:
        return Shuffle(values[0] if values else 1)
    codec = compression_of(((number, values),))
    if isinstance(codec, Gzip):
        return replace(codec, use_zlib=True)
    return Blosc() if isinstance(codec, Raw) else codec


def peek(metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
    """Return a chunk's shape; raise ``EOFError`` if the size is too small for a chunk."""
    layout: FilterLayout = metadata.layout
    mask, payload = split_mask(head)
    expected, least = math.prod(metadata.chunks) * layout.dtype.itemsize, 0
    if metadata.dtype.kind != "O" and (mask == NO_FILTERS or not layout.filters):
        least = expected
    elif [number for number, _ in layout.filters] == [BLOSC] and not mask:
        least = Blosc().stored_size(bytes(payload), expected)
    if size < MASK_BYTES + least:
        raise EOFError(f"expected at least {least} bytes in the chunk, got {size - MASK_BYTES}")
    return metadata.chunks


@dataclass(frozen=True, slots=True)
class Hdf5(Format):
    """The rules of HDF5, and the encoding of its chunks."""

    name: ClassVar[str] = "hdf5"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    one_writer: ClassVar[bool] = True

    decode = staticmethod(decode)
    encode = staticmethod(encode)
    peek = staticmethod(peek)

    def complete(self, metadata: ArrayMetadata, layout: Attributes | None = None) -> ArrayMetadata:
        """Return a new array's metadata with its layout: little-endian, in whole chunks."""
        if layout:
            raise MetadataError(
                f"layout={dict(layout)} is for Zarr; in HDF5, `compression` alone selects filters"
            )
        dtype, shaped = metadata.dtype.newbyteorder("<"), bool(metadata.shape)
        nbytes = math.prod(metadata.chunks) * dtype.itemsize
        chosen = filters_for(metadata.compression, dtype, nbytes) if shaped else ()
        return replace(metadata, layout=FilterLayout(dtype, chosen, direct=shaped))

    def check(self, metadata: Metadata, where: str) -> None:
        """Raise if HDF5 cannot store a new node; `where` names it."""
        array = metadata if isinstance(metadata, ArrayMetadata) else None
        check_json(metadata.attributes, where)
        split_attributes(metadata.attributes, where, len(array.shape) if array else None)
        if array is None:
            return
        dtype = array.layout.dtype
        if dtype.char not in _NUMBERS and dtype.kind != "S":
            raise MetadataError(
                f"{where}: HDF5 cannot store elements of type {dtype}; convert them to numbers, "
                "or to bytes of a fixed length ('S')"
            )
        size = math.prod(array.chunks) * dtype.itemsize
        if size > MAX_CHUNK_BYTES:
            raise MetadataError(
                f"{where}: chunks of {array.chunks} have {size} bytes, but HDF5 chunks hold at "
                f"most {MAX_CHUNK_BYTES}; choose smaller chunks"
            )
