"""Layers as they are shown and served: their levels, chunks of plain numbers, Zarr documents."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.images.channels import window_of
from xarray_n5.model.paths import level_name
from xarray_n5.model.units import unit_of
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


_NAME = re.compile(r"[a-zA-Z][a-zA-Z_0-9]*")

_BASES = {"length": ("m", "meter"), "time": ("s", "second")}
"""Units of Neuroglancer, and their names in OME-NGFF."""

_SAMPLE = 256
"""The number of rows and columns of samples from which the contrast is computed."""


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension, in a unit that Neuroglancer supports."""

    name: str
    size: float
    """The size of the coordinates' unit in :attr:`unit`."""
    unit: str
    """``m``, ``s``, or an empty string for no unit."""
    word: str | None
    """The unit's name in OME-NGFF."""

    @classmethod
    def of(cls, name: str, unit: str | None) -> Dim:
        """Return a dimension in metres or seconds; without a unit if it has another one."""
        known = unit_of(unit)
        plain = name if _NAME.fullmatch(name) else "d" + re.sub(r"[^a-zA-Z_0-9]", "_", name)
        if known is None or known.quantity not in _BASES:
            return cls(plain, 1.0, "", None)
        base, word = _BASES[known.quantity]
        return cls(plain, known.size, base, word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An image or labels as they are shown and served, the finest level first."""

    name: str
    dims: tuple[Dim, ...]
    """The dimensions, in C order; those of space are the last ones."""
    spatial: int
    """The number of dimensions of space."""
    levels: tuple[ServedLevel, ...]
    labels: bool = False
    matrix: np.ndarray | None = None
    """The matrix from samples to positions in space, with one row for each dimension of it."""
    world: tuple[Dim, ...] = ()
    """The dimensions of the space of positions."""
    color: str | None = None
    """The colour of a channel, such as ``#ff0000``."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the samples that are served."""
        return served_dtype(self.levels[0].data.dtype, labels=self.labels)

    def with_levels(self) -> Layer:
        """Return the layer with more levels, if it has only one and is large."""
        levels = list(self.levels)
        while len(self.levels) == 1 and (more := levels[-1].coarser()) is not None:
            levels.append(more)
        return replace(self, levels=tuple(levels))

    def chunk(self, level: int, index: Sequence[int]) -> bytes | None:
        """Return a chunk's bytes, or None if the level has no such chunk."""
        served = self.levels[level]
        chunks = served.chunks
        start = [number * side for number, side in zip(index, chunks, strict=True)]
        if any(first >= size for first, size in zip(start, served.shape, strict=True)):
            return None
        stop = [min(a + side, n) for a, side, n in zip(start, chunks, served.shape, strict=True)]
        values = served.read(start, stop, labels=self.labels).astype(self.dtype, copy=False)
        ends = [(0, side - n) for side, n in zip(chunks, values.shape, strict=True)]
        if any(more for _, more in ends):
            values = np.pad(values, ends)
        return values.tobytes()

    def contrast(self) -> tuple[float, float]:
        """Return the values shown as black and white: percentiles of the coarsest level."""
        if self.levels[0].data.dtype.kind == "b":
            return 0.0, 1.0
        level = [each for each in self.levels if max(each.factors, default=1) == 1][-1]
        middle = [size // 2 for size in level.shape]
        outer = len(middle) - self.spatial
        start = [0] * outer + middle[outer:]
        for at in (-1, -2):
            start[at] = max(0, middle[at] - _SAMPLE // 2)
        wide = [1] * (len(start) - 2) + [_SAMPLE] * 2
        stop = [min(a + more, n) for a, more, n in zip(start, wide, level.shape, strict=True)]
        window = window_of(level.read(start, stop, labels=True))
        return float(window["start"]), float(window["end"])

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of OME-NGFF 0.4 that position the levels."""
        axes = []
        for at, dim in enumerate(self.dims):
            is_space = at >= len(self.dims) - self.spatial
            kind = "space" if is_space else {"second": "time"}.get(dim.word or "")
            facts = {"name": dim.name, "type": kind, "unit": dim.word}
            axes.append({key: value for key, value in facts.items() if value is not None})
        datasets = [
            {
                "path": level_name(number),
                "coordinateTransformations": [
                    {"type": "scale", "scale": self._sized(level.scale)},
                    {"type": "translation", "translation": self._sized(level.offset)},
                ],
            }
            for number, level in enumerate(self.levels)
        ]
        return {"multiscales": [{"version": "0.4", "axes": axes, "datasets": datasets}]}

    def document(self, level: int) -> dict[str, Any]:
        """Return the ``.zarray`` of a level."""
        served = self.levels[level]
        return {
            "zarr_format": 2,
            "shape": list(served.shape),
            "chunks": list(served.chunks),
            "dtype": self.dtype.str,
            "compressor": None,
            "filters": None,
            "fill_value": 0,
            "order": "C",
            "dimension_separator": ".",
        }

    def _sized(self, numbers: Sequence[float]) -> list[float]:
        return [number * dim.size for number, dim in zip(numbers, self.dims, strict=True)]


def served_dtype(dtype: np.dtype[Any], *, labels: bool) -> np.dtype[Any]:
    """Return the type of served samples: one that Neuroglancer supports, little-endian.

    >>> [str(served_dtype(np.dtype(each), labels=False)) for each in ("f8", ">i2", "?", "i8")]
    ['float32', 'int16', 'uint8', 'float32']
    """
    if dtype.kind == "b":
        return np.dtype("u1")
    if dtype.kind == "f" or (dtype == np.int64 and not labels):
        return np.dtype("<f4")
    if labels and dtype.kind == "i":
        return np.dtype("<u8")
    return dtype.newbyteorder("<")
