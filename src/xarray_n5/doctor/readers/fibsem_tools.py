"""fibsem-tools, for COSEM's data: ``transform`` of arrays, or Neuroglancer's group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects import cosem
from xarray_n5.dialects.levels import images_in, listings
from xarray_n5.doctor.readers import strict
from xarray_n5.doctor.readers.ngff import read_ngff
from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, reading_of, refused, unread
from xarray_n5.doctor.readers.zarr_python import ZarrPython
from xarray_n5.model.alerts import ODD
from xarray_n5.model.axes import centre_shift

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage
    from xarray_n5.model.metadata import Attributes

_LISTS = ("axes", "units", "translate", "scale")
"""What ``transform`` must have, each as long as the others."""

_GROUP = ("axes", "units", "scales", "pixelResolution")
"""What the group around an array without ``transform`` must have."""

_NAMES = ("z", "y", "x")

_NGFF = "0.4"

_NGFF_NDIM = range(2, 6)
_NGFF_SPACE = range(2, 4)
_NGFF_KINDS = ("space", "time", "channel")


@dataclass(frozen=True, slots=True)
class FibsemTools:
    """``fibsem_tools.read_xarray``, through zarr-python 2."""

    name: ClassVar[str] = "fibsem_tools"
    title: ClassVar[str] = "fibsem-tools (COSEM)"
    source: ClassVar[str] = (
        "janelia-cellmap/fibsem-tools 7.0.5: io/n5/core.py; cellmap-schemas: multiscale"
    )

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the coordinates of each level."""
        return [self._read(image, level) for level in image.levels]

    def _read(self, image: StoredImage, level: StoredArray) -> Reading:
        if image.format not in {"n5", "zarr2"}:
            return unread("it reads N5 and Zarr v2")
        (opened,) = ZarrPython().read(replace(image, levels=(level,)))
        if not opened.opens:
            return opened
        if image.format == "zarr2":
            return _zarr(image, level)
        if "transform" in level.attributes:
            return _transform(level)
        return _group(image, level)


def _transform(level: StoredArray) -> Reading:
    """Return the axes of ``transform``, whose lists are read in C order, whatever their order."""
    said = level.attributes["transform"]
    problem = next(_invalid_transform(said, level.ndim), None)
    if problem is not None:
        return refused(problem)
    transform = {key: said[key] for key in _LISTS} | {"order": "C"}
    try:
        found = cosem.Cosem().read(level.only({"transform": transform}, attribute_order="auto"))
    except ODD as error:
        return refused(f"'transform' is invalid: {error}")
    if found is None:
        return refused("'transform' is invalid")
    read = reading_of(found)
    pairs = zip(read.axes or (), found.axes, said["scale"], strict=True)
    # A scale of 1 of channels is a scale.
    axes = tuple(replace(seen, scale=float(step), offset=axis.offset) for seen, axis, step in pairs)
    return replace(read, axes=axes)


def _invalid_transform(said: Any, ndim: int) -> Iterator[str]:
    """Iterate over what cellmap-schemas does not accept in ``transform``."""
    if not isinstance(said, dict):
        yield f"'transform' is {said!r:.80}; it expects an object"
        return
    for key in _LISTS:
        if not isinstance(said.get(key), list):
            yield f"'transform' lacks {key!r}, or it is not a list"
        elif len(said[key]) != ndim:
            yield f"'transform' has {len(said[key])} {key} for {ndim} axes"
    if said.get("order") not in {None, "C", "F"}:
        yield f"'transform' has the order {said['order']!r}"
    for key in ("axes", "units"):
        if (problem := strict.strings(said, key, ndim)) is not None:
            yield f"'transform': {problem}"


def _group(image: StoredImage, level: StoredArray) -> Reading:
    """Return the axes by Neuroglancer's attributes, which the whole group must have."""
    group = image.group
    if level.root or any(key not in group for key in _GROUP):
        keys = ", ".join(map(repr, _GROUP))
        return unread(f"it expects 'transform' of the array, or {keys} of the group")
    problem = next(_invalid_group(group), None) or next(_invalid_members(image, level), None)
    if problem is not None:
        return refused(problem)
    common, own = group["pixelResolution"], level.attributes["pixelResolution"]
    factor = group["scales"][_place(image, level)][0]  # the first factor, for all axes
    steps = zip(_NAMES, own["dimensions"][::-1], common["dimensions"][::-1], strict=True)
    axes = tuple(
        SeenAxis(name=name, scale=step, offset=centre_shift(base, factor), unit=own["unit"])
        for name, step, base in steps
    )
    return Reading(axes=axes, attribute="pixelResolution, pixelResolution and scales of the group")


def _invalid_group(group: Attributes) -> Iterator[str]:
    """Iterate over what cellmap-schemas does not accept in the attributes of a group."""
    ndim = len(group["axes"]) if isinstance(group["axes"], list) else 0
    common, scales = group["pixelResolution"], group["scales"]
    if not isinstance(common, dict) or not isinstance(common.get("unit"), str):
        yield "'pixelResolution' of the group has no unit"
        return
    for key in ("axes", "units"):
        if (problem := strict.strings(group, key, ndim)) is not None:
            yield f"group: {problem}"
    sizes = {"dimensions": common.get("dimensions")}
    if (problem := strict.numbers(sizes, "dimensions", ndim)) is not None:
        yield f"'pixelResolution' of the group: {problem}"
    whole = isinstance(scales, list) and all(
        isinstance(row, list) and len(row) == ndim and all(_is_whole(each) for each in row)
        for row in scales
    )
    if not whole or not scales or any(each != 1 for each in scales[0]):
        yield "'scales' of the group is not a list of whole factors of levels, the first all 1"
    if any(each != common["unit"] for each in group["units"]):
        yield f"'units' of the group are not all that of 'pixelResolution', {common['unit']!r}"


