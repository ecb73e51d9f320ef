"""Dask arrays from stored chunks: one task per chunk, or per several whole chunks."""

from __future__ import annotations

import bisect
import math
import uuid
from itertools import accumulate, product
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, cast

import dask.array as da
import numpy as np
from dask import config
from dask.array import PerformanceWarning
from dask.base import normalize_token, tokenize
from dask.utils import parse_bytes

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import open_array
from xarray_n5.errors import MetadataError
from xarray_n5.graph import (
    ARRAY_EXPRESSIONS,
    ArraySliceDep,
    getter,
    in_one_layer,
    label,
    normalize_chunks,
    slices_of,
    spell,
)
from xarray_n5.model.alerts import warn
from xarray_n5.model.chunking import group_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.node import LabelMultisets, Missing
    from xarray_n5.formats import FormatName


def from_n5(
    url: object,
    component: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    chunks: int | str | tuple[Any, ...] | Mapping[int, Any] | None = None,
    name: str | None = None,
    *,
    format: FormatName | None = None,
    missing: Missing = "fill",
    label_multisets: LabelMultisets = "error",
    skip_missing: bool = False,
) -> da.Array:
    """Open a stored array as a Dask array, by default with one block for each stored chunk.

    Takes milliseconds however many chunks there are; nothing but metadata is read. After ``import
    xarray_n5``, it is also ``dask.array.from_n5``.

    Parameters
    ----------
    url : str, os.PathLike, store or Array
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store. Or an open :class:`Array`.
    component : str, optional
        The path of the array in the container; by default the container itself.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    chunks : None, "auto", int, str, tuple or dict, optional
        None for the stored chunks; "auto" for whole multiples of them of 16 to 32 MiB (or Dask's
        ``array.chunk-size``, if that is less), and for whole shards that are no larger than that
        setting; a number of bytes such as "16 MiB" for whole multiples of up to that; or anything
        that Dask accepts, in which these may be given for single axes.
    name : str, optional
        The name of the array in the graph; by default made of its URL, its metadata and the time of
        their last change. Chunks that change later do not change the name.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; detected by default.
    missing : {"fill", "error"}, default: "fill"
        "fill" reads chunks that are not stored as the fill value; "error" raises for them.
    label_multisets : {"error", "argmax", "count"}, default: "error"
        How to read Paintera's label multisets: "argmax" as their most frequent labels (uint64),
        "count" as the numbers of votes for these labels (int32); "error" raises.
    skip_missing : bool, default: False
        Whether to list the stored chunks now, and to read no others later: a reduction of a sparse
        volume then requests existing files only. Chunks that are written after that are not seen.

    Returns
    -------
    dask.array.Array
        The array, lazily.

    Raises
    ------
    NodeNotFoundError
        If no array exists at this path.
    MetadataError
        If its metadata are invalid, or `chunks` has a size of 0 or less.
    ChunkError
        When it is computed: if a chunk cannot be decoded.

    Warns
    -----
    dask.array.PerformanceWarning
        If blocks cut stored chunks, or there are over a thousand of less than 1 MiB: a task costs
        Dask a fraction of a millisecond, and a cluster several times that.

    Examples
    --------
    >>> _ = xarray_n5.create_array("cells.n5", "raw", shape=(8, 6), dtype="uint8", chunks=(2, 3))
    >>> lazy = xarray_n5.from_n5("cells.n5", "raw")
    >>> lazy.chunks
    ((2, 2, 2, 2), (3, 3))
    >>> xarray_n5.from_n5("cells.n5", "raw", chunks=(4, -1)).numblocks
    (2, 1)
    >>> int(lazy.sum().compute())
    0
    """
    if isinstance(url, Array):
        if component or storage_options or format:
            raise TypeError(
                "an Array is already open: options can only be passed with a path or URL"
            )
        array = url
    else:
        array = open_array(
            url,
            component or "",
            storage_options=storage_options,
            format=format,
            missing=missing,
            label_multisets=label_multisets,
        )
    blocks = choose(chunks, array)
    check_sizes(blocks, array)
    return _lazy(array, blocks, name, skip_missing)


