"""The graph of coordinate systems that transformations lead from and to.

A node is a :class:`Reference`: the name of a system and the path of its group, relative to the
group of the graph, or the path of a dataset without a name::

    SystemGraph(edges, systems, load=None)      # Transformations with input and output
    SystemGraph.routes(hub, outward=False) -> Routes from all systems to one, or from one to all
    Routes.matrix(system) -> array, Routes.steps(system), Routes.conflicts
    SystemGraph.exchanged() -> list of messages about edges that exchange names of axes
    space_axes(system) -> indices of its axes of space, as z, y, x
    on_space(matrix, start_axes, end) -> matrix of these axes only
    ImageSystems.placements(load=None) -> the systems of an image that its samples have positions in
    lines_aside(matrix, start_axes, end) -> coordinates along axes that are not of space

Errors are :class:`MetadataError`, whose message says why there is no way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.model.systems import Reference
from xarray_n5.model.transformations import compose, inverse, matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xarray_n5.model.systems import CoordinateSystem, SystemAxis
    from xarray_n5.model.transformations import Loader, Transformation


_TOLERANCE = 1e-6
"""The largest difference of two ways that are the same."""

_ZYX = ("z", "y", "x")

SYSTEM = "coordinate_system"
"""The encoding's key for the name of the system of an image's coordinates, in OME-Zarr 0.6."""

SYSTEMS = "coordinate_systems"
"""The encoding's key for the image's other systems by name: ``axes``, ``units``, ``dims`` of the
image, and ``affine``, the rows of a matrix from coordinates along these to the system."""


@dataclass(frozen=True, slots=True)
class Routes:
    """The shortest ways from all systems to one, the hub, or outward from the hub to all."""

    hub: Reference
    outward: bool
    matrices: dict[Reference, np.ndarray]
    """Rows of the end's axes, columns of the start's axes and the offset."""
    towards: dict[Reference, tuple[Transformation, bool, Reference]] = field(default_factory=dict)
    """The first step to the hub, whether it is inverted, and the system that it leads to."""
    reasons: dict[Reference, str] = field(default_factory=dict)
    """Why systems have no way: the transformation to the hub that cannot be followed."""
    conflicts: list[str] = field(default_factory=list)
    """Messages about transformations that lead to other positions than the ways."""

    def matrix(self, node: Reference) -> np.ndarray:
        """Return the matrix of a system's way; raise MetadataError if it has none."""
        if node not in self.matrices:
            start, end = (self.hub, node) if self.outward else (node, self.hub)
            reason = f": {self.reasons[node]}" if node in self.reasons else ""
            raise MetadataError(f"no transformations lead from {start} to {end}{reason}")
        return self.matrices[node]

    def steps(self, node: Reference) -> Iterator[tuple[Transformation, bool]]:
        """Iterate over the steps from a system to the hub, and whether each is inverted."""
        while node in self.towards:
            edge, back, node = self.towards[node]
            yield edge, back


