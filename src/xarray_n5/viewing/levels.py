"""Levels of layers as they are served: chunks of plain numbers, of stored samples or means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.pyramids.reduce import coarse_shape, reduce_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray as xr

_SIDE = 64
"""The side of served chunks along dimensions of space, if the data have none."""

_SMALL, _LARGE, _COMPUTED = 1 << 15, 1 << 21, 1 << 24
"""The minimum number of samples of a served chunk, if possible, and the maximum; blocks of Dask may
be larger, since each served chunk computes those that it overlaps."""

_FINEST = 256
"""Levels are added until one has at most this many samples along each dimension of space."""

_MOST = 64
"""The maximum number of samples that are read for one of an added level, Neuroglancer's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLevel:
    """A resolution of a layer."""

    data: xr.Variable
    """The samples, which are read lazily."""
    scale: tuple[float, ...]
    """The distance between samples along each dimension, of the data divided by the factors."""
    offset: tuple[float, ...]
    """The position of the first sample."""
    spatial: int
    """The number of dimensions of space, which are the last ones."""
    factors: tuple[int, ...]
    """The sides of the windows of the data that are reduced to one sample."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return coarse_shape(self.data.shape, self.factors)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of the chunks that are served."""
        source = source_chunks(self.data)
        sides = [max(1, side // by) for side, by in zip(source, self.factors, strict=False)]
        most = _LARGE if self.data.chunks is None else _COMPUTED
        return served_chunks(self.shape, sides, self.spatial, most)

    def read(self, start: Sequence[int], stop: Sequence[int], *, labels: bool) -> np.ndarray:
        """Return samples: means of windows, or the first ones of labels."""
        whole = tuple(
            slice(first * factor, min(last * factor, size))
            for first, last, factor, size in zip(
                start, stop, self.factors, self.data.shape, strict=True
            )
        )
        values = np.asarray(self.data[whole].values)
        if max(self.factors, default=1) == 1:
            return values
        flat = labels or values.dtype.kind not in "iuf"
        return reduce_windows(values, self.factors, "nearest" if flat else "mean")

    def coarser(self) -> ServedLevel | None:
        """Return the next level, whose samples are computed, or None if it is not needed."""
        outer = len(self.shape) - self.spatial
        sides = self.shape[outer:]
        if not sides or max(sides) <= _FINEST:
            return None
        # Makes the sides of samples as equal as possible.
        steps = [abs(step) for step in self.scale[outer:]]
        more = [
            2 if step < 2 * min(steps) and n > 1 else 1
            for step, n in zip(steps, sides, strict=True)
        ]
        by = (*(1,) * outer, *more)
        factors = tuple(one * two for one, two in zip(self.factors, by, strict=True))
        if math.prod(factors) > _MOST or max(more) == 1:
            return None
        moved = (o + s * (b - 1) / 2 for o, s, b in zip(self.offset, self.scale, by, strict=True))
        return ServedLevel(
            data=self.data,
            scale=tuple(step * b for step, b in zip(self.scale, by, strict=True)),
            offset=tuple(moved),
            spatial=self.spatial,
            factors=factors,
        )


def source_chunks(data: xr.Variable) -> tuple[int, ...]:
    """Return the sides of Dask's blocks or of stored chunks; nothing if they are unknown."""
    if data.chunks is not None:
        return tuple(max(sides) for sides in data.chunks)
    match data.encoding.get("preferred_chunks"):
        case dict(sides) if all(isinstance(sides.get(dim), int) for dim in data.dims):
            return tuple(sides[dim] for dim in data.dims)
    return ()


def served_chunks(
    shape: Sequence[int], source: Sequence[int], spatial: int, most: int = _LARGE
) -> tuple[int, ...]:
    """Return the shape of served chunks: those of the source, split or merged to a good size.

    >>> served_chunks((1000, 1000, 1000), (256, 256, 256), 3), served_chunks((5, 9, 9), (), 2)
    ((128, 128, 128), (1, 9, 9))
    """
    outer = len(shape) - spatial
    plain = [1] * outer + [_SIDE] * spatial
    wanted = source if len(source) == len(shape) else plain
    sides = [max(1, min(size, side)) for size, side in zip(shape, wanted, strict=True)]
    while math.prod(sides) > most:
        at = max(range(len(sides)), key=sides.__getitem__)
        sides[at] = -(-sides[at] // 2)
    while math.prod(sides) < _SMALL:
        short = [at for at in range(outer, len(sides)) if sides[at] < shape[at]]
        if not short:
            break
        at = min(short, key=sides.__getitem__)
        sides[at] = min(2 * sides[at], shape[at])
    return tuple(sides)
