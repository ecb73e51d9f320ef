"""``voxel_size``, ``offset`` and ``axis_names`` of funlib.persistence: DaCapo, Volara, daisy.

Lists are in C order in every format, because zarr-python wrote them. Lists of numbers and units
omit channel axes, which are marked by ``^`` or by ``types``. The keys are the default ones. Source:
funlib.persistence, arrays/metadata.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects.protocol import is_of_funlib
from xarray_n5.dialects.pyramids import axis
from xarray_n5.dialects.values import numbers, texts, whole_number
from xarray_n5.model.axes import Geometry, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext

_UNNAMED = re.compile(r"d\d+")
"""The names that funlib.persistence gives to unnamed axes."""


@dataclass(frozen=True, slots=True)
class Funlib:
    """The names, units, voxel sizes and offsets of each array."""

    name: ClassVar[str] = "funlib"
    keys: ClassVar[tuple[str, ...]] = ("voxel_size", "axis_names", "offset", "units", "types")
    list_order: ClassVar[Literal["C"]] = "C"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, or None if there is neither ``voxel_size`` nor ``axis_names``."""
        own, ndim = node.attributes, len(node.shape)
        if not is_of_funlib(own):
            return None
        named = texts("axis_names", own.get("axis_names"), ndim, exact=True)
        types = texts("types", own.get("types"), ndim, exact=True) or ("",) * ndim
        count = _physical(own, named, types, ndim)
        places = [
            n for n in range(ndim) if not ("^" in (named or types)[n] or types[n] == "channel")
        ]
        places = places if len(places) == count else list(range(ndim - count, ndim))
        units = texts("units", own.get("units"), count, exact=True) or ("",) * count
        starts = numbers("offset", own.get("offset"), count, positive=False, exact=True)
        scales = numbers("voxel_size", own.get("voxel_size"), count, exact=True)
        placed = scales is not None or starts is not None or any(units)
        axes = []
        for n, name in enumerate(named or ("",) * ndim):
            called = "" if _UNNAMED.fullmatch(name) else name.replace("^", "")
            if n not in places:
                axes.append(axis(called, None, None, kind="channel"))
                continue
            at = places.index(n)
            scale = scales[at] if scales else 1.0 if placed else None
            start = starts[at] if starts else 0.0
            axes.append(axis(called, units[at], scale, start, kind=types[n]))
        said = {"names": "axis_names"} if any(each.name for each in axes) else {}
        said |= {"units": "units"} if any(units) else {}
        said |= {"scale": "voxel_size"} if placed else {}
        said |= {"offset": "offset"} if starts is not None else {}
        return Geometry(tuple(axes), said)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
        """Return the attributes; raise ValueError unless all numbers are whole."""
        channels = [axis.kind == "channel" for axis in geometry.axes]
        physical = [each for each in geometry.axes if each.kind != "channel"]
        found = [number for each in physical for number in (each.step, each.offset)]
        if not all(number.is_integer() for number in found):
            raise ValueError("'voxel_size' and 'offset' of funlib.persistence are whole numbers")
        if any(each.step < 0 for each in physical):
            raise ValueError("'voxel_size' is positive: no axis may run backwards")
        called = zip(names(geometry.axes), channels, strict=True)
        return {
            "axis_names": [f"{name}^" if channel else name for name, channel in called],
            "types": [each.kind or "space" for each in geometry.axes],
            "units": [each.unit or "" for each in physical],
            "voxel_size": [whole_number(each.step) for each in physical],
            "offset": [whole_number(each.offset) for each in physical],
        }

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:  # noqa: ARG002
        """Return no attributes, because each level has its own."""
        return {}


def _physical(
    attributes: Any, named: tuple[str, ...] | None, types: tuple[str, ...], ndim: int
) -> int:
    """Return how many axes have coordinates: the length of the lists, else the unmarked axes."""
    for key in ("voxel_size", "offset", "units"):
        if isinstance(attributes.get(key), list):
            return min(len(attributes[key]), ndim)
    marked = zip(named or ("",) * ndim, types, strict=True)
    return sum(not ("^" in name or kind == "channel") for name, kind in marked)
