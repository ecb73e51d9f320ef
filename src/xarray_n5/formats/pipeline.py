"""Chains of codecs between the elements of a chunk and its bytes, and shards of several chunks.

Each step has a limit on the size of its output. Without filters, the metadata determine the size of
the compressor's input; filters may make it larger: up to the largest element for each element.

Source of ``sharding_indexed``: the specification of the sharding codec, version 1.0.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from xarray_n5.codecs.numcodecs import ALLOWED, CHECKSUMS, COMPRESSORS, codec_of
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.errors import MetadataError
from xarray_n5.model.grid import ChunkGrid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Buffer, Compression

_OF_NUMBERS = frozenset({"delta", "fixedscaleoffset", "quantize", "packbits", "bitround", "astype"})
"""Filters from numbers to numbers, or to bytes."""

FILTERS = _OF_NUMBERS | frozenset(ALLOWED)
"""Filters that are supported; others could run code from the file."""

OBJECTS = frozenset({"vlen-utf8", "vlen-bytes"})
"""Filters that decode objects: strings and bytes."""

_TYPE = re.compile(
    r"[<>|=]?(?:[biufc](?:1|2|4|8|16)|[Mm]8\[(?:[1-9]\d*)?[a-zA-Zμ]+\])"
    "|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)"
)
_LARGEST_ELEMENT = 16

_FEW_OBJECTS, _OBJECT, _RATIO = 1 << 22, 1 << 10, 32
"""The limit on objects, whose size metadata do not state: the largest of 4 MiB for a chunk, 1 KiB
for each, and 32 times the stored bytes."""

_HEADERS = 1 << 16
"""The number of bytes that headers and checksums may add."""


@dataclass(frozen=True, slots=True)
class Size:
    """The limits on the output of a decoding step, in bytes."""

    nbytes: int
    exact: bool = True
    """Whether the output always has the maximum size."""
    objects: bool = False
    """Whether these bytes represent objects, whose size is unknown."""

    def limit(self, stored: int) -> int:
        """Return the maximum number of bytes for a chunk of `stored` bytes."""
        return max(self.nbytes, _RATIO * stored) if self.objects else self.nbytes

    def check(self, size: int, stored: int) -> None:
        """Raise if a step returned fewer or more bytes.

        Raises
        ------
        EOFError
            If they are fewer.
        ValueError
            If they are more.
        """
        if self.exact and size < self.nbytes:
            raise EOFError(
                f"expected {self.nbytes} bytes in the payload, got {size}: the chunk is "
                "truncated, or the array's dtype, chunks or filters are wrong"
            )
        if size > (limit := self.limit(stored)):
            raise ValueError(f"expected at most {limit} bytes in the payload, got {size}")


@dataclass(frozen=True, slots=True)
class Bytes:
    """A filter from bytes to bytes."""

    codec: Compression
    name: str

    @property
    def is_exact(self) -> bool:
        """Whether the encoded size depends only on the size."""
        return self.name not in COMPRESSORS

    def encoded_size(self, size: int) -> int:
        """Return the encoded size: with a checksum, or the maximum for incompressible bytes."""
        if self.name in COMPRESSORS:
            return size + size // 8 + _HEADERS
        return size + 4 * (self.name in CHECKSUMS)

    def encode(self, data: Any) -> Any:
        """Encode bytes."""
        return self.codec.encode(buffer(data))

    def decode(self, data: memoryview, size: int) -> Any:
        """Decode at most `size` bytes."""
        return self.codec.decode(data, size)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A filter of numcodecs from numbers to numbers, or to bytes."""

    codec: Any
    count: int
    """The number of elements of a chunk."""
    is_exact: ClassVar[bool] = False

    def encoded_size(self, size: int) -> int:
        """Return the maximum encoded size: the largest element for each element."""
        return max(_LARGEST_ELEMENT * self.count, size) + _HEADERS

    def encode(self, data: Any) -> Any:
        """Encode elements."""
        return self.codec.encode(data)

    def decode(self, data: memoryview, size: int) -> Any:
        """Decode elements; values that cannot be converted become what NumPy makes of them."""
        with np.errstate(all="ignore"):
            return self.codec.decode(np.frombuffer(data, np.uint8))


