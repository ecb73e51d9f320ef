"""``_ARRAY_DIMENSIONS``: names only, as xarray writes them through zarr-python.

The list is in C order, also in N5, where ``dimensions`` are reversed.
Source: xarray's Zarr encoding specification.
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
    """The names of the axes."""

    name: ClassVar[str] = "array_dimensions"
    keys: ClassVar[tuple[str, ...]] = ("_ARRAY_DIMENSIONS",)
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

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attribute."""
        return {"_ARRAY_DIMENSIONS": list(names(geometry.axes))}


def _fits(found: Sequence[str], node: ArrayContext) -> bool:
    sizes = zip(found, node.shape, strict=True)
    return all(node.beside.get(name, size) == size for name, size in sizes)
