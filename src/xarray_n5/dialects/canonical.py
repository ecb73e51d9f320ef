"""``spatialTransform`` on the array, or in its group's ``multiscales``: n5-universe's canonical.

Lists are in N5 order. If only some axes are spatial, the transform may be for those. Source:
CanonicalSpatialMetadata and its adapter in n5-universe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.dialects.levels import listings
from xarray_n5.dialects.lists import axis, in_c_order, matrix, over, per_axis, whole_number
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Geometry, axis_kind
from xarray_n5.model.units import same_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.axes import Axis

_KEY = "spatialTransform"


@dataclass(frozen=True, slots=True)
class Canonical:
    """An affine transform with a unit, and axes with types."""

    name: ClassVar[str] = "canonical"
    keys: ClassVar[tuple[str, ...]] = (_KEY,)
    group_keys = ("multiscales", "ome")

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, and a matrix if the transform is not per axis."""
        own = node.attributes.get(_KEY)
        entries = ((e, base) for _, e, base in listings(node) if {_KEY} & {*e, *base})
        listed = next(entries, ({}, {}))
        said = own if own is not None else listed[0].get(_KEY)
        if said is None:
            return None
        found = _parse(said, node, _KEY if own is not None else "multiscales of the group")
        under = listed[1].get(_KEY)
        if under is None and node.base is not None:
            under = node.base.attributes.get(_KEY)
        return found if under is None else over(found, _parse(under, node, _KEY))

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute, with an affine transform over all axes."""
        axes = geometry.with_names().axes[::-1]
        if geometry.affine is not None:
            rows = [list(row) for row in in_c_order(np.array(geometry.affine))]
        else:
            rows = [
                [each.step if number == other else 0.0 for other in range(len(axes))]
                + [each.offset]
                for number, each in enumerate(axes)
            ]
        numbers = [whole_number(number) for row in rows for number in row]
        described = [
            {"type": axis_kind(each) or "data"} | {"name": each.name, "unit": each.unit or "none"}
            for each in axes
        ]
        units = [one["unit"] for one in described if one["type"] == "space"]
        shared = units and written_unit(units[0]) is not None and same_unit(*units)
        unit = {"unit": units[0]} if shared else {}
        whole = {"transform": {"type": "affine", "affine": numbers}, "axes": described, "path": ""}
        return {_KEY: whole | unit}

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: each level's transform once more."""
        datasets = [
            {"path": node.listed_path, **self.write(geometry, node)} for node, geometry in levels
        ]
        return {"multiscales": {"path": "", "datasets": datasets}}


def _parse(said: Any, node: ArrayContext, key: str) -> Geometry:
    ndim = len(node.shape)
    common = written_unit(said.get("unit"))
    listed = said.get("axes") or [{}] * ndim
    if len(listed) != ndim:
        raise ValueError(f"{key!r} has {len(listed)} axes, the array {ndim}")
    units = [written_unit(member.get("unit")) for member in listed]
    names = [member.get("name", member.get("label")) for member in listed]
    kinds = [member.get("type") for member in listed]
    rows = _rows(said["transform"], kinds)
    spatial = [kind in {None, "space"} for kind in kinds]
    if any(
        one and common and spaced and not same_unit(one, common)
        for one, spaced in zip(units, spatial, strict=True)
    ):
        warn(
            f"{node.path or '/'}: {key!r} has the unit {common!r}, its axes {units}; using that "
            "of the transform"
        )
    units = [common if s and common else one for one, s in zip(units, spatial, strict=True)]
    sources = {"scale": key, "offset": key} | ({"names": key} if any(names) else {})
    sources |= {"units": key} if any(units) else {}
    split = per_axis(rows)
    scales, offsets = split if split is not None else ([None] * ndim, [0.0] * ndim)
    axes: list[Axis] = [
        axis(name, unit, scale, offset, kind=kind)
        for name, unit, scale, offset, kind in zip(
            names, units, scales, offsets, kinds, strict=True
        )
    ]
    if split is None:
        geometry = replace(Geometry(tuple(axes[::-1]), sources), affine=in_c_order(rows))
    else:
        geometry = Geometry(tuple(axes[::-1]), sources)
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
