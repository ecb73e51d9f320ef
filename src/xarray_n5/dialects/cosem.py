"""``transform`` on the array, as COSEM (OpenOrganelle, CellMap) writes it.

Lists stand in C order unless ``ordering`` (Java) or ``order`` (Python) says "F"; all four turn
together. ``translate`` is where the centre of voxel 0 lies. Source: janelia-cellmap/schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.axes import Axis, Geometry, kind_of, names, written_unit
from xarray_n5.dialects.values import whole_number

if TYPE_CHECKING:
    from xarray_n5.dialects import Node


@dataclass(frozen=True, slots=True)
class Cosem:
    """Axes, units, scale and translation of one array; final numbers."""

    name: ClassVar[str] = "cosem"
    keys: ClassVar[tuple[str, ...]] = ("transform",)

    def read(self, node: Node) -> Geometry | None:
        """Return the axes that ``transform`` describes."""
        match node.attributes.get("transform"):
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
        geometry = Geometry(
            tuple(
                Axis(
                    name=str(name) or None,
                    kind=kind_of(str(name), written_unit(unit)),
                    unit=written_unit(unit),
                    scale=float(step),
                    offset=float(start),
                )
                for name, unit, step, start in zip(axes, units, scale, offset, strict=True)
            )
        )
        fortran = "F" in (rest.get("ordering"), rest.get("order"))
        return geometry.transpose() if fortran else geometry

    def write(self, geometry: Geometry) -> dict[str, Any]:
        """Return the attribute, in C order and saying so."""
        return {
            "transform": {
                "order": "C",
                "axes": list(names(geometry.axes)),
                "units": [axis.unit or "" for axis in geometry.axes],
                "scale": [
                    whole_number(1.0 if axis.scale is None else axis.scale)
                    for axis in geometry.axes
                ],
                "translate": [whole_number(axis.offset) for axis in geometry.axes],
            }
        }


def _list(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None
