"""Images of a scene as views of a project: the way back of ``exchange.py``, and for other scenes.

A scene that was a project has its transformations as they were listed, and all other facts in its
attribute ``bigstitcher``. Transformations that were edited, and those of other scenes, become one
affine and BigStitcher's calibration. Nothing in the attribute is trusted: ids, names and XML are
checked like those of a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from xarray_n5.bdv.exchange import (
    inverse_sizes,
    ngff_unit,
    start_of,
    warn_of_times,
    warn_of_unit,
)
from xarray_n5.bdv.facts import (
    KEY,
    document_of,
    kept_registrations,
    read_entities,
    read_id,
    read_setup,
    read_times,
)
from xarray_n5.bdv.loaders import View
from xarray_n5.bdv.open import MOST_VIEWS
from xarray_n5.bdv.project import Entity, Project, ViewSetup, read_timepoints
from xarray_n5.bdv.registrations import CALIBRATION, NDIM, Registration, Transform
from xarray_n5.bdv.stored import StoredViews
from xarray_n5.dialects.values import as_tuples, in_c_order
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import centre_shift
from xarray_n5.model.image import Part
from xarray_n5.model.system_graph import on_space, space_axes
from xarray_n5.model.tolerances import ROUNDING, SAME
from xarray_n5.model.units import ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.axes import Axis
    from xarray_n5.model.scene import SceneContent, ScenePart

_ZYX = ("z", "y", "x")


@dataclass
class _Found:
    """The views that are found so far."""

    stored: StoredViews = field(default_factory=StoredViews)
    setups: dict[int, ViewSetup] = field(default_factory=dict)
    entities: dict[str, dict[int, Entity]] = field(default_factory=dict)
    listed: dict[View, tuple[Transform, ...] | None] = field(default_factory=dict)
    """The transforms as they were listed, if the scene still has them."""
    sizes: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """The voxel sizes of setups along z, y, x, by their first images."""
    matrices: dict[View, np.ndarray] = field(default_factory=dict)
    """The matrices from samples to the world along x, y, z, in the unit of the voxel size."""


def project_of(content: SceneContent[Array], where: str) -> tuple[Project, StoredViews, bytes]:
    """Return a scene as a project, its views, and its XML without a loader.

    Raises
    ------
    MetadataError
        If a project cannot describe an image, or ``bigstitcher`` is invalid.
    """
    facts = content.attributes.get(KEY)
    try:
        return _project(content, facts if isinstance(facts, dict) else {}, where)
    except MetadataError as error:
        raise MetadataError(f"{where}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, ET.ParseError) as error:
        raise MetadataError(
            f"{where}: the attribute {KEY!r} is invalid ({error}); remove it to give the images "
            "new numbers"
        ) from error


def _project(
    content: SceneContent[Array], facts: Mapping[str, Any], where: str
) -> tuple[Project, StoredViews, bytes]:
    known = {path: View(read_id(t), read_id(s)) for path, (t, s) in facts.get("views", {}).items()}
    setups = {each.id: each for each in map(read_setup, facts.get("setups", ()))}
    found = _Found(entities=read_entities(facts.get("entities", {})))
    found.setups |= setups
    for part in content.parts:
        view = known.get(part.path)
        names = _axes(part)
        if view is not None and len(names) == NDIM and view.setup in setups:
            _add(found, content, part, view, ())
            continue
        for (time, channel), indices in _slices(part):
            setup = _new_setup(found, part, channel)
            _add(found, content, part, View(time, setup), indices)
    warn_of_times(content, where)
    views = [*found.matrices]
    element = read_times(facts.get("timepoints"))
    times = {view.timepoint for view in views}
    listed = {read_id(n) for n in (() if element is None else read_timepoints(element))}
    if not times <= listed:
        element, listed = None, times
    if (count := len(listed) * len(found.setups)) > MOST_VIEWS:
        raise MetadataError(f"it has {count} views, expected at most {MOST_VIEWS}")
    project = Project(
        setups=dict(sorted(found.setups.items())),
        entities={kind: dict(sorted(each.items())) for kind, each in found.entities.items()},
        timepoints=tuple(sorted(listed)),
        missing=frozenset(
            view
            for time, setup in product(listed, found.setups)
            if (view := View(time, setup)) not in found.matrices
        ),
    )
    kept = {v: each for v, each in kept_registrations(facts).items() if v not in found.matrices}
    listed_as_before = _as_listed(project, found, kept)
    project = listed_as_before or _calibrated(project, found)
    before = {} if listed_as_before is None else kept
    whole = replace(project, registrations={**before, **project.registrations})
    warn_of_unit(content.world, whole.world, where)
    # Registrations of missing views belong to the world as it was.
    document = document_of(
        facts.get("xml"), element, project, keep_registrations=listed_as_before is not None
    )
    return project, found.stored, document


def _axes(part: ScenePart[Any]) -> list[str]:
    """Return the names of an image's axes; raise if they are not those of views."""
    names = [str(axis.name) for axis in part.image.base.geometry.axes]
    kinds = [axis.kind for axis in part.image.base.geometry.axes[:-NDIM]]
    proper = {*kinds} <= {"time", "channel"} and len({*kinds}) == len(kinds)
    if tuple(names[-NDIM:]) != _ZYX or not proper:
        raise MetadataError(
            f"the image {part.path!r} has the axes {', '.join(names)}; expected z, y, x, preceded "
            "by none, a time axis, a channel axis, or both"
        )
    return names


