"""Filters of Zarr v2 from elements to elements of another type, or to bits."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.codecs.parameters import check_range
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DTYPE = re.compile(
    r"[<>|=]?(?:[biufcSU]\d+|O|[Mm]8\[(?:[1-9]\d*)?[a-zA-Zμ]+\])"
    "|bool|object|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)"
)
_LARGEST_ITEM = 1 << 20


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


def parse_dtype_of(
    members: Mapping[str, Any], key: str, kinds: str, usual: object = None
) -> np.dtype[Any]:
    """Return the type that a member names, of one of some kinds."""
    value = members.get(key, usual)
    known = isinstance(value, str) and _DTYPE.fullmatch(value) is not None
    found: np.dtype[Any] = np.dtype(value if known else "V1")
    if found.kind not in kinds or not 0 < found.itemsize <= _LARGEST_ITEM:
        raise MetadataError(
            f"{key!r} is {value!r}; expected a type of the kinds {', '.join(kinds)}"
        )
    return found


def _number(members: Mapping[str, Any], key: str) -> float:
    value = members.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MetadataError(f"{key!r} is {value!r}; expected a number")
    return value
