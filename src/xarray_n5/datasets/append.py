"""Datasets into arrays that exist: more along one dimension, or a part of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.create import create_array
from xarray_n5.dask.to_n5 import to_n5
from xarray_n5.datasets.build import build
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.datasets.encoding import encode_like, regular_axis
from xarray_n5.datasets.ngff import without_moved
from xarray_n5.datasets.region import (
    check_alignment,
    check_not_there,
    check_numbers,
    check_places,
    check_types,
    fitting,
    group_to_fill,
    places_of,
    without_unchanged,
)
from xarray_n5.datasets.select import select_images
from xarray_n5.dialects import DIALECTS
from xarray_n5.dialects.ngff import without_variables
from xarray_n5.errors import NodeExistsError
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import NOTES, note_of, told_by
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_independent
from xarray_n5.writing.transaction import Transaction, resume_end
from xarray_n5.writing.write import provenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.datasets.region import Region
    from xarray_n5.writing.request import WriteOptions


def update(
    dataset: xr.Dataset,
    path: str,
    how: WriteOptions,
    *,
    append_dim: str | None = None,
    region: Region | None = None,
) -> Transaction:
    """Return the transaction that writes a dataset into the arrays of a group.

    Without `append_dim` and `region`, each variable replaces the values of the array. Everything
    else stays as it is.

    Raises
    ------
    ValueError
        If the dataset does not fit.
    """
    group = group_to_fill(path, how, append_dim)
    marker = how.marker(path, dataset, append_dim, region)
    began = (marker.facts() or marker.planned() if how.resume else None) or {}
    if began.get("done"):
        return resume_end(marker, began)
    _grow(group, began, how)
    stored, arrays = _open(group)
    if append_dim is not None and began:
        stored = stored.isel({append_dim: slice(0, began["start"])})
    places = places_of(dataset, stored, region, append_dim)
    if append_dim is not None and how.resume and not began:
        check_not_there(dataset, stored, append_dim, group.url)
    whole = append_dim is None and region is None
    written = fitting(dataset, stored, places, append_dim, whole=whole)
    written = written if region is None else without_unchanged(written, stored, places)
    # Where arrays grow, one task merges the last chunk.
    merging = "merge" if append_dim is not None else how.partial_chunks
    how = replace(how, partial_chunks=merging)
    check_types(written, stored)
    packed = encode_like(written, stored, convention_of(how.format))
    beside = _beside(dataset, stored, arrays, group, places, append_dim)
    packed = {name: each for name, each in packed.items() if name not in beside}
    packed = _checked(packed, stored, arrays, places, how)
    _check_sources(packed, arrays, appending=append_dim is not None)
    facts: dict[str, Any] = {**provenance()}
    if append_dim is not None:
        facts |= _growth(stored, arrays, append_dim, places[append_dim])
        facts |= _moved(dataset, stored, append_dim) if append_dim in beside else {}
        facts |= {key: began[key] for key in ("places",) if key in began}
    growth = facts.get("grows", {})
    grown = {n: _as_grown(arrays[n], each, growth.get(n)) for n, each in packed.items()}
    plans = {
        name: plan_write(
            _request(grown[name], stored.variables[name].dims, each, places, how, append_dim)
        )
        for name, each in packed.items()
    }
    # Now all is checked.
    marker.begin(facts, planned=bool(began))
    if not began:
        _grow(group, facts, how)
    _widen(arrays, packed)
    moved = _outdated(written, stored, {k: v for k, v in places.items() if k not in beside})
    _forget_images(group, moved)
    for dim in moved:
        for array in arrays.values():
            _forget(array.refresh(), dim, how)
    named = {arrays[name].path.removeprefix(path).strip("/"): plans[name] for name in plans}
    transaction = Transaction(named, marker).begin()
    how.consolidate(path, default=append_dim is not None)
    return transaction


def _widen(arrays: Mapping[str, Array], packed: Mapping[str, EncodedVariable]) -> None:
    """Make room for strings that are longer than those that are stored."""
    for name, each in packed.items():
        array = arrays[name]
        if each.is_string and each.data.shape[-1] > array.shape[-1]:
            array.refresh().resize((*array.shape[:-1], each.data.shape[-1]))


def _beside(
    dataset: xr.Dataset,
    stored: xr.Dataset,
    arrays: Mapping[str, Array],
    group: Group,
    places: Mapping[str, slice],
    append_dim: str | None,
) -> list[str]:
    """Return dimensions whose coordinate stands in axes, all of which allow for the new places."""
    beside = [dim for dim in places if dim in dataset.variables and dim not in arrays]
    for dim in beside:
        check_places(dataset, stored, dim, places[dim], grows=dim == append_dim)
        if dim in group.groups():
            raise NodeExistsError(group.url, dim, "a group", "it has the name of the coordinate")
    return beside


def _open(group: Group) -> tuple[xr.Dataset, dict[str, Array]]:
    """Return a group as a Dataset, and the array of each variable."""
    group.nodes(iter(group), strict=True)  # what cannot be read would not grow with the others
    images = select_images(group)
    if stacked := [name for name, image in images.items() if image.numbers]:
        raise ValueError(
            f"{stacked} in {group.url!r} are several arrays each, as in BigDataViewer's files; "
            "write into them one by one with xarray_n5.open_array"
        )
    stored = build(images, dict(group.attrs))
    return stored, {name: image.first for name, image in images.items()}


def _checked(
    packed: Mapping[str, EncodedVariable],
    stored: xr.Dataset,
    arrays: Mapping[str, Array],
    places: Mapping[str, slice],
    how: WriteOptions,
) -> dict[str, EncodedVariable]:
    """Return what is written as wide as it is stored; raise where it would mean something else."""
    parents = _parents(stored, arrays)
    found = {}
    for name, each in packed.items():
        found[name] = convention_of(how.format).fit(name, each, arrays[name])
        check_numbers(name, found[name], arrays[name], parents.get(name))
        where = [places.get(dim, slice(0, 0)).start for dim in each.dims]
        check_alignment(found[name], arrays[name], where, how)
    return found


def _check_sources(
    packed: Mapping[str, EncodedVariable], arrays: Mapping[str, Array], *, appending: bool
) -> None:
    """Raise where a variable is computed from values that are overwritten."""
    for each in packed.values():
        if is_dask_collection(each.data) and not appending:
            check_independent(each.data, [arrays[name].place for name in packed])


def _parents(stored: xr.Dataset, arrays: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Return, by the name of bounds, the attributes of the variable that they are bounds of."""
    found = {}
    for name, variable in stored.variables.items():
        told = {**variable.encoding, **variable.attrs}
        for key in ("bounds", "climatology"):
            if key in told and name in arrays:
                found[str(told[key])] = dict(arrays[str(name)].attrs)
    return found


