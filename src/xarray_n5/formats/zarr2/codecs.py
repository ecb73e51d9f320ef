"""Compressors and filters of Zarr v2: numcodecs' configurations, from a list of known ones."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from xarray_n5.codecs import COMPRESSIONS, from_json, to_json
from xarray_n5.codecs.lz4 import Lz4
from xarray_n5.codecs.numcodecs import Numcodecs
from xarray_n5.codecs.raw import Raw
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.formats.zarr2.filters import FILTERS, OBJECTS, chain

if TYPE_CHECKING:
    import numpy as np

    from xarray_n5.model.codec import Compression

_MOST_FILTERS = 32


def parse_compressor(config: Any, where: str) -> Compression:
    """Return the compression of a ``compressor`` configuration; None means uncompressed.

    Raises
    ------
    MetadataError
        If it is not a configuration.
    UnknownCompressionError
        If its codec is unknown.
    """
    try:
        return _compressor(config, where)
    except UnknownCompressionError:
        raise
    except (MetadataError, TypeError, ValueError) as error:
        raise MetadataError(f"{where}: 'compressor' is {config!r}: {error}") from error


def _compressor(config: Any, where: str) -> Compression:
    match config:
        case None:
            return Raw()
        case {"id": "gzip"}:
            return from_json({"type": "gzip", "level": config.get("level", 1)})
        case {"id": "zlib"}:
            return from_json({"type": "gzip", "level": config.get("level", 1), "useZlib": True})
        case {"id": "bz2"}:
            return from_json({"type": "bzip2", "blockSize": config.get("level", 1)})
        case {"id": "blosc" | "zstd" | "lzma" as name}:
            return from_json({**config, "type": name})
        case {"id": "lz4"}:
            return Numcodecs(dict(config))
        case {"id": str(name)}:
            raise UnknownCompressionError(name, COMPRESSIONS, where)
    raise MetadataError("expected an object with an 'id'")


def compressor_to_json(compression: Compression) -> Any:  # noqa: PLR0911 - a line for each
    """Return the ``compressor`` that describes a compression.

    Raises
    ------
    MetadataError
        If Zarr v2 has no such compressor.
    """
    members = to_json(compression)
    if isinstance(compression, Numcodecs):
        return {key: value for key, value in members.items() if key != "type"}
    kind = members.pop("type")
    match kind:
        case "raw":
            return None
        case "gzip":
            return {"id": "zlib" if members["useZlib"] else "gzip", "level": members["level"]}
        case "bzip2":
            return {"id": "bz2", "level": members["blockSize"]}
        case "xz":
            settings = {"format": 1, "check": -1, "preset": members["preset"], "filters": None}
            return {"id": "lzma", **settings}
        case "lz4":
            return {"id": "lz4", "acceleration": 1}
        case "blosc" | "zstd" | "lzma":
            return {"id": kind, **members}
    raise MetadataError(f"Zarr v2 has no compressor {kind!r}; choose gzip, zstd, blosc or another")


def as_zarr(compression: Compression) -> Compression:
    """Return the compression in Zarr v2's framing; lz4's differs from Java's."""
    return (
        Numcodecs({"id": "lz4", "acceleration": 1}) if isinstance(compression, Lz4) else compression
    )


def parse_filters(
    found: Any, dtype: np.dtype[Any], chunks: tuple[int, ...], where: str
) -> tuple[str, ...]:
    """Return the configurations of filters, in the order in which they encode.

    Raises
    ------
    MetadataError
        If they are not a list of configurations, do not fit the chunks, or do not encode objects,
        which need a filter.
    UnknownCompressionError
        If one is unknown, or could run code.
    """
    objects = dtype.kind == "O"
    configs = [] if found is None else found
    if not isinstance(configs, list) or not all(
        isinstance(each, dict) and isinstance(each.get("id"), str) for each in configs
    ):
        raise MetadataError(
            f"{where}: 'filters' is {str(found)[:200]}; expected a list of objects with an 'id'"
        )
    if len(configs) > _MOST_FILTERS:
        raise MetadataError(
            f"{where}: expected at most {_MOST_FILTERS} filters, got {len(configs)}"
        )
    for place, config in enumerate(configs):
        name = config["id"]
        if name not in (OBJECTS | FILTERS if objects and place == 0 else FILTERS):
            raise UnknownCompressionError(name, sorted(FILTERS | OBJECTS), where)
    if objects and not (configs and configs[0]["id"] in OBJECTS):
        raise MetadataError(f"{where}: objects require a first filter of {sorted(OBJECTS)}")
    filters = tuple(json.dumps(each, sort_keys=True) for each in configs)
    try:
        chain(filters, dtype, math.prod(chunks))
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error
    return filters