def _invalid_members(image: StoredImage, level: StoredArray) -> Iterator[str]:
    """Iterate over why the arrays in a group do not fit its attributes."""
    for name, member in image.members.items():
        own = member.attributes.get("pixelResolution")
        if not isinstance(own, dict) or not isinstance(own.get("unit"), str):
            yield f"{name!r} in the group has no 'pixelResolution' with a unit"
        elif problem := strict.numbers(
            {"dimensions": own.get("dimensions")}, "dimensions", member.ndim
        ):
            yield f"'pixelResolution' of {name!r} in the group: {problem}"
    listed = range(len(image.group["scales"]))
    if absent := [n for n in listed if f"s{n}" not in image.members]:
        yield f"'scales' of the group lists 's{absent[0]}', which is not an array in it"
    if level.ndim != len(_NAMES):
        yield f"it expects three axes, not {level.ndim}"
    if _place(image, level) not in listed:
        yield "'scales' of the group lists fewer levels than there are arrays in it"


def _place(image: StoredImage, level: StoredArray) -> int:
    """Return the place of a level among the arrays of its group, the largest first."""
    sizes = {name: math.prod(each.context.shape) for name, each in image.members.items()}
    return sorted(sizes, key=lambda name: -sizes[name]).index(level.name)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, float)) and float(value).is_integer() and value > 0


def _zarr(image: StoredImage, level: StoredArray) -> Reading:
    """Return the axes of an image of OME-NGFF 0.4, which must be as it is specified."""
    group = next((each for each in level.above if "multiscales" in each), {})
    problem = next(_invalid_images(group.get("multiscales")), None)
    if problem is not None:
        known = {each.get("version") for each in images_in(group)} == {_NGFF}
        return refused(problem) if known else unread(f"it reads OME-NGFF {_NGFF}: {problem}")
    if any(_has_no_fill(each.document) for each in image.levels):
        return unread("it expects a fill value, not null, of integers")
    found = read_ngff(level)
    listing = next(listings(level.context), None)
    if found.axes is None or listing is None or "coordinateTransformations" not in listing[0]:
        return found
    # Translations of the image and of its level are added, without the image's scale.
    moves = [each["coordinateTransformations"][1:] for each in listing[:2]]
    sums = [
        sum(each["translation"][n] for (each,) in filter(None, moves)) for n in range(level.ndim)
    ]
    return replace(found, axes=tuple(map(_moved, found.axes, sums)))


def _invalid_images(images: object) -> Iterator[str]:
    """Iterate over what is wrong with ``multiscales``; see pydantic-ome-ngff's models of 0.4."""
    if not isinstance(images, list) or not images:
        yield "'multiscales' is not a list of images"
        return
    for image in images:
        axes = image.get("axes") if isinstance(image, dict) else None
        datasets = image.get("datasets") if isinstance(image, dict) else None
        if not isinstance(axes, list) or not all(map(_is_axis, axes)):
            yield "'multiscales' has no list of axes with names"
        elif not isinstance(datasets, list) or not datasets:
            yield "'multiscales' has no list of datasets"
        else:
            yield from _invalid_axes(axes)
            for each in datasets:
                yield from _invalid_transformations(
                    each.get("coordinateTransformations"), len(axes)
                )
            if "coordinateTransformations" in image:
                yield from _invalid_transformations(image["coordinateTransformations"], len(axes))


def _is_axis(axis: object) -> bool:
    return (
        isinstance(axis, dict)
        and isinstance(axis.get("name"), str)
        and all(isinstance(axis.get(key), str | None) for key in ("type", "unit"))
    )


def _invalid_axes(axes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    kinds = [axis.get("type") for axis in axes]
    spatial = kinds.count("space")
    if len(axes) not in _NGFF_NDIM or spatial not in _NGFF_SPACE:
        yield f"'multiscales' has {spatial} axes of space of {len(axes)}; it expects two or three"
    if len({axis["name"] for axis in axes}) < len(axes):
        yield "'multiscales' names an axis twice"
    if any(kind != "space" for kind in kinds[len(kinds) - spatial :]):
        yield "'multiscales' lists axes of space before others"
    if max(map(kinds.count, ("time", "channel"))) > 1 or len({*kinds} - {*_NGFF_KINDS}) > 1:
        yield "'multiscales' has several axes of time or of channels"


def _invalid_transformations(found: object, ndim: int) -> Iterator[str]:
    """Iterate over what keeps transforms from being a scale, or a scale and a translation."""
    listed = found if isinstance(found, list) else []
    kinds = [each.get("type") for each in listed if isinstance(each, dict)]
    if kinds not in (["scale"], ["scale", "translation"]):
        names = ", ".join(map(str, kinds)) or "nothing"
        yield f"'coordinateTransformations' has {names}; it expects a scale, then a translation"
        return
    for kind, each in zip(kinds, listed, strict=True):
        if not isinstance(each.get(kind), list) or len(each[kind]) != ndim:
            yield f"'coordinateTransformations' has a {kind} that is not a list of {ndim} numbers"


def _has_no_fill(document: Mapping[str, Any]) -> bool:
    return document.get("fill_value", 0) is None and str(document.get("dtype"))[1:2] in "iu"


def _moved(axis: SeenAxis, offset: float) -> SeenAxis:
    return axis if axis.scale is None else replace(axis, offset=float(offset))
