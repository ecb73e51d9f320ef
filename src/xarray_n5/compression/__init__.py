"""Bytes to bytes: what stands between a chunk's elements and its file.

A compression's members in ``attributes.json`` are its fields, in camel case. Adding one is a file
here and a line in the table; outsiders add theirs with :func:`register_compression`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from xarray_n5.compression.blosc import Blosc
from xarray_n5.compression.bzip2 import Bzip2
from xarray_n5.compression.gzip import Gzip
from xarray_n5.compression.lz4 import Lz4
from xarray_n5.compression.lzma import Lzma
from xarray_n5.compression.numcodecs import ALLOWED, Numcodecs
from xarray_n5.compression.raw import Raw
from xarray_n5.compression.xz import Xz
from xarray_n5.compression.zstd import Zstd
from xarray_n5.errors import MetadataError, UnknownCompressionError

if TYPE_CHECKING:
    from dataclasses import Field

__all__ = [
    "COMPRESSIONS",
    "Buffer",
    "Compression",
    "from_json",
    "register_compression",
    "resolve",
    "to_json",
]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes in a row; a memoryview's items may be wider than one."""


class Compression(Protocol):
    """A way to make bytes fewer: a frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def encode(self, data: Buffer) -> Buffer:
        """Return `data` compressed."""

    def decode(self, data: Buffer, size: int) -> Buffer:
        """Return what `data` holds, `size` bytes if all is well; raise where it is damaged."""


COMPRESSIONS: dict[str, type[Compression]] = {
    Raw.name: Raw,
    Gzip.name: Gzip,
    Bzip2.name: Bzip2,
    Xz.name: Xz,
    Lz4.name: Lz4,
    Blosc.name: Blosc,
    Zstd.name: Zstd,
    Lzma.name: Lzma,
}


def register_compression(kind: type[Compression]) -> None:
    """Add a compression to the table, under its name.

    Parameters
    ----------
    kind
        A frozen dataclass with a class variable ``name``, and ``encode`` and ``decode``.

    Raises
    ------
    ValueError
        If another one has that name.
    """
    if COMPRESSIONS.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"the compression {kind.name!r} exists; choose another name")


def resolve(compression: str | Mapping[str, Any] | Compression | None) -> Compression:
    """Return the compression that a user means: by name, by members, as it is; None is raw."""
    if compression is None:
        return Raw()
    if isinstance(compression, (str, Mapping)):
        return from_json(compression)
    return compression


def from_json(members: object) -> Compression:
    """Return the compression that a member of ``attributes.json`` describes.

    Members that are not known are passed over, those that are absent or null have their default.
    A text alone is a type without parameters, as ``compressionType`` was in the first N5.

    Raises
    ------
    MetadataError
        If a member has a value that it cannot have.
    UnknownCompressionError
        If the type is not known.
    """
    given = {"type": members} if isinstance(members, str) else members
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        raise MetadataError(f"'compression' is {members!r}; an object with a 'type' is needed")
    kind = COMPRESSIONS.get(given["type"])
    if kind is None:
        if given.get("id") in ALLOWED:
            return Numcodecs(tuple(given.items()))
        raise UnknownCompressionError(given["type"], COMPRESSIONS)
    values = {}
    for field in fields(kind):
        value = given.get(_camel(field.name))
        if value is not None:
            values[field.name] = _whole(value)
    try:
        return kind(**values)
    except ValueError as error:
        raise MetadataError(f"compression {given['type']!r}: {error}") from error


def to_json(compression: Compression) -> dict[str, Any]:
    """Return the members that describe `compression`: all of its parameters, and no others."""
    if isinstance(compression, Numcodecs):
        return dict(compression.members)
    members = {_camel(f.name): getattr(compression, f.name) for f in fields(compression)}
    return {"type": compression.name, **members}


def _camel(name: str) -> str:
    """Return a field's name in JSON.

    >>> _camel("use_zlib")
    'useZlib'
    """
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _whole(value: object) -> object:
    # Gson writes whole numbers as 6.0 at times.
    return int(value) if isinstance(value, float) and value.is_integer() else value
