"""Join the views of a project to images: all views, those of a setup, or each separately."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.access import is_transposed
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.image import Level as StackedLevel
from xarray_n5.model.image import Part as StackedPart
from xarray_n5_bdv.positions import VOXEL, VOXEL_UNIT, places_of
from xarray_n5_bdv.stack_axes import Arrangement, Outer, arrange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5_bdv.loaders import View
    from xarray_n5_bdv.project import Project
    from xarray_n5_bdv.stored import Part, Stored

PROJECT = "project"
"""The encoding of coordinates with the project that they were opened from."""

_SHOWN = 4
"""The maximum number of views that a warning names."""


@dataclass(frozen=True)
class Level:
    """One level of an image, with the coordinates that its axes do not have."""

    image: StackedLevel[Array]
    coords: Mapping[str, xr.Variable]
    in_world: bool
    """Whether the coordinates of z, y and x are world positions, or distances in a view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The views of a project that are opened."""

    timepoints: tuple[int, ...]
    setups: tuple[int, ...]
    single_timepoint: bool = False
    single_setup: bool = False
    arrangement: Arrangement | None = None


def images_of(
    project: Project, stored: Stored, selection: Selection, where: str
) -> dict[str, dict[int, Level]]:
    """Return the images that views form, by name, and level by level.

    Views of one shape, type, voxel size and factors are one image, called "". Otherwise each setup
    is one, or each view of a setup whose views differ, named by the paths of BigDataViewer.
    """
    _warn_missing(project, stored, selection, where)
    signatures = {view: _signature(project, stored, view) for view in stored.views}
    if len(set(signatures.values())) <= 1:
        return {"": _levels(project, stored, selection, stored.views, where)}
    found: dict[str, dict[int, Level]] = {}
    for setup, group in _by(stored.views, lambda view: view.setup).items():
        one = Selection(
            timepoints=selection.timepoints,
            setups=(setup,),
            single_timepoint=selection.single_timepoint,
            single_setup=True,
        )
        if len({signatures[view] for view in group}) == 1:
            found[f"setup{setup}"] = _levels(project, stored, one, group, where)
            continue
        for view in group:
            alone = Selection(
                timepoints=(view.timepoint,),
                setups=(setup,),
                single_timepoint=True,
                single_setup=True,
            )
            name = f"setup{setup}/timepoint{view.timepoint}"
            found[name] = _levels(project, stored, alone, [view], where)
    return found


def _by(views: Sequence[View], key: Callable[[View], int]) -> dict[int, list[View]]:
    ordered = sorted(views, key=lambda view: (key(view), view))
    return {number: list(group) for number, group in itertools.groupby(ordered, key)}


def _signature(project: Project, stored: Stored, view: View) -> object:
    """Return the properties that views of one image share."""
    setup = project.setups[view.setup]
    levels = [
        (level, views[view].shape, views[view].metadata.dtype.str, stored.factors[level, view])
        for level, views in stored.levels.items()
        if view in views
    ]
    # Levels that other views lack are omitted, rather than a reason to form another image.
    return tuple(levels[:1]), setup.voxel_size, setup.unit


def _levels(
    project: Project, stored: Stored, selection: Selection, views: Sequence[View], where: str
) -> dict[int, Level]:
    """Return the levels that all views have, and whose shapes and factors agree."""
    outer = arrange(
        project,
        selection.timepoints,
        selection.setups,
        selection.arrangement,
        single_timepoint=selection.single_timepoint,
        single_setup=selection.single_setup,
    )
    found: dict[int, Level] = {}
    for level, parts in sorted(stored.levels.items()):
        own = {view: parts[view] for view in views if view in parts}
        alike = {(part.shape, stored.factors[level, view]) for view, part in own.items()}
        if len(own) == len(views) and len(alike) == 1:
            broken = {v: e for v, e in stored.broken.items() if v in outer.positions}
            factors = stored.factors[level, views[0]]
            if factors is None:
                warn(f"{where}: level s{level} has no factors, and so no coordinates")
            found[level] = _level(project, outer, own, broken, factors)
        elif own:
            lacking = [view for view in views if view not in own]
            why = f"it is not stored for {_named(lacking)}" if lacking else "its views differ"
            warn(f"{where}: level s{level} is left out: {why}")
    return found


def _level(
    project: Project,
    outer: Outer,
    parts: Mapping[View, Part],
    broken: Mapping[View, Exception],
    factors: tuple[float, ...] | None,
) -> Level:
    views = list(parts)
    places = places_of(project, outer, views, factors, project.setups[views[0].setup])
    kinds: dict[str, Any] = {"t": "time", "channel": "channel"}
    before = tuple(Axis(name=dim, kind=kinds.get(dim)) for dim in outer.dims)
    sources = dict.fromkeys(("names", "units", "scale", "offset"), f"bdv: {places.source}")
    geometry = Geometry((*before, *places.axes), sources, dialects=("bdv",))
    first = parts[views[0]].array
    at = outer.positions
    image = StackedLevel(
        {at[view]: StackedPart(part.array, part.indices) for view, part in parts.items()},
        geometry.transpose() if is_transposed(first) else geometry,
        outer.numbers,
        transposed=is_transposed(first),
        broken={at[view]: error for view, error in broken.items()},
    )
    coords = {**outer.coords, **places.coords}
    coords |= _missing(outer, {*parts, *broken})
    _describe(coords, project, views[0], factors)
    return Level(image, coords, places.in_world)


def _missing(outer: Outer, stored: Collection[View]) -> dict[str, xr.Variable]:
    """Return the views that are not stored as a coordinate, if there are any."""
    absent = [at for view, at in outer.positions.items() if view not in stored]
    if not absent:
        return {}
    values = np.zeros(outer.shape, bool)
    for at in absent:
        values[at] = True
    return {"missing": xr.Variable(outer.dims, values, {"long_name": "view is not stored"})}


def _describe(
    coords: dict[str, xr.Variable],
    project: Project,
    view: View,
    factors: tuple[float, ...] | None,
) -> None:
    """Add facts that only a project has to its coordinates, so that it can be stored again."""
    setup, found = project.setups[view.setup], coords["setup"].copy(deep=False)
    if setup.voxel_size is not None and factors is not None:
        sizes = zip(setup.voxel_size, factors, strict=True)
        found.attrs[VOXEL] = [size * factor for size, factor in sizes]
        if setup.unit is not None:
            found.attrs[VOXEL_UNIT] = setup.unit
    coords["setup"] = found
    for name in ("setup", "registration"):
        if name in coords:
            coords[name].encoding[PROJECT] = project


def _warn_missing(project: Project, stored: Stored, selection: Selection, where: str) -> None:
    """Warn about missing views, once for all of them."""
    there = {*stored.views, *stored.broken}
    count = len(selection.timepoints) * len(selection.setups)
    if len(there) == count:
        return
    absent = (
        view
        for time in selection.timepoints
        for setup in selection.setups
        if (view := type(stored.views[0])(time, setup)) not in there
    )
    named = _named(list(itertools.islice(absent, _SHOWN + 1)))
    listed = sum(
        view.timepoint in selection.timepoints and view.setup in selection.setups
        for view in project.missing
    )
    warn(
        f"{where}: {count - len(there)} of {count} views are not stored ({listed} "
        f"{'is' if listed == 1 else 'are'} listed as missing) and read as the fill value: {named}"
    )


def _named(views: Sequence[View]) -> str:
    shown = [f"timepoint {v.timepoint} of setup {v.setup}" for v in views[:_SHOWN]]
    return ", ".join([*shown, *["..."] * (len(views) > _SHOWN)])