def _slices(
    part: ScenePart[Any],
) -> Iterator[tuple[tuple[int, int | None], tuple[int, ...]]]:
    """Iterate over the time points and channels of an image, and their indices in it."""
    axes = part.image.base.geometry.axes[:-NDIM]
    sizes = part.image.base.shape[: len(axes)]
    for indices in product(*map(range, sizes)):
        at = {axis.kind: index for axis, index in zip(axes, indices, strict=True)}
        yield (at.get("time", 0), at.get("channel")), indices


def _new_setup(found: _Found, part: ScenePart[Any], channel: int | None) -> int:
    """Return the id of the setup of an image that has none; it is added if it is new."""
    name = part.path if channel is None else f"{part.path}, channel {channel}"
    for number, setup in found.setups.items():
        if setup.name == name:
            return number
    number = max(found.setups, default=-1) + 1
    tiles = found.entities.setdefault("tile", {})
    tile = next((n for n, each in tiles.items() if each.name == part.path), None)
    if tile is None:
        tile = max(tiles, default=-1) + 1
        tiles[tile] = Entity(tile, part.path)
    found.entities.setdefault("channel", {}).setdefault(channel or 0, Entity(channel or 0))
    attributes = {"channel": channel or 0, "tile": tile, "angle": 0, "illumination": 0}
    for kind in ("angle", "illumination"):
        found.entities.setdefault(kind, {}).setdefault(0, Entity(0))
    found.setups[number] = ViewSetup(number, name=name, attributes=attributes)
    return number


def _add(
    found: _Found,
    content: SceneContent[Array],
    part: ScenePart[Array],
    view: View,
    indices: tuple[int, ...],
) -> None:
    """Add the levels of a view, its voxel size, and its position."""
    if view in found.matrices:
        raise MetadataError(
            f"two images are time point {view.timepoint} of setup {view.setup}: the second is "
            f"{part.path!r}"
        )
    axes = part.image.base.geometry.axes[-NDIM:]
    size, unit = tuple(axis.step for axis in axes), axes[-1].unit
    if min(size) <= 0 or not all(same_unit(axis.unit, unit) for axis in axes):
        raise MetadataError(f"the axes of {part.path!r} have different units, or negative scales")
    if found.sizes.setdefault(view.setup, size) != size:
        raise MetadataError(
            f"the image {part.path!r} has the voxel size {size}, but another one of setup "
            f"{view.setup} has {found.sizes[view.setup]}; remove {KEY!r} to give images new numbers"
        )
    before = found.setups[view.setup]
    named = before.voxel_size == size and same_unit(ngff_unit(before.unit), unit)
    bare = before.voxel_size is None and size == (1.0,) * NDIM and unit is None
    shape = part.image.base.shape[-NDIM:]
    if not named and not (bare and KEY in content.attributes):
        before = replace(before, voxel_size=size, unit=unit)
    if before.size is None and KEY not in content.attributes:
        before = replace(before, size=shape)
    found.setups[view.setup] = before
    for number, level in enumerate(part.image.levels.values()):
        (own,) = level.parts.values()
        where = Part(own.array, (*own.indices, *indices))
        found.stored.levels.setdefault(number, {})[view] = where
        found.stored.factors[number, view] = _factors(part, number, axes, level.geometry.axes)
    found.matrices[view] = _matrix(content, part, axes, before.unit)
    found.listed[view] = _listed(part, before.voxel_size, axes)


