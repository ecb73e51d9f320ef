"""Write Datasets to existing arrays: to all of their values, or to a part of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xarray_n5.arrays.open import open_group
from xarray_n5.arrays.records import look, read_appends
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.encode import encode_like, regular_axis, space_axis
from xarray_n5.datasets.encoded import cf_attributes, convention_of, decode_attributes, fit
from xarray_n5.datasets.region import region_slices, select_written
from xarray_n5.datasets.write import ExistingGroup, check_not_scene
from xarray_n5.datasets.xarray_internals import cleanup_netcdf_time_units
from xarray_n5.images.select import select_images
from xarray_n5.model.paths import join
from xarray_n5.model.units import same_unit
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.inputs import check_apart
from xarray_n5.writing.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.datasets.region import Region
    from xarray_n5.model.axes import Axis
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

    @cached_property
    def grows(self) -> Mapping[str, list[list[int]]]:
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
    plans = [
        (path, plan_again(partial(_fitted, dataset, path, names, region), how))
        for dataset, path, names in written
    ]
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
    names: Sequence[str] | None,
    region: Region | None,
    how: WriteOptions,
) -> Update:
    """Check a dataset against the arrays of a group, as they are before unfinished appends."""
    appends = read_appends(how.store, path, look(how.store, path).appends).values()
    existing = ExistingGroup(open_stored(path, how), names=names, appends=[*appends])
    return plan_update(dataset, existing, how, region=region)


def plan_again(plan: Callable[[WriteOptions], T], how: WriteOptions) -> T:
    """Return a plan; if it fails, with the documents of now.

    An append of another process may have grown some of the arrays, and not yet all of them.
    """
    try:
        return plan(how)
    except ValueError:
        return plan(how.renewed())


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
    check_types(written, stored)
    in_axes = [dim for dim in slices if dim in dataset.variables and dim not in arrays]
    axes = [axis for image in existing.images.values() for axis in image.base.named().axes]
    placed = {axis.name for axis in axes if axis.scale is not None} & {*written.variables}
    for dim in slices:
        if dim in in_axes:
            check_coordinate(dataset, stored, dim, slices[dim], regular_axis(stored, dim))
        elif dim in placed and (axis := space_axis(stored, dim)):
            check_coordinate(dataset, stored, dim, slices[dim], axis)
    convention, encoded = convention_of(how.format), {}
    written = written.drop_vars(in_axes, errors="ignore")
    for name, variable in encode_like(written, stored, convention).items():
        encoded[name] = fit(variable, arrays[name])
        check_encoding(name, encoded[name], arrays[name], stored.variables[name].encoding)
    if append_dim is None:
        replaced = [arrays[name].path for name in encoded]
        check_apart([variable.data for variable in encoded.values()], how.container, replaced)
    return Update(
        how=how,
        existing=existing,
        dataset=dataset,
        slices=slices,
        append_dim=append_dim,
        in_axes=in_axes,
        encoded=encoded,
    )


_SCALES = frozenset({"scale_factor", "add_offset"})
"""Attributes that distinguish numbers from values."""

_ENCODED = _SCALES | {"_FillValue", "missing_value", "_Unsigned", "_Encoding"}
"""Attributes that determine the meaning of numbers."""

T = TypeVar("T")


def check_coordinate(
    dataset: xr.Dataset, stored: xr.Dataset, dim: str, where: slice, axis: Axis | None
) -> None:
    """Raise unless a coordinate continues that of an axis, or equals the stored one."""
    ours, theirs = dataset[dim], stored[dim]
    units = ours.attrs.get("units"), theirs.attrs.get("units")
    numbers = {ours.dtype.kind, theirs.dtype.kind} <= set("iuf")
    if not (numbers and same_unit(*map(_comparable, units))):
        raise ValueError(
            f"the coordinate {dim!r} is stored as {theirs.dtype} with the unit {units[1]!r}, got "
            f"{ours.dtype} with {units[0]!r}"
        )
    expected = theirs.to_numpy()[where]
    if axis is not None:
        expected = axis.offset + axis.step * np.arange(where.start, where.stop)
    if not np.array_equal(expected, ours.to_numpy()):
        described = f"the axes of arrays describe as {axis}" if axis else "is stored"
        raise ValueError(
            f"the coordinate {dim!r} differs from the one that {described}; a first write with "
            f"encoding={{{dim!r}: {{}}}} stores any coordinate, as an array"
        )


def check_types(dataset: xr.Dataset, stored: xr.Dataset) -> None:
    """Raise if a variable has another type or calendar than the stored one."""
    for name in dataset.variables:
        ours, theirs = dataset[name].dtype, stored[name].dtype
        kinds = {ours.kind, theirs.kind}
        encoding = stored[name].encoding
        # Packed numbers are checked for overflow when they are encoded.
        packed = encoding.get("dtype", theirs) != theirs or _SCALES & encoding.keys()
        numbers = packed and kinds <= set("iuf")
        times = len(kinds) == 1 and ours.kind in "Mm"
        if ours != theirs and not (kinds <= set("USO") or numbers or times):
            raise ValueError(
                f"{name!r} has the type {theirs}, got {ours}; convert it with astype()"
            )
        if "calendar" in encoding and ours.kind == "O" and dataset[name].size:
            calendar = dataset[name].dt.calendar
            if calendar != encoding["calendar"]:
                raise ValueError(
                    f"{name!r} is stored with the calendar {encoding['calendar']!r}, got "
                    f"{calendar!r}; use convert_calendar()"
                )


def check_encoding(
    name: str, encoded: EncodedVariable, array: Array, encoding: Mapping[str, Any]
) -> None:
    """Raise if encoded numbers would have another meaning in an existing array.

    Bounds without units have those of their times, which xarray adds to their `encoding`.
    """
    if encoded.data.dtype != array.dtype:
        raise ValueError(f"{name!r} is stored as {array.dtype}, got {encoded.data.dtype}")
    before = decode_attributes(cf_attributes(array), array.url)
    after = decode_attributes(encoded.cf_attributes, name)
    for key in (*sorted(_ENCODED), "units", "calendar", "dtype"):
        have, want = (_comparable(value.get(key)) for value in (before, after))
        if key in {"units", "calendar"} and "None" in {have, want}:
            inherited = _comparable(encoding.get(key))
            have, want = (value if value != "None" else inherited for value in (have, want))
        if have != want and not (key == "units" and same_unit(have, want)):
            raise ValueError(
                f"{name!r} is stored with {key} {have!r}, which cannot represent the new values "
                f"({want!r} would); {_advice(name, key, want)}"
            )


def _advice(name: str, key: str, want: str) -> str:
    if want == "None" or (key == "units" and " since " not in want):
        return "rewrite all of it, or use the same attributes"
    return (
        f"the first write chooses it for all: rewrite that with encoding={{{name!r}: "
        f"{{{key!r}: {want!r}}}}}"
    )


def _comparable(value: Any) -> str:
    """Return an attribute as a string to compare; a list of units is that of axes."""
    with suppress(ValueError):  # other units than those of times
        return str(cleanup_netcdf_time_units(str(value)))
    return "None" if isinstance(value, list) else str(value)
