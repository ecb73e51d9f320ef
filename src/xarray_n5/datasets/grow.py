"""Resize arrays along a dimension, and store a coordinate that their axes no longer describe."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import create_array
from xarray_n5.dask.to_n5 import to_n5
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import NOTES, note_of, told_by
from xarray_n5.stores.together import together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.writing.request import WriteOptions


def grow(group: Group, facts: Mapping[str, Any], how: WriteOptions) -> None:
    """Resize the arrays that have not been resized yet, by the facts in a marker.

    A coordinate that the axes no longer describe becomes an array.
    """
    resizes = []
    for name, (axis, size) in facts.get("grows", {}).items():
        array = group[name]
        if isinstance(array, Array) and array.shape[axis] == facts["start"] < size:
            shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
            resizes.append(partial(array.resize, shape))
    together(how.store, resizes)
    if "places" not in facts:
        return
    # The array is complete before the axes lose the coordinate: an interruption loses nothing.
    coordinate = facts["places"]
    dim, values = coordinate["dim"], np.array(coordinate["values"], coordinate["type"])
    attributes = {**coordinate["attributes"], "_ARRAY_DIMENSIONS": [dim]}
    attributes[convention_of(how.format).roundtrip_key] = {"axes": []}
    to_n5(values, how.container, join(group.path, dim), attributes=attributes, mode="w")
    for name in facts["grows"]:
        array = group[name]
        if isinstance(array, Array) and name != dim:
            remove_coordinate(array, dim, how)


def remove_coordinate(array: Array, dim: str, how: WriteOptions) -> None:
    """Remove a dimension's scale and offset from an array's axes."""
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
    array.attrs.change({}, geometry.keys & array.attrs.keys() - {"_ARRAY_DIMENSIONS", *NOTES})
