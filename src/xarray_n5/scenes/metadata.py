"""The attributes of a scene: its coordinate systems, and the transformations between images.

Source: the specification of OME-Zarr 0.6, "Scenes" and "Coordinate transformations".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError
from xarray_n5.model.systems import Reference, parse_system
from xarray_n5.model.transformations import parse_transformation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.model.systems import CoordinateSystem
    from xarray_n5.model.transformations import Transformation

_MOST_EDGES = 1 << 18
"""The maximum number of transformations of a scene."""


@dataclass(frozen=True)
class SceneMetadata:
    """What the attribute ``ome`` of a group says about a scene."""

    systems: tuple[CoordinateSystem, ...]
    """The scene's own systems."""
    edges: tuple[Transformation, ...]
    """Its transformations."""

    @property
    def paths(self) -> list[str]:
        """The paths of the images that transformations name, in their order."""
        ends = (end for edge in self.edges for end in (edge.input, edge.output))
        return list(dict.fromkeys(end.path for end in ends if end is not None and end.path))

    def world(self, known: Collection[Reference]) -> Reference | None:
        """Return the system in which images are placed: the first of its own.

        Without any, it is the one of the `known` systems that most transformations lead from or
        to; among several, the first that one leads to.
        """
        if self.systems:
            return Reference(self.systems[0].name)
        ends = [edge.output for edge in self.edges] + [edge.input for edge in self.edges]
        counts = Counter(end for end in ends if end in known)
        return next((end for end, _ in counts.most_common(1)), None)


def read_metadata(ome: Mapping[str, Any], where: str) -> SceneMetadata:
    """Return the scene that the attribute ``ome`` describes.

    Raises
    ------
    MetadataError
        If it is invalid, or a path leads out of the scene's group.
    """
    scene = ome.get("scene")
    edges = scene.get("coordinateTransformations") if isinstance(scene, dict) else None
    systems = scene.get("coordinateSystems", []) if isinstance(scene, dict) else None
    if not isinstance(edges, list) or not isinstance(systems, list):
        raise MetadataError(
            f"{where}: 'scene' has no list of coordinateTransformations; expected one, and a list "
            "of coordinateSystems, as in OME-Zarr 0.6"
        )
    if len(edges) + len(systems) > _MOST_EDGES:
        raise MetadataError(
            f"{where}: the scene has {len(edges)} transformations and {len(systems)} systems, "
            f"expected at most {_MOST_EDGES}"
        )
    own = [parse_system(each, f"{where}: scene, coordinateSystems") for each in systems]
    if twice := [name for name, n in Counter(each.name for each in own).items() if n > 1]:
        raise MetadataError(f"{where}: the scene has two coordinate systems called {twice[0]!r}")
    parsed = [parse_transformation(each, f"{where}: scene, {n}") for n, each in enumerate(edges)]
    for number, edge in enumerate(parsed):
        if edge.input is None or edge.output is None:
            raise MetadataError(f"{where}: transformation {number} of the scene has no two ends")
    return SceneMetadata(tuple(own), tuple(parsed))
