"""Choose the block sizes of Dask arrays from stored arrays, and warn about bad ones."""

from __future__ import annotations

import math
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, cast

from dask import config
from dask.array import PerformanceWarning
from dask.utils import parse_bytes

from xarray_n5.errors import MetadataError
from xarray_n5.graph import normalize_chunks
from xarray_n5.model.alerts import warn
from xarray_n5.model.chunking import group_chunks

if TYPE_CHECKING:
    import numpy as np

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
