"""The ``codecs`` of a ``zarr.json``: parsed from JSON, and written for a compression.

Sources: the specifications of the core codecs; zarr-extensions for zstd, vlen-utf8 and vlen-bytes;
zarr-python for the codecs of numcodecs.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from xarray_n5.codecs import Compression, config_of, from_json, to_json
from xarray_n5.codecs.numcodecs import ALLOWED, COMPRESSORS, OTHER_CODEC, Numcodecs, codec_of
from xarray_n5.codecs.streams import bytes_of
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.formats.pipeline import Bytes, Fixed, Pipeline, Sharding, Varying
from xarray_n5.formats.zarr2 import layout as zarr2
from xarray_n5.formats.zarr3.types import extension, named
from xarray_n5.model.json import check_boolean, check_choice, check_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.formats.pipeline import Serializer
    from xarray_n5.model.metadata import Buffer

_MOST_CODECS, _MOST_DEPTH = 32, 4
"""The maximum number of codecs in a chain, and of nested shards."""

_MOST_INNER = 1 << 24
"""The maximum number of inner chunks of a shard: its index has 16 bytes for each."""

_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")

SERIALIZERS = ("bytes", "endian", "vlen-utf8", "vlen-bytes", "sharding_indexed")

_NAMES = ("transpose", *SERIALIZERS, "blosc", "crc32c", "gzip", "zstd", "numcodecs.")

KNOWN = (*_NAMES[:-1], *(f"numcodecs.{name}" for name in ALLOWED))
"""The codecs that are supported."""


@dataclass(frozen=True, slots=True)
class _Blosc:
    """Blosc that shuffles by a configured size of elements, whatever its input."""

    name: ClassVar[str] = "blosc"
    blosc: Compression
    typesize: int

    def encode(self, data: Buffer) -> Buffer:
        view = bytes_of(data)
        whole = len(view) % self.typesize == 0
        return self.blosc.encode(np.frombuffer(view, f"V{self.typesize}").data if whole else view)

    def decode(self, data: Buffer, size: int) -> Buffer:
        return self.blosc.decode(data, size)


class Elements(NamedTuple):
    """The input of a chain of codecs."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: Any
    """The value of elements that are not stored."""
    depth: int = 0
    """The number of enclosing shards."""


def parse(codecs: Any, given: Elements, where: str) -> Pipeline:
    """Return a chain of codecs.

    Raises
    ------
    MetadataError
        If it is not a valid chain, or does not fit the chunks.
    UnknownCompressionError
        If a codec is unknown.
    """
    proper = isinstance(codecs, list) and 0 < len(codecs) <= _MOST_CODECS
    if not proper or given.depth > _MOST_DEPTH:
        raise MetadataError(f"{where}: 'codecs' is {str(codecs)[:200]}; expected a list of codecs")
    with _naming(codecs, where):
        steps = [named(codec) for codec in codecs if not _may_be_ignored(codec)]
    made = [n for n, (name, _) in enumerate(steps) if name in SERIALIZERS]
    if len(made) != 1:
        raise MetadataError(
            f"{where}: expected one codec from array to bytes, such as 'bytes'; got {len(made)}"
        )
    order = list(range(len(given.shape)))
    for name, members in steps[: made[0]]:
        with _naming(name, where):
            order = [order[axis] for axis in _permutation(name, members, len(order), where)]
    name, members = steps[made[0]]
    inside = given._replace(shape=tuple(given.shape[axis] for axis in order))
    with _naming(name, where):
        serializer = _serializer(name, members, inside, where)
    compressors = []
    for name, members in steps[made[0] + 1 :]:
        with _naming(name, where):
            compressors.append(_compressor(name, members, where))
    changed = tuple(order) if order != sorted(order) else None
    return Pipeline(given.shape, given.dtype, changed, serializer, tuple(compressors))


@contextlib.contextmanager
def _naming(codec: object, where: str) -> Iterator[None]:
    """Convert errors of a codec's configuration to metadata errors that name it."""
    try:
        yield
    except UnknownCompressionError:
        raise
    except (MetadataError, TypeError, ValueError, KeyError, OverflowError) as error:
        raise MetadataError(f"{where}: codec {str(codec)[:200]!r}: {error}") from error


def _may_be_ignored(codec: Any) -> bool:
    """Return whether a codec is unknown, and may be ignored."""
    optional = isinstance(codec, dict) and codec.get("must_understand") is False
    return optional and not str(codec.get("name")).startswith(_NAMES)


def _permutation(name: str, members: Mapping[str, Any], ndim: int, where: str) -> tuple[int, ...]:
    if name != "transpose":
        raise UnknownCompressionError(name, KNOWN, where, OTHER_CODEC)
    order = members.get("order")
    if order in ("C", "F"):  # the first implementations wrote these
        return tuple(range(ndim))[:: 1 if order == "C" else -1]
    if not isinstance(order, list) or sorted(order) != list(range(ndim)):
        raise MetadataError(f"'order' is {order!r}; expected a permutation of {ndim} axes")
    return tuple(order)


def _serializer(name: str, members: Mapping[str, Any], given: Elements, where: str) -> Serializer:
    if name == "sharding_indexed":
        return _sharding(members, given, where)
    shape, dtype = given.shape, given.dtype
    varying = name.startswith("vlen-")
    if varying != dtype.hasobject:
        raise MetadataError(f"it does not support elements of {dtype}")
    if varying:
        return Varying(name, shape)
    endian = members.get("endian") or "little"
    check_choice("endian", endian, ("little", "big"))
    if dtype.names is not None:  # as zarr-python, the only writer of such types, stores them
        endian = "little"
    return Fixed(dtype.newbyteorder("<" if endian == "little" else ">"), shape)


