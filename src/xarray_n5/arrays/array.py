"""Arrays of a container: NumPy indexing, chunks, attributes."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from xarray_n5.arrays.changes import check_no_append, forget_rows, prepare_change
from xarray_n5.arrays.context import context_of
from xarray_n5.arrays.describe import describe_array
from xarray_n5.arrays.spec import as_sizes
from xarray_n5.arrays.transfer import checked_index, read_selection, write
from xarray_n5.dialects import geometry_of
from xarray_n5.errors import ReadOnlyError, VarlengthChunkError
from xarray_n5.model.grid import broadcast, normalize, span
from xarray_n5.model.json import as_json
from xarray_n5.model.metadata import ArrayMetadata, check_factors, lists_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from xarray_n5.arrays.describe import Description
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.dialects.protocol import DialectChoice
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Kind, Node
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.grid import ChunkGrid, Index
    from xarray_n5.model.metadata import Attributes, Compression


class NodeAttributes(MutableMapping[str, Any]):
    """The attributes of one array or group, without those that the format itself needs.

    They are read from memory. Each change is applied to the attributes that are stored now, which
    keeps the changes of other writers; `update` makes several in one write.
    """

    def __init__(
        self,
        container: Container,
        node: Node | ArrayNode,
        changed: Callable[[Attributes], None],
        *,
        writable: bool,
    ) -> None:
        self._container, self._path = container, node.path
        self._items = node.metadata.attributes  # replaced by each change, never changed in place
        self._kind: Kind = "array" if isinstance(node.metadata, ArrayMetadata) else "group"
        self._writable, self._changed = writable, changed

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(dict(self._items))

    def __setitem__(self, key: str, value: object) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        if key not in self._items:
            raise KeyError(key)
        self.change({}, {key})

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set several attributes in one write.

        Raises
        ------
        MetadataError
            If a value is not JSON, or a name is reserved by the format; nothing is written then.
        ReadOnlyError
            If the node is open for reading.
        """
        self.change(dict(other, **more), ())

    def clear(self) -> None:
        """Remove all attributes in one write."""
        self.change({}, self._items)

    def change(self, new: Mapping[str, Any], gone: Collection[str]) -> None:
        """Set several attributes and remove others in one write."""
        if not self._writable:
            raise ReadOnlyError(self._container.url, self._path)
        where = self._container.where(self._path)
        proper, gone = as_json(new, where), set(gone)

        def change(stored: Attributes) -> Attributes:
            if self._kind == "array" and not lists_levels(stored):
                check_factors(new, where)
            return {k: v for k, v in stored.items() if k not in gone} | proper

        self._items = self._container.change_attributes(self._path, change, self._kind)
        self._changed(self._items)


