"""The attributes of a scene: its coordinate systems, and the transformations between images.

Source: the specification of OME-Zarr 0.6, "Scenes" and "Coordinate transformations".
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.dialects import geometry_of
from xarray_n5.dialects.groups import images_in, level_paths, omero_of
from xarray_n5.dialects.ngff_systems import (
    described_problems,
    has_systems,
    system_of,
    systems_around,
)
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.image import Image, Level, Part
from xarray_n5.model.paths import join, level_name
from xarray_n5.model.systems import Reference, parse_system
from xarray_n5.model.transformations import parse_transformation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.dialects.protocol import DialectChoice
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
    known = [parse_system(system, f"{where}: scene, coordinateSystems") for system in systems]
    if twice := [name for name, n in Counter(system.name for system in known).items() if n > 1]:
        raise MetadataError(f"{where}: the scene has two coordinate systems called {twice[0]!r}")
    parsed = [parse_transformation(edge, f"{where}: scene, {n}") for n, edge in enumerate(edges)]
    for number, edge in enumerate(parsed):
        if edge.input is None or edge.output is None:
            raise MetadataError(f"{where}: transformation {number} of the scene has no two ends")
    return SceneMetadata(tuple(known), tuple(parsed))


@dataclass(frozen=True)
class SceneImage:
    """An image of a scene, before it is placed."""

    path: str
    image: Image[Array]
    """Its levels, with the axes of the intrinsic system."""
    intrinsic: Reference
    systems: Mapping[Reference, CoordinateSystem]
    """Its systems, by their names in the scene."""
    edges: tuple[Transformation, ...]
    """The transformations between them, as seen from the scene."""
    omero: Any = None
    """The names and colours of its channels."""


def find_images(
    group: Group, paths: Sequence[str], dialect: DialectChoice | None
) -> list[SceneImage]:
    """Return the images at paths in a scene's group, with two batches of reads.

    A path without an image is omitted, with a warning.
    """
    nodes = group.nodes(paths)
    listed: dict[str, tuple[Group, dict[str, Any], list[str]]] = {}
    for path in paths:
        node = nodes.get(path)
        ome = node.attrs.get("ome") if isinstance(node, Group) else None
        entry = next(images_in({"ome": ome}), None)
        if isinstance(node, Group) and entry is not None and (levels := level_paths(entry)):
            listed[path] = node, entry, levels
        else:
            warn(f"{group.url}: the scene names {path!r}, which is not an image; it is left out")
    wanted = [join(path, level) for path, (_, _, levels) in listed.items() for level in levels]
    arrays = group.nodes(wanted)
    images = []
    for path, (node, entry, levels) in listed.items():
        stored = ((level, arrays.get(join(path, level))) for level in levels)
        of_image = {level: array for level, array in stored if isinstance(array, Array)}
        if len(of_image) < len(levels):
            lacking = ", ".join(level for level in levels if level not in of_image)
            warn(f"{node.url}: the levels {lacking} are not stored; they are left out")
        if of_image:
            images.append(_image(path, node, entry, of_image, dialect))
    return images


def _image(
    path: str,
    node: Group,
    entry: dict[str, Any],
    arrays: Mapping[str, Array],
    dialect: DialectChoice | None,
) -> SceneImage:
    if not has_systems(entry):
        raise MetadataError(
            f"{node.url}: an image of a scene has no coordinateSystems, which OME-Zarr 0.6 has"
        )
    try:
        systems = systems_around(entry, system_of(entry, entry["datasets"][0]), path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MetadataError(f"{node.url}: {error}") from error
    if (text := described_problems(systems, systems.problems)) is not None:
        warn(text)
    bare = {key: value for key, value in entry.items() if key != "coordinateTransformations"}
    around = {**node.attrs, "ome": {**node.attrs["ome"], "multiscales": [bare]}}
    levels = {}
    with warnings.catch_warnings():
        for number, (level, array) in enumerate(arrays.items()):
            levels[level_name(number)] = _level(path, array, level, around, dialect)
            warnings.simplefilter("ignore")  # those of the first level are the same
    return SceneImage(
        path,
        Image(None, levels),
        Reference(systems.intrinsic.name, path),
        {reference.below(path): system for reference, system in systems.graph.systems.items()},
        tuple(edge.below(path) for edge in systems.graph.edges),
        omero_of(node.attrs),
    )


def _level(
    path: str, array: Array, level: str, around: dict[str, Any], dialect: DialectChoice | None
) -> Level[Array]:
    """Return a level with the axes that its own transformations describe."""
    node = array.node
    context = ArrayContext(
        attributes=node.metadata.attributes,
        shape=node.metadata.shape,
        path=join(path, level),
        parents=(*({},) * level.count("/"), around),
        lists_x_first=node.container.lists_x_first,
        dtype=node.metadata.dtype,
    )
    geometry = replace(geometry_of(context, dialect), affine=None, systems=None)
    return Level({(): Part(array)}, geometry)
