"""n5-viewer, Fiji's n5-ij and Paintera, which try the metadata parsers of n5-universe in turn.

Lists are in N5 order in every format.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects import canonical, cosem, imagej, n5_viewer, ngff, paintera
from xarray_n5.doctor.readers.ngff import is_of_systems
from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, reading_of, unread
from xarray_n5.model.alerts import ODD
from xarray_n5.model.level_names import level_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage

_FACTORS, _RESOLUTION, _AFFINE = "downsamplingFactors", "pixelResolution", "affineTransform"

_SPATIAL = 3

_NO_SHIFT = "it places coarser levels without the shift of (factor - 1) / 2 voxels"


@dataclass(frozen=True, slots=True)
class N5ViewerFiji:
    """``N5ViewerCreator.n5vParsers`` and ``N5Importer.PARSERS``, which are the same."""

    name: ClassVar[str] = "n5_viewer"
    title: ClassVar[str] = "n5-viewer (Fiji)"
    source: ClassVar[str] = (
        "saalfeldlab/n5-viewer: N5ViewerCreator; n5-ij: N5Importer; n5-universe: metadata"
    )

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level."""
        parsers = (_of_ngff, _of_imagej, _of_cosem, _of_n5_viewer, _of_canonical)
        return [_first(level, parsers) for level in image.levels]


@dataclass(frozen=True, slots=True)
class Paintera:
    """The resolution and the offset of the group ``data``, without units and names."""

    name: ClassVar[str] = "paintera"
    title: ClassVar[str] = "Paintera"
    source: ClassVar[str] = (
        "saalfeldlab/paintera: N5Helpers.GROUP_PARSERS, N5PainteraDataMultiScaleMetadata"
    )

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level."""
        return [_of_paintera(level) for level in image.levels]


def _of_paintera(level: StoredArray) -> Reading:
    if level.ndim < _SPATIAL:
        return unread("it shows arrays of three axes or more")
    found = _first(level, (_of_data, _of_ngff, _of_cosem, _of_n5_viewer))
    axes = tuple(replace(axis, unit=None) for axis in found.axes or ())
    return replace(found, axes=axes)


def _of_data(level: StoredArray) -> Reading | None:
    """Return a level in a group ``data``, by this group's resolution and offset."""
    parts = level.context.path.split("/")
    if parts[-2:-1] != ["data"] or not parts[-1].startswith("s") or not level.context.parents:
        return None
    group = level.context.parents[0]
    own = {
        "resolution": group.get("resolution", [1.0] * _SPATIAL),
        "offset": group.get("offset", [0.0] * _SPATIAL),
        "downsamplingFactors": level.attributes.get("downsamplingFactors"),
    }
    attributes = {key: value for key, value in own.items() if value is not None}
    found = paintera.Paintera().read(level.only(attributes, lists_x_first=True))
    if found is None:
        return None
    # An offset next to factors is final: the level has that of its group.
    axes = tuple(replace(axis, name=None) for axis in reading_of(found).axes or ())
    shifted = any(axis.factor != 1 for axis in found.axes)
    seen = Reading(axes=axes, attribute="resolution and offset of the group, downsamplingFactors")
    return replace(seen, offsets="ignored", note=_NO_SHIFT) if shifted else seen


def _of_ngff(level: StoredArray) -> Reading | None:
    """Return a level of the OME-NGFF image around it, up to 0.5: OmeNgffMetadataParser."""
    if is_of_systems(level):
        return None
    found = ngff.Ngff().read(level.context)
    return None if found is None or not found.placed else reading_of(found)


def _of_imagej(level: StoredArray) -> Reading | None:
    """Return an image of ImageJ: ImagePlusLegacyMetadataParser."""
    found = imagej.ImageJ().read(level.only(level.attributes))
    return None if found is None else reading_of(found)


def _of_cosem(level: StoredArray) -> Reading | None:
    """Return COSEM's ``transform``: N5CosemMetadataParser, which knows no key but ``ordering``."""
    said = level.attributes.get("transform")
    keys = ("axes", "units", "scale", "translate")
    if not isinstance(said, dict) or not all(isinstance(said.get(key), list) for key in keys):
        return None
    order = {"ordering": "F"} if said.get("ordering") == "F" else {"ordering": "C"}
    transform = {key: said[key] for key in keys} | order
    found = cosem.Cosem().read(level.only({"transform": transform}, attribute_order="auto"))
    return None if found is None else reading_of(found)


def _of_n5_viewer(level: StoredArray) -> Reading | None:
    """Return ``pixelResolution`` and factors: N5SingleScaleMetadataParser.

    Without factors, those of a level are guessed to be 2**level by its name.
    """
    resolution = level.attributes.get(_RESOLUTION)
    steps = resolution.get("dimensions") if isinstance(resolution, dict) else resolution
    if not isinstance(steps, list):
        return None
    own: dict[str, Any] = {_RESOLUTION: resolution}
    number = level_number(level.name)
    factors, said = level.attributes.get(_FACTORS), _FACTORS
    if not isinstance(factors, list):
        factor = 2 ** (number or 0)
        factors = [factor] * min(_SPATIAL, level.ndim)
        said = f"{_FACTORS} guessed by the name {level.name!r}" if factor != 1 else ""
    own |= {_FACTORS: factors}
    own |= {_AFFINE: level.attributes[_AFFINE]} if _AFFINE in level.attributes else {}
    found = n5_viewer.N5Viewer().read(level.only(own))
    if found is None:
        return None
    attribute = ", ".join(filter(None, [_RESOLUTION, said, _AFFINE if _AFFINE in own else ""]))
    return _spatial(reading_of(found, names=False), attribute)


def _of_canonical(level: StoredArray) -> Reading | None:
    """Return ``spatialTransform``: CanonicalMetadataParser."""
    key = "spatialTransform"
    if key not in level.attributes:
        return None
    found = canonical.Canonical().read(level.only({key: level.attributes[key]}))
    return None if found is None else reading_of(found)


def _of_anything(level: StoredArray) -> Reading:
    """Return ``resolution``, ``offset``, ``unit`` and factors: N5GenericSingleScaleMetadataParser.

    Lists of another length are ignored. Without any, an array is in pixels.
    """
    own: dict[str, Any] = {
        key: value
        for key in ("resolution", "offset", _FACTORS)
        if isinstance(value := level.attributes.get(key), list) and len(value) == level.ndim
    }
    unit = level.attributes.get("unit")
    if isinstance(unit, str):
        own["unit"] = unit
    for dialect in (paintera.Paintera(), n5_viewer.N5Viewer()):
        with suppress(*ODD):
            found = dialect.read(level.only(own, lists_x_first=True))
            if found is not None:
                return _spatial(reading_of(found), ", ".join(own))
    axes = (SeenAxis(scale=1.0, offset=0.0),) * min(_SPATIAL, level.ndim)
    return Reading(axes=(SeenAxis(),) * (level.ndim - len(axes)) + axes)


def _spatial(found: Reading, attribute: str) -> Reading:
    """Return a reading of the spatial axes alone."""
    axes = found.axes or ()
    others = len(axes) - _SPATIAL
    seen = tuple(SeenAxis() if n < others else axis for n, axis in enumerate(axes))
    return Reading(axes=seen, attribute=attribute)


def _first(
    level: StoredArray, parsers: tuple[Callable[[StoredArray], Reading | None], ...]
) -> Reading:
    """Return a level by the first parser that can read it."""
    for parse in parsers:
        try:
            found = parse(level)
        except ODD:
            continue
        if found is not None:
            return found
    return _of_anything(level)
