"""Compare the arrays of a copy with their sources, bit by bit."""

from __future__ import annotations

import uuid
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from dask.base import compute

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.node import same_bits
from xarray_n5.arrays.open import open_array
from xarray_n5.errors import ChunkError, DifferenceError
from xarray_n5.graph import ArraySliceDep, tree_reduce
from xarray_n5.writing.request import aligned_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da

    from xarray_n5.formats.containers import Container
    from xarray_n5.graph import DelayedReport
    from xarray_n5.model.grid import Index


def compare(container: Container, sources: Mapping[str, da.Array]) -> int:
    """Read the arrays of a copy and their sources, and return the number of equal chunks.

    Parameters
    ----------
    container
        The container of the copy.
    sources
        The values that its arrays should have, by their paths.

    Raises
    ------
    DifferenceError
        If chunks differ, or cannot be decoded.
    """
    container = container.fresh()
    arrays = [(open_array(container, path), source) for path, source in sources.items()]
    results = compute(*(_differences(array, source) for array, source in arrays))
    count = sum(array.grid.size for array, _ in arrays)
    different = [
        array.node.key(index)
        for (array, _), indices in zip(arrays, results, strict=True)
        for index in indices
    ]
    if different:
        raise DifferenceError(container.url, tuple(different), count)
    return count


def _differences(array: Array, source: da.Array) -> DelayedReport:
    """Return the sorted indices of the chunks of an array that differ from `source`, delayed."""
    aligned = aligned_blocks(source, array.grid.chunks, (0,) * array.ndim)
    different: Any = aligned.map_blocks(
        cast("Any", _different),
        Array(array.node.bare()),
        ArraySliceDep(aligned.chunks),
        name=f"compare_n5-{uuid.uuid4().hex}",  # earlier results may be outdated
        dtype=object,
        chunks=tuple((1,) * len(sizes) for sizes in aligned.chunks),
        meta=np.empty((0,) * aligned.ndim, object),
    )
    return tree_reduce(different, None, _merged, _merged, f"compare-{uuid.uuid4().hex}")


def _different(block: np.ndarray, array: Array, where: tuple[slice, ...]) -> list[Index]:
    """Return the indices of chunks in a block of the source that are different in the copy."""
    where = tuple(slice(side.start, side.stop, 1) for side in where)
    equal = partial(_is_equal, np.asarray(block), array, tuple(side.start for side in where))
    if equal(where):
        return []
    chunks = product(*array.grid.project(where))
    indices = [tuple(part.chunk for part in parts) for parts in chunks]
    return [index for index in indices if not equal(array.grid.slices(index))]


def _is_equal(
    block: np.ndarray, array: Array, start: tuple[int, ...], box: tuple[slice, ...]
) -> bool:
    """Return whether a part of an array has the same bits as a block that begins at `start`."""
    inner = tuple(slice(s.start - a, s.stop - a) for s, a in zip(box, start, strict=True))
    try:
        stored = np.asarray(array[box])
    except ChunkError:
        return False
    return same_bits(block[inner], stored)


def _merged(parts: list[list[Index]]) -> list[Index]:
    return sorted(index for part in parts for index in part)