def steps(configs: Sequence[str], count: int) -> list[Bytes | Numbers]:
    """Return the filters that configurations describe, for chunks of `count` elements.

    Raises
    ------
    MetadataError
        If a filter's members are invalid.
    """
    filters = []
    for config in configs:
        members = json.loads(config)
        try:
            filters.append(_filter(members, count))
        except (MetadataError, TypeError, ValueError, LookupError, OverflowError) as error:
            raise MetadataError(f"filter {members['id']!r}: {error}") from error
    return filters


def _filter(members: dict[str, Any], count: int) -> Bytes | Numbers:
    name = members["id"]
    if name not in _OF_NUMBERS:
        return Bytes(codec_of(members), name)
    for key in members.keys() & {"dtype", "astype", "encode_dtype", "decode_dtype"}:
        kind = members[key]
        known = isinstance(kind, str) and _TYPE.fullmatch(kind) is not None
        if not known and (key, kind) != ("astype", None):
            raise MetadataError(f"{key!r} is {kind!r}; expected a type of numbers, such as '<f4'")
    if members.get("scale") == 0:
        raise MetadataError("'scale' is 0; expected a number to divide elements by")
    step = Numbers(_numcodec(members), count)
    # Types that NumPy cannot convert are rejected here, not chunk by chunk.
    step.decode(memoryview(bytes(_LARGEST_ELEMENT)), 0)
    return step


def _numcodec(members: dict[str, Any]) -> Any:
    import numcodecs

    return numcodecs.get_codec(dict(members))