def _growth(
    stored: xr.Dataset, arrays: Mapping[str, Array], dim: str, place: slice
) -> dict[str, Any]:
    """Return from where on arrays grow, and along which axis to which size each of them."""
    grows = {
        name: [stored.variables[name].dims.index(dim), place.stop]
        for name in arrays
        if dim in stored.variables[name].dims
    }
    return {"start": place.start, "grows": grows}


def _moved(dataset: xr.Dataset, stored: xr.Dataset, dim: str) -> dict[str, Any]:
    """Return all places along a dimension, where its axis does not give them any more."""
    whole = np.concatenate([stored[dim].to_numpy(), dataset[dim].to_numpy()])
    (before,) = geometry_from(stored[dim]).axes
    if np.array_equal(before.offset + before.step * np.arange(whole.size), whole):
        return {}
    places = {"dim": dim, "values": whole.tolist(), "type": whole.dtype.str}
    return {"places": {**places, "attributes": dict(stored[dim].attrs)}}


def _grow(group: Group, facts: Mapping[str, Any], how: WriteOptions) -> None:
    """Let arrays grow that have not yet, and keep their places: who was stopped goes on here."""
    for name, (axis, size) in facts.get("grows", {}).items():
        array = group[name]
        if isinstance(array, Array) and array.shape[axis] == facts["start"] < size:
            array.resize((*array.shape[:axis], size, *array.shape[axis + 1 :]))
    if "places" not in facts:
        return
    # Whole, and before the arrays forget them: whatever stops here, nothing of them is lost.
    places = facts["places"]
    dim, values = places["dim"], np.array(places["values"], places["type"])
    attributes = {**places["attributes"], "_ARRAY_DIMENSIONS": [dim]}
    attributes[convention_of(how.format).roundtrip_key] = {"axes": []}
    to_n5(
        values,
        how.container,
        join(group.path, dim),
        attributes=attributes,
        mode="w",
    )
    for name in facts["grows"]:
        array = group[name]
        if isinstance(array, Array) and name != dim:
            _forget(array, dim, how)