@dataclass(frozen=True)
class SystemGraph:
    """Transformations between coordinate systems, which are followed in both directions."""

    edges: tuple[Transformation, ...]
    systems: Mapping[Reference, CoordinateSystem]
    """The known systems; those of datasets, and unknown ones, have as many axes as needed."""
    load: Loader | None = None

    @cached_property
    def neighbours(self) -> dict[Reference, list[tuple[int, bool, Reference]]]:
        """The numbers of the edges at each system, whether inverted, and where they lead."""
        edges_at: dict[Reference, list[tuple[int, bool, Reference]]] = {}
        for number, edge in enumerate(self.edges):
            if edge.input is None or edge.output is None:
                continue
            edges_at.setdefault(edge.input, []).append((number, False, edge.output))
            edges_at.setdefault(edge.output, []).append((number, True, edge.input))
        return edges_at

    @cached_property
    def _rows(self) -> Callable[[int, bool, int], np.ndarray | str]:
        """The function :meth:`_matrix`, which is called once for each edge and direction."""
        return cache(self._matrix)

    def routes(self, hub: Reference, *, outward: bool = False) -> Routes:
        """Return the shortest ways to a system, or outward from it, by the first listed edges.

        The search is breadth first: the matrix of a way is that of one edge and that of the system
        next to it. Each other edge between two systems with ways is compared with these, once.
        """
        size = len(self.systems[hub].axes)
        routes = Routes(hub, outward, {hub: np.eye(size, size + 1)})
        frontier, used = [hub], set[int]()
        while frontier:
            listed = [(*edge, near) for near in frontier for edge in self.neighbours.get(near, ())]
            frontier = []
            for number, back, far, near in listed if outward else sorted(listed, key=itemgetter(0)):
                is_known, edge = far in routes.matrices, self.edges[number]
                if is_known and (number in used or back == outward):
                    continue
                try:
                    rows = self._joined(routes, near, number, back)
                except MetadataError as error:
                    routes.reasons.setdefault(far, f"{edge}: {error}")
                    continue
                if is_known and _differ(routes.matrices[far], rows):
                    routes.conflicts.append(f"{edge} and shorter ways lead to other positions")
                elif not is_known:
                    routes.matrices[far] = rows
                    routes.towards[far] = edge, not back, near
                    used.add(number)
                    frontier.append(far)
        self._explain(routes)
        return routes

    def _joined(self, routes: Routes, near: Reference, number: int, back: bool) -> np.ndarray:
        """Return the matrix of the way by an edge at a system, and the system's way."""
        known = routes.matrices[near]
        size = len(known) if routes.outward else known.shape[1] - 1
        rows = self._rows(number, back == routes.outward, size)
        if isinstance(rows, str):
            raise MetadataError(rows)
        return compose(known, rows) if routes.outward else compose(rows, known)

    def _matrix(self, number: int, back: bool, size: int) -> np.ndarray | str:
        """Return the matrix of an edge, or why it has none; unknown systems have `size` axes."""
        edge = self.edges[number]
        start, end = (self.systems.get(node) for node in (edge.input, edge.output) if node)
        try:
            rows = matrix(edge, len(start.axes) if start else size, self.load)
            if end is not None and len(end.axes) != len(rows):
                return f"leads to {len(rows)} axes, expected the {len(end.axes)} of {end.name!r}"
            return inverse(edge, rows.shape[1] - 1, self.load) if back else rows
        except N5Error as error:
            return str(error).removeprefix(f"{edge}: ")

    def _explain(self, routes: Routes) -> None:
        """Give the reason of an edge that cannot be followed to all systems behind it."""
        unreached = [*routes.reasons]
        for node in unreached:
            for _, _, far in self.neighbours[node]:
                if far not in routes.matrices and far not in routes.reasons:
                    routes.reasons[far] = routes.reasons[node]
                    unreached.append(far)

    def exchanged(self) -> list[str]:
        """Return messages about edges that map axes to others by position, against their names.

        The position is right by the specification, and the names may be wrong.
        """
        messages = []
        for edge in self.edges:
            ends = [self.systems.get(node) for node in (edge.input, edge.output) if node]
            match [[axis.name for axis in end.axes] for end in ends if end]:
                case [before, after] if before != after and sorted(before) == sorted(after):
                    if _by_position(edge):
                        messages.append(f"{edge} maps the axes {before} to {after} by position")
        return messages


def _by_position(edge: Transformation) -> bool:
    simple = edge.type in {"identity", "scale", "translation"}
    return simple or (edge.type == "sequence" and all(map(_by_position, edge.parts)))


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    limit = _TOLERANCE * np.maximum(1, np.abs(one))
    return one.shape != other.shape or bool((np.abs(one - other) > limit).any())


def space_axes(axes: Sequence[SystemAxis]) -> list[int]:
    """Return the indices of the axes of space, or of an array whose axes are of no other kind.

    They are in the order z, y, x if these are their names, otherwise as listed.
    """
    indices = [
        at
        for at, axis in enumerate(axes)
        if axis.type in {"space", "array"} or (axis.type is None and axis.name.lower() in _ZYX)
    ]
    names = {axes[at].name.lower(): at for at in indices}
    if len(names) == len(indices) and names.keys() <= {*_ZYX}:
        return [names[name] for name in _ZYX if name in names]
    return indices


def on_space(rows: np.ndarray, start: Sequence[SystemAxis], end: CoordinateSystem) -> np.ndarray:
    """Return the part of a matrix that maps positions in space, its axes in the order z, y, x.

    Raises
    ------
    MetadataError
        If a coordinate of space depends on another axis, such as time.
    """
    columns, wanted = space_axes(start), space_axes(end.axes)
    others = [at for at in range(len(start)) if at not in columns]
    for row in wanted:
        mixed = [start[at].name for at in others if rows[row, at] != 0]
        if mixed:
            raise MetadataError(
                f"the axis {end.axes[row].name!r} of {end.name!r} depends on {mixed[0]!r}, which "
                "is not an axis of space"
            )
    return rows[np.ix_(wanted, [*columns, -1])]


