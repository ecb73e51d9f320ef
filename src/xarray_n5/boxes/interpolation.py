"""Interpolate blocks of a result, each from the box of the source that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from xarray_n5.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xarray_n5.boxes.neighbours import Method, Neighbours

Box: TypeAlias = "tuple[slice, ...]"

_SLAB = 1 << 18
"""The number of samples that are computed at a time, which the processor's caches hold."""

_EDGE = 1e-7
"""The distance, in samples, up to which a position is that of a sample."""


class Interpolation(Protocol):
    """Blocks of a result, computed from boxes of a source."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the result."""

    def box(self, where: Box) -> Box | None:
        """Return the box of the source that the block at `where` needs; None for none."""

    def block(self, read: Callable[[Box], np.ndarray], where: Box) -> np.ndarray:
        """Return the block at `where` of the result; `read` returns boxes of the source."""


@dataclass(frozen=True, slots=True, eq=False)
class AlongAxes:
    """Interpolation along each axis by itself."""

    axes: tuple[Neighbours | None, ...]
    """The samples for each target; None for axes that are kept."""
    dtype: np.dtype[Any]
    fill: Any
    """The value of targets outside."""

    def box(self, where: Box) -> Box | None:
        """Return the box of the source that the block at `where` needs; None for none."""
        parts = self._within(where)
        return None if parts is None else parts[0]

    def _within(self, where: Box) -> tuple[Box, Box] | None:
        """Return the samples that a block needs, and the targets that are computed from them."""
        needed: list[slice] = []
        computed: list[slice] = []
        for axis, along in zip(self.axes, where, strict=True):
            span = (along, along) if axis is None else axis.within(along)
            if span is None:
                return None
            needed.append(span[0])
            computed.append(span[1])
        return tuple(needed), tuple(computed)

    def block(self, read: Callable[[Box], np.ndarray], where: Box) -> np.ndarray:
        """Return the block at `where` of the result; `read` returns boxes of the source."""
        result = np.full([side.stop - side.start for side in where], self.fill, self.dtype)
        parts = self._within(where)
        if parts is None or not result.size:
            return result
        box, computed = parts
        data = read(box)
        offsets = [side.start for side in where]
        target = result[tuple(_moved(side, -o) for side, o in zip(computed, offsets, strict=True))]
        lines = [
            None if axis is None else _line(axis, along, samples.start)
            for axis, along, samples in zip(self.axes, computed, box, strict=True)
        ]
        for slab in _slabs(target.shape):
            target[slab] = _interpolate(data, lines, slab)
        for axis, (neighbours, along) in enumerate(zip(self.axes, computed, strict=True)):
            if neighbours is not None and (outside := neighbours.lower[along] < 0).any():
                np.moveaxis(target, axis, 0)[outside] = self.fill
        return result


Line: TypeAlias = "tuple[np.ndarray, np.ndarray, np.ndarray]"
"""The lower and the upper sample of each target along an axis, and the weight of the upper one."""


def _line(axis: Neighbours, along: slice, start: int) -> Line:
    lower, upper = np.maximum(axis.lower[along] - start, 0), axis.upper[along] - start
    return lower, np.maximum(upper, lower), axis.weight[along]


def _interpolate(data: np.ndarray, lines: Sequence[Line | None], slab: Box) -> np.ndarray:
    """Return a part of the targets, whatever the parts are, the same to the last bit."""
    parts = [
        None if line is None else tuple(values[along] for values in line)
        for line, along in zip(lines, slab, strict=True)
    ]
    needed = tuple(
        along if part is None else slice(part[0].min(), part[1].max() + 1)
        for part, along in zip(parts, slab, strict=True)
    )
    data = data[needed]
    for axis, (part, along) in enumerate(zip(parts, needed, strict=True)):
        if part is None:
            continue
        lower, upper, weight = part[0] - along.start, part[1] - along.start, part[2]
        before = data.take(lower, axis)
        if not weight.any():
            data = before
            continue
        before = before.astype(np.result_type(data.dtype, np.float64), copy=False)
        after = data.take(upper, axis).astype(before.dtype, copy=False)
        after -= before
        after *= weight.reshape([-1 if dim == axis else 1 for dim in range(data.ndim)])
        after += before
        data = after
    return data


