"""A stored array and its chunks: what is passed inside the package, and what tasks carry."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from xarray_n5.arrays.shards import Indices
from xarray_n5.errors import (
    ChunkError,
    MetadataError,
    MissingChunkError,
    N5Error,
    NodeNotFoundError,
    VarlengthChunkError,
)
from xarray_n5.formats.structure import unfinished
from xarray_n5.model.json import check_option
from xarray_n5.model.metadata import ArrayMetadata, Content, Varlength
from xarray_n5.model.paths import join, name_of_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xarray_n5.dialects.protocol import AttributeOrder
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.grid import Index, Piece
    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores.base import Store


Missing: TypeAlias = Literal["fill", "error"]
EdgeChunks: TypeAlias = Literal["truncate", "pad"]
LabelMultisets: TypeAlias = Literal["error", "argmax", "count"]

_IN_FLIGHT = 1 << 27
"""The maximum number of bytes of chunks in flight: 128 MiB."""

_CONTENTS = {"argmax": Content.LABELS, "count": Content.VOTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """The checked options of `open_array`, or those of the group that arrays are opened from."""

    writable: bool = False
    """Whether the array was opened for writing."""
    missing: Missing = "fill"
    """Whether a chunk that is not stored reads as the fill value."""
    label_multisets: LabelMultisets = "error"
    write_empty: bool = True
    """Whether chunks with only the fill value are stored, although they need not be."""
    edges: EdgeChunks = "truncate"
    """Whether chunks at the array's ends are clipped to the array, or stored full-size."""
    attribute_order: AttributeOrder = "auto"
    """The order of lists of axes in attributes, if the user states it."""

    def __post_init__(self) -> None:
        check_option("missing", self.missing, "fill", "error")
        check_option("label_multisets", self.label_multisets, "error", "argmax", "count")
        check_option("edge_chunks", self.edges, "truncate", "pad")
        check_option("attribute_order", self.attribute_order, "auto", "C", "N5")

    def node(self, container: Container, path: str, metadata: ArrayMetadata) -> ArrayNode:
        """Return the array at `path`, opened with these options."""
        if self.label_multisets in _CONTENTS:
            metadata = metadata.multisets_as(_CONTENTS[self.label_multisets])
        return ArrayNode(container=container, path=path, metadata=metadata, options=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayNode:
    """An array in a container: small, frozen and without handles."""

    container: Container
    path: str
    """The array's path in the container."""
    metadata: ArrayMetadata
    """The array."""
    options: OpenOptions
    """How it was opened."""

    indices: Indices = field(default_factory=Indices, compare=False, repr=False)
    """The indices of shards that were read."""

    @property
    def format(self) -> Format:
        """The container's format."""
        return self.container.format

    @property
    def url(self) -> str:
        """The location of the container and the path of the array, joined."""
        return join(self.container.url, self.path)

    @property
    def name(self) -> str:
        """The last part of the path; that of the container's name if the array is the root."""
        return self.path.rpartition("/")[2] or name_of_root(self.container.name)

    def key(self, index: Sequence[int]) -> str:
        """Return a chunk's key, by which errors and reports name it."""
        return self.container.chunk_key(self.path, self.metadata, index)

    @property
    def store(self) -> Store:
        """The store of hidden files: records, digests, quarantine."""
        return self.container.store

    @property
    def identity(self) -> object:
        """The array's identity."""
        return self.container.identity(self.path)

    def etag(self) -> object:
        """Return a value that changes with each write of the metadata; one request."""
        return self.container.etag(self.path)

    def chunk_index(self, key: str) -> Index | None:
        """Return the chunk that a key relative to the array names, or None."""
        return self.container.chunk_index(self.metadata, key)

    def refreshed(self) -> ArrayNode:
        """Return the chunks of the array as it is stored now.

        Raises
        ------
        NodeNotFoundError
            If the array does not exist any more.
        """
        (node,) = self.container.nodes([self.path], verify=False)
        if isinstance(node, N5Error):
            raise node
        metadata = node.metadata
        if not isinstance(metadata, ArrayMetadata):
            raise NodeNotFoundError(self.container.url, self.path, "array")
        metadata = metadata.multisets_as(self.metadata.content)
        return replace(self, metadata=metadata, indices=Indices())

    def bare(self) -> ArrayNode:
        """Return the array for a task: without attributes and caches."""
        return replace(self, container=self.container.uncached(), metadata=self.metadata.bare())

    def filled(self) -> ArrayNode:
        """Return the array with chunks that are not stored read as fill values."""
        return replace(self, options=replace(self.options, missing="fill"))

    def with_shape(self, shape: tuple[int, ...]) -> ArrayNode:
        """Return the array with the shape that a resize will give it; nothing is written."""
        return replace(self, metadata=replace(self.metadata, shape=shape))

    def is_unfinished(self) -> bool:
        """Return whether the array has an unfinished write."""
        return self.path in unfinished(self.store, [self.path])

    # One chunk

    def get(self, index: Index) -> bytes | None:
        """Return a chunk's bytes, or None if it is not stored."""
        return self.container.get_chunk(self.path, self.metadata, index)

    def decoded(
        self, index: Index, data: bytes | None, written: Sequence[Piece] = ()
    ) -> np.ndarray | None:
        """Decode a chunk's bytes to a block of any byte order; None for None.

        Parts that are about to be `written` may be missing from a chunk that is too short.
        """
        if data is None:
            if self.options.missing == "error":
                why = "the chunk is not stored, which missing='error' does not allow"
                raise MissingChunkError("decode", *self._names(index), why)
            return None
        stored = self._decoded(index, data)
        if (shape := stored.shape) != self.metadata.chunks:
            check_former_end(self, index, shape, written)
        return stored

    def _decoded(self, index: Index, data: bytes) -> np.ndarray:
        try:
            return self.format.decode(self.metadata, data)
        except Varlength as error:
            raise VarlengthChunkError(*self._names(index), str(error), error.elements) from error
        except Exception as error:  # any error of a codec, to add the chunk's name
            raise ChunkError("decode", *self._names(index), _reason(error)) from error

    def _names(self, index: Index) -> tuple[str, str]:
        """Return the container and the chunk, as errors name them."""
        return self.container.url, self.key(index)

    def decode(self, index: Index, data: bytes) -> np.ndarray | None:
        """Decode a chunk's bytes to a block; None if its shape does not fit the chunk."""
        stored = self._decoded(index, data)
        return self.native(index, stored) if self.metadata.grid.fits(index, stored.shape) else None

    def block(
        self, index: Index, *, check: bool = False, written: Sequence[Piece] = ()
    ) -> np.ndarray:
        """Return a chunk clipped to the array, in native order: new, whole, writable.

        The decoded array itself is returned if possible, which saves a copy. With `check`, raise
        for a group with the metadata of an array. `written` are parts that are replaced next.
        """
        data = self.get(index)
        if data is None and check:
            self.container.check_array(self.path, self.metadata)
        stored = self.decoded(index, data, written)
        decoded = None if data is None or stored is None else _in_place(stored, data)
        if decoded is not None and decoded.dtype == self.metadata.dtype:
            if decoded.shape == self.metadata.grid.extent(index):
                return decoded
            stored = decoded
        del data  # before another copy is made
        return self.native(index, stored)

    def native(self, index: Index, stored: np.ndarray | None) -> np.ndarray:
        """Return a stored chunk clipped to the array: new, whole, in native order."""
        extent = self.metadata.grid.extent(index)
        if stored is not None and all(
            have >= need for have, need in zip(stored.shape, extent, strict=True)
        ):
            within: Any = (*map(slice, extent), ...)  # without axes, NumPy would return an element
            block: np.ndarray = stored[within].astype(self.metadata.dtype, order="C")
            return block
        result = np.full(extent, self.metadata.fill_value, self.metadata.dtype)
        if stored is not None:
            # Blocks remain short where an array grew after its last chunks were clipped.
            overlap = tuple(map(slice, map(min, stored.shape, extent)))
            result[overlap] = stored[overlap]
        return result

    def save(self, index: Index, block: np.ndarray, prove: Callable[[], None] | None = None) -> int:
        """Store a chunk, clipped to the array: whole, in one request.

        `prove` is called as late as possible before the chunk is stored. Return the number of
        stored bytes: zero for an empty chunk that is omitted.
        """
        data = self.encoded(index, block)
        if prove is not None:
            prove()
        deque(self.container.set_chunks(self.path, self.metadata, [(index, data)], 1), maxlen=0)
        if self.metadata.inner is not None:
            self.indices.forget([index])
        return 0 if data is None else len(data)

    def encoded(self, index: Index, block: np.ndarray) -> Buffer | None:
        """Return a chunk's bytes; None for an empty chunk that is omitted."""
        if not self.metadata.content.is_writable:
            raise MetadataError(
                f"{self.url} has {self.metadata.content.value}, which cannot be written"
            )
        sparse = not self.options.write_empty and self.metadata.may_lack_chunks
        if sparse and self.is_empty(block):
            return None
        pads = (self.options.edges == "pad" or self.format.pads) and self.metadata.inner is None
        if pads and block.shape != self.metadata.chunks:
            full = np.full(self.metadata.chunks, self.metadata.fill_value, self.metadata.dtype)
            full[tuple(map(slice, block.shape))] = block
            block = full
        try:
            return self.format.encode(self.metadata, block)
        except Exception as error:  # as above
            raise ChunkError("encode", *self._names(index), _reason(error)) from error

    def is_empty(self, block: np.ndarray) -> bool:
        """Return whether a block has only the fill value, bit for bit."""
        fill = np.array(self.metadata.fill_value, self.metadata.dtype)
        if fill.dtype.hasobject:
            return bool((block == fill).all())
        return bool((_bits(block) == _bits(fill.reshape(1))[0]).all())

    @property
    def ahead(self) -> int:
        """The number of chunks in flight: each round of requests takes as long as one request."""
        nbytes = math.prod(self.metadata.chunks) * self.metadata.dtype.itemsize
        return max(1, min(self.container.batch, _IN_FLIGHT // max(1, nbytes)))

    # All chunks

    def delete(self, indices: Iterable[Index]) -> None:
        """Remove chunks."""
        self.container.delete_chunks(self.path, self.metadata, indices)

    def stored_chunks(self) -> Iterator[Index]:
        """Iterate over the stored chunks of the grid, by listing."""
        return filter(self.metadata.grid.__contains__, self.stored_indices())

    def stored_indices(self, rest: list[str] | None = None) -> Iterator[Index]:
        """Iterate over the chunks that are stored, also those beyond the array's ends.

        The keys of other files are added to `rest`, which none are in HDF5.
        """
        stored = False
        for index in self.container.list_chunks(self.path, self.metadata, rest):
            stored = True
            yield index
        if not stored:
            self.container.check_array(self.path, self.metadata)


def _reason(error: Exception) -> str:
    text = str(error) or "no details"
    return text if isinstance(error, (ValueError, EOFError)) else f"{type(error).__name__}: {text}"


def _in_place(decoded: np.ndarray, data: Buffer) -> np.ndarray | None:
    """Return elements in native order, in the memory that they were decoded into.

    None if a copy is needed: they are views of the stored bytes `data`, which others may hold.
    """
    if not (decoded.flags.writeable and decoded.flags.c_contiguous) or decoded.dtype.hasobject:
        return None
    if np.may_share_memory(decoded, np.frombuffer(data, np.uint8)):
        return None
    if decoded.dtype.isnative:
        return decoded
    if decoded.dtype.names is not None:
        return None  # fields may differ in their order
    return decoded.byteswap(inplace=True).view(decoded.dtype.newbyteorder("="))


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays of one shape have the same elements, bit for bit.

    The bytes of numbers may be in another order; elements of another type are converted first.

    >>> same_bits(np.ones(2, ">u2"), np.ones(2, "<u2"))
    True
    >>> same_bits(np.array([0.0]), np.array([-0.0]))
    False
    """
    if other.dtype.hasobject or not other.size:
        return bool((one == other).all())
    return np.array_equal(_bits(one.astype(other.dtype, copy=False)), _bits(other))


def _bits(block: np.ndarray) -> np.ndarray:
    """Return the bytes of each element, a row each."""
    flat = np.ascontiguousarray(block).reshape(-1)
    return flat.view("u1").reshape(flat.size, -1)


_HEAD = 512
"""The number of bytes that are read from the beginning of a neighbour: more than any header."""


def check_former_end(
    node: ArrayNode, index: Index, shape: tuple[int, ...], written: Sequence[Piece] = ()
) -> None:
    """Check that the array may have ended where a chunk ends that is shorter than its extent.

    N5 clips the last chunks of an array, and they stay short when it grows. Any length from one
    element to a full chunk may be a former end, so the neighbouring chunks are evidence.

    Along each axis where it is short, nothing follows it. Or the next chunk is whole, because it
    was written after the array had grown, and a chunk next to this one ends at the same element.
    What is about to be `written` is not missing: chunks after it may be written at the same time.

    Raises
    ------
    ChunkError
        If the chunk is damaged.
    """
    grid, extent = node.metadata.grid, node.metadata.grid.extent(index)
    for axis, (end, stop) in enumerate(zip(shape, extent, strict=True)):
        after = _step(index, axis, 1)
        if end >= stop or after not in grid or _fill(written, axis, range(end, stop)):
            continue
        others = [other for other in range(len(index)) if other != axis]
        aside = [_step(index, other, step) for other in others for step in (-1, 1)]
        around = [after, *(at for at in aside if at in grid)]
        heads = node.container.head_chunks(node.path, node.metadata, around, _HEAD)
        ends = [_end(node, head, axis) for head in heads]
        if ends[0] is not None and (ends[0] < grid.extent(after)[axis] or end not in ends[1:]):
            why = (
                f"its header has shape {shape}, expected {extent}; the array did not end there "
                f"before it grew, since chunk {node.key(after)!r} follows"
            )
            raise ChunkError("decode", node.container.url, node.key(index), why)


def _fill(written: Sequence[Piece], axis: int, rest: range) -> bool:
    """Return whether pieces of a selection cover a chunk in the range `rest` of an axis."""
    if not written or not all(part.whole for at, part in enumerate(written) if at != axis):
        return False
    return bool(np.isin(rest, np.arange(rest.stop)[written[axis].inside]).all())


def _end(node: ArrayNode, head: tuple[bytes, int] | None, axis: int) -> int | None:
    """Return the length of a chunk along an axis: None if it is not stored, 0 if it is damaged."""
    try:
        return None if head is None else node.format.peek(node.metadata, *head)[axis]
    except (ValueError, EOFError):
        return 0


def _step(index: Index, axis: int, step: int) -> Index:
    return (*index[:axis], index[axis] + step, *index[axis + 1 :])
