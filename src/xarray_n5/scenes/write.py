"""Store images of any kind of scene as a scene of OME-Zarr 0.6."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.overwrite import hint_of
from xarray_n5.arrays.records import look
from xarray_n5.arrays.spec import ArraySpec, supported
from xarray_n5.codecs import resolve
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.model.json import check_json
from xarray_n5.model.paths import join
from xarray_n5.model.systems import CoordinateSystem, Reference, SystemAxis
from xarray_n5.model.transformations import Transformation, parse_transformation
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.model.image import A, Level
    from xarray_n5.model.scene import SceneContent, ScenePart
    from xarray_n5.writing.options import WriteOptions

VERSION = "0.6"

INTRINSIC = "intrinsic"
"""The name of the system of an image's coordinates."""


def write_scene(
    content: SceneContent[Array], how: WriteOptions, path: str, options: CopyOptions
) -> GroupWrite:
    """Return the write of a scene: one group for each image.

    Parameters
    ----------
    content
        The images, and the transformations to their world.
    how, path
        The container, and the path of the scene's group in it.
    options
        The chunks, shards and compression of arrays.

    Raises
    ------
    MetadataError
        If the container is not Zarr v3, or an image cannot be described.
    NodeExistsError
        If something exists that the mode does not allow to replace.
    """
    return write_levels(content, how, path, partial(Stored.of, options=options), options)


def write_levels(
    content: SceneContent[A],
    how: WriteOptions,
    path: str,
    stored: Callable[[Level[A]], Stored],
    options: object,
) -> GroupWrite:
    """Return the write of a scene whose levels are `stored` in some way.

    The parameters and errors are those of :func:`write_scene`; `options` distinguish this write.
    """
    where = how.container.where(path)
    if how.format.name != "zarr3":
        raise MetadataError(
            f"{where}: scenes of OME-Zarr 0.6 are Zarr v3, but this is {how.format.name}; use "
            "format='zarr3'"
        )
    groups = {join(path, part.path): image_attributes(part) for part in content.parts}
    scene = scene_attributes(content)
    for at, attributes in {path: scene, **groups}.items():
        check_json(attributes, how.container.where(at))
    arrays = {
        join(path, part.path, name): stored(level)
        for part in content.parts
        for name, level in part.image.levels.items()
    }

    def check(resumes: bool) -> None:
        if how.mode != "w" and not resumes:
            _check_nothing(how, path)
        if not resumes:
            check_apart({at: each.data for at, each in arrays.items()}, how)

    return GroupWrite(
        options=how,
        path=path,
        requests={at: each.request(at, how) for at, each in arrays.items()},
        attributes={"scene": scene, "images": groups, "options": repr(options)},
        check=check,
        prepare=partial(create_group, how.container, path, mode="a"),
        closing=partial(_close, {**groups, path: scene}, how),
    )


def _close(attributes: Mapping[str, Any], how: WriteOptions) -> None:
    """Set the attributes of the scene and of its images."""
    for at, each in attributes.items():
        create_group(how.container, at, mode="a", attributes=each)


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
class Stored:
    """A level to write: its data, and how it is stored."""

    data: Any
    names: tuple[str, ...]
    chunks: Any
    shards: Any
    compression: Any
    exact: bool = False
    """Whether the compression is the user's, which no other one replaces."""

    @classmethod
    def of(cls, level: Level[Array], options: CopyOptions) -> Stored:
        """Return the user's choice, or the storage of the source."""
        (part,) = level.parts.values()
        array, count = part.array, len(part.indices)
        chunks = array.chunks[count:] if options.chunks is None else options.chunks
        shards = options.shards
        if shards is None and options.chunks is None and array.shards is not None:
            shards = array.shards[count:]
        same = options.compression == "same"
        return cls(
            data=from_n5(array)[part.indices],
            names=tuple(str(axis.name) for axis in level.named().axes),
            chunks=chunks,
            shards=shards,
            compression=array.compression if same else resolve(options.compression),
        )

    def request(self, path: str, how: WriteOptions) -> WriteRequest:
        """Return the request to write it."""
        data = self.data
        compression = self.compression
        if not self.exact:
            compression = supported(how.format, compression, data.shape, data.dtype, path)
        spec = ArraySpec(
            path=path,
            mode="w" if how.mode == "w" else "w-",
            chunks=self.chunks,
            shards=self.shards,
            compression=compression,
            axes=self.names,
        )
        deferred = how.deferred and is_dask_collection(data)
        return WriteRequest.of(data, spec, how, dims=self.names, deferred=deferred)


def scene_attributes(content: SceneContent[Any]) -> dict[str, Any]:
    """Return the attributes of a scene's group.

    Raises
    ------
    MetadataError
        If an image has another number of axes than the world.
    """
    end = Reference(content.world.name)
    edges = [
        _joined(part.steps).between(Reference(INTRINSIC, part.path), end) for part in content.parts
    ]
    scene = {
        "coordinateSystems": [content.world.to_json()],
        "coordinateTransformations": [edge.to_json() for edge in edges],
    }
    return {**content.attributes, "ome": {"version": VERSION, "scene": scene}}


def _joined(steps: tuple[Transformation, ...]) -> Transformation:
    """Return steps as one transformation."""
    if len(steps) == 1:
        return replace(steps[0], input=None, output=None)
    if not steps:
        return parse_transformation({"type": "identity"})
    bare = [replace(step, input=None, output=None).to_json() for step in steps]
    return parse_transformation({"type": "sequence", "transformations": bare})


def image_attributes(part: ScenePart[Any]) -> dict[str, Any]:
    """Return the attributes of an image's group.

    Raises
    ------
    MetadataError
        If a level has no scale, or a matrix.
    """
    geometry = part.image.base.geometry
    axes = tuple(
        SystemAxis(str(axis.name), axis.kind, axis.unit) for axis in geometry.with_names().axes
    )
    datasets = [_dataset(part, name, level) for name, level in part.image.levels.items()]
    image = {
        "name": part.path,
        "coordinateSystems": [CoordinateSystem(INTRINSIC, axes).to_json()],
        "datasets": datasets,
    }
    return {"ome": {"version": VERSION, "multiscales": [image]}}


def _dataset(part: ScenePart[Any], name: str, level: Level[Any]) -> Mapping[str, Any]:
    """Return the entry of a level."""
    axes = level.geometry.axes
    if level.geometry.affine is not None or any(axis.step <= 0 for axis in axes):
        raise MetadataError(
            f"{part.path!r}, level {name!r}: OME-Zarr 0.6 needs positive distances between samples"
        )
    scale: dict[str, Any] = {"type": "scale", "scale": [axis.step for axis in axes]}
    if any(axis.offset for axis in axes):
        moved = {"type": "translation", "translation": [axis.offset for axis in axes]}
        scale = {"type": "sequence", "transformations": [scale, moved]}
    ends = {"input": {"path": name}, "output": {"name": INTRINSIC}}
    return {"path": name, "coordinateTransformations": [scale | ends]}
