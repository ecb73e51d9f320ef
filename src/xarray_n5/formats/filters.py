"""Filters of Zarr v2, by numcodecs, with limits on the sizes of their outputs.

Without filters, the metadata determine the size of the compressor's input. Filters may make it
larger: up to the largest element for each element.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.codecs.numcodecs import ALLOWED, CHECKSUMS, COMPRESSORS, codec_of
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Compression

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
class Texts:
    """Strings or bytes, each after its length, all after their number."""

    name: str
    count: int

    @property
    def size(self) -> Size:
        """The maximum size of the objects, in bytes."""
        return Size(max(_FEW_OBJECTS, _OBJECT * self.count), exact=False, objects=True)

    def encode(self, data: Any) -> Any:
        """Return the objects, which must be strings, as bytes."""
        for text in data:
            if not isinstance(text, str):
                raise TypeError(
                    f"expected only strings among objects, got {text!r}; convert it with str()"
                )
        return _numcodec({"id": self.name}).encode(data)

    def decode(self, data: memoryview, size: int) -> Any:
        """Return the objects, for which memory is allocated once their number is checked."""
        count = int.from_bytes(data[:4], "little")
        if count != self.count or len(data) < 4 + 4 * count:
            raise ValueError(f"expected {self.count} elements, the chunk's header states {count}")
        return _numcodec({"id": self.name}).decode(data)


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


def steps(configs: tuple[str, ...], count: int) -> list[Bytes | Texts | Numbers]:
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


def _filter(members: dict[str, Any], count: int) -> Bytes | Texts | Numbers:
    name = members["id"]
    if name in OBJECTS:
        return Texts(name, count)
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
