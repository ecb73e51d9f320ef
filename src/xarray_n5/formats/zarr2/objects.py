"""Filters of Zarr v2 that make objects: strings, bytes and JSON values."""

from __future__ import annotations

import codecs
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DTYPE = re.compile(
    r"[<>|=]?(?:[biufcSU]\d+|O|[Mm]8\[(?:[1-9]\d*)?[a-zA-Zμ]+\])"
    "|bool|object|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)"
)
_LARGEST_ITEM = 1 << 20

_ENCODINGS = frozenset({"utf-8", "ascii", "iso8859-1", "utf-16", "utf-32"})

_FEW_OBJECTS, _OBJECT, RATIO = 1 << 22, 1 << 10, 32
"""The limit on objects, whose size metadata do not state: the largest of 4 MiB for a chunk, 1 KiB
for each, and 32 times the stored bytes."""

_FEW_LISTS, _LISTS = 1 << 16, 64
"""The maximum number of lists and objects, which need more memory than strings: in a chunk, and in
an element."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Strings as numbers, counted from 1; 0 is the empty string."""

    labels: np.ndarray
    plain: np.dtype[Any]
    codes: np.dtype[Any]
    codec: Any

    @property
    def width(self) -> int:
        """The size of an element."""
        return self.plain.itemsize

    def encoded_size(self, size: int) -> int:
        """Return the encoded size of as many numbers."""
        return math.ceil(size / self.width) * self.codes.itemsize

    def encode(self, data: Any) -> Any:
        """Return the number of each string."""
        return self.codec.encode(data)

    def decode(self, data: memoryview, size: int) -> Any:
        """Return the string of each number, the empty one for numbers without a label."""
        codes = np.frombuffer(data, self.codes)
        if codes.size * self.plain.itemsize > size:
            raise ValueError(f"expected {size} bytes of labels, got {codes.size}")
        known = np.where((codes > 0) & (codes < self.labels.size), codes, 0)
        return self.labels[known].astype(self.plain, copy=False)


@dataclass(frozen=True, slots=True)
class Texts:
    """Strings or bytes, each after its length, all after their number."""

    width: ClassVar[int] = 1
    kind: str
    count: int

    def encoded_size(self, size: int) -> int:  # noqa: ARG002
        """Return the maximum size of the objects, in bytes."""
        return max(_FEW_OBJECTS, _OBJECT * self.count)

    def encode(self, data: Any) -> Any:
        """Return the objects, which must be strings, as bytes."""
        for each in data:
            if not isinstance(each, str):
                raise TypeError(
                    f"expected only strings among objects, got {each!r}; convert it with str()"
                )
        return self._codec().encode(data)

    def decode(self, data: memoryview, size: int) -> Any:  # noqa: ARG002
        """Return the objects, for which memory is allocated once their number is checked."""
        count = int.from_bytes(data[:4], "little")
        if count != self.count or len(data) < 4 + 4 * count:
            raise ValueError(f"expected {self.count} elements, the chunk's header states {count}")
        return self._codec().decode(data)

    def _codec(self) -> Any:
        import numcodecs

        return numcodecs.VLenUTF8() if self.kind == "vlen-utf8" else numcodecs.VLenBytes()


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON list of all values, their type and their shape."""

    width: ClassVar[int] = 1
    encoding: str
    strict: bool
    count: int

    def encoded_size(self, size: int) -> int:  # noqa: ARG002
        """Return the maximum size of the objects, in bytes."""
        return max(_FEW_OBJECTS, _OBJECT * self.count)

    def encode(self, data: Any) -> Any:
        """Return the values as bytes."""
        import numcodecs

        return numcodecs.JSON(encoding=self.encoding).encode(data)

    def decode(self, data: memoryview, size: int) -> Any:  # noqa: ARG002
        """Return the values. Of the type and shape in the file, only the nesting is used."""
        text = str(data, self.encoding)
        if text.count("[") + text.count("{") > _FEW_LISTS + _LISTS * self.count:
            raise ValueError("the JSON has more lists and objects than a chunk can have")
        items = json.loads(text, strict=self.strict)
        match items:
            case [*values, str(), [*shape]] if all(type(n) is int and n >= 0 for n in shape):
                pass
            case _:
                raise ValueError("the JSON does not end with a type and a shape")
        if math.prod(shape) != self.count:
            raise ValueError(f"expected {self.count} elements, the chunk states the shape {shape}")
        for side in shape[1:]:
            if not all(isinstance(row, list) and len(row) == side for row in values):
                raise ValueError(f"the JSON's lists do not have the shape {shape}")
            values = [value for row in values for value in row]
        if len(values) != self.count:
            raise ValueError(f"expected {self.count} elements in the chunk, got {len(values)}")
        found = np.empty(self.count, object)
        found[:] = values
        return found


def make_labels(members: Mapping[str, Any], *, objects: bool) -> Labels:
    """Return a filter of strings that are stored as numbers, after checking its members."""
    import numcodecs

    labels, dtype = members.get("labels"), parse_dtype_of(members, "dtype", "UO")
    if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
        raise MetadataError("'labels' is not a list of strings")
    if objects != (dtype.kind == "O"):
        raise MetadataError(
            f"'dtype' is {members['dtype']!r}; expected that of the array's elements"
        )
    codes = parse_dtype_of(members, "astype", "iu", "u1")
    known = np.array(["", *labels], object)
    return Labels(known, dtype, codes, numcodecs.Categorize(labels, dtype, codes))


def make_json(members: Mapping[str, Any], count: int) -> Json:
    """Return a filter of JSON values, after checking its members."""
    encoding, strict = members.get("encoding", "utf-8"), members.get("strict", True)
    known = codecs.lookup(str(encoding)).name
    if known.removesuffix("-le").removesuffix("-be") not in _ENCODINGS:
        raise MetadataError(f"'encoding' is {encoding!r}; expected 'utf-8'")
    return Json(known, bool(strict), count)


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
