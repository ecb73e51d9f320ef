"""Dask arrays from stored chunks: one task per chunk, or per several whole chunks."""

from __future__ import annotations

import bisect
import uuid
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import normalize_token, tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import open_array
from xarray_n5.dask.block_sizes import check_sizes, choose
from xarray_n5.graph import (
    ARRAY_EXPRESSIONS,
    ArraySliceDep,
    getter,
    in_one_layer,
    label,
    slices_of,
    spell,
)
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.node import LabelMultisets, Missing
    from xarray_n5.dask.block_sizes import Chunked
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
