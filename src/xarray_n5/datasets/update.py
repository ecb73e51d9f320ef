"""Write Datasets to existing arrays: to all of their values, or to a part of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.arrays.open import open_group
from xarray_n5.arrays.records import look, read_appends
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.encode import encode_like, regular_axis, space_axis
from xarray_n5.datasets.encoded import convention_of, fit
from xarray_n5.datasets.region import (
    check_axis,
    check_encoding,
    check_types,
    check_unit,
    region_slices,
    select_written,
    without_unchanged,
)
from xarray_n5.datasets.write import ExistingGroup, check_not_scene
from xarray_n5.images.select import select_images
from xarray_n5.model.paths import join
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.inputs import check_independent
from xarray_n5.writing.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.datasets.region import Region
    from xarray_n5.writing.options import WriteOptions


@dataclass(frozen=True, kw_only=True)
class Update:
    """A dataset to write to the arrays of a group, checked against them."""

    how: WriteOptions
    existing: ExistingGroup
    dataset: xr.Dataset
    slices: Mapping[str, slice]
    """The part of the stored Dataset to write."""
    append_dim: str | None
    in_axes: Sequence[str]
    """The dimensions whose coordinate is stored in axes only."""
    encoded: Mapping[str, EncodedVariable]
    """The variables, encoded like the stored ones."""

    @cached_property
    def requests(self) -> Mapping[str, WriteRequest]:
        """The requests to write the variables."""
        return {name: self._request(name) for name in self.encoded}

    @property
    def shapes(self) -> dict[str, list[list[int]]]:
        """The stored shapes of the arrays, before and after."""
        shapes = {}
        for name in self.encoded:
            node = self.existing.arrays[name].node
            after = node.with_shape(self.shape_of(name))
            shapes[name] = [[*node.metadata.shape], [*after.metadata.shape]]
        return shapes

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the shape that an array will have, in the user's order of axes."""
        shape, data = list(self.existing.arrays[name].shape), self.encoded[name].data
        dims = self.existing.dataset.variables[name].dims
        if self.append_dim is not None and self.append_dim in dims:
            shape[dims.index(self.append_dim)] = self.slices[self.append_dim].stop
        if self.encoded[name].is_string:
            shape[-1] = max(shape[-1], data.shape[-1])
        return tuple(shape)

    def _request(self, name: str) -> WriteRequest:
        array, encoded = self.existing.arrays[name], self.encoded[name]
        data, shape = encoded.data, self.shape_of(name)
        dims = self.existing.dataset.variables[name].dims
        pairs = zip(dims, data.shape, strict=False)
        region = [self.slices.get(str(dim), slice(0, size)) for dim, size in pairs]
        region += [slice(0, size) for size in shape[len(region) :]]
        node = replace(array.node.with_shape(shape), options=self.how.opening)
        return WriteRequest.of(
            data,
            ArraySpec(path=array.path),
            self.how,
            region=region,
            target=node,
            dims=encoded.names,
        )


def update(
    written: Iterable[tuple[xr.Dataset, str, Sequence[str] | None]],
    root: str,
    how: WriteOptions,
    *,
    region: Region | None = None,
) -> GroupWrite:
    """Return the write of Datasets to the arrays of groups at or below `root`.

    Without `region`, each variable replaces the values of its array. Everything else is kept. Of
    each Dataset, its group, and the names of the arrays to consider are passed; None for all.

    Raises
    ------
    ValueError
        If a dataset does not fit.
    """
    plans = [(path, _fitted(dataset, path, how, region, names)) for dataset, path, names in written]
    return GroupWrite(
        options=how,
        path=root,
        requests={
            join(path.removeprefix(root).strip("/"), name): request
            for path, plan in plans
            for name, request in plan.requests.items()
        },
        prepare=partial(_widen, [plan for _, plan in plans]),
        closing=partial(_consolidate, [path for path, _ in plans], how),
        exclusive=False,
    )


