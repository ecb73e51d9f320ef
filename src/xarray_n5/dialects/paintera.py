"""``resolution`` and ``offset`` without units, as Paintera, BigDataViewer and daisy write them.

Lists stand in N5 order in N5, in C order elsewhere; on the array or on the group of a pyramid,
where they are the base level's. Source: Paintera's and n5-universe's generic metadata;
BigDataViewer's timepoint groups; gunpowder's and daisy's arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.axes import Geometry
from xarray_n5.dialects.levels import (
    axes_at_level,
    base_and_factors,
    check_level,
    factors_if_any,
    steps,
)
from xarray_n5.dialects.values import numbers, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        keys = ("resolution", "offset", "unit")
        around = {key: group[key] for key in keys if key in group}
        placed = {"resolution", "offset"} & own.keys()
        if not placed and not {"resolution", "offset"} & around.keys():
            return None

        def at(key: str) -> str:
            return key if key in own else f"{key} of the group"

        found = {**around, **{key: own[key] for key in keys if key in own}}
        ndim = len(node.shape)
        scales = numbers("resolution", found.get("resolution"), ndim) or (1.0,) * ndim
        starts = numbers("offset", found.get("offset"), ndim, positive=False, filler=0.0)
        unit = found["unit"] if isinstance(found.get("unit"), str) else None
        scales, factors = base_and_factors(node, "resolution", scales)
        if not placed and not check_level(node, factors):
            return None
        said = {"scale": at("resolution")} | ({"units": at("unit")} if unit else {})
        if factors is not None:
            said["scale"] += ", downsamplingFactors"
        if starts is not None:
            said["offset"] = at("offset")
        if starts is not None and factors is not None and "offset" in own:
            # An array's own offset is where it lies, whatever its level.
            shifts = [step * (factor - 1) / 2 for step, factor in zip(scales, factors, strict=True)]
            starts = tuple(start - shift for start, shift in zip(starts, shifts, strict=True))
        axes = axes_at_level(("",) * ndim, (unit,) * ndim, scales, factors, starts)
        geometry = Geometry(axes, said)
        return geometry if node.format == "n5" else geometry.transpose()

    def write(self, geometry: Geometry, node: Node) -> dict[str, Any]:
        """Return the attributes of a single array; axes have no names there."""
        ordered = geometry if node.format == "n5" else geometry.transpose()
        return _unit(geometry) | {
            "resolution": steps(ordered),
            "offset": [whole_number(axis.offset) for axis in ordered.axes[::-1]],
            **factors_if_any(ordered),
        }

    def write_group(self, levels: Sequence[tuple[Node, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: resolution and offset of its base level."""
        node, base = levels[0]
        ordered = base if node.format == "n5" else base.transpose()
        offsets = [whole_number(axis.base[1]) for axis in ordered.axes[::-1]]
        attributes = {"multiScale": True, "resolution": steps(ordered), "offset": offsets}
        return attributes | _unit(base)


def _unit(geometry: Geometry) -> dict[str, Any]:
    units = {axis.unit for axis in geometry.axes if axis.unit is not None}
    if len(units) > 1:
        raise ValueError(f"'unit' is one for all axes, not {sorted(units)}")
    return {"unit": units.pop()} if units else {}
