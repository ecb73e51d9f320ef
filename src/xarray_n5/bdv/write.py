"""Store Datasets and trees as projects, and images with coarser levels of all their views."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.spec import ArraySpec, as_sizes, chunk_shape, supported, with_shards
from xarray_n5.bdv.describe import (
    Described,
    ViewImage,
    check_alike,
    describe,
    factors_of_levels,
    images_of_tree,
)
from xarray_n5.bdv.matrices import axis_along
from xarray_n5.bdv.project import Project
from xarray_n5.bdv.save import difference_of, write_views
from xarray_n5.bdv.target import ProjectTarget, ProjectUpdate
from xarray_n5.bdv.written import shards_over
from xarray_n5.codecs import resolve
from xarray_n5.datasets.world import AFFINE, AXES, within
from xarray_n5.errors import MetadataError
from xarray_n5.formats.containers import find_scene, open_store
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.options import refuse_encodings
from xarray_n5.pyramids.factors import steps_of
from xarray_n5.pyramids.reduce import check_type, coarse_shape, coarser_blocks
from xarray_n5.writing.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.bdv.loaders import View
    from xarray_n5.bdv.project import ViewSetup
    from xarray_n5.bdv.written import WrittenLayout
    from xarray_n5.pyramids.factors import Step
    from xarray_n5.pyramids.reduce import Method
    from xarray_n5.writing.group import GroupWrite
    from xarray_n5.writing.options import Encoding, WriteOptions

_NAME = "the image"
"""How messages call an image without a name."""

_ENCODINGS = {"chunks", "compression", "shards"}
"""The encodings of an image that users may set."""


def write_project(
    source: xr.Dataset | xr.DataTree,
    project: object,
    how: WriteOptions,
    encodings: Mapping[str, Encoding],
    storage_options: Mapping[str, Any] | None,
    coarser: Coarser | None = None,
) -> GroupWrite:
    """Return the write that stores a Dataset, or the levels in a tree, as a project.

    Parameters
    ----------
    source
        A Dataset of one image, or a tree of images with levels ``s0``, ``s1``, ....
    project
        The path or URL of the XML.
    how
        The container and the options of the views.
    encodings
        The encodings of variables by the paths of nodes; of a Dataset at "/".
    storage_options
        Options of the filesystem of the XML, if it is a URL.
    coarser
        The levels to compute of each view; the source has the base level only.

    Raises
    ------
    ValueError
        If levels cannot be computed.
    """
    target = ProjectTarget.at(project, how, storage_options)
    before = target.project if how.mode != "w-" else None
    trees = images_of_tree(source) if isinstance(source, xr.DataTree) else {"": {"/": source}}
    trees = {
        name: {path: _in_blocks(level) for path, level in levels.items()}
        for name, levels in trees.items()
    }
    taken: dict[int, ViewSetup] = {}
    images = []
    for name, levels in trees.items():
        described = describe(name or _NAME, list(levels.values()), before, taken)
        taken |= described.project.setups
        check_alike(name or _NAME, levels, described.levels)
        chosen = [_chosen(encodings, path, dataset) for path, dataset in levels.items()]
        if coarser is None:
            images.append(_image(name or _NAME, described, chosen, how, target.layout))
        elif len(levels) == 1:
            images.append(_pyramid(described, chosen[0], how, target.layout, coarser))
        else:
            raise ValueError(
                f"{name or _NAME} has {len(levels)} levels; pass its base level, or no factors "
                "and levels"
            )
    return write_views(images, target, how, in_turn=coarser is not None)


def _in_blocks(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose images are read when they are written, if they are lazy."""
    found = {}
    for name, array in dataset.data_vars.items():
        sides = array.encoding.get("preferred_chunks")
        if sides and not is_dask_collection(array.variable):
            found[name] = array.chunk({dim: n for dim, n in sides.items() if dim in array.dims})
    return dataset.assign(found) if found else dataset


