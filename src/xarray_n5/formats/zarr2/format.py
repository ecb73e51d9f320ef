"""Zarr v2: a directory per node with ``.zarray`` or ``.zgroup``, and ``.zattrs``; a file per chunk.

Source: the Zarr v2 specification and, for details that it leaves open, zarr-python 2 and 3,
TensorStore, z5 and n5-zarr.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.codecs import config_of
from xarray_n5.errors import MetadataError
from xarray_n5.formats.protocol import KeyedFormat
from xarray_n5.formats.values import fill_to_json, parse_fill, whole_numbers
from xarray_n5.formats.zarr2 import layout as zarr2_layout
from xarray_n5.formats.zarr2.layout import (
    Zarr2Layout,
    dtype_to_json,
    parse_compressor,
    parse_dtype,
    parse_filters,
    pipeline_of,
)
from xarray_n5.model.grid import index_of
from xarray_n5.model.json import check_json, parse_object
from xarray_n5.model.metadata import UNMASKED, ArrayMetadata, GroupMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.formats.protocol import Documents
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Attributes, Buffer, Metadata

_ARRAY, _GROUP, _ATTRIBUTES = ".zarray", ".zgroup", ".zattrs"


@dataclass(frozen=True, slots=True)
class Zarr2(KeyedFormat):
    """The Zarr v2 layout."""

    name: ClassVar[str] = "zarr2"
    documents: ClassVar[tuple[str, ...]] = (_ARRAY, _GROUP, _ATTRIBUTES)
    suffixes: ClassVar[tuple[str, ...]] = (".zarr",)
    native_to_xarray: ClassVar[bool] = True
    nested_layout: ClassVar[Attributes | None] = {"dimension_separator": "/"}
    level_attributes: ClassVar[Attributes] = {UNMASKED: True}

    complete = staticmethod(zarr2_layout.complete)

    def layout_of(self, metadata: ArrayMetadata) -> Attributes:
        """Return the members of ``.zarray`` that define the storage of chunks."""
        members = _members(metadata, "")
        return {key: members[key] for key in zarr2_layout.MEMBERS}

    def read(self, documents: Documents, where: str) -> Metadata:
        """Return the array or group that documents describe."""
        attributes = _parse(documents, _ATTRIBUTES, where)
        if _ARRAY in documents:
            return _array(_parse(documents, _ARRAY, where), attributes, where)
        _parse(documents, _GROUP, where)
        return GroupMetadata(attributes=attributes)

    def as_group(self, documents: Documents, where: str) -> GroupMetadata:
        """Return the group with the attributes of the node."""
        return GroupMetadata(attributes=_parse(documents, _ATTRIBUTES, where))

    def create(self, metadata: Metadata, before: Documents, where: str) -> Documents:
        """Return the documents of a new node, the identifying one last."""
        attributes = _dump(metadata.attributes, where) if metadata.attributes else None
        first = {_ATTRIBUTES: attributes} if attributes is not None else {}
        if isinstance(metadata, ArrayMetadata):
            return {**first, _ARRAY: _dump(_members(metadata, where), where)}
        return {**first, _GROUP: _dump({"zarr_format": 2}, where)}

    def with_attributes(
        self, documents: Documents, attributes: Attributes, where: str
    ) -> Documents:
        """Return the ``.zattrs`` with new attributes; NaN is kept only where it was."""
        if not attributes and _ATTRIBUTES not in documents:
            return {}
        return {_ATTRIBUTES: _dump(attributes, where, _parse(documents, _ATTRIBUTES, where))}

    def with_shape(self, documents: Documents, shape: tuple[int, ...], where: str) -> Documents:
        """Return the ``.zarray`` with a new shape, otherwise unchanged."""
        members = _parse(documents, _ARRAY, where)
        return {_ARRAY: _dump({**members, "shape": list(shape)}, where, members)}

    def above(self, documents: Documents, where: str, *, fresh: bool) -> Documents:
        """Return the ``.zgroup`` of each group around a node."""
        there = _GROUP in documents or _ARRAY in documents
        return {} if there else {_GROUP: _dump({"zarr_format": 2}, where)}

    def chunk_key(self, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return a chunk's key: its index in C order, also for elements in F order."""
        return metadata.layout.separator.join(map(str, index)) if index else "0"

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the index of a chunk's key, or None if it is not one."""
        return index_of(key.split(metadata.layout.separator), len(metadata.shape))

    def decode(self, metadata: ArrayMetadata, data: bytes) -> np.ndarray:
        """Return a chunk's elements, in the stored byte order."""
        return pipeline_of(metadata).decode(data)

    def encode(self, metadata: ArrayMetadata, block: np.ndarray) -> Buffer:
        """Return the bytes of a chunk that stores `block`, of a chunk's full shape."""
        return pipeline_of(metadata).encode(np.asarray(block, metadata.layout.dtype))

    def peek(self, metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
        """Return a chunk's shape, which is the same for all."""
        pipeline_of(metadata).check_size(head, size)
        return metadata.chunks


def _array(members: Mapping[str, Any], attributes: Attributes, where: str) -> ArrayMetadata:
    if members.get("zarr_format") != 2:  # noqa: PLR2004 - this is Zarr v2
        raise MetadataError(f"{where}: 'zarr_format' is {members.get('zarr_format')!r}; expected 2")
    stored = parse_dtype(members.get("dtype"), where)
    shape = whole_numbers(members.get("shape"), "shape", where)
    chunks = whole_numbers(members.get("chunks"), "chunks", where, least=1)
    if len(shape) != len(chunks):
        raise MetadataError(
            f"{where}: 'chunks' {list(chunks)} do not fit the 'shape' {list(shape)}"
        )
    order, separator = zarr2_layout.order_and_separator(members, where)
    filters = parse_filters(members.get("filters"), stored, chunks, where)
    filled = members.get("fill_value") is not None
    return ArrayMetadata(
        shape=shape,
        chunks=chunks,
        dtype=stored.newbyteorder("="),
        compression=parse_compressor(members.get("compressor"), where),
        attributes=attributes,
        content=zarr2_layout.content_of(stored, filters),
        fill=parse_fill(members.get("fill_value"), stored, where),
        layout=Zarr2Layout(
            stored, order, separator, filters, filled, filled and UNMASKED not in attributes
        ),
    )


def _members(metadata: ArrayMetadata, where: str) -> dict[str, Any]:
    layout: Zarr2Layout = metadata.layout
    parse_dtype(dtype_to_json(layout.dtype), where)
    try:
        compressor = config_of(metadata.compression)
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error
    return {
        "zarr_format": 2,
        "shape": list(metadata.shape),
        "chunks": list(metadata.chunks),
        "dtype": dtype_to_json(layout.dtype),
        "compressor": compressor,
        "fill_value": fill_to_json(metadata.fill_value, layout.dtype) if layout.filled else None,
        "order": layout.order,
        "filters": [json.loads(config) for config in layout.filters] or None,
        "dimension_separator": layout.separator,
    }


def _parse(documents: Documents, name: str, where: str) -> dict[str, Any]:
    if name not in documents:
        return {}
    return parse_object(documents[name], where.replace(_ARRAY, name))


def _dump(members: Attributes, where: str, before: Attributes | None = None) -> bytes:
    """Return `members` as JSON; NaN, which is not valid JSON, only where it was `before`."""
    check_json(members, where, before)
    return json.dumps(members, indent=4).encode()
