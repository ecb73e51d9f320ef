"""The graph of coordinate systems that transformations lead from and to.

A node is a :class:`Reference`: the name of a system and the path of its group, relative to the
group of the graph, or the path of a dataset without a name::

    SystemGraph(edges, systems, load=None)      # Transformations with input and output
    SystemGraph.route(start, end, n_in=None) -> Route(steps, matrix, conflict)
    SystemGraph.exchanged() -> list of messages about edges that exchange names of axes
    space_axes(system) -> indices of its axes of space, as z, y, x
    on_space(matrix, start_axes, end) -> matrix of these axes only
    ImageSystems.placements(load=None) -> the systems of an image that its samples have positions in

Errors are :class:`MetadataError`, whose message says why there is no way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.model.matrices import compose, inverse, matrix
from xarray_n5.model.systems import Reference
from xarray_n5.model.transformations import parse_transformation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.model.matrices import Loader
    from xarray_n5.model.systems import CoordinateSystem, SystemAxis
    from xarray_n5.model.transformations import Transformation

_TOLERANCE = 1e-6
"""The largest difference of two ways that are the same."""

_SHOWN = 3
"""The number of reasons in a message."""

_ZYX = ("z", "y", "x")

SYSTEM = "coordinate_system"
"""The encoding's key for the name of the system of an image's coordinates, in OME-Zarr 0.6."""

SYSTEMS = "coordinate_systems"
"""The encoding's key for the image's other systems by name: ``axes``, ``units``, ``dims`` of the
image, and ``affine``, the rows of a matrix from coordinates along these to the system."""


@dataclass(frozen=True, slots=True)
class Route:
    """The shortest way from one system to another one."""

    steps: tuple[tuple[Transformation, bool], ...]
    """The transformations in order, and whether each is inverted."""
    matrix: np.ndarray
    """Rows of the end's axes, columns of the start's axes and the offset."""
    conflict: str | None = None
    """A message if another way leads to other positions."""


@dataclass(frozen=True)
class SystemGraph:
    """Transformations between coordinate systems, which are followed in both directions."""

    edges: tuple[Transformation, ...]
    systems: Mapping[Reference, CoordinateSystem]
    """The known systems; those of datasets, and unknown ones, have as many axes as needed."""
    load: Loader | None = None

    @cached_property
    def _neighbours(self) -> dict[Reference, list[tuple[int, bool, Reference]]]:
        """The numbers of the edges at each system, whether inverted, and where they lead."""
        found: dict[Reference, list[tuple[int, bool, Reference]]] = {}
        for number, edge in enumerate(self.edges):
            if edge.input is None or edge.output is None:
                continue
            found.setdefault(edge.input, []).append((number, False, edge.output))
            found.setdefault(edge.output, []).append((number, True, edge.input))
        return found

    def route(self, start: Reference, end: Reference, n_in: int | None = None) -> Route:
        """Return the shortest way, by the first listed edges if several are as short.

        Parameters
        ----------
        start
            The system, or the dataset, where it begins.
        end
            The system to which it leads.
        n_in
            The number of axes of the start, if it is not a known system.

        Raises
        ------
        MetadataError
            If there is no way of affine transformations, inverted ones among them.
        """
        if n_in is None:
            if start not in self.systems:
                raise MetadataError(f"the coordinate system {start} is not known")
            n_in = len(self.systems[start].axes)
        reasons: list[str] = []
        steps, rows = self._shortest(start, end, n_in, None, reasons)
        if steps is None:
            known = "; ".join(dict.fromkeys(reasons[:_SHOWN]))
            raise MetadataError(
                f"no transformations lead from {start} to {end}{': ' if known else ''}{known}"
            )
        for number, _ in steps:
            others, again = self._shortest(start, end, n_in, number, [])
            if others is not None and _differ(rows, again):
                way = ", ".join(str(self.edges[at]) for at, _ in others)
                return self._as_route(
                    steps, rows, f"from {start} to {end}, {way} lead to other positions"
                )
        return self._as_route(steps, rows, None)

    def _as_route(
        self, steps: Sequence[tuple[int, bool]], rows: np.ndarray, conflict: str | None
    ) -> Route:
        return Route(tuple((self.edges[at], back) for at, back in steps), rows, conflict)

    def _shortest(
        self, start: Reference, end: Reference, n_in: int, without: int | None, reasons: list[str]
    ) -> tuple[list[tuple[int, bool]] | None, np.ndarray]:
        """Return the numbers of the edges of a shortest way, and its matrix; None if there is none.

        The `reasons` why edges cannot be followed are appended.
        """
        here = np.eye(n_in, n_in + 1)
        reached: dict[Reference, tuple[list[tuple[int, bool]], np.ndarray]] = {start: ([], here)}
        queue = deque([start])
        while queue and end not in reached:
            node = queue.popleft()
            steps, rows = reached[node]
            for number, back, other in self._neighbours.get(node, ()):
                if other in reached or number == without:
                    continue
                try:
                    reached[other] = (
                        [*steps, (number, back)],
                        compose(rows, self._rows(number, back, len(rows))),
                    )
                except MetadataError as error:
                    edge, text = str(self.edges[number]), str(error)
                    reasons.append(text if text.startswith(edge) else f"{edge}: {text}")
                    continue
                queue.append(other)
        found = reached.get(end)
        return (None, here) if found is None else found

    def _rows(self, number: int, back: bool, here: int) -> np.ndarray:
        """Return the matrix of an edge; raise if a system has another number of axes."""
        edge = self.edges[number]
        own, target = (self.systems.get(node) for node in (edge.input, edge.output) if node)
        rows = matrix(edge, len(own.axes) if own else here, self.load)
        if target is not None and len(target.axes) != len(rows):
            raise MetadataError(
                f"{edge}: leads to {len(rows)} axes, expected the {len(target.axes)} of "
                f"{target.name!r}"
            )
        return inverse(edge, rows.shape[1] - 1, self.load) if back else rows

    def exchanged(self) -> list[str]:
        """Return messages about edges that map axes to others by position, against their names.

        The position is right by the specification, and the names may be wrong.
        """
        found = []
        for edge in self.edges:
            ends = [self.systems.get(node) for node in (edge.input, edge.output) if node]
            names = [[axis.name for axis in end.axes] for end in ends if end]
            if _by_position(edge) and len(names) == len(ends) == len(("input", "output")):
                before, after = names
                if before != after and sorted(before) == sorted(after):
                    found.append(f"{edge} maps the axes {before} to {after} by position")
        return found


def _by_position(edge: Transformation) -> bool:
    simple = edge.type in {"identity", "scale", "translation"}
    return simple or (edge.type == "sequence" and all(map(_by_position, edge.parts)))


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    return bool((np.abs(one - other) > _TOLERANCE * np.maximum(1, np.abs(one))).any())


def space_axes(axes: Sequence[SystemAxis]) -> list[int]:
    """Return the indices of the axes of space, or of an array whose axes are of no other kind.

    They are in the order z, y, x if these are their names, otherwise as listed.
    """
    found = [
        at
        for at, axis in enumerate(axes)
        if axis.type in {"space", "array"} or (axis.type is None and axis.name.lower() in _ZYX)
    ]
    names = {axes[at].name.lower(): at for at in found}
    if len(names) == len(found) and names.keys() <= {*_ZYX}:
        return [names[name] for name in _ZYX if name in names]
    return found


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

    @classmethod
    def placed(
        cls,
        intrinsic: CoordinateSystem,
        others: Mapping[str, CoordinateSystem],
        rows: Mapping[str, Sequence[Sequence[float]]],
    ) -> ImageSystems:
        """Return systems with an affine transformation from the intrinsic one to each other."""
        start = Reference(intrinsic.name)
        edges = [
            parse_transformation({"type": "affine", "affine": [list(row) for row in rows[name]]})
            for name in others
        ]
        named = zip(edges, others, strict=True)
        joined = tuple(edge.between(start, Reference(name)) for edge, name in named)
        known = {start: intrinsic} | {Reference(name): each for name, each in others.items()}
        return cls(intrinsic, SystemGraph(joined, known))

    @property
    def others(self) -> list[str]:
        """The names of the other systems, and the paths of labels that transformations lead to."""
        names = [each.name for each in self.graph.systems if each.name != self.intrinsic.name]
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
        graph = replace(self.graph, load=load)
        found: dict[str, Placement] = {}
        problems = list(self.problems)
        start, axes = Reference(self.intrinsic.name), self.intrinsic.axes
        dims = tuple(axes[at].name for at in space_axes(axes))
        linked = {end for edge in graph.edges for end in (edge.input, edge.output)}
        for reference, system in graph.systems.items():
            if reference == start or reference.path or reference not in linked:
                continue
            try:
                route = graph.route(start, reference)
                rows = on_space(route.matrix, axes, system)
            except MetadataError as error:
                problems.append(str(error))
                continue
            problems += [route.conflict] if route.conflict else []
            shown = [system.axes[at] for at in space_axes(system.axes)]
            found[system.name] = Placement(
                tuple(axis.name for axis in shown),
                tuple(axis.unit for axis in shown),
                dims,
                tuple(tuple(row) for row in rows.tolist()),
            )
        return found, problems + graph.exchanged()


def _has_path(one: Transformation) -> bool:
    return (one.type in {"affine", "rotation"} and "path" in one.members) or any(
        map(_has_path, one.parts)
    )
