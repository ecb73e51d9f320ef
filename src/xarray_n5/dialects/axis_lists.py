"""Lists with an item for each axis: of Neuroglancer and TensorStore, xarray, HDF5, funlib.

Neuroglancer reads the array and the group around it; TensorStore's n5 driver writes the former, in
N5 order. ``_ARRAY_DIMENSIONS`` and ``DIMENSION_LABELS`` have names only, in C order, also in N5.
funlib.persistence (DaCapo, Volara, daisy) writes C order in every format, because zarr-python wrote
it; its numbers and units omit channel axes, which are marked by ``^`` or by ``types``. Sources:
Neuroglancer's N5 data source (src/datasource/n5); TensorStore's n5 driver page, "Metadata" and
"Dimension units"; xarray's Zarr encoding specification; the HDF5 dimension scale specification;
funlib.persistence, arrays/metadata.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects import lists
from xarray_n5.dialects.lists import geometry_of_lists, numbers, texts, whole_number
from xarray_n5.dialects.protocol import is_of_funlib
from xarray_n5.model.axes import Axis, Geometry, names
from xarray_n5.model.units import si_scale, written_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.dialects.lists import Kind
    from xarray_n5.dialects.protocol import ArrayContext


_DEFAULT_NAMES = ("x", "y", "z", "t", "c")
"""Neuroglancer's names of unnamed axes, the last axis in C order first."""

_SHARED = ("axes", "units", "resolution", "pixelResolution")
"""Attributes that a group has for its levels."""


