"""Protocols of formats: nodes as metadata, chunks as elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import ArrayMetadata, Attributes, Buffer, GroupMetadata, Metadata

Documents: TypeAlias = "Mapping[str, bytes]"
"""A node's existing documents: keys relative to the node, and the bytes."""

Kind: TypeAlias = Literal["array", "group", "array or group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A group or an array, as its container describes it."""

    path: str
    metadata: Metadata
    described: bool = True
    """Whether the container describes the node; in N5, any directory is a group."""
    incomplete: bool = False
    """Whether a writer was stopped before it wrote the document that makes it a node."""
    documents: Documents = field(default_factory=dict, repr=False, compare=False)
    """The documents that it was read from; used by the container only."""


class Format(Protocol):
    """The rules of a format, and the encoding of its chunks; most facts have defaults."""

    name: ClassVar[str]
    """The format's name, as in ``format=``."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """The suffixes of its containers' names."""
    documents: ClassVar[tuple[str, ...]] = ()
    """The names of a node's documents, the identifying one first; none in a single file."""
    pads: ClassVar[bool] = True
    """Whether chunks at an array's ends are always stored full-size."""
    one_writer: ClassVar[bool] = False
    """Whether only one process may write."""
    holds_shards: ClassVar[bool] = False
    """Whether a stored file may hold several chunks."""
    native_to_xarray: ClassVar[bool] = False
    """Whether xarray reads it: dimension names, fill values, packed values, consolidated metadata.
    """
    ngff_version: ClassVar[str] = "0.4"
    """The version of OME-NGFF that is written."""
    nested_layout: ClassVar[Attributes | None] = None
    """The `layout` that stores chunks in nested directories; None if there is no choice."""
    level_attributes: ClassVar[Attributes] = {}
    """Attributes of new levels of pyramids: in Zarr v2, that their fill value does not mask."""

    def complete(self, metadata: ArrayMetadata, layout: Attributes | None = None) -> ArrayMetadata:
        """Return a new array's metadata with the format's own facts, some chosen by `layout`."""

    def layout_of(self, metadata: ArrayMetadata) -> Attributes:
        """Return the `layout` with which :meth:`complete` stores an array alike."""
        return {}

    def check(self, metadata: Metadata, where: str) -> None:
        """Raise if the format cannot store a new node; `where` names it in errors."""

    def decode(self, metadata: ArrayMetadata, data: bytes) -> np.ndarray:
        """Return a chunk's stored elements: of any shape up to a chunk's, any byte order."""

    def peek(self, metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
        """Return the shape in a chunk's first bytes; raise if `size` bytes are too few for it."""

    def encode(self, metadata: ArrayMetadata, block: np.ndarray) -> Buffer:
        """Return the bytes that store `block`."""


class KeyedFormat(Format, Protocol):
    """A format whose nodes are documents, and whose chunks are values, in a key-value store."""

    lists_x_first: ClassVar[bool] = False
    """Whether lists of axes in attributes are in the order of N5's tools."""
    states_kind: ClassVar[bool] = False
    """Whether documents state the kind of a node, so that its content need not be listed."""

    def check(self, metadata: Metadata, where: str) -> None:
        """Raise if the format cannot store a new node."""
        self.create(metadata, {}, where)

    def read(self, documents: Documents, where: str) -> Metadata:
        """Return the metadata in a node's documents; `where` names the node in errors."""

    def as_group(self, documents: Documents, where: str) -> GroupMetadata:
        """Return the group that a node's documents describe, even if they describe an array."""

    def create(self, metadata: Metadata, before: Documents, where: str) -> Documents:
        """Return the documents of a new node, given those `before`, in the order of writing."""

    def with_attributes(
        self, documents: Documents, attributes: Attributes, where: str
    ) -> Documents:
        """Return the documents that change with the user attributes; the rest is kept exactly."""

    def with_shape(self, documents: Documents, shape: tuple[int, ...], where: str) -> Documents:
        """Return the documents that change with the shape; the rest is kept exactly."""

    def above(self, documents: Documents, where: str, *, fresh: bool) -> Documents:
        """Return the documents that a group needs to contain nodes; `fresh` for a new root."""

    def check_container(self, documents: Documents, where: str) -> None:
        """Warn if a container's root states a version that is newer than the supported ones."""
        del documents, where  # in Zarr, each document has a version, which `read` checks

    def chunk_key(self, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return a chunk's key, relative to its array."""

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the chunk that a key relative to the array names, or None."""