def _lazy(
    array: Array,
    blocks: tuple[tuple[int, ...], ...],
    name: str | None = None,
    skip_missing: bool = False,
) -> da.Array:
    """Return an array as a Dask array with these blocks."""
    source = Array(array.node.bare())
    token = tokenize(source, array.node.etag(), spell(blocks))
    named = name or f"{label('from_n5', array.node.name)}-{token}"
    if skip_missing:
        # A later listing may differ, and so must the name.
        return read_stored(source, blocks, name or f"{named}-{uuid.uuid4().hex[:8]}")
    return as_blocks(source, blocks, named)


def as_blocks(source: Chunked, blocks: tuple[tuple[int, ...], ...], name: str) -> da.Array:
    """Return an object that slices index as a Dask array with these blocks, one task per block."""
    if not ARRAY_EXPRESSIONS:
        return in_one_layer(name, getter, source, slices_of(blocks), blocks, source.dtype)
    meta = np.empty((0,) * len(blocks), source.dtype)
    how: dict[str, Any] = {"inline_array": True, "lock": False, "meta": meta}
    built: da.Array = da.from_array(source, chunks=blocks, name=name, **how)
    return built


_MANY = 1 << 26
"""The number of blocks above which a warning is issued."""


class StoredSlices(ArraySliceDep):
    """The slices of each block, and whether anything in it is stored."""

    def __init__(self, chunks: tuple[tuple[int, ...], ...], stored: np.ndarray) -> None:
        super().__init__(chunks)
        self.stored = stored

    def __getitem__(self, index: tuple[int, ...]) -> tuple[tuple[slice, ...], bool]:
        return super().__getitem__(index), bool(self.stored[index])


# Otherwise Dask identifies them by the blocks alone, as it does the slices of a write.
normalize_token.register(StoredSlices, lambda where: ("StoredSlices", where.chunks, where.stored))


def read_stored(array: Array, chunks: tuple[tuple[int, ...], ...], name: str) -> da.Array:
    """Return an array as a Dask array; one listing finds the blocks that need not be read."""
    where = StoredSlices(chunks, stored_blocks(array, chunks))
    return in_one_layer(name, _read_or_fill, array, where, chunks, array.dtype)


def stored_blocks(array: Array, chunks: Sequence[Sequence[int]]) -> np.ndarray:
    """Return whether each block contains a stored chunk, or a part of one."""
    stored = np.zeros(tuple(map(len, chunks)), bool)
    if stored.size > _MANY:
        warn(f"{array.url} has {stored.size} blocks; choose larger ones for a smaller graph")
    ends = [list(accumulate(sizes)) for sizes in chunks]
    for index in array.node.stored_chunks():
        sides = zip(index, array.grid.chunks, array.shape, ends, strict=True)
        touched = (
            range(bisect.bisect_right(end, i * c), bisect.bisect_left(end, min((i + 1) * c, s)) + 1)
            for i, c, s, end in sides
        )
        for block in product(*touched):
            stored[block] = True
    return stored


def _read_or_fill(array: Array, where: tuple[tuple[slice, ...], bool]) -> np.ndarray:
    place, stored = where
    if stored:
        return np.asarray(array[place])
    shape = tuple(side.stop - side.start for side in place)
    return np.full(shape, array.fill_value, array.dtype)


_AUTO = (1 << 25) - 1
"""The maximum size of a block that ``chunks="auto"`` chooses, by doubling: 16 to 32 MiB.

Smaller blocks cost Dask more than they read. Larger ones leave the caches before they are used, and
the C library returns their memory to the system, which has to clear it again.
"""

_SMALL, _MANY = 1 << 20, 1000
"""A block of fewer bytes is small; more small ones than the second cause a warning."""

_MOST_BLOCKS = 1 << 24
"""The maximum number of blocks along an axis: Dask stores the size of each."""