def _fitted(
    dataset: xr.Dataset,
    path: str,
    how: WriteOptions,
    region: Region | None,
    names: Sequence[str] | None,
) -> Update:
    """Check a dataset against the arrays of a group."""
    existing = ExistingGroup(open_stored(path, how), names=names)
    try:
        return plan_update(dataset, existing, how, region=region)
    except ValueError:  # an append of another process may have grown some arrays, and not yet all
        how = how.renewed()
        appends = [*read_appends(how.store, path, look(how.store, path).appends).values()]
        existing = ExistingGroup(open_stored(path, how), names=names, appends=appends)
        return plan_update(dataset, existing, how, region=region)


def _consolidate(paths: Iterable[str], how: WriteOptions) -> None:
    for path in paths:
        how.consolidate(path, default=False)


def _widen(plans: Iterable[Update]) -> None:
    """Resize arrays for strings that are longer than the stored ones."""
    for plan in plans:
        for name in plan.encoded:
            array = plan.existing.arrays[name]
            if (shape := plan.shape_of(name)) != array.shape:
                array.refresh().resize(shape)


def open_stored(path: str, how: WriteOptions) -> Group:
    """Return the group whose arrays are written to."""
    group = open_group(how.container, path, mode="r+")
    check_not_scene(group)
    return group


def plan_update(
    dataset: xr.Dataset,
    existing: ExistingGroup,
    how: WriteOptions,
    *,
    append_dim: str | None = None,
    region: Region | None = None,
) -> Update:
    """Check a dataset against the arrays of a group, and encode it like them."""
    group, arrays, dataset = existing.group, existing.arrays, existing.renamed(dataset)
    if not arrays and (images := select_images(group)):
        raise ValueError(
            f"{list(images)} in {group.url!r} are several arrays each, as in BigDataViewer; "
            "write to them one by one with xarray_n5.open_array"
        )
    stored = existing.dataset
    slices = region_slices(dataset, stored, region, append_dim)
    whole = append_dim is None and region is None
    written = select_written(dataset, stored, slices, append_dim, whole=whole)
    if region is not None:
        written = without_unchanged(written, stored, slices)
    check_types(written, stored)
    in_axes = [dim for dim in slices if dim in dataset.variables and dim not in arrays]
    for dim in in_axes:
        check_unit(dataset, stored, dim)
        check_axis(dataset, stored, dim, slices[dim], regular_axis(stored, dim))
    axes = [axis for image in existing.images.values() for axis in image.base.named().axes]
    placed = {str(axis.name) for axis in axes if axis.scale is not None}
    for dim in placed & {*slices} & {*written.variables} - {*in_axes}:
        if axis := space_axis(stored, dim):
            check_axis(dataset, stored, dim, slices[dim], axis)
    encoded = _encode(written.drop_vars(in_axes, errors="ignore"), stored, arrays, how)
    if append_dim is None:
        _check_sources(encoded, arrays)
    return Update(
        how=how,
        existing=existing,
        dataset=dataset,
        slices=slices,
        append_dim=append_dim,
        in_axes=in_axes,
        encoded=encoded,
    )


def _encode(
    written: xr.Dataset, stored: xr.Dataset, arrays: Mapping[str, Array], how: WriteOptions
) -> dict[str, EncodedVariable]:
    """Encode variables like the stored ones; raise if that is impossible."""
    convention, parents = convention_of(how.format), _bounded(stored, arrays)
    encoded = {}
    for name, variable in encode_like(written, stored, convention).items():
        encoded[name] = fit(variable, arrays[name])
        check_encoding(name, encoded[name], arrays[name], parents.get(name))
    return encoded


def _check_sources(encoded: Mapping[str, EncodedVariable], arrays: Mapping[str, Array]) -> None:
    """Raise if a variable is computed from values that are overwritten."""
    replaced = [arrays[name].node.identity for name in encoded]
    for variable in encoded.values():
        if is_dask_collection(variable.data):
            check_independent(variable.data, replaced)


def _bounded(stored: xr.Dataset, arrays: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Return the attributes of the variables that have bounds, by the names of the bounds."""
    parents = {}
    for name, variable in stored.variables.items():
        attributes = {**variable.encoding, **variable.attrs}
        for key in ("bounds", "climatology"):
            if key in attributes and name in arrays:
                parents[str(attributes[key])] = dict(arrays[str(name)].attrs)
    return parents
