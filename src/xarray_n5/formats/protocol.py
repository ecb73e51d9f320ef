"""Protocols of formats and containers: nodes as metadata, chunks by index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np

    from xarray_n5.errors import N5Error, NodeNotFoundError
    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import ArrayMetadata, Attributes, GroupMetadata, Metadata
    from xarray_n5.stores.base import ObjectInfo, Store

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
    """The rules of a format, and the encoding of its chunks."""

    name: ClassVar[str]
    """The format's name, as in ``format=``."""
    suffixes: ClassVar[tuple[str, ...]]
    """The suffixes of its containers' names."""
    documents: ClassVar[tuple[str, ...]]
    """The names of a node's documents, the identifying one first; none in a single file."""
    pads: ClassVar[bool]
    """Whether chunks at an array's ends are always stored full-size."""
    one_writer: ClassVar[bool]
    """Whether only one process may write."""
    array_at_root: ClassVar[bool]
    """Whether the root may be an array."""
    holds_shards: ClassVar[bool]
    """Whether a stored file may hold several chunks."""
    consolidates: ClassVar[bool]
    """Whether groups may have consolidated metadata."""
    native_to_xarray: ClassVar[bool]
    """Whether xarray can read it: dimension names, fill values, packed values."""
    ngff_version: ClassVar[str]
    """The version of OME-NGFF that is written."""
    nested_layout: ClassVar[Attributes | None]
    """The `layout` that stores chunks in nested directories; None if there is no choice."""
    level_attributes: ClassVar[Attributes]
    """Attributes of new levels of pyramids: in Zarr v2, that their fill value does not mask."""

    def normalize_path(self, path: str) -> str:
        """Return a node's path, normalised by the format's rules."""

    def complete(self, metadata: ArrayMetadata, layout: Attributes | None = None) -> ArrayMetadata:
        """Return a new array's metadata with the format's own facts, some chosen by `layout`."""

    def layout_of(self, metadata: ArrayMetadata) -> Attributes:
        """Return the `layout` with which :meth:`complete` stores an array alike."""

    def check(self, metadata: Metadata, where: str) -> None:
        """Raise if the format cannot store a new node; `where` names it in errors."""

    def assume(self, constraints: Attributes, where: str) -> ArrayMetadata:
        """Return the metadata that `constraints` alone describe, with the defaults of creation."""

    def decode(self, metadata: ArrayMetadata, data: bytes) -> np.ndarray:
        """Return a chunk's stored elements: of any shape up to a chunk's, any byte order."""

    def peek(self, metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
        """Return the shape in a chunk's first bytes; raise if `size` bytes are too few for it."""

    def encode(self, metadata: ArrayMetadata, block: np.ndarray) -> Buffer:
        """Return the bytes that store `block`."""


class KeyedFormat(Format, Protocol):
    """A format whose nodes are documents, and whose chunks are values, in a key-value store."""

    lists_x_first: ClassVar[bool]
    """Whether lists of axes in attributes are in the order of N5's tools."""
    states_kind: ClassVar[bool]
    """Whether documents state the kind of a node, so that its content need not be listed."""

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

    def matches(self, documents: Documents, constraints: Attributes, where: str) -> None:
        """Raise if a node's documents do not match `constraints`."""

    def chunk_key(self, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return a chunk's key, relative to its array."""

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the chunk that a key relative to the array names, or None."""


class Container(Protocol):
    """A container: nodes as metadata, chunks by index; opened once per operation.

    Small, frozen and picklable, without open handles. Paths are normalised, indices are in C order.
    """

    @property
    def format(self) -> Format:
        """The container's format."""

    @property
    def store(self) -> Store:
        """The store of hidden files, by the paths of nodes: markers, receipts, digests."""

    @property
    def url(self) -> str:
        """The container's location, for messages; without secrets."""

    @property
    def name(self) -> str:
        """The name of the container's file or directory."""

    @property
    def batch(self) -> int:
        """The number of chunks or nodes that are worth requesting together; 1 if sequential."""

    @property
    def lists_x_first(self) -> bool:
        """Whether lists of axes in attributes are in the order of N5's tools."""

    @property
    def documents(self) -> AbstractSet[str]:
        """The names of the files that describe a node; none in a single-file container."""

    def identity(self, path: str) -> object:
        """Return a node's identity: equal in every process and for every way to open it."""

    def where(self, path: str) -> str:
        """Return a node's location for errors."""

    def etag(self, path: str) -> object:
        """Return a value that changes with each write of a node's metadata; None if absent."""

    # The same container with other caches or options

    def cached(self) -> Self:
        """Return the container with metadata and listings read once; for reading."""

    def fresh(self) -> Self:
        """Return the container without caches, as writers need it."""

    def uncached(self) -> Self:
        """Return the container without the caches of :meth:`cached`, as tasks carry it."""

    def with_fsync(self) -> Self:
        """Return the container whose writes have reached the disk when they return."""

    def parent(self) -> Self | None:
        """Return the parent directory as a container; None if there is none."""

    def sibling(self, name: str) -> bytes | None:
        """Return the bytes of a file beside the container, or None if there is none."""

    # Nodes

    def node(self, path: str) -> Node:
        """Return the node at `path`: a group without attributes if nothing is described."""

    def nodes(self, paths: Sequence[str], *, verify: bool = True) -> list[Node | N5Error]:
        """Return the nodes at several paths, or why one cannot be read; one batch.

        With `verify`, a node that contains nodes is a group, even if its attributes are an array's.
        """

    def occupant(self, path: str, arrays: Sequence[ArrayMetadata] = ()) -> str | None:
        """Return the first obstacle to creating a node: something that must stay; None if none.

        With `arrays`, which are removed, only their chunks, metadata and hidden files may go.
        """

    def foreign(self, paths: Sequence[str]) -> tuple[str, str] | None:
        """Return the first path that is a node of another format, and the file that shows it."""

    def exists(self, node: Node) -> bool:
        """Return whether there is a node, even an empty directory."""

    def children(self, path: str) -> tuple[str, ...]:
        """Return the sorted names of the nodes directly in a group, but for hidden ones."""

    def prefetch(self, path: str) -> None:
        """Read the metadata of all nodes below a group, if :meth:`cached`."""

    def not_found(self, node: Node, kind: Kind) -> NodeNotFoundError:
        """Return the error for a node that is absent or of another kind, with a hint."""

    def check_array(self, path: str, metadata: ArrayMetadata) -> None:
        """Raise if an array without any chunk turns out to be a group."""

    def check_version(self) -> None:
        """Warn if the container states a version that is newer than the supported ones."""

    def matches(self, node: Node, constraints: Attributes) -> None:
        """Raise if a node's metadata do not match `constraints`."""

    # Changes of nodes

    def create(self, before: Node, metadata: Metadata, *, fresh: bool = False) -> None:
        """Create a node in place of `before`, after the checks; `fresh` for a new root."""

    def complete_group(self, node: Node, *, fresh: bool = False) -> None:
        """Create a group, or the documents that it needs for nodes; `fresh` for a new root."""

    def change_attributes(
        self, path: str, change: Callable[[Attributes], Attributes], kind: Kind
    ) -> Attributes:
        """Replace a node's attributes by the result of `change`, which may be called repeatedly."""

    def resize(self, path: str, shape: tuple[int, ...]) -> None:
        """Change an array's shape; its chunks stay."""

    def delete(self, path: str) -> None:
        """Remove a node and everything below it; of a link, the link alone."""

    def consolidate(self, path: str) -> None:
        """Write a group's consolidated metadata; for formats with :attr:`Format.consolidates`."""

    def sweep(self, path: str) -> None:
        """Remove what killed writers of metadata left at a node, and at its parents."""

    # Chunks

    def chunk_key(self, path: str, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return the key that names a chunk in messages and reports."""

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the chunk that a key relative to the array names, or None."""

    def walk(self, path: str) -> Iterator[str]:
        """Iterate over all keys below a node, relative to it."""

    def get_chunk(self, path: str, metadata: ArrayMetadata, index: Index) -> bytes | None:
        """Return a chunk's bytes, or None if it is not stored."""

    def get_chunks(
        self, path: str, metadata: ArrayMetadata, indices: Iterable[Index], ahead: int
    ) -> Iterator[tuple[Index, bytes | None]]:
        """Iterate over chunks and their bytes; at most `ahead` are requested at once."""

    def head_chunks(
        self, path: str, metadata: ArrayMetadata, indices: Iterable[Index], count: int
    ) -> Iterator[tuple[bytes, int] | None]:
        """Iterate over the first `count` bytes of chunks and their sizes; None if not stored."""

    def has_chunk(self, path: str, metadata: ArrayMetadata, index: Index) -> bool:
        """Return whether a chunk is stored."""

    def set_chunk(self, path: str, metadata: ArrayMetadata, index: Index, data: Buffer) -> None:
        """Store a chunk, whole or not at all."""

    def set_chunks(
        self,
        path: str,
        metadata: ArrayMetadata,
        items: Iterable[tuple[Index, Buffer | None]],
        ahead: int,
    ) -> Iterator[None]:
        """Store chunks in turn, or remove those without bytes; at most `ahead` at once."""

    def delete_chunks(self, path: str, metadata: ArrayMetadata, indices: Iterable[Index]) -> None:
        """Remove chunks; those that are not stored are ignored."""

    def list_chunks(self, path: str, metadata: ArrayMetadata) -> Iterator[Index]:
        """Iterate over the stored chunks, even those beyond the array's ends."""

    def list_chunk_info(
        self, path: str, metadata: ArrayMetadata
    ) -> Iterator[tuple[Index, ObjectInfo]]:
        """Iterate over the stored chunks with their sizes and times."""