def flat(data: Any) -> memoryview:
    """Return the bytes of elements of any type."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    return bytes_of(data)


def buffer(data: Any) -> memoryview:
    """Return numbers unchanged, for codecs that shuffle by their size; others as bytes."""
    if isinstance(data, np.ndarray) and data.dtype.kind in "biufc":
        return np.ascontiguousarray(data).data
    return flat(data)


# Chains


class Serializer(Protocol):
    """A codec from an array to bytes."""

    @property
    def size(self) -> Size:
        """The size of the bytes."""

    def encode(self, block: np.ndarray) -> np.ndarray | Buffer:
        """Encode the elements of a chunk."""

    def decode(self, view: memoryview) -> np.ndarray:
        """Decode the elements of a chunk, in any byte order."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """``bytes``: elements of a fixed size, one after another in C order."""

    stored: np.dtype[Any]
    """The type of an element, in its byte order."""
    shape: tuple[int, ...]

    @property
    def size(self) -> Size:
        """The size of all elements."""
        return Size(math.prod(self.shape) * self.stored.itemsize)

    def encode(self, block: np.ndarray) -> np.ndarray:
        """Return the elements in the codec's byte order."""
        return np.ascontiguousarray(block, self.stored)

    def decode(self, view: memoryview) -> np.ndarray:
        """Return the elements, in the codec's byte order."""
        return np.frombuffer(view, self.stored).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Varying:
    """``vlen-utf8`` and ``vlen-bytes``: each element after its length, all after their number."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> Size:
        """The maximum size of the elements, in bytes."""
        most = max(_FEW_OBJECTS, _OBJECT * math.prod(self.shape))
        return Size(most, exact=False, objects=True)

    def encode(self, block: np.ndarray) -> Buffer:
        """Return the elements, which must be strings, with their lengths."""
        elements = np.asarray(block, object).reshape(-1)
        for element in elements:
            if not isinstance(element, str):
                raise TypeError(
                    f"expected only strings among objects, got {element!r}; convert it with str()"
                )
        return flat(_numcodec({"id": self.name}).encode(elements))

    def decode(self, view: memoryview) -> np.ndarray:
        """Return the elements, for which memory is allocated once their number is checked."""
        expected, count = math.prod(self.shape), int.from_bytes(view[:4], "little")
        if count != expected or len(view) < 4 + 4 * count:
            raise ValueError(f"expected {expected} elements, the chunk's header states {count}")
        elements: np.ndarray = _numcodec({"id": self.name}).decode(view)
        return elements.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The codecs of a chunk, in the order in which they encode."""

    shape: tuple[int, ...]
    """The shape of a chunk."""
    dtype: np.dtype[Any]
    """The type of an element in memory."""
    order: tuple[int, ...] | None
    """The order of axes in the serializer's input; None if unchanged."""
    serializer: Serializer
    compressors: tuple[Bytes | Numbers, ...]
    sizes: tuple[Size, ...] = field(init=False)
    """The size of the serializer's output, and of each compressor's."""

    def __post_init__(self) -> None:
        sizes = [self.serializer.size]
        for codec in self.compressors:
            before = sizes[-1]
            exact = before.exact and codec.is_exact
            sizes.append(Size(codec.encoded_size(before.nbytes), exact, before.objects))
        object.__setattr__(self, "sizes", tuple(sizes))

    def encode(self, block: np.ndarray) -> Buffer:
        """Encode a chunk with the elements of `block`, which has the chunk's full shape."""
        data = self.serializer.encode(block if self.order is None else block.transpose(self.order))
        for codec in self.compressors:
            data = codec.encode(data)
        return flat(data)

    def check_size(self, head: bytes, size: int) -> None:
        """Raise EOFError if `size` bytes that begin with `head` are too few for a chunk."""
        least = 1
        if self.sizes[-1].exact:
            least = self.sizes[-1].nbytes
        elif not self.compressors and isinstance(self.serializer, Sharding):
            least = self.serializer.index_nbytes
        elif self.compressors and self.sizes[-2].exact:
            stored_size = getattr(self.compressors[-1].codec, "stored_size", None)
            least = 1 if stored_size is None else stored_size(head, self.sizes[-2].nbytes)
        if size < max(least, 1):
            raise EOFError(f"expected a file of at least {least} bytes, got {size}")

    def decode(self, data: Buffer) -> np.ndarray:
        """Return the elements of a chunk, in any byte order.

        Raises
        ------
        EOFError
            If bytes are missing.
        ValueError
            If they are invalid, or too many.
        """
        view, sizes = flat(data), self.sizes
        stored = len(view)
        if not stored:
            raise EOFError("the file is empty: its writer was stopped")
        for codec, size in zip(reversed(self.compressors), reversed(sizes[:-1]), strict=True):
            view = flat(codec.decode(view, size.limit(stored)))
            size.check(len(view), stored)
        if not self.compressors:
            sizes[0].check(stored, stored)
        elements = self.serializer.decode(view)
        return elements if self.order is None else elements.transpose(np.argsort(self.order))


# Shards

EMPTY = (1 << 64) - 1
"""The offset and the size of an inner chunk that is not stored."""