def _outdated(dataset: xr.Dataset, stored: xr.Dataset, places: Mapping[str, slice]) -> list[str]:
    """Return dimensions whose coordinate, an array, is no longer what axes may say of it."""
    found = []
    for dim, place in places.items():
        if dim in dataset.variables and stored[dim].dtype.kind in "iuf" and stored[dim].size:
            axis = regular_axis(stored, dim)
            numbers = np.arange(place.start, place.stop)
            if axis and not np.array_equal(
                axis.offset + axis.step * numbers, dataset[dim].to_numpy()
            ):
                found.append(dim)
    return found


def _forget_images(group: Group, moved: Sequence[str]) -> None:
    """Take out of a group what it says of images that have other places now."""
    images = group.attrs.get("multiscales")
    if moved and images and "multiscales" not in without_variables(group.attrs):
        kept = without_moved(images, moved)
        group.attrs.change({"multiscales": kept} if kept else {}, [] if kept else ["multiscales"])


def _forget(array: Array, dim: str, how: WriteOptions) -> None:
    """Take a dimension's places out of an array's axes."""
    geometry = array.geometry()
    if all(axis.name != dim or axis.scale is None for axis in geometry.axes):
        return
    note = dict(note_of(array.attrs))
    note["axes"] = [each for each in told_by(array.attrs) or () if each != dim]
    array.attrs[convention_of(how.format).roundtrip_key] = note
    axes = tuple(Axis(name=each.name) if each.name == dim else each for each in geometry.axes)
    if any(axis.scale is not None for axis in axes):
        create_array(
            how.container,
            array.path,
            shape=array.shape,
            dtype=array.dtype,
            mode="a",
            axes=Geometry(axes),
        )
        return
    keys = {key for name in geometry.dialects for key in DIALECTS[name].keys}
    array.attrs.change({}, keys & array.attrs.keys() - {"_ARRAY_DIMENSIONS", *NOTES})


def _as_grown(array: Array, packed: EncodedVariable, growth: Sequence[int] | None) -> Array:
    """Return an array with the shape that it will have: longer, or with room for longer strings."""
    shape = list(array.shape)
    if growth is not None:
        axis, size = growth
        shape[axis] = size
    if packed.is_string:
        shape[-1] = max(shape[-1], packed.data.shape[-1])
    return array.with_shape(tuple(shape))


def _request(
    array: Array,
    dims: tuple[Any, ...],
    packed: EncodedVariable,
    places: Mapping[str, slice],
    how: WriteOptions,
    append_dim: str | None,
) -> WriteRequest:
    data = packed.data
    region = tuple(
        places.get(dim, slice(0, size)) for dim, size in zip(dims, data.shape, strict=False)
    )
    region += tuple(slice(0, size) for size in array.shape[len(region) :])
    return WriteRequest.of(
        data,
        array.path,
        how,
        region=region,
        target=array,
        appends=append_dim is not None,
        deferred=how.deferred and is_dask_collection(data),
    )
