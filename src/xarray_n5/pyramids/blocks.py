"""Compute levels of a pyramid in Dask blocks, from whole chunks of the level before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from dask import config
from dask.utils import parse_bytes

from xarray_n5.graph import in_one_layer, label, slices_of
from xarray_n5.model.chunking import group_chunks
from xarray_n5.pyramids.reduce import reduce_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.pyramids.reduce import Method

_MOST = 1 << 25
"""The maximum size of a task's input, unless one chunk needs more: 32 MiB."""


def coarser_blocks(
    finer: Array,
    step: tuple[int, ...],
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    method: Method,
    token: str,
) -> da.Array:
    """Return the next level, in blocks of whole chunks.

    Parameters
    ----------
    finer
        The level before it, which is stored when the blocks are computed.
    step
        The factors of the level.
    shape, chunks
        The level's shape, and that of its chunks.
    method
        The reduction of a window to a sample.
    token
        A string that distinguishes the level's values from others.
    """
    sides = _sides(finer, step, chunks)
    blocks = tuple(
        (side,) * (size // side) + ((size % side,) if size % side or not size else ())
        for side, size in zip(sides, shape, strict=True)
    )
    name = f"{label('coarser', finer.name)}-{token}"
    where = slices_of(blocks)
    return in_one_layer(
        name, _read_coarser, finer, where, blocks, finer.dtype, step=step, method=method
    )


def _read_coarser(
    finer: Array, where: tuple[slice, ...], step: Sequence[int], method: Method
) -> np.ndarray:
    """Read and reduce the windows of a part of the next level."""
    sides = zip(where, step, finer.shape, strict=True)
    windows = tuple(slice(w.start * f, min(w.stop * f, size)) for w, f, size in sides)
    return reduce_windows(np.asarray(finer[windows]), step, method)


def _sides(finer: Array, step: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of blocks: whole chunks of both levels, unless they are too large.

    In that case, whole chunks of the level that is written; some chunks of the other are read
    repeatedly. Blocks that are close to cubes share the fewest chunks.
    """
    limit = min(_MOST, parse_bytes(config.get("array.chunk-size")))
    one = tuple(side * factor for side, factor in zip(chunks, step, strict=True))
    both = tuple(math.lcm(side, own) for side, own in zip(one, finer.chunks, strict=True))
    sides = both if math.prod(both) * finer.dtype.itemsize <= limit else one
    grouped = group_chunks(sides, finer.shape, finer.dtype.itemsize, limit)
    return tuple(side // factor for side, factor in zip(grouped, step, strict=True))