@dataclass(frozen=True, slots=True)
class Neuroglancer:
    """The names, units and resolution of a pyramid, and the labels of samples.

    They are on the group; ``coordinateArrays`` has the labels.
    """

    name: ClassVar[str] = "neuroglancer"
    keys: ClassVar[tuple[str, ...]] = ("coordinateArrays",)
    group_keys = ("coordinateArrays", *_SHARED, "downsamplingFactors", "scales", "translate")
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes; the array's own attributes take precedence over its group's."""
        group = node.parents[0] if node.parents else {}
        labels = node.attributes.get("coordinateArrays", group.get("coordinateArrays"))
        merged = {**group, **node.attributes}
        key, (steps, unit) = "pixelResolution", lists.steps_and_unit(merged.get("pixelResolution"))
        if steps is None:
            key, steps = "resolution", merged.get("resolution")
        grouped = any(key in group for key in _SHARED) and "offset" not in merged
        if not isinstance(labels, dict) and not grouped:
            return None
        ndim = len(node.shape)
        units = texts("units", merged.get("units"), ndim)
        scales = numbers(key, steps, ndim, node=node)
        if scales is None and units and any(units):
            key, scales = "units", (1.0,) * ndim
        given = texts("axes", merged.get("axes"), ndim) or ("",) * ndim
        factors = lists.factors_of(node)
        if scales is not None:
            scales, factors = lists.base_and_factors(node, key, scales)
            if key not in node.attributes and not lists.check_level(node, factors):
                scales = None

        def at(*names: str) -> str:
            here = (f"{n}{'' if n in node.attributes else ' of the group'}" for n in names)
            return ", ".join(here)

        axes = lists.axes_at_level(
            given, units or (unit,) * ndim, scales or (None,) * ndim, factors
        )
        facts = {"names": at("axes"), "units": at("units" if units else "pixelResolution")}
        if scales:
            facts["scale"] = at(key, *(["downsamplingFactors"] if factors else []))
        if isinstance(labels, dict):
            axes = _labelled(axes, labels, node.shape)
            facts |= {"labels": at("coordinateArrays")} if any(a.labels for a in axes) else {}
        return lists.moved(geometry_of_lists(axes, facts), node)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return TensorStore's attributes of a single array, and its labels."""
        return in_si_units(TensorStore().write(geometry, node)) | _labels(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: the base level's, and all factors."""
        node, base = levels[0]
        listed = {"downsamplingFactors": [lists.factors_in(geometry) for _, geometry in levels]}
        around = TensorStore().write(base, node)
        around |= {"resolution": lists.steps(base)} if "resolution" in around else {}
        return in_si_units(around) | listed


def in_si_units(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with units and resolutions that Neuroglancer reads.

    It does not show arrays with units other than "" and metres, seconds or hertz with an SI prefix.
    """
    converted, units = dict(attributes), attributes.get("units")
    match attributes.get("pixelResolution"):
        case {"dimensions": list(steps), "unit": str(unit)}:
            # Axes without a unit do not have the common one.
            own_units = [unit if not units or text else "" for text in units or [""] * len(steps)]
            shown = si_scale(1, unit)[1]
            converted["pixelResolution"] = {"dimensions": _in_si(steps, own_units), "unit": shown}
    if isinstance(units, list):
        converted["units"] = [si_scale(1, text)[1] for text in units]
        if "resolution" in attributes:
            converted["resolution"] = _in_si(attributes["resolution"], units)
    return converted


def _in_si(steps: Sequence[float], units: Sequence[str]) -> list[float]:
    return [whole_number(si_scale(*pair)[0]) for pair in zip(steps, units, strict=True)]


def _labels(geometry: Geometry) -> dict[str, Any]:
    labels = {
        name: list(axis.labels)
        for name, axis in zip(names(geometry.axes), geometry.axes, strict=True)
        if axis.labels is not None
    }
    return {"coordinateArrays": labels} if labels else {}


def _labelled(
    axes: tuple[Axis, ...], labels: Mapping[str | None, Any], shape: tuple[int, ...]
) -> tuple[Axis, ...]:
    result = []
    given = {axis.name for axis in axes}
    defaults = [None if name in given else name for name in _DEFAULT_NAMES]
    for axis, default, size in zip_longest(axes[::-1], defaults[: len(axes)], shape[::-1]):
        name = axis.name or default
        values = labels.get(name)
        if isinstance(values, list) and len(values) == size:
            axis = lists.labelled(axis, values, name)  # noqa: PLW2901
        result.append(axis)
    return tuple(result[::-1])


@dataclass(frozen=True, slots=True)
class TensorStore:
    """``axes``, ``units`` and ``resolution`` on each array; sample 0 is at 0."""

    name: ClassVar[str] = "tensorstore"
    keys: ClassVar[tuple[str, ...]] = ("axes", "units", "resolution")
    group_keys = ()
    list_order: ClassVar[Literal["N5"]] = "N5"

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the axes, or None if they have neither names nor units.

        If the group lists factors of its levels, the resolution is that of the base level.
        """
        ndim = len(node.shape)
        listed, texts_of, resolution = map(node.attributes.get, self.keys)
        if listed is texts_of is None:
            return None  # only a resolution: Paintera
        if listed is resolution is None and is_of_funlib(node.attributes):
            return None
        names = texts("axes", listed, ndim, exact=True) or ("",) * ndim
        # With named axes, short lists are for the first ones, which are spatial.
        exact = listed is None
        units = texts("units", texts_of, ndim, exact=exact)
        scales = numbers("resolution", resolution, ndim, exact=exact, node=node)
        if len({name for name in names if name}) != sum(map(bool, names)):
            raise ValueError(f"'axes' is {list(names)}; expected unique names")
        where = ["resolution"]
        if scales is None and units and any(map(written_unit, units)):
            keys = set().union(node.attributes, *node.parents[:1])
            if keys.isdisjoint({"resolution", "pixelResolution"}):
                where, scales = ["units"], (1.0,) * ndim
        if scales is None and not any(names):
            return None
        factors = None
        if scales is not None:
            scales, factors = lists.base_and_factors(node, "resolution", scales, of_array=False)
        where += ["factors of the group"] if factors else []
        axes = lists.axes_at_level(
            names, units or (None,) * ndim, scales or (None,) * ndim, factors
        )
        scale = ", ".join(where) if scales else None
        return geometry_of_lists(axes, {"names": "axes", "units": "units", "scale": scale})

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attributes, which do not include offsets."""
        axes = geometry.axes[::-1]
        attributes: dict[str, Any] = {}
        if geometry.named:
            attributes["axes"] = [axis.name or "" for axis in axes]
        if any(axis.step < 0 for axis in axes):
            # A resolution is positive. Without units, Neuroglancer assumes nanometres.
            return attributes | {"units": [""] * len(axes)}
        if any(axis.unit is not None or axis.scale is not None for axis in axes):
            # All or none: "" means dimensionless, and some readers ignore a scale without units.
            attributes["units"] = [axis.unit or "" for axis in axes]
            attributes["resolution"] = [whole_number(axis.step) for axis in axes]
        return attributes


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
        listed = _names(node, "_ARRAY_DIMENSIONS")
        if listed and node.attribute_order == "auto":
            fits = (_fits(listed, node), _fits(listed[::-1], node))
            listed = listed[::-1] if fits == (False, True) else listed
        return _named(listed, "_ARRAY_DIMENSIONS")

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute."""
        return {"_ARRAY_DIMENSIONS": list(names(geometry.axes))}


def _names(node: ArrayContext, key: str) -> list[str] | None:
    """Return a list of names; None without one, or for N5's single axis of a scalar."""
    listed = node.attributes.get(key)
    if listed is None or (listed == [] and node.shape == (1,)):
        return None
    given = [name for name in listed if name] if isinstance(listed, list) else []
    proper = all(isinstance(name, str) for name in given) and len(set(given)) == len(given)
    if not isinstance(listed, list) or not proper or len(listed) != len(node.shape):
        raise ValueError(f"{key!r} is {listed!r}; expected {len(node.shape)} unique names")
    return listed


def _named(listed: list[str] | None, key: str) -> Geometry | None:
    axes = (Axis(name=name or None) for name in listed or ())
    return None if listed is None else geometry_of_lists(tuple(axes), {"names": key})


def _fits(listed: Sequence[str], node: ArrayContext) -> bool:
    sizes = zip(listed, node.shape, strict=True)
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
        return _named(_names(node, "DIMENSION_LABELS"), "DIMENSION_LABELS")

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attribute."""
        if all(axis.name is None for axis in geometry.axes):
            return {}
        return {"DIMENSION_LABELS": [axis.name or "" for axis in geometry.axes]}


_UNNAMED = re.compile(r"d\d+")
"""The names that funlib.persistence gives to unnamed axes."""


_COMMON = frozenset({"offset", "units", "types"})
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
        known = {key: node.attributes.get(key) for key in self.keys}
        if all(known[key] is None for key in known.keys() - _COMMON):
            return None  # other dialects have lists that are called "offset" or "units"
        if node.attribute_order == "N5":
            known = {k: v[::-1] if isinstance(v, list) else v for k, v in known.items()}
        ndim, empty = len(node.shape), ("",) * len(node.shape)
        names = texts(self.axis_names_attr, known[self.axis_names_attr], ndim, exact=True) or empty
        types = texts(self.types_attr, known[self.types_attr], ndim, exact=True) or empty
        places = [n for n in range(ndim) if "^" not in names[n] and types[n] in _PHYSICAL]
        of_places = {
            key: _picked(known[key], places, ndim)
            for key in (self.voxel_size_attr, self.offset_attr, self.units_attr)
        }
        lengths = (min(len(v), ndim) for v in of_places.values() if isinstance(v, list))
        count = next(lengths, len(places))
        if count != len(places):
            places = list(range(ndim - count, ndim))  # channels come first
        units = texts(self.units_attr, of_places[self.units_attr], count, exact=True)
        kinds: dict[str, Kind] = {self.offset_attr: "finite", self.voxel_size_attr: "positive"}
        starts, scales = (
            numbers(key, of_places[key], count, kind=kind, exact=True, node=node)
            for key, kind in kinds.items()
        )
        placed = any(units or ()) or scales is not None or starts is not None
        facts = zip(
            units or ("",) * count,
            scales or ((1.0 if placed else None),) * count,
            starts or (0.0,) * count,
            strict=True,
        )
        physical = dict(zip(places, facts, strict=True))
        labels = ["" if _UNNAMED.fullmatch(name) else name.replace("^", "") for name in names]
        axes = [
            lists.axis(label, *physical[number], kind=kind)
            if number in physical
            else lists.axis(label, None, None, kind="channel")
            for number, (label, kind) in enumerate(zip(labels, types, strict=True))
        ]
        sources = {"names": self.axis_names_attr, "units": self.units_attr}
        sources |= {"scale": self.voxel_size_attr} if placed else {}
        sources |= {} if starts is None else {"offset": self.offset_attr}
        return geometry_of_lists(axes, sources)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attributes; raise ValueError unless all numbers are whole."""
        channels = [axis.kind == "channel" for axis in geometry.axes]
        physical = [axis for axis in geometry.axes if axis.kind != "channel"]
        if not all(n.is_integer() for axis in physical for n in (axis.step, axis.offset)):
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
