"""Images of OME-Zarr 0.6, which have coordinate systems instead of a list of axes.

The levels of an image lead to one of its systems, the intrinsic one, whose axes they have.
Transformations of the image lead from there to its other systems and to its labels; they do not
move the image. Source: the specification of version 0.6, "Coordinate systems" and "Multiscales".
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects.lists import as_number, matrix
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import ODD
from xarray_n5.model.system_graph import ImageSystems, SystemGraph
from xarray_n5.model.systems import Reference, parse_reference, parse_system
from xarray_n5.model.transformations import parse_transformation
from xarray_n5.model.units import split_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from xarray_n5.model.systems import CoordinateSystem
    from xarray_n5.model.transformations import Transformation

VERSION = "0.6"
"""The version that is written."""

SCENE = f"ngff-{VERSION}"
"""The dialect that writes it, and that of scenes."""

STORED_WITH = "0.5"
"""The default version of the format that can store it, Zarr v3."""

_INTRINSIC = "intrinsic"
"""The name of the system that is written."""

_MOST = 256
"""The maximum number of an image's systems, and of its transformations."""

_SHOWN = 3
"""The number of problems that a warning names."""


def has_systems(image: Mapping[str, Any]) -> bool:
    """Return whether an image has coordinate systems, as since version 0.6."""
    return "axes" not in image and bool(image.get("coordinateSystems"))


def system_of(image: Mapping[str, Any], entry: Mapping[str, Any]) -> CoordinateSystem:
    """Return the coordinate system of an image that the transformations of a level lead to.

    Raises
    ------
    ValueError
        If the image does not have it, or the level does not name one of several.
    """
    systems = _listed(image)
    edges = entry.get("coordinateTransformations") or [{}]
    output = edges[-1].get("output")
    name = None if output is None else parse_reference(output, "'output' of a level").name
    if name is None and all(system.axes == systems[0].axes for system in systems):
        return systems[0]
    led_to = [system for system in systems if system.name == name]
    if not led_to:
        known = ", ".join(repr(system.name) for system in systems)
        raise ValueError(
            f"'multiscales' leads from {entry.get('path')!r} to the coordinate system {name!r}; "
            f"expected one of {known}"
        )
    return led_to[0]


def _listed(image: Mapping[str, Any]) -> list[CoordinateSystem]:
    listed = image["coordinateSystems"]
    if not isinstance(listed, list) or len(listed) > _MOST:
        raise ValueError(f"'coordinateSystems' is invalid; expected a list of up to {_MOST}")
    return [parse_system(value, "'coordinateSystems'") for value in listed]


_NEUTRAL: Mapping[str, float] = MappingProxyType({"scale": 1.0, "translation": 0.0})
"""The numbers that replace invalid ones, by type of transform."""


def level_matrix(
    image: Mapping[str, Any], entry: Mapping[str, Any], names: Sequence[str]
) -> tuple[np.ndarray | None, set[int], list[str]]:
    """Return the matrix of a level, without its invalid numbers.

    Returns
    -------
    tuple
        The matrix, or None if the distances between samples are unknown; the axes with invalid
        numbers; messages about these.
    """
    invalid: set[int] = set()
    problems: list[str] = []
    steps, scaled = _valid(entry.get("coordinateTransformations"), names, invalid, problems)
    shared = None if has_systems(image) else image.get("coordinateTransformations")
    of_all, _ = _valid(shared or [], names, invalid, problems)
    rows = None
    if scaled:
        try:
            where = f"'coordinateTransformations' of {entry.get('path')!r}"
            rows = matrix([*steps, *of_all], len(names), where)
        except ODD as error:
            problems.append(str(error))
    return rows, invalid, problems


def _valid(
    transforms: object, names: Sequence[str], invalid: set[int], problems: list[str]
) -> tuple[list[Any], bool]:
    """Return transforms without what is invalid, and whether all scales are left.

    Lists that are not for all axes are omitted, other invalid numbers are neutral. The axes of
    these, and messages, are added to `invalid` and `problems`.
    """
    if not isinstance(transforms, list):
        problems.append(f"the transforms are {transforms!r}, expected a list")
        return [], False
    valid: list[Any] = []
    scaled = True
    for step in transforms:
        kind: Any = step.get("type") if isinstance(step, dict) else None
        if kind == "sequence":
            inner, complete = _valid(step.get("transformations"), names, invalid, problems)
            valid.append({**step, "transformations": inner})
            scaled = scaled and complete
        elif kind not in _NEUTRAL:
            valid.append(step)
        elif not isinstance(values := step.get(kind), list) or len(values) != len(names):
            count = len(values) if isinstance(values, list) else "no"
            problems.append(f"the {kind} {values!r} is for {count} axes, expected {len(names)}")
            scaled = scaled and kind != "scale"
        else:
            numbers = [as_number(v, "non-zero" if kind == "scale" else "finite") for v in values]
            odd = [axis for axis, number in enumerate(numbers) if math.isnan(number)]
            problems += [f"the {kind} of axis {names[axis]!r} is {values[axis]!r}" for axis in odd]
            invalid.update(odd)
            neutral = [_NEUTRAL[kind] if math.isnan(number) else number for number in numbers]
            valid.append({**step, kind: neutral})
    return valid, scaled


