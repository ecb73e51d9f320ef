"""Pyramids of all views of an image, as a BigDataViewer and BigStitcher project."""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

import xarray as xr
from dask.base import tokenize

from xarray_n5.arrays.coordinates import coords_of
from xarray_n5.datasets.world import AXES
from xarray_n5.model.axes import Geometry
from xarray_n5.pyramids.blocks import coarser_blocks
from xarray_n5.pyramids.factors import steps_of
from xarray_n5.pyramids.reduce import coarse_shape
from xarray_n5_bdv.describe import ViewImage, describe
from xarray_n5_bdv.save import write_views
from xarray_n5_bdv.target import ProjectTarget
from xarray_n5_bdv.write import Storage, request_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.pyramids.base import BaseLevel
    from xarray_n5.pyramids.factors import Step
    from xarray_n5.pyramids.reduce import Method
    from xarray_n5.writing.request import WriteOptions, WriteRequest
    from xarray_n5_bdv.loaders import View

_NAME = "the image"


def write_project_pyramid(
    source: Any,
    base: BaseLevel,
    project: object,
    how: WriteOptions,
    *,
    factors: Step | Sequence[Step] | None,
    levels: int | None,
    method: Method,
    compression: Any,
    storage_options: Mapping[str, Any] | None,
) -> xr.DataTree:
    """Store the views of an image with coarser levels, and return the report.

    Parameters
    ----------
    source, base
        The image, and its description as the base level of a pyramid.
    project
        The location of the XML.
    how
        The container and the options of the views.
    factors, levels, method, compression
        As of :func:`xarray_n5.pyramid`.
    storage_options
        Options of the filesystem of the XML, if it is a URL.
    """
    target = ProjectTarget.at(project, how, storage_options)
    dataset = _dataset(source, base)
    before = target.project if how.mode != "w-" else None
    described = describe(_NAME, [dataset], before, {})
    (image,) = described.levels
    shape = tuple(image.sizes[axis] for axis in AXES)
    own = dict(zip(image.dims, base.chunks, strict=True))
    chunks = tuple(own[axis] for axis in AXES)
    by_name = {axis.name: axis for axis in base.geometry.axes}
    geometry = Geometry(tuple(by_name[axis] for axis in AXES))
    steps = steps_of(geometry, shape, chunks, factors, levels, partial=False)
    shapes = list(accumulate(steps, lambda s, f: coarse_shape(s, f, partial=False), initial=shape))
    whole = [(1,) * len(AXES)]
    for step in steps:
        whole.append(tuple(map(mul, whole[-1], step)))
    same = compression == "same"
    chosen = (base.compression or "gzip") if same else compression
    storage = Storage(chunks, chosen, explicit=not same)

    def request(view: View, level: int, path: str, finer: Array | None) -> WriteRequest:
        if finer is None:
            return request_of(described.data(view, 0), path, how, whole[0], storage)
        step, token = steps[level - 1], tokenize(base.token, path, method, steps)
        blocks = coarser_blocks(finer, step, shapes[level], chunks, method, token)
        data = xr.DataArray(blocks, dims=AXES)
        return request_of(data, path, how, whole[level], storage)

    views = ViewImage(described=described, factors=whole, request=request)
    facts = (base.token, method, steps, compression, target.url)
    return write_views([views], target, how, *facts).compute_in_turn()


def _dataset(source: Any, base: BaseLevel) -> xr.Dataset:
    """Return an image as a Dataset, with its coordinates."""
    if isinstance(source, xr.DataArray):
        image = source.copy(data=base.blocks)
        image.encoding = {}
        return image.to_dataset(name="image" if source.name is None else source.name)
    dims = [str(axis.name) for axis in base.geometry.axes]
    coords = coords_of(base.geometry, base.shape)
    return xr.Dataset({"image": xr.DataArray(base.blocks, coords, dims)})