def _image(
    name: str,
    described: Described,
    chosen: Sequence[Mapping[str, Any]],
    how: WriteOptions,
    layout: WrittenLayout,
) -> ViewImage:
    factors = factors_of_levels(name, described.levels)
    stored = [
        Storage.of(array, own, layout) for array, own in zip(described.levels, chosen, strict=True)
    ]

    def request(view: View, level: int, path: str, finer: Array | None) -> WriteRequest:
        del finer
        data = described.data(view, level)
        return request_of(data, path, how, factors[level], stored[level], layout)

    return ViewImage(described=described, factors=factors, request=request)


@dataclass(frozen=True)
class Coarser:
    """The coarser levels to compute; see :func:`xarray_n5.pyramid`."""

    factors: Step | Sequence[Step] | None
    levels: int | None
    method: Method


def _pyramid(
    described: Described,
    chosen: Mapping[str, Any],
    how: WriteOptions,
    layout: WrittenLayout,
    coarser: Coarser,
) -> ViewImage:
    """Return an image whose coarser levels are computed, each from the stored one before it."""
    (image,) = described.levels
    check_type(image.dtype, coarser.method)
    shape = tuple(image.sizes[axis] for axis in AXES)
    stored = Storage.of(image, chosen, layout)
    if stored.chunks is None:
        blocks = image.chunksizes
        sides: Any = tuple(max(blocks[axis]) for axis in AXES) if blocks else "auto"
        stored = replace(stored, chunks=chunk_shape(sides, shape))
    axes = [axis_along(image, axis) or Axis(name=axis) for axis in AXES]
    geometry = Geometry(tuple(replace(axis, kind="space") for axis in axes))
    given = coarser.factors, coarser.levels
    steps = steps_of(geometry, shape, stored.chunks, *given)
    shapes = list(accumulate(steps, partial(coarse_shape, partial=False), initial=shape))
    whole = list(accumulate(steps, lambda a, b: tuple(map(mul, a, b)), initial=(1,) * len(AXES)))
    ones = (1,) * (len(layout.axes) - len(AXES))
    token = tokenize(image.data, coarser.method, steps)

    def request(view: View, level: int, path: str, finer: Array | None) -> WriteRequest:
        if finer is None:
            return request_of(described.data(view, 0), path, how, whole[0], stored, layout)
        size, step = shapes[level], steps[level - 1]
        storage = stored
        if "shards" not in chosen and layout.in_shards:
            shards = shards_over(stored.chunks, size, image.dtype.itemsize)
            storage = replace(stored, shards=shards)
        sides, _ = with_shards(stored.chunks, storage.shards, size, image.dtype)
        blocks = coarser_blocks(
            finer,
            (*ones, *step),
            (*ones, *size),
            (*ones, *sides),
            coarser.method,
            tokenize(token, path),
        )
        data = xr.DataArray(blocks[(0,) * len(ones)], dims=AXES)
        return request_of(data, path, how, whole[level], storage, layout)

    return ViewImage(described=described, factors=whole, request=request)


@dataclass(frozen=True)
class Storage:
    """The storage of a level's views: their chunks and shards along z, y, x, the compression."""

    chunks: Any
    compression: Any
    explicit: bool
    shards: Any = None

    @classmethod
    def of(cls, array: xr.DataArray, chosen: Mapping[str, Any], layout: WrittenLayout) -> Storage:
        """Return the user's choice, or the storage that the image was opened from."""
        shape = tuple(array.sizes[axis] for axis in AXES)
        known = array.encoding
        chunks, kept = chosen.get("chunks"), known.get("chunks")
        if chunks is None and kept is not None and len(kept) == array.ndim:
            chunks = kept
        sides = _sides("chunks", chunks, array)
        if sides is not None:
            sides = chunk_shape(sides, shape)
        elif layout.in_shards:
            blocks = array.chunksizes
            chosen_sides: Any = tuple(max(blocks[axis]) for axis in AXES) if blocks else "auto"
            sides = chunk_shape(chosen_sides, shape)
        shards = chosen.get("shards")
        if "shards" not in chosen and layout.in_shards:
            kept = known.get("shards")
            shards = kept or shards_over(sides, shape, array.dtype.itemsize)
        shards = _sides("shards", shards, array)
        given = "compression" in chosen
        compression = chosen.get("compression", known.get("compression"))
        if not given and compression is None:
            compression = known.get("n5_compression", layout.compression)
        return cls(sides, compression, given, shards)


