"""Levels of a pyramid: by how much an array is downsampled, and what that does to its samples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xarray_n5.axes import Axis, kind_of, written_unit
from xarray_n5.dialects.values import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects import Node


def factors_of(node: Node) -> tuple[float, ...] | None:
    """Return how many base voxels one voxel is long, in N5 order; None where nothing tells.

    The group's list of levels, as Neuroglancer and n5-viewer write it, wins over the array's own
    ``downsamplingFactors``; of the former, ``scales`` wins (n5-viewer's older word).
    """
    level = re.fullmatch(r"s(\d+)", node.path.rpartition("/")[2])
    group = node.parents[0] if node.parents else {}
    for key in ("scales", "downsamplingFactors") if level else ():
        listed = group.get(key)
        if isinstance(listed, list) and all(isinstance(item, list) for item in listed):
            number = int(level[1]) if level else 0
            if number < len(listed):
                return numbers(key, listed[number], len(node.shape))
    own = node.attributes.get("downsamplingFactors")
    return numbers("downsamplingFactors", own, len(node.shape))


def axes_at_level(
    names: Sequence[str],
    units: Sequence[str | None],
    scales: Sequence[float | None],
    factors: Sequence[float] | None,
    offsets: Sequence[float] | None = None,
) -> tuple[Axis, ...]:
    """Return axes in C order, from lists in N5 order that describe the base level.

    A voxel of a level lies where the mean of those it stands for lies: with base resolution r and
    factor f, f*r apart and shifted by r*(f-1)/2 (imglib2, BigDataViewer, n5-viewer, COSEM).
    """
    ndim = len(names)
    axes = []
    for name, unit, scale, factor, offset in zip(
        names, units, scales, factors or (1.0,) * ndim, offsets or (0.0,) * ndim, strict=True
    ):
        axes.append(
            Axis(
                name=name or None,
                kind=kind_of(name, unit),
                unit=written_unit(unit),
                scale=None if scale is None else scale * factor,
                offset=offset if scale is None else offset + scale * (factor - 1) / 2,
            )
        )
    return tuple(axes[::-1])
