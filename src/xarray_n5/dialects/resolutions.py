"""Resolutions of base levels, and factors of levels: n5-viewer's, Paintera's, BigDataViewer's.

n5-viewer and n5-spark write ``pixelResolution`` and ``downsamplingFactors`` on each level, in N5
order. Paintera, BigDataViewer and daisy write ``resolution`` and ``offset`` without units, in N5
order in N5, in C order elsewhere; on the array, or on the group of a pyramid. Sources:
saalfeldlab/n5-viewer, N5SingleScaleMetadata; Paintera's and n5-universe's generic metadata;
BigDataViewer's timepoint groups; gunpowder's and daisy's arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from xarray_n5.dialects import lists
from xarray_n5.dialects.lists import geometry_of_lists, numbers, texts, whole_number
from xarray_n5.dialects.protocol import is_of_funlib
from xarray_n5.model.axes import Geometry, centre_shift
from xarray_n5.model.units import ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.metadata import Attributes

_KEY = "pixelResolution"
_LAST = "affineTransform"


@dataclass(frozen=True, slots=True)
class N5Viewer:
    """The base level's resolution with one unit, and the level's factors."""

    name: ClassVar[str] = "n5_viewer"
    keys: ClassVar[tuple[str, ...]] = (_KEY, "downsamplingFactors", _LAST)
    group_keys = (_KEY, "downsamplingFactors", "scales")
    level_lists = ("downsamplingFactors", "scales")
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, with names and units from ``axes`` and ``units`` if they exist."""
        ndim, attributes = len(node.shape), node.attributes
        group = node.parents[0] if node.parents else {}
        listed = "downsamplingFactors" in group or "scales" in group
        source = group if _KEY not in attributes and listed else attributes
        steps, unit = lists.steps_and_unit(source.get(_KEY))
        scales, factors = _level(node, numbers(_KEY, steps, ndim, node=node))
        if scales is None and ("downsamplingFactors" not in attributes or factors is None):
            return None
        names: Sequence[str] = ("",) * ndim
        units: Sequence[str | None] = (None if scales is None else unit,) * ndim
        where = _KEY if source is attributes else f"{_KEY} of the group"
        facts = {"names": "axes", "units": where}
        if scales is not None:
            names = texts("axes", attributes.get("axes"), ndim) or names
            if stated := texts("units", attributes.get("units"), ndim):
                units, facts["units"] = stated, "units"
        by = [where] * (scales is not None) + ["downsamplingFactors"] * (factors is not None)
        if scales is None or _LAST not in attributes:
            # With factors only, coordinates are in voxels of the base level.
            axes = lists.axes_at_level(names, units, scales or (1.0,) * ndim, factors)
            geometry = geometry_of_lists(axes, {**facts, "scale": ", ".join(by)})
            return geometry if scales is None else lists.moved(geometry, node)
        last = lists.matrix({"type": "affine", "affine": attributes[_LAST]}, ndim)
        axes, affine = lists.axes_under(names, units, last @ np.diag([*scales, 1.0]), factors)
        facts |= {"scale": ", ".join([*by, _LAST]), "offset": _LAST}
        return lists.moved(geometry_of_lists(axes, facts, affine), node)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the base level's resolution with its one unit, and the level's factors."""
        return {_KEY: _resolution(geometry)} | lists.factors_if_any(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: the base's resolution, all factors."""
        return {
            _KEY: _resolution(levels[0][1]),
            "downsamplingFactors": [lists.factors_in(geometry) for _, geometry in levels],
        }


def _resolution(geometry: Geometry) -> dict[str, Any]:
    units = [axis.unit for axis in geometry.axes if axis.scale is not None]
    if not units or not same_unit(*units):
        raise ValueError(
            f"'pixelResolution' has one unit for all axes, got {sorted({*map(str, units)})}"
        )
    # Neuroglancer and napari-n5 reject a resolution without a unit.
    return {"dimensions": lists.steps(geometry), "unit": units[0] or ""}


