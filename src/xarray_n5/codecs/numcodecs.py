"""Codecs of numcodecs, as zarr-python's N5Store and Zarr v2 configure them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import google_crc32c
import numpy as np

from xarray_n5.codecs.blosc import Blosc
from xarray_n5.codecs.bzip2 import Bzip2
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.codecs.lz4 import SizedLz4
from xarray_n5.codecs.lzma import Lzma
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.codecs.zstd import Zstd
from xarray_n5.model.json import as_int, check_choice, check_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.model.metadata import Buffer, Compression

CHECKSUMS = ("crc32", "crc32c", "fletcher32")
"""Codecs that add a checksum of four bytes."""

COMPRESSORS = ("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd")
"""Codecs that compress."""

ALLOWED = (*CHECKSUMS, *COMPRESSORS, "shuffle")
"""Ids of the supported codecs; others may run code from the file, such as pickle."""

OTHER_CODEC = "; if you trust the file, zarr-python opens it with the package of this codec"
"""What to do about others in Zarr."""

_CHECKSUM_SIZE = 4
_LARGEST_ELEMENT = 1 << 20


@dataclass(frozen=True, slots=True)
class Numcodecs:
    """A codec of numcodecs, with its stored members.

    >>> Numcodecs({"type": "bz2", "id": "bz2", "level": 1}).encode(b"1234")[:3].tobytes()
    b'BZh'
    """

    name: ClassVar[str] = "numcodecs"
    members: Mapping[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        codec_of(self.members)

    def encode(self, data: Buffer) -> Buffer:
        """Return `data` encoded."""
        return bytes_of(codec_of(self.members).encode(data))

    def stored_size(self, head: bytes, size: int) -> int:
        """Return the least encoded size of `size` bytes, from its first bytes."""
        codec = codec_of(self.members)
        return codec.stored_size(head, size) if isinstance(codec, Blosc) else 1

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return `data` decoded: `size` bytes, or fewer."""
        return codec_of(self.members).decode(data, size)


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Group the bytes of elements: the first bytes of all, then the second ones, and so on."""

    name: ClassVar[str] = "shuffle"
    elementsize: int = 4

    def __post_init__(self) -> None:
        check_range("elementsize", self.elementsize, 0, _LARGEST_ELEMENT)

    def encode(self, data: Buffer) -> Buffer:
        """Return the bytes shuffled."""
        import numcodecs

        return bytes_of(numcodecs.Shuffle(self.elementsize).encode(bytes_of(data)))

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the bytes unshuffled."""
        view = bytes_of(data)
        if len(view) > size:
            raise ValueError(f"expected {size} shuffled bytes, got {len(view)}")
        import numcodecs

        return bytes_of(numcodecs.Shuffle(self.elementsize).decode(view))


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum of four bytes before or after the data."""

    name: ClassVar[str] = "checksum"
    kind: str
    location: str | None = None

    def __post_init__(self) -> None:
        check_choice("id", self.kind, CHECKSUMS)
        if self.location is not None:
            check_choice("location", self.location, ("start", "end"))

    def encode(self, data: Buffer) -> Buffer:
        """Return the data with its checksum."""
        view = bytes_of(data)
        checksum = self._of(view)
        return b"".join((checksum, view) if self._is_first else (view, checksum))

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return the data; raise if its checksum differs."""
        view = bytes_of(data)
        if len(view) <= _CHECKSUM_SIZE:
            if size or len(view) < _CHECKSUM_SIZE:
                raise EOFError(f"expected data and checksum, got only {len(view)} bytes")
            return b""
        checksum, rest = view[-_CHECKSUM_SIZE:], view[:-_CHECKSUM_SIZE]
        if self._is_first:
            checksum, rest = view[:_CHECKSUM_SIZE], view[_CHECKSUM_SIZE:]
        if checksum != self._of(rest):
            raise ValueError(f"the {self.kind} checksum differs: the data is damaged")
        return rest

    @property
    def _is_first(self) -> bool:
        return (self.location or ("start" if self.kind == "crc32" else "end")) == "start"

    def _of(self, view: memoryview) -> bytes:
        if self.kind == "fletcher32":
            import numcodecs

            return bytes(numcodecs.Fletcher32().encode(view)[-_CHECKSUM_SIZE:])
        if self.kind == "crc32":
            return zlib.crc32(view).to_bytes(_CHECKSUM_SIZE, "little")
        value = google_crc32c.value(np.frombuffer(view, np.uint8))
        return int(value).to_bytes(_CHECKSUM_SIZE, "little")


KINDS: dict[str, tuple[type[Compression], dict[str, Any], dict[str, str]]] = {
    "gzip": (Gzip, {"level": 1, "use_zlib": False}, {"level": "level"}),
    "zlib": (Gzip, {"level": 1, "use_zlib": True}, {"level": "level"}),
    "bz2": (Bzip2, {"block_size": 1}, {"level": "block_size"}),
    "lzma": (Lzma, {}, {key: key for key in ("format", "check", "preset", "filters")}),
    "zstd": (Zstd, {"level": 0}, {"level": "level"}),
    "blosc": (Blosc, {}, {key: key for key in ("cname", "clevel", "shuffle", "blocksize")}),
    "lz4": (SizedLz4, {}, {"acceleration": "acceleration"}),
    "shuffle": (Shuffle, {}, {"elementsize": "elementsize"}),
    **{kind: (Checksum, {"kind": kind}, {"location": "location"}) for kind in CHECKSUMS},
}
"""For each id the class, numcodecs' defaults, and the fields of the members."""


def codec_of(members: Mapping[str, Any]) -> Compression:
    """Return the codec for a configuration of numcodecs; unknown members are ignored.

    Raises
    ------
    MetadataError
        If the codec is unknown or a member is invalid.
    """
    check_choice("id", members.get("id"), ALLOWED)
    kind, usual, names = KINDS[members["id"]]
    given = {to: as_int(members[key]) for key, to in names.items() if members.get(key) is not None}
    return kind(**{**usual, **given})