@dataclass(frozen=True, slots=True)
class Placement:
    """The positions of an image in one of its other coordinate systems."""

    axes: tuple[str, ...]
    """The names of its axes of space: z, y, x, if these are their names."""
    units: tuple[str | None, ...]
    dims: tuple[str, ...]
    """The names of the axes of space of the intrinsic system, in the same order."""
    rows: tuple[tuple[float, ...], ...]
    """The matrix from intrinsic positions, with a column for the offset."""


@dataclass(frozen=True, slots=True)
class ImageSystems:
    """The coordinate systems of an image, and the transformations between them."""

    intrinsic: CoordinateSystem
    """The system of its coordinates, to which its levels lead."""
    graph: SystemGraph
    path: str = ""
    """The path of its group."""
    problems: tuple[str, ...] = ()
    """What is invalid."""

    @property
    def others(self) -> list[str]:
        """The names of the other systems, and the paths of labels that transformations lead to."""
        names = [system.name for system in self.graph.systems if system.name != self.intrinsic.name]
        ends = (end for edge in self.graph.edges for end in (edge.input, edge.output))
        return list(dict.fromkeys([*names, *(end.path for end in ends if end and end.path)]))

    @property
    def needs_arrays(self) -> bool:
        """Whether numbers of a transformation are in an array."""
        return any(map(_has_path, self.graph.edges))

    def placements(self, load: Loader | None = None) -> tuple[dict[str, Placement], list[str]]:
        """Return the positions in each other system of the image, and what cannot be computed.

        Systems that no transformation leads to are left out, and those of labels.
        """
        placements: dict[str, Placement] = {}
        start, axes = Reference(self.intrinsic.name), self.intrinsic.axes
        routes = replace(self.graph, load=load).routes(start, outward=True)
        problems = [*self.problems, *routes.conflicts]
        dims = tuple(axes[at].name for at in space_axes(axes))
        for reference, system in self.graph.systems.items():
            if reference == start or reference.path or reference not in self.graph.neighbours:
                continue
            try:
                rows = on_space(routes.matrix(reference), axes, system)
            except MetadataError as error:
                problems.append(str(error))
                continue
            shown = [system.axes[at] for at in space_axes(system.axes)]
            placements[system.name] = Placement(
                tuple(axis.name for axis in shown),
                tuple(axis.unit for axis in shown),
                dims,
                tuple(tuple(row) for row in rows.tolist()),
            )
        return placements, problems + self.graph.exchanged()


def _has_path(one: Transformation) -> bool:
    return (one.type in {"affine", "rotation"} and "path" in one.members) or any(
        map(_has_path, one.parts)
    )


@dataclass(frozen=True, slots=True)
class Line:
    """The coordinates of an image along an axis of its world that is not one of space."""

    axis: SystemAxis
    """The world's axis."""
    along: str | None
    """The image's axis along which they change, or None if the whole image is at `start`."""
    step: float
    start: float


def lines_aside(
    rows: np.ndarray, start: Sequence[SystemAxis], end: CoordinateSystem
) -> tuple[list[Line], list[str]]:
    """Return an image's coordinates along axes such as time, and why others are not known.

    Parameters
    ----------
    rows, start, end
        The matrix from the axes of the image to those of the world.
    """
    lines: list[Line] = []
    problems: list[str] = []
    space = space_axes(end.axes)
    for axis, row in ((axis, rows[n]) for n, axis in enumerate(end.axes) if n not in space):
        at = np.flatnonzero(row[:-1]).tolist()
        names = [start[n].name for n in at]
        if not names:
            lines.append(Line(axis, None, 0.0, float(row[-1])))
        elif len(names) == 1 and _are_alike(start[at[0]], axis):
            lines.append(Line(axis, names[0], float(row[at[0]]), float(row[-1])))
        else:
            shown = " and ".join(map(repr, names))
            problems.append(f"the axis {axis.name!r} of {end.name!r} depends on {shown}")
    return lines, problems


def _are_alike(one: SystemAxis, other: SystemAxis) -> bool:
    """Return whether axes have the same type or, without a type of both, the same name."""
    if None in {one.type, other.type}:
        return one.name.lower() == other.name.lower()
    return one.type == other.type
