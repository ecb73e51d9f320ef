"""``transform`` on the array, or for it in its group's ``multiscales``, as COSEM writes it.

Lists stand in C order unless ``ordering`` (Java) or ``order`` (Python) says "F"; all four turn
together. ``translate`` is where the centre of voxel 0 lies. Source: janelia-cellmap/schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.alerts import warn
from xarray_n5.axes import Geometry, names
from xarray_n5.dialects.levels import axis, factors_in, listings, over, steps
from xarray_n5.dialects.values import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects import Node


@dataclass(frozen=True, slots=True)
class Cosem:
    """Axes, units, scale and translation of one array; final numbers."""

    name: ClassVar[str] = "cosem"
    keys: ClassVar[tuple[str, ...]] = ("transform",)

    def read(self, node: Node) -> Geometry | None:
        """Return the axes that ``transform`` describes."""
        listed, first = next(((entry, base) for _, entry, base in listings(node)), ({}, {}))
        own, base = node.attributes.get("transform"), first.get("transform")
        key = "transform"
        if own is None:
            own, key = listed.get("transform"), "multiscales of the group"
        if base is None and node.base is not None:
            base = node.base.attributes.get("transform")
        found = _parse(own, node, key)
        return None if found is None else over(_warned(found, own, node), _parse(base, node, key))

    def write(self, geometry: Geometry, node: Node) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute in C order, saying so, and the level's own ``pixelResolution``."""
        axes = geometry.axes
        transform = {
            "order": "C",
            "axes": list(names(axes)),
            "units": [each.unit or "" for each in axes],
            "scale": [whole_number(each.step) for each in axes],
            "translate": [whole_number(each.offset) for each in axes],
        }
        units = {each.unit for each in axes}
        if len(units) > 1 or None in units or any(each.step < 0 for each in axes):
            return {"transform": transform}
        steps = [whole_number(each.step) for each in axes[::-1]]
        resolution = {"dimensions": steps, "unit": axes[0].unit}
        return {"transform": transform, "pixelResolution": resolution}

    def write_group(self, levels: Sequence[tuple[Node, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: each level's ``transform`` once more.

        Beside them stand the base level's axes, units and resolution, in N5 order.
        """
        base = levels[0][1]
        own = [self.write(geometry, node) for node, geometry in levels]
        entries = [
            {"path": node.path.rpartition("/")[2], "transform": each["transform"]}
            for (node, _), each in zip(levels, own, strict=True)
        ]
        resolution = {"dimensions": steps(base), "unit": base.axes[-1].unit or ""}
        return {
            "axes": list(names(base.axes))[::-1],
            "units": [each.unit or "" for each in base.axes[::-1]],
            "scales": [factors_in(geometry) for _, geometry in levels],
            "multiscales": [{"name": None, "datasets": entries}],
        } | ({"pixelResolution": resolution} if "pixelResolution" in own[0] else {})


def _parse(transform: object, node: Node, key: str) -> Geometry | None:
    match transform:
        case {"scale": list(scale), "translate": list(offset), **rest}:
            ndim = len(scale)
        case _:
            return None
    axes: list[Any] = _list(rest.get("axes")) or [""] * ndim
    units: list[Any] = _list(rest.get("units")) or [None] * ndim
    if not len(axes) == len(units) == len(offset) == ndim == len(node.shape):
        raise ValueError(
            f"'transform' does not hold {len(node.shape)} axes, units, scales and translations"
        )
    said = ("names", "units", "scale", "offset")
    geometry = Geometry(
        tuple(
            axis(str(name), unit, float(step), float(start))
            for name, unit, step, start in zip(axes, units, scale, offset, strict=True)
        ),
        dict.fromkeys(said if any(axes) else said[1:], key),
    )
    fortran = "F" in (rest.get("ordering"), rest.get("order"))
    return geometry.transpose() if fortran else geometry


def _warned(geometry: Geometry, transform: Any, node: Node) -> Geometry:
    """Return a geometry, with a warning where its axes were likely meant the other way round."""
    if geometry.axes[0].name == "x" != geometry.axes[-1].name and not (
        {"ordering", "order"} & transform.keys()
    ):
        warn(
            f"{node.path or '/'}: 'transform' lists the axes {transform['axes']} and not their "
            "order, which makes it C order: the array's first axis in numpy is x"
        )
    return geometry


def _list(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None
