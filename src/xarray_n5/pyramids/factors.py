"""Compute the downsampling factors of each level of a pyramid."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from xarray_n5.model.axes import axis_kind
from xarray_n5.model.units import unit_of
from xarray_n5.pyramids.reduce import coarse_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.model.axes import Axis, Geometry

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