@dataclass(frozen=True, slots=True, eq=False)
class Sharding:
    """A shard of inner chunks, which have their own codecs."""

    shape: tuple[int, ...]
    """The shape of a shard."""
    inner: Pipeline
    index: Pipeline
    """The codecs of the index, whose elements are offsets and sizes."""
    at_start: bool
    """Whether the index is at the beginning of a shard, not at its end."""
    fill: Any
    """The value of inner chunks that are not stored."""
    grid: ChunkGrid = field(init=False)
    """The inner chunks of a shard."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", ChunkGrid(self.shape, self.inner.shape))

    @property
    def index_nbytes(self) -> int:
        """The size of the index."""
        return self.index.sizes[-1].nbytes

    @property
    def size(self) -> Size:
        """The maximum size of a shard, in bytes."""
        most = self.inner.sizes[-1]
        whole = self.index_nbytes + self.grid.size * most.nbytes
        return Size(whole, exact=False, objects=most.objects)

    def encode(self, block: np.ndarray) -> Buffer:
        """Return a shard, without the inner chunks that only have the fill value."""
        shard = bytearray(self.index_nbytes if self.at_start else 0)
        where = np.full((*self.grid.counts, 2), EMPTY, np.uint64)
        for index in self.grid:
            part = block[self.grid.slices(index)]
            if not part.size or _is_filled(part, self.fill):
                continue
            if part.shape != self.inner.shape:  # the array ends in it
                whole = np.full(self.inner.shape, self.fill, self.inner.dtype)
                whole[tuple(map(slice, part.shape))] = part
                part = whole
            data = memoryview(self.inner.encode(part)).cast("B")
            where[index] = len(shard), len(data)
            shard += data
        encoded = bytes(self.index.encode(where))
        if self.at_start:
            shard[: len(encoded)] = encoded
        else:
            shard += encoded
        return shard

    def decode(self, view: memoryview) -> np.ndarray:
        """Return the elements of a shard."""
        where = self.read_index(view)
        whole = np.empty(self.shape, self.inner.dtype)
        for index in self.grid:
            elements = self.decode_inner(index, self.bytes_of(where, index, view))
            whole[self.grid.slices(index)] = self.fill if elements is None else elements
        return whole

    def read_index(self, view: memoryview) -> np.ndarray:
        """Return the offset and size of each inner chunk, from a shard or the index alone.

        Raises
        ------
        EOFError
            If there are too few bytes.
        ValueError
            If the index is damaged.
        """
        size = self.index_nbytes
        if len(view) < size:
            raise EOFError(f"expected an index of {size} bytes, got a shard of {len(view)}")
        try:
            return self.index.decode(view[:size] if self.at_start else view[-size:])
        except ValueError as error:
            raise ValueError(f"the index of the shard is damaged: {error}") from error

    def range_of(self, where: np.ndarray, index: Index) -> tuple[int, int] | None:
        """Return the first byte of an inner chunk and its end; None if it is not stored.

        Raises
        ------
        ValueError
            If the index has an impossible size.
        """
        start, nbytes = where[index].tolist()
        if start == nbytes == EMPTY:
            return None
        size = self.inner.sizes[-1]
        if nbytes > size.nbytes and not size.objects:
            raise ValueError(
                f"inner chunk {index}: expected at most {size.nbytes} bytes, the index has {nbytes}"
            )
        return start, start + nbytes

    def bytes_of(self, where: np.ndarray, index: Index, shard: memoryview) -> memoryview | None:
        """Return the bytes of an inner chunk in a whole shard; None if it is not stored."""
        bounds = self.range_of(where, index)
        if bounds is None:
            return None
        if bounds[1] > len(shard):
            raise EOFError(
                f"inner chunk {index}: the index has bytes {bounds[0]} to {bounds[1]}, beyond the "
                f"end of a shard of {len(shard)}"
            )
        return shard[slice(*bounds)]

    def decode_inner(self, index: Index, data: Buffer | None) -> np.ndarray | None:
        """Return the elements of an encoded inner chunk; None for None."""
        if data is None:
            return None
        try:
            return self.inner.decode(data)
        except Exception as error:  # codecs raise errors of any type
            kind = EOFError if isinstance(error, EOFError) else ValueError
            raise kind(f"inner chunk {index}: {error}") from error


def _is_filled(part: np.ndarray, fill: Any) -> bool:
    """Return whether elements are the fill value, bit for bit."""
    if part.dtype.hasobject:
        return bool((part == fill).all())
    value = np.array(fill, part.dtype).reshape(1)
    if part.dtype.kind in "biuf" and part.item(0) != value.item(0) == value.item(0):
        return False  # quick check of one element
    if part.dtype.kind in "biu":
        return bool((part == value).all())
    flat = np.ascontiguousarray(part).reshape(-1)
    return bool((flat.view("u1").reshape(flat.size, -1) == value.view("u1")).all())
