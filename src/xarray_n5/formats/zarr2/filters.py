"""Filters of Zarr v2, each with the size of its output: what may be decoded is known beforehand.

A chunk's elements have a size that the metadata determine. From it follows, filter by filter, the
size of what the compressor was given: exactly, but behind filters that compress or hold objects.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xarray_n5.codecs.numcodecs import ALLOWED, CHECKSUMS, COMPRESSORS, codec_of
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.errors import MetadataError
from xarray_n5.formats.zarr2.numbers import make_elements
from xarray_n5.formats.zarr2.objects import RATIO, Json, Texts, make_json, make_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.model.codec import Compression

TYPED = frozenset(
    {"delta", "fixedscaleoffset", "quantize", "packbits", "bitround", "astype", "categorize"}
)
"""Filters from elements to elements, or to bytes."""

FILTERS = TYPED | frozenset(ALLOWED)
"""Filters that are decoded. Others could run code from the file."""

OBJECTS = frozenset({"vlen-utf8", "vlen-bytes", "json2", "categorize"})
"""Filters that make objects of bytes: strings, bytes, and JSON values."""


class Filter(Protocol):
    """One step between a chunk's elements and its stored bytes."""

    @property
    def width(self) -> int:
        """The number of bytes that go together: it encodes a multiple of them."""

    def encoded_size(self, size: int) -> int:
        """Return the size of `size` bytes once encoded: the most, if it is not the same for all."""

    def encode(self, data: Any) -> Any:
        """Return elements or bytes encoded."""

    def decode(self, data: memoryview, size: int) -> Any:
        """Return elements or bytes again: `size` bytes, or fewer."""


@dataclass(frozen=True, slots=True)
class Size:
    """The number of bytes that a step of decoding may give."""

    nbytes: int
    exact: bool = True
    """Whether it gives no fewer."""
    objects: bool = False
    """Whether these bytes hold objects, whose size is not known from metadata."""

    def limit(self, stored: int) -> int:
        """Return the most bytes that a chunk of `stored` bytes may give."""
        return max(self.nbytes, RATIO * stored) if self.objects else self.nbytes

    def check(self, found: int, stored: int) -> None:
        """Raise where a step has given fewer or more bytes.

        Raises
        ------
        EOFError
            If they are fewer.
        ValueError
            If they are more.
        """
        if self.exact and found < self.nbytes:
            raise EOFError(
                f"the payload holds {found} bytes, {self.nbytes} were expected: the chunk is cut "
                "off, or the array's dtype, chunks or filters are wrong"
            )
        if found > (limit := self.limit(stored)):
            raise ValueError(f"the payload holds {found} bytes, {limit} were expected at most")


@dataclass(frozen=True, slots=True)
class Chain:
    """The filters of an array, with the sizes of what each of them decodes to."""

    filters: tuple[Filter, ...]
    sizes: tuple[Size, ...]
    """What each filter is given to encode, and last what the compressor is given."""

    @property
    def stored(self) -> Size:
        """The size of what the compressor is given."""
        return self.sizes[-1]

    def encode(self, data: Any) -> Any:
        """Return elements as the compressor gets them."""
        for each in self.filters:
            data = each.encode(data)
        return data

    def decode(self, data: Any, stored: int) -> Any:
        """Return the elements, of a chunk of `stored` bytes that have been decompressed."""
        view = flat(data)
        self.stored.check(len(view), stored)
        for each, size in zip(reversed(self.filters), reversed(self.sizes[:-1]), strict=True):
            data = each.decode(view, size.limit(stored))
            if isinstance(data, np.ndarray) and data.dtype.kind == "O":
                return data
            view = flat(data)
            size.check(len(view), stored)
        return view


@functools.lru_cache(maxsize=256)
def chain(configs: tuple[str, ...], dtype: np.dtype[Any], count: int) -> Chain:
    """Return the filters that configurations describe, for chunks of `count` elements.

    Raises
    ------
    MetadataError
        If a member has a value that it cannot have, or a filter does not fit the chunks.
    """
    filters: list[Filter] = []
    sizes = [Size(count * dtype.itemsize)]
    for config in configs:
        members = json.loads(config)
        before, name = sizes[-1], members["id"]
        try:
            made = _make(members, count, objects=dtype.kind == "O" and not filters)
            after = _encoded_size(made, before)
        except (MetadataError, TypeError, ValueError, LookupError, OverflowError) as error:
            raise MetadataError(f"filter {name!r}: {error}") from error
        objects = isinstance(made, Texts | Json)
        exact = before.exact and not objects and name not in COMPRESSORS
        sizes.append(Size(after, exact, before.objects or objects))
        filters.append(made)
    return Chain(tuple(filters), tuple(sizes))


def _encoded_size(step: Filter, before: Size) -> int:
    if before.exact and before.nbytes % step.width:
        raise ValueError(f"chunks of {before.nbytes} bytes are not a multiple of {step.width}")
    return step.encoded_size(before.nbytes)


def flat(data: Any) -> memoryview:
    """Return the bytes of elements of any type."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    return bytes_of(data)


def buffer(data: Any) -> memoryview:
    """Return numbers as they are, for those who shuffle by their size, or bytes."""
    if isinstance(data, np.ndarray) and data.dtype.kind in "biufc":
        return np.ascontiguousarray(data).data
    return flat(data)


def _make(members: Mapping[str, Any], count: int, *, objects: bool) -> Filter:
    name = members["id"]
    if name in {"vlen-utf8", "vlen-bytes"}:
        return Texts(name, count)
    if name == "json2":
        return make_json(members, count)
    if name == "categorize":
        return make_labels(members, objects=objects)
    return make_elements(members) if name in TYPED else Bytes(codec_of(members), name)


@dataclass(frozen=True, slots=True)
class Bytes:
    """A filter from bytes to bytes."""

    codec: Compression
    name: str

    @property
    def width(self) -> int:
        """The size of a shuffled element."""
        return max(1, getattr(self.codec, "elementsize", 1))

    @property
    def is_exact(self) -> bool:
        """Whether the encoded size depends on nothing but the size."""
        return self.name not in COMPRESSORS

    def encoded_size(self, size: int) -> int:
        """Return the size, with a checksum, or as far as bytes that do not compress may grow."""
        if self.name in COMPRESSORS:
            return size + size // 8 + (1 << 16)
        return size + 4 * (self.name in CHECKSUMS)

    def encode(self, data: Any) -> Any:
        """Return the bytes encoded."""
        return self.codec.encode(buffer(data))

    def decode(self, data: memoryview, size: int) -> Any:
        """Return the bytes again."""
        return self.codec.decode(data, size)
