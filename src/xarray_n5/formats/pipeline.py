"""Chains of codecs between the elements of a chunk and its bytes, and shards of several chunks.

Source of ``sharding_indexed``: the specification of the sharding codec, version 1.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xarray_n5.formats.filters import Size, flat
from xarray_n5.model.grid import ChunkGrid

if TYPE_CHECKING:
    from xarray_n5.formats.filters import Bytes, Numbers, Texts
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Buffer


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
    """``vlen-utf8`` and ``vlen-bytes``: each element after its length."""

    codec: Texts
    shape: tuple[int, ...]

    @property
    def size(self) -> Size:
        """The maximum size of the elements, in bytes."""
        return self.codec.size

    def encode(self, block: np.ndarray) -> Buffer:
        """Return the elements with their lengths."""
        return flat(self.codec.encode(np.asarray(block, object).reshape(-1)))

    def decode(self, view: memoryview) -> np.ndarray:
        """Return the elements as objects."""
        texts: np.ndarray = self.codec.decode(view, len(view))
        return texts.reshape(self.shape)


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
