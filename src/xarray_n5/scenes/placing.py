"""The positions of a scene's images in its world, as matrices along z, y, x."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.model.alerts import warn
from xarray_n5.model.scene import lines_aside
from xarray_n5.model.system_graph import SystemGraph, on_space, space_axes
from xarray_n5.model.systems import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.model.scene import Line
    from xarray_n5.model.system_graph import Route
    from xarray_n5.model.systems import CoordinateSystem
    from xarray_n5.scenes.images import SceneImage
    from xarray_n5.scenes.metadata import SceneMetadata

_MOST_STEPS = 1 << 22
"""The maximum number of transformations that are followed from all images."""

_SHOWN = 3
"""The number of images that a warning names."""


@dataclass(frozen=True)
class World:
    """The systems of a scene and its images, and the ways between them."""

    group: Group
    metadata: SceneMetadata
    images: Sequence[SceneImage]

    @cached_property
    def graph(self) -> SystemGraph:
        """The graph of all systems."""
        systems = {Reference(each.name): each for each in self.metadata.systems}
        edges = list(self.metadata.edges)
        for image in self.images:
            systems |= image.systems
            edges += image.edges
        if len(edges) * len(self.images) > _MOST_STEPS and len(edges) > 2 * len(self.images):
            raise MetadataError(
                f"{self.group.url}: the scene has {len(edges)} transformations for "
                f"{len(self.images)} images, too many to follow; expected one for each image"
            )
        return SystemGraph(tuple(edges), systems, self._load)

    def _load(self, path: str) -> Any:
        """Return the array of a matrix."""
        try:
            return self.group[path]
        except KeyError:
            raise MetadataError(f"{self.group.url}: there is no array {path!r}") from None

    @property
    def default(self) -> Reference | None:
        """The system in which images are placed."""
        return self.metadata.world(self.graph.systems)

    def named(self, default: Reference) -> dict[str, dict[str, Reference]]:
        """Return the systems by name, the `default` first: for the path of each image, its own.

        All images have those of the scene. A warning names systems of images that are hidden by one
        of the scene with the same name.
        """
        shared = [default, *(Reference(each.name) for each in self.metadata.systems)]
        paths = [image.path for image in self.images]
        found = {each.name: dict.fromkeys(paths, each) for each in shared}
        linked = {end for edge in self.graph.edges for end in (edge.input, edge.output)}
        hidden: list[str] = []
        for image in self.images:
            for own in image.systems:
                if own not in linked or own in (image.intrinsic, default):
                    continue
                if found.setdefault(own.name, {}).setdefault(image.path, own) != own:
                    hidden.append(str(own))
        if hidden:
            shown = ", ".join([*hidden[:_SHOWN], *["..."] * (len(hidden) > _SHOWN)])
            warn(
                f"{self.group.url}: the systems {shown} of images are not available by name, since "
                "the scene has others with these names; open the images"
            )
        return found

    def route(self, image: SceneImage, to: Reference) -> Route:
        """Return the way from an image's intrinsic system; raise MetadataError without any."""
        try:
            return self.graph.route(image.intrinsic, to)
        except N5Error as error:
            raise MetadataError(str(error)) from error

    def positions(self, to: Mapping[str, Reference]) -> Positions:
        """Return the positions of images in systems: that of each image by its path.

        Warnings name the images without a position, and what is ambiguous or not known.
        """
        matrices: dict[str, np.ndarray] = {}
        lines: dict[str, list[Line]] = {}
        lost: list[str] = []
        notes: list[str] = []
        first = next(iter(to.values()))
        for image in self.images:
            if (end := to.get(image.path)) is None:
                continue
            system = self.graph.systems[end]
            if system.axes != self.graph.systems[first].axes:
                lost.append(f"{image.path!r}: its system of this name has other axes")
                continue
            try:
                route = self.route(image, end)
                matrices[image.path] = spatial(route.matrix, image, system)
            except MetadataError as error:
                lost.append(f"{image.path!r}: {error}")
                continue
            axes = image.systems[image.intrinsic].axes
            lines[image.path], problems = lines_aside(route.matrix, axes, system)
            edges = ", ".join(str(edge) for edge, _ in route.steps)
            notes += [f"{image.path!r}, {edges}: {problem}" for problem in problems]
            notes += [route.conflict] if route.conflict else []
        self.warn_of(f"images have no position in {first}: ", lost)
        self.warn_of("", notes)
        return Positions(self.graph.systems[first], matrices, lines)

    def warn_of(self, what: str, problems: Sequence[str]) -> None:
        """Warn about problems, if there are any; the first are shown."""
        if several := list(dict.fromkeys(problems)):
            more = f", and {len(several) - _SHOWN} others" if len(several) > _SHOWN else ""
            warn(f"{self.group.url}: {what}{'; '.join(several[:_SHOWN])}{more}")


@dataclass(frozen=True)
class Positions:
    """The positions of images in a system, by the paths of images that have one."""

    system: CoordinateSystem
    matrices: Mapping[str, np.ndarray]
    """From intrinsic coordinates z, y, x to those of the system; a flat image is at z = 0."""
    lines: Mapping[str, Sequence[Line]]
    """The coordinates along other axes, such as time."""


def spatial(rows: np.ndarray, image: SceneImage, end: CoordinateSystem) -> np.ndarray:
    """Return the matrix of positions z, y, x from one between systems with any axes.

    Raises
    ------
    MetadataError
        If its axes of space are not x, y and z, or it has no inverse.
    """
    start = image.systems[image.intrinsic].axes
    columns = [start[at].name.lower() for at in space_axes(start)]
    own = [end.axes[at].name for at in space_axes(end.axes)]
    inner = on_space(rows, start, end)
    named = {each.lower() for each in own} <= {*AXES}
    targets = [each.lower() for each in own] if named else [*AXES[-len(own) :]]
    if not {*columns} <= {*AXES} or not 0 < len(columns) <= len(targets) <= len(AXES):
        raise MetadataError(
            f"its axes of space are {columns}, those of {end.name!r} are {own}; expected x, y and z"
        )
    found = np.zeros((len(AXES), len(AXES) + 1))
    at = [AXES.index(each) for each in targets]
    for number, column in enumerate(columns):
        found[at, AXES.index(column)] = inner[:, number]
    found[at, -1] = inner[:, -1]
    _complete(found, [AXES.index(each) for each in columns], at)
    linear = found[:, :-1]
    if np.linalg.matrix_rank(linear / (np.abs(linear).max(initial=0) or 1), tol=1e-12) < len(AXES):
        raise MetadataError(f"the transformation to {end.name!r} is singular")
    return found


def _complete(rows: np.ndarray, columns: Sequence[int], targets: Sequence[int]) -> None:
    """Set the column of an axis that a flat image does not have: it is at right angles to it."""
    absent = [at for at in range(len(AXES)) if at not in columns]
    others = [at for at in range(len(AXES)) if at not in targets]
    if len(absent) == len(others):
        rows[others, absent] = 1.0
    elif len(absent) == 1:
        normal = np.cross(rows[:, columns[0]], rows[:, columns[1]])
        rows[:, absent[0]] = normal / (np.linalg.norm(normal) or 1.0)
