"""Coarser levels: the factors of each, and how windows of samples are reduced.

Windows begin at an array's first sample, and are adjacent; samples at its ends that do not fill one
are left out.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from dask import config
from dask.utils import parse_bytes

from xarray_n5.graph import in_one_layer, label, slices_of
from xarray_n5.model.axes import axis_kind
from xarray_n5.model.chunking import group_chunks
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.axes import Axis, Geometry


Method: TypeAlias = Literal["mean", "mode", "nearest", "max", "min"]

_AT_ONCE = 1 << 14
"""The number of windows of labels that are sorted at a time, to fit into a CPU's cache."""

_LONG = 8
"""The size of an integer whose sums no wider type holds, in bytes."""


def reduce_windows(block: np.ndarray, factors: Sequence[int], method: Method) -> np.ndarray:
    """Return one sample for each window.

    Parameters
    ----------
    block
        Numbers; for "mode" and "nearest" anything that can be sorted.
    factors
        The sides of a window.
    method
        "mean": exact for integers, rounded to the nearest, halves to even, as in TensorStore; in
        double precision for floats, NaN if the window has one. "mode": the most frequent value, the
        smallest of equals. "nearest": the first sample. "max" and "min": NaN if the window has one.

    Returns
    -------
    numpy.ndarray
        An array of the same type, with ``size // factor`` samples along each axis.

    Examples
    --------
    >>> reduce_windows(np.array([1, 2, 4, 5, 255], "u1"), [2], "mean")
    array([2, 4], dtype=uint8)
    """
    shape = coarse_shape(block.shape, factors)
    whole = block[tuple(slice(n * factor) for n, factor in zip(shape, factors, strict=True))]
    if method == "nearest":
        return np.ascontiguousarray(whole[tuple(slice(None, None, factor) for factor in factors)])
    return _METHODS[method](whole, factors)