def _level(
    node: ArrayContext, scales: tuple[float, ...] | None
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Return the base level's resolution, or None if it is unknown, and the level's factors."""
    if scales is None:
        return None, lists.factors_of(node)
    if {"transform", _KEY} <= node.attributes.keys() and (
        "downsamplingFactors" not in node.attributes
    ):
        return scales, None  # COSEM's: the level's own resolution
    scales, factors = lists.base_and_factors(node, _KEY, scales)
    if factors is not None or node.base is None:
        return scales, factors
    base = lists.resolution_in(node.base.attributes, _KEY, len(scales))
    if base is None:
        return scales, None
    if lists.alike(scales, base):
        return scales, _guess(node, node.base)
    # The level's own resolution: the factors follow from the base level's.
    return base, tuple(step / whole for step, whole in zip(scales, base, strict=True))


def _guess(node: ArrayContext, base: ArrayContext) -> tuple[float, ...]:
    """Return n5-viewer's default factors, 2**level, for a level without factors.

    An axis with the base level's size was not downsampled.
    """
    factor = 2.0 ** (node.level or 0)
    guessed = []
    for size, whole in zip(node.shape[::-1], base.shape[::-1], strict=True):
        fits = [
            candidate
            for candidate in (factor, 1.0)
            if math.ceil(whole / candidate) - size in {0, 1}
        ]
        if not fits:
            raise ValueError(
                f"the resolution is that of {base.path!r}, but {size} samples cover {whole}, and "
                "there are no 'downsamplingFactors'"
            )
        guessed.append(fits[0])
    return tuple(guessed)


_UNITS = ("unit", "resolution_unit", "offset_unit")
"""Keys of the one unit; the last two are CellMap's, on crops for training."""


@dataclass(frozen=True, slots=True)
class Paintera:
    """The base level's resolution and offset with one unit, and the level's factors.

    Next to ``axes`` or ``units``, these count only if the user has chosen this dialect.
    """

    name: ClassVar[str] = "paintera"
    keys: ClassVar[tuple[str, ...]] = ("resolution", "offset", *_UNITS, "downsamplingFactors")
    hidden_by = ("axes", "units")
    group_keys = ("resolution", "offset", *_UNITS)
    level_lists = ("multiScale",)
    list_order: ClassVar[Literal["format"]] = "format"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, or None if there is neither a resolution nor an offset."""
        attributes, placing = node.attributes, {"resolution", "offset"}
        if is_of_funlib(attributes) and "resolution" not in attributes:
            return None
        group = node.parents[0] if node.parents else {}
        placed = bool(placing & attributes.keys())
        of_base = {} if placed or placing & group.keys() else _of_base(node)
        keys = (*placing, *_UNITS)
        known = {k: a[k] for a in (group, of_base, attributes) for k in keys if k in a}
        if not placing & known.keys():
            return None

        def at(key: str) -> str:
            around = "base level" if of_base else "group"
            return key if key in attributes else f"{key} of the {around}"

        ndim = len(node.shape)
        scales = numbers("resolution", known.get("resolution"), ndim, node=node) or (1.0,) * ndim
        listed = known.get("offset")
        starts = numbers("offset", listed, ndim, kind="finite", filler=0.0, node=node)
        unit, starts = _unit_of(known, starts)
        scales, factors = lists.base_and_factors(node, "resolution", scales)
        if not placed and not lists.check_level(node, factors):
            return None
        scale = at("resolution") + (", downsamplingFactors" if factors else "")
        facts = {"scale": scale, "offset": None if starts is None else at("offset")}
        if unit:
            facts["units"] = at(next(key for key in _UNITS if unit == known.get(key)))
        if starts is not None and factors is not None and "offset" in attributes:
            # An array's own offset is final, also on a level.
            shifts = list(map(centre_shift, scales, factors))
            starts = tuple(start - shift for start, shift in zip(starts, shifts, strict=True))
        axes = lists.axes_at_level(("",) * ndim, (unit,) * ndim, scales, factors, starts)
        geometry = geometry_of_lists(axes, facts)
        return geometry if node.lists_x_first else geometry.transpose()

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attributes of a single array, without names of axes."""
        ordered = geometry if node.lists_x_first else geometry.transpose()
        return _unit(geometry) | {
            "resolution": lists.steps(ordered),
            "offset": [whole_number(axis.offset) for axis in ordered.axes[::-1]],
            **lists.factors_if_any(ordered),
        }

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: the base level's resolution and offset."""
        node, base = levels[0]
        ordered = base if node.lists_x_first else base.transpose()
        offsets = [whole_number(axis.base[1]) for axis in ordered.axes[::-1]]
        attributes = {"multiScale": True, "resolution": lists.steps(ordered), "offset": offsets}
        return attributes | _unit(base)


def _of_base(node: ArrayContext) -> Attributes:
    """Return the attributes of the base level, if they are of this dialect.

    BigStitcher-Spark's non-rigid fusion writes ``offset`` there, and no level repeats it.
    """
    base = {} if node.base is None else node.base.attributes
    others = {"axes", "units"} & base.keys() or (is_of_funlib(base) and "resolution" not in base)
    return {} if others else base


def _unit_of(
    known: Attributes, starts: tuple[float, ...] | None
) -> tuple[str | None, tuple[float, ...] | None]:
    """Return the unit, and the offsets converted to it from their own unit.

    Raises
    ------
    ValueError
        If they cannot be converted.
    """
    unit = next((known[key] for key in _UNITS if isinstance(known.get(key), str)), None)
    other = known.get("offset_unit")
    if starts is None or not isinstance(other, str) or same_unit(other, unit):
        return unit, starts
    times = ratio(other, unit)
    if times is None:
        raise ValueError(f"'offset_unit' is {other!r}, but the unit of the resolution is {unit!r}")
    return unit, tuple(start * times for start in starts)


def _unit(geometry: Geometry) -> dict[str, Any]:
    units = [axis.unit for axis in geometry.axes]
    if not same_unit(*units):
        shown = ", ".join(map(repr, units))
        raise ValueError(f"'unit' is one for all axes; expected equal units, got {shown}")
    return {} if units[0] is None else {"unit": units[0]}
