"""N5: a directory per node with an ``attributes.json``, a file per chunk.

Sources: the N5 README ("File-system specification") and, for details that it leaves open, Java N5
1.0 to 4.0, zarr-python 2, z5 and TensorStore.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.codecs import from_json, to_json
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.formats.n5 import chunk as n5_chunk
from xarray_n5.formats.protocol import KeyedFormat
from xarray_n5.formats.values import whole_numbers
from xarray_n5.model.alerts import warn
from xarray_n5.model.grid import index_of
from xarray_n5.model.json import check_json, parse_object
from xarray_n5.model.metadata import MULTISET, ArrayMetadata, Content, GroupMetadata, lists_levels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.formats.protocol import Documents
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Attributes, Metadata

_DOCUMENT = "attributes.json"

DATA_TYPES = (
    *("uint8", "uint16", "uint32", "uint64"),
    *("int8", "int16", "int32", "int64"),
    *("float32", "float64"),
)
"""The data types of all implementations (N5 README, item 4)."""

_EXTRA_TYPES = ("bool", "float16")
"""NumPy's names of types, which zarr-python's N5Store wrote."""

_REQUIRED = ("dimensions", "blockSize", "dataType")
_STRUCTURAL = frozenset({*_REQUIRED, "compression", "compressionType", "n5"})

VERSION = "2.0.0"
"""The version of new containers, which every Java release opens, unlike later ones."""

_NEWEST = 4
_MAX_BYTES = (1 << 31) - 1
"""The maximum size of a chunk in Java (README: "cannot be larger than 2GB")."""


@dataclass(frozen=True, slots=True)
class N5(KeyedFormat):
    """The N5 file-system layout."""

    name: ClassVar[str] = "n5"
    documents: ClassVar[tuple[str, ...]] = (_DOCUMENT,)
    suffixes: ClassVar[tuple[str, ...]] = (".n5",)
    lists_x_first: ClassVar[bool] = True
    pads: ClassVar[bool] = False

    decode = staticmethod(n5_chunk.decode)
    peek = staticmethod(n5_chunk.peek)
    encode = staticmethod(n5_chunk.encode)

    def read(self, documents: Documents, where: str) -> Metadata:
        """Return the array or group that an ``attributes.json`` describes."""
        members = _parse(documents, where)
        group = GroupMetadata(attributes=_others(members, {"n5"}))
        if not all(key in members for key in _REQUIRED):
            return group
        if "compression" in members or "compressionType" in members:
            return _array(members, where)
        if "codecs" in members:
            raise MetadataError(
                f"{where}: stores chunks by 'codecs', as Zarr v3 does, which N5 readers do not "
                "support"
            )
        return group

    def as_group(self, documents: Documents, where: str) -> GroupMetadata:
        """Return the group, without ``dimensions``: a copy must not be read as an array."""
        return GroupMetadata(attributes=_others(_parse(documents, where), {"n5", "dimensions"}))

    def complete(self, metadata: ArrayMetadata, layout: Attributes | None = None) -> ArrayMetadata:
        """Return the metadata unchanged: N5 has one way to store an array."""
        if layout:
            raise MetadataError(f"layout: N5 does not support {sorted(layout)}; omit layout")
        return metadata

    def create(self, metadata: Metadata, before: Documents, where: str) -> Documents:
        """Return the ``attributes.json`` of a new node; the container's version is kept."""
        members = {k: v for k, v in _parse(before, where).items() if k == "n5"}
        if isinstance(metadata, ArrayMetadata):
            members |= self._structure(metadata, where)
        return _dump({**members, **_allowed(metadata.attributes, metadata, where)}, where)

    def with_attributes(
        self, documents: Documents, attributes: Attributes, where: str
    ) -> Documents:
        """Return the document with new user attributes, otherwise unchanged."""
        metadata = self.read(documents, where)
        reserved = _STRUCTURAL if isinstance(metadata, ArrayMetadata) else {"n5"}
        members = _parse(documents, where)
        kept = {k: v for k, v in members.items() if k in reserved}
        # A group that claims to be an array has such members among its attributes.
        changed = {k: v for k, v in attributes.items() if k not in kept or kept[k] != v}
        return _dump({**kept, **_allowed(changed, metadata, where)}, where, members)

    def with_shape(self, documents: Documents, shape: tuple[int, ...], where: str) -> Documents:
        """Return the document with a new shape, otherwise unchanged."""
        members = _parse(documents, where)
        return _dump({**members, "dimensions": list(shape[::-1])}, where, members)

    def above(self, documents: Documents, where: str, *, fresh: bool) -> Documents:
        """Return a document if there is none: zarr-python 2 does not list groups without one."""
        members = _parse(documents, where)
        if fresh and "n5" not in members:
            return _dump({"n5": VERSION, **members}, where, members)
        return {} if _DOCUMENT in documents else _dump({}, where)

    def _structure(self, metadata: ArrayMetadata, where: str) -> dict[str, Any]:
        name = metadata.dtype.name
        if metadata.content is not Content.NUMBERS or name not in DATA_TYPES:
            hint = {"float16": "float32", "bool": "uint8", "longdouble": "float64"}.get(name)
            advice = (
                f"convert it with astype({hint!r})" if hint else f"expected {', '.join(DATA_TYPES)}"
            )
            raise MetadataError(f"{where}: N5 cannot store elements of type {name}; {advice}")
        size = math.prod(metadata.chunks) * metadata.dtype.itemsize
        if size > _MAX_BYTES:
            raise MetadataError(
                f"{where}: chunks of {metadata.chunks} {name} have {size} bytes, but N5 chunks "
                f"hold at most {_MAX_BYTES}; choose smaller chunks, or chunks='auto'"
            )
        return {
            "dimensions": list(metadata.shape[::-1]),
            "blockSize": list(metadata.chunks[::-1]),
            "dataType": name,
            "compression": to_json(metadata.compression),
        }

    def check_container(self, documents: Documents, where: str) -> None:
        """Warn if the root's ``n5`` has a major version that is not supported yet."""
        version = _parse(documents, where).get("n5")
        major = re.match(r"\d{1,9}", version) if isinstance(version, str) else None
        if major and int(major.group()) > _NEWEST:
            warn(
                f"{where}: the container has N5 version {version}, newer than {_NEWEST}.x; parts "
                "of it may be unreadable"
            )

    def chunk_key(self, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return a chunk's key: its index with the first dimension first (README, item 5)."""
        # An array without dimensions has one chunk, whose key is "0" in TensorStore.
        return "/".join(map(str, reversed(index))) if index else "0"

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the index of a chunk's key, or None if it is not one."""
        return index_of(key.split("/")[::-1], len(metadata.shape))


def _parse(documents: Documents, where: str) -> dict[str, Any]:
    document = documents.get(_DOCUMENT)
    if document is None or not document.strip():
        # Java creates the file empty before it writes into it.
        return {}
    try:
        text = document.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Java uses the platform's charset by default.
        text = document.decode("latin-1")
    return parse_object(text, where)


def _dump(members: Attributes, where: str, before: Attributes | None = None) -> Documents:
    """Return `members` as the document; NaN, which JSON lacks, only where it was `before`."""
    check_json(members, where, before)
    # ASCII escapes: Java reads the file in its platform's charset.
    return {_DOCUMENT: json.dumps(members, separators=(",", ":")).encode()}


def _others(members: Attributes, reserved: AbstractSet[str]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key not in reserved}


def _allowed(attributes: Attributes, metadata: Metadata, where: str) -> Attributes:
    """Return `attributes` if none of them would change the kind of the node."""
    reserved = _STRUCTURAL if isinstance(metadata, ArrayMetadata) else {"n5"}
    clash = sorted(reserved.intersection(attributes))
    # BigStitcher's groups look like arrays; their lists of levels distinguish them.
    looks_like_array = attributes.keys() >= set(_REQUIRED) and not lists_levels(attributes)
    if clash or (isinstance(metadata, GroupMetadata) and looks_like_array):
        raise MetadataError(
            f"{where}: the attributes {clash or list(_REQUIRED)} are reserved by N5; choose other "
            "names"
        )
    return attributes


def _array(members: Attributes, where: str) -> ArrayMetadata:
    shape = whole_numbers(members["dimensions"], "dimensions", where)[::-1]
    chunks = whole_numbers(members["blockSize"], "blockSize", where, least=1)[::-1]
    if len(shape) != len(chunks):
        raise MetadataError(
            f"{where}: 'dimensions' {list(shape[::-1])} and 'blockSize' {list(chunks[::-1])} "
            "differ in length"
        )
    dtype, content = _element(members["dataType"], where)
    if members.get(MULTISET) is True:
        content = Content.LABEL_MULTISETS
    try:
        compression = from_json(members.get("compression", members.get("compressionType")))
    except UnknownCompressionError as error:
        raise UnknownCompressionError(error.name, error.known, where) from error
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error
    return ArrayMetadata(
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        compression=compression,
        attributes=_others(members, _STRUCTURAL),
        content=content,
    )


def _element(name: object, where: str) -> tuple[np.dtype[Any], Content]:
    if name in DATA_TYPES:
        return np.dtype(name), Content.NUMBERS
    if name == "string":
        return np.dtype(object), Content.STRINGS
    if name == "object":
        return np.dtype(object), Content.OBJECTS
    if name in _EXTRA_TYPES:
        warn(f"{where}: 'dataType' {name!r} is not an N5 type; few other readers support it")
        return np.dtype(name), Content.NUMBERS
    raise MetadataError(
        f"{where}: unknown 'dataType' {name!r}; expected one of {', '.join(DATA_TYPES)}, string"
    )