def coarse_shape(shape: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    """Return the number of whole windows along each axis.

    >>> coarse_shape((5, 4, 2), (2, 2, 2))
    (2, 2, 1)
    """
    return tuple(size // factor for size, factor in zip(shape, factors, strict=True))


def check_type(dtype: np.dtype[Any], method: Method) -> None:
    """Raise ValueError if a method is not defined for a type."""
    kinds = {"mean": "iuf", "mode": "iufb", "nearest": "iufbc", "max": "iufb", "min": "iufb"}
    if dtype.kind not in kinds[method]:
        hint = "use 'mode' or 'nearest'" if dtype.kind == "b" else "use 'nearest', or convert it"
        raise ValueError(f"a {method} of {dtype} is not defined; {hint}")


def _folded(
    block: np.ndarray, window: Sequence[int], fold: np.ufunc, dtype: np.dtype[Any]
) -> np.ndarray:
    """Reduce windows axis by axis, which reads memory in order."""
    for axis, side in enumerate(window):
        if side > 1:
            before = (slice(None),) * axis
            result = block[(*before, slice(None, None, side))].astype(dtype, order="C")
            for number in range(1, side):
                fold(result, block[(*before, slice(number, None, side))], out=result)
            block = result
    return block.astype(dtype, copy=False)


def _mean(block: np.ndarray, window: Sequence[int]) -> np.ndarray:
    count = math.prod(window)
    if count == 1:
        return block.copy()
    if block.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            total = _folded(block, window, np.add, np.promote_types(block.dtype, np.float64))
            mean: np.ndarray = np.divide(total, count)
            return mean.astype(block.dtype)
    limits = np.iinfo(block.dtype)
    if block.dtype.itemsize == _LONG:
        # Sums of quotients and of remainders do not overflow, or only until they are added.
        quotient = _folded(block // count, window, np.add, block.dtype)
        rest = _folded(block % count, window, np.add, block.dtype)
        quotient = quotient + rest // count
        rest = rest % count
    else:
        wide = np.min_scalar_type(count * (limits.min or limits.max))
        total = _folded(block, window, np.add, wide)
        quotient = total // count
        rest = total - quotient * count
    return _to_even(quotient, rest, count).astype(block.dtype)


def _to_even(quotient: np.ndarray, rest: np.ndarray, count: int) -> np.ndarray:
    """Round to the nearest whole number, halves to even."""
    lacking = count - rest
    up = (rest > lacking) | ((rest == lacking) & (quotient & 1).astype(bool))
    nearest: np.ndarray = np.add(quotient, up, out=quotient)
    return nearest


def _mode(block: np.ndarray, window: Sequence[int]) -> np.ndarray:
    """Return the most frequent values; only windows with different values are sorted."""
    result = _least(block, window)
    mixed = np.flatnonzero(result != _greatest(block, window))
    flat, ends = block.reshape(-1), result.reshape(-1)
    strides = [math.prod(block.shape[axis + 1 :]) for axis in range(block.ndim)]
    inner = np.array([np.dot(place, strides) for place in np.ndindex(*window)], np.intp)
    for start in range(0, mixed.size, _AT_ONCE):
        some = mixed[start : start + _AT_ONCE]
        places = np.unravel_index(some, result.shape)
        first = sum(
            at * (side * stride) for at, side, stride in zip(places, window, strides, strict=True)
        )
        samples = flat.take(first + inner[:, np.newaxis])
        samples.sort(axis=0)
        ends[some] = _longest_run(samples)
    return result


def _longest_run(samples: np.ndarray) -> np.ndarray:
    """Return the most frequent value in each column of sorted rows, the smallest of equals."""
    best: np.ndarray = samples[0].copy()
    run = np.ones(best.shape, np.min_scalar_type(len(samples)))
    most = run.copy()
    for before, row in itertools.pairwise(samples):
        # All NaNs count as one value; they are sorted last.
        same = (row == before) | ((row != row) & (before != before))  # noqa: PLR0124
        run *= same
        run += 1
        np.copyto(best, row, where=run > most)
        np.maximum(most, run, out=most)
    return best


def _greatest(block: np.ndarray, window: Sequence[int]) -> np.ndarray:
    return _extreme(block, window, np.maximum)


def _least(block: np.ndarray, window: Sequence[int]) -> np.ndarray:
    return _extreme(block, window, np.minimum)


def _extreme(block: np.ndarray, window: Sequence[int], fold: np.ufunc) -> np.ndarray:
    reduced = _folded(block, window, fold, block.dtype)
    return reduced.copy() if reduced is block else reduced


_METHODS: Mapping[str, Callable[[np.ndarray, Sequence[int]], np.ndarray]] = MappingProxyType(
    {"mean": _mean, "mode": _mode, "max": _greatest, "min": _least}
)

_MOST = 1 << 25
"""The maximum size of a task's input, unless one chunk needs more: 32 MiB."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The attributes with which xarray decodes stored numbers; none if they mean themselves."""

    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_bool(self) -> bool:
        """Whether the numbers are booleans."""
        return bool(self.attributes.get("dtype") == "bool")

    @property
    def masks(self) -> tuple[Any, ...]:
        """The numbers that mean missing samples."""
        known = [self.attributes.get(key) for key in ("_FillValue", "missing_value")]
        masks = [np.ravel(mask).tolist() for mask in known if mask is not None]
        return tuple(number for numbers in masks for number in numbers)

    def reduce(self, block: np.ndarray, factors: Sequence[int], method: Method) -> np.ndarray:
        """Reduce stored numbers: a window with a missing sample is missing, as with NaN."""
        kind = {"true": "u", "false": "i"}.get(str(self.attributes.get("_Unsigned", "")).lower())
        numbers = block
        if kind is not None and block.dtype.kind in "iu":
            numbers = block.view(f"{kind}{block.dtype.itemsize}")
        if float(np.ravel(self.attributes.get("scale_factor", 1))[0]) < 0:
            opposite: dict[Method, Method] = {"max": "min", "min": "max"}
            method = opposite.get(method, method)
        result = reduce_windows(numbers, factors, method).view(block.dtype)
        masks = np.asarray(self.masks).astype(block.dtype)
        if masks.size and method in {"mean", "max", "min"}:
            missing = np.isin(block, masks)
            result[reduce_windows(missing, factors, "max")] = masks[0]
        return result


def coarser_blocks(
    finer: Array,
    step: tuple[int, ...],
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    method: Method,
    token: str,
    meaning: Meaning | None = None,
) -> da.Array:
    """Return the next level, in blocks of whole chunks.

    Parameters
    ----------
    finer
        The level before it, which is stored when the blocks are computed.
    step
        The factors of the level.
    shape, chunks
        The level's shape, and that of its chunks.
    method
        The reduction of a window to a sample.
    token
        A string that distinguishes the level's values from others.
    meaning
        The meaning of the numbers; by default they mean themselves.
    """
    sides = _block_shape(finer, step, chunks)
    blocks = tuple(
        (side,) * (size // side) + ((size % side,) if size % side or not size else ())
        for side, size in zip(sides, shape, strict=True)
    )
    name = f"{label('coarser', finer.node.name)}-{token}"
    where = slices_of(blocks)
    options: Any = {"step": step, "method": method, "meaning": meaning or Meaning()}
    return in_one_layer(name, _read_coarser, finer, where, blocks, finer.dtype, **options)


def _read_coarser(
    finer: Array,
    where: tuple[slice, ...],
    step: Sequence[int],
    method: Method,
    meaning: Meaning,
) -> np.ndarray:
    """Read and reduce the windows of a part of the next level."""
    windows = (slice(w.start * f, w.stop * f) for w, f in zip(where, step, strict=True))
    return meaning.reduce(np.asarray(finer[tuple(windows)]), step, method)


def _block_shape(finer: Array, step: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of blocks: whole chunks of both levels, unless they are too large.

    In that case, whole chunks of the level that is written; some chunks of the other are read
    repeatedly. Blocks that are close to cubes share the fewest chunks.
    """
    limit = min(_MOST, parse_bytes(config.get("array.chunk-size")))
    one = tuple(side * factor for side, factor in zip(chunks, step, strict=True))
    both = tuple(math.lcm(side, other) for side, other in zip(one, finer.chunks, strict=True))
    sides = both if math.prod(both) * finer.dtype.itemsize <= limit else one
    grouped = group_chunks(sides, finer.shape, finer.dtype.itemsize, limit)
    return tuple(side // factor for side, factor in zip(grouped, step, strict=True))


Step: TypeAlias = "int | Mapping[str, int] | Sequence[int]"
"""The factors of one level: one for all axes of space, by dimension, or (in a list) by axis."""

_NEAR = math.sqrt(2)
"""The maximum ratio of a voxel's sides to the shortest one for them to be halved together."""


def steps_of(
    geometry: Geometry,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    factors: Step | Sequence[Step] | None,
    levels: int | None,
) -> list[tuple[int, ...]]:
    """Return the factors of each coarser level, over the level before it.

    Parameters
    ----------
    geometry
        The base level's axes, all of them named.
    shape, chunks
        The base level's shape, and that of its chunks.
    factors
        A list with an item for each level, or the same for every level; None to halve the axes
        with the smallest voxel sizes.
    levels
        The number of levels; None to continue until a level fits into one chunk.

    Raises
    ------
    ValueError
        If an axis cannot be made coarser, or a level would equal the one before.
    """
    if isinstance(factors, Sequence):
        if levels is not None:
            raise ValueError("factors is a list of all levels; omit levels=")
        return list(_listed(geometry, shape, factors))
    if levels is not None and operator.index(levels) < 0:
        raise ValueError(f"levels is {levels}; expected a number of coarser levels")
    same = None if factors is None else _by_axis(geometry, factors, "factors")
    if same is not None and set(same) == {1}:
        raise ValueError(
            f"no level would be coarser with factors={factors!r}; pass one of at least 2, and "
            "axes of space, or a number for each axis"
        )
    steps: list[tuple[int, ...]] = []
    spaced = [_is_space(axis) for axis in geometry.axes]
    if same is None and not any(spaced):
        names = [axis.name for axis in geometry.axes]
        raise ValueError(f"none of the axes {names} is known to be an axis of space; pass factors=")
    sides = _sides(geometry, spaced)
    coarsened = spaced if same is None else [factor > 1 for factor in same]
    while len(steps) < levels if levels is not None else _is_large(shape, chunks, coarsened):
        step = _shortest(sides, shape, spaced) if same is None else same
        step = _within(step, shape)
        if set(step) == {1}:
            if levels is None:
                break
            raise ValueError(f"only {len(steps)} coarser levels are possible: the last has {shape}")
        steps.append(step)
        sides = [side * factor for side, factor in zip(sides, step, strict=True)]
        shape = coarse_shape(shape, step)
    return steps


def _shortest(
    sides: Sequence[float], shape: Sequence[int], spaced: Sequence[bool]
) -> tuple[int, ...]:
    """Return 2 for the axes to halve to bring voxels towards cubes, and 1 for the others."""
    able = [space and size > 1 for space, size in zip(spaced, shape, strict=True)]
    least = min((side for side, can in zip(sides, able, strict=True) if can), default=0.0)
    return tuple(
        2 if can and side < _NEAR * least else 1 for side, can in zip(sides, able, strict=True)
    )


def _is_large(shape: Sequence[int], chunks: Sequence[int], coarsened: Sequence[bool]) -> bool:
    """Return whether a level has several chunks along an axis that is made coarser."""
    return any(
        size > side
        for size, side, is_coarser in zip(shape, chunks, coarsened, strict=True)
        if is_coarser
    )


def _sides(geometry: Geometry, spaced: Sequence[bool]) -> list[float]:
    """Return the sides of voxels, in one unit if all axes of space have units of length."""
    units = [unit_of(axis.unit) for axis in geometry.axes]
    known = all(
        unit is not None and unit.quantity == "length"
        for unit, space in zip(units, spaced, strict=True)
        if space
    )
    return [
        abs(axis.step) * (unit.size if known and unit is not None else 1.0)
        for axis, unit in zip(geometry.axes, units, strict=True)
    ]


def _listed(
    geometry: Geometry, shape: tuple[int, ...], factors: Sequence[Step]
) -> Iterator[tuple[int, ...]]:
    for number, listed in enumerate(factors, start=1):
        what = f"factors of level {number}"
        step = _by_axis(geometry, listed, what)
        if not isinstance(listed, Mapping | Sequence):
            step = _within(step, shape)
        if set(step) <= {1}:
            several = len(factors) > 1 and not any(
                isinstance(f, Mapping | Sequence) for f in factors
            )
            hint = (
                "; a list has an item for each level: for a factor per axis, pass "
                f"[{tuple(factors)}]"
                if several
                else ""
            )
            raise ValueError(f"{what} are {listed!r}: the level would not be coarser{hint}")
        for axis, size, factor in zip(geometry.axes, shape, step, strict=True):
            if factor > max(1, size):
                raise ValueError(f"{what}: {axis.name!r} has {size} samples, fewer than {factor}")
        yield step
        shape = coarse_shape(shape, step)


def _within(step: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Limit factors to the number of samples."""
    return tuple(min(factor, max(1, size)) for factor, size in zip(step, shape, strict=True))


def _by_axis(geometry: Geometry, step: Step, what: str) -> tuple[int, ...]:
    """Return the factor along each axis."""
    names = [axis.name for axis in geometry.axes]
    try:
        if isinstance(step, Mapping):
            if unknown := step.keys() - set(names):
                raise ValueError(f"{what} are for {sorted(unknown)}; expected some of {names}")
            by_axis = tuple(operator.index(step.get(cast("str", name), 1)) for name in names)
        elif isinstance(step, Sequence):
            by_axis = tuple(map(operator.index, step))
        else:
            factor = operator.index(step)
            by_axis = tuple(factor if _is_space(axis) else 1 for axis in geometry.axes)
    except TypeError:
        raise ValueError(f"{what} are {step!r}; expected whole numbers") from None
    if len(by_axis) != len(names) or min(by_axis, default=1) < 1:
        raise ValueError(f"{what} are {step!r}; expected {len(names)} numbers of at least 1")
    for axis, factor in zip(geometry.axes, by_axis, strict=True):
        if factor > 1 and axis.labels is not None:
            raise ValueError(f"{what}: {axis.name!r} has labels, which cannot be downsampled")
    return by_axis


def _is_space(axis: Axis) -> bool:
    return axis_kind(axis) == "space" and axis.labels is None