def systems_around(
    image: Mapping[str, Any], intrinsic: CoordinateSystem, path: str
) -> ImageSystems:
    """Return the systems of an image in the group at a path, and its transformations."""
    systems = {Reference(system.name): system for system in _listed(image)}
    listed = image.get("coordinateTransformations") or []
    edges: list[Transformation] = []
    problems: list[str] = []
    if not isinstance(listed, list) or len(listed) > _MOST:
        problems.append(f"'coordinateTransformations' is not a list of up to {_MOST}")
        listed = []
    if scaled := [a.unit for a in intrinsic.axes if split_unit(written_unit(a.unit))[0] != 1]:
        problems.append(f"{intrinsic.name!r} has the unit {scaled[0]!r}, which is not a unit alone")
        listed = []
    for number, value in enumerate(listed):
        kind = value.get("type") if isinstance(value, dict) else None
        try:
            where = f"'coordinateTransformations' {number}, {kind!r}"
            edge = parse_transformation(value, where)
        except MetadataError as error:
            problems.append(str(error))
            continue
        ends = [end for end in (edge.input, edge.output) if end is not None]
        unknown = [end for end in ends if not end.path and end not in systems]
        if unknown or None in {edge.input, edge.output}:
            problems.append(f"{edge}: expected two systems in 'coordinateSystems'")
        edges.append(edge)
    return ImageSystems(intrinsic, SystemGraph(tuple(edges), systems), path, tuple(problems))


def described_problems(systems: ImageSystems, problems: Sequence[str]) -> str | None:
    """Return a warning about systems of an image that cannot be computed, or None."""
    if not problems:
        return None
    more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    return (
        f"{systems.path or '/'}: some transformations to other coordinate systems are ignored: "
        f"{'; '.join([*problems[:_SHOWN], *more])}. Its coordinates are those of "
        f"{systems.intrinsic.name!r}"
    )


def with_systems(image: Mapping[str, Any], systems: ImageSystems | None = None) -> dict[str, Any]:
    """Return an image of version 0.4 or 0.5 as one of 0.6, with the other systems of an image.

    Raises
    ------
    MetadataError
        If an axis is in reverse direction, which version 0.6 does not have.
    """
    name = _INTRINSIC if systems is None else systems.intrinsic.name
    known = [] if systems is None else list(systems.graph.systems.values())
    before = {a.name: a.to_json() for system in known if system.name == name for a in system.axes}
    axes = [{**before.get(axis["name"], {}), **axis} for axis in image["axes"]]
    intrinsic = {"name": name, "axes": axes}
    listed = [intrinsic if system.name == name else system.to_json() for system in known]
    edges = [] if systems is None else [edge.to_json() for edge in systems.graph.edges]
    rest = {k: v for k, v in image.items() if k not in {"axes", "datasets", "version"}}
    return {
        **rest,
        "coordinateSystems": listed or [intrinsic],
        "datasets": [_dataset(entry, name, axes) for entry in image["datasets"]],
        **({"coordinateTransformations": edges} if edges else {}),
    }


def _dataset(entry: Mapping[str, Any], name: str, axes: Sequence[Mapping[str, Any]]) -> Any:
    scale, translation = entry["coordinateTransformations"]
    for axis, step in zip(axes, scale["scale"], strict=True):
        if step <= 0:
            raise MetadataError(
                f"OME-Zarr {VERSION} cannot describe the axis {axis['name']!r} in reverse "
                f"direction, with a scale of {step}; reverse the data along it, or choose another "
                "dialect"
            )
    ends = {"input": {"path": entry["path"]}, "output": {"name": name}}
    whole = {"type": "sequence", **ends, "transformations": [scale, translation]}
    if not any(translation["translation"]):
        whole = {**scale, **ends}
    return {**entry, "coordinateTransformations": [whole]}


def chosen_version(wanted: str | None, version: str) -> str:
    """Return the version of images that is wanted, or the default of the format.

    Raises
    ------
    ValueError
        If the format cannot store it.
    """
    if wanted != VERSION:
        return version
    if version != STORED_WITH:
        raise ValueError(
            f"OME-Zarr {VERSION} is stored in Zarr v3 only; choose format='zarr3', or "
            f"dialect='ngff' for version {version}"
        )
    return VERSION
