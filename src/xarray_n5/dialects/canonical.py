"""``spatialTransform`` on the array, or in its group's ``multiscales``: n5-universe's canonical.

Lists are in N5 order. If only some axes are spatial, the transform may be for those. Source:
CanonicalSpatialMetadata and its adapter in n5-universe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.dialects.levels import stated
from xarray_n5.dialects.lists import axis, in_c_order, matrix, over, per_axis, whole_number
from xarray_n5.model.axes import Geometry, axis_kind
from xarray_n5.model.units import same_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext

_KEY = "spatialTransform"


@dataclass(frozen=True, slots=True)
class Canonical:
    """An affine transform with a unit, and axes with types."""

    name: ClassVar[str] = "canonical"
    keys: ClassVar[tuple[str, ...]] = (_KEY,)
    group_keys = ("multiscales", "ome")

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, and a matrix if the transform is not per axis."""
        value, where, base = stated(node, _KEY)
        if value is None:
            return None
        geometry = _parse(value, node, where)
        return geometry if base is None else over(geometry, _parse(base, node, _KEY))

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute, with an affine transform over all axes."""
        axes = geometry.with_names().axes[::-1]
        diagonal = np.diag([axis.step for axis in axes])
        rows = np.column_stack([diagonal, [axis.offset for axis in axes]])
        if geometry.affine is not None:
            rows = np.array(in_c_order(np.array(geometry.affine)))
        transform = {"type": "affine", "affine": [*map(whole_number, rows.ravel().tolist())]}
        described = [
            {"type": axis_kind(axis) or "data", "name": axis.name, "unit": axis.unit or "none"}
            for axis in axes
        ]
        units = [axis["unit"] for axis in described if axis["type"] == "space"]
        shared = units and written_unit(units[0]) is not None and same_unit(*units)
        unit = {"unit": units[0]} if shared else {}
        return {_KEY: {"transform": transform, "axes": described, "path": "", **unit}}

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: each level's transform once more."""
        datasets = [
            {"path": node.listed_path, **self.write(geometry, node)} for node, geometry in levels
        ]
        return {"multiscales": {"path": "", "datasets": datasets}}


def _parse(value: Any, node: ArrayContext, where: str) -> Geometry:
    ndim = len(node.shape)
    common = written_unit(value.get("unit"))
    listed = value.get("axes") or [{}] * ndim
    if len(listed) != ndim:
        raise ValueError(f"{where!r} has {len(listed)} axes, the array {ndim}")
    names = [member.get("name", member.get("label")) for member in listed]
    kinds = [member.get("type") for member in listed]
    rows = _rows(value["transform"], kinds)
    own = [written_unit(member.get("unit")) for member in listed]
    units = [
        common if common and kind in {None, "space"} else unit
        for unit, kind in zip(own, kinds, strict=True)
    ]
    if any(unit and not same_unit(unit, used) for unit, used in zip(own, units, strict=True)):
        node.warn(f"{where!r} has the unit {common!r}, its axes {own}; using that of the transform")
    sources = {"scale": where, "offset": where} | ({"names": where} if any(names) else {})
    sources |= {"units": where} if any(units) else {}
    split = per_axis(rows)
    scales: Sequence[float | None] = [None] * ndim if split is None else split[0]
    offsets = [0.0] * ndim if split is None else split[1]
    facts = zip(names, units, scales, offsets, kinds, strict=True)
    axes = tuple(axis(n, u, s, o, kind=kind) for n, u, s, o, kind in facts)[::-1]
    geometry = Geometry(axes, sources, affine=None if split else in_c_order(rows))
    return geometry.transpose() if node.attribute_order == "C" else geometry


def _rows(transform: Any, kinds: list[str | None]) -> np.ndarray:
    """Return a transform, of all axes or of the spatial ones, as a matrix over all axes."""
    ndim = len(kinds)
    spatial = [number for number, kind in enumerate(kinds) if kind == "space"]
    try:
        return matrix(transform, ndim)
    except ValueError:
        if len(spatial) in {0, ndim}:
            raise
    rows = np.eye(ndim, ndim + 1)
    rows[np.ix_(spatial, [*spatial, ndim])] = matrix(transform, len(spatial))
    return rows
