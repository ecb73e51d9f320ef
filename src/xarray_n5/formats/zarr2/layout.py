"""How Zarr v2 arrays store their elements: compressor, filters and order.

A chunk is always full size, and goes through the filters in order, then the compressor.
"""

from __future__ import annotations

import functools
import json
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.codecs import config_of
from xarray_n5.codecs.lz4 import Lz4
from xarray_n5.codecs.numcodecs import COMPRESSORS, OTHER_CODEC, Numcodecs, codec_of
from xarray_n5.codecs.raw import Raw
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.formats.pipeline import FILTERS, OBJECTS, Bytes, Fixed, Pipeline, Varying, steps
from xarray_n5.formats.values import LARGEST, given_fill, parse_fill
from xarray_n5.model.metadata import UNMASKED, ArrayMetadata, Content
from xarray_n5.model.units import check_time_units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.model.metadata import Compression

MEMBERS = ("order", "dimension_separator", "filters", "fill_value", "dtype")
"""The members that users may set; all others follow from the array."""

TEXTS = "vlen-utf8"
"""The filter that encodes objects, which must be strings."""

_ROUNDING = frozenset({"quantize", "fixedscaleoffset", "bitround", "astype"})
"""Filters that may be lossy, which is accepted if users ask for them."""

_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute that makes an array a variable to xarray."""

_WHERE = "layout"

_MOST_FILTERS = 32


_SIMPLE = re.compile(r"[<>|=](?:[biufcSUV]\d+|O|[Mm]8\[\w+\])")


@dataclass(frozen=True, slots=True)
class Zarr2Layout:
    """The members of a ``.zarray`` that define the storage of chunks."""

    dtype: np.dtype[Any]
    """The type of a stored element, in its byte order."""
    order: str = "C"
    """Whether elements are in C order ("C") or in Fortran order ("F")."""
    separator: str = "."
    """The separator of the numbers in a chunk's key."""
    filters: tuple[str, ...] = ()
    """The configurations of filters, in the order in which they encode."""
    filled: bool = True
    """Whether the metadata have a fill value."""
    masks: bool = True
    """Whether elements that equal the fill value are masked, as by xarray."""
    other_filters: ClassVar[str] = ""


def complete(metadata: ArrayMetadata, layout: Mapping[str, Any] | None = None) -> ArrayMetadata:
    """Return a new array's metadata with its layout.

    By default, elements are little-endian, in C order and without filters, except the one for
    strings. The fill value is zero; if dimensions are named, there is none, since xarray would mask
    elements that are equal to it, unless an attribute states that it does not mask.

    Raises
    ------
    MetadataError
        If a member is not one of Zarr v2's, or does not fit the array.
    UnknownCompressionError
        If a filter is unknown.
    """
    given = dict(layout or {})
    if unknown := sorted(given.keys() - set(MEMBERS)):
        raise MetadataError(
            f"{_WHERE}: unknown members {unknown}; expected some of {list(MEMBERS)}"
        )
    stored = _dtype(metadata.dtype, given)
    order, separator = order_and_separator(given, _WHERE)
    filters = _filters(given.get("filters"), stored, metadata.chunks)
    _check_filters(filters, stored)
    fill = given_fill(given.get("fill_value"), stored, _WHERE)
    filled, unmasked = fill is not None, UNMASKED in metadata.attributes
    if "fill_value" not in given:
        filled = _DIMENSIONS not in metadata.attributes or unmasked
    return replace(
        metadata,
        dtype=stored.newbyteorder("="),
        content=content_of(stored, filters),
        fill=parse_fill(fill, stored, _WHERE),
        layout=Zarr2Layout(stored, order, separator, filters, filled, filled and not unmasked),
    )


def order_and_separator(members: Mapping[str, Any], where: str) -> tuple[str, str]:
    """Return the order of elements and the separator of keys, by default "C" and "."."""
    order, separator = members.get("order", "C"), members.get("dimension_separator") or "."
    if order not in ("C", "F") or separator not in (".", "/"):
        raise MetadataError(
            f"{where}: 'order' is {order!r} and 'dimension_separator' {separator!r}; expected 'C' "
            "or 'F', and '.' or '/'"
        )
    return order, separator


