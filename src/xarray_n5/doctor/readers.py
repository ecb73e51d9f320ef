"""What other programs read of containers: a function for each, by the dialects that it reads.

A reader is a program with rules of its own: which attributes it reads first, which it requires,
and what it does without them. The parsing of attributes is that of the dialects.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from xarray_n5.dialects import imagej, ngff, resolutions, resolve_geometry, transforms
from xarray_n5.dialects.groups import listings
from xarray_n5.dialects.ngff_systems import has_systems
from xarray_n5.model.alerts import ODD
from xarray_n5.model.axes import Axis
from xarray_n5.model.paths import level_number

if TYPE_CHECKING:
    from xarray_n5.doctor.images import StoredArray
    from xarray_n5.model.axes import Geometry

Offsets: TypeAlias = Literal["absolute", "relative", "ignored"]
"""Whether a program has offsets, only those of levels to the base level, or its own rule."""

_SPATIAL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One level as a program sees it."""

    axes: tuple[Axis, ...] | None
    """The axes in C order, or None if the program does not open the array."""
    attribute: str = ""
    """The attributes that were read."""
    reason: str = ""
    """Why it is not opened."""
    fault: bool = False
    """Whether attributes are the reason; otherwise it is the format, the type or the codec."""
    offsets: Offsets = "absolute"
    note: str = ""
    """What the program does in its own way with an image that does not begin at 0."""

    @property
    def opens(self) -> bool:
        """Whether the program opens the array."""
        return self.axes is not None

    @property
    def silent(self) -> bool:
        """Whether the program has at most defaults for the axes."""
        defaults = (None,) if self.attribute else (None, 1.0)
        return not any(a.name or a.unit or a.scale not in defaults for a in self.axes or ())


def unread(reason: str) -> Reading:
    """Return the reading of an array whose format, layout or codec a program does not know."""
    return Reading(axes=None, reason=reason)


def refused(reason: str) -> Reading:
    """Return the reading of an array that a program does not open because of attributes."""
    return Reading(axes=None, reason=reason, fault=True)


def reading_of(geometry: Geometry) -> Reading:
    """Return the reading of a program that has a dialect, by what the dialect read."""
    names = ", ".join(geometry.sources.values()).split(", ")
    return Reading(axes=geometry.axes, attribute=", ".join(dict.fromkeys(filter(None, names))))


def read_all_dialects(level: StoredArray) -> Reading:
    """Return a level as xarray-n5 reads it, with the attributes that it is from, by dialect."""
    geometry, _ = resolve_geometry(level.context)
    sources = dict.fromkeys(geometry.sources.values())
    return replace(reading_of(geometry), attribute="; ".join(sources))


# OME-NGFF, as it is specified


def read_ngff(level: StoredArray) -> Reading:
    """Return a level as the image around it describes it."""
    try:
        geometry = ngff.Ngff().read(level.context)
    except ODD as error:
        return refused(f"'multiscales' of the group is invalid: {error}")
    if geometry is None:
        return unread("no group around it has 'multiscales' that list it")
    return reading_of(geometry)


def is_of_systems(level: StoredArray) -> bool:
    """Return whether a level is of an image of OME-Zarr 0.6, which many programs do not read."""
    return any(has_systems(image) for image, _, _ in listings(level.context))


# n5-viewer and Fiji's n5-ij, which try the metadata parsers of n5-universe in turn. Lists are in N5
# order in every format. The rules are those of their main branches in 2026-11.


def read_n5_universe(level: StoredArray) -> Reading:
    """Return a level by the first parser that can read it."""
    for parse in (_of_ngff, _of_imagej, _of_cosem, _of_n5_viewer, _of_canonical):
        with suppress(*ODD):
            if (geometry := parse(level)) is not None:
                return geometry if isinstance(geometry, Reading) else reading_of(geometry)
    return _of_anything(level)


def _of_ngff(level: StoredArray) -> Geometry | None:
    """Return a level of the OME-NGFF image around it, up to 0.5: OmeNgffMetadataParser."""
    geometry = None if is_of_systems(level) else ngff.Ngff().read(level.context)
    return None if geometry is None or not geometry.placed else geometry


def _of_imagej(level: StoredArray) -> Geometry | None:
    """Return an image of ImageJ: ImagePlusLegacyMetadataParser."""
    return imagej.ImageJ().read(level.only(level.attributes))


def _of_cosem(level: StoredArray) -> Geometry | None:
    """Return COSEM's ``transform``: N5CosemMetadataParser, which knows no key but ``ordering``."""
    stored = level.attributes["transform"]
    transform = {key: stored[key] for key in ("axes", "units", "scale", "translate")}
    if not all(isinstance(values, list) for values in transform.values()):
        return None
    transform["ordering"] = "F" if stored.get("ordering") == "F" else "C"
    return transforms.Cosem().read(level.only({"transform": transform}, attribute_order="auto"))


def _of_n5_viewer(level: StoredArray) -> Reading | None:
    """Return ``pixelResolution`` and factors: N5SingleScaleMetadataParser.

    Without factors, those of a level are guessed to be 2**level by its name.
    """
    key, listed = "pixelResolution", "downsamplingFactors"
    resolution, factors = level.attributes[key], level.attributes.get(listed)
    if not isinstance(
        resolution["dimensions"] if isinstance(resolution, dict) else resolution, list
    ):
        return None
    used = listed
    if not isinstance(factors, list):
        factor = 2 ** (level_number(level.name) or 0)
        factors = [factor] * min(_SPATIAL, level.ndim)
        used = f"{listed} guessed by the name {level.name!r}" if factor != 1 else ""
    affine = {k: v for k, v in level.attributes.items() if k == "affineTransform"}
    geometry = resolutions.N5Viewer().read(level.only({key: resolution, listed: factors, **affine}))
    read = ", ".join(filter(None, [key, used, *affine]))
    return None if geometry is None else _spatial(geometry, read)


def _of_canonical(level: StoredArray) -> Geometry | None:
    """Return ``spatialTransform``: CanonicalMetadataParser."""
    key = "spatialTransform"
    return transforms.Canonical().read(level.only({key: level.attributes[key]}))


def _of_anything(level: StoredArray) -> Reading:
    """Return ``resolution``, ``offset``, ``unit`` and factors: N5GenericSingleScaleMetadataParser.

    Lists of another length are ignored. Without any, an array is in pixels.
    """
    attributes: dict[str, Any] = {
        key: value
        for key in ("resolution", "offset", "downsamplingFactors")
        if isinstance(value := level.attributes.get(key), list) and len(value) == level.ndim
    }
    unit = level.attributes.get("unit")
    if isinstance(unit, str):
        attributes["unit"] = unit
    for dialect in (resolutions.Paintera(), resolutions.N5Viewer()):
        with suppress(*ODD):
            geometry = dialect.read(level.only(attributes, lists_x_first=True))
            if geometry is not None:
                return _spatial(geometry, ", ".join(attributes))
    spatial = min(_SPATIAL, level.ndim)
    return Reading(axes=(Axis(),) * (level.ndim - spatial) + (Axis(scale=1.0),) * spatial)


def _spatial(geometry: Geometry, attribute: str) -> Reading:
    """Return a reading of the spatial axes alone, without names."""
    axes = [replace(axis, name=None) for axis in geometry.axes]
    others = max(0, len(axes) - _SPATIAL)
    return Reading(axes=(*[Axis()] * others, *axes[others:]), attribute=attribute)
