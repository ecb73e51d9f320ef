"""Bytes to bytes: what stands between a chunk's elements and its file.

A compression's members in ``attributes.json`` are its fields, in camel case. Adding one is a file
here and a line in the table; outsiders add theirs with :func:`register_compression`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from xarray_n5.codecs.blosc import Blosc
from xarray_n5.codecs.bzip2 import Bzip2
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.codecs.lz4 import Lz4
from xarray_n5.codecs.lzma import Lzma
from xarray_n5.codecs.numcodecs import ALLOWED, Numcodecs
from xarray_n5.codecs.raw import Raw
from xarray_n5.codecs.xz import Xz
from xarray_n5.codecs.zstd import Zstd
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.model.codec import Buffer, Compression

__all__ = [
    "COMPRESSIONS",
    "Buffer",
    "Compression",
    "from_json",
    "register_compression",
    "resolve",
    "to_json",
]


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
        A frozen dataclass with a class variable ``name``, and ``encode`` and ``decode``. Tasks
        must be able to import it; they need not register it.

    Raises
    ------
    TypeError
        If it is not such a class.
    ValueError
        If another one has that name.
    """
    if not _is_compression_class(kind):
        raise TypeError(f"{kind!r} is no dataclass with a name, encode and decode")
    if COMPRESSIONS.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"the compression {kind.name!r} exists; choose another name")


def resolve(compression: str | Mapping[str, Any] | Compression | None) -> Compression:
    """Return the compression that a user means: by name, by members, as it is; None is raw.

    Raises
    ------
    TypeError
        If it is none of these.
    MetadataError
        If a member is unknown or has a value that it cannot have.

    Examples
    --------
    >>> resolve("xz")
    Xz(preset=6)
    """
    if compression is None:
        return Raw()
    if isinstance(compression, (str, Mapping)):
        made = from_json(compression)
        if isinstance(compression, Mapping):
            _check_known(compression, made)
        return made
    if not _is_compression_class(type(compression)):
        raise TypeError(f"{compression!r} is no compression's name, members or instance")
    return compression


def _check_known(members: Mapping[str, Any], made: Compression) -> None:
    """Raise where users name members that mean nothing: in a file they are somebody else's."""
    own = made.known if isinstance(made, Numcodecs) else set(map(_member, fields(made)))
    if unknown := sorted(members.keys() - own - {"type", "id"}):
        name = members.get("type", made.name)
        raise MetadataError(f"compression {name!r} has no {unknown}; expected {sorted(own)}")


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

    Examples
    --------
    >>> from_json({"type": "gzip", "level": 1.0})
    Gzip(level=1, use_zlib=False)
    """
    given = {"type": members} if isinstance(members, str) else members
    if isinstance(given, Mapping):
        match given:
            case {"type": Lz4.name, "id": "lz4"}:
                # zarr-python's framing is its own; what is written there must be so, too.
                return Numcodecs(dict(given))
            case {"type": str(name)} if name in COMPRESSIONS:
                return _make(COMPRESSIONS[name], given)
            case {"id": str(codec)} if codec in ALLOWED:
                return Numcodecs(dict(given))
            case {"type": str(name)} | {"id": str(name)}:
                raise UnknownCompressionError(name, COMPRESSIONS)
    raise MetadataError(f"'compression' is {members!r}; an object with a 'type' is needed")


def to_json(compression: Compression) -> dict[str, Any]:
    """Return the members that describe `compression`: all of its parameters, and no others.

    Examples
    --------
    >>> to_json(Gzip(level=1))
    {'type': 'gzip', 'level': 1, 'useZlib': False}
    """
    if isinstance(compression, Numcodecs):
        return dict(compression.members)
    members = {_member(field): _written(field, compression) for field in fields(compression)}
    return {"type": compression.name, **members}


def _is_compression_class(kind: object) -> bool:
    parts = (getattr(kind, part, None) for part in ("encode", "decode"))
    named = isinstance(kind, type) and isinstance(getattr(kind, "name", None), str)
    return named and is_dataclass(kind) and all(map(callable, parts))


def _make(kind: type[Compression], members: Mapping[str, object]) -> Compression:
    values: dict[str, Any] = {}
    for field in fields(kind):
        found = members.get(_member(field))
        if found is not None:
            values[field.name] = _whole(found)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise MetadataError(f"compression {kind.name!r} needs the member {_member(field)!r}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise MetadataError(f"compression {kind.name!r}: {error}") from error


def _member(field: Field[Any]) -> str:
    """Return a field's name in JSON: ``use_zlib`` is ``useZlib``."""
    first, *rest = field.name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _written(field: Field[Any], compression: Compression) -> Any:
    value = getattr(compression, field.name)
    instead = field.metadata.get("written")
    return instead.get(value, value) if instead else value


def _whole(value: object) -> object:
    # Gson writes whole numbers as 6.0 at times.
    return int(value) if isinstance(value, float) and value.is_integer() else value