@dataclass(frozen=True, slots=True, eq=False)
class ByMatrix:
    """Interpolation of the last axes at positions that matrices map from the targets."""

    matrices: np.ndarray
    """Matrices from targets to positions of samples, n rows of n + 1; other axes of the source
    come first, with one entry if the matrices do not depend on them."""
    targets: tuple[np.ndarray, ...]
    """The coordinates of targets along each of the n axes."""
    sizes: tuple[int, ...]
    """The size of the source along these axes."""
    method: Method
    dtype: np.dtype[Any]
    fill: Any
    """The value of targets outside."""

    def box(self, where: Box) -> Box | None:
        """Return the box of the source that the block at `where` needs; None for none."""
        boxes = [box for _, _, box in self._parts(where)]
        if not boxes:
            return None
        bounds = [(min(b.start for b in e), max(b.stop for b in e)) for e in zip(*boxes)]  # noqa: B905
        count = len(self.targets)
        return (*where[: len(where) - count], *(slice(*ends) for ends in bounds))

    def block(self, read: Callable[[Box], np.ndarray], where: Box) -> np.ndarray:
        """Return the block at `where` of the result; `read` returns boxes of the source."""
        result = np.full([side.stop - side.start for side in where], self.fill, self.dtype)
        first = tuple(side.start for side in where)
        for index, matrix, box in self._parts(where):
            at = tuple(slice(i, i + 1) for i in index)
            data = read((*at, *box)).reshape([side.stop - side.start for side in box])
            target = result[tuple(i - f for i, f in zip(index, first, strict=False))]
            self._compute(target, data, matrix, box, where[len(index) :])
        return result

    def _parts(self, where: Box) -> Iterator[tuple[tuple[int, ...], np.ndarray, Box]]:
        """Iterate over indices along the first axes, with their matrices and boxes."""
        others = where[: len(where) - len(self.targets)]
        if any(side.stop <= side.start for side in where):
            return
        for relative in np.ndindex(*(side.stop - side.start for side in others)):
            index = tuple(i + side.start for i, side in zip(relative, others, strict=True))
            known = zip(index, self.matrices.shape, strict=False)
            matrix = self.matrices[tuple(min(i, n - 1) for i, n in known)]
            box = self._box(matrix, where[len(others) :])
            if box is not None:
                yield index, matrix, box

    def _box(self, matrix: np.ndarray, where: Box) -> Box | None:
        """Return the samples around the positions of a block of targets."""
        if not np.isfinite(matrix).all():
            return None
        box: list[slice] = []
        along = [targets[side] for targets, side in zip(self.targets, where, strict=True)]
        for row, size in zip(matrix, self.sizes, strict=True):
            ends = [sorted((r * t.min(), r * t.max())) for r, t in zip(row, along, strict=False)]
            low, high = (row[-1] + sum(products) for products in zip(*ends, strict=True))
            if not (low <= size - 1 + _EDGE and high >= -_EDGE):
                return None
            start = int(np.floor(max(low + _EDGE, 0)))
            stop = int(np.ceil(min(high - _EDGE, size - 1))) + 1
            box.append(slice(min(start, size - 1), max(stop, start + 1)))
        return tuple(box)

    def _compute(
        self, target: np.ndarray, data: np.ndarray, matrix: np.ndarray, box: Box, where: Box
    ) -> None:
        """Compute a block from a box of the source."""
        data = data.astype(np.float64) if data.dtype in (bool, np.float16) else data
        for slab in _slabs(target.shape):
            along = [
                targets[_moved(part, side.start)]
                for targets, part, side in zip(self.targets, slab, where, strict=True)
            ]
            inside = np.ones(target[slab].shape, bool)
            positions = np.empty((len(along), *inside.shape))
            for number, (row, size, side) in enumerate(zip(matrix, self.sizes, box, strict=True)):
                terms = (r * t for r, t in zip(row, along, strict=False))
                position = positions[number]
                position[...] = row[-1] + sum(np.ix_(*terms))
                sample = np.rint(position)
                np.copyto(position, sample, where=np.abs(position - sample) < _EDGE)
                inside &= (position >= 0) & (position <= size - 1)
                np.clip(position, side.start, side.stop - 1, out=position)
                position -= side.start
            if inside.any():
                values = _at(data, positions, self.method)
                np.copyto(target[slab], values, where=inside, casting="unsafe")


def _at(data: np.ndarray, positions: np.ndarray, method: Method) -> np.ndarray:
    """Return the values at positions within an array."""
    if method == "nearest":
        # Labels beyond 2**53 are not numbers of float64.
        nearest: np.ndarray = data[tuple(np.ceil(positions - 0.5).astype(np.int64))]
        return nearest
    from scipy.ndimage import map_coordinates

    output = np.result_type(data.dtype, np.float64)
    values: np.ndarray = map_coordinates(data, positions, output, order=1, mode="nearest")
    return values


def check_scipy() -> None:
    """Raise MissingPackageError unless SciPy is installed."""
    try:
        import scipy.ndimage  # noqa: F401
    except ImportError as error:
        raise MissingPackageError("interpolations by matrices", "sampling", error) from error


def _moved(along: slice, offset: int) -> slice:
    return slice(along.start + offset, along.stop + offset)


def _slabs(shape: tuple[int, ...]) -> Iterator[Box]:
    """Iterate over parts of an array, cut along its longest axis."""
    if not shape:
        yield ()
        return
    longest = shape.index(max(shape))
    others = max(1, int(np.prod(shape, dtype=np.int64)) // max(1, shape[longest]))
    side = max(1, _SLAB // others)
    whole = tuple(slice(0, size) for size in shape)
    for start in range(0, shape[longest], side):
        part = slice(start, min(start + side, shape[longest]))
        yield (*whole[:longest], part, *whole[longest + 1 :])
