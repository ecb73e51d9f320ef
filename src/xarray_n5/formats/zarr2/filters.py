"""Filters of Zarr v2 with the sizes of their outputs, so that decoding has a limit.

The metadata determine the size of a chunk's elements, and so, filter by filter, the size of the
compressor's input: exactly, unless a filter compresses or encodes objects.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from xarray_n5.codecs.numcodecs import ALLOWED, CHECKSUMS, COMPRESSORS, codec_of
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.errors import MetadataError
from xarray_n5.formats.zarr2.objects import (
    RATIO,
    Json,
    Texts,
    make_json,
    make_labels,
    parse_dtype_of,
)
from xarray_n5.model.options import check_range

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


@dataclass(frozen=True, slots=True)
class Elements:
    """A filter of numcodecs from elements to as many elements of another type."""

    codec: Any
    plain: np.dtype[Any]
    encoded: np.dtype[Any]

    @property
    def width(self) -> int:
        """The size of an element."""
        return self.plain.itemsize

    def encoded_size(self, size: int) -> int:
        """Return the encoded size of `size` bytes of elements."""
        return math.ceil(size / self.width) * self.encoded.itemsize

    def encode(self, data: Any) -> Any:
        """Encode elements."""
        return self.codec.encode(data)

    def decode(self, data: memoryview, size: int) -> Any:
        """Decode elements; values that cannot be converted become what NumPy makes of them."""
        if len(data) // self.encoded.itemsize * self.plain.itemsize > size:
            raise ValueError(
                f"expected at most {size} bytes of {self.plain}, got {len(data)} bytes of "
                f"{self.encoded}"
            )
        with np.errstate(all="ignore"):
            return self.codec.decode(np.frombuffer(data, np.uint8))


@dataclass(frozen=True, slots=True)
class PackedBits:
    """Eight booleans in a byte, after the number of padding bits in the last byte."""

    width: ClassVar[int] = 1

    def encoded_size(self, size: int) -> int:
        """Return the encoded size of `size` booleans."""
        return 1 + math.ceil(size / 8)

    def encode(self, data: Any) -> Any:
        """Pack booleans."""
        import numcodecs

        return numcodecs.PackBits().encode(data)

    def decode(self, data: memoryview, size: int) -> Any:
        """Unpack booleans."""
        bits = 8 * (len(data) - 1)
        surplus = data[0] if len(data) else 0
        if not 0 <= surplus < 8 or not 0 <= bits - surplus <= size:  # noqa: PLR2004 - bits
            raise ValueError(f"{len(data)} bytes of packed bits, {surplus} of them surplus")
        return np.unpackbits(np.frombuffer(data, np.uint8)[1:], count=bits - surplus)


def make_elements(members: Mapping[str, Any]) -> Elements | PackedBits:
    """Return one of numcodecs' filters of numbers, after checking its members."""
    import numcodecs

    name = members["id"]
    if name == "packbits":
        return PackedBits()
    if name == "bitround":
        check_range("keepbits", members.get("keepbits"), 0, 52)
        plain = np.dtype("u1")
        return Elements(numcodecs.BitRound(members["keepbits"]), plain, plain)
    if name == "astype":
        plain, encoded = (
            parse_dtype_of(members, key, "biufcSUmM") for key in ("decode_dtype", "encode_dtype")
        )
        return Elements(numcodecs.AsType(encoded, plain), plain, encoded)
    kinds = {"delta": "biufcm", "fixedscaleoffset": "biufc", "quantize": "f"}[name]
    plain = parse_dtype_of(members, "dtype", kinds)
    encoded = plain if members.get("astype") is None else parse_dtype_of(members, "astype", kinds)
    if name == "delta":
        codec = numcodecs.Delta(plain, encoded)
    elif name == "quantize":
        check_range("digits", members.get("digits"), -300, 300)
        codec = numcodecs.Quantize(members["digits"], plain, encoded)
    else:
        offset, scale = (_number(members, key) for key in ("offset", "scale"))
        if not scale:
            raise MetadataError("'scale' is 0; expected a number to divide elements by")
        codec = numcodecs.FixedScaleOffset(offset, scale, plain, encoded)
    made = Elements(codec, plain, encoded)
    # Types that NumPy cannot convert are rejected here, not chunk by chunk.
    made.decode(memoryview(bytes(encoded.itemsize)), plain.itemsize)
    return made


def _number(members: Mapping[str, Any], key: str) -> float:
    value = members.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MetadataError(f"{key!r} is {value!r}; expected a number")
    return value
