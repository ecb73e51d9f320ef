"""Lists with the names of axes only, in C order: of xarray, and of HDF5.

``_ARRAY_DIMENSIONS`` is in C order also in N5, where ``dimensions`` are reversed. Sources: xarray's
Zarr encoding specification; the HDF5 dimension scale specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.model.axes import Axis, Geometry, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext


@dataclass(frozen=True, slots=True)
class ArrayDimensions:
    """``_ARRAY_DIMENSIONS``: the names of all axes, as xarray writes them through zarr-python."""

    name: ClassVar[str] = "array_dimensions"
    keys: ClassVar[tuple[str, ...]] = ("_ARRAY_DIMENSIONS",)
    group_keys = ()
    list_order: ClassVar[Literal["C"]] = "C"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return axes with names only.

        Some writers list them in the order of ``dimensions``: the list is reversed if the sizes of
        arrays in the same group that are named like the axes fit only then.
        """
        found = node.attributes.get("_ARRAY_DIMENSIONS")
        if found is None or (found == [] and node.shape == (1,)):
            return None  # in N5, a scalar has one axis
        proper = isinstance(found, list) and all(isinstance(name, str) for name in found)
        if not proper or len(found) != len(node.shape) or len(set(found)) != len(found):
            raise ValueError(
                f"'_ARRAY_DIMENSIONS' is {found!r}; expected {len(node.shape)} unique names"
            )
        unknown = node.attribute_order == "auto"
        if unknown and not _fits(found, node) and _fits(found[::-1], node):
            found = found[::-1]
        return Geometry(tuple(Axis(name=name) for name in found), {"names": "_ARRAY_DIMENSIONS"})

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute."""
        return {"_ARRAY_DIMENSIONS": list(names(geometry.axes))}


def _fits(found: Sequence[str], node: ArrayContext) -> bool:
    sizes = zip(found, node.shape, strict=True)
    return all(node.coordinate_sizes.get(name, size) == size for name, size in sizes)


@dataclass(frozen=True, slots=True)
class DimensionLabels:
    """``DIMENSION_LABELS``: the names of some or all axes, of HDF5, ilastik and netCDF."""

    name: ClassVar[str] = "dimension_labels"
    keys: ClassVar[tuple[str, ...]] = ("DIMENSION_LABELS",)
    group_keys = ()
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

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute."""
        if all(axis.name is None for axis in geometry.axes):
            return {}
        return {"DIMENSION_LABELS": [axis.name or "" for axis in geometry.axes]}
