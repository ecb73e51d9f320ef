"""The positions of a scene's images in its world, as matrices along z, y, x."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.model.alerts import warn
from xarray_n5.model.system_graph import SystemGraph, on_space, space_axes
from xarray_n5.model.systems import Reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.model.system_graph import Route
    from xarray_n5.model.systems import CoordinateSystem
    from xarray_n5_scenes.images import SceneImage
    from xarray_n5_scenes.metadata import SceneMetadata

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

    @property
    def others(self) -> list[Reference]:
        """The scene's other systems."""
        own = [Reference(each.name) for each in self.metadata.systems]
        return [each for each in own if each != self.default]

    def route(self, image: SceneImage, to: Reference) -> Route:
        """Return the way from an image's intrinsic system; raise MetadataError without any."""
        try:
            return self.graph.route(image.intrinsic, to)
        except N5Error as error:
            raise MetadataError(str(error)) from error

    def matrix(self, image: SceneImage, to: Reference) -> np.ndarray:
        """Return the matrix from an image's intrinsic coordinates z, y, x to a system's.

        A flat image lies at z = 0.

        Raises
        ------
        MetadataError
            If there is no way, or it has no inverse.
        """
        return spatial(self.route(image, to).matrix, image, self.graph.systems[to])

    def positions(self, to: Reference) -> dict[str, np.ndarray]:
        """Return the matrices of all images that have a position in a system, by path.

        One warning names the others.
        """
        found: dict[str, np.ndarray] = {}
        lost: dict[str, str] = {}
        for image in self.images:
            try:
                found[image.path] = self.matrix(image, to)
            except MetadataError as error:
                lost[image.path] = str(error)
        if lost:
            shown = "; ".join(f"{path!r}: {why}" for path, why in list(lost.items())[:_SHOWN])
            more = f", and {len(lost) - _SHOWN} others" if len(lost) > _SHOWN else ""
            warn(f"{self.group.url}: images have no position in {to}: {shown}{more}")
        return found

    def complain(self, to: Reference) -> None:
        """Warn about edges that exchange the names of axes, and about ways that do not agree."""
        messages = list(self.graph.exchanged())
        for image in self.images:
            try:
                messages.append(self.graph.route(image.intrinsic, to).conflict or "")
            except MetadataError:
                continue
        several = list(dict.fromkeys(filter(None, messages)))
        if several:
            more = f", and {len(several) - _SHOWN} others" if len(several) > _SHOWN else ""
            warn(f"{self.group.url}: {'; '.join(several[:_SHOWN])}{more}")


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
