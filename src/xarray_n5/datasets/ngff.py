"""Which variables of a Dataset OME-NGFF shows as images, and what their group says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects.ngff import NESTED, can_show, is_of_variable, variable_image
from xarray_n5.errors import MetadataError
from xarray_n5.model.axes import Geometry, kind_of
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from xarray_n5.datasets.encoding import Plan, Stored
    from xarray_n5.model.axes import Axis

_KEY = "multiscales"

_LEAST = 2
"""How many axes of space must be known to be so."""


def check_dialect(dialect: object) -> None:
    """Raise where a dialect is asked for in which no coordinates are arrays.

    Raises
    ------
    MetadataError
        Naming it.
    """
    if dialect is not None and [dialect] != ["ngff"] and dialect != ["ngff"]:
        raise MetadataError(
            f"dialect is {dialect!r}: Datasets in Zarr have their coordinates in arrays, and "
            "beside them only 'ngff'; leave it out, or use xarray_n5.to_n5 for single arrays"
        )


def images_of(plan: Plan, there: Mapping[str, Any], dialect: object) -> dict[str, Any]:
    """Return what a group is to say of images, beside its other attributes; None for no more.

    Parameters
    ----------
    plan
        What is written into the group.
    there
        The attributes that the group keeps. Images in them that somebody else described stay
        alone: two descriptions could contradict each other.
    dialect
        "ngff" where all variables that have two regular axes of space are wanted, else those whose
        axes have units of length.

    Raises
    ------
    MetadataError
        If they are asked for, and cannot be written.
    """
    found = {
        name: variable_image(name, geometry)
        for name, stored in plan.variables.items()
        if name in plan.data and (geometry := _image(stored, wanted=dialect is not None))
    }
    before = there.get(_KEY) or []
    foreign = _KEY in plan.attributes or not all(map(is_of_variable, before))
    if dialect is not None and (foreign or not found):
        why = "others are described there" if foreign else "none has 2 to 5 axes that it can tell"
        raise MetadataError(f"dialect='ngff' cannot describe variables of {plan.path!r}: {why}")
    if foreign:
        return {}
    gone = {dim for stored in plan.variables.values() for dim in stored.packed.dims}
    gone = {dim for dim in gone if dim in plan.variables} - _unmoved(before, found.values())
    kept = [image for image in still_true(before, gone) if _name(image) not in plan.variables]
    images = [*kept, *found.values()]
    return {_KEY: images or None} if images or before else {}


def nested(plan: Plan, images: Mapping[str, Any]) -> Plan:
    """Return a plan in which the chunks of images are in nested folders, as OME-NGFF has them.

    Parameters
    ----------
    plan
        What is written into the group.
    images
        What :func:`images_of` returns of it.
    """
    shown = {_name(image) for image in images.get(_KEY) or ()} & plan.variables.keys()
    variables = {
        name: replace(stored, layout=NESTED | dict(stored.layout or {}))
        if name in shown
        else stored
        for name, stored in plan.variables.items()
    }
    return replace(plan, variables=variables)


def still_true(images: Iterable[Any], moved: Collection[str]) -> list[Any]:
    """Return images of which no axis has other places now."""
    return [image for image in images if not set(_axes(image)) & set(moved)]


def _unmoved(before: Iterable[Any], after: Iterable[Any]) -> set[str]:
    """Return the axes that images tell now as they told them before."""
    told = [axis for image in before for axis in _axes(image).items()]
    return {each[0] for image in after for each in _axes(image).items() if each in told}


def _axes(image: dict[str, Any]) -> dict[str, Any]:
    """Return what an image says of each axis."""
    scale, translation = image["datasets"][0]["coordinateTransformations"]
    rows = zip(image["axes"], scale["scale"], translation["translation"], strict=True)
    return {axis["name"]: (axis, step, offset) for axis, step, offset in rows}


def _name(image: dict[str, Any]) -> str:
    return str(image["datasets"][0]["path"])


def _image(stored: Stored, *, wanted: bool) -> Geometry | None:
    """Return a variable's axes with their kinds, if it is an image; None where it is none."""
    axes = stored.geometry.axes
    if stored.packed.data.dtype.kind not in "biuf":
        return None
    if set(stored.packed.dims) & set(stored.irregular):
        return None  # every axis would have to have a scale
    lengths = [axis for axis in axes if axis.scale is not None and _is_length(axis)]
    kinds = [_kind(axis) for axis in axes]
    regular = [a for a, kind in zip(axes, kinds, strict=True) if kind == "space" and a.scale]
    if not can_show(kinds) or len(regular if wanted else lengths) < _LEAST:
        return None
    whole = zip(axes, kinds, strict=True)
    return Geometry(tuple(replace(axis, kind=kind) for axis, kind in whole))  # type: ignore[arg-type]


def _is_length(axis: Axis) -> bool:
    unit = unit_of(axis.unit)
    return unit is not None and unit.quantity == "length"


def _kind(axis: Axis) -> str:
    return axis.kind or kind_of(axis.name, axis.unit) or "channel"