def _factors(
    part: ScenePart[Any], number: int, base: Sequence[Axis], level: Sequence[Axis]
) -> tuple[float, ...]:
    """Return the factors of a level, by its distances between samples."""
    found = []
    for one, axis in zip(base, level[-NDIM:], strict=True):
        factor = axis.step / one.step
        near = round(factor)
        found.append(float(near) if abs(factor - near) <= ROUNDING * factor else factor)
        middle = one.offset + centre_shift(one.step, factor)
        if abs(middle - axis.offset) > SAME * one.step:
            warn(
                f"level {number} of {part.path!r} begins at {axis.name} = {axis.offset:g}; a "
                f"project centres samples on those that they cover, which begins at {middle:g}"
            )
    return tuple(found)


def _matrix(
    content: SceneContent[Any], part: ScenePart[Any], axes: Sequence[Axis], unit: str | None
) -> np.ndarray:
    """Return the matrix from samples x, y, z to the world, in the unit of the voxel size."""
    end = content.world
    at = space_axes(end.axes)
    if len(at) != NDIM:
        raise MetadataError(f"the system {end.name!r} has {len(at)} axes of space, expected 3")
    rows = on_space(part.matrix, start_of(part), end)
    level = np.diag([*(axis.step for axis in axes), 1.0])
    level[:NDIM, NDIM] = [axis.offset for axis in axes]
    factors = [1.0] * NDIM
    for row, own in enumerate(end.axes[n].unit for n in at):
        if None not in {own, unit} and not same_unit(own, ngff_unit(unit)):
            converted = ratio(own, unit)
            if converted is None:
                raise MetadataError(f"{part.path!r} is in {unit!r}, {end.name!r} in {own!r}")
            factors[row] = converted
    found = np.array(in_c_order(rows @ level * np.array(factors)[:, None]))
    if np.linalg.matrix_rank(found[:, :NDIM] / (np.abs(found).max() or 1), tol=1e-12) < NDIM:
        raise MetadataError(f"the transformation of {part.path!r} is singular")
    return found


def _listed(
    part: ScenePart[Any], size: tuple[float, ...] | None, axes: Sequence[Axis]
) -> tuple[Transform, ...] | None:
    """Return the transforms of a project in the steps of an image, if they are such."""
    steps = [step for step in part.steps if step.type != "identity"]
    if any(axis.offset for axis in axes) or len(part.image.base.geometry.axes) != NDIM:
        return None
    if size is not None:
        first = steps.pop(0) if steps else None
        if first is None or first.members.get("scale") != inverse_sizes(size):
            return None
    if steps and steps[-1].type == "scale":
        steps.pop()
    rows = [np.array(step.members.get("affine", ()), float) for step in steps]
    if not all(each.shape == (NDIM, NDIM + 1) for each in rows):
        return None
    found = [Transform(step.name, in_c_order(each)) for step, each in zip(steps, rows, strict=True)]
    return tuple(found[::-1])


def _as_listed(
    project: Project, found: _Found, kept: Mapping[View, Registration]
) -> Project | None:
    """Return the project with the registrations as they were listed.

    Return None if some view would not be in its position, in the world that these registrations
    and those of missing views show.
    """
    if None in found.listed.values():
        return None
    listed = {view: Registration(steps or ()) for view, steps in found.listed.items()}
    whole = replace(project, registrations={**kept, **listed})
    if not all(_agrees(whole, view, rows) for view, rows in found.matrices.items()):
        return None
    return replace(project, registrations=listed)


def _calibrated(project: Project, found: _Found) -> Project:
    """Return the project with an affine and a calibration for each view."""
    sizes = [found.setups[view.setup].voxel_size or (1.0,) * NDIM for view in found.matrices]
    unit = min(min(size) for size in sizes)
    steps = {}
    for view, size in zip(found.matrices, sizes, strict=True):
        total, scales = found.matrices[view] / unit, np.array(size[::-1]) / unit
        total[:, :NDIM] /= scales
        calibration = Transform(CALIBRATION, as_tuples(np.eye(NDIM, NDIM + 1) * [*scales, 1.0]))
        steps[view] = Registration((Transform("registration", as_tuples(total)), calibration))
    return replace(project, registrations=steps)


def _agrees(project: Project, view: View, rows: np.ndarray) -> bool:
    placed = project.physical(view)
    near = 1e-9 * max(1.0, float(np.abs(rows).max()))
    return placed is not None and bool(np.abs(placed[0] - rows).max() <= near)
