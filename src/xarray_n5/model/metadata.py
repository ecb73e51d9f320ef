"""The metadata of arrays and groups, common to all formats, in C order.

Some attributes keep what the format cannot hold, so that Datasets round-trip.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.model.grid import ChunkGrid

if TYPE_CHECKING:
    from collections.abc import Collection
    from dataclasses import Field


Attributes: TypeAlias = "Mapping[str, Any]"
"""A node's user attributes: JSON values, exactly as they are stored."""


def lists_levels(attributes: Attributes) -> bool:
    """Return whether attributes list the factors of several levels, as those of groups do.

    >>> lists_levels({"downsamplingFactors": [[1, 1, 1], [2, 2, 1]]})
    True
    """
    factors = attributes.get("downsamplingFactors")
    return isinstance(factors, list) and any(isinstance(level, list) for level in factors)


def check_factors(attributes: Attributes, where: str) -> None:
    """Raise if an array's attributes list the factors of several levels, as a group's do.

    Raises
    ------
    MetadataError
        Naming the attribute.
    """
    if lists_levels(attributes):
        raise MetadataError(
            f"{where}: 'downsamplingFactors' of an array lists several levels; expected the "
            "factors of this level (the list belongs to its group)"
        )


Buffer: TypeAlias = bytes | bytearray | memoryview
"""A contiguous buffer; the items of a memoryview may be larger than a byte."""


class Compression(Protocol):
    """A compression: a frozen dataclass whose fields are its parameters.

    A field's ``metadata={"written": {value: instead}}`` replaces values that other readers refuse.
    """

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __hash__(self) -> int:
        """Return a hash, as frozen dataclasses do."""

    def encode(self, data: Buffer) -> Buffer:
        """Return `data` compressed; the item size of a memoryview is that of the elements."""

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the `size` bytes of the content; raise if the stream is damaged.

        A truncated stream may also return fewer bytes. Only raw data may return more.
        """


class Content(Enum):
    """The content of an array's chunks."""

    NUMBERS = "numbers"
    """One number for each element."""
    TEXTS = "strings of any length"
    """Strings of any length, which can be written."""
    STRINGS = "strings"
    """NUL-terminated strings, which can only be read."""
    OBJECTS = "objects"
    """Serialised Java objects, which are never decoded."""
    LABEL_MULTISETS = "label multisets"
    """Paintera's sets of labels and counts, one set for each element; unless read as numbers."""
    LABELS = "the most frequent labels of label multisets"
    """Label multisets that are read as the label with the most votes, the lowest of equals."""
    VOTES = "the votes in label multisets"
    """Label multisets that are read as the number of votes for that label."""

    @property
    def is_writable(self) -> bool:
        """Whether such chunks can be written."""
        return self is Content.NUMBERS or self is Content.TEXTS


MULTISET = "isLabelMultiset"
"""Paintera's attribute of label multisets."""

_MULTISET_TYPES: Mapping[Content, np.dtype[Any]] = {
    Content.LABELS: np.dtype(np.uint64),
    Content.VOTES: np.dtype(np.int32),
}
"""The dtypes as which label multisets are read."""

_ENCODED = 8
"""The maximum stored size of a chunk relative to its elements: filters may widen numbers."""

_SMALL = 1 << 24
"""The bytes by which a stored chunk may exceed that: 16 MiB, for larger shapes."""

