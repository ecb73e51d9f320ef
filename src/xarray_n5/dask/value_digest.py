"""Digests of arrays, one task for each block."""

from __future__ import annotations

import math
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import compute

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.transfer import read_selection
from xarray_n5.dask.from_n5 import StoredSlices, choose, stored_blocks
from xarray_n5.graph import ArraySliceDep, as_graph, in_one_layer, tree_reduce
from xarray_n5.model.value_sums import add_sums, array_digest, sum_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.graph import DelayedReport
    from xarray_n5.model.value_sums import Sums

_FEW = 1 << 20
"""The maximum size of an array that is read without tasks, in bytes."""


_MOST = 1 << 23
"""The maximum number of blocks of an array."""


def digests_of(arrays: Mapping[str, Array | da.Array | np.ndarray]) -> dict[str, str]:
    """Return the digests of arrays, by the same names; all are computed together."""
    digests, later = {}, {}
    for name, array in arrays.items():
        nbytes = array.size * array.dtype.itemsize
        if isinstance(array, (Array, np.ndarray)) and nbytes <= _FEW:
            sums = sum_values(np.asarray(array[...]), (0,) * array.ndim, array.shape)
            digests[name] = array_digest(array.dtype, array.shape, sums)
        else:
            later[name] = _delayed(array)
    digests |= dict(zip(later, compute(*later.values()), strict=True))
    return digests


def _delayed(array: Array | da.Array | np.ndarray) -> DelayedReport:
    """Return the digest of an array, delayed."""
    sums = _stored(array) if isinstance(array, Array) else _computed(array)
    last = partial(_digest, dtype=array.dtype, shape=array.shape)
    return tree_reduce(sums, None, add_sums, last, f"digest-{uuid.uuid4().hex}")


def _stored(array: Array) -> da.Array:
    """Return the sums of blocks of whole stored chunks, or shards."""
    blocks = choose("auto", array)
    counts = tuple(map(len, blocks))
    if math.prod(counts) > _MOST:
        raise ValueError(
            f"{array.url!r}, whose shape is {array.shape}, has {math.prod(counts)} blocks, too "
            "many for one digest; open it with xarray, select parts, and digest them with "
            ".n5.digest()"
        )
    # One listing is cheaper than a request for each missing chunk.
    listed = array.node.options.missing == "fill" and array.node.store.complete_listings
    stored = stored_blocks(array, blocks) if listed else np.broadcast_to(np.True_, counts)
    where = StoredSlices(blocks, stored)
    return in_one_layer(_name(), _read_sums, array.node.bare(), where, blocks, object)


def _computed(array: da.Array | np.ndarray) -> da.Array:
    """Return the sums of the blocks of an array of Dask or NumPy."""
    if isinstance(array, np.ndarray):
        array = da.from_array(array, chunks="auto", name=False)
    if any(math.isnan(size) for size in array.shape):
        raise ValueError(
            "the shape of a Dask array is unknown; call its compute_chunk_sizes() first"
        )
    source = as_graph(array)
    sums: da.Array = source.map_blocks(
        _block_sums,
        ArraySliceDep(source.chunks),
        shape=source.shape,
        name=_name(),
        dtype=object,
        meta=np.empty((0,) * source.ndim, object),
    )
    return sums


def _name() -> str:
    return f"digest_n5-{uuid.uuid4().hex}"  # earlier results may be outdated


def _read_sums(node: ArrayNode, where: tuple[tuple[slice, ...], bool]) -> Sums:
    (box, stored), metadata = where, node.metadata
    if stored:
        return _block_sums(read_selection(node, box), box, metadata.shape)
    fill = np.array(metadata.fill_value, metadata.dtype)
    sides = [side.stop - side.start for side in box]
    return _block_sums(np.broadcast_to(fill, sides), box, metadata.shape)


def _block_sums(block: np.ndarray, where: tuple[slice, ...], shape: tuple[int, ...]) -> Sums:
    return sum_values(np.asarray(block), [side.start for side in where], shape)


def _digest(parts: list[Sums], dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return array_digest(dtype, shape, add_sums(parts))
