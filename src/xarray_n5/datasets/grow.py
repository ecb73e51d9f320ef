"""Metadata that change with the values of a Dataset: coordinates in axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import create_array, plan_array
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.open import open_group
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.datasets.encoding import regular_axis
from xarray_n5.dialects.ngff_attributes import without_variables
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import NOTES, coords_from_axes, note_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.spec import Mode
    from xarray_n5.datasets.update import Update
    from xarray_n5.writing.options import WriteOptions


def changes_of(plan: Update) -> dict[str, Any]:
    """Return the changes of a write besides the values and the shapes of arrays, as JSON."""
    moved = _moved(plan)
    changes: dict[str, Any] = {"moved": moved}
    for dim in set(moved).intersection(plan.in_axes):
        values = np.concatenate([plan.stored[dim].to_numpy(), plan.dataset[dim].to_numpy()])
        changes["coordinate"] = {
            "dim": dim,
            "values": values.tolist(),
            "type": values.dtype.str,
            "attributes": dict(plan.stored[dim].attrs),
        }
    return {key: value for key, value in changes.items() if value}


def _moved(plan: Update) -> list[str]:
    """Return the dimensions whose new coordinates contradict the stored axes."""
    dims = []
    for dim, where in plan.slices.items():
        if dim in plan.written.variables and (dim == plan.append_dim or dim not in plan.in_axes):
            axis, numbers = regular_axis(plan.stored, dim), np.arange(where.start, where.stop)
            if axis is None:
                dims += [dim] if dim in plan.in_axes else []
            elif not np.array_equal(axis.offset + axis.step * numbers, plan.dataset[dim]):
                dims.append(dim)
    return dims


def apply_changes(
    changes: Mapping[str, Any], path: str, names: Iterable[str], how: WriteOptions
) -> None:
    """Change the metadata of a group and of some of its arrays; may be repeated."""
    if not changes:
        return
    group = open_group(how.container, path, mode="r+")
    if coordinate := changes.get("coordinate"):
        _store_coordinate(group, coordinate, how)
    if changes.get("moved"):
        forget_images(group)
    for name in names if changes.get("moved") else ():
        if isinstance(array := group.get(name), Array):
            for dim in changes["moved"]:
                _remove_coordinate(array, dim, how)


def forget_images(group: Group) -> None:
    """Remove the images that earlier versions wrote of variables, which may differ from now on."""
    attributes = dict(group.attrs)
    if (kept := without_variables(attributes)) != attributes:
        group.attrs.put(kept)


def _store_coordinate(group: Group, coordinate: Mapping[str, Any], how: WriteOptions) -> None:
    """Store a coordinate as an array, before axes lose it: an interruption loses nothing.

    Readers see it with its values, since the document comes last; not in HDF5.
    """
    dim, values = coordinate["dim"], np.array(coordinate["values"], coordinate["type"])
    attributes = {**coordinate["attributes"], "_ARRAY_DIMENSIONS": [dim]}
    attributes[convention_of(how.format).roundtrip_key] = {"axes": []}
    whole, path, one_writer = values.shape, join(group.path, dim), how.format.one_writer
    mode: Mode = "a" if one_writer else "w"
    spec = ArraySpec(path=path, chunks=whole, attributes=attributes, mode=mode)
    plan = plan_array(how.container, spec, whole, values.dtype, OpenOptions(writable=True))
    if one_writer:
        plan.create()
    plan.array.node.save((0,), values)
    if plan.overwrite and not one_writer:
        plan.overwrite.create_node(plan.array.node.metadata)


def _remove_coordinate(array: Array, dim: str, how: WriteOptions) -> None:
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
