"""Filters of Zarr v2 with the sizes of their outputs, so that decoding has a limit.

The metadata determine the size of a chunk's elements, and so, filter by filter, the size of the
compressor's input: exactly, unless a filter compresses or encodes objects.
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
"""Filters that are supported; others could run code from the file."""

OBJECTS = frozenset({"vlen-utf8", "vlen-bytes", "json2", "categorize"})
"""Filters that decode objects: strings, bytes, and JSON values."""


class Filter(Protocol):
    """One step between a chunk's elements and its stored bytes."""

    @property
    def width(self) -> int:
        """The unit of encoding, in bytes: the input is a multiple of it."""

    def encoded_size(self, size: int) -> int:
        """Return the encoded size of `size` bytes: the maximum, if it varies."""

    def encode(self, data: Any) -> Any:
        """Encode elements or bytes."""

    def decode(self, data: memoryview, size: int) -> Any:
        """Decode to elements or bytes: `size` bytes, or fewer."""


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
        return max(self.nbytes, RATIO * stored) if self.objects else self.nbytes

    def check(self, found: int, stored: int) -> None:
        """Raise if a step returned fewer or more bytes.

        Raises
        ------
        EOFError
            If they are fewer.
        ValueError
            If they are more.
        """
        if self.exact and found < self.nbytes:
            raise EOFError(
                f"expected {self.nbytes} bytes in the payload, got {found}: the chunk is "
                "truncated, or the array's dtype, chunks or filters are wrong"
            )
        if found > (limit := self.limit(stored)):
            raise ValueError(f"expected at most {limit} bytes in the payload, got {found}")


@dataclass(frozen=True, slots=True)
class Chain:
    """The filters of an array, with the sizes of their outputs."""

    filters: tuple[Filter, ...]
    sizes: tuple[Size, ...]
    """The input of each filter, and last that of the compressor."""

    @property
    def stored(self) -> Size:
        """The size of the compressor's input."""
        return self.sizes[-1]

    def encode(self, data: Any) -> Any:
        """Return the compressor's input for elements."""
        for each in self.filters:
            data = each.encode(data)
        return data

    def decode(self, data: Any, stored: int) -> Any:
        """Return the elements of a chunk of `stored` bytes, given its decompressed bytes."""
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
        If a member has an invalid value, or a filter does not fit the chunks.
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
    """Return numbers unchanged, for codecs that shuffle by their size; others as bytes."""
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
        """The size of an element to shuffle."""
        return max(1, getattr(self.codec, "elementsize", 1))

    @property
    def is_exact(self) -> bool:
        """Whether the encoded size depends only on the size."""
        return self.name not in COMPRESSORS

    def encoded_size(self, size: int) -> int:
        """Return the encoded size: with a checksum, or the maximum for incompressible bytes."""
        if self.name in COMPRESSORS:
            return size + size // 8 + (1 << 16)
        return size + 4 * (self.name in CHECKSUMS)

    def encode(self, data: Any) -> Any:
        """Encode bytes."""
        return self.codec.encode(buffer(data))

    def decode(self, data: memoryview, size: int) -> Any:
        """Decode bytes."""
        return self.codec.decode(data, size)
