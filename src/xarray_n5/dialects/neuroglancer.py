"""``pixelResolution`` and ``coordinateArrays`` on the array, as Neuroglancer reads them.

Lists stand in N5 order. Source: Neuroglancer's N5 data source (src/datasource/n5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.axes import Axis, Geometry, kind_of, names, written_unit
from xarray_n5.dialects.values import numbers, texts, whole_number

if TYPE_CHECKING:
    from xarray_n5.dialects import Node


@dataclass(frozen=True, slots=True)
class Neuroglancer:
    """A resolution with one unit, and texts that label the samples of an axis."""

    name: ClassVar[str] = "neuroglancer"
    keys: ClassVar[tuple[str, ...]] = ("pixelResolution", "coordinateArrays")

    def read(self, node: Node) -> Geometry | None:
        """Return the axes; names and units come from ``axes`` and ``units`` where they are."""
        resolution = node.attributes.get("pixelResolution")
        labels = node.attributes.get("coordinateArrays")
        if resolution is None and not isinstance(labels, dict):
            return None
        ndim = len(node.shape)
        unit = resolution.get("unit") if isinstance(resolution, dict) else None
        steps = resolution.get("dimensions") if isinstance(resolution, dict) else resolution
        if steps is None:
            steps = node.attributes.get("resolution")
        scales = numbers("pixelResolution", steps, ndim) or (None,) * ndim
        given = texts("axes", node.attributes.get("axes"), ndim) or ("",) * ndim
        units = texts("units", node.attributes.get("units"), ndim) or (unit,) * ndim
        axes = tuple(
            Axis(
                name=name or None,
                kind=kind_of(name, one),
                unit=written_unit(one),
                scale=scale,
            )
            for name, one, scale in zip(given, units, scales, strict=True)
        )[::-1]
        return Geometry(_labelled(axes, labels, node.shape) if isinstance(labels, dict) else axes)

    def write(self, geometry: Geometry) -> dict[str, Any]:
        """Return the attributes; Neuroglancer knows one unit here and no offset."""
        axes = geometry.axes[::-1]
        units = {axis.unit for axis in axes if axis.scale is not None}
        if len(units) > 1:
            raise ValueError(
                f"pixelResolution has one unit for all axes, not {sorted(map(str, units))}"
            )
        attributes: dict[str, Any] = {}
        if units:
            steps = [whole_number(1.0 if axis.scale is None else axis.scale) for axis in axes]
            attributes["pixelResolution"] = {"dimensions": steps}
            if unit := next(iter(units)):
                attributes["pixelResolution"]["unit"] = unit
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
                axis, name=name, labels=tuple(map(str, found)), unit=None, scale=None
            )
        result.append(axis)
    return tuple(result)
