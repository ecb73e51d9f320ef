"""Coordinates that axes no longer describe, and become arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.create import create_array
from xarray_n5.dask.to_n5 import to_n5
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.datasets.encoding import regular_axis
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import NOTES, coords_from_axes, note_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.datasets.update import Update
    from xarray_n5.writing.options import WriteOptions


def moved_coordinate(plan: Update) -> dict[str, Any] | None:
    """Return the coordinate along which a Dataset grows, if axes cannot describe it any more."""
    dim = plan.append_dim
    if dim is None or dim not in plan.in_axes:
        return None
    whole = np.concatenate([plan.stored[dim].to_numpy(), plan.dataset[dim].to_numpy()])
    (axis,) = geometry_from(plan.stored[dim]).axes
    if np.array_equal(axis.offset + axis.step * np.arange(whole.size), whole):
        return None
    return {
        "dim": dim,
        "values": whole.tolist(),
        "type": whole.dtype.str,
        "attributes": dict(plan.stored[dim].attrs),
    }


def move_coordinate(
    group: Group, coordinate: Mapping[str, Any], names: Iterable[str], how: WriteOptions
) -> None:
    """Store a coordinate as an array, and remove it from the axes of other arrays."""
    dim, values = coordinate["dim"], np.array(coordinate["values"], coordinate["type"])
    stored = group.get(dim)
    if not (isinstance(stored, Array) and np.array_equal(stored[: values.size], values)):
        # It is complete before the axes lose the coordinate: an interruption loses nothing.
        attributes = {**coordinate["attributes"], "_ARRAY_DIMENSIONS": [dim]}
        attributes[convention_of(how.format).roundtrip_key] = {"axes": []}
        path = join(group.path, dim)
        to_n5(values, how.container, path, attributes=attributes, mode="w", resume=True)
    for name in names:
        array = group.get(name)
        if name != dim and isinstance(array, Array):
            remove_coordinate(array, dim, how)


def remove_coordinate(array: Array, dim: str, how: WriteOptions) -> None:
    """Remove a dimension's scale and offset from an array's axes."""
    geometry = array.geometry()
    if all(axis.name != dim or axis.scale is None for axis in geometry.axes):
        return
    note = dict(note_of(array.attrs))
    note["axes"] = [each for each in coords_from_axes(array.attrs) or () if each != dim]
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
    array.attrs.change({}, geometry.keys & array.attrs.keys() - {"_ARRAY_DIMENSIONS", *NOTES})


def outdated(
    stored: xr.Dataset, written: xr.Dataset, slices: Mapping[str, slice], in_axes: Collection[str]
) -> list[str]:
    """Return the dimensions whose new coordinate array will contradict the stored axes."""
    found = []
    for dim, where in slices.items():
        if dim in in_axes or dim not in written.variables:
            continue
        if axis := regular_axis(stored, dim):
            expected = axis.offset + axis.step * np.arange(where.start, where.stop)
            if not np.array_equal(expected, written[dim].to_numpy()):
                found.append(dim)
    return found
