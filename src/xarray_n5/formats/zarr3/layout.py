"""The storage of an array's elements, and the members of a ``zarr.json`` that define it."""

from __future__ import annotations

import base64
import functools
import json
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.formats.pipeline import Sharding
from xarray_n5.formats.values import NOT_A_TIME, fill_to_json, given_fill, parse_fill
from xarray_n5.formats.zarr3 import types
from xarray_n5.formats.zarr3.codecs import (
    SERIALIZERS,
    Elements,
    codecs_for,
    compression_of,
    parse,
    sharded,
)
from xarray_n5.model.metadata import ArrayMetadata, Content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.formats.pipeline import Pipeline

MEMBERS = ("chunk_key_encoding", "codecs", "fill_value", "index_location", "_FillValue")
"""The members that users may set; all others follow from the array.

If dimensions are named, a fill value also masks elements for xarray, unless the attribute
``_FillValue``, which is xarray's, overrides it; None means no mask.
"""

NAMES = "_ARRAY_DIMENSIONS"
"""The attribute that holds ``dimension_names``, as in Zarr v2."""

MASK = "_FillValue"
"""The attribute in which xarray stores the value that masks elements."""

_WHERE = "layout"

_SEPARATORS = {"default": "/", "v2": "."}


@dataclass(frozen=True, slots=True)
class Zarr3Layout:
    """The members of a ``zarr.json`` that define the storage of chunks, as JSON."""

    data_type: str
    fill: str
    codecs: str
    keys: str = "default"
    """The encoding of chunks' keys: "default" or "v2"."""
    separator: str = "/"
    mask: Any = None
    """The value that masks elements for xarray, if any."""
    filled: ClassVar[bool] = True
    other_filters: ClassVar[str] = ""

    @property
    def masks(self) -> bool:
        """Whether a value masks elements."""
        return self.mask is not None


def pipeline_of(metadata: ArrayMetadata) -> Pipeline:
    """Return the codecs of an array's chunks."""
    return _pipeline(metadata.layout.codecs, metadata.layout.fill, metadata.chunks, metadata.dtype)


@functools.lru_cache(maxsize=256)
def _pipeline(codecs: str, fill: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Pipeline:
    value = parse_fill(json.loads(fill), dtype, "")
    return parse(json.loads(codecs), Elements(shape, dtype, value), "")


def described(
    members: Mapping[str, Any],
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    attributes: Mapping[str, Any],
    where: str,
) -> ArrayMetadata:
    """Return an array's metadata; `members` of its document define how chunks are stored.

    Raises
    ------
    MetadataError, UnknownCompressionError
        If they are invalid, or not supported.
    """
    dtype = types.parse_type(members.get("data_type"), where)
    fill = parse_fill(members.get("fill_value"), dtype, where)
    codecs = members.get("codecs")
    pipeline = parse(codecs, Elements(chunks, dtype, fill), where)
    keys, separator = _keys(members.get("chunk_key_encoding"), where)
    mask = attributes.get(MASK)
    if mask is not None:
        try:
            mask = decode_mask(mask, dtype)
        except (TypeError, ValueError, OverflowError):
            mask = None
        else:
            attributes = {key: value for key, value in attributes.items() if key != MASK}
    inner = None
    if isinstance(pipeline.serializer, Sharding) and pipeline.order is None:
        inner = pipeline.serializer.inner.shape if not pipeline.compressors else None
    return ArrayMetadata(
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        inner=inner,
        compression=compression_of(pipeline),
        attributes=attributes,
        content=_content(members["data_type"], dtype),
        fill=fill,
        layout=Zarr3Layout(
            json.dumps(members["data_type"], sort_keys=True),
            json.dumps(members.get("fill_value")),
            json.dumps(codecs, sort_keys=True),
            keys,
            separator,
            mask,
        ),
    )


def complete(metadata: ArrayMetadata, layout: Mapping[str, Any] | None = None) -> ArrayMetadata:
    """Return a new array's metadata with its layout.

    Raises
    ------
    MetadataError
        If a member is not one of Zarr v3's, or does not fit the array.
    """
    given = {key: value for key, value in (layout or {}).items() if value is not None}
    if unknown := sorted(given.keys() - set(MEMBERS)):
        raise MetadataError(
            f"{_WHERE}: unknown members {unknown}; expected some of {list(MEMBERS)}"
        )
    location = given.get("index_location", "end")
    if location not in ("start", "end"):
        raise MetadataError(
            f"{_WHERE}: 'index_location' is {location!r}; expected 'start' or 'end'"
        )
    if metadata.inner is not None:
        check_shards(metadata.chunks, metadata.inner)
    dtype = metadata.dtype.newbyteorder("=")
    fill = given_fill(given.get("fill_value", _zero(dtype)), dtype, _WHERE, exact=True)
    codecs = given.get("codecs") or codecs_for(
        metadata.compression, dtype, inner=metadata.inner, at_start=location == "start"
    )
    members = {
        "data_type": types.type_to_json(dtype, _WHERE),
        "fill_value": fill,
        "codecs": codecs,
        "chunk_key_encoding": given.get("chunk_key_encoding", "default"),
    }
    shape, chunks, attributes = metadata.shape, metadata.chunks, metadata.attributes
    made = described(members, shape, chunks, attributes, _WHERE)
    mask = made.fill if "fill_value" in given and NAMES in metadata.attributes else None
    if layout and MASK in layout:
        mask = None if MASK not in given else decode_mask(given[MASK], dtype)
    return replace(made, layout=replace(made.layout, mask=mask))


def adapted(
    layout: Mapping[str, Any], inner: tuple[int, ...] | None, compressor: list[Any] | None
) -> dict[str, Any]:
    """Return an array's layout for a copy of it, whose chunks are in shards unless `inner` is None.

    `compressor` replaces the codecs that compress, unless it is None.
    """
    chain, shards = layout.get("codecs"), _shards_in(layout.get("codecs"))
    if chain is None:
        return dict(layout)
    if compressor is not None or shards.get("chunk_shape") != (inner and list(inner)):
        while inside := _shards_in(chain):
            chain = inside["codecs"]
        if compressor is not None:
            chain = _compressed(chain, compressor)
        if inner is not None:
            chain = sharded(chain, inner, at_start=shards.get("index_location") == "start")
    return {**layout, "codecs": chain}


def _compressed(chain: list[Any], compressor: list[Any]) -> list[Any]:
    """Return a chain with another compressor; checksums stay."""
    first = next(n for n, codec in enumerate(chain, 1) if types.named(codec)[0] in SERIALIZERS)
    rest = [codec for codec in chain[first:] if types.named(codec)[0] == "crc32c"]
    return [*chain[:first], *compressor, *rest]


def _shards_in(chain: Any) -> dict[str, Any]:
    """Return the configuration of shards, if they are all that a chain of codecs makes."""
    match chain:
        case [{"name": "sharding_indexed", "configuration": {"codecs": list()} as members}]:
            return dict(members)
    return {}


def check_shards(shards: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """Raise unless shards are a multiple of the chunks along each axis.

    Raises
    ------
    MetadataError
        The error names the nearest multiple.
    """
    pairs = list(zip(shards, chunks, strict=True))
    if any(shard % chunk for shard, chunk in pairs):
        nearest = tuple(max(1, round(shard / chunk)) * chunk for shard, chunk in pairs)
        raise MetadataError(
            f"shards of {shards} are not a multiple of chunks of {chunks}; choose a multiple, "
            f"such as {nearest}"
        )


def members_of(metadata: ArrayMetadata) -> dict[str, Any]:
    """Return the members of an array's document, without its attributes."""
    layout: Zarr3Layout = metadata.layout
    usual = _SEPARATORS[layout.keys] == layout.separator and layout.keys == "v2"
    configuration = {} if usual else {"configuration": {"separator": layout.separator}}
    names = metadata.attributes.get(NAMES)
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(metadata.shape),
        "data_type": json.loads(layout.data_type),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(metadata.chunks)}},
        "chunk_key_encoding": {"name": layout.keys, **configuration},
        "fill_value": json.loads(layout.fill),
        "codecs": json.loads(layout.codecs),
        **({"dimension_names": names} if are_names(names, len(metadata.shape)) else {}),
    }


