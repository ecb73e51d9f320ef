"""Functions of boxes of arrays that were computed, by Dask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da

from xarray_n5.graph import normalize_chunks
from xarray_n5.model.halos import by_axis
from xarray_n5.sampling.functions import meta_of, name_of
from xarray_n5.sampling.tasks import BlocksWithCoords

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    import xarray as xr

    from xarray_n5.model.halos import Halo
    from xarray_n5.sampling.functions import Call


def blocks_of_dask(
    chunks: Any, arrays: Sequence[xr.DataArray], halos: Sequence[Sequence[Halo]]
) -> tuple[tuple[int, ...], ...]:
    """Return the blocks for Dask: those of the first Dask array, none smaller than a depth."""
    first = arrays[0]
    own = next((each.chunks for each in arrays if each.chunks is not None), ("auto",) * first.ndim)
    asked = by_axis(chunks, first.dims, "chunks", None)
    wanted = tuple(b if a is None else a for a, b in zip(asked, own, strict=True))
    found = normalize_chunks(wanted, first.shape, dtype=first.dtype)
    depths = [max(max(h.before, h.after) for h in along) for along in zip(*halos, strict=True)]
    return tuple(at_least(depth, sizes) for depth, sizes in zip(depths, found, strict=True))


def at_least(depth: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return blocks merged until each has `depth` samples, if there are so many.

    >>> at_least(3, (2, 2, 5, 1)), at_least(3, (4, 3)), at_least(3, (1, 1))
    ((4, 6), (4, 3), (2,))
    """
    found = [0]
    for size in sizes:
        if found[-1] >= depth and found[-1]:
            found.append(0)
        found[-1] += size
    if len(found) > 1 and found[-1] < depth:
        last = found.pop()
        found[-1] += last
    return tuple(found)


def from_dask(
    call: Call,
    arrays: Sequence[xr.DataArray],
    halos: Sequence[Sequence[Halo]],
    blocks: tuple[tuple[int, ...], ...],
    coords: dict[Hashable, xr.Variable],
    *,
    trim: bool,
    dtype: Any,
    meta: Any,
) -> da.Array:
    """Return the result of Dask's own function, for arrays that were computed."""
    dims = call.dims
    data = [each.chunk(dict(zip(dims, blocks, strict=True))).data for each in arrays]
    depths = [
        {i: h.before if h.before == h.after else (h.before, h.after) for i, h in enumerate(along)}
        for along in halos
    ]
    boundaries = [{i: halo.boundary for i, halo in enumerate(along)} for along in halos]
    passed: Any = call.func
    more: dict[str, Any] = dict(call.kwargs)
    if call.labels:
        where = BlocksWithCoords(blocks, dims, halos[0], coords)
        passed, more = _WithCoords(call, where), {}
        meta = meta_of(call, [each.dtype for each in arrays], coords, dtype, meta)
    found: da.Array = da.map_overlap(
        passed, *data, depth=depths, boundary=boundaries, trim=trim, dtype=dtype, meta=meta, **more
    )
    return found


class _WithCoords:
    """A function that gets DataArrays in Dask's tasks."""

    def __init__(self, call: Call, where: BlocksWithCoords) -> None:
        self.func, self.where = call, where
        self.__name__ = name_of(call.func)

    def __call__(self, *boxes: np.ndarray, block_id: Any = None, block_info: Any = None) -> Any:
        coords = {} if not block_id else self.where[block_id].coords
        return self.func(*boxes, coords=coords, block_id=block_id, block_info=block_info)
