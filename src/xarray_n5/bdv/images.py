"""Join the views of a project to images: all views, those of a setup, or each separately.

Projects that BigStitcher-Spark writes for fused volumes have the identity as registrations
(SpimData2Tools.createNewSpimDataForFusion), and voxels that count pixels of the input's world as
micrometres. Only the container has the position: its root, or after a non-rigid fusion
(SparkNonRigidFusion) the array of each view.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from xarray_n5.bdv.coordinates import VOXEL, VOXEL_UNIT, arrange, positions_of
from xarray_n5.bdv.loaders import ViewId
from xarray_n5.bdv.project import NDIM, Registration, Transform
from xarray_n5.datasets.placed import PlacedImage
from xarray_n5.dialects.bdv import fusion_around
from xarray_n5.dialects.lists import as_tuples, numbers
from xarray_n5.model.alerts import warn
from xarray_n5.model.image import Image, Level
from xarray_n5.model.paths import level_name, setup_name, view_path

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.bdv.coordinates import StackedAxes, ViewSelection
    from xarray_n5.bdv.project import Project, ViewSetup
    from xarray_n5.bdv.stored import StoredViews
    from xarray_n5.dialects.bdv import Fusion
    from xarray_n5.model.image import Part
    from xarray_n5.model.metadata import Attributes

PROJECT = "project"
"""The encoding of coordinates with the project that they were opened from."""

_SHOWN = 4
"""The maximum number of views that a warning names."""


def images_of(
    project: Project, stored: StoredViews, selection: ViewSelection, where: str
) -> dict[str, PlacedImage]:
    """Return the images that views form, by name.

    Views of one shape, type, voxel size and factors are one image, called "". Otherwise each setup
    is one, or each view of a setup whose views differ, named by the paths of BigDataViewer.
    """
    _warn_missing(project, stored, selection, where)
    signatures = {view: _signature(project, stored, view) for view in stored.views}
    if len(set(signatures.values())) <= 1:
        return {"": _image(project, stored, selection, stored.views, where)}
    images: dict[str, PlacedImage] = {}
    by_setup = sorted(stored.views, key=lambda view: (view.setup, view))
    for setup, group in itertools.groupby(by_setup, lambda view: view.setup):
        views = list(group)
        one = replace(selection, setups=(setup,), single_setup=True)
        if len({signatures[view] for view in views}) == 1:
            images[setup_name(setup)] = _image(project, stored, one, views, where)
            continue
        for view in views:
            alone = replace(one, timepoints=(view.timepoint,), single_timepoint=True)
            name = view_path(setup, view.timepoint)
            images[name] = _image(project, stored, alone, [view], where)
    return images


def _signature(project: Project, stored: StoredViews, view: ViewId) -> object:
    """Return the properties that views of one image share."""
    setup = project.setups[view.setup]
    # Levels that other views lack are omitted, rather than a reason to form another image.
    base = next(
        (level, _shape(parts[view]), parts[view].array.dtype.str, stored.factors[level, view])
        for level, parts in stored.levels.items()
        if view in parts
    )
    return base, setup.voxel_size, setup.unit


def _shape(part: Part[Array]) -> tuple[int, ...]:
    """Return the shape of a view along z, y, x."""
    return part.array.node.metadata.shape[-NDIM:]


def _image(
    project: Project,
    stored: StoredViews,
    selection: ViewSelection,
    views: Sequence[ViewId],
    where: str,
) -> PlacedImage:
    """Return the image of the levels that all views have, and whose shapes and factors agree."""
    stacked = arrange(project, selection)
    broken = {view: e for view, e in stored.broken.items() if view in stacked.positions}
    levels: dict[str, Level[Array]] = {}
    coords: dict[str, Mapping[str, xr.Variable]] = {}
    in_world = True
    for number, parts in sorted(stored.levels.items()):
        name = level_name(number)
        here = {view: parts[view] for view in views if view in parts}
        alike = {(_shape(part), stored.factors[number, view]) for view, part in here.items()}
        if len(here) == len(views) and len(alike) == 1:
            factors = stored.factors[number, views[0]]
            if factors is None:
                warn(f"{where}: level {name} has no factors, and so no coordinates")
            levels[name], coords[name], in_world = _level(project, stacked, here, broken, factors)
        elif here:
            lacking = [view for view in views if view not in here]
            why = f"it is not stored for {_named(lacking)}" if lacking else "its views differ"
            warn(f"{where}: level {name} is left out: {why}")
    return PlacedImage(Image(None, levels), coords, in_world)


def _level(
    project: Project,
    stacked: StackedAxes,
    parts: Mapping[ViewId, Part[Array]],
    broken: Mapping[ViewId, Exception],
    factors: tuple[float, ...] | None,
) -> tuple[Level[Array], dict[str, xr.Variable], bool]:
    """Return a level, its coordinates, and whether they are world positions."""
    views, at = list(parts), stacked.positions
    setup = project.setups[views[0].setup]
    geometry, positions, in_world = positions_of(project, stacked, views, factors, setup)
    level = Level(
        {at[view]: part for view, part in parts.items()},
        geometry,
        stacked.numbers,
        broken={at[view]: error for view, error in broken.items()},
    )
    coords = {**stacked.coords, **positions, **_missing(stacked, {*parts, *broken})}
    _describe(coords, project, views[0], factors)
    return level, coords, in_world


def _missing(stacked: StackedAxes, stored: Collection[ViewId]) -> dict[str, xr.Variable]:
    """Return the views that are not stored as a coordinate, if there are any."""
    absent = np.ones(stacked.shape, bool)
    for view in stored:
        absent[stacked.positions[view]] = False
    facts = {"long_name": "view is not stored"}
    return {"missing": xr.Variable(stacked.dims, absent, facts)} if absent.any() else {}


def _describe(
    coords: dict[str, xr.Variable],
    project: Project,
    view: ViewId,
    factors: tuple[float, ...] | None,
) -> None:
    """Add facts that only a project has to its coordinates, so that it can be stored again."""
    setup, coordinate = project.setups[view.setup], coords["setup"].copy(deep=False)
    if setup.voxel_size is not None and factors is not None:
        sizes = zip(setup.voxel_size, factors, strict=True)
        coordinate.attrs[VOXEL] = [size * factor for size, factor in sizes]
        if setup.unit is not None:
            coordinate.attrs[VOXEL_UNIT] = setup.unit
    coords["setup"] = coordinate
    for name in ("setup", "registration"):
        if name in coords:
            coords[name].encoding[PROJECT] = project


def _warn_missing(
    project: Project, stored: StoredViews, selection: ViewSelection, where: str
) -> None:
    """Warn about missing views, once for all of them."""
    views = [ViewId(time, setup) for time in selection.timepoints for setup in selection.setups]
    there = {*stored.views, *stored.broken}
    absent = [view for view in views if view not in there]
    if absent:
        listed = len(project.missing.intersection(absent))
        warn(
            f"{where}: {len(absent)} of {len(views)} views are not stored ({listed} "
            f"{'is' if listed == 1 else 'are'} listed as missing) and read as the fill value: "
            f"{_named(absent)}"
        )


def _named(views: Sequence[ViewId]) -> str:
    shown = [f"timepoint {v.timepoint} of setup {v.setup}" for v in views[:_SHOWN]]
    return ", ".join([*shown, *["..."] * (len(views) > _SHOWN)])


_BOX, _OFFSET = "Boundingbox_min", "offset"
"""The attributes with the position, and the names of the added transforms."""

_IDENTITY = np.eye(NDIM, NDIM + 1)


def in_world_of_input(project: Project, stored: StoredViews, where: str) -> Project:
    """Return the project of a fusion with the position that its container has.

    Other projects are returned as they are, and so is one whose views have been registered since.
    """
    registered = project.registrations
    placed = {
        view for view, steps in registered.items() if not np.array_equal(steps.total, _IDENTITY)
    }
    fusion = None if placed else fusion_around(stored.groups.values(), where)
    if fusion is None or fusion.start is None:
        steps = {
            view: _moved(start, _OFFSET)
            for view, part in stored.levels.get(0, {}).items()
            if view in registered.keys() - placed and _is_in_pixels(project.setups.get(view.setup))
            if (start := _offset(part.array.attrs, part.array.url)) is not None
        }
        return replace(project, registrations={**registered, **steps}) if steps else project
    views = (ViewId(time, setup) for time in project.timepoints for setup in project.setups)
    return replace(
        project,
        setups={n: _in_pixels(setup, fusion, where) for n, setup in project.setups.items()},
        registrations=dict.fromkeys(views, _moved(fusion.start, _BOX)),
    )


def _moved(start: Sequence[float], name: str) -> Registration:
    rows = _IDENTITY.copy()
    rows[:, NDIM] = start
    return Registration((Transform(name, as_tuples(rows)),))


def _offset(attributes: Attributes, where: str) -> tuple[float, ...] | None:
    """Return the first voxel that a non-rigid fusion states on the array of the base level."""
    try:
        return numbers(_OFFSET, attributes.get(_OFFSET), NDIM, kind="finite", exact=True)
    except ValueError as error:
        warn(f"{where}: {_OFFSET!r} is ignored: {error}")
        return None


def _is_in_pixels(setup: ViewSetup | None) -> bool:
    """Return whether a setup has the voxel size that BDVSparkInstantiateViewSetup writes."""
    return setup is not None and (setup.voxel_size, setup.unit) == ((1.0,) * NDIM, "px")


def _in_pixels(setup: ViewSetup, fusion: Fusion, where: str) -> ViewSetup:
    """Return a setup whose voxel size has the anisotropy, and no unit if it counts pixels."""
    listed = fusion.voxel if setup.voxel_size is None else setup.voxel_size[::-1]
    voxel = fusion.voxel_over(listed, where)
    unit = None if voxel[0] == voxel[1] == 1 else setup.unit
    return replace(setup, voxel_size=voxel[::-1], unit=unit)
