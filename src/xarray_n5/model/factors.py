"""Factors of levels over the base level, by the positions of samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Sequence


def at_levels(
    levels: Sequence[tuple[Axis, ...]], shapes: Sequence[tuple[int, ...]]
) -> list[Geometry] | None:
    """Return the axes of levels with their factors over the first one, or None if there are none.

    Factors are whole numbers if the ratio of steps is one up to rounding.
    """
    if len({len(axes) for axes in levels}) != 1:
        return None
    columns = zip(zip(*levels, strict=True), zip(*shapes, strict=True), strict=True)
    levelled = [_axis_at_levels(axes, sizes) for axes, sizes in columns]
    if any(column is None for column in levelled):
        return None
    return [Geometry(axes) for axes in zip(*filter(None, levelled), strict=True)]


def _axis_at_levels(axes: Sequence[Axis], sizes: Sequence[int]) -> list[Axis] | None:
    """Return an axis at each level with its factor, or None if it is not that of a pyramid."""
    if any(axis.scale is not None for axis in axes):
        # A coordinate that counts samples has no scale.
        axes = [axis if axis.placed else replace(axis, scale=1.0) for axis in axes]
    base = replace(axes[0], factor=1.0)
    if base.scale is None or base.labels is not None:
        same = all(
            replace(axis, scale=None, factor=1.0, unit=base.unit) == base
            and same_unit(axis.unit, base.unit)
            for axis in axes
        )
        return list(axes) if same and len(set(sizes)) == 1 else None
    level_axes: list[Axis] = [base]
    for axis, size in zip(axes[1:], sizes[1:], strict=True):
        if axis.scale is None or size > sizes[len(level_axes) - 1]:
            return None
        if not same_unit(axis.unit, base.unit):
            return None
        last = level_axes[-1].factor
        factor, scale = nearly_whole(axis.scale / base.scale), axis.scale
        if size == 1 and factor < last:
            # A single sample has no step.
            factor = of_one_sample(axis, base, last, otherwise=last * sizes[len(level_axes) - 1])
            scale = base.scale * factor
        if factor < last:
            return None
        level_axes.append(replace(axis, scale=scale, factor=factor))
    return level_axes


def of_one_sample(axis: Axis, base: Axis, least: float = 1.0, *, otherwise: float) -> float:
    """Return the factor that centres a single sample, which has no step, in those that it covers.

    It is `otherwise` if that is less than `least`, the factor of the level before it.

    >>> of_one_sample(Axis(offset=3.5), Axis(), otherwise=9.0)
    8.0
    """
    centred = nearly_whole(2 * (axis.offset - base.offset) / base.step + 1)
    return centred if centred >= least else otherwise


def nearly_whole(factor: float) -> float:
    """Return a factor as a whole number if only rounding differs.

    >>> nearly_whole(1.9999999999), nearly_whole(1.5)
    (2.0, 1.5)
    """
    whole = float(round(factor))
    return whole if abs(factor - whole) <= ROUNDING * abs(whole) else factor
