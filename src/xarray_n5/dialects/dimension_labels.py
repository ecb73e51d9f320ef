"""``DIMENSION_LABELS``: names only, of HDF5's dimension scales, ilastik and netCDF.

The list is in C order. Source: the HDF5 dimension scale specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.model.axes import Axis, Geometry

if TYPE_CHECKING:
    from xarray_n5.dialects.protocol import ArrayContext


@dataclass(frozen=True, slots=True)
class DimensionLabels:
    """The names of some or all axes."""

    name: ClassVar[str] = "dimension_labels"
    keys: ClassVar[tuple[str, ...]] = ("DIMENSION_LABELS",)
    list_order: ClassVar[Literal["C"]] = "C"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return axes with names only."""
        found = node.attributes.get("DIMENSION_LABELS")
        if found is None:
            return None
        given = [name for name in found if name] if isinstance(found, list) else []
        proper = all(isinstance(name, str) for name in given) and len(set(given)) == len(given)
        if not proper or len(found) != len(node.shape):
            raise ValueError(
                f"'DIMENSION_LABELS' is {found!r}; expected {len(node.shape)} unique names"
            )
        axes = tuple(Axis(name=name or None) for name in found)
        return Geometry(axes, {"names": "DIMENSION_LABELS"} if given else {})

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute."""
        if all(axis.name is None for axis in geometry.axes):
            return {}
        return {"DIMENSION_LABELS": [axis.name or "" for axis in geometry.axes]}