_VARYING = 1 << 30
"""The maximum stored size of a chunk whose elements vary in size: 1 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMetadata:
    """The metadata of an array."""

    shape: tuple[int, ...]
    """The array's shape, in elements."""
    chunks: tuple[int, ...]
    """The shape of a stored file: of an unclipped chunk, or of a shard."""
    dtype: np.dtype[Any]
    """The type of an element in memory, in native byte order."""
    inner: tuple[int, ...] | None = None
    """The shape of the chunks in a shard, if `chunks` is the shape of shards."""
    compression: Compression
    """The compression of chunks."""
    attributes: Attributes = field(default_factory=dict)
    """The user's attributes."""
    content: Content = Content.NUMBERS
    """The content of chunks."""
    fill: Any = None
    """The value of missing chunks; None for zero."""
    layout: Any = None
    """The format's own facts about chunks, and three that all have: whether the fill value is
    `filled` in, whether it `masks` elements, and the names of `other_filters`; None in N5."""

    def multisets_as(self, content: Content) -> ArrayMetadata:
        """Return the metadata with label multisets read as numbers; unchanged for other content."""
        if self.content is not Content.LABEL_MULTISETS or content not in _MULTISET_TYPES:
            return self
        others = {key: value for key, value in self.attributes.items() if key != MULTISET}
        dtype = _MULTISET_TYPES[content]
        return replace(self, content=content, dtype=dtype, attributes=others)

    @property
    def grid(self) -> ChunkGrid:
        """The chunk grid."""
        return ChunkGrid(self.shape, self.chunks)

    @property
    def fill_value(self) -> object:
        """The value of missing chunks."""
        if self.fill is not None:
            return self.fill
        return "" if self.dtype.kind == "O" else np.zeros((), self.dtype)[()]

    @property
    def masks(self) -> bool:
        """Whether the fill value masks elements for xarray."""
        return self.layout is None or bool(self.layout.masks)

    @property
    def may_lack_chunks(self) -> bool:
        """Whether all readers agree on the value of missing chunks.

        Without a fill value in Zarr's metadata, zarr-python 2 returns uninitialised memory.
        """
        return self.layout is None or bool(self.layout.filled)

    @property
    def other_filters(self) -> str:
        """The names of HDF5's filters if `compression` is raw next to them, to be shown."""
        return "" if self.layout is None else str(self.layout.other_filters)

    @property
    def most_stored(self) -> int:
        """An upper bound on the bytes of a stored chunk; more are not fetched."""
        most = _ENCODED * math.prod(self.chunks) * self.dtype.itemsize + _SMALL
        plain = self.content.is_writable and not self.dtype.hasobject
        return most if plain else max(most, _VARYING)

    def bare(self) -> ArrayMetadata:
        """Return the metadata without attributes, which suffices to read chunks."""
        return replace(self, attributes={})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """The metadata of a group."""

    attributes: Attributes = field(default_factory=dict)
    """The user's attributes."""


Metadata: TypeAlias = ArrayMetadata | GroupMetadata


class Varlength(ValueError):  # noqa: N818 - what a chunk turned out to be, not a fault of it
    """Raised for a chunk that holds a list of elements instead of an array."""

    def __init__(self, elements: np.ndarray, shape: tuple[int, ...]) -> None:
        self.elements = elements
        super().__init__(
            f"a varlength block of {elements.size} elements, with shape {shape} in its header, is "
            "not an array chunk; read its elements with Array.read_chunk(index)"
        )


NOTE = "_XARRAY"
"""The attribute for everything that has no JSON type."""

HIDDEN = "_nc_note"
"""The same in formats that xarray reads itself; xarray hides names that begin with ``_nc``."""

UNMASKED = "_nc_unmasked"
"""The attribute of an array in Zarr v2 whose fill value is only that of missing chunks.

xarray also masks elements that equal the fill value of an array with dimension names.
"""

_NUMBERS = re.compile(r"[<>|=]?[iuf][1248]")
"""The dtypes of numeric coordinates."""

NOTES = frozenset({NOTE, HIDDEN, UNMASKED})


def note_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the round-trip members in attributes, without invalid ones.

    >>> note_of({"_XARRAY": {"axes": ["x"], "own": 5}, "title": "a"})
    {'axes': ['x']}
    """
    note = attributes.get(NOTE, attributes.get(HIDDEN))
    if not isinstance(note, Mapping):
        return {}
    return {key: value for key, value in note.items() if _is_proper(key, value)}


def invalid_notes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the invalid round-trip members, which are ignored."""
    note = attributes.get(NOTE, attributes.get(HIDDEN, {}))
    if not isinstance(note, Mapping):
        return {NOTE if NOTE in attributes else HIDDEN: note}
    return {key: value for key, value in note.items() if not _is_proper(key, value)}


def _is_proper(key: str, value: object) -> bool:
    match key:
        case "attributes":
            return isinstance(value, Mapping)
        case "axes" | "own":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "text" | "bytes":
            return isinstance(value, Mapping) and all(isinstance(t, str) for t in value.values())
        case "types" | "dtypes":
            kinds = value.values() if isinstance(value, Mapping) else [""]
            return all(isinstance(kind, str) and _NUMBERS.fullmatch(kind) for kind in kinds)
        case "name":
            return isinstance(value, str) and bool(value) and "/" not in value
        case _:
            return True


def is_text(attributes: Mapping[str, Any]) -> bool:
    """Return whether an array holds characters."""
    return note_of(attributes).get("dtype") == "S1"


def is_dataset(attributes: Mapping[str, Any]) -> bool:
    """Return whether a group was written as a Dataset."""
    return bool(note_of(attributes).get("dataset"))


def coords_from_axes(attributes: Mapping[str, Any]) -> Collection[str] | None:
    """Return the coordinates that only an array's axes describe, or None if it has no list."""
    return note_of(attributes).get("axes")


def user_attributes(attributes: Mapping[str, Any]) -> Collection[str]:
    """Return the attributes that are the user's own, which dialects ignore."""
    return frozenset(note_of(attributes).get("own", ()))
