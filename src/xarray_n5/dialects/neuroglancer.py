"""Lists for each axis on the array and on the group around it, as Neuroglancer reads them.

TensorStore's n5 driver writes those on the array. Lists are in N5 order. Sources: Neuroglancer's N5
data source (src/datasource/n5); TensorStore's n5 driver page, "Metadata" and "Dimension units".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray_n5.dialects import lists
from xarray_n5.dialects.lists import numbers, texts, whole_number
from xarray_n5.dialects.protocol import is_of_funlib
from xarray_n5.model.axes import Axis, Geometry, names
from xarray_n5.model.units import si_scale, written_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

        def at(name: str) -> str:
            return name if name in node.attributes else f"{name} of the group"

        said = {"names": at("axes")} if any(given) else {}
        said |= {"scale": at(key)} if scales else {}
        said |= {"units": at("units" if units else "pixelResolution")} if units or unit else {}
        if factors and scales:
            said["scale"] += f", {at('downsamplingFactors')}"
        axes = lists.axes_at_level(
            given, units or (unit,) * ndim, scales or (None,) * ndim, factors
        )
        if isinstance(labels, dict):
            axes = _labelled(axes, labels, node.shape)
            said |= {"labels": at("coordinateArrays")} if any(a.labels for a in axes) else {}
        return lists.moved(Geometry(axes, said), node)

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return TensorStore's attributes of a single array, and its labels."""
        return in_si_units(TensorStore().write(geometry, node)) | _labels(geometry)

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of a pyramid's group: the base level's, and all factors."""
        node, base = levels[0]
        listed = {"downsamplingFactors": [lists.factors_in(geometry) for _, geometry in levels]}
        own = TensorStore().write(base, node)
        own |= {"resolution": lists.steps(base)} if "resolution" in own else {}
        return in_si_units(own) | listed


def in_si_units(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with units and resolutions that Neuroglancer reads.

    It does not show arrays with units other than "" and metres, seconds or hertz with an SI prefix.
    """
    found = dict(attributes)
    units = attributes.get("units")
    match attributes.get("pixelResolution"):
        case {"dimensions": list(steps), "unit": str(unit)}:
            # Axes without a unit do not have the common one.
            each = [unit if not units or text else "" for text in units or [""] * len(steps)]
            found["pixelResolution"] = {
                "dimensions": _in_si(steps, each),
                "unit": si_scale(1, unit)[1],
            }
    if isinstance(units, list):
        found["units"] = [si_scale(1, text)[1] for text in units]
        if "resolution" in attributes:
            found["resolution"] = _in_si(attributes["resolution"], units)
    return found


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
            bare = replace(axis, unit=None, scale=None, offset=0.0)
            result.append(replace(bare, name=name, labels=tuple(map(str, values))))
        else:
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
        found = {key: node.attributes.get(key) for key in self.keys}
        if found["axes"] is found["units"] is None:
            return None  # only a resolution: Paintera
        if found["axes"] is found["resolution"] is None and is_of_funlib(node.attributes):
            return None
        names = texts("axes", found["axes"], ndim, exact=True) or ("",) * ndim
        # With named axes, short lists are for the first ones, which are spatial.
        exact = found["axes"] is None
        units = texts("units", found["units"], ndim, exact=exact)
        scales = numbers("resolution", found["resolution"], ndim, exact=exact, node=node)
        if len({name for name in names if name}) != sum(map(bool, names)):
            raise ValueError(f"'axes' is {list(names)}; expected unique names")
        said = {"names": "axes"} if any(names) else {}
        around = (node.attributes, *node.parents[:1])
        elsewhere = any(
            {"resolution", "pixelResolution"} & attributes.keys() for attributes in around
        )
        if scales is None and units and any(map(written_unit, units)) and not elsewhere:
            scales = (1.0,) * ndim
            said |= {"scale": "units"}
        elif scales is not None:
            said |= {"scale": "resolution"}
        if scales is None and not any(names):
            return None
        said |= {"units": "units"} if units is not None else {}
        factors = None
        if scales is not None:
            scales, factors = lists.base_and_factors(node, "resolution", scales, own=False)
        if factors:
            said["scale"] += ", factors of the group"
        axes = lists.axes_at_level(
            names, units or (None,) * ndim, scales or (None,) * ndim, factors
        )
        return Geometry(axes, said)

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
