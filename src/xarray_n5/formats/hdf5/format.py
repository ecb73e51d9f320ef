"""HDF5, as n5-hdf5 sees it: datasets are arrays in numpy's order, groups are groups.

The documents are those of :mod:`xarray_n5.formats.hdf5.nodes`, which stand for what the file says.
Source: n5-hdf5 1.4.2 and 2.2.1, BigDataViewer's HDF5 layout, the HDF5 file format specification.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.formats.hdf5 import filters as hdf5_filters
from xarray_n5.formats.hdf5.attributes import VERSION, split_attributes
from xarray_n5.formats.hdf5.filters import Layout, compression_of, filters_for
from xarray_n5.formats.hdf5.nodes import ARRAY, ATTRIBUTES, DOCUMENTS, GROUP, dtype_of
from xarray_n5.formats.hdf5.signature import SUFFIXES
from xarray_n5.formats.strict_json import check_json
from xarray_n5.model.chunk_keys import index_of
from xarray_n5.model.metadata import ArrayMetadata, Content, GroupMetadata
from xarray_n5.model.paths import normalize_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xarray_n5.formats.protocol import Documents
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Attributes, Metadata

_STAMP = "1.0.0"
"""The version of n5-hdf5 that all of its versions take for one of theirs."""

_MOST_BYTES = (1 << 32) - 1
"""How large HDF5's chunks can be."""

_NUMBERS = frozenset({"?", *"bhilqBHILQefdFD"})
"""numpy's codes of the types that are written; platforms differ in which of them are alike."""


