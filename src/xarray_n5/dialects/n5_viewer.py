"""``pixelResolution`` and ``downsamplingFactors`` on each level, as n5-viewer and n5-spark write.

Lists are in N5 order. The resolution is that of the base level; factors are relative to it. Source:
saalfeldlab/n5-viewer, N5SingleScaleMetadata.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from xarray_n5.dialects import lists
from xarray_n5.dialects.lists import matrix, numbers, texts
from xarray_n5.model.axes import Geometry
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext

_KEY = "pixelResolution"
_LAST = "affineTransform"


@dataclass(frozen=True, slots=True)
class N5Viewer:
    """The base level's resolution with one unit, and the level's factors."""

    name: ClassVar[str] = "n5_viewer"
    keys: ClassVar[tuple[str, ...]] = (_KEY, "downsamplingFactors", _LAST)
    group_keys = (_KEY, "downsamplingFactors", "scales")
    level_lists = ("downsamplingFactors", "scales")
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, with names and units from ``axes`` and ``units`` if they exist."""
        ndim = len(node.shape)
        own = node.attributes
        group = node.parents[0] if node.parents else {}
        listed = "downsamplingFactors" in group or "scales" in group
        source = group if _KEY not in own and listed else own
        steps, unit = lists.steps_and_unit(source.get(_KEY))
        scales, factors = _level(node, numbers(_KEY, steps, ndim, node=node))
        if scales is None and ("downsamplingFactors" not in own or factors is None):
            return None
        where = _KEY if source is own else f"{_KEY} of the group"
        scale = [where] * (scales is not None) + ["downsamplingFactors"] * (factors is not None)
        said = {"scale": ", ".join(scale)}
        if scales is None:
            # Only factors: coordinates are in voxels of the base level.
            return Geometry(
                lists.axes_at_level(("",) * ndim, (None,) * ndim, (1.0,) * ndim, factors), said
            )
        names = texts("axes", own.get("axes"), ndim) or ("",) * ndim
        units = texts("units", own.get("units"), ndim)
        said |= {"names": "axes"} if any(names) else {}
        said |= {"units": "units" if units else where} if units or unit else {}
        units = units or (unit,) * ndim
        if _LAST not in own:
            axes = lists.axes_at_level(names, units, scales, factors)
            return lists.moved(Geometry(axes, said), node)
        rows = matrix({"type": "affine", "affine": own[_LAST]}, ndim) @ np.diag([*scales, 1.0])
        said |= {"scale": f"{said['scale']}, {_LAST}", "offset": _LAST}
        axes, affine = lists.axes_under(names, units, rows, factors)
        return lists.moved(Geometry(axes, said, affine=affine), node)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the base level's resolution with its one unit, and the level's factors."""
        return {_KEY: _resolution(geometry)} | lists.factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: the base's resolution, all factors."""
        return {
            _KEY: _resolution(levels[0][1]),
            "downsamplingFactors": [lists.factors_in(geometry) for _, geometry in levels],
        }


def _resolution(geometry: Geometry) -> dict[str, Any]:
    units = [axis.unit for axis in geometry.axes if axis.scale is not None]
    if not units or not same_unit(*units):
        raise ValueError(
            f"'pixelResolution' has one unit for all axes, got {sorted({*map(str, units)})}"
        )
    # Neuroglancer and napari-n5 reject a resolution without a unit.
    return {"dimensions": lists.steps(geometry), "unit": units[0] or ""}


def _level(
    node: ArrayContext, scales: tuple[float, ...] | None
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Return the base level's resolution, or None if it is unknown, and the level's factors."""
    if scales is None:
        return None, lists.factors_of(node)
    if {"transform", _KEY} <= node.attributes.keys() and (
        "downsamplingFactors" not in node.attributes
    ):
        return scales, None  # COSEM's: the level's own resolution
    scales, factors = lists.base_and_factors(node, _KEY, scales)
    if factors is not None or node.base is None:
        return scales, factors
    base = lists.resolution_in(node.base.attributes, _KEY, len(scales))
    if base is None:
        return scales, None
    if lists.alike(scales, base):
        return scales, _guess(node, node.base)
    # The level's own resolution: the factors follow from the base level's.
    return base, tuple(own / under for own, under in zip(scales, base, strict=True))


def _guess(node: ArrayContext, base: ArrayContext) -> tuple[float, ...]:
    """Return n5-viewer's default factors, 2**level, for a level without factors.

    An axis with the base level's size was not downsampled.
    """
    factor = 2.0 ** (node.level or 0)
    guessed = []
    for own, whole in zip(node.shape[::-1], base.shape[::-1], strict=True):
        fits = [
            candidate for candidate in (factor, 1.0) if math.ceil(whole / candidate) - own in {0, 1}
        ]
        if not fits:
            raise ValueError(
                f"the resolution is that of {base.path!r}, but {own} samples cover {whole}, and "
                "there are no 'downsamplingFactors'"
            )
        guessed.append(fits[0])
    return tuple(guessed)
