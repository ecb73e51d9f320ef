"""Choose how a new Zarr v2 array stores its elements: by default, or by members of ``.zarray``."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.formats.zarr2.chunk import Layout
from xarray_n5.formats.zarr2.codecs import parse_filters
from xarray_n5.formats.zarr2.filters import OBJECTS, chain, flat
from xarray_n5.formats.zarr2.values import dtype_to_json, fill_to_json, parse_dtype, parse_fill
from xarray_n5.model.metadata import ArrayMetadata, Content
from xarray_n5.model.roundtrip_attrs import UNMASKED

if TYPE_CHECKING:
    from collections.abc import Mapping

MEMBERS = ("order", "dimension_separator", "filters", "fill_value", "dtype")
"""The members that users may set; all others follow from the array."""

TEXTS = "vlen-utf8"
"""The filter that encodes objects, which must be strings."""

_ROUNDING = frozenset({"quantize", "fixedscaleoffset", "bitround", "astype"})
"""Filters that may be lossy, which is accepted if users ask for them."""

_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute that makes an array a variable to xarray."""

_WHERE = "layout"


def complete(metadata: ArrayMetadata, asked: Mapping[str, Any] | None) -> ArrayMetadata:
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
    given = dict(asked or {})
    if unknown := sorted(given.keys() - set(MEMBERS)):
        raise MetadataError(
            f"{_WHERE}: unknown members {unknown}; expected some of {list(MEMBERS)}"
        )
    stored = _dtype(metadata.dtype, given)
    order, separator = given.get("order", "C"), given.get("dimension_separator", ".")
    if order not in ("C", "F") or separator not in (".", "/"):
        raise MetadataError(
            f"{_WHERE}: 'order' is {order!r} and 'dimension_separator' {separator!r}; expected "
            "'C' or 'F', and '.' or '/'"
        )
    filters = _filters(given.get("filters"), stored, metadata.chunks)
    _check_filters(filters, stored)
    fill = _fill(given.get("fill_value"), stored)
    filled, unmasked = fill is not None, UNMASKED in metadata.attributes
    if "fill_value" not in given:
        filled = _DIMENSIONS not in metadata.attributes or unmasked
    return replace(
        metadata,
        dtype=stored.newbyteorder("="),
        content=content_of(stored, filters),
        fill=parse_fill(fill, stored, _WHERE),
        layout=Layout(stored, order, separator, filters, filled, filled and not unmasked),
    )


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


def _filters(found: Any, stored: np.dtype[Any], chunks: tuple[int, ...]) -> tuple[str, ...]:
    objects = stored.kind == "O"
    usual = [{"id": TEXTS}] if objects else None
    filters = parse_filters(found or usual, stored, chunks, _WHERE)
    if objects and content_of(stored, filters) is not Content.TEXTS:
        others = sorted(OBJECTS - {TEXTS})
        raise MetadataError(f"{_WHERE}: expected the filter {TEXTS!r} for objects, got {others}")
    return filters


def _check_filters(filters: tuple[str, ...], stored: np.dtype[Any]) -> None:
    """Raise if filters that should be lossless for such elements are not."""
    names = {json.loads(each)["id"] for each in filters}
    if not filters or names & _ROUNDING or stored.kind == "O":
        return
    other = b"\1" if stored.kind == "b" else b"\2"
    probe = np.frombuffer(bytes(stored.itemsize) + other * stored.itemsize, stored)
    steps = chain(filters, stored, len(probe))
    try:
        encoded = steps.encode(probe)
        same = bytes(steps.decode(encoded, flat(encoded).nbytes)) == probe.tobytes()
    except Exception as error:  # codecs raise errors of any type
        raise MetadataError(f"{_WHERE}: 'filters' {sorted(names)} fail: {error}") from error
    if not same:
        raise MetadataError(f"{_WHERE}: 'filters' {sorted(names)} do not restore {stored}")


def _fill(value: Any, stored: np.dtype[Any]) -> Any:
    """Return a fill value as in ``.zarray``; numbers of NumPy are supported, too."""
    if isinstance(value, np.generic | bytes | np.void):
        return fill_to_json(value, stored)
    if isinstance(value, float | complex) and stored.kind in "fc":
        return fill_to_json(stored.type(value), stored)
    return value
