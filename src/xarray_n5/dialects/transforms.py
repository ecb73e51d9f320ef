"""Transforms of arrays: COSEM's ``transform``, and n5-universe's ``spatialTransform``.

They are on the array, or for it in its group's ``multiscales``. COSEM's lists are in C order
unless ``ordering`` (Java) or ``order`` (Python) is "F"; ``translate`` is the centre of voxel 0.
Canonical lists are in N5 order; if only some axes are spatial, the transform may be for those.
Sources: janelia-cellmap/schemas; CanonicalSpatialMetadata and its adapter in n5-universe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from xarray_n5.dialects import lists
from xarray_n5.dialects.axis_lists import Neuroglancer, in_si_units
from xarray_n5.dialects.groups import stated
from xarray_n5.dialects.lists import FACTS, geometry_of_lists, numbers, texts, whole_number
from xarray_n5.model.axes import Axis, Geometry, axis_kind, centre_shift, names
from xarray_n5.model.units import same_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.lists import Kind
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
        geometry = _read_cosem(transform, node, where)
        base = geometry if of_base is transform else _read_cosem(of_base, node, where)
        if geometry is None:
            return None
        _warn_of_order(geometry, transform, node)
        return lists.moved(lists.over(_at_level(geometry, base, node), base), node)

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
            around["pixelResolution"] = {"dimensions": lists.steps(base), "unit": base.axes[0].unit}
            around = in_si_units(around)
        else:
            around |= Neuroglancer().write(_bare(base), node)
        return around | {"scales": [lists.factors_in(geometry) for _, geometry in levels]} | images


def _is_alike(geometry: Geometry) -> bool:
    """Return whether ``pixelResolution`` can represent the scales: positive, and in one unit."""
    units = [axis.unit for axis in geometry.axes]
    return None not in units and same_unit(*units) and all(e.step > 0 for e in geometry.axes)


def _bare(geometry: Geometry) -> Geometry:
    """Return the axes as in ``transform``: with a name and a scale each, without labels."""
    named = geometry.with_names().axes
    return Geometry(tuple(Axis(name=a.name, unit=a.unit, scale=a.step) for a in named))


def _read_cosem(transform: object, node: ArrayContext, key: str) -> Geometry | None:
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
    axes = [lists.axis(*fact) for fact in facts]
    geometry = geometry_of_lists(axes, dict.fromkeys(FACTS, key))
    return geometry.transpose() if orders == {"F"} else geometry


def _at_level(geometry: Geometry, base: Geometry | None, node: ArrayContext) -> Geometry:
    """Apply the group's factors where a level repeats the base level's scale, as in BossDB."""
    factors = lists.factors_of(node, of_array=False)
    if base is None or factors is None or all(factor == 1 for factor in factors):
        return geometry
    pairs = list(zip(geometry.axes, base.axes, strict=True))
    if not all(axis.step == of_base.step for axis, of_base in pairs):
        return geometry
    ordered = lists.by_axis(geometry, node.parents[0] if node.parents else {}, factors)
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


_CANONICAL = "spatialTransform"


@dataclass(frozen=True, slots=True)
class Canonical:
    """An affine transform with a unit, and axes with types."""

    name: ClassVar[str] = "canonical"
    keys: ClassVar[tuple[str, ...]] = (_CANONICAL,)
    group_keys = ("multiscales", "ome")

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, and a matrix if the transform is not per axis."""
        value, where, base = stated(node, _CANONICAL)
        if value is None:
            return None
        geometry = _read_canonical(value, node, where)
        of_base = None if base is None else _read_canonical(base, node, _CANONICAL)
        return lists.over(geometry, of_base)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute, with an affine transform over all axes."""
        axes = geometry.with_names().axes[::-1]
        diagonal = np.diag([axis.step for axis in axes])
        rows = np.column_stack([diagonal, [axis.offset for axis in axes]])
        if geometry.affine is not None:
            rows = np.array(lists.in_c_order(np.array(geometry.affine)))
        transform = {"type": "affine", "affine": [*map(whole_number, rows.ravel().tolist())]}
        described = [
            {"type": axis_kind(axis) or "data", "name": axis.name, "unit": axis.unit or "none"}
            for axis in axes
        ]
        units = [axis["unit"] for axis in described if axis["type"] == "space"]
        shared = units and written_unit(units[0]) is not None and same_unit(*units)
        unit = {"unit": units[0]} if shared else {}
        return {_CANONICAL: {"transform": transform, "axes": described, "path": "", **unit}}

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: each level's transform once more."""
        datasets = [
            {"path": node.listed_path, **self.write(geometry, node)} for node, geometry in levels
        ]
        return {"multiscales": {"path": "", "datasets": datasets}}


def _read_canonical(value: Any, node: ArrayContext, where: str) -> Geometry:
    ndim = len(node.shape)
    common = written_unit(value.get("unit"))
    listed = value.get("axes") or [{}] * ndim
    if len(listed) != ndim:
        raise ValueError(f"{where!r} has {len(listed)} axes, the array {ndim}")
    names = [member.get("name", member.get("label")) for member in listed]
    kinds = [member.get("type") for member in listed]
    rows = _rows(value["transform"], kinds)
    stated_units = [written_unit(member.get("unit")) for member in listed]
    units = [
        common if common and kind in {None, "space"} else unit
        for unit, kind in zip(stated_units, kinds, strict=True)
    ]
    pairs = zip(stated_units, units, strict=True)
    if any(unit and not same_unit(unit, used) for unit, used in pairs):
        node.warn(
            f"{where!r} has the unit {common!r}, its axes {stated_units}; using that of the "
            "transform"
        )
    split = lists.per_axis(rows)
    axes = lists.axes_in_order(names, kinds, units, split)
    affine = None if split else lists.as_tuples(rows)
    geometry = geometry_of_lists(axes, dict.fromkeys(FACTS, where), affine)
    return geometry if node.attribute_order == "C" else geometry.transpose()


def _rows(transform: Any, kinds: list[str | None]) -> np.ndarray:
    """Return a transform, of all axes or of the spatial ones, as a matrix over all axes."""
    ndim = len(kinds)
    spatial = [number for number, kind in enumerate(kinds) if kind == "space"]
    try:
        return lists.matrix(transform, ndim)
    except ValueError:
        if len(spatial) in {0, ndim}:
            raise
    rows = np.eye(ndim, ndim + 1)
    rows[np.ix_(spatial, [*spatial, ndim])] = lists.matrix(transform, len(spatial))
    return rows