class Chunked(Protocol):
    """An array stored in chunks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk."""

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of a shard, if there are such."""

    @property
    def url(self) -> str:
        """Its location."""


def choose(chunks: Any, array: Chunked) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of Dask's blocks along each axis.

    Raises
    ------
    MetadataError
        If a size is not positive; -1 means the whole axis, as in Dask.
    """
    ndim = len(array.shape)
    asked = _by_axis(array.chunks if chunks is None else chunks, ndim)
    for axis, (size, length) in enumerate(zip(asked, array.shape, strict=False)):
        if not _is_size(size, length):
            raise MetadataError(
                f"chunks is {size!r} along axis {axis} of {array.url}; expected a number of at "
                "least 1, the sizes of all blocks, -1 for the whole axis, or 'auto'"
            )
    if len(asked) == ndim:
        asked = _grouped(asked, array)
        counts = tuple(-(-s // _longest(c, s)) for c, s in zip(asked, array.shape, strict=True))
        if max(counts, default=0) > _MOST_BLOCKS:
            raise ValueError(
                f"{array.url!r} has {counts} blocks of {asked} along its axes, too many for one "
                "graph; choose larger chunks, or select a part with open_array(...)[...]"
            )
    # Dask checks values without one item for each axis.
    blocks = normalize_chunks(asked, array.shape, dtype=array.dtype)
    return cast("tuple[tuple[int, ...], ...]", blocks)


def _is_size(asked: Any, length: int) -> bool:
    """Return whether Dask can make blocks of a size; what is not a number is left to Dask."""
    if isinstance(asked, (tuple, list)):
        return all(not isinstance(size, Integral) or int(size) >= 0 for size in asked)
    return not isinstance(asked, Integral) or asked == -1 or int(asked) >= min(1, length)


def _by_axis(chunks: Any, ndim: int) -> tuple[Any, ...]:
    """Return the requested chunks along each axis."""
    if isinstance(chunks, dict):
        return tuple(chunks.get(axis) for axis in range(ndim))
    return tuple(chunks) if isinstance(chunks, (tuple, list)) else (chunks,) * ndim


def _grouped(asked: tuple[Any, ...], array: Chunked) -> tuple[Any, ...]:
    """Return multiples of the stored chunks if bytes or "auto" are requested."""
    strings = {axis: size for axis, size in enumerate(asked) if isinstance(size, str)}
    if not strings:
        return asked
    most, itemsize = parse_bytes(config.get("array.chunk-size")), array.dtype.itemsize
    sizes = {min(_AUTO, most) if size == "auto" else parse_bytes(size) for size in strings.values()}
    unit = array.shards if set(strings.values()) == {"auto"} else None
    if unit is None or math.prod(unit) * itemsize > most:
        unit = array.chunks
    sides, extents = list(unit), list(array.shape)
    for axis in set(range(len(asked))) - strings.keys():
        # Requested sizes are not changed.
        sides[axis] = extents[axis] = _longest(asked[axis], array.shape[axis])
    grouped = group_chunks(sides, extents, itemsize, min(sizes))
    return tuple(grouped[i] if i in strings else size for i, size in enumerate(asked))


def _longest(sizes: Any, length: int) -> int:
    """Return the longest of the requested blocks along an axis."""
    if sizes is None or sizes == -1:
        return max(1, length)
    longest: int = max(sizes) if isinstance(sizes, (tuple, list)) else min(sizes, length)
    return max(1, longest)


def check_sizes(blocks: tuple[tuple[int, ...], ...], array: Chunked) -> None:
    """Warn about blocks that cut stored chunks, and about many small ones."""
    for axis, (sizes, side) in enumerate(zip(blocks, array.chunks, strict=True)):
        cut = next((size for size in set(sizes[:-1]) if size % side), None)
        if cut is not None:
            warn(
                f"along axis {axis}, blocks of {cut} cut stored chunks of {side}, which are then "
                f"read several times; choose multiples of {side}",
                PerformanceWarning,
            )
    if are_many_small(blocks, array):
        warn(
            f"{array.url} becomes {math.prod(map(len, blocks))} tasks of less than 1 MiB, which "
            'cost more than they read; use chunks="auto" to read several stored chunks in each',
            PerformanceWarning,
        )


def are_many_small(blocks: tuple[tuple[int, ...], ...], array: Chunked) -> bool:
    """Return whether blocks are so many and so small that tasks cost more than they read."""
    largest = math.prod(map(max, blocks)) * array.dtype.itemsize
    return math.prod(map(len, blocks)) > _MANY and largest < _SMALL
