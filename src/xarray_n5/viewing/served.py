"""Layers as they are shown and served: their levels, chunks of plain numbers, Zarr documents."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.images.channels import window_of
from xarray_n5.model.paths import level_name
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray as xr

_SIDE = 64
"""The side of served chunks along dimensions of space, if the data have none."""

_SMALL, _LARGE, _COMPUTED = 1 << 15, 1 << 21, 1 << 24
"""The minimum number of samples of a served chunk, if possible, and the maximum; blocks of Dask may
be larger, since each served chunk computes those that it overlaps."""


@dataclass(frozen=True, slots=True)
class ServedLevel:
    """A resolution of a layer."""

    data: xr.Variable
    """The samples, which are read lazily."""
    scale: tuple[float, ...]
    """The distance between samples along each dimension."""
    offset: tuple[float, ...]
    """The position of the first sample."""


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

_BASES = {"length": "m", "time": "s"}
"""Units of Neuroglancer."""

_WORDS = {"m": "meter", "s": "second"}
"""Their names in OME-NGFF."""

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

    @classmethod
    def of(cls, name: str, unit: str | None) -> Dim:
        """Return a dimension in metres or seconds; without a unit if it has another one."""
        known = unit_of(unit)
        plain = name if _NAME.fullmatch(name) else "d" + re.sub(r"[^a-zA-Z_0-9]", "_", name)
        if known is None or known.quantity not in _BASES:
            return cls(plain, 1.0, "")
        return cls(plain, known.size, _BASES[known.quantity])


_IMAGE = """#uicontrol invlerp normalized
void main() { emitGrayscale(normalized()); }
"""

_CHANNEL = """#uicontrol invlerp normalized
#uicontrol vec3 color color(default="{color}")
void main() {{ emitRGB(color * normalized()); }}
"""


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
    """The matrix from samples to positions in space, with one row for each dimension of it.

    The dimensions of space are then those of positions.
    """
    color: str | None = None
    """The colour of a channel, such as ``#ff0000``."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the samples that are served."""
        return served_dtype(self.levels[0].data.dtype, labels=self.labels)

    def chunks(self, level: int) -> tuple[int, ...]:
        """Return the shape of the chunks of a level that are served."""
        data = self.levels[level].data
        most = _LARGE if data.chunks is None else _COMPUTED
        return served_chunks(data.shape, source_chunks(data), self.spatial, most)

    def chunk(self, level: int, index: Sequence[int]) -> bytes | None:
        """Return a chunk's bytes, or None if the level has no such chunk."""
        data, sides = self.levels[level].data, self.chunks(level)
        start = [number * side for number, side in zip(index, sides, strict=True)]
        if any(first >= size for first, size in zip(start, data.shape, strict=True)):
            return None
        box = tuple(slice(first, first + side) for first, side in zip(start, sides, strict=True))
        values = np.asarray(data[box].values).astype(self.dtype, copy=False)
        ends = [(0, side - size) for side, size in zip(sides, values.shape, strict=True)]
        return np.pad(values, ends).tobytes()

    def contrast(self) -> tuple[float, float]:
        """Return the values shown as black and white: percentiles of the coarsest level."""
        data = self.levels[-1].data
        if data.dtype.kind == "b":
            return 0.0, 1.0
        box = [slice(0, 1)] * (data.ndim - self.spatial)
        box += [slice(size // 2, size // 2 + 1) for size in data.shape[len(box) :]]
        for at in (-1, -2):
            start = max(0, data.shape[at] // 2 - _SAMPLE // 2)
            box[at] = slice(start, start + _SAMPLE)
        window = window_of(np.asarray(data[tuple(box)].values))
        return float(window["start"]), float(window["end"])

    def shown(self, source: Any, *, is_first: bool) -> dict[str, Any]:
        """Return the state of the layer: an image, of which the first is opaque, or labels."""
        state = {"name": self.name, "source": source}
        if self.labels:
            return {**state, "type": "segmentation"}
        return {
            **state,
            "type": "image",
            "shader": _CHANNEL.format(color=self.color) if self.color else _IMAGE,
            "shaderControls": {"normalized": {"range": list(self.contrast())}},
            "opacity": 1.0 if is_first or self.color else 0.5,
            **({"blend": "additive"} if self.color else {}),
        }

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of OME-NGFF 0.4 that position the levels."""
        axes = []
        for at, dim in enumerate(self.dims):
            is_space = at >= len(self.dims) - self.spatial
            kind = {"type": "space"} if is_space else {"type": "time"} if dim.unit == "s" else {}
            unit = {"unit": _WORDS[dim.unit]} if dim.unit else {}
            axes.append({"name": dim.name, **kind, **unit})
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
        return {
            "zarr_format": 2,
            "shape": list(self.levels[level].data.shape),
            "chunks": list(self.chunks(level)),
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

    >>> [str(served_dtype(np.dtype(name), labels=False)) for name in ("f8", ">i2", "?", "i8")]
    ['float32', 'int16', 'uint8', 'float32']
    """
    if dtype.kind == "b":
        return np.dtype("u1")
    if dtype.kind == "f" or (dtype == np.int64 and not labels):
        return np.dtype("<f4")
    if labels and dtype.kind == "i":
        return np.dtype("<u8")
    return dtype.newbyteorder("<")
