"""Zarr v3: a directory per node with its ``zarr.json``, a file per chunk or shard.

Source: the Zarr v3 specification, and what zarr-python 3, TensorStore and zarrs write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.formats.pipeline import Sharding
from xarray_n5.formats.protocol import KeyedFormat
from xarray_n5.formats.values import whole_numbers
from xarray_n5.formats.zarr3 import layout as zarr3_layout
from xarray_n5.formats.zarr3.layout import (
    MASK,
    NAMES,
    Zarr3Layout,
    encode_mask,
    members_of,
    pipeline_of,
)
from xarray_n5.formats.zarr3.types import named
from xarray_n5.model.grid import index_of
from xarray_n5.model.json import check_json, parse_object
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.formats.protocol import Documents
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Attributes, Buffer, Metadata

DOCUMENT = "zarr.json"

_OF_ARRAYS = frozenset(
    {"shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"}
)
_OF_ALL = frozenset({"zarr_format", "node_type", "attributes"})
_OPTIONAL = frozenset({"dimension_names", "storage_transformers"})


@dataclass(frozen=True, slots=True)
class Zarr3(KeyedFormat):
    """The Zarr v3 layout."""

    name: ClassVar[str] = "zarr3"
    documents: ClassVar[tuple[str, ...]] = (DOCUMENT,)
    native_to_xarray: ClassVar[bool] = True
    states_kind: ClassVar[bool] = True
    holds_shards: ClassVar[bool] = True
    ngff_version: ClassVar[str] = "0.5"

    complete = staticmethod(zarr3_layout.complete)

    def layout_of(self, metadata: ArrayMetadata) -> Attributes:
        """Return the members that define the storage of chunks."""
        members, mask = members_of(metadata), metadata.layout.mask
        kept = {key: members[key] for key in zarr3_layout.MEMBERS if key in members}
        return {**kept, MASK: None if mask is None else encode_mask(mask, metadata.dtype)}

    def read(self, documents: Documents, where: str) -> Metadata:
        """Return the array or group that a document describes."""
        if DOCUMENT not in documents:
            return GroupMetadata()
        members = parse_object(documents[DOCUMENT], where)
        if _is_array(members, where):
            return _array(members, where)
        _check_members(members, _OF_ALL | {"consolidated_metadata"}, where)
        return GroupMetadata(attributes=_attributes(members, where))

    def as_group(self, documents: Documents, where: str) -> GroupMetadata:
        """Return the group with the attributes of the node."""
        members = parse_object(documents[DOCUMENT], where) if DOCUMENT in documents else {}
        return GroupMetadata(attributes=_attributes(members, where))

    def create(self, metadata: Metadata, before: Documents, where: str) -> Documents:
        """Return the document of a new node."""
        if isinstance(metadata, ArrayMetadata):
            members = members_of(metadata)
            attributes = dict(metadata.attributes)
            if "dimension_names" in members:
                del attributes[NAMES]
            if metadata.layout.masks:
                attributes[MASK] = encode_mask(metadata.layout.mask, metadata.dtype)
        else:
            members = {"zarr_format": 3, "node_type": "group"}
            attributes = dict(metadata.attributes)
        return _dump({**members, "attributes": attributes}, where)

    def with_attributes(
        self, documents: Documents, attributes: Attributes, where: str
    ) -> Documents:
        """Return the document with new attributes, otherwise unchanged."""
        members = parse_object(documents[DOCUMENT], where) if DOCUMENT in documents else {}
        members = members or {"zarr_format": 3, "node_type": "group"}
        before, changed = members.get("attributes") or {}, dict(attributes)
        if members.get("node_type") == "array":
            names, known = changed.pop(NAMES, None), members.pop("dimension_names", None)
            if known is not None and names == _filled(known):
                names = known
            if zarr3_layout.are_names(names, len(members.get("shape", ()))):
                members["dimension_names"] = names
            elif names is not None:
                changed[NAMES] = names
            if MASK in before and MASK not in changed:
                changed[MASK] = before[MASK]
        return _dump({**members, "attributes": changed}, where, before)

    def with_shape(self, documents: Documents, shape: tuple[int, ...], where: str) -> Documents:
        """Return the document with a new shape, otherwise unchanged."""
        members = parse_object(documents[DOCUMENT], where)
        return _dump({**members, "shape": list(shape)}, where, members.get("attributes"))

    def above(self, documents: Documents, where: str, *, fresh: bool) -> Documents:
        """Return the document of each group around a node."""
        return {} if documents else _dump({"zarr_format": 3, "node_type": "group"}, where)

    def chunk_key(self, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return a chunk's key."""
        layout: Zarr3Layout = metadata.layout
        if layout.keys == "v2":
            return layout.separator.join(map(str, index)) if index else "0"
        return layout.separator.join(["c", *map(str, index)])

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the index of a chunk's key, or None if it is not one."""
        layout, ndim = metadata.layout, len(metadata.shape)
        parts = key.split(layout.separator)
        if layout.keys == "v2":
            return index_of(parts, ndim)
        if parts[0] != "c":
            return None
        return index_of(parts[1:], ndim) if ndim else (() if len(parts) == 1 else None)

    def sharding(self, metadata: ArrayMetadata) -> Sharding | None:
        """Return the codec of shards, if the array has shards that can be read in parts."""
        if metadata.inner is None:
            return None
        serializer = pipeline_of(metadata).serializer
        return serializer if isinstance(serializer, Sharding) else None

    def decode(self, metadata: ArrayMetadata, data: bytes) -> np.ndarray:
        """Return a chunk's elements."""
        return pipeline_of(metadata).decode(data)

    def peek(self, metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
        """Return a chunk's shape, which is the same for all."""
        pipeline_of(metadata).check_size(head, size)
        return metadata.chunks

    def encode(self, metadata: ArrayMetadata, block: np.ndarray) -> Buffer:
        """Return a chunk's bytes."""
        return pipeline_of(metadata).encode(np.asarray(block, metadata.dtype))


def _is_array(members: Mapping[str, Any], where: str) -> bool:
    if members.get("zarr_format") != 3:  # noqa: PLR2004 - this is Zarr v3
        raise MetadataError(f"{where}: 'zarr_format' is {members.get('zarr_format')!r}; expected 3")
    kind: Any = members.get("node_type")
    if kind not in ("array", "group"):
        raise MetadataError(f"{where}: 'node_type' is {kind!r}; expected 'array' or 'group'")
    return bool(kind == "array")


def _array(members: Mapping[str, Any], where: str) -> ArrayMetadata:
    _check_members(members, _OF_ALL | _OF_ARRAYS | _OPTIONAL, where)
    if missing := sorted(_OF_ARRAYS - members.keys()):
        raise MetadataError(f"{where}: missing members {missing} of an array")
    transformers = members.get("storage_transformers") or []
    for transformer in transformers if isinstance(transformers, list) else [transformers]:
        if not (isinstance(transformer, dict) and transformer.get("must_understand") is False):
            raise MetadataError(
                f"{where}: storage transformer {str(transformer)[:100]} is not supported"
            )
    shape = whole_numbers(members["shape"], "shape", where)
    sides = _chunk_shape(members["chunk_grid"], where)
    chunks = whole_numbers(sides, "chunk_shape", where, least=1)
    if len(shape) != len(chunks):
        raise MetadataError(
            f"{where}: 'chunk_shape' is {list(chunks)} for a shape of {list(shape)}"
        )
    attributes = _attributes(members, where)
    names = members.get("dimension_names")
    if names is not None and not zarr3_layout.are_names(names, len(shape)):
        raise MetadataError(
            f"{where}: 'dimension_names' is {str(names)[:200]}; expected {len(shape)} strings or "
            "nulls"
        )
    if names is not None and (not names or any(names)):
        attributes.setdefault(NAMES, _filled(names))
    return zarr3_layout.described(members, shape, chunks, attributes, where)


def _check_members(members: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Raise for unknown members that must be understood."""
    for key, value in members.items():
        ignored = isinstance(value, dict) and value.get("must_understand") is False
        if key not in known and not ignored:
            raise MetadataError(
                f"{where}: unknown member {key!r}, an extension that must be understood to read "
                "the array"
            )


def _chunk_shape(grid: Any, where: str) -> Any:
    name, members = named(grid, strict=False)
    if name != "regular":
        raise MetadataError(f"{where}: chunk grid {name!r} is not supported; only 'regular' is")
    return members.get("chunk_shape")


def _attributes(members: Mapping[str, Any], where: str) -> dict[str, Any]:
    attributes = members.get("attributes")
    if attributes is not None and not isinstance(attributes, dict):
        raise MetadataError(f"{where}: 'attributes' is {str(attributes)[:200]}; expected an object")
    return dict(attributes or {})


def _filled(names: Sequence[str | None]) -> list[str]:
    """Return a name for each dimension, also for unnamed ones."""
    return [f"dim_{number}" if name is None else name for number, name in enumerate(names)]


def _dump(members: Attributes, where: str, before: Attributes | None = None) -> Documents:
    """Return the document; NaN, which is not valid JSON, only where it was `before`."""
    check_json(members.get("attributes", {}), where, before)
    return {DOCUMENT: json.dumps(members, indent=2).encode()}
