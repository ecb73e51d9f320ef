"""``pixelResolution`` and ``downsamplingFactors`` on each level, as n5-viewer and n5-spark write.

Lists stand in N5 order. The resolution is that of the base level, repeated; the factors are
absolute. Source: saalfeldlab/n5-viewer, N5SingleScaleMetadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.axes import Geometry
from xarray_n5.dialects.levels import axes_at_level, factors_of
from xarray_n5.dialects.values import numbers, texts, whole_number

if TYPE_CHECKING:
    from xarray_n5.dialects import Node


@dataclass(frozen=True, slots=True)
class N5Viewer:
    """A resolution with one unit, times how much the level is downsampled."""

    name: ClassVar[str] = "n5_viewer"
    keys: ClassVar[tuple[str, ...]] = ("pixelResolution", "downsamplingFactors")

    def read(self, node: Node) -> Geometry | None:
        """Return the axes; names and units come from ``axes`` and ``units`` where they are."""
        ndim = len(node.shape)
        resolution = node.attributes.get("pixelResolution")
        unit = resolution.get("unit") if isinstance(resolution, dict) else None
        steps = resolution.get("dimensions") if isinstance(resolution, dict) else resolution
        if steps is None:
            if "downsamplingFactors" not in node.attributes or _resolved(node):
                return None
            steps = [1.0] * ndim
        scales = numbers("pixelResolution", steps, ndim) or (1.0,) * ndim
        names = texts("axes", node.attributes.get("axes"), ndim) or ("",) * ndim
        units = texts("units", node.attributes.get("units"), ndim) or (unit,) * ndim
        return Geometry(axes_at_level(names, units, scales, factors_of(node)))

    def write(self, geometry: Geometry) -> dict[str, Any]:
        """Return the attribute of a base level: one unit, and no offset."""
        axes = geometry.axes[::-1]
        units = {axis.unit for axis in axes if axis.scale is not None}
        if len(units) != 1:
            raise ValueError(
                f"pixelResolution has one unit for all axes, not {sorted(map(str, units))}"
            )
        steps = [whole_number(1.0 if axis.scale is None else axis.scale) for axis in axes]
        unit = next(iter(units))
        return {"pixelResolution": {"dimensions": steps} | ({"unit": unit} if unit else {})}


def _resolved(node: Node) -> bool:
    """Return whether the array's or its group's attributes tell a resolution in another way."""
    around = (node.attributes, *node.parents[:1])
    return any("resolution" in each or "pixelResolution" in each for each in around)
