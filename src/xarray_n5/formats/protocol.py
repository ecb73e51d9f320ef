"""What a format is: documents and chunks of a container, and what their bytes mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import ArrayMetadata, Attributes, GroupMetadata, Metadata

Documents: TypeAlias = "Mapping[str, bytes]"
"""A node's documents that are there: keys relative to the node, and the bytes."""


class Format(Protocol):
    """A layout of arrays and groups in a container."""

    @property
    def name(self) -> str:
        """What users call the format."""

    @property
    def pads(self) -> bool:
        """Whether chunks at an array's ends are always stored full-size."""

    @property
    def documents(self) -> tuple[str, ...]:
        """The keys of a node's documents, that which makes it an array first."""

    def lists(self, root: Callable[[], Documents]) -> str:
        """Return as in which format lists of axes stand in a container with this `root`."""

    def read(self, documents: Documents, where: str) -> Metadata:
        """Return what a node's documents say; `where` names it in errors."""

    def as_group(self, documents: Documents, where: str) -> GroupMetadata:
        """Return the group that a node's documents describe, be they those of an array."""

    def complete(self, metadata: ArrayMetadata, layout: Attributes | None = None) -> ArrayMetadata:
        """Return a new array's metadata with what the format alone knows of its chunks.

        Members of the format's own document in `layout` say how these are stored.
        """

    def create(self, metadata: Metadata, before: Documents, where: str) -> Documents:
        """Return the documents of a new node, where `before` was: in the order of writing."""

    def with_attributes(
        self, documents: Documents, attributes: Attributes, where: str
    ) -> Documents:
        """Return what changes with other user attributes; all else stays to the letter."""

    def with_shape(self, documents: Documents, shape: tuple[int, ...], where: str) -> Documents:
        """Return what changes with another shape; all else stays to the letter."""

    def above(self, documents: Documents, where: str, *, fresh: bool) -> Documents:
        """Return what a group lacks that a new node is put into, be it a fresh container's root."""

    def check_container(self, documents: Documents, where: str) -> None:
        """Warn where a container's root says that it is newer than what can be read."""

    def matches(self, documents: Documents, constraints: Attributes, where: str) -> None:
        """Raise where a node's documents do not hold exactly what `constraints` name."""

    def assume(self, constraints: Attributes, where: str) -> ArrayMetadata:
        """Return the metadata that `constraints` alone describe, with the defaults of creation."""

    def chunk_key(self, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return a chunk's key, relative to its array."""

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the chunk that a key relative to the array names, or None."""

    def decode(self, metadata: ArrayMetadata, data: bytes) -> np.ndarray:
        """Return a chunk's stored elements: of any shape up to a chunk's, any byte order."""

    def peek(self, metadata: ArrayMetadata, head: bytes, size: int) -> tuple[int, ...]:
        """Return the shape that a chunk's first bytes tell.

        Raises
        ------
        EOFError
            If a file of `size` bytes cannot hold it.
        ValueError
            If that is no chunk's beginning.
        """

    def encode(self, metadata: ArrayMetadata, block: np.ndarray) -> bytes:
        """Return the bytes that store `block`."""