def _sharding(members: Mapping[str, Any], given: Elements, where: str) -> Sharding:
    shape, sides = given.shape, members["chunk_shape"]
    location = members.get("index_location", "end")
    check_choice("index_location", location, ("start", "end"))
    proper = isinstance(sides, list) and len(sides) == len(shape)
    if not proper or not all(type(n) is int and n > 0 for n in sides):
        raise MetadataError(f"'chunk_shape' is {sides!r}; expected {len(shape)} whole numbers")
    if any(size % side for size, side in zip(shape, sides, strict=True)):
        raise MetadataError(f"'chunk_shape' is {sides}, which does not divide the shard {shape}")
    counts = tuple(size // side for size, side in zip(shape, sides, strict=True))
    if math.prod(counts) > _MOST_INNER:
        raise MetadataError(f"expected at most {_MOST_INNER} inner chunks, got {math.prod(counts)}")
    depth = given.depth + 1
    inner = parse(members["codecs"], given._replace(shape=tuple(sides), depth=depth), where)
    places = Elements((*counts, 2), np.dtype(np.uint64), 0, depth)
    index = parse(members["index_codecs"], places, where)
    if not index.sizes[-1].exact:
        raise MetadataError("'index_codecs' compress, but the size of an index must be constant")
    return Sharding(shape, inner, index, location == "start", given.fill)


def _compressor(name: str, members: Mapping[str, Any], where: str) -> Bytes:
    """Return a codec from bytes to bytes."""
    match name:
        case "gzip":
            return Bytes(from_json({"type": "gzip", "level": members.get("level", 5)}), "gzip")
        case "zstd":
            # Checksums are written in any case: all decoders compare them.
            check_boolean("checksum", members.get("checksum", False))
            return Bytes(from_json({"type": "zstd", "level": members.get("level", 0)}), "zstd")
        case "blosc":
            return Bytes(_blosc(members), "blosc")
        case "crc32c":
            return Bytes(codec_of({"id": "crc32c", "location": "end"}), "crc32c")
    plain = name.removeprefix("numcodecs.")
    if plain == name or plain not in ALLOWED:
        raise UnknownCompressionError(name, KNOWN, where, OTHER_CODEC)
    config = {**members, "id": plain}
    return Bytes(
        zarr2.parse_compressor(config, where) if plain in COMPRESSORS else codec_of(config), plain
    )


def _blosc(members: Mapping[str, Any]) -> Compression:
    shuffle = members.get("shuffle", "noshuffle")
    check_choice("shuffle", shuffle, _SHUFFLES)
    typesize = members.get("typesize", 1) if shuffle != "noshuffle" else 1
    check_range("typesize", typesize, 1, 255)
    known = {key: members[key] for key in ("cname", "clevel", "blocksize") if key in members}
    return _Blosc(
        from_json({"type": "blosc", "shuffle": _SHUFFLES.index(shuffle), **known}), typesize
    )


def compression_of(pipeline: Pipeline) -> Compression:
    """Return the compression of chunks, as users see it; of shards, that of inner chunks."""
    while isinstance(pipeline.serializer, Sharding):
        pipeline = pipeline.serializer.inner
    for step in pipeline.compressors:
        if not step.is_exact:
            return step.codec.blosc if isinstance(step.codec, _Blosc) else step.codec
    return from_json("raw")


def codecs_for(
    compression: Compression, dtype: np.dtype[Any], *, inner: Sequence[int] | None, at_start: bool
) -> list[dict[str, Any]]:
    """Return the codecs of a new array; with `inner`, of shards of such chunks.

    Raises
    ------
    MetadataError
        If Zarr v3 has no codec for the compression.
    """
    size = dtype.itemsize
    if dtype.hasobject:
        first: dict[str, Any] = {"name": "vlen-utf8"}
    elif size == 1 or dtype.kind in "SV":
        first = {"name": "bytes"}
    else:
        first = extension("bytes", endian="little")
    compressed = compressor_to_json(compression, size)
    chain = [first, *([] if compressed is None else [compressed])]
    return chain if inner is None else sharded(chain, inner, at_start=at_start)


def sharded(
    chain: list[dict[str, Any]], inner: Sequence[int], *, at_start: bool
) -> list[dict[str, Any]]:
    """Return the codecs of shards whose chunks have a shape and a chain of codecs."""
    return [
        extension(
            "sharding_indexed",
            chunk_shape=list(inner),
            codecs=chain,
            index_codecs=[extension("bytes", endian="little"), {"name": "crc32c"}],
            index_location="start" if at_start else "end",
        )
    ]


def compressor_to_json(compression: Compression, itemsize: int) -> dict[str, Any] | None:
    """Return the codec of a compression; None for raw bytes."""
    members = to_json(compression)
    match None if isinstance(compression, Numcodecs) else members["type"]:
        case "gzip" if not members["useZlib"]:
            return extension("gzip", level=members["level"])
        case "zstd":
            return extension("zstd", level=members["level"], checksum=True)
        case "blosc":
            # Optional without shuffling, but n5-zarr does not decode chunks if it is missing.
            return extension(
                "blosc",
                cname=members["cname"],
                clevel=members["clevel"],
                shuffle=_SHUFFLES[members["shuffle"]],
                typesize=min(itemsize, 255),
                blocksize=members["blocksize"],
            )
    config = config_of(compression)
    return None if config is None else extension(f"numcodecs.{config.pop('id')}", **config)
