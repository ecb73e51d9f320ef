"""What the core asks about groups that describe scenes.

The function is that of `GroupReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.group import Group
from xarray_n5.datasets.placed import GroupScene, PlacedImage, matrices
from xarray_n5.datasets.world import AFFINE, AXES, WORLD_SYSTEM, WORLD_SYSTEMS
from xarray_n5.errors import NodeNotFoundError, printable
from xarray_n5.images.select import pick_level
from xarray_n5.model.axes import ROUNDING, Axis
from xarray_n5.model.image import Image, Level
from xarray_n5.model.system_graph import ImageSystems, SystemGraph
from xarray_n5.model.systems import Reference
from xarray_n5.model.units import same_unit, written_unit
from xarray_n5.scenes.metadata import find_images, read_metadata
from xarray_n5.scenes.placing import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.image import Part
    from xarray_n5.model.system_graph import Line
    from xarray_n5.model.systems import CoordinateSystem
    from xarray_n5.scenes.metadata import SceneImage
    from xarray_n5.scenes.placing import Positions

DIM = "image"
"""The dimension of images."""


def images_of(world: World) -> dict[str, PlacedImage]:
    """Return the images of a scene: one called "" of all if they are alike, or each by its path."""
    default = world.default
    placed: dict[str, Positions] = {}
    if default is not None:
        world.warn_of("", world.graph.exchanged())
        placed = {name: world.positions(to) for name, to in world.named(default).items()}
    images, problems = zip(*(_aside(image, placed) for image in world.images), strict=True)
    world.warn_of("", [problem for of_image in problems for problem in of_image])
    alike = len({_signature(image) for image in images}) == 1
    taken = {DIM, "axis", "column"} & {a.name for a in images[0].image.base.geometry.axes}
    if alike and not taken:
        return {"": _stacked(images, placed)}
    return {image.path: _stacked([image], placed, alone=True) for image in images}


def _aside(image: SceneImage, placed: Mapping[str, Positions]) -> tuple[SceneImage, list[str]]:
    """Return an image whose coordinates along axes such as time are positions in the world.

    Also return a message about each that is not.
    """
    listed = [of_system.lines.get(image.path, ()) for of_system in placed.values()]
    first, *rest = placed or [""]
    by_dim = ({line.along or line.axis.name: line for line in known} for known in listed or [()])
    lines, *others = by_dim
    axes = {str(axis.name): axis for axis in image.image.base.geometry.axes}
    moved = {dim: _moved(axis, lines.get(dim)) for dim, axis in axes.items()}
    lost = [
        f"{image.path!r}: the coordinate {dim!r} is that of {first!r}, not of {name!r}"
        for name, of_axes in zip(rest, others, strict=True)
        for dim, line in of_axes.items()
        if dim not in lines or (line.step, line.start) != (lines[dim].step, lines[dim].start)
    ]
    lost += [
        f"{image.path!r}: the coordinate {dim!r} is not that of {first!r}, {line.start:g} "
        f"+ {line.step:g} * {dim}"
        for dim, line in lines.items()
        if dim in axes and _moves(line) and moved[dim] == axes[dim]
    ]
    levels = {}
    for name, level in image.image.levels.items():
        level_axes = tuple(_moved(axis, lines.get(str(axis.name))) for axis in level.geometry.axes)
        levels[name] = replace(level, geometry=replace(level.geometry, axes=level_axes))
    return replace(image, image=replace(image.image, levels=levels)), lost


def _moves(line: Line) -> bool:
    return line.along is None or (line.step, line.start) != (1, 0)


def _moved(axis: Axis, line: Line | None) -> Axis:
    """Return an axis along which coordinates are those of a line; labels are kept instead."""
    if line is None or line.along is None or axis.labels is not None:
        return axis
    unit = axis.unit if line.step == 1 else None
    unit = line.axis.unit or unit
    if not _moves(line):
        return axis if same_unit(unit, axis.unit) else replace(axis, unit=unit)
    start = line.step * axis.offset + line.start
    return replace(axis, unit=unit, scale=line.step * axis.step, offset=start)


def _signature(image: SceneImage) -> object:
    """Return the properties that images with one dimension share."""
    return tuple(
        (level.shape, level.first.dtype.str, level.geometry)
        for level in image.image.levels.values()
    )


def _stacked(
    images: Sequence[SceneImage],
    placed: Mapping[str, Positions],
    *,
    alone: bool = False,
) -> PlacedImage:
    """Return images that are alike as one, or a single one without the dimension."""
    paths = [image.path for image in images]
    dims = () if alone else (DIM,)
    names, world = np.array(paths), next(iter(placed.values()), None)
    levels: dict[str, Level[Array]] = {}
    coords: dict[str, dict[str, xr.Variable]] = {}
    intrinsic = {image.intrinsic.name: image.systems[image.intrinsic] for image in images}
    systems = None
    if len(intrinsic) == 1:
        (system,) = intrinsic.values()
        systems = ImageSystems(system, SystemGraph((), {Reference(system.name): system}))
    for name, base in images[0].image.levels.items():
        axes_of_one = base.geometry
        geometry = axes_of_one if alone else axes_of_one.below((Axis(name=DIM),))
        geometry = replace(geometry, systems=systems)
        parts: dict[tuple[int, ...], Part[Array]] = {
            () if alone else (at,): image.image.levels[name].parts[()]
            for at, image in enumerate(images)
        }
        numbers = () if alone else (tuple(range(len(images))),)
        levels[name] = Level(parts, geometry, numbers)
        coords[name] = {DIM: xr.Variable(dims, names[0] if alone else names)}
        coords[name] |= _positions(axes_of_one, paths, dims, placed)
        coords[name] |= {} if world is None else _fixed(axes_of_one, paths, dims, world)
    omero = images[0].omero
    shared = omero is not None and all(image.omero == omero for image in images)
    attributes = {"omero": omero} if shared else {}
    return PlacedImage(Image(None, levels), coords, _in_world(images, world), attributes)


def _positions(
    geometry: Geometry,
    paths: Sequence[str],
    dims: tuple[str, ...],
    placed: Mapping[str, Positions],
) -> dict[str, xr.Variable]:
    """Return the matrices from the samples of a level to positions in each system."""
    named = {str(axis.name).lower(): axis for axis in geometry.axes}
    lines = [named.get(axis, Axis()) for axis in AXES]
    level = np.diag([*(axis.step for axis in lines), 1.0])
    level[: len(AXES), -1] = [axis.offset for axis in lines]
    lost = np.full((len(AXES), len(AXES) + 1), np.nan)
    variables: dict[str, xr.Variable] = {}
    for number, (name, positions) in enumerate(placed.items()):
        known = [positions.matrices.get(path) for path in paths]
        if all(rows is None for rows in known):
            continue
        values = np.array([lost if rows is None else rows @ level for rows in known])
        facts: dict[str, Any] = {"long_name": "from samples of this level to positions"}
        facts[WORLD_SYSTEM] = name
        if unit := _unit(positions.system):
            facts["units"] = unit
        if number == 0 and len(placed) > 1:
            facts[WORLD_SYSTEMS] = list(placed)
        key = f"{AFFINE}_{_variable(name)}" if number else AFFINE
        while key in variables:
            key += "_"
        variables |= matrices(key, dims, values if dims else values[0], facts, lines)
    return variables


def _variable(name: str) -> str:
    """Return a name that a variable in a tree may have."""
    return name.replace("/", "_")


def _fixed(
    geometry: Geometry, paths: Sequence[str], dims: tuple[str, ...], world: Positions
) -> dict[str, xr.Variable]:
    """Return the coordinates of whole images along axes that they do not have, such as time."""
    taken = {DIM, "axis", "column", *AXES, *(str(axis.name) for axis in geometry.axes)}
    lines = ((path, line) for path in paths for line in world.lines.get(path, ()))
    starts = {(path, line.axis): line.start for path, line in lines if line.along is None}
    variables = {}
    for axis in world.system.axes:
        values = [starts.get((path, axis), np.nan) for path in paths]
        if (name := _variable(axis.name)) not in taken and not np.isnan(values).all():
            facts = {"units": written_unit(axis.unit)} if axis.unit else {}
            variables[name] = xr.Variable(dims, values if dims else values[0], facts)
    return variables


def _unit(system: CoordinateSystem) -> str | None:
    """Return the unit that the axes of space share."""
    units = [axis.unit for axis in system.axes if axis.name.lower() in AXES or axis.type == "space"]
    same = bool(units) and all(same_unit(unit, units[0]) for unit in units)
    return written_unit(units[0]) if same else None


def _in_world(
    images: Sequence[SceneImage],
    world: Positions | None,
) -> bool:
    """Return whether the coordinates of all images are positions in the world."""
    if world is None:
        return False
    unit = _unit(world.system)
    for image in images:
        rows = world.matrices.get(image.path)
        axes = [a for a in image.image.base.geometry.axes if str(a.name).lower() in AXES]
        if rows is None or not all(same_unit(axis.unit, unit) for axis in axes):
            return False
        if np.abs(rows - np.eye(len(AXES), len(AXES) + 1)).max() > ROUNDING:
            return False
    return True


_SHOWN = 8
"""The maximum number of names that are listed."""


def scene_of(group: object) -> NgffScene | None:
    """Return the scene that a group's attributes describe; None for other nodes."""
    return NgffScene(group) if isinstance(group, Group) else None


