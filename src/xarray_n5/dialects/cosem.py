"""``transform`` on the array, or for it in its group's ``multiscales``, as COSEM writes it.

Lists are in C order unless ``ordering`` (Java) or ``order`` (Python) is "F". ``translate`` is the
centre of voxel 0. Source: janelia-cellmap/schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects.levels import stated
from xarray_n5.dialects.lists import (
    Kind,
    axis,
    by_axis,
    factors_in,
    factors_of,
    moved,
    numbers,
    over,
    steps,
    texts,
    whole_number,
)
from xarray_n5.dialects.neuroglancer import Neuroglancer, in_si_units
from xarray_n5.model.axes import Axis, Geometry, centre_shift, names
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext

_ORDERS = ("ordering", "order")
"""The keys for the order of the lists, in Java and in Python."""


@dataclass(frozen=True, slots=True)
class Cosem:
    """The axes, units, scale and translation of each array."""

    name: ClassVar[str] = "cosem"
    keys: ClassVar[tuple[str, ...]] = ("transform",)
    group_keys = ("axes", "units", "pixelResolution", "scales", "multiscales", "ome")
    level_lists = ("scales", "multiscales")
    list_order: ClassVar[Literal["N5"]] = "N5"
    transform_only: bool = False
    """Whether nothing else is written; in Zarr, on the levels only."""

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes that ``transform`` describes."""
        transform, where, of_base = stated(node, "transform")
        geometry = _parse(transform, node, where)
        base = geometry if of_base is transform else _parse(of_base, node, where)
        if geometry is None:
            return None
        _warn_of_order(geometry, transform, node)
        return moved(over(_at_level(geometry, base, node), base), node)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return ``transform`` in C order, and the level's own ``pixelResolution``.

        The latter is for Neuroglancer, which does not read ``transform``. It has one positive unit;
        for axes with several units or a negative step, TensorStore's attributes are written.
        """
        axes = geometry.axes
        transform = {
            "order": "C",
            "axes": list(names(axes)),
            "units": [axis.unit or "" for axis in axes],
            "scale": [whole_number(axis.step) for axis in axes],
            "translate": [whole_number(axis.offset) for axis in axes],
        }
        written = {"transform": transform}
        if self.transform_only:
            return written
        if _is_alike(geometry):
            sizes = [whole_number(axis.step) for axis in axes[::-1]]
            resolution = {"dimensions": sizes, "unit": axes[0].unit}
            return written | in_si_units({"pixelResolution": resolution})
        if not node.lists_x_first:
            return written
        return written | Neuroglancer().write(_bare(geometry), node)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: the ``transform`` of each level.

        The base level's axes, units and resolution are added, in N5 order.
        """
        node, base = levels[0]
        entries = [
            {"path": node.listed_path, "transform": self.write(geometry, node)["transform"]}
            for node, geometry in levels
        ]
        images = {"multiscales": [{"name": None, "datasets": entries}]}
        if self.transform_only:
            return images if node.lists_x_first else {}
        around: dict[str, Any] = {
            "axes": list(names(base.axes))[::-1],
            "units": [axis.unit or "" for axis in base.axes[::-1]],
        }
        if _is_alike(base):
            around["pixelResolution"] = {"dimensions": steps(base), "unit": base.axes[0].unit}
            around = in_si_units(around)
        else:
            around |= Neuroglancer().write(_bare(base), node)
        return around | {"scales": [factors_in(geometry) for _, geometry in levels]} | images


def _is_alike(geometry: Geometry) -> bool:
    """Return whether ``pixelResolution`` can represent the scales: positive, and in one unit."""
    units = [axis.unit for axis in geometry.axes]
    return None not in units and same_unit(*units) and all(e.step > 0 for e in geometry.axes)


def _bare(geometry: Geometry) -> Geometry:
    """Return the axes as in ``transform``: with a name and a scale each, without labels."""
    axes = zip(names(geometry.axes), geometry.axes, strict=True)
    return Geometry(tuple(Axis(name=name, unit=each.unit, scale=each.step) for name, each in axes))


def _parse(transform: object, node: ArrayContext, key: str) -> Geometry | None:
    if not isinstance(transform, dict) or transform.get("scale") is None:
        return None
    ndim = len(node.shape)
    names = texts("transform.axes", transform.get("axes"), ndim, exact=True) or ("",) * ndim
    units = transform.get("units")
    if isinstance(units, list):  # ignore numbers
        units = [unit if isinstance(unit, str) else None for unit in units]
    units = texts("transform.units", units, ndim, exact=True) or (None,) * ndim
    known: dict[str, Kind] = {"scale": "non-zero", "translate": "finite"}
    scales, starts = (
        numbers(f"transform.{k}", transform.get(k), ndim, kind=kind, exact=True, node=node)
        for k, kind in known.items()
    )
    given = filter(None, map(transform.get, _ORDERS))  # n5-universe writes null
    orders = {str(order).upper() for order in given}
    if not orders and node.attribute_order == "N5":
        orders = {"F"}
    if orders - {"C", "F"} or len(orders) > 1:
        raise ValueError(f"'transform' has the orders {sorted(orders)}; expected C or F")
    facts = zip(names, units, scales or (), starts or (0.0,) * ndim, strict=True)
    axes = [axis(*fact) for fact in facts]
    said = {"scale": key, "offset": key} | ({"names": key} if any(names) else {})
    geometry = Geometry(tuple(axes), said | ({"units": key} if any(units) else {}))
    return geometry.transpose() if orders == {"F"} else geometry


def _at_level(geometry: Geometry, base: Geometry | None, node: ArrayContext) -> Geometry:
    """Apply the group's factors where a level repeats the base level's scale, as in BossDB."""
    factors = factors_of(node, own=False)
    if base is None or factors is None or all(factor == 1 for factor in factors):
        return geometry
    pairs = list(zip(geometry.axes, base.axes, strict=True))
    if not all(axis.step == of_base.step for axis, of_base in pairs):
        return geometry
    ordered = by_axis(geometry, node.parents[0] if node.parents else {}, factors)
    node.warn(
        f"'transform' has the scale of the base level, but the group lists {list(factors)} as the "
        "factors of this level; using the factors"
    )
    axes = []
    for (listed, of_base), factor in zip(pairs, ordered, strict=True):
        coarser = replace(listed, scale=listed.step * factor)
        if listed.offset == of_base.offset:
            coarser = replace(coarser, offset=listed.offset + centre_shift(listed.step, factor))
        axes.append(listed if listed.scale is None else coarser)
    return replace(geometry, axes=tuple(axes))


def _warn_of_order(geometry: Geometry, transform: Any, node: ArrayContext) -> None:
    """Warn if axes were probably meant in reverse order."""
    unknown = node.attribute_order == "auto" and not any(map(transform.get, _ORDERS))
    if geometry.axes[0].name == "x" != geometry.axes[-1].name and unknown:
        node.warn(
            f"'transform' lists the axes {transform['axes']} without their order; using C order: "
            "the array's first axis in NumPy is x"
        )
