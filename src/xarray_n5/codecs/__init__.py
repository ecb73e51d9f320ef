"""Codecs, which encode bytes as bytes.

The JSON members of a compression are its fields, in camel case. To add one, add a file and a line
in the table; users add theirs with :func:`register_compression`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from xarray_n5.codecs.blosc import Blosc
from xarray_n5.codecs.bzip2 import Bzip2
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.codecs.lz4 import Lz4, SizedLz4
from xarray_n5.codecs.lzma import Lzma, Xz
from xarray_n5.codecs.numcodecs import ALLOWED, KINDS, Numcodecs
from xarray_n5.codecs.raw import Raw
from xarray_n5.codecs.zstd import Zstd
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.model.json import as_int
from xarray_n5.model.metadata import Buffer, Compression

__all__ = [
    "COMPRESSIONS",
    "Buffer",
    "Compression",
    "config_of",
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
    """Register a compression under its name.

    Parameters
    ----------
    kind : type
        A frozen dataclass with a class variable ``name``, and the methods ``encode(data)`` and
        ``decode(data, size)``; its fields are the members of the JSON object. Tasks must be able to
        import it; they need not register it.

    Raises
    ------
    TypeError
        If `kind` is not such a class.
    ValueError
        If another compression has its name.

    Examples
    --------
    >>> import zlib
    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> @dataclass(frozen=True)
    ... class Zlib:
    ...     name: ClassVar[str] = "my-zlib"
    ...     level: int = 6
    ...
    ...     def encode(self, data):
    ...         return zlib.compress(data, self.level)
    ...
    ...     def decode(self, data, size):
    ...         return zlib.decompress(data)
    >>> xarray_n5.register_compression(Zlib)
    >>> array = xarray_n5.create_array(
    ...     "cells.n5", "raw", shape=(4,), dtype="uint8", compression="my-zlib"
    ... )
    >>> array[:] = 7
    >>> xarray_n5.open_array("cells.n5", "raw")[:]
    array([7, 7, 7, 7], dtype=uint8)
    """
    if not _is_compression_class(kind):
        raise TypeError(f"expected a dataclass with name, encode and decode, got {kind!r}")
    if COMPRESSIONS.setdefault(kind.name, kind) is not kind:
        raise ValueError(
            f"a compression named {kind.name!r} is already registered; choose another name"
        )


def resolve(compression: str | Mapping[str, Any] | Compression | None) -> Compression:
    """Return the compression for a user's name, members or instance; None is raw.

    Raises
    ------
    TypeError
        If it is none of these.
    MetadataError
        If a member is unknown or invalid.

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
        raise TypeError(
            f"compression is {compression!r}; expected a name, a dict, a Compression or None"
        )
    return compression


def _check_known(members: Mapping[str, Any], made: Compression) -> None:
    """Raise for unknown members, which are ignored only when they are read from files."""
    known = {_camel(field.name) for field in fields(made)}
    if isinstance(made, Numcodecs):
        known = set(KINDS[made.members["id"]][2])
    if unknown := sorted(members.keys() - known - {"type", "id"}):
        name = members.get("type", made.name)
        raise MetadataError(
            f"unknown parameters {unknown} of compression {name!r}; expected {sorted(known)}"
        )


def from_json(members: object) -> Compression:
    """Return the compression that JSON members describe.

    Unknown members are ignored; members that are absent or null have their defaults. A string is
    a type without parameters, as ``compressionType`` was in the first version of N5.

    Raises
    ------
    MetadataError
        If a member is invalid.
    UnknownCompressionError
        If the type is unknown.

    Examples
    --------
    >>> from_json({"type": "gzip", "level": 1.0})
    Gzip(level=1, use_zlib=False)
    """
    given = {"type": members} if isinstance(members, str) else members
    if isinstance(given, Mapping):
        match given:
            case {"type": Lz4.name, "id": "lz4"}:
                # zarr-python frames LZ4 differently.
                return Numcodecs(dict(given))
            case {"type": str(name)} if name in COMPRESSIONS:
                return _make(COMPRESSIONS[name], given)
            case {"id": str(codec)} if codec in ALLOWED:
                return Numcodecs(dict(given))
            case {"type": str(name)} | {"id": str(name)}:
                raise UnknownCompressionError(name, COMPRESSIONS)
    raise MetadataError(f"'compression' is {members!r}; expected an object with a 'type'")


def to_json(compression: Compression) -> dict[str, Any]:
    """Return the JSON members that describe `compression`.

    Examples
    --------
    >>> to_json(Gzip(level=1))
    {'type': 'gzip', 'level': 1, 'useZlib': False}
    """
    if isinstance(compression, Numcodecs):
        return dict(compression.members)
    members = {_camel(field.name): _written(field, compression) for field in fields(compression)}
    return {"type": compression.name, **members}


def config_of(compression: Compression) -> dict[str, Any] | None:
    """Return the configuration of numcodecs for a compression; None for raw bytes.

    Raises
    ------
    MetadataError
        If numcodecs has no such codec.

    Examples
    --------
    >>> config_of(Gzip(level=-1))
    {'id': 'gzip', 'level': 6}
    """
    match compression:
        case Raw():
            return None
        case Numcodecs(members=members):
            return {key: value for key, value in members.items() if key != "type"}
        case Xz(preset=preset):
            compression = Lzma(preset=preset)
        case Lz4():
            compression = SizedLz4()
    for name, (kind, usual, names) in KINDS.items():
        fixed = usual.keys() - set(names.values())
        same = all(getattr(compression, key, None) == usual[key] for key in fixed)
        if same and type(compression) is kind:
            members = to_json(compression)
            return {"id": name, **{key: members[_camel(field)] for key, field in names.items()}}
    raise MetadataError(
        f"Zarr has no compressor {compression.name!r}; choose gzip, zstd, blosc or another"
    )


def _is_compression_class(kind: object) -> bool:
    parts = (getattr(kind, part, None) for part in ("encode", "decode"))
    named = isinstance(kind, type) and isinstance(getattr(kind, "name", None), str)
    return named and is_dataclass(kind) and all(map(callable, parts))


def _make(kind: type[Compression], members: Mapping[str, object]) -> Compression:
    values: dict[str, Any] = {}
    for field in fields(kind):
        value = members.get(_camel(field.name))
        if value is not None:
            values[field.name] = as_int(value)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise MetadataError(
                f"compression {kind.name!r}: missing parameter {_camel(field.name)!r}"
            )
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise MetadataError(f"compression {kind.name!r}: {error}") from error


def _camel(name: str) -> str:
    """Return a field's name in JSON: ``use_zlib`` is ``useZlib``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _written(field: Field[Any], compression: Compression) -> Any:
    value, instead = getattr(compression, field.name), field.metadata.get("written")
    return instead.get(value, value) if instead else value
