"""``resolution`` and ``offset`` without units, as Paintera, BigDataViewer and daisy write them.

Lists stand in N5 order, on the array or on the group of a pyramid; there they are the base
level's. Source: Paintera's and n5-universe's generic metadata; BigDataViewer's timepoint groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.axes import Geometry
from xarray_n5.dialects.levels import axes_at_level, factors_of
from xarray_n5.dialects.values import numbers, whole_number

if TYPE_CHECKING:
    from xarray_n5.dialects import Node


@dataclass(frozen=True, slots=True)
class Paintera:
    """Base resolution and offset, with at most one unit, times how much a level is downsampled."""

    name: ClassVar[str] = "paintera"
    keys: ClassVar[tuple[str, ...]] = ("resolution", "offset", "unit", "downsamplingFactors")

    def read(self, node: Node) -> Geometry | None:
        """Return the axes, or None where ``axes`` or ``units`` tell of another dialect."""
        group = node.parents[0] if node.parents else {}
        own = node.attributes
        if {"axes", "units"} & own.keys() or {"axes", "units"} & group.keys():
            return None
        source = own if "offset" in own else group
        if "resolution" not in source and "offset" not in source:
            return None
        ndim = len(node.shape)
        scales = numbers("resolution", source.get("resolution"), ndim) or (1.0,) * ndim
        starts = numbers("offset", source.get("offset"), ndim, positive=False, filler=0.0)
        unit = source.get("unit") if isinstance(source.get("unit"), str) else None
        units, factors = (unit,) * ndim, factors_of(node)
        axes = axes_at_level(("",) * ndim, units, scales, factors, starts)
        if source is own and starts is not None:
            # An array's own offset is where it lies, whatever its level.
            scaled = [axis.scale for axis in axes[::-1]]
            axes = axes_at_level(("",) * ndim, units, scaled, None, starts)
        return Geometry(axes)

    def write(self, geometry: Geometry) -> dict[str, Any]:
        """Return the attributes of a single array; axes have no names there."""
        axes = geometry.axes[::-1]
        units = {axis.unit for axis in axes if axis.unit is not None}
        if len(units) > 1:
            raise ValueError(f"'unit' is one for all axes, not {sorted(units)}")
        attributes: dict[str, Any] = {
            "resolution": [whole_number(1.0 if a.scale is None else a.scale) for a in axes],
            "offset": [whole_number(axis.offset) for axis in axes],
        }
        return attributes | ({"unit": units.pop()} if units else {})
