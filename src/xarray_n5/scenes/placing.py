"""The positions of a scene's images in its world, as matrices along z, y, x."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.open import open_array
from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import join
from xarray_n5.model.system_graph import SystemGraph, lines_aside, on_space, space_axes
from xarray_n5.model.systems import Reference
from xarray_n5.model.transformations import compose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.model.system_graph import Line, Routes
    from xarray_n5.model.systems import CoordinateSystem, SystemAxis
    from xarray_n5.scenes.metadata import SceneImage, SceneMetadata

_FEW, _MOST = 8, 1 << 16
"""The number of systems that any scene may have, and the maximum cost of more: one for each
transformation that a search follows, and 64 for each level that is placed."""

_SHOWN = 3
"""The number of images, or transformations, that a warning names."""


@dataclass(frozen=True)
class World:
    """The systems of a scene and its images, and the ways between them."""

    group: Group
    metadata: SceneMetadata
    images: Sequence[SceneImage]

    @cached_property
    def graph(self) -> SystemGraph:
        """The graph of all systems."""
        systems = {Reference(system.name): system for system in self.metadata.systems}
        edges = list(self.metadata.edges)
        for image in self.images:
            systems |= image.systems
            edges += image.edges
        return SystemGraph(tuple(edges), systems, self._load)

    @cached_property
    def _is_small(self) -> bool:
        """Whether ways are searched from each image to all systems, of which there are more."""
        count = len(self.images)
        return count < len(self.metadata.systems) and count * len(self.graph.edges) <= _MOST

    @cached_property
    def _outward(self) -> dict[str, Routes]:
        """The ways from each image; if there are many, by its own transformations alone."""
        whole, small = self.graph, self._is_small
        graphs = [whole if small else replace(whole, edges=image.edges) for image in self.images]
        pairs = zip(self.images, graphs, strict=True)
        return {image.path: graph.routes(image.intrinsic, outward=True) for image, graph in pairs}

    @cached_property
    def _through(self) -> tuple[Routes, Routes]:
        """The ways from all systems to the world, and from there to all."""
        world = self.default or self.images[0].intrinsic
        return self.graph.routes(world), self.graph.routes(world, outward=True)

    def _load(self, path: str) -> Array:
        """Return the array of a matrix."""
        return open_array(self.group.container, join(self.group.path, path))

    @property
    def default(self) -> Reference | None:
        """The system in which images are placed."""
        return self.metadata.world(self.graph.systems)

    def named(self, default: Reference) -> dict[str, dict[str, Reference]]:
        """Return the systems by name, the `default` first: for the path of each image, its own.

        All images have those of the scene. Warnings name systems of images that are hidden by one
        of the scene with the same name, and those that are too many.
        """
        shared = {default.name: default}
        shared |= {system.name: Reference(system.name) for system in self.metadata.systems}
        of_images: dict[str, dict[str, Reference]] = {}
        hidden: list[str] = []
        for image in self.images:
            for system in image.systems:
                if system not in self.graph.neighbours or system in (image.intrinsic, default):
                    continue
                if system.name in shared:
                    hidden.append(str(system))
                else:
                    of_images.setdefault(system.name, {})[image.path] = system
        why = "are not available by name, since the scene has others with these names"
        self.warn_of("the systems ", hidden, f" of images {why}; open the images")
        levels = sum(len(image.image.levels) for image in self.images)
        searched = 0 if self._is_small else len(self.graph.edges)
        most = max(_FEW, _MOST // (searched + 64 * levels))
        self.warn_of("too many systems; not available by name: ", [*shared, *of_images][most:])
        whole = ((name, {i.path: end for i in self.images}) for name, end in shared.items())
        return dict(islice(chain(whole, of_images.items()), most))

    def _rows(self, image: SceneImage, end: Reference, system: CoordinateSystem) -> np.ndarray:
        """Return the matrix by a search from the image or, through the world, by two others."""
        if self.graph.systems[end].axes != system.axes:
            raise MetadataError("its system of this name has other axes")
        if self._is_small or end in self._outward[image.path].matrices:
            return self._outward[image.path].matrix(end)
        before, after = self._through
        return compose(before.matrix(image.intrinsic), after.matrix(end))

    def positions(self, to: Mapping[str, Reference]) -> Positions:
        """Return the positions of images in systems: that of each image by its path.

        Warnings name the images without a position, and what is ambiguous or not known.
        """
        matrices: dict[str, np.ndarray] = {}
        lines: dict[str, list[Line]] = {}
        lost: list[str] = []
        first, *others = dict.fromkeys(to.values())
        system = self.graph.systems[first]
        inward = None if others or self._is_small else self.graph.routes(first)
        searched = [inward] if inward else self._outward.values() if first == self.default else ()
        notes = [conflict for routes in searched for conflict in routes.conflicts]
        for image in self.images:
            if (end := to.get(image.path)) is None:
                continue
            axes = image.systems[image.intrinsic].axes
            try:
                rows = inward.matrix(image.intrinsic) if inward else self._rows(image, end, system)
                matrices[image.path] = spatial(rows, axes, system)
            except MetadataError as error:
                lost.append(f"{image.path!r}: {error}")
                continue
            lines[image.path], problems = lines_aside(rows, axes, system)
            routes, node = (inward, image.intrinsic) if inward else (self._outward[image.path], end)
            steps = islice(routes.steps(node), _SHOWN if problems else 0)
            edges = "".join(f", {edge}" for edge, _ in steps)
            notes += [f"{image.path!r}{edges}: {problem}" for problem in problems]
        self.warn_of(f"images have no position in {first}: ", lost)
        self.warn_of("", notes)
        return Positions(system, matrices, lines)

    def warn_of(self, what: str, problems: Sequence[str], why: str = "") -> None:
        """Warn about problems, if there are any; the first are shown."""
        if several := list(dict.fromkeys(problems)):
            more = f", and {len(several) - _SHOWN} others" if len(several) > _SHOWN else ""
            warn(f"{self.group.url}: {what}{'; '.join(several[:_SHOWN])}{more}{why}")


@dataclass(frozen=True)
class Positions:
    """The positions of images in a system, by the paths of images that have one."""

    system: CoordinateSystem
    matrices: Mapping[str, np.ndarray]
    """From intrinsic coordinates z, y, x to those of the system; a flat image is at z = 0."""
    lines: Mapping[str, Sequence[Line]]
    """The coordinates along other axes, such as time."""


def spatial(rows: np.ndarray, start: Sequence[SystemAxis], end: CoordinateSystem) -> np.ndarray:
    """Return the matrix of positions z, y, x from one between systems with any axes.

    Raises
    ------
    MetadataError
        If its axes of space are not x, y and z, or it has no inverse.
    """
    columns = [start[at].name.lower() for at in space_axes(start)]
    ends = [end.axes[at].name for at in space_axes(end.axes)]
    inner = on_space(rows, start, end)
    named = {name.lower() for name in ends} <= {*AXES}
    targets = [name.lower() for name in ends] if named else [*AXES[-len(ends) :]]
    if not {*columns} <= {*AXES} or not 0 < len(columns) <= len(targets) <= len(AXES):
        raise MetadataError(
            f"its axes of space are {columns}, those of {end.name!r} {ends}; expected x, y and z"
        )
    matrix = np.zeros((len(AXES), len(AXES) + 1))
    before, after = ([AXES.index(name) for name in names] for names in (columns, targets))
    matrix[np.ix_(after, [*before, -1])] = inner
    _complete(matrix, before, after)
    linear = matrix[:, :-1]
    if np.linalg.matrix_rank(linear / (np.abs(linear).max(initial=0) or 1), tol=1e-12) < len(AXES):
        raise MetadataError(f"the transformation to {end.name!r} is singular")
    return matrix


def _complete(rows: np.ndarray, columns: Sequence[int], targets: Sequence[int]) -> None:
    """Set the column of an axis that a flat image does not have: it is at right angles to it."""
    absent = [at for at in range(len(AXES)) if at not in columns]
    others = [at for at in range(len(AXES)) if at not in targets]
    if len(absent) == len(others):
        rows[others, absent] = 1.0
    elif len(absent) == 1:
        normal = np.cross(rows[:, columns[0]], rows[:, columns[1]])
        rows[:, absent[0]] = normal / (np.linalg.norm(normal) or 1.0)
