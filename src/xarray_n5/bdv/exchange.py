"""Views of a project as images of a scene: their paths, transformations, and all other facts.

The world of a scene has physical units::

    world = scale(u) * T1 * ... * Tn * scale(1 / S) * intrinsic coordinates

with the size `u` of a unit of BigDataViewer's world, the transforms as the XML lists them, and the
voxel size `S`. The steps are kept apart, so that all numbers come back unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.bdv.facts import KEY, facts_of, warn_of_points
from xarray_n5.bdv.fusions import in_world_of_input
from xarray_n5.bdv.registrations import NDIM
from xarray_n5.dialects.values import in_c_order
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry, centre_shift
from xarray_n5.model.image import Image, Level
from xarray_n5.model.level_names import level_name, view_path
from xarray_n5.model.scene import SceneContent, ScenePart, lines_aside
from xarray_n5.model.system_graph import space_axes
from xarray_n5.model.systems import CoordinateSystem, SystemAxis
from xarray_n5.model.transformations import compose, matrix, parse_transformation
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from xarray_n5.arrays.array import Array
    from xarray_n5.bdv.loaders import View
    from xarray_n5.bdv.open import OpenProject
    from xarray_n5.bdv.project import Project, ViewSetup
    from xarray_n5.bdv.registrations import World
    from xarray_n5.model.image import Part
    from xarray_n5.model.transformations import Transformation

WORLD = "world"

_ZYX = ("z", "y", "x")

_SHOWN = 4


def content_of(opened: OpenProject) -> SceneContent[Array]:
    """Return the views of a project as images of a scene.

    Raises
    ------
    MetadataError
        If a view cannot be read, or is not registered.
    """
    stored = opened.find(opened.selection)
    project = in_world_of_input(opened.file.project, stored, opened.file.url)
    for view, error in stored.broken.items():
        raise MetadataError(
            f"{opened.file.url}: the view of timepoint {view.timepoint} and setup {view.setup} "
            f"cannot be read: {error}"
        ) from error
    if lost := [view for view in stored.views if view not in project.registrations]:
        shown = ", ".join(f"timepoint {v.timepoint} of setup {v.setup}" for v in lost[:_SHOWN])
        raise MetadataError(
            f"{opened.file.url}: the XML has no ViewRegistration for {len(lost)} views: {shown}; "
            "a scene places every image, so add one, or list them in MissingViews"
        )
    unit = project.world.unit if project.world.basis != "unknown" else None
    parts = []
    for view in stored.views:
        setup = project.setups[view.setup]
        steps = steps_of(project, view)
        levels = {}
        for number, views in sorted(stored.levels.items()):
            name, factors = level_name(number), stored.factors.get((number, view))
            if view in views and factors is not None:
                levels[name] = _level(views[view], setup, factors)
            elif view in views:
                warn(f"{opened.file.url}: level {name} has no factors, and so no coordinates")
        rows = np.eye(NDIM, NDIM + 1)
        for step in steps:
            rows = compose(rows, matrix(step, NDIM))
        parts.append(
            ScenePart(
                path=view_path(view.setup, view.timepoint),
                image=Image(None, levels),
                steps=steps,
                matrix=rows,
            )
        )
    axes = tuple(SystemAxis(name, "space", ngff_unit(unit)) for name in _ZYX)
    facts = facts_of(project, stored.views)
    to = "that of a project that is made of the scene"
    warn_of_points(project.document, opened.file.url, to)
    return SceneContent(
        parts=tuple(parts), world=CoordinateSystem(WORLD, axes), attributes={KEY: facts}
    )


def ngff_unit(unit: str | None) -> str | None:
    """Return a unit as OME-NGFF spells it, if it is known."""
    known = unit_of(unit)
    return known.word if known else unit


def _level(part: Part[Array], setup: ViewSetup, factors: tuple[float, ...]) -> Level[Array]:
    """Return a level with the axes of the view's intrinsic system."""
    sizes, unit = setup.voxel_size or (1.0,) * NDIM, setup.unit if setup.voxel_size else None
    axes = tuple(
        Axis(
            name=name,
            kind="space",
            unit=ngff_unit(unit),
            scale=size * factor,
            offset=centre_shift(size, factor),
            factor=factor,
        )
        for name, size, factor in zip(_ZYX, sizes, factors, strict=True)
    )
    return Level({(): part}, Geometry(axes))


def steps_of(project: Project, view: View) -> tuple[Transformation, ...]:
    """Return the transformations from a view's intrinsic coordinates to the world."""
    size, world = project.setups[view.setup].voxel_size, project.world
    found: list[dict[str, Any]] = []
    if size is not None:
        found.append({"type": "scale", "scale": inverse_sizes(size)})
    for each in reversed(project.registrations[view].transforms):
        rows = [list(row) for row in in_c_order(np.array(each.rows))]
        found.append(
            {"type": "affine", "affine": rows} | ({"name": each.name} if each.name else {})
        )
    if world.basis != "unknown":
        found.append({"type": "scale", "scale": [float(n) for n in world.scale[::-1]]})
    return tuple(parse_transformation(each) for each in found)


def inverse_sizes(sizes: tuple[float, ...]) -> list[float]:
    """Return the scale from physical distances to samples."""
    return [1.0 / size for size in sizes]


def warn_of_unit(system: CoordinateSystem, world: World, where: str) -> None:
    """Warn if the world of a scene has no unit but that of the project has, or the reverse."""
    stated = {system.axes[n].unit for n in space_axes(system.axes)}
    if None in stated and world.unit is not None:
        warn(
            f"{where}: the system {system.name!r} of the scene has no unit; its numbers become "
            f"positions in {world.unit!r}, the unit of the voxel sizes of images: add a unit to "
            "its axes"
        )
    elif world.unit is None and stated != {None}:
        named = ", ".join(sorted(map(repr, stated - {None})))
        warn(
            f"{where}: the images of the scene have no unit, but the system {system.name!r} has "
            f"{named}: positions in the project have no unit; add one to the axes of images"
        )


def start_of(part: ScenePart[Any]) -> list[SystemAxis]:
    """Return the axes of an image's intrinsic system."""
    axes = part.image.base.geometry.axes
    return [SystemAxis(str(axis.name), axis.kind, axis.unit) for axis in axes]


def warn_of_times(content: SceneContent[Any], where: str) -> None:
    """Warn about times that are not the numbers of time points."""
    times = {part.path: _times(part, content.world) for part in content.parts}
    if shown := [f"{time} of {path!r}" for path, time in times.items() if time]:
        more = f", and {len(shown) - _SHOWN} others" if len(shown) > _SHOWN else ""
        warn(
            f"{where}: a project counts time points from 0, and does not keep the times "
            f"{', '.join(shown[:_SHOWN])}{more}"
        )


def _times(part: ScenePart[Any], world: CoordinateSystem) -> str | None:
    """Return the times of an image in the world, if they are not the numbers of time points."""
    own = [axis for axis in part.image.base.geometry.axes if axis.kind == "time"]
    expected = step, start = (1.0 if own else 0.0), 0.0
    if own:
        step, start = own[0].step, own[0].offset
    for line in lines_aside(part.matrix, start_of(part), world)[0]:
        if line.axis.type == "time":
            step, start = line.step * step, line.step * start + line.start
    return None if (step, start) == expected else f"{start:g} + {step:g} * index"
