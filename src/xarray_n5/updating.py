"""Datasets into arrays that exist: more along one dimension, or a part of them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed

from xarray_n5.axes import Axis, Geometry
from xarray_n5.building import Options, build
from xarray_n5.coordinates import geometry_from
from xarray_n5.dask import to_n5
from xarray_n5.encoding import encode_into
from xarray_n5.fitting import (
    appended,
    check_alignment,
    check_numbers,
    check_places,
    check_types,
    fitting,
    places_of,
)
from xarray_n5.graphs import check_independent
from xarray_n5.group import create_array, open_group
from xarray_n5.packing import NOTE
from xarray_n5.paths import join
from xarray_n5.picking import pick

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from xarray_n5.array import Array
    from xarray_n5.fitting import Region
    from xarray_n5.group import Group
    from xarray_n5.packing import Packed
    from xarray_n5.writer import Writing


def update(
    dataset: xr.Dataset,
    path: str,
    how: Writing,
    *,
    append_dim: str | None = None,
    region: Region | None = None,
) -> Delayed:
    """Make ready to write a dataset into the arrays of a group; all else stays as it is.

    Without `append_dim` and `region`, each variable replaces the values of the one there.
    Returned is what computes to the number of chunks that were written.

    Raises
    ------
    ValueError
        If the dataset does not fit there.
    """
    group = open_group(how.url, path, mode="r+", **how.place)
    images = pick(group, level=None, dialect=None, inherit=False)
    stored = build(images, dict(group.attrs), (), {}, Options())
    arrays = {name: image.first for name, image in images.items()}
    if append_dim is not None:
        places = appended(dataset, stored, append_dim)
    elif region is not None:
        places = places_of(dataset, stored, region)
    else:
        places = {str(dim): slice(0, size) for dim, size in dataset.sizes.items()}
    written = fitting(
        dataset, stored, places, append_dim, whole=append_dim is None and region is None
    )
    check_types(written, stored)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what would be encoded in another way is refused below
        packed = encode_into(written, stored)
    beside = [dim for dim in places if dim in written and dim not in arrays]
    for dim in beside:
        packed.pop(dim, None)
        check_places(dataset, stored, dim, places[dim], grows=dim == append_dim)
    for name, each in packed.items():
        check_numbers(name, each, arrays[name])
        where = [places.get(dim, slice(0, 0)).start for dim in each.dims]
        check_alignment(each, arrays[name], where, how)
        if append_dim is None and is_dask_collection(each.data):
            check_independent(each.data, [arrays[name].place])
    if append_dim is not None:
        # Everything is checked; from here on, arrays change.
        for name, array in arrays.items():
            _grow(array, stored.variables[name].dims, append_dim, places[append_dim].stop)
        if append_dim in beside:
            _keep_places(group, dataset, stored, append_dim, arrays, how)
    tasks = [
        _write(arrays[name], stored.variables[name].dims, each, places, how)
        for name, each in packed.items()
    ]
    return cast("Delayed", delayed(sum)(tasks))


def _grow(array: Array, dims: tuple[Any, ...], dim: str, size: int) -> None:
    if dim in dims:
        axis = dims.index(dim)
        array.resize((*array.shape[:axis], size, *array.shape[axis + 1 :]))


def _keep_places(
    group: Group,
    dataset: xr.Dataset,
    stored: xr.Dataset,
    dim: str,
    arrays: Mapping[str, Array],
    how: Writing,
) -> None:
    """Store a coordinate as an array where its axis does not give it any more."""
    whole = np.concatenate([stored[dim].to_numpy(), dataset[dim].to_numpy()])
    (before,) = geometry_from(stored[dim]).axes
    if np.array_equal(before.offset + before.step * np.arange(whole.size), whole):
        return
    for array in arrays.values():
        _forget(array, dim, how)
    attributes = {**stored[dim].attrs, NOTE: {"axes": []}, "_ARRAY_DIMENSIONS": [dim]}
    to_n5(whole, how.url, join(group.path, dim), attributes=attributes, **how.place)


def _forget(array: Array, dim: str, how: Writing) -> None:
    """Take a dimension's places out of an array's axes."""
    note = dict(array.attrs.get(NOTE, {}))
    if dim not in note.get("axes", ()):
        return
    note["axes"] = [each for each in note["axes"] if each != dim]
    axes = tuple(Axis(name=each.name) if each.name == dim else each for each in array.axes)
    array.attrs[NOTE] = note
    if any(axis.scale is not None for axis in axes):
        create_array(
            how.url,
            array.path,
            shape=array.shape,
            dtype=array.dtype,
            mode="a",
            axes=Geometry(axes),
            **how.place,
        )


def _write(
    array: Array,
    dims: tuple[Any, ...],
    packed: Packed,
    places: Mapping[str, slice],
    how: Writing,
) -> Any:
    data = packed.data
    if data.ndim > len(dims) and data.shape[-1] != array.shape[-1]:
        data = _as_wide(array, data)
    region = tuple(
        places.get(dim, slice(0, size)) for dim, size in zip(dims, data.shape, strict=False)
    )
    region += tuple(slice(0, size) for size in array.shape[len(region) :])
    return to_n5(
        data,
        how.url,
        array.path,
        region=region,
        compute=False,
        align_chunks=how.align_chunks,
        write_empty_chunks=how.write_empty_chunks,
        **how.place,
    )


def _as_wide(array: Array, data: Any) -> Any:
    """Return characters as wide as those that are stored, which become wider where they must."""
    width = max(data.shape[-1], array.shape[-1])
    if width > array.shape[-1]:
        array.resize((*array.shape[:-1], width))
        named = [*array.attrs["_ARRAY_DIMENSIONS"][:-1], f"string{width}"]
        array.attrs["_ARRAY_DIMENSIONS"] = named
    wider = [(0, 0)] * (data.ndim - 1) + [(0, width - data.shape[-1])]
    pad: Any = da.pad if isinstance(data, da.Array) else np.pad
    return pad(data, wider, mode="constant")
