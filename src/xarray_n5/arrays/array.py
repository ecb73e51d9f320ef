"""Arrays of a container: NumPy indexing, chunks, attributes."""

from __future__ import annotations

import math
import operator
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from xarray_n5.arrays.attributes import NodeAttributes
from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.info import ArrayInfo
from xarray_n5.arrays.invalidate import prepare
from xarray_n5.arrays.repr import show_compression
from xarray_n5.arrays.resize import check_shape, resize
from xarray_n5.arrays.selection import (
    Indexer,
    chunk_values,
    read_selection,
    read_vectorized,
    stored_index,
    stored_order,
)
from xarray_n5.arrays.transfer import new_cache, write
from xarray_n5.dialects import geometry_of
from xarray_n5.errors import ReadOnlyError, VarlengthChunkError
from xarray_n5.formats.unfinished import unfinished
from xarray_n5.model.grid import ChunkGrid, span
from xarray_n5.model.keywords import suggest_keywords
from xarray_n5.model.paths import join, name_of_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.dialects.protocol import AttributeOrder, DialectChoice
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.model.metadata import Attributes

AxisOrder: TypeAlias = Literal["C", "F"]


@suggest_keywords
class Array:
    """An array in a container, as :func:`open_array` and :func:`create_array` return it.

    Arrays support NumPy indexing, but several index arrays select orthogonally, as in xarray;
    :attr:`vindex` selects points. Reads return new, writable arrays in native byte order. An array
    holds no open file, pickles small and may be used from several threads.
    """

    def __init__(
        self,
        io: ChunkIO,
        *,
        writable: bool = False,
        transposed: bool = False,
        cache_bytes: int = 0,
        attribute_order: AttributeOrder = "auto",
    ) -> None:
        self._io, self._writable, self._transposed = io, writable, transposed
        self._attribute_order = attribute_order
        self._cache_bytes, self._cache = cache_bytes, new_cache(cache_bytes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape, in elements."""
        return self._ordered(self._io.metadata.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk, in elements."""
        return self._ordered(self._io.metadata.inner or self._io.metadata.chunks)

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of a shard, a stored file of several chunks; None where each has a file."""
        return None if self._io.metadata.inner is None else self.grid.chunks

    @property
    def grid(self) -> ChunkGrid:
        """The grid of stored files: of chunks, or of shards."""
        return ChunkGrid(self.shape, self._ordered(self._io.metadata.chunks))

    @property
    def nchunks(self) -> int:
        """The number of chunks, stored or not."""
        return ChunkGrid(self.shape, self.chunks).size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element, in native byte order."""
        return self._io.metadata.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._io.metadata.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._io.metadata.shape)

    @property
    def nbytes(self) -> int:
        """The size of all elements in memory, in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def compression(self) -> Compression:
        """The compression of the chunks."""
        return self._io.metadata.compression

    @property
    def fill_value(self) -> object:
        """The value of elements whose chunk is not stored."""
        return self._io.metadata.fill_value

    @property
    def read_only(self) -> bool:
        """Whether the array is open for reading only."""
        return not self._writable

    @property
    def path(self) -> str:
        """The array's path in its container."""
        return self._io.path

    @property
    def name(self) -> str:
        """The last part of the array's path; of the container's name where it is the root."""
        return self.path.rpartition("/")[2] or name_of_root(self._io.container.name)

    @property
    def url(self) -> str:
        """The container's location and the array's path in one."""
        return join(self._io.container.url, self.path)

    @property
    def attrs(self) -> NodeAttributes:
        """The user's attributes; setting one writes it."""
        return NodeAttributes(
            self._io.container,
            self.path,
            self._io.metadata.attributes,
            writable=self._writable,
            changed=self._attributes_changed,
            kind="array",
        )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The array's axes: names, units and the positions of samples."""
        return self.geometry().axes

    def geometry(self, dialect: DialectChoice | None = None) -> Geometry:
        """Return the axes that the metadata describe, read by some dialects or by all.

        They are names or dialects, the most trusted first.
        """
        io, order = self._io, self._attribute_order
        context = load_context(io.container, io.path, io.metadata, attribute_order=order)
        found = geometry_of(context, dialect)
        return found.transpose() if self._transposed else found

    @property
    def info(self) -> ArrayInfo:
        """The facts of the array, for people to read; its axes are read again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # opening an array warns of what is odd
            stopped = self.path in unfinished(self._io.store, [self.path])
            return self._info(self.geometry(), unfinished=stopped)

    def _info(self, geometry: Geometry | None, *, unfinished: bool) -> ArrayInfo:
        return ArrayInfo(
            url=self.url,
            path=self.path,
            shape=self.shape,
            dtype=self.dtype,
            chunks=self.chunks,
            shards=self.shards,
            compression=show_compression(self.compression),
            attributes=self._io.metadata.attributes,
            geometry=geometry,
            unfinished=unfinished,
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return repr(self.info)

    def _repr_html_(self) -> str:
        return self.info._repr_html_()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a stored array cannot become a numpy array without a copy")
        return np.asarray(self[...], dtype)

    def __dask_tokenize__(self) -> object:
        return ("xarray_n5.Array", *self._io.token, self._transposed)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None, "_cache_bytes": 0}

    def _ordered(self, items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(items[::-1] if self._transposed else items)

    def __getitem__(self, key: object) -> Any:
        return read_selection(self._io, key, self._cache, transposed=self._transposed)

    def __setitem__(self, key: object, value: object) -> None:
        # Chunks that the selection covers are not read; others are read, merged and replaced.
        axes, values = stored_order(self._io, key, value, transposed=self._transposed)
        with self._changing(lambda: span(self._io.metadata.grid.project(axes))):
            write(self._io, axes, values)

    @property
    def oindex(self) -> Indexer:
        """Orthogonal indexing: each index array selects along its own axis, as in zarr."""
        return Indexer(self.__getitem__, self.__setitem__)

    @property
    def vindex(self) -> Indexer:
        """Vectorized indexing: index arrays are broadcast together, as in NumPy.

        Their axes come first in the result, those of slices after them.
        """
        return Indexer(partial(read_vectorized, self._io, self._cache, transposed=self._transposed))

    def read_chunk(self, index: Sequence[int]) -> np.ndarray:
        """Return one chunk (or shard) of :attr:`grid`, as far as the array reaches.

        Of a varlength chunk, its elements are returned.

        Raises
        ------
        IndexError
            If the grid has no such chunk.
        ChunkError
            If the chunk cannot be decoded, or ``missing="error"`` and it is not there.
        """
        try:
            block = self._io.block(self._stored_index(index))
        except VarlengthChunkError as error:
            return error.elements
        return np.ascontiguousarray(block.T) if self._transposed else block

    def write_chunk(self, index: Sequence[int], block: object) -> None:
        """Store one chunk of :attr:`grid`; raise ValueError unless `block` has its shape."""
        self._check_writable()
        stored = self._stored_index(index)
        values = chunk_values(self._io, stored, block, transposed=self._transposed)
        with self._changing(lambda: [range(number, number + 1) for number in stored]):
            self._io.save(stored, values)

    def delete_chunk(self, index: Sequence[int]) -> None:
        """Remove one chunk, if it is stored; it reads as the fill value then."""
        stored = self._stored_index(index)
        with self._changing(lambda: [range(number, number + 1) for number in stored]):
            self._io.delete([stored])

    def chunk_exists(self, index: Sequence[int]) -> bool:
        """Return whether one chunk is stored."""
        return self._io.exists(self._stored_index(index))

    def _stored_index(self, index: Sequence[int]) -> tuple[int, ...]:
        return stored_index(self._io, index, transposed=self._transposed)

    def resize(self, shape: Sequence[int]) -> Self:
        """Change the array's shape in the container, and return the array.

        Elements beyond a smaller shape are removed for good; those that a larger one adds have
        the fill value. A resize that was cut short is completed by the next one.

        Raises
        ------
        ValueError
            If `shape` has another number of axes or a negative size.
        """
        new = self._ordered(check_shape(shape, self.ndim, self.url))
        self._check_writable()
        self.refresh()
        if any(map(operator.lt, new, self._io.metadata.shape)):
            prepare(self._io.store, self.path, lambda: [range(0)], self._io.metadata.chunks)
        self._io = resize(self._io, new)
        self._invalidate()
        return self

    def refresh(self) -> Self:
        """Read the metadata again, forget cached chunks, and return the array.

        Raises
        ------
        NodeNotFoundError
            If the array does not exist any more.
        """
        self._io = self._io.refreshed()
        self._invalidate()
        return self

    def _attributes_changed(self, attributes: Attributes) -> None:
        self._io = replace(self._io, metadata=replace(self._io.metadata, attributes=attributes))

    @contextmanager
    def _changing(self, box: Callable[[], Sequence[range]]) -> Iterator[None]:
        """Change chunks: digests and unfinished writes do not rely on them any more."""
        self._check_writable()
        prepare(self._io.store, self._io.path, box, self._io.metadata.chunks)
        try:
            yield
        finally:
            self._invalidate()

    def _check_writable(self) -> None:
        if not self._writable:
            raise ReadOnlyError(self._io.container.url, self.path)

    def _invalidate(self) -> None:
        self._cache = new_cache(self._cache_bytes)
