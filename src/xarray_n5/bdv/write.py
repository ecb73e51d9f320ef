"""Store Datasets and trees as projects, and images with coarser levels of all their views."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from dask.base import tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.spec import ArraySpec, resolve_chunks
from xarray_n5.bdv.describe import Described, describe
from xarray_n5.bdv.matrices import axis_along
from xarray_n5.bdv.project import Project
from xarray_n5.bdv.save import (
    ProjectTarget,
    ProjectUpdate,
    difference_of,
    options_of_xml,
    write_views,
)
from xarray_n5.datasets.placed import compression_of, demands_on, sides_of
from xarray_n5.datasets.world import AFFINE, AXES, within
from xarray_n5.errors import MetadataError
from xarray_n5.formats.containers import find_scene, open_store
from xarray_n5.images.tree import pyramids_of
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import SAME, Axis, Geometry, of_one_sample
from xarray_n5.model.paths import view_path
from xarray_n5.pyramids.reduce import check_type, coarse_shape, coarser_blocks, steps_of
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.request import WriteRequest, planned_node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.bdv.loaders import ViewId
    from xarray_n5.bdv.project import ViewSetup
    from xarray_n5.pyramids.reduce import Method, Step
    from xarray_n5.writing.group import GroupWrite
    from xarray_n5.writing.options import Encoding

_NAME = "the image"
"""How messages call an image without a name."""

_ENCODINGS = {"chunks", "compression"}
"""The encodings of an image that users may set."""


def write_options(
    xml: object,
    data: object | None,
    *,
    storage_options: Mapping[str, Any] | None,
    **options: Any,
) -> WriteOptions:
    """Open the container of a project for a write.

    Without `data`, it is that of the existing project, or one next to the XML with its name.
    """
    if data is None:
        file = find_scene(xml, options_of_xml(xml, storage_options))
        if file is not None:
            data = file.container(storage_options).url
        elif isinstance(xml, str | os.PathLike):
            data = f"{re.sub(r'[.]xml$', '', os.fspath(xml), flags=re.IGNORECASE)}.n5"
        else:
            raise TypeError(f"data is required if the XML is a {type(xml).__name__}")
    return WriteOptions.into(data, storage_options=storage_options, **options)


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
    tree = source if isinstance(source, xr.DataTree) else xr.DataTree(source)
    taken: dict[int, ViewSetup] = {}
    images = []
    for name, datasets in pyramids_of(tree).items():
        levels = {f"{tree.path.rstrip('/')}/{path}": level for path, level in datasets.items()}
        described = describe(name or _NAME, list(levels.values()), before, taken)
        taken |= described.project.setups
        check_alike(name or _NAME, levels, described.levels)
        images_of_levels = zip(levels, described.levels, strict=True)
        storage = [Storage.of(image, encodings.get(path)) for path, image in images_of_levels]
        if coarser is None:
            factors = factors_of_levels(name or _NAME, described.levels)
            images.append(ViewImage(described, factors, storage, how))
        elif len(levels) == 1:
            images.append(coarser.image(described, storage[0], how))
        else:
            raise ValueError(
                f"{name or _NAME} has {len(levels)} levels; pass its base level, or no factors "
                "and levels"
            )
    if not images:
        raise MetadataError("there are no variables; expected an image for the project")
    return write_views(images, target, how, in_turn=coarser is not None)


def factors_of_levels(name: str, levels: Sequence[xr.DataArray]) -> list[tuple[int, ...]]:
    """Return the factors of an image's levels over the first along z, y, x.

    Raises
    ------
    MetadataError
        If they are not whole numbers, or levels are not in order.
    """
    columns = [_column(name, axis, levels) for axis in AXES]
    factors = list(zip(*columns, strict=True))
    for before, after in pairwise(factors):
        if after == before or any(a < b for a, b in zip(after, before, strict=True)):
            raise MetadataError(
                f"the levels of {name!r} have the factors {[list(by) for by in factors]} over "
                "the first along z, y, x; expected each to be coarser than the level before it"
            )
    return factors


def _column(name: str, dim: str, levels: Sequence[xr.DataArray]) -> list[int]:
    axes = [axis_along(level, dim) for level in levels]
    axes = [axis if axis and axis.placed else None for axis in axes]
    base, factors = axes[0], []
    for number, (level, axis) in enumerate(zip(levels, axes, strict=True)):
        factor = _factor(base, levels[0].sizes[dim], axis, level.sizes[dim])
        whole = round(factor)
        if abs(factor - whole) > SAME * factor or whole < 1:
            raise MetadataError(
                f"level {number} of {name!r} has the factor {factor:g} along {dim} over the "
                "first; a project requires whole numbers"
            )
        factors.append(whole)
        if base is not None and axis is not None:
            middle = base.offset + base.step * (whole - 1) / 2
            if abs(axis.offset - middle) > SAME * abs(base.step):
                warn(
                    f"level {number} of {name!r} begins at {dim} = {axis.offset:g}; a project "
                    f"centres samples on those that they cover, which begins at {middle:g}"
                )
    return factors


def _factor(base: Axis | None, size: int, axis: Axis | None, count: int) -> float:
    if base is None or axis is None:
        return size // max(count, 1)
    if count > 1:
        return axis.step / base.step
    factor = of_one_sample(axis, base, otherwise=float(size))
    return factor if factor.is_integer() else float(size)


def check_alike(
    name: str, datasets: Mapping[str, xr.Dataset], arrays: Sequence[xr.DataArray]
) -> None:
    """Raise MetadataError if levels differ in more than the sizes of z, y and x."""
    first = arrays[0]
    outer = {dim: size for dim, size in first.sizes.items() if dim not in AXES}
    for path, array in zip(datasets, arrays, strict=True):
        sizes = {dim: size for dim, size in array.sizes.items() if dim not in AXES}
        if sizes != outer or array.dtype != first.dtype:
            raise MetadataError(
                f"the level {path!r} of {name!r} is {array.dtype} of {dict(array.sizes)}, the "
                f"first {first.dtype} of {dict(first.sizes)}; expected levels of one type, with "
                "the same views"
            )


@dataclass(frozen=True)
class ViewImage:
    """An image to write to a project."""

    described: Described
    factors: Sequence[tuple[int, ...]]
    """The factors of each level along z, y, x."""
    storage: Sequence[Storage]
    """The storage of each level's views."""
    how: WriteOptions
    method: Method | None = None
    """How each level is computed from the one before; None if all levels are given."""

    def requests(self) -> dict[str, WriteRequest]:
        """Return the views to write by path, level by level."""
        requests: dict[str, WriteRequest] = {}
        finer: dict[ViewId, Array] = {}
        token = tokenize(self.described.levels[0].data, self.method, self.factors)
        for level in range(len(self.factors)):
            for view in self.described.views:
                path = view_path(view.setup, view.timepoint, level)
                if self.method is None or level == 0:
                    data = self.described.data(view, level)
                else:
                    data = self._coarser(finer[view], level, tokenize(token, path))
                requests[path] = self._request(data, path, level)
                finer[view] = Array(planned_node(requests[path]))
        return requests

    def _coarser(self, finer: Array, level: int, token: str) -> xr.DataArray:
        """Return a level of a view, computed from the one before it when that is stored."""
        before, after = self.factors[level - 1 : level + 1]
        step = tuple(factor // known for factor, known in zip(after, before, strict=True))
        shape = coarse_shape(finer.shape, step)
        chunks, _ = resolve_chunks(self.storage[level].chunks, None, shape, finer.dtype)
        blocks = coarser_blocks(finer, step, shape, chunks, self.method or "mean", token)
        return xr.DataArray(blocks, dims=AXES)

    def _request(self, data: xr.DataArray, path: str, level: int) -> WriteRequest:
        stored, how = self.storage[level], self.how
        spec = ArraySpec(
            path=path,
            mode="w-" if how.mode == "w-" else "w",
            chunks=stored.chunks,
            compression=compression_of(stored.image, stored.chosen, how.format, data.shape, path),
            attributes={"downsamplingFactors": list(self.factors[level][::-1])},
        )
        return WriteRequest.of(data.data, spec, how, dims=AXES)


@dataclass(frozen=True)
class Coarser:
    """The coarser levels to compute; see :func:`xarray_n5.pyramid`."""

    factors: Step | Sequence[Step] | None
    levels: int | None
    method: Method

    def image(self, described: Described, stored: Storage, how: WriteOptions) -> ViewImage:
        """Return an image whose coarser levels are computed, each from the stored one before it."""
        (base,) = described.levels
        check_type(base.dtype, self.method)
        shape = tuple(base.sizes[axis] for axis in AXES)
        if stored.chunks is None:
            blocks = base.chunksizes
            sides: Any = tuple(max(blocks[axis]) for axis in AXES) if blocks else "auto"
            chunks, _ = resolve_chunks(sides, None, shape, base.dtype)
            stored = replace(stored, chunks=chunks)
        axes = [axis_along(base, axis) or Axis(name=axis) for axis in AXES]
        geometry = Geometry(tuple(replace(axis, kind="space") for axis in axes))
        steps = steps_of(geometry, shape, stored.chunks, self.factors, self.levels)
        ones = (1,) * len(AXES)
        factors = list(accumulate(steps, lambda a, b: tuple(map(mul, a, b)), initial=ones))
        return ViewImage(described, factors, [stored] * len(factors), how, self.method)


@dataclass(frozen=True)
class Storage:
    """The storage of a level's views: their chunks along z, y, x, and the compression."""

    image: xr.DataArray
    """The level as it was opened."""
    chosen: Mapping[str, Any]
    """The encoding that the user chose."""
    chunks: Any

    @classmethod
    def of(cls, image: xr.DataArray, encodings: Encoding | None) -> Storage:
        """Return the user's choice, or the storage that the image was opened from."""
        chosen = demands_on(image, encodings, _ENCODINGS)
        chunks = sides_of("chunks", image, AXES, chosen)
        if chunks is not None:
            shape = tuple(image.sizes[axis] for axis in AXES)
            chunks, _ = resolve_chunks(chunks, None, shape, image.dtype)
        return cls(image, chosen, chunks)


def register_views(
    source: xr.Dataset, xml: object, storage_options: Mapping[str, Any] | None
) -> None:
    """Replace the registrations of views in the XML of their project."""
    file: Any = getattr(find_scene(xml, storage_options), "file", None)
    if file is None:
        raise FileNotFoundError(f"there is no project at {open_store(xml, storage_options).url!r}")
    changed, before = describe(_NAME, [source], file.project, {}).project, file.project
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
    for number, setup in changed.setups.items():
        if number not in before.setups or not set(changed.timepoints) <= {*before.timepoints}:
            raise MetadataError(f"{file.url}: setup {number} is not in the project at these times")
        if (why := difference_of(before.setups[number], setup)) is not None:
            raise MetadataError(f"{file.url}: setup {number} is {why}; pass the whole base level")
    added = Project(registrations=changed.registrations)
    ProjectUpdate(file.store.parent(), file.store.name, added)()
