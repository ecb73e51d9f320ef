"""Layers as Neuroglancer shows them, and the Zarr documents by which it reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.model.level_names import level_name
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.viewing.levels import ServedLevel

_NAME = re.compile(r"[a-zA-Z][a-zA-Z_0-9]*")

_BASES = {"length": ("m", "meter"), "time": ("s", "second")}
"""Units of Neuroglancer, and their names in OME-NGFF."""

_SAMPLE = 256
"""The number of rows and columns of samples from which the contrast is computed."""

_PERCENTILES = (0.1, 99.9)


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
        source = self.levels[0].data.dtype
        if source.kind == "b":
            return 0.0, 1.0
        level = [each for each in self.levels if max(each.factors, default=1) == 1][-1]
        middle = [size // 2 for size in level.shape]
        outer = len(middle) - self.spatial
        start = [0] * outer + middle[outer:]
        for at in (-1, -2):
            start[at] = max(0, middle[at] - _SAMPLE // 2)
        wide = [1] * (len(start) - 2) + [_SAMPLE] * 2
        stop = [min(a + more, n) for a, more, n in zip(start, wide, level.shape, strict=True)]
        values = level.read(start, stop, labels=True).astype(np.float64)
        values = values[np.isfinite(values)]
        if not values.size:
            return 0.0, 1.0
        low, high = (float(each) for each in np.percentile(values, _PERCENTILES))
        if source.kind in "iu":
            low, high = float(np.floor(low)), float(np.ceil(high))
        return (low, high) if low < high else (low, low + 1.0)

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
