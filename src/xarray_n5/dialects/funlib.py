"""``voxel_size``, ``offset`` and ``axis_names`` of funlib.persistence: DaCapo, Volara, daisy.

Lists are in C order in every format, because zarr-python wrote them. Lists of numbers and units
omit channel axes, which are marked by ``^`` or by ``types``. The keys can have other names, as in
funlib.persistence's MetaDataFormat, but cannot be paths. Source: funlib.persistence,
arrays/metadata.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects.lists import Kind, axis, numbers, texts, whole_number
from xarray_n5.model.axes import Geometry, names

if TYPE_CHECKING:
    from xarray_n5.dialects.protocol import ArrayContext

_UNNAMED = re.compile(r"d\d+")
"""The names that funlib.persistence gives to unnamed axes."""


_SHARED = frozenset({"offset", "units", "types"})
"""The usual keys that do not show this dialect."""

_PHYSICAL = ("space", "time", "")
"""The types of axes that have coordinates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Funlib:
    """The dialect of funlib.persistence: names, units, voxel sizes and offsets of each array.

    The fields are those of funlib.persistence's MetaDataFormat: names of attributes.

    Parameters
    ----------
    offset_attr : str, default: "offset"
        The key of the position of voxel 0, by axis, in C order.
    voxel_size_attr : str, default: "voxel_size"
        The key of the distances between voxels.
    axis_names_attr : str, default: "axis_names"
        The key of the names of all axes, in which ``^`` marks those of channels.
    units_attr : str, default: "units"
        The key of the units.
    types_attr : str, default: "types"
        The key of the types of all axes: "space", "time", or others, which have no coordinates.

    Examples
    --------
    >>> from xarray_n5.dialects import Funlib
    >>> Funlib(voxel_size_attr="resolution").keys
    ('resolution', 'axis_names', 'offset', 'units', 'types')
    """

    name: ClassVar[str] = "funlib"
    offset_attr: str = "offset"
    voxel_size_attr: str = "voxel_size"
    axis_names_attr: str = "axis_names"
    units_attr: str = "units"
    types_attr: str = "types"

    group_keys = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes with its metadata."""
        lists = (self.voxel_size_attr, self.axis_names_attr)
        return (*lists, self.offset_attr, self.units_attr, self.types_attr)

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, or None if no list is one that only this dialect has."""
        found = {key: node.attributes.get(key) for key in self.keys}
        if all(found[key] is None for key in found.keys() - _SHARED):
            return None  # other dialects have lists that are called "offset" or "units"
        if node.attribute_order == "N5":
            found = {k: v[::-1] if isinstance(v, list) else v for k, v in found.items()}
        ndim, empty = len(node.shape), ("",) * len(node.shape)
        names = texts(self.axis_names_attr, found[self.axis_names_attr], ndim, exact=True) or empty
        types = texts(self.types_attr, found[self.types_attr], ndim, exact=True) or empty
        places = [n for n in range(ndim) if "^" not in names[n] and types[n] in _PHYSICAL]
        own = {
            key: _picked(found[key], places, ndim)
            for key in (self.voxel_size_attr, self.offset_attr, self.units_attr)
        }
        count = next((min(len(v), ndim) for v in own.values() if isinstance(v, list)), len(places))
        if count != len(places):
            places = list(range(ndim - count, ndim))  # channels come first
        units = texts(self.units_attr, own[self.units_attr], count, exact=True)
        units = units if units and any(units) else None
        kinds: dict[str, Kind] = {self.offset_attr: "finite", self.voxel_size_attr: "positive"}
        starts, scales = (
            numbers(key, own[key], count, kind=kind, exact=True, node=node)
            for key, kind in kinds.items()
        )
        placed = any(values is not None for values in (units, scales, starts))
        facts = zip(
            units or ("",) * count,
            scales or ((1.0 if placed else None),) * count,
            starts or (0.0,) * count,
            strict=True,
        )
        known = dict(zip(places, facts, strict=True))
        labels = ["" if _UNNAMED.fullmatch(name) else name.replace("^", "") for name in names]
        axes = tuple(
            axis(label, *known[number], kind=kind)
            if number in known
            else axis(label, None, None, kind="channel")
            for number, (label, kind) in enumerate(zip(labels, types, strict=True))
        )
        said = {"names": self.axis_names_attr} if any(labels) else {}
        said |= {"units": self.units_attr} if units else {}
        said |= {"scale": self.voxel_size_attr} if placed else {}
        said |= {"offset": self.offset_attr} if starts is not None else {}
        return Geometry(axes, said)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attributes; raise ValueError unless all numbers are whole."""
        channels = [axis.kind == "channel" for axis in geometry.axes]
        physical = [axis for axis in geometry.axes if axis.kind != "channel"]
        found = [number for axis in physical for number in (axis.step, axis.offset)]
        if not all(number.is_integer() for number in found):
            raise ValueError(
                "funlib.persistence requires whole numbers in 'voxel_size' and 'offset'"
            )
        if any(axis.step < 0 for axis in physical):
            raise ValueError(
                "funlib.persistence requires a positive 'voxel_size': no reversed axes"
            )
        called = zip(names(geometry.axes), channels, strict=True)
        return {
            self.axis_names_attr: [f"{name}^" if channel else name for name, channel in called],
            self.types_attr: [axis.kind or "space" for axis in geometry.axes],
            self.units_attr: [axis.unit or "" for axis in physical],
            self.voxel_size_attr: [whole_number(axis.step) for axis in physical],
            self.offset_attr: [whole_number(axis.offset) for axis in physical],
        }


def _picked(values: Any, places: list[int], ndim: int) -> Any:
    """Return the values of axes with coordinates from a list for all axes; others unchanged."""
    full = isinstance(values, list) and len(values) == ndim
    return [values[n] for n in places] if full else values