class NgffScene(GroupScene):
    """A scene by its group."""

    kind = "scene"

    def open_dataset(self, group: str, options: DatasetOptions) -> xr.Dataset:
        """Open one level of all images, if they are alike."""
        placed = self.at(group, options)
        if "" not in placed:
            shown = ", ".join([*list(placed)[:_SHOWN], *["..."] * (len(placed) > _SHOWN)])
            raise ValueError(
                f"the images of {self.url!r} differ in shape, type, levels or axes "
                f"({printable(shown)}); open one with group=, or all of them with "
                "xarray.open_datatree"
            )
        levels = placed[""].image.levels
        level = pick_level([*levels], options.level, lambda: levels, self.url)
        return placed[""].dataset(level, self.name, self.url, options)

    @property
    def name(self) -> str:
        """The name of variables: that of the scene."""
        from xarray_n5.images.find import name_of_group

        return name_of_group(self.group)

    def placed(self, options: DatasetOptions) -> dict[str, PlacedImage]:
        """Return the images by name; "" if they are alike.

        Raises
        ------
        MetadataError
            If the scene is invalid.
        NodeNotFoundError
            If it has no images.
        """
        metadata = read_metadata(self.group.attrs["ome"], self.url)
        images = find_images(self.group, metadata.paths, options.dialect)
        if not images:
            named = ", ".join(metadata.paths[:_SHOWN]) or "none"
            raise NodeNotFoundError(self.url, "", "image", f"the scene names the images {named}")
        return images_of(World(self.group, metadata, images))
