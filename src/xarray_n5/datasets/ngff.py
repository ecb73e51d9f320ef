"""Describe variables of a Dataset in Zarr as OME-NGFF images, on their group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection

from xarray_n5.dialects.ngff import Ngff, can_show, variable_image
from xarray_n5.dialects.ngff_attributes import (
    channel_axes,
    channel_labels,
    is_of_variable,
    omero_of,
    relabelled,
    warn_lost,
    with_images,
)
from xarray_n5.dialects.ngff_attributes import images_of as images_in
from xarray_n5.dialects.ngff_systems import (
    WRITTEN,
    chosen_version,
    has_systems,
    systems_in,
    without_systems,
)
from xarray_n5.errors import MetadataError
from xarray_n5.model.axes import Geometry, kind_of
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import xarray as xr

    from xarray_n5.datasets.encoded import EncodedVariable
    from xarray_n5.datasets.encoding import GroupPlan, VariablePlan
    from xarray_n5.model.axes import Axis

_SHOWN = 5
"""The maximum number of variables that an error lists."""

_LEAST = 2
"""The number of regular axes of space that make a variable an image."""


def version_for(dialect: object, version: str) -> str:
    """Return the version of OME-NGFF that a dialect means, by default that of the format.

    Raises
    ------
    MetadataError
        If the dialect does not store coordinates as arrays, or the format cannot store the version.
    """
    chosen = [dialect] if isinstance(dialect, str) else dialect
    if chosen not in (None, [Ngff.name], [WRITTEN]):
        raise MetadataError(
            f"dialect is {dialect!r}, but coordinates of Datasets in Zarr are arrays, next to "
            f"which only 'ngff' or {WRITTEN!r} can be written; omit it, or use xarray_n5.to_n5 for "
            "single arrays"
        )
    try:
        return chosen_version(dialect, version)
    except ValueError as error:
        raise MetadataError(str(error)) from error


def images_of(
    plan: GroupPlan, existing: Mapping[str, Any], dialect: object, version: str
) -> dict[str, Any]:
    """Return the group's attributes that describe its images; their value is None to remove them.

    Strings along an axis of channels, also those of ``channel_name``, become the labels of channels
    in ``omero``, which is common to all images of a group.

    Parameters
    ----------
    plan
        The Dataset to write to the group.
    existing
        The remaining attributes of the group. If another program described images there, ours are
        not added: the two could contradict each other.
    dialect
        "ngff" or "ngff-0.6" to describe all variables with two regular axes of space; by default
        only those whose axes have units of length.
    version
        The version of OME-NGFF.

    Raises
    ------
    MetadataError
        If `dialect` is set, and no image can be described.
    """
    irregular = {dim for dim in plan.irregular if not _counts(plan.variables[dim].encoded)}
    found = {
        name: variable_image(name, geometry)
        for name, variable in plan.variables.items()
        if name in plan.data_vars
        and (geometry := _image(variable, irregular, wanted=dialect is not None))
    }
    before = images_in(existing)
    foreign = bool(images_in(plan.attributes)) or not all(map(is_of_variable, before))
    systems = {} if foreign else systems_in(before)
    own = {name: plan.variables[name].geometry.systems for name in found}
    systems |= {name: each for name, each in own.items() if each is not None}
    before = before if foreign else [without_systems(image) for image in before]
    if dialect is not None and (foreign or not found):
        why = (
            "the group already describes other images"
            if foreign
            else "OME-Zarr has images with at most one axis of time, one of channels, then two or "
            f"three of space, with evenly spaced coordinates; found {_listed(plan)}"
        )
        raise MetadataError(
            f"dialect={dialect!r} cannot describe variables of {plan.path!r}: {why}"
        )
    if foreign:
        return {}
    changed = {dim for variable in plan.variables.values() for dim in variable.encoded.dims}
    changed = {dim for dim in changed if dim in plan.variables} - _unchanged(before, found.values())
    kept = [i for i in without_moved(before, changed) if _name(i) not in plan.variables]
    images = [*kept, *found.values()]
    if not images and not before:
        return {}
    around = {**existing, **plan.attributes}
    channels = _channels(plan, images, omero_of(around))
    if channels:
        # Programs that open one image open the first one, and apply the labels to it.
        images.sort(key=lambda image: not channel_axes([image]))
    return with_images(around, images, version, channels, systems)


def _listed(plan: GroupPlan) -> str:
    axes = {name: ", ".join(plan.variables[name].encoded.dims) for name in plan.data_vars}
    return "; ".join(f"{name} ({dims})" for name, dims in [*sorted(axes.items())][:_SHOWN])


def _channels(plan: GroupPlan, images: Iterable[Any], theirs: Any) -> dict[str, Any] | None:
    """Return the labelled channels of images, with the colours of `theirs`, or None to keep them.

    All images with channels must have the same ones.
    """
    dim, *others = channel_axes(images) or {""}
    if others:
        return {}
    known = [plan.variables[name] for name in (dim, f"{dim}_name") if name in plan.variables]
    if not known:
        return None
    several = [labels_in(each.encoded.data) for each in known if each.encoded.dims == (dim,)]
    labels = next(filter(None, several), [])
    shown = (plan.variables[name] for name in map(_name, images) if name in plan.variables)
    first = next((each for each in shown if dim in each.encoded.dims), None)
    return relabelled(theirs, labels, None if first is None else first.encoded.data.dtype)


def labels_in(values: Any) -> list[str]:
    """Return the labels of channels; none if the values are not strings, or some are empty."""
    if is_dask_collection(values) or values.dtype.kind not in "OUT" or values.ndim != 1:
        return []
    texts = np.asarray(values).tolist()
    return texts if all(isinstance(text, str) and text for text in texts) else []


def updated_images(
    attributes: Mapping[str, Any],
    stored: xr.Dataset,
    written: xr.Dataset,
    slices: Mapping[str, slice],
    moved: Collection[str],
    version: str,
) -> dict[str, Any]:
    """Return the attributes of images that change with a region; None as a value removes one.

    Images go with the regular coordinates that have `moved`; channels get new labels.
    """
    images = images_in(attributes)
    if not images or not all(map(is_of_variable, images)):
        return {}
    systems = systems_in(images)
    images = [without_systems(image) for image in images]
    dims, channels = channel_axes(images) & slices.keys(), None
    both = stored.variables.keys() & written.variables.keys()
    names = [name for dim in dims for name in (dim, f"{dim}_name") if name in both]
    name = next((name for name in names if labels_in(stored[name].to_numpy())), None)
    if len(dims) == 1 and name is not None and channel_labels(omero := omero_of(attributes)):
        (dim,) = dims
        before, where = stored[name].to_numpy(), slices[dim]
        values = np.full(max(before.size, where.stop), "", object)
        values[: before.size] = before
        values[where] = written[name].to_numpy()
        path = next(_name(each) for each in images if dim in channel_axes([each]))
        dtype = stored[path].encoding.get("dtype") if path in stored else None
        channels = relabelled(omero, labels_in(values), dtype)
    if not moved and channels is None:
        return {}
    return with_images(attributes, without_moved(images, moved), version, channels, systems)


def warn_lost_systems(plan: GroupPlan, images: Mapping[str, Any]) -> None:
    """Warn about coordinate systems of variables that the new attributes of a group do not have."""
    kept = {_name(image) for image in images_in(images) if has_systems(image)}
    for name, variable in plan.variables.items():
        if name not in kept:
            warn_lost(name, variable.geometry.systems, {})


def with_layout(plan: GroupPlan, images: Mapping[str, Any], layout: Mapping[str, Any]) -> GroupPlan:
    """Return a plan whose images, as :func:`images_of` returns them, have a `layout`."""
    shown = {_name(image) for image in images_in(images)} & plan.variables.keys()
    if not shown:
        return plan
    variables = dict(plan.variables)
    for name in shown:
        spec = variables[name].spec
        spec = replace(spec, layout={**layout, **(spec.layout or {})})
        variables[name] = replace(variables[name], spec=spec)
    return replace(plan, variables=variables)


def without_moved(images: Iterable[Any], moved: Collection[str]) -> list[Any]:
    """Return the images without those whose coordinates have changed."""
    return [image for image in images if not set(_axes(image)) & set(moved)]


def _unchanged(before: Iterable[Any], after: Iterable[Any]) -> set[str]:
    """Return the axes that images describe as they did before."""
    described = [axis for image in before for axis in _axes(image).items()]
    return {each[0] for image in after for each in _axes(image).items() if each in described}


def _axes(image: dict[str, Any]) -> dict[str, Any]:
    """Return the description of each axis of an image."""
    scale, translation = image["datasets"][0]["coordinateTransformations"]
    rows = zip(image["axes"], scale["scale"], translation["translation"], strict=True)
    return {axis["name"]: (axis, step, offset) for axis, step, offset in rows}


def _name(image: dict[str, Any]) -> str:
    return str(image["datasets"][0]["path"])


def _image(variable: VariablePlan, irregular: Collection[str], *, wanted: bool) -> Geometry | None:
    """Return the axes of a variable with their kinds, or None if it is not an image."""
    axes, encoded = variable.geometry.axes, variable.encoded
    if encoded.data.dtype.kind not in "biuf":
        return None
    lengths = [axis for axis in axes if axis.scale is not None and _is_length(axis)]
    known = [axis.kind or kind_of(axis.name, axis.unit) for axis in axes]
    if any(k != "channel" and d in irregular for d, k in zip(encoded.dims, known, strict=True)):
        return None  # every axis requires a scale; that of channels has no meaning
    kinds = [kind or "channel" for kind in known]
    regular = [a for a, kind in zip(axes, kinds, strict=True) if kind == "space" and a.scale]
    if not can_show(kinds) or len(regular if wanted else lengths) < _LEAST:
        return None
    return Geometry(tuple(replace(axis, kind=kind) for axis, kind in zip(axes, kinds, strict=True)))


def _counts(coordinate: EncodedVariable) -> bool:
    """Return whether whole numbers only count samples; days and others have units."""
    values = coordinate.data
    numbers = isinstance(values, np.ndarray) and values.dtype.kind in "iu"
    plain = numbers and "units" not in coordinate.attributes
    return plain and np.array_equal(values, np.arange(values.size))


def _is_length(axis: Axis) -> bool:
    unit = unit_of(axis.unit)
    return unit is not None and unit.quantity == "length"
