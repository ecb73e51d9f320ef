"""One stored array, as a user holds it."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from xarray_n5.arrays.attributes import NodeAttributes
from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.invalidate import prepare
from xarray_n5.arrays.points import read_points
from xarray_n5.arrays.repr import as_text, show_array
from xarray_n5.arrays.repr_tree import array_html
from xarray_n5.arrays.transfer import read, write
from xarray_n5.dialects import geometry_of
from xarray_n5.errors import N5Error, NodeNotFoundError, ReadOnlyError, VarlengthChunkError
from xarray_n5.model.grid import ChunkGrid, span
from xarray_n5.model.indexing import as_numbers, broadcast, fill_ellipsis, normalize
from xarray_n5.model.metadata import ArrayMetadata, Content
from xarray_n5.model.paths import join
from xarray_n5.stores import name_of_root

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.indexing import AxisIndex
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.stores.protocol import Store

AxisOrder: TypeAlias = Literal["C", "F"]


class Array:
    """An array in a container, as :func:`open_array` and :func:`create_array` return it.

    It reads and writes with what numpy takes between brackets, but for one thing: several index
    arrays select orthogonally, as in xarray; :attr:`vindex` takes points. Reads return new,
    writable arrays in native byte order. It holds no open file, pickles small and may be used
    from several threads; what another handle resizes it sees after :meth:`refresh`.
    """

    def __init__(
        self,
        chunks: ChunkIO,
        *,
        writable: bool = False,
        axis_order: AxisOrder = "C",
        cache_bytes: int = 0,
    ) -> None:
        self._chunks = chunks
        self._writable = writable
        self._axis_order: AxisOrder = axis_order
        self._cache_bytes = cache_bytes
        self._cache = _new_cache(cache_bytes)

    # What it is

    @property
    def metadata(self) -> ArrayMetadata:
        """All that the container says of the array, in C order."""
        return self._chunks.metadata

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape, in elements."""
        return self._ordered(self.metadata.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a stored chunk, in elements."""
        return self._ordered(self.metadata.chunks)

    @property
    def axis_order(self) -> AxisOrder:
        """Whether axes are in numpy's order or turned round, as the array was opened."""
        return self._axis_order

    @property
    def grid(self) -> ChunkGrid:
        """The stored chunk grid."""
        return ChunkGrid(self.shape, self.chunks)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element, in native byte order."""
        return self.metadata.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.metadata.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.metadata.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take in memory."""
        return self.size * self.dtype.itemsize

    @property
    def path(self) -> str:
        """The array's path in its container."""
        return self._chunks.path

    @property
    def name(self) -> str:
        """The last part of the array's path; of the container's place where it is the root."""
        return self.path.rpartition("/")[2] or name_of_root(self._chunks.container.name)

    @property
    def url(self) -> str:
        """The container's place and the array's path in one."""
        return join(self._chunks.container.url, self.path)

    @property
    def container(self) -> Store:
        """Where the container's files are."""
        return self._chunks.container.store

    @property
    def place(self) -> object:
        """What tells the array's place from others."""
        return self._chunks.container.identity(self.path)

    @property
    def attrs(self) -> NodeAttributes:
        """The user's attributes; setting one writes it."""
        chunks = self._chunks
        return NodeAttributes(
            chunks.container,
            chunks.path,
            chunks.metadata.attributes,
            writable=self._writable,
            changed=self._attributes_changed,
            kind="array",
        )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The array's axes: names, units, where samples lie."""
        return self.geometry().axes

    def node(self, *, inherit: bool = False, like: ArrayContext | None = None) -> ArrayContext:
        """Return the array as dialects see it, with what is around it; one batch of reads.

        Parameters
        ----------
        inherit
            Whether all groups above have their say, as in Neuroglancer.
        like
            An array in the same group, around which has been looked already.
        """
        chunks = self._chunks
        return load_context(
            chunks.container, chunks.path, chunks.metadata, inherit=inherit, like=like
        )

    def geometry(
        self, dialect: str | Iterable[str] | None = None, *, node: ArrayContext | None = None
    ) -> Geometry:
        """Return what the attributes tell of the axes.

        Parameters
        ----------
        dialect
            The dialects to listen to, the most trusted first; all by default.
        node
            The array as :meth:`node` returns it, where it is known already.
        """
        found = geometry_of(self.node() if node is None else node, dialect)
        return found if self._axis_order == "C" else found.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return as_text(*show_array(self))

    def _repr_html_(self) -> str:
        return array_html(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a stored array cannot become a numpy array without a copy")
        return np.asarray(self[...], dtype)

    def __dask_tokenize__(self) -> object:
        return ("xarray_n5.Array", *self._chunks.token, self._axis_order)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None, "_cache_bytes": 0}

    def bare(self) -> Array:
        """Return a handle without user attributes and without a cache: what a task carries."""
        chunks = self._chunks.bare()
        return Array(chunks, writable=self._writable, axis_order=self._axis_order)

    def _ordered(self, items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(items) if self._axis_order == "C" else tuple(items)[::-1]

    # Selections

    def __getitem__(self, key: object) -> Any:
        selection = normalize(key, self.shape)
        result = np.empty(selection.shape, self.dtype)
        # First the cache: what another thread puts in its place is for what it made of the array.
        cache = self._cache
        if self._axis_order == "C":
            read(self._chunks, selection.axes, result, cache)
        else:
            read(self._chunks, selection.axes[::-1], result.T, cache)
        result = result[selection.view]
        if selection.newaxes:
            result = np.expand_dims(result, selection.newaxes)
        return result

    def __setitem__(self, key: object, value: object) -> None:
        self.write(key, value)

    def write(self, key: object, value: object) -> int:
        """Write `value` where `key` selects, and return the number of chunks that this replaced.

        Chunks that the selection covers are not read. Unlike reads and writes of numpy arrays,
        two writes into one chunk at the same time lose one of them: give each chunk one writer.

        Raises
        ------
        ReadOnlyError
            If the array is open for reading.
        TypeError
            If `value` is not numbers.
        """
        self._check_writable()
        axes, values = self._sorted(key, value)
        self._announce(lambda: span(self.metadata.grid.project(axes)))
        try:
            return write(self._chunks, axes, values)
        finally:
            self._invalidate()

    def writing(
        self,
        key: object,
        value: object,
        done: Container[tuple[int, ...]] = (),
        prove: Callable[[], None] | None = None,
    ) -> Iterator[tuple[tuple[int, ...], np.ndarray, int]]:
        """Write as :meth:`write` does, a chunk at a time, skipping those that are `done`.

        `prove` is called before each chunk is stored, and raises where it must not be any more.
        Each time a chunk's index in the stored order, its block and its bytes are yielded.
        """
        self._check_writable()
        axes, values = self._sorted(key, value)
        try:
            yield from self._chunks.write(axes, values, done, prove)
        finally:
            self._invalidate()

    def _sorted(self, key: object, value: object) -> tuple[tuple[AxisIndex, ...], np.ndarray]:
        """Return what `key` selects, and the values for it, in the stored order."""
        selection = normalize(key, self.shape)
        values = broadcast(value, selection, self.dtype)
        return self._ordered(selection.axes), values if self._axis_order == "C" else values.T

    def stamp(self) -> object:
        """Return what changes whenever the metadata are written again; one request."""
        return self._chunks.container.etag(self.path)

    @property
    def vindex(self) -> PointIndexer:
        """Selection of points: index arrays are broadcast together, as in numpy.

        Their axes come first in the result, those of slices after them.
        """
        return PointIndexer(self)

    def read_points(self, key: Sequence[object]) -> np.ndarray:
        """Return what `vindex` selects, from an item for each axis."""
        cache = self._cache  # first, as above
        if self._axis_order == "C":
            return read_points(self._chunks, key, cache)
        found = read_points(self._chunks, key[::-1], cache)
        slices = sum(isinstance(item, slice) for item in key)
        points = tuple(range(found.ndim - slices))
        return found.transpose(*points, *reversed(range(found.ndim - slices, found.ndim)))

    # Chunks

    def read_chunk(self, index: Sequence[int]) -> np.ndarray:
        """Return one chunk, as far as the array reaches; of a varlength chunk its elements.

        Parameters
        ----------
        index
            The chunk's coordinates in :attr:`grid`.

        Raises
        ------
        IndexError
            If the grid has no such chunk.
        ChunkError
            If the chunk cannot be decoded, or ``missing="error"`` and it is not there.
        """
        try:
            block = self._chunks.block(self._stored_index(index))
        except VarlengthChunkError as error:
            return error.elements
        return block if self._axis_order == "C" else np.ascontiguousarray(block.T)

    def write_chunk(self, index: Sequence[int], block: object) -> None:
        """Store one chunk, of the shape that the array has there.

        Raises
        ------
        IndexError
            If the grid has no such chunk.
        ValueError
            If `block` has another shape.
        """
        self._check_writable()
        stored = self._stored_index(index)
        values = as_numbers(block, self.dtype)
        extent = self.grid.extent(self._ordered(stored))
        if values.shape != extent:
            raise ValueError(
                f"chunk {tuple(index)} of {self.url} has the shape {extent}, not {values.shape}"
            )
        self._announce(lambda: [range(place, place + 1) for place in stored])
        try:
            self._chunks.save(stored, values if self._axis_order == "C" else values.T)
        finally:
            self._invalidate()

    def delete_chunk(self, index: Sequence[int]) -> None:
        """Remove one chunk; it reads as the fill value then. One that is absent does not matter."""
        self._check_writable()
        stored = self._stored_index(index)
        self._announce(lambda: [range(place, place + 1) for place in stored])
        self._chunks.delete([stored])
        self._invalidate()

    def chunk_exists(self, index: Sequence[int]) -> bool:
        """Return whether one chunk is stored."""
        chunks = self._chunks
        return chunks.container.has_chunk(chunks.path, chunks.metadata, self._stored_index(index))

    @property
    def documents(self) -> AbstractSet[str]:
        """The keys, relative to the array, of what describes it."""
        return self._chunks.container.documents

    def chunk_key(self, index: Sequence[int]) -> str:
        """Return a chunk's key in the container."""
        return self._chunks.key(self._stored_index(index))

    def decode_chunk(self, index: Sequence[int], data: bytes) -> tuple[np.ndarray, bool]:
        """Return what a chunk's bytes hold, and whether that is as much as the array has there."""
        return self._chunks.decode(self._stored_index(index), data)

    def peek_chunk(self, head: bytes, size: int) -> tuple[int, ...]:
        """Return the shape that a chunk's first bytes tell; raise where its size denies it."""
        return self._chunks.format.peek(self.metadata, head, size)

    def chunk_index(self, key: str) -> tuple[int, ...] | None:
        """Return the chunk that a key relative to the array names, in the stored order, or None."""
        return self._chunks.container.chunk_index(self.metadata, key)

    def stored_chunks(self) -> Iterator[tuple[int, ...]]:
        """Iterate over the indices of the chunks that are stored, by listing them."""
        for index in self._chunks.stored_indices():
            if index in self.metadata.grid:
                yield self._ordered(index)

    def _stored_index(self, index: Sequence[int]) -> tuple[int, ...]:
        found = tuple(map(operator.index, index))
        if found not in self.grid:
            raise IndexError(
                f"{self.url} has no chunk {found}; its grid has {self.grid.counts} of them"
            )
        return self._ordered(found)

    # Changes

    def resize(self, shape: Sequence[int]) -> Self:
        """Change the array's shape in the container, and return the array.

        What lies beyond a smaller shape is removed for good; what a larger one adds reads as
        the fill value. The chunks at the array's ends are rewritten where they change. A resize
        that was cut short is completed by the next one.

        Raises
        ------
        ValueError
            If `shape` has another number of axes or a negative size.
        """
        self._check_writable()
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        new = self._ordered(tuple(map(operator.index, sizes)))
        if len(new) != self.ndim or any(size < 0 for size in new):
            raise ValueError(f"{self.url} has {self.ndim} axes; {sizes} is no shape for it")
        before = self.refresh().metadata
        if not before.content.is_writable:
            raise ValueError(f"{self.url} holds {before.content.value}, which are read only")
        chunks = self._chunks
        if any(map(operator.lt, new, before.shape)):
            self._announce(lambda: [range(0)])
        stored = list(chunks.stored_indices())
        chunks.prepare(new, stored)
        chunks.container.resize(self.path, new)
        self._chunks = replace(chunks, metadata=replace(before, shape=new))
        self._chunks.trim(before, stored)
        self._invalidate()
        return self

    def with_shape(self, shape: tuple[int, ...]) -> Array:
        """Return a handle of the array as it will be when it is resized; nothing is written."""
        chunks = replace(self._chunks, metadata=replace(self.metadata, shape=self._ordered(shape)))
        return Array(chunks, writable=self._writable, axis_order=self._axis_order)

    def renewed(self) -> Array:
        """Return a handle of the array as it is stored now, without user attributes."""
        return self.bare().refresh().bare()

    def refresh(self) -> Self:
        """Read the metadata again, forget cached chunks, and return the array.

        Raises
        ------
        NodeNotFoundError
            If the array is no longer there.
        """
        chunks = self._chunks
        (node,) = chunks.container.nodes([self.path], verify=False)
        if isinstance(node, N5Error):
            raise node
        found = node.metadata
        if not isinstance(found, ArrayMetadata):
            raise NodeNotFoundError(chunks.container.url, self.path, "array")
        if found.content is Content.LABEL_MULTISETS:
            found = replace(found, dtype=self.dtype)
        self._chunks = replace(chunks, metadata=found)
        self._invalidate()
        return self

    def _attributes_changed(self, attributes: Attributes) -> None:
        self._chunks = replace(self._chunks, metadata=replace(self.metadata, attributes=attributes))

    def _announce(self, box: Callable[[], Sequence[range]]) -> None:
        """Prepare what is kept beside the array for chunks to change by other means than `to_n5`.

        Digests and unfinished writes may have appeared since the handle was opened.
        """
        prepare(self._chunks.container.store, self._chunks.path, box, self.metadata.chunks)

    def _check_writable(self) -> None:
        if not self._writable:
            raise ReadOnlyError(self._chunks.container.url, self.path)

    def _invalidate(self) -> None:
        self._cache = _new_cache(self._cache_bytes)


def io_of(array: Array) -> ChunkIO:
    """Return the chunks of an array, for those who write, verify or copy them."""
    return array._chunks  # noqa: SLF001


class PointIndexer:
    """What stands before the brackets in ``array.vindex[...]``."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: object) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        items = fill_ellipsis(items, self._array.ndim)
        if all(isinstance(item, slice) for item in items):
            return self._array[tuple(items)]
        return self._array.read_points(items)


def _new_cache(size: int) -> Any:
    if size <= 0:
        return None
    from zict import LRU

    return LRU(size, {}, weight=lambda _, block: block.nbytes)
