"""Levels of layers as they are served: chunks of plain numbers, of stored samples or means."""

from __future__ import annotations

import math
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

import numpy as np
from zict import LRU

from xarray_n5.pyramids.reduce import coarse_shape, reduce_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import xarray as xr

    from xarray_n5.model.grid import Index

_KEPT = 1 << 28
"""The maximum size of the computed blocks of an array that are kept, in bytes."""

_SIDE = 64
"""The side of served chunks along dimensions of space, if the data have none."""

_SMALL, _LARGE = 1 << 15, 1 << 21
"""The minimum number of samples of a served chunk, if possible, and the maximum."""

_FINEST = 256
"""Levels are added until one has at most this many samples along each dimension of space."""

_MOST = 64
"""The maximum number of samples that are read for one of an added level, Neuroglancer's limit."""


@dataclass(slots=True)
class Blocks:
    """The latest computed blocks of one array."""

    kept: LRU[Index, np.ndarray] = field(
        # The latest block is kept even if it is too large.
        default_factory=lambda: LRU(_KEPT, {}, weight=lambda _, block: min(block.nbytes, _KEPT))
    )
    computing: dict[Index, Future[np.ndarray]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, data: xr.Variable, where: tuple[slice, ...]) -> np.ndarray:
        """Return a part of an array."""
        if data.chunks is None:
            return np.asarray(data[where].values)
        result = np.empty([each.stop - each.start for each in where], data.dtype)
        ends = [_overlaps(sides, each) for sides, each in zip(data.chunks, where, strict=True)]
        for parts in product(*ends):
            index = tuple(number for number, _, _ in parts)
            block = self._block(data, index)
            result[tuple(to for _, _, to in parts)] = block[tuple(of for _, of, _ in parts)]
        return result

    def _block(self, data: xr.Variable, index: Index) -> np.ndarray:
        """Return a block; if several threads need it, one computes it."""
        with self.lock:
            if index in self.kept:
                return self.kept[index]
            if (known := self.computing.get(index)) is None:
                future = self.computing[index] = Future()
        if known is not None:
            return known.result()
        try:
            array: Any = data.data
            block = np.asarray(array.blocks[index].compute())
            self.kept[index] = block
            future.set_result(block)
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            with self.lock:
                del self.computing[index]
        return block


def _overlaps(sides: Sequence[int], where: slice) -> Iterator[tuple[int, slice, slice]]:
    """Iterate over the blocks that a range overlaps: their indices, the parts, and the targets."""
    for number, stop in enumerate(accumulate(sides)):
        start = stop - sides[number]
        first, last = max(start, where.start), min(stop, where.stop)
        if first < last:
            inside = slice(first - start, last - start)
            yield number, inside, slice(first - where.start, last - where.start)


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
    blocks: Blocks = field(default_factory=Blocks, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return coarse_shape(self.data.shape, self.factors)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of the chunks that are served."""
        source = source_chunks(self.data)
        sides = [max(1, side // by) for side, by in zip(source, self.factors, strict=False)]
        return served_chunks(self.shape, sides, self.spatial)

    def read(self, start: Sequence[int], stop: Sequence[int], *, labels: bool) -> np.ndarray:
        """Return samples: means of windows, or the first ones of labels."""
        whole = tuple(
            slice(first * factor, min(last * factor, size))
            for first, last, factor, size in zip(
                start, stop, self.factors, self.data.shape, strict=True
            )
        )
        values = self.blocks.read(self.data, whole)
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
            blocks=self.blocks,
        )


def source_chunks(data: xr.Variable) -> tuple[int, ...]:
    """Return the sides of Dask's blocks or of stored chunks; nothing if they are unknown."""
    if data.chunks is not None:
        return tuple(max(sides) for sides in data.chunks)
    match data.encoding.get("preferred_chunks"):
        case dict(found) if all(isinstance(found.get(dim), int) for dim in data.dims):
            return tuple(found[dim] for dim in data.dims)
    return ()


def served_chunks(shape: Sequence[int], source: Sequence[int], spatial: int) -> tuple[int, ...]:
    """Return the shape of served chunks: those of the source, split or merged to a good size.

    >>> served_chunks((1000, 1000, 1000), (256, 256, 256), 3), served_chunks((5, 9, 9), (), 2)
    ((128, 128, 128), (1, 9, 9))
    """
    outer = len(shape) - spatial
    plain = [1] * outer + [_SIDE] * spatial
    wanted = source if len(source) == len(shape) else plain
    sides = [max(1, min(size, side)) for size, side in zip(shape, wanted, strict=True)]
    while math.prod(sides) > _LARGE:
        at = max(range(len(sides)), key=sides.__getitem__)
        sides[at] = -(-sides[at] // 2)
    while math.prod(sides) < _SMALL:
        short = [at for at in range(outer, len(sides)) if sides[at] < shape[at]]
        if not short:
            break
        at = min(short, key=sides.__getitem__)
        sides[at] = min(2 * sides[at], shape[at])
    return tuple(sides)
