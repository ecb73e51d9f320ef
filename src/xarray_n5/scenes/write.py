"""Store Datasets of placed images as a scene of OME-Zarr 0.6: one image for each matrix."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.create import hint_of
from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.records import look
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.placed import BESIDE, compression_of, sides_of
from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError, NodeExistsError, PathError
from xarray_n5.images.tree import pyramids_of
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import ROUNDING
from xarray_n5.model.json import check_json
from xarray_n5.model.paths import join, level_name, normalize_path
from xarray_n5.model.systems import CoordinateSystem, Reference, SystemAxis
from xarray_n5.model.transformations import parse_transformation
from xarray_n5.scenes.levels import PlacedLevel
from xarray_n5.scenes.scene import DIM
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.inputs import check_apart
from xarray_n5.writing.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import xarray as xr

    from xarray_n5.model.transformations import Transformation
    from xarray_n5.writing.options import Encoding, WriteOptions

VERSION = "0.6"

INTRINSIC = "intrinsic"
"""The name of the system of an image's coordinates."""

_KEPT = BESIDE | {DIM, "axis", "column", "setup"}
"""Coordinates that the scene states in other ways, or that are for projects alone."""

_EQUAL = 1e-14
"""The difference of matrices without a rotation from the identity, by rounding."""


def plan_scene(
    tree: xr.DataTree, path: str, encodings: Mapping[str, Encoding], how: WriteOptions
) -> GroupWrite:
    """Return the write of a tree as a scene.

    Parameters
    ----------
    tree
        Datasets of images; the nodes ``s0``, ``s1``, ... are levels of one.
    path
        The path of the scene's group.
    encodings
        The encodings of variables by the paths of nodes.
    how
        The container and the options of the write.

    Raises
    ------
    MetadataError
        If a scene cannot describe the images, or the container is not Zarr v3.
    NodeExistsError
        If something exists that the mode does not allow to replace.
    """
    if how.format.name != "zarr3":
        raise MetadataError(
            f"{how.container.where(path)}: scenes of OME-Zarr 0.6 are Zarr v3, but this is "
            f"{how.format.name}"
        )
    levels = {
        image: [
            PlacedLevel.of(node, dataset, encodings.get(node) or {})
            for path, dataset in datasets.items()
            if (node := f"{tree.path.rstrip('/')}/{path}")
        ]
        for image, datasets in pyramids_of(tree).items()
    }
    images = [image for name, of_image in levels.items() for image in _images_of(name, of_image)]
    world = _world_of([level for of_image in levels.values() for level in of_image], images)
    _check_paths([image.path for image in images])
    _warn_lost([node.to_dataset() for node in tree.subtree if node.data_vars])
    groups = {join(path, image.path): image.attributes for image in images}
    scene = _scene_attributes(world, images)
    for at, attributes in {path: scene, **groups}.items():
        check_json(attributes, how.container.where(at))
    stored = {
        join(path, image.path, level_name(number)): level
        for image in images
        for number, level in enumerate(image.levels)
    }

    def check(resumes: bool) -> None:
        if how.mode != "w" and not resumes:
            _check_nothing(how, path)
        if how.mode == "w" and not resumes:
            there = [at for at in stored if how.container.exists(how.container.node(at))]
            check_apart([level.data.data for level in stored.values()], how.container, there)

    return GroupWrite(
        options=how,
        path=path,
        requests={at: level.request(at, how) for at, level in stored.items()},
        attributes={"scene": scene, "images": groups, "options": repr(encodings)},
        check=check,
        prepare=partial(create_group, how.container, path, mode="a"),
        closing=partial(_close, {**groups, path: scene}, how),
    )


def _close(attributes: Mapping[str, Any], how: WriteOptions) -> None:
    """Set the attributes of the scene and of its images."""
    for path, changes in attributes.items():
        create_group(how.container, path, mode="a", attributes=changes)


