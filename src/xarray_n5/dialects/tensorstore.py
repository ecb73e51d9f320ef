"""``axes``, ``units`` and ``resolution`` on the array, as TensorStore's n5 driver writes them.

Lists are in N5 order. Source: TensorStore's n5 driver page, "Metadata" and "Dimension units".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects.protocol import is_of_funlib
from xarray_n5.dialects.pyramids import axes_at_level, base_and_factors
from xarray_n5.dialects.values import numbers, texts, whole_number
from xarray_n5.model.axes import Geometry
from xarray_n5.model.units import written_unit

if TYPE_CHECKING:
    from xarray_n5.dialects.protocol import ArrayContext


@dataclass(frozen=True, slots=True)
class TensorStore:
    """The labels, units and resolution of each array; sample 0 is at 0."""

    name: ClassVar[str] = "tensorstore"
    keys: ClassVar[tuple[str, ...]] = ("axes", "units", "resolution")
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, or None if they have neither names nor units.

        If the group lists factors of its levels, the resolution is that of the base level.
        """
        ndim = len(node.shape)
        found = {key: node.attributes.get(key) for key in self.keys}
        if found["axes"] is found["units"] is None:
            return None  # only a resolution: Paintera
        if found["axes"] is found["resolution"] is None and is_of_funlib(node.attributes):
            return None
        names = texts("axes", found["axes"], ndim, exact=True) or ("",) * ndim
        # With named axes, short lists are for the first ones, which are spatial.
        exact = found["axes"] is None
        units = texts("units", found["units"], ndim, exact=exact)
        scales = numbers("resolution", found["resolution"], ndim, exact=exact)
        if len({name for name in names if name}) != sum(map(bool, names)):
            raise ValueError(f"'axes' is {list(names)}; expected unique names")
        said = {"names": "axes"} if any(names) else {}
        around = (node.attributes, *node.parents[:1])
        elsewhere = any({"resolution", "pixelResolution"} & each.keys() for each in around)
        if scales is None and units and any(map(written_unit, units)) and not elsewhere:
            scales = (1.0,) * ndim
            said |= {"scale": "units"}
        elif scales is not None:
            said |= {"scale": "resolution"}
        if scales is None and not any(names):
            return None
        said |= {"units": "units"} if units is not None else {}
        factors = None
        if scales is not None:
            scales, factors = base_and_factors(node, "resolution", scales, own=False)
        if factors:
            said["scale"] += ", factors of the group"
        axes = axes_at_level(names, units or (None,) * ndim, scales or (None,) * ndim, factors)
        return Geometry(axes, said)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attributes, which do not include offsets."""
        axes = geometry.axes[::-1]
        attributes: dict[str, Any] = {}
        if geometry.named:
            attributes["axes"] = [axis.name or "" for axis in axes]
        if any(axis.step < 0 for axis in axes):
            # A resolution is positive. Without units, Neuroglancer assumes nanometres.
            return attributes | {"units": [""] * len(axes)}
        if any(axis.unit is not None or axis.scale is not None for axis in axes):
            # All or none: "" means dimensionless, and some readers ignore a scale without units.
            attributes["units"] = [axis.unit or "" for axis in axes]
            attributes["resolution"] = [whole_number(axis.step) for axis in axes]
        return attributes
