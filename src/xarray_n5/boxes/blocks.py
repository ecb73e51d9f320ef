"""Blocks with samples around them: how large, and how much more is read than they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask import config
from dask.array import PerformanceWarning
from dask.utils import parse_bytes

from xarray_n5.dask.from_n5 import choose
from xarray_n5.graph import side_of
from xarray_n5.model.alerts import warn
from xarray_n5.model.halos import by_axis

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np

    from xarray_n5.dask.boxes import StoredSource
    from xarray_n5.model.halos import Blocks, Halo

ENOUGH = 1.5
"""The amplification below which blocks are not made larger."""

TOO_MUCH = 3.0
"""The amplification above which a warning is issued."""

_SMALL, _MANY = 1 << 20, 1000
"""Blocks of fewer bytes are made larger if there are more of them than this."""


def blocks_of(
    chunks: Blocks, source: StoredSource, dims: Sequence[Hashable], halos: Sequence[Halo]
) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of blocks along each dimension.

    By default, blocks are whole stored chunks, or shards, so many that less than 1.5 times their
    samples are read, unless a block with the samples around it would exceed Dask's setting
    ``array.chunk-size``.

    Raises
    ------
    ValueError
        If `chunks` is invalid; a MetadataError if a size is not positive.
    """
    asked = by_axis(chunks, dims, "chunks", None)
    sizes = grown(source, halos, {i: _longest(asked[i], n) for i, n in enumerate(source.shape)})
    wanted = tuple(
        size if given is None or given == "auto" else given
        for given, size in zip(asked, sizes, strict=True)
    )
    return choose(wanted, _Selected(source))


@dataclass(frozen=True, slots=True)
class _Selected:
    """A selection of a stored array, as if it was stored itself."""

    source: StoredSource
    shards: None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def ndim(self) -> int:
        return len(self.source.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        return self.source.units

    @property
    def url(self) -> str:
        return "the selection"


def grown(
    source: StoredSource, halos: Sequence[Halo], fixed: Mapping[int, int | None]
) -> list[int]:
    """Return the default size of blocks along each dimension; some may be `fixed`."""
    units, shape = source.units, source.shape
    sizes = [
        max(1, min(unit, n) if (size := fixed.get(axis)) is None else size)
        for axis, (unit, n) in enumerate(zip(units, shape, strict=True))
    ]
    free = [axis for axis in range(len(shape)) if fixed.get(axis) is None]
    limit = parse_bytes(config.get("array.chunk-size"))
    while True:
        ratios = _ratios(sizes, shape, halos)
        few = math.prod(-(-n // b) for n, b in zip(shape, sizes, strict=True)) <= _MANY
        small = not few and math.prod(sizes) * source.dtype.itemsize < _SMALL
        excess = math.prod(ratios) >= ENOUGH
        growing = [
            axis for axis in free if sizes[axis] < shape[axis] and (small or ratios[axis] > 1)
        ]
        if not growing or not (small or excess):
            return sizes
        axis = max(growing, key=lambda axis: (ratios[axis], -sizes[axis]))
        larger = [*sizes]
        larger[axis] = min(shape[axis], sizes[axis] + units[axis])
        if _box(larger, shape, halos) * source.dtype.itemsize > limit:
            return sizes
        sizes = larger


def check_amplification(
    blocks: Sequence[Sequence[int]], shape: Sequence[int], halos: Sequence[Halo]
) -> None:
    """Warn if several times the samples of blocks are read."""
    largest = tuple(max(sizes, default=0) for sizes in blocks)
    factor = math.prod(_ratios(largest, shape, halos))
    if factor > TOO_MUCH:
        depths = tuple(max(halo.before, halo.after) for halo in halos)
        warn(
            f"blocks of {largest} with a depth of {depths} read {factor:.1f} times as many samples "
            "as they compute; pass larger blocks as chunks=",
            PerformanceWarning,
        )


def _ratios(sizes: Sequence[int], shape: Sequence[int], halos: Sequence[Halo]) -> list[float]:
    """Return the number of samples read for each one of a block, along each dimension."""
    return [
        min(n, b + halo.before + halo.after) / b if b else 1.0
        for b, n, halo in zip(sizes, shape, halos, strict=True)
    ]


def _box(sizes: Sequence[int], shape: Sequence[int], halos: Sequence[Halo]) -> int:
    return round(math.prod(_ratios(sizes, shape, halos)) * math.prod(sizes))


def _longest(asked: Any, length: int) -> int | None:
    """Return the longest of requested blocks; None for a default."""
    if asked is None or isinstance(asked, str):
        return None
    if isinstance(asked, tuple):
        return max(asked, default=1)
    return length if asked == -1 else min(int(asked), length)


def encoded_chunks(
    blocks: Sequence[Sequence[int]], stored: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the chunks to store blocks in: the `stored` ones, or blocks where these cut them.

    None if blocks cut stored chunks and differ in size.

    >>> encoded_chunks([(8, 8, 3), (6, 6)], [4, 4]), encoded_chunks([(6, 7, 6)], [4])
    ((4, 6), None)
    """
    sides = []
    for sizes, side in zip(blocks, stored, strict=True):
        block = side_of(tuple(sizes))
        if all(size % side == 0 for size in sizes[:-1]):
            sides.append(side)
        elif block is not None:
            sides.append(block)
        else:
            return None
    return tuple(sides)