def _check_nothing(how: WriteOptions, path: str) -> None:
    """Raise NodeExistsError if there is something at the path of a scene."""
    container = how.container
    if not container.exists(container.node(path)):
        return
    if names := container.children(path):
        hint = hint_of(
            "use mode='w' to replace arrays at the same paths",
            unfinished=bool(look(how.store, path).opens),
            resume=bool(how.resume),
        )
        raise NodeExistsError(container.url, path, f"a group with {', '.join(names[:4])}", hint)


@dataclass(frozen=True, kw_only=True)
class WrittenLevel:
    """A level of one image, and how the user wants it stored."""

    data: xr.DataArray
    placed: PlacedLevel
    """The level of all images."""

    def request(self, path: str, how: WriteOptions) -> WriteRequest:
        """Return the request to write it: as the user chose, or as it was opened."""
        data = self.data.data
        source, chosen = self.placed.source, self.placed.chosen
        chunks, shards = (
            sides_of(key, source, self.data.dims, chosen) for key in ("chunks", "shards")
        )
        names = tuple(str(axis.name) for axis in self.placed.geometry.axes)
        spec = ArraySpec(
            path=path,
            mode="w" if how.mode == "w" else "w-",
            chunks=chunks,
            shards=shards,
            compression=compression_of(source, chosen, how.format, data.shape, path),
            axes=names,
        )
        return WriteRequest.of(data, spec, how, dims=names)


@dataclass(frozen=True, kw_only=True)
class WrittenImage:
    """One image of a scene to write."""

    path: str
    levels: Sequence[WrittenLevel]
    edge: Transformation
    """The transformation from its coordinates to the world."""

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of its group."""
        axes = tuple(
            SystemAxis(str(axis.name), axis.kind, axis.unit)
            for axis in self.levels[0].placed.geometry.with_names().axes
        )
        image = {
            "name": self.path,
            "coordinateSystems": [CoordinateSystem(INTRINSIC, axes).to_json()],
            "datasets": [
                _dataset(level_name(number), level) for number, level in enumerate(self.levels)
            ],
        }
        return {"ome": {"version": VERSION, "multiscales": [image]}}


def _dataset(name: str, level: WrittenLevel) -> dict[str, Any]:
    """Return the entry of a level, whose axes have positive steps."""
    axes = level.placed.geometry.axes
    scale: dict[str, Any] = {"type": "scale", "scale": [axis.step for axis in axes]}
    if any(axis.offset for axis in axes):
        moved = {"type": "translation", "translation": [axis.offset for axis in axes]}
        scale = {"type": "sequence", "transformations": [scale, moved]}
    ends = {"input": {"path": name}, "output": {"name": INTRINSIC}}
    return {"path": name, "coordinateTransformations": [scale | ends]}


def _scene_attributes(world: CoordinateSystem, images: Sequence[WrittenImage]) -> dict[str, Any]:
    """Return the attributes of a scene's group."""
    end = Reference(world.name)
    scene = {
        "coordinateSystems": [world.to_json()],
        "coordinateTransformations": [
            image.edge.between(Reference(INTRINSIC, image.path), end).to_json() for image in images
        ],
    }
    return {"ome": {"version": VERSION, "scene": scene}}


def _images_of(name: str, levels: Sequence[PlacedLevel]) -> Iterator[WrittenImage]:
    """Iterate over the images of levels, each with all of these."""
    base = levels[0]
    for level in levels[1:]:
        outer = [
            {dim: size for dim, size in other.data.sizes.items() if dim not in AXES}
            for other in (base, level)
        ]
        if base.data.dims != level.data.dims or outer[0] != outer[1] or base.world != level.world:
            raise MetadataError(
                f"{level.node} has {dict(level.data.sizes)}, {base.node} {dict(base.data.sizes)}; "
                "expected levels of the same images"
            )
    for position in base.positions():
        title = base.name(position, name)
        matrix = base.edge(position, title)
        size = max(1.0, float(np.abs(matrix).max()))
        for level in levels[1:]:
            if not np.allclose(matrix, level.edge(position, title), rtol=0, atol=ROUNDING * size):
                raise MetadataError(
                    f"{title!r}: 'affine' and the coordinates of {level.node} place it elsewhere "
                    f"than those of {base.node}; a scene has one transformation for all levels"
                )
        yield WrittenImage(
            path=_path(title),
            levels=[WrittenLevel(data=level.data.isel(position), placed=level) for level in levels],
            edge=_transformation(matrix, base, title),
        )


