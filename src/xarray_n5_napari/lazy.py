"""Variables as Dask arrays whose blocks are stored chunks."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.dask.block_sizes import are_many_small, choose
from xarray_n5.dask.from_n5 import as_blocks
from xarray_n5.graph import label
from xarray_n5.model.chunking import limit_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da
    import numpy as np
    import xarray as xr


_MOST_BLOCKS = 1 << 40
"""The maximum number of blocks, which are numbered only when they are computed."""


@dataclass(frozen=True)
class _Lazy:
    """A variable that is read lazily, by indexing."""

    variable: xr.Variable
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    url: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.shape

    @property
    def ndim(self) -> int:
        return self.variable.ndim

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        """Return the values at an index."""
        return self.variable[key].to_numpy()


def as_dask(array: xr.DataArray, selection: Mapping[str, int | slice]) -> da.Array:
    """Return a part of an opened array as a Dask array of stored chunks.

    If there are so many small chunks that tasks would cost more than they read, a block is several
    whole chunks, as in :func:`from_n5` with ``chunks="auto"``.

    Parameters
    ----------
    array
        An array as the engine opens it.
    selection
        An index or a slice by dimension.
    """
    variable, facts = array.variable, array.encoding
    part = variable.isel(dict(selection))
    lazy = _Lazy(
        part,
        part.dtype,
        limit_blocks(
            _sides(variable, facts.get("chunks"), part) or part.shape, part.shape, _MOST_BLOCKS
        ),
        _sides(variable, facts.get("shards"), part),
        str(facts.get("source", "")),
    )
    blocks = choose(None, lazy)
    if are_many_small(blocks, lazy):
        blocks = choose("auto", lazy)
    name = f"{label('napari', str(array.name))}-{uuid.uuid4().hex}"
    return as_blocks(lazy, blocks, name)


def _sides(whole: xr.Variable, sides: Any, part: xr.Variable) -> tuple[int, ...] | None:
    """Return the lengths of chunks along the dimensions of a part, if they are known."""
    if sides is None or len(sides) != whole.ndim:
        return None
    by_dim = dict(zip(whole.dims, sides, strict=True))
    return tuple(by_dim[dim] for dim in part.dims)
