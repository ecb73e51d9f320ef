"""The protocol of formats whose files contain several chunks, to read parts of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from xarray_n5.formats.protocol import KeyedFormat

if TYPE_CHECKING:
    import numpy as np

    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import ChunkGrid, Index
    from xarray_n5.model.metadata import ArrayMetadata


class ShardedFormat(KeyedFormat, Protocol):
    """A format with :attr:`Format.holds_shards`."""

    def sharding(self, metadata: ArrayMetadata) -> Sharding | None:
        """Return the codec that finds the parts of a shard, if an array has shards."""


class Sharding(Protocol):
    """Locate and decode the chunks in a shard."""

    @property
    def grid(self) -> ChunkGrid:
        """The chunks of a shard."""

    @property
    def index_nbytes(self) -> int:
        """The size of the index."""

    @property
    def at_start(self) -> bool:
        """Whether the index is at the beginning of a shard, not at its end."""

    def read_index(self, view: memoryview) -> np.ndarray:
        """Return the location of each chunk, from a shard or its index alone."""

    def range_of(self, where: np.ndarray, index: Index) -> tuple[int, int] | None:
        """Return the first byte of a chunk and its end; None if it is not stored."""

    def bytes_of(self, where: np.ndarray, index: Index, shard: memoryview) -> memoryview | None:
        """Return the bytes of a chunk in a whole shard; None if it is not stored."""

    def decode_inner(self, index: Index, data: Buffer | None) -> np.ndarray | None:
        """Return the elements of a chunk; None for None."""