def _path(name: str) -> str:
    """Return the path of an image in the scene."""
    try:
        path = normalize_path(name)
    except PathError as error:
        raise MetadataError(f"the image {name!r} cannot be a path: {error}") from error
    if not path or ".." in name.split("/"):
        raise MetadataError(f"the image {name!r} has no name; expected a path below the scene")
    return path


def _transformation(matrix: np.ndarray, level: PlacedLevel, name: str) -> Transformation:
    """Return the transformation of an image along all its axes."""
    space = [axis in level.data.dims for axis in AXES]
    flat = [n for n, known in enumerate(space) if not known]
    aside = np.eye(len(AXES), len(AXES) + 1)[flat]
    if (matrix[flat] != aside).any() or (matrix[:, flat] != np.eye(len(AXES))[:, flat]).any():
        raise MetadataError(
            f"{name!r} is flat, but its affine mixes its axes with z, which it does not have: "
            f"{matrix.tolist()}; add the axis with expand_dims('z')"
        )
    inner = matrix[space][:, [*space, True]]
    count = len(level.geometry.axes)
    first = count - len(inner)
    rows = np.eye(count, count + 1)
    rows[first:, first:] = inner
    rows += 0.0  # without negative zeros
    if np.abs(rows[:, :-1] - np.eye(count)).max() > _EQUAL:
        return parse_transformation({"type": "affine", "affine": rows.tolist()})
    if rows[:, -1].any():
        moved = {"type": "translation", "translation": rows[:, -1].tolist()}
        return parse_transformation(moved)
    return parse_transformation({"type": "identity"})


def _world_of(levels: Sequence[PlacedLevel], images: Sequence[WrittenImage]) -> CoordinateSystem:
    """Return the world of all images; raise MetadataError if they have several, or none."""
    worlds = {level.world for level in levels}
    if len(worlds) != 1 or not images:
        shown = "; ".join(sorted(map(repr, worlds)))
        raise MetadataError(
            f"the images have {len(images)} positions in {len(worlds)} worlds, expected one world, "
            f"of one name, unit and axes: {shown}"
        )
    return worlds.pop()


def _check_paths(paths: Sequence[str]) -> None:
    """Raise MetadataError if two images have one path, or one is inside of another."""
    for path, count in Counter(paths).items():
        if count > 1:
            raise MetadataError(f"two images have the name {path!r}; rename one")
    outer = {*paths}
    for path in paths:
        for above in accumulate(path.split("/")[:-1], "{}/{}".format):
            if above in outer:
                raise MetadataError(f"the image {path!r} is inside of {above!r}; rename one")


def _warn_lost(datasets: Sequence[xr.Dataset]) -> None:
    """Warn about coordinates and attributes that a scene does not have."""
    lost = {
        str(name)
        for dataset in datasets
        for name, coordinate in dataset.coords.items()
        if name not in _KEPT
        and not (name == "t" and "setup" in dataset.coords)
        and not (name in dataset.dims and coordinate.dtype.kind in "iuf")
    }
    if lost:
        warn(f"a scene does not have the coordinates {', '.join(sorted(lost))}: they are omitted")
    attributes = {
        str(name)
        for dataset in datasets
        for described in (dataset, *dataset.data_vars.values())
        for name in described.attrs
    }
    if attributes:
        named = ", ".join(sorted(attributes))
        warn(f"a scene does not have the attributes {named}: they are omitted")