def _sides(name: str, sides: Any, array: xr.DataArray) -> Any:
    """Return the shape of chunks or shards along z, y, x."""
    if sides is None or isinstance(sides, str | int) or len(sides) == len(AXES):
        return sides
    if len(sides) != array.ndim:
        raise MetadataError(
            f"{name} is {tuple(sides)}; expected a number, 'auto', or the sides along z, y, x"
        )
    named = dict(zip(array.dims, sides, strict=True))
    return tuple(named[axis] for axis in AXES)


def request_of(
    data: xr.DataArray,
    path: str,
    how: WriteOptions,
    factors: Sequence[int],
    stored: Storage,
    layout: WrittenLayout,
) -> WriteRequest:
    """Return the request to write a level of a view."""
    compression = resolve(stored.compression)
    before = layout.axes[: -len(AXES)]
    ones = (1,) * len(before)
    chunks = stored.chunks if stored.chunks is None else (*ones, *stored.chunks)
    shards = stored.shards
    if shards is not None and not isinstance(shards, str):
        shards = (*ones, *as_sizes("shards", shards, len(AXES)))
    lazy = is_dask_collection(data.variable)
    data = data.expand_dims(before) if before else data
    if not stored.explicit:
        facts = (data.shape, data.dtype, path, chunks)
        compression = supported(how.format, compression, *facts)
    spec = ArraySpec(
        path=path,
        mode="w-" if how.mode == "w-" else "w",
        chunks=chunks,
        shards=shards,
        compression=compression,
        # Zarr v2 would name dimensions in an attribute, whose arrays have no fill value.
        axes=layout.axes if layout.in_shards else None,
        layout=how.format.nested_layout if before else None,
        attributes=layout.level_attributes(factors),
    )
    return WriteRequest.of(data.data, spec, how, dims=layout.axes, deferred=how.deferred and lazy)


def _chosen(encodings: Mapping[str, Encoding], path: str, dataset: xr.Dataset) -> Mapping[str, Any]:
    """Return the user's encoding of an image."""
    found: dict[str, Any] = {}
    for name, own in (encodings.get(path) or {}).items():
        if name not in dataset.data_vars:
            raise KeyError(f"the encoding has {name!r}; expected some of {list(dataset.data_vars)}")
        refuse_encodings(name, sorted(set(own) - _ENCODINGS), _ENCODINGS)
        found |= own
    return found


def register_views(
    source: xr.Dataset, xml: object, storage_options: Mapping[str, Any] | None
) -> None:
    """Replace the registrations of views in the XML of their project."""
    file: Any = getattr(find_scene(xml, storage_options), "file", None)
    if file is None:
        raise FileNotFoundError(f"there is no project at {open_store(xml, storage_options).url!r}")
    found, before = describe(_NAME, [source], file.project, {}).project, file.project
    if AFFINE in source.variables:
        is_part = not np.array_equal(within(source), np.eye(len(AXES) + 1))
    else:
        lines = [source[axis].values for axis in AXES if axis in source.coords]
        is_part = any(line[0] > line[-1] for line in lines)
    if is_part:
        raise MetadataError(
            f"{file.url}: these are parts of views, or samples in another order; change the "
            "positions of whole images, at the base level"
        )
    for number, setup in found.setups.items():
        if number not in before.setups or not set(found.timepoints) <= {*before.timepoints}:
            raise MetadataError(f"{file.url}: setup {number} is not in the project at these times")
        if (why := difference_of(before.setups[number], setup)) is not None:
            raise MetadataError(f"{file.url}: setup {number} is {why}; pass the whole base level")
    added = Project(registrations=found.registrations)
    ProjectUpdate(file.store.parent(), file.store.name, added)()