def content_of(stored: np.dtype[Any], filters: tuple[str, ...]) -> Content:
    """Return the content of chunks: among objects, only strings can be written."""
    if stored.kind != "O":
        return Content.NUMBERS
    return Content.TEXTS if f'"{TEXTS}"' in filters[0] else Content.STRINGS


def _dtype(dtype: np.dtype[Any], given: Mapping[str, Any]) -> np.dtype[Any]:
    """Return the type of a stored element: that of the array, in the given byte order."""
    usual = parse_dtype(dtype_to_json(dtype.newbyteorder("<")), _WHERE)
    if given.get("dtype") is None:
        return usual
    stored = parse_dtype(given["dtype"], _WHERE)
    if stored.newbyteorder("=") != usual.newbyteorder("="):
        raise MetadataError(
            f"{_WHERE}: 'dtype' is {given['dtype']!r}, but the array's elements are {usual}; only "
            "the byte order can be chosen, as in '>f4'"
        )
    return stored


def _filters(configs: Any, stored: np.dtype[Any], chunks: tuple[int, ...]) -> tuple[str, ...]:
    objects = stored.kind == "O"
    usual = [{"id": TEXTS}] if objects else None
    filters = parse_filters(configs or usual, stored, chunks, _WHERE)
    if objects and content_of(stored, filters) is not Content.TEXTS:
        others = sorted(OBJECTS - {TEXTS})
        raise MetadataError(f"{_WHERE}: expected the filter {TEXTS!r} for objects, got {others}")
    return filters


def _check_filters(filters: tuple[str, ...], stored: np.dtype[Any]) -> None:
    """Raise if filters that should be lossless for such elements are not."""
    names = {json.loads(config)["id"] for config in filters}
    if not filters or names & _ROUNDING or stored.kind == "O":
        return
    other = b"\1" if stored.kind == "b" else b"\2"
    probe = np.frombuffer(bytes(stored.itemsize) + other * stored.itemsize, stored)
    pipeline = _pipeline(filters, stored, "C", probe.shape, Raw())
    try:
        same = pipeline.decode(pipeline.encode(probe)).tobytes() == probe.tobytes()
    except Exception as error:  # codecs raise errors of any type
        raise MetadataError(f"{_WHERE}: 'filters' {sorted(names)} fail: {error}") from error
    if not same:
        raise MetadataError(f"{_WHERE}: 'filters' {sorted(names)} do not restore {stored}")


def pipeline_of(metadata: ArrayMetadata) -> Pipeline:
    """Return the codecs of an array's chunks, as those of Zarr v3."""
    layout: Zarr2Layout = metadata.layout
    chunks, compression = metadata.chunks, metadata.compression
    return _pipeline(layout.filters, layout.dtype, layout.order, chunks, compression)


@functools.lru_cache(maxsize=256)
def _pipeline(
    filters: tuple[str, ...],
    dtype: np.dtype[Any],
    order: str,
    chunks: tuple[int, ...],
    compression: Compression,
) -> Pipeline:
    axes = tuple(range(len(chunks)))[::-1] if order == "F" else None
    shape = chunks[::-1] if order == "F" else chunks
    objects = dtype.kind == "O"
    serializer = Varying(json.loads(filters[0])["id"], shape) if objects else Fixed(dtype, shape)
    codecs = steps(filters[objects:], math.prod(chunks))
    if not isinstance(compression, Raw):
        # LZ4 has another framing than Java's.
        config = config_of(compression) or {}
        lz4 = Numcodecs({"id": "lz4", "acceleration": 1})
        codecs.append(Bytes(lz4 if isinstance(compression, Lz4) else compression, config["id"]))
    return Pipeline(chunks, dtype.newbyteorder("="), axes, serializer, tuple(codecs))


