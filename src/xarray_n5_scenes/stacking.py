"""Join images that are alike along a dimension, and place each by its matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.datasets.placed import PlacedImage, matrices
from xarray_n5.datasets.world import AFFINE, AXES, START, STEP, WORLD_SYSTEM, WORLD_SYSTEMS
from xarray_n5.model.axes import Axis
from xarray_n5.model.image import Image, Level
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5.model.units import same_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.image import Part
    from xarray_n5.model.systems import CoordinateSystem
    from xarray_n5_scenes.images import SceneImage
    from xarray_n5_scenes.placing import World

DIM = "image"
"""The dimension of images."""


def images_of(world: World) -> dict[str, PlacedImage]:
    """Return the images of a scene: one called "" of all if they are alike, or each by its path."""
    default = world.default
    systems = [] if default is None else [default, *world.others]
    if default is not None:
        world.complain(default)
    placed = {each.name: (world.graph.systems[each], world.positions(each)) for each in systems}
    images = world.images
    alike = len({_signature(image) for image in images}) == 1
    taken = {DIM, "axis", "column"} & {a.name for a in images[0].image.base.geometry.axes}
    if alike and not taken:
        return {"": _stacked(images, placed)}
    return {image.path: _stacked([image], placed, alone=True) for image in images}


def _signature(image: SceneImage) -> object:
    """Return the properties that images with one dimension share."""
    return tuple(
        (level.shape, level.first.dtype.str, level.geometry, level.transposed)
        for level in image.image.levels.values()
    )


def _stacked(
    images: Sequence[SceneImage],
    placed: Mapping[str, tuple[CoordinateSystem, Mapping[str, np.ndarray]]],
    *,
    alone: bool = False,
) -> PlacedImage:
    """Return images that are alike as one, or a single one without the dimension."""
    paths = [image.path for image in images]
    dims = () if alone else (DIM,)
    names = np.array(paths)
    found: dict[str, Level[Array]] = {}
    coords: dict[str, dict[str, xr.Variable]] = {}
    for name, base in images[0].image.levels.items():
        own = base.geometry.transpose() if base.transposed else base.geometry
        geometry = own if alone else own.below((Axis(name=DIM),))
        parts: dict[tuple[int, ...], Part[Array]] = {
            () if alone else (at,): image.image.levels[name].parts[()]
            for at, image in enumerate(images)
        }
        numbers = () if alone else (tuple(range(len(images))),)
        found[name] = Level(
            parts,
            geometry.transpose() if base.transposed else geometry,
            numbers,
            transposed=base.transposed,
        )
        coords[name] = {DIM: xr.Variable(dims, names[0] if alone else names)}
        coords[name] |= _positions(own, paths, dims, placed)
    world = next(iter(placed.values()), None)
    return PlacedImage(Image(None, found), coords, _in_world(images, world))


def _positions(
    geometry: Geometry,
    paths: Sequence[str],
    dims: tuple[str, ...],
    placed: Mapping[str, tuple[CoordinateSystem, Mapping[str, np.ndarray]]],
) -> dict[str, xr.Variable]:
    """Return the matrices from the samples of a level to positions in each system."""
    named = {str(axis.name).lower(): axis for axis in geometry.axes}
    lines = [named.get(axis, Axis()) for axis in AXES]
    level = np.diag([*(axis.step for axis in lines), 1.0])
    level[: len(AXES), -1] = [axis.offset for axis in lines]
    found: dict[str, xr.Variable] = {}
    for number, (name, (system, known)) in enumerate(placed.items()):
        if not any(path in known for path in paths):
            continue
        values = np.full((len(paths), len(AXES), len(AXES) + 1), np.nan)
        for at, path in enumerate(paths):
            if path in known:
                values[at] = known[path] @ level
        facts: dict[str, Any] = {
            "long_name": "from samples of this level to positions",
            WORLD_SYSTEM: name,
            START: [axis.offset for axis in lines],
            STEP: [axis.step for axis in lines],
        }
        if unit := _unit(system):
            facts["units"] = unit
        if number == 0 and len(placed) > 1:
            facts[WORLD_SYSTEMS] = list(placed)
        own = f"{AFFINE}_{name}" if number else AFFINE
        found |= matrices(own, dims, values if dims else values[0], facts)
    return found


def _unit(system: CoordinateSystem) -> str | None:
    """Return the unit that the axes of space share."""
    units = [axis.unit for axis in system.axes if axis.name.lower() in AXES or axis.type == "space"]
    same = bool(units) and all(same_unit(unit, units[0]) for unit in units)
    return written_unit(units[0]) if same else None


def _in_world(
    images: Sequence[SceneImage],
    world: tuple[CoordinateSystem, Mapping[str, np.ndarray]] | None,
) -> bool:
    """Return whether the coordinates of all images are positions in the world."""
    if world is None:
        return False
    system, known = world
    unit = _unit(system)
    for image in images:
        rows = known.get(image.path)
        axes = [a for a in image.image.base.geometry.axes if str(a.name).lower() in AXES]
        if rows is None or not all(same_unit(axis.unit, unit) for axis in axes):
            return False
        if np.abs(rows - np.eye(len(AXES), len(AXES) + 1)).max() > ROUNDING:
            return False
    return True