@dataclass(frozen=True, slots=True)
class Hdf5:
    """The layout of HDF5 files."""

    name: ClassVar[str] = "hdf5"
    documents: ClassVar[tuple[str, ...]] = DOCUMENTS
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    pads: ClassVar[bool] = True
    one_writer: ClassVar[bool] = True
    array_at_root: ClassVar[bool] = False
    consolidates: ClassVar[bool] = False
    native_to_xarray: ClassVar[bool] = False
    nested_layout: ClassVar[Attributes | None] = None

    def normalize_path(self, path: str) -> str:
        """Return a path without empty and ``.`` parts."""
        return normalize_path(path)

    def layout_of(self, metadata: ArrayMetadata) -> Attributes:  # noqa: ARG002
        """Return nothing: `compression` alone chooses HDF5's filters."""
        return {}

    def check(self, metadata: Metadata, where: str) -> None:
        """Raise where HDF5 cannot hold a node."""
        self.create(metadata, {}, where)

    def lists(self, root: Callable[[], Documents]) -> str:
        """Return as in which format lists of axes stand: as in N5 in files of n5-hdf5."""
        documents = root()
        told = json.loads(documents.get(GROUP, b"{}"))
        return "n5" if VERSION in told or not documents else self.name

    def read(self, documents: Documents, where: str) -> Metadata:
        """Return the array or group that documents describe."""
        attributes = json.loads(documents.get(ATTRIBUTES, b"{}"))
        if ARRAY not in documents:
            return GroupMetadata(attributes=attributes)
        return _array(json.loads(documents[ARRAY]), attributes, where)

    def as_group(self, documents: Documents, where: str) -> GroupMetadata:  # noqa: ARG002
        """Return the group with the attributes of the node."""
        return GroupMetadata(attributes=json.loads(documents.get(ATTRIBUTES, b"{}")))

    def complete(self, metadata: ArrayMetadata, layout: Attributes | None = None) -> ArrayMetadata:
        """Return the metadata with the layout that is written: little-endian, in whole chunks.

        Raises
        ------
        MetadataError
            If another layout is asked for.
        """
        if layout:
            raise MetadataError(
                f"layout={dict(layout)} is for Zarr; in HDF5, `compression` alone chooses filters"
            )
        dtype = metadata.dtype.newbyteorder("<")
        size = math.prod(metadata.chunks) * dtype.itemsize
        filters = filters_for(metadata.compression, dtype, size) if metadata.shape else ()
        return replace(metadata, layout=Layout(dtype, filters, direct=bool(metadata.shape)))

    def create(self, metadata: Metadata, before: Documents, where: str) -> Documents:
        """Return the documents of a new node; the first brings the attributes with it."""
        attributes = dict(metadata.attributes)
        check_json(attributes, where, None)
        ndim = len(metadata.shape) if isinstance(metadata, ArrayMetadata) else None
        split_attributes(attributes, where, ndim)
        around = {ATTRIBUTES: json.dumps(attributes).encode()} if attributes else {}
        if not isinstance(metadata, ArrayMetadata):
            known = json.loads(before.get(GROUP, b"{}"))
            return {GROUP: json.dumps({**known, "attributes": attributes}).encode(), **around}
        members = {**_members(metadata, where), "attributes": attributes}
        return {ARRAY: json.dumps(members).encode(), **around}

    def with_attributes(
        self, documents: Documents, attributes: Attributes, where: str
    ) -> Documents:
        """Return the document with other attributes."""
        before = json.loads(documents.get(ATTRIBUTES, b"{}"))
        check_json(attributes, where, before)
        changed = {k: v for k, v in attributes.items() if before.get(k) != v}
        array = json.loads(documents.get(ARRAY, b"{}"))
        split_attributes(changed, where, len(array["shape"]) if "shape" in array else None)
        return {ATTRIBUTES: json.dumps(dict(attributes)).encode()}

    def with_shape(self, documents: Documents, shape: tuple[int, ...], where: str) -> Documents:
        """Return the document with another shape."""
        members = json.loads(documents[ARRAY])
        most = members.get("maxshape", shape)
        fits = members.get("chunked") and all(
            m is None or n <= m for n, m in zip(shape, most, strict=True)
        )
        if not fits and list(shape) != members["shape"]:
            raise MetadataError(
                f"{where}: the dataset was made for shapes up to {most}, in one piece where it has "
                "no chunks; copy it into a new array to have another shape"
            )
        return {ARRAY: json.dumps({**members, "shape": list(shape)}).encode()}

    def above(self, documents: Documents, where: str, *, fresh: bool) -> Documents:  # noqa: ARG002
        """Return the group that a node is put into; on a new file's root, n5-hdf5's version."""
        if fresh:
            return {GROUP: json.dumps({VERSION: _STAMP}).encode()}
        return {} if GROUP in documents or ARRAY in documents else {GROUP: b"{}"}

    def check_container(self, documents: Documents, where: str) -> None:
        """Do nothing: what n5-hdf5 may write later is HDF5 all the same."""

    def matches(self, documents: Documents, constraints: Attributes, where: str) -> None:
        """Raise where a member that `constraints` name is absent or another."""
        members = json.loads(documents[ARRAY])
        for key, wanted in constraints.items():
            if key not in members or members[key] != wanted:
                found = members.get(key)
                raise MetadataError(f"{where}: {key!r} is {found!r}, but {wanted!r} was asked for")

    def assume(self, constraints: Attributes, where: str) -> ArrayMetadata:
        """Raise: nothing is known of a dataset before its file has been looked at."""
        raise MetadataError(
            f"{where}: where an HDF5 file's chunks lie stands in the file alone; open it without "
            f"assume_metadata (given were {sorted(constraints)})"
        )

    def chunk_key(self, metadata: ArrayMetadata, index: Sequence[int]) -> str:  # noqa: ARG002
        """Return a chunk's key: its index, in numpy's order."""
        return ".".join(map(str, index)) if index else "0"

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the index that a chunk's key means, or None where it is no such key."""
        return index_of(key.split("."), len(metadata.shape))

    def decode(self, metadata: ArrayMetadata, data: bytes) -> np.ndarray:
        """Return a chunk's elements."""
        return hdf5_filters.decode(metadata, data)

    def peek(self, metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
        """Return a chunk's shape, which is the same for all."""
        return hdf5_filters.stored_shape(metadata, head, size)

    def encode(self, metadata: ArrayMetadata, block: np.ndarray) -> bytes:
        """Return a chunk's bytes."""
        return hdf5_filters.encode(metadata, block)


def _array(members: Mapping[str, Any], attributes: Attributes, where: str) -> ArrayMetadata:
    if "unreadable" in members:
        raise MetadataError(f"{where}: {members['unreadable']}")
    objects = members["dtype"] == "O"
    stored = np.dtype(object) if objects else dtype_of(members["dtype"])
    filters = tuple((number, tuple(values)) for number, values in members["filters"])
    fill = members["fill"]
    return ArrayMetadata(
        shape=tuple(members["shape"]),
        chunks=tuple(members["chunks"]),
        dtype=stored.newbyteorder("="),
        compression=compression_of(filters),
        attributes=attributes,
        content=Content.STRINGS if objects else Content.NUMBERS,
        fill=None if fill is None else np.frombuffer(base64.b64decode(fill), stored)[0],
        layout=Layout(stored, filters, direct=members["direct"]),
    )


def _members(metadata: ArrayMetadata, where: str) -> dict[str, Any]:
    layout: Layout = metadata.layout
    if layout.dtype.char not in _NUMBERS and layout.dtype.kind != "S":
        raise MetadataError(
            f"{where}: {layout.dtype} is not written into HDF5; convert it to numbers, or to "
            "bytes of a fixed length ('S')"
        )
    size = math.prod(metadata.chunks) * layout.dtype.itemsize
    if size > _MOST_BYTES:
        raise MetadataError(
            f"{where}: chunks of {metadata.chunks} have {size} bytes, and HDF5's have at most "
            f"{_MOST_BYTES}; choose smaller ones"
        )
    return {
        "shape": list(metadata.shape),
        "chunks": list(metadata.chunks),
        "dtype": layout.dtype.str,
        "filters": [[number, list(values)] for number, values in layout.filters],
    }