def are_names(value: Any, ndim: int) -> bool:
    """Return whether a value is valid for ``dimension_names``."""
    proper = isinstance(value, list) and len(value) == ndim
    return proper and all(name is None or isinstance(name, str) for name in value)


def _keys(value: Any, where: str) -> tuple[str, str]:
    name, members = types.named(value, strict=False)
    separator = members.get("separator", _SEPARATORS.get(name))
    if name not in _SEPARATORS or separator not in (".", "/"):
        raise MetadataError(
            f"{where}: 'chunk_key_encoding' is {str(value)[:200]}; expected 'default' or 'v2', "
            "with the separator '/' or '.'"
        )
    return name, separator


def _content(data_type: Any, dtype: np.dtype[Any]) -> Content:
    if not dtype.hasobject:
        return Content.NUMBERS
    return Content.STRINGS if types.named(data_type)[0] in {types.BYTES, "bytes"} else Content.TEXTS


def _zero(dtype: np.dtype[Any]) -> Any:
    """Return the fill value of arrays for which none is given, as JSON."""
    if dtype.kind in "mM":
        return NOT_A_TIME
    return "" if dtype.hasobject else fill_to_json(np.zeros((), dtype)[()], dtype, exact=True)


def encode_mask(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the value that masks elements, as in xarray's attribute."""
    if dtype.kind == "S":
        return base64.standard_b64encode(bytes(value)).decode()
    if dtype.kind == "f":
        return _double(float(value))
    if dtype.kind == "c":
        return [_double(float(value.real)), _double(float(value.imag))]
    if dtype.kind in "UO":
        return str(value)
    return bool(value) if dtype.kind == "b" else int(np.array(value, dtype).astype("i8"))


def decode_mask(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the value that masks elements.

    Raises
    ------
    TypeError, ValueError
        If an attribute of this name has another meaning.
    """
    if dtype.kind == "S":
        return np.array(base64.standard_b64decode(value), dtype)[()]
    if dtype.kind == "f" and isinstance(value, str):
        return dtype.type(_from_double(value))
    if dtype.kind == "c" and isinstance(value, list):
        return dtype.type(complex(*map(_from_double, value)))
    if dtype.kind in "UO":
        if not isinstance(value, str):
            raise TypeError("expected a string")
        return value
    if not isinstance(value, bool | int | float):
        raise TypeError("expected a number")
    return np.array(value).astype(dtype)[()]


def _double(value: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", value)).decode()


def _from_double(value: str) -> float:
    raw = base64.standard_b64decode(value)
    if len(raw) != 8:  # noqa: PLR2004 - a double
        raise ValueError("expected eight bytes")
    number: float = struct.unpack("<d", raw)[0]
    return number