class Array:
    """An array in a container, as :func:`open_array` and :func:`create_array` return it.

    Arrays support NumPy indexing, but several index arrays select orthogonally, as in xarray. Reads
    return new, writable arrays in native byte order. An array holds no open file, pickles small and
    may be used from several threads.

    Examples
    --------
    >>> array = xarray_n5.create_array(
    ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
    ... )
    >>> array[:2] = 7
    >>> array[1:3, [0, 5]]
    array([[7, 7],
           [0, 0]], dtype=uint8)
    >>> int(np.asarray(array).sum())
    84
    >>> array.shape, array.chunks, array.dtype, array.path
    ((4, 6), (2, 3), dtype('uint8'), 'raw')
    """

    def __init__(self, node: ArrayNode) -> None:
        self._node = node

    @property
    def node(self) -> ArrayNode:
        """The stored array, for extensions: its container, metadata and chunks as bytes."""
        return self._node

    @property
    def container(self) -> Container:
        """The container of the array, for extensions."""
        return self._node.container

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array, in elements, in C order."""
        return self._node.metadata.shape

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk, in elements."""
        return self._node.metadata.inner or self._node.metadata.chunks

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of a shard, a stored file of several chunks; None without sharding."""
        return None if self._node.metadata.inner is None else self._node.metadata.chunks

    @property
    def grid(self) -> ChunkGrid:
        """The grid of stored files: of chunks, or of shards.

        Its ``counts`` are the numbers of files along each axis; iterating over it yields their
        indices, and ``slices(index)`` is the region of one.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> array.grid.counts, array.grid.slices((1, 0))
        ((2, 2), (slice(2, 4, None), slice(0, 3, None)))
        """
        return self._node.metadata.grid

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element, in native byte order."""
        return self._node.metadata.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._node.metadata.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._node.metadata.shape)

    @property
    def compression(self) -> Compression:
        """The compression of the chunks."""
        return self._node.metadata.compression

    @property
    def fill_value(self) -> object:
        """The value of elements whose chunk is not stored; in N5 always 0."""
        return self._node.metadata.fill_value

    @property
    def read_only(self) -> bool:
        """Whether the array is open for reading only."""
        return not self._node.options.writable

    @property
    def path(self) -> str:
        """The path of the array in its container; "" if it is the root."""
        return self._node.path

    @property
    def url(self) -> str:
        """The location of the container and the path of the array, joined."""
        return self._node.url

    @property
    def attrs(self) -> NodeAttributes:
        """The attributes of the user, as a mutable mapping; changes are written immediately.

        Values are JSON. Members of ``attributes.json`` that describe the array itself, such as
        ``dimensions``, are not among them.

        Examples
        --------
        >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4, 6), dtype="uint8")
        >>> array.attrs["stain"] = "DAPI"
        >>> array.attrs.update(exposure=0.25, gain=2)
        >>> dict(xarray_n5.open_array("cells.n5", "raw").attrs)
        {'stain': 'DAPI', 'exposure': 0.25, 'gain': 2}
        """
        node = self._node
        return NodeAttributes(
            node.container, node, self._attributes_changed, writable=node.options.writable
        )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes in C order: names, units and the coordinates of samples.

        They are read from the metadata again at each access.
        """
        return self.geometry().axes

    def geometry(self, dialect: DialectChoice | None = None) -> Geometry:
        """Return the axes that the metadata describe, and the source of each fact.

        Parameters
        ----------
        dialect : str, Dialect or sequence of these, optional
            The metadata dialects to read, the most trusted first; by default all of them.

        Returns
        -------
        Geometry
            The axes in C order, and the attributes that they were read from.

        Raises
        ------
        ValueError
            If a dialect is unknown.

        Examples
        --------
        >>> axes = [xarray_n5.Axis(name="y", unit="um", scale=0.5), "x"]
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", axes=axes
        ... )
        >>> array.geometry()
        <xarray_n5.Geometry, 2 axes>
            y: start 0, step 0.5 µm
            ...
        >>> array.geometry("tensorstore").sources["scale"]
        'tensorstore: resolution'
        """
        return geometry_of(context_of(self._node), dialect)

    @property
    def info(self) -> Description:
        """The facts about the array, for people to read: as text, and in notebooks as a table.

        Its ``unfinished`` is whether a write of the array is incomplete. The metadata are read
        again.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> array.info
        <xarray_n5.Array '.../cells.n5/raw'>
            shape        4 x 6
            dtype        uint8
            size         24 B in memory
            chunks       2 x 3, 4 chunks of 6 B
            compression  gzip (level=6)
            ...
        >>> array.info.unfinished
        False
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # opening an array has already warned
            return describe_array(self)

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
            raise ValueError(
                "copy=False is not possible: a stored array is read into a new NumPy array"
            )
        return np.asarray(self[...], dtype)

    def __dask_tokenize__(self) -> object:
        node = self._node
        facts = (node.format.name, node.options.missing, repr(node.metadata.bare()))
        return ("xarray_n5.Array", node.identity, *facts)

    def __getitem__(self, key: object) -> Any:
        return read_selection(self._node, key)

    def __setitem__(self, key: object, value: object) -> None:
        # Chunks that the selection covers are not read; others are read, merged and replaced.
        selection = normalize(key, self.shape)
        values = broadcast(value, selection, self.dtype)
        self._prepare(span(self.grid.project(selection.axes)))
        write(self._node, selection.axes, values)

    def read_chunk(self, index: Sequence[int]) -> np.ndarray:
        """Read one chunk, or shard, of the grid.

        Parameters
        ----------
        index : sequence of int
            The position of the chunk in the grid, in C order.

        Returns
        -------
        numpy.ndarray
            The elements, clipped to the array; fill values if the chunk is not stored. For a
            varlength chunk of N5, the list of its elements.

        Raises
        ------
        IndexError
            If the grid has no such chunk.
        ChunkError
            If the chunk cannot be decoded.
        MissingChunkError
            If the chunk is not stored, and the array was opened with ``missing="error"``.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> array.read_chunk((1, 1))
        array([[0, 0, 0],
               [0, 0, 0]], dtype=uint8)
        """
        try:
            return self._node.block(checked_index(self._node, index))
        except VarlengthChunkError as error:
            return error.elements

    def write_chunk(self, index: Sequence[int], block: object) -> None:
        """Write one whole chunk, or shard, of the grid.

        Parameters
        ----------
        index : sequence of int
            The position of the chunk in the grid, in C order.
        block : array_like
            The elements, in the shape of the chunk clipped to the array; converted to
            :attr:`dtype`.

        Raises
        ------
        ReadOnlyError
            If the array is open for reading only.
        IndexError
            If the grid has no such chunk.
        ValueError
            If `block` has another shape.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> array.write_chunk((1, 1), np.full((2, 3), 7))
        >>> array[2, 2:4]
        array([0, 7], dtype=uint8)
        """
        self._check_writable()
        checked_index(self._node, index)
        values, shape = np.asarray(block), self.grid.extent(index)
        if values.shape != shape:
            raise ValueError(
                f"chunk {tuple(index)} of {self.url!r}: expected shape {shape}, got {values.shape}"
            )
        self[self.grid.slices(index)] = values

    def delete_chunk(self, index: Sequence[int]) -> None:
        """Remove one chunk, or shard, if it is stored; it reads as the fill value then.

        Parameters
        ----------
        index : sequence of int
            The position of the chunk in the grid, in C order.

        Raises
        ------
        ReadOnlyError
            If the array is open for reading only.
        IndexError
            If the grid has no such chunk.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> array[:] = 7
        >>> array.delete_chunk((0, 0))
        >>> array[0]
        array([0, 0, 0, 7, 7, 7], dtype=uint8)
        """
        chunk = checked_index(self._node, index)
        self._prepare([range(number, number + 1) for number in chunk], lost=True)
        self._node.delete([chunk])

    def chunk_exists(self, index: Sequence[int]) -> bool:
        """Check whether one chunk, or shard, is stored.

        Parameters
        ----------
        index : sequence of int
            The position of the chunk in the grid, in C order.

        Returns
        -------
        bool
            Whether the chunk is stored.

        Raises
        ------
        IndexError
            If the grid has no such chunk.

        See Also
        --------
        chunk_map : Find all stored chunks with one listing.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> array[0, 0] = 7
        >>> array.chunk_exists((0, 0)), array.chunk_exists((1, 1))
        (True, False)
        """
        node = self._node
        return node.container.has_chunk(node.path, node.metadata, checked_index(node, index))

    def resize(self, shape: Sequence[int]) -> Self:
        """Change the shape of the array in the container.

        Elements beyond a smaller shape are removed for good; those that a larger one adds have the
        fill value. A resize that was interrupted is completed by the next one.

        Parameters
        ----------
        shape : sequence of int
            The new shape, in C order.

        Returns
        -------
        Array
            This array, with the new shape.

        Raises
        ------
        ReadOnlyError
            If the array is open for reading only.
        ValueError
            If `shape` has another number of axes or a negative size.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> array.resize((8, 6)).shape
        (8, 6)
        """
        new = as_sizes("shape", shape)
        if len(new) != self.ndim or min(new, default=0) < 0:
            expected = f"{self.ndim} axes with sizes of at least 0"
            raise ValueError(f"{self.url!r}: the shape is {new}; expected {expected}")
        self._check_writable()
        self.refresh()
        store, url = self._node.container.uncached().store, self._node.container.url
        check_no_append(store, url, self.path)
        if any(map(operator.lt, new, self._node.metadata.shape)):
            forget_rows(store, self.path)
        self._node = resize(self._node, new)
        return self

    def refresh(self) -> Self:
        """Read the metadata again.

        Returns
        -------
        Array
            This array, as it is stored now.

        Raises
        ------
        NodeNotFoundError
            If the array does not exist any more.

        Examples
        --------
        >>> array = xarray_n5.create_array(
        ...     "cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=(2, 3)
        ... )
        >>> other = xarray_n5.open_array("cells.n5", "raw")
        >>> _ = array.resize((8, 6))
        >>> other.shape, other.refresh().shape
        ((4, 6), (8, 6))
        """
        self._node = self._node.refreshed()
        return self

    def _attributes_changed(self, attributes: Attributes) -> None:
        metadata = replace(self._node.metadata, attributes=attributes)
        self._node = replace(self._node, metadata=metadata)

    def _prepare(self, box: Sequence[range], *, lost: bool = False) -> None:
        """Prepare for changed chunks, which may be `lost`: records must not rely on them."""
        self._check_writable()
        prepare_change(self._node, box, lost=lost)

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError(self._node.container.url, self.path)


