"""Metadata that change with the values of a Dataset: coordinates in axes, attributes of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.array import Array, OpenOptions
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.create import create_array, plan_array
from xarray_n5.arrays.open import open_group
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.datasets.encoding import regular_axis
from xarray_n5.datasets.ngff import updated_images
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import NOTES, coords_from_axes, note_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.spec import Mode
    from xarray_n5.datasets.update import Update
    from xarray_n5.writing.request import WriteOptions


def changes_of(plan: Update) -> dict[str, Any]:
    """Return what a write changes besides the values and the shapes of arrays, as JSON."""
    coordinate = _coordinate_to_move(plan)
    moved = _outdated(plan) + ([coordinate["dim"]] if coordinate else [])
    attributes = updated_images(
        plan.group.attrs,
        plan.stored,
        plan.written,
        plan.slices,
        moved,
        plan.how.format.ngff_version,
    )
    changes = {"attributes": attributes, "moved": moved, "coordinate": coordinate}
    return {key: value for key, value in changes.items() if value}


def apply_changes(
    changes: Mapping[str, Any], path: str, names: Iterable[str], how: WriteOptions
) -> None:
    """Change the metadata of a group and of some of its arrays; may be repeated."""
    if not changes:
        return
    group = open_group(how.container, path, mode="r+")
    if coordinate := changes.get("coordinate"):
        _store_coordinate(group, coordinate, how)
    attributes = changes.get("attributes", {})
    stale = [key for key, value in attributes.items() if value is None]
    if attributes:
        group.attrs.change({k: v for k, v in attributes.items() if k not in stale}, stale)
    for name in names if changes.get("moved") else ():
        if isinstance(array := group.get(name), Array):
            for dim in changes["moved"]:
                _remove_coordinate(array, dim, how)


def _coordinate_to_move(plan: Update) -> dict[str, Any] | None:
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
    if plan.overwrite and plan.metadata and not one_writer:
        plan.overwrite.create_node(plan.metadata)


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


def _outdated(plan: Update) -> list[str]:
    """Return the dimensions whose new coordinate array will contradict the stored axes."""
    dims = []
    for dim, where in plan.slices.items():
        if dim in plan.in_axes or dim not in plan.written.variables:
            continue
        if axis := regular_axis(plan.stored, dim):
            expected = axis.offset + axis.step * np.arange(where.start, where.stop)
            if not np.array_equal(expected, plan.written[dim].to_numpy()):
                dims.append(dim)
    return dims