def parse_compressor(config: Any, where: str) -> Compression:
    """Return the compression of a ``compressor`` configuration; None means uncompressed.

    Raises
    ------
    MetadataError
        If it is not a configuration.
    UnknownCompressionError
        If its codec is unknown.
    """
    if config is None:
        return Raw()
    name = config.get("id") if isinstance(config, dict) else None
    if isinstance(name, str) and name not in COMPRESSORS:
        raise UnknownCompressionError(name, COMPRESSORS, where, OTHER_CODEC)
    try:
        return Numcodecs(dict(config)) if name == "lz4" else codec_of(config if name else {})
    except (MetadataError, TypeError, ValueError) as error:
        raise MetadataError(f"{where}: 'compressor' is {config!r}: {error}") from error


def parse_filters(
    value: Any, dtype: np.dtype[Any], chunks: tuple[int, ...], where: str
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
    configs = [] if value is None else value
    if not isinstance(configs, list) or not all(
        isinstance(config, dict) and isinstance(config.get("id"), str) for config in configs
    ):
        raise MetadataError(
            f"{where}: 'filters' is {str(value)[:200]}; expected a list of objects with an 'id'"
        )
    if len(configs) > _MOST_FILTERS:
        raise MetadataError(
            f"{where}: expected at most {_MOST_FILTERS} filters, got {len(configs)}"
        )
    for place, config in enumerate(configs):
        name = config["id"]
        if name not in (OBJECTS | FILTERS if objects and place == 0 else FILTERS):
            raise UnknownCompressionError(name, FILTERS | OBJECTS, where, OTHER_CODEC)
    if objects and not (configs and configs[0]["id"] in OBJECTS):
        raise MetadataError(f"{where}: objects require a first filter of {sorted(OBJECTS)}")
    filters = tuple(json.dumps(config, sort_keys=True) for config in configs)
    try:
        steps(filters[objects:], math.prod(chunks))
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error
    return filters


# Types


def parse_dtype(value: object, where: str) -> np.dtype[Any]:
    """Return the type of a stored element, in the stored byte order.

    Raises
    ------
    MetadataError
        If it is not a type of Zarr v2.

    Examples
    --------
    >>> parse_dtype([["x", "<i4"], ["y", "|S2", [3]]], "here").itemsize
    10
    """
    try:
        _check_dtype(value)
        dtype: np.dtype[Any] = np.dtype(_as_numpy(value))
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise MetadataError(
            f"{where}: 'dtype' is {str(value)[:200]!r}, which is not a type of Zarr v2: {error}"
        ) from error
    if not 0 < dtype.itemsize <= LARGEST:
        raise MetadataError(f"{where}: 'dtype' has elements of {dtype.itemsize} bytes")
    return dtype


def _check_dtype(value: object) -> None:
    match value:
        case str() if _SIMPLE.fullmatch(value):
            check_time_units(value)
        case [*fields] if fields:
            for field in fields:
                if not isinstance(field, list) or len(field) not in {2, 3}:
                    raise ValueError("expected a field with a name, a type and an optional shape")
                if isinstance(field[1], str) and field[1].endswith("O"):
                    raise ValueError("objects in fields cannot be decoded")
                _check_dtype(field[1])
        case _:
            raise ValueError("expected a type such as '<f4', or a list of fields")


def _as_numpy(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return [
        (str(name), _as_numpy(kind), *(tuple(shape) for shape in rest))
        for name, kind, *rest in value
    ]


def dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """Return the name of a type in a ``.zarray``.

    >>> dtype_to_json(np.dtype([("x", "<i4"), ("y", "S2", (3,))]))
    [['x', '<i4'], ['y', '|S2', [3]]]
    """
    if dtype.names is None:
        return dtype.str
    fields = []
    for name in dtype.names:
        inner = dtype.fields[name][0] if dtype.fields else dtype
        base, shape = inner.subdtype or (inner, ())
        fields.append([name, dtype_to_json(base), *([list(shape)] if shape else [])])
    return fields
