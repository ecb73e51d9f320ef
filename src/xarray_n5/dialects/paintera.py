"""``resolution`` and ``offset`` without units, as Paintera, BigDataViewer and daisy write them.

Lists are in N5 order in N5, in C order elsewhere; on the array or on the group of a pyramid,
where they describe the base level. Source: Paintera's and n5-universe's generic metadata;
BigDataViewer's timepoint groups; gunpowder's and daisy's arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects import lists
from xarray_n5.dialects.lists import numbers, whole_number
from xarray_n5.dialects.protocol import is_of_funlib
from xarray_n5.model.axes import Geometry, centre_shift
from xarray_n5.model.units import ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.metadata import Attributes

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
        group = node.parents[0] if node.parents else {}
        own = node.attributes
        if is_of_funlib(own) and "resolution" not in own:
            return None
        keys = ("resolution", "offset", "unit", "resolution_unit", "offset_unit")
        around = {key: group[key] for key in keys if key in group}
        placed = {"resolution", "offset"} & own.keys()
        of_base = {} if placed or around.keys() & {"resolution", "offset"} else _of_base(node)
        around |= {key: of_base[key] for key in keys if key in of_base}
        if not placed and not {"resolution", "offset"} & around.keys():
            return None

        def at(key: str) -> str:
            return key if key in own else f"{key} of the {'base level' if of_base else 'group'}"

        found = {**around, **{key: own[key] for key in keys if key in own}}
        ndim = len(node.shape)
        scales = numbers("resolution", found.get("resolution"), ndim, node=node) or (1.0,) * ndim
        listed = found.get("offset")
        starts = numbers("offset", listed, ndim, kind="finite", filler=0.0, node=node)
        unit, starts = _unit_of(found, starts)
        scales, factors = lists.base_and_factors(node, "resolution", scales)
        if not placed and not lists.check_level(node, factors):
            return None
        said = {"scale": at("resolution")}
        said |= {"units": at(next(key for key in _UNITS if unit == found.get(key)))} if unit else {}
        if factors is not None:
            said["scale"] += ", downsamplingFactors"
        if starts is not None:
            said["offset"] = at("offset")
        if starts is not None and factors is not None and "offset" in own:
            # An array's own offset is final, also on a level.
            shifts = list(map(centre_shift, scales, factors))
            starts = tuple(start - shift for start, shift in zip(starts, shifts, strict=True))
        axes = lists.axes_at_level(("",) * ndim, (unit,) * ndim, scales, factors, starts)
        geometry = Geometry(axes, said)
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
    found: Attributes, starts: tuple[float, ...] | None
) -> tuple[str | None, tuple[float, ...] | None]:
    """Return the unit, and the offsets converted to it from their own unit.

    Raises
    ------
    ValueError
        If they cannot be converted.
    """
    unit = next((found[key] for key in _UNITS if isinstance(found.get(key), str)), None)
    other = found.get("offset_unit")
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
