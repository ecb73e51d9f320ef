"""Attributes on the group around an array, and ``coordinateArrays``, as Neuroglancer reads them.

Lists stand in N5 order. Source: Neuroglancer's N5 data source (src/datasource/n5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.axes import Axis, Geometry, names
from xarray_n5.dialects.levels import axes_at_level, factors_of
from xarray_n5.dialects.tensorstore import TensorStore
from xarray_n5.dialects.values import numbers, texts

if TYPE_CHECKING:
    from xarray_n5.dialects import Node


@dataclass(frozen=True, slots=True)
class Neuroglancer:
    """Names, units and resolution of a whole pyramid, and texts that label samples."""

    name: ClassVar[str] = "neuroglancer"
    keys: ClassVar[tuple[str, ...]] = ("coordinateArrays",)

    def read(self, node: Node) -> Geometry | None:
        """Return the axes; what the array itself says wins over its group."""
        group = node.parents[0] if node.parents else {}
        labels = node.attributes.get("coordinateArrays", group.get("coordinateArrays"))
        merged = {**group, **node.attributes}
        resolution = merged.get("pixelResolution")
        steps = resolution.get("dimensions") if isinstance(resolution, dict) else None
        if steps is None:
            steps = merged.get("resolution")
        keys = ("axes", "units", "resolution", "pixelResolution")
        grouped = any(key in group for key in keys) and "offset" not in merged
        if not isinstance(labels, dict) and not grouped:
            return None
        ndim = len(node.shape)
        unit = resolution.get("unit") if isinstance(resolution, dict) else None
        units = texts("units", merged.get("units"), ndim) or (unit,) * ndim
        scales = numbers("resolution", steps, ndim) or (None,) * ndim
        given = texts("axes", merged.get("axes"), ndim) or ("",) * ndim
        axes = axes_at_level(given, units, scales, factors_of(node))
        return Geometry(_labelled(axes, labels, node.shape) if isinstance(labels, dict) else axes)

    def write(self, geometry: Geometry) -> dict[str, Any]:
        """Return the attributes of a single array."""
        attributes = TensorStore().write(geometry)
        labels = {
            name: list(axis.labels)
            for name, axis in zip(names(geometry.axes), geometry.axes, strict=True)
            if axis.labels is not None
        }
        return attributes | ({"coordinateArrays": labels} if labels else {})


def _labelled(
    axes: tuple[Axis, ...], labels: dict[str, Any], shape: tuple[int, ...]
) -> tuple[Axis, ...]:
    result = []
    for axis, name, size in zip(axes, names(axes), shape, strict=True):
        found = labels.get(name)
        if isinstance(found, list) and len(found) == size:
            axis = replace(  # noqa: PLW2901
                axis, name=name, labels=tuple(map(str, found)), unit=None, scale=None, offset=0.0
            )
        result.append(axis)
    return tuple(result)