def resize(io: ArrayNode, shape: tuple[int, ...]) -> ArrayNode:
    """Change the shape of an array, in the stored order of axes; return the resized array.

    The shape is changed between two steps, so that readers never see wrong elements.
    """
    before = io.metadata
    if not before.content.is_writable:
        raise ValueError(f"{io.url!r} has {before.content.value}, which cannot be written")
    stored = list(io.stored_indices())
    _fill_up(io, shape, stored)
    io.container.resize(io.path, shape)
    after = io.with_shape(shape)
    _trim(after, before, stored)
    return after


def _fill_up(io: ArrayNode, shape: tuple[int, ...], stored: Sequence[Index]) -> None:
    """Prepare the `stored` chunks for the new `shape`.

    Readers see no change yet. Chunks beyond the array's present ends are removed: an interrupted
    resize, or another program, may have left them, and a larger array would show them. Chunks that
    will cover more of the array are filled up with the fill value.
    """
    grid, after = io.metadata.grid, replace(io.metadata, shape=shape).grid
    if stale := [index for index in stored if index not in grid]:
        io.delete(stale)
    growing = [axis for axis, size in enumerate(shape) if size > grid.shape[axis]]
    for index in stored:
        if index not in grid:
            continue
        extent = grid.extent(index)
        if not any(extent[axis] < grid.chunks[axis] for axis in growing):
            continue
        reach = tuple(map(max, extent, after.extent(index) if index in after else extent))
        block = io.decoded(index, io.get(index))
        if block is not None and _is_unfit(io, block, extent, reach):
            full = np.full(reach, io.metadata.fill_value, io.metadata.dtype)
            overlap = tuple(map(slice, map(min, block.shape, extent)))
            full[overlap] = block[overlap]
            io.save(index, full)


def _is_unfit(
    io: ArrayNode, block: np.ndarray, extent: tuple[int, ...], reach: tuple[int, ...]
) -> bool:
    """Return whether a stored block ends before `reach`, or has elements beyond `extent`."""
    if any(map(operator.lt, block.shape, reach)):
        return True
    beyond = block.astype(io.metadata.dtype)
    beyond[tuple(map(slice, extent))] = io.metadata.fill_value
    return not io.is_empty(beyond)


def _trim(io: ArrayNode, before: ArrayMetadata, stored: Sequence[Index]) -> None:
    """Remove elements beyond the array's ends from the `stored` chunks."""
    grid = io.metadata.grid
    io.delete(index for index in stored if index not in grid)
    for index in stored:
        if index not in grid or index not in before.grid:
            continue
        if any(map(operator.lt, grid.extent(index), before.grid.extent(index))):
            io.save(index, io.filled().block(index))
