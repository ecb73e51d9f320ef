"""n5-viewer and Fiji's n5-ij, which try the metadata parsers of n5-universe in turn.

Lists are in N5 order in every format. The rules are those of their main branches in 2026-11.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects import canonical, cosem, imagej, n5_viewer, ngff, paintera
from xarray_n5.doctor.readers.ngff import is_of_systems
from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, reading_of
from xarray_n5.model.alerts import ODD
from xarray_n5.model.level_names import level_number

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage

_FACTORS, _RESOLUTION, _AFFINE = "downsamplingFactors", "pixelResolution", "affineTransform"

_SPATIAL = 3


@dataclass(frozen=True, slots=True)
class N5Universe:
    """``N5ViewerCreator.n5vParsers`` and ``N5Importer.PARSERS``, which are the same."""

    name: ClassVar[str] = "n5_universe"
    title: ClassVar[str] = "n5-universe (Fiji)"
    source: ClassVar[str] = (
        "saalfeldlab/n5-viewer: N5ViewerCreator; n5-ij: N5Importer; n5-universe: metadata"
    )

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level."""
        return [_first_reading(level) for level in image.levels]


def _first_reading(level: StoredArray) -> Reading:
    """Return a level by the first parser that can read it."""
    for parse in (_of_ngff, _of_imagej, _of_cosem, _of_n5_viewer, _of_canonical):
        with suppress(*ODD):
            reading = parse(level)
            if reading is not None:
                return reading
    return _of_anything(level)


def _of_ngff(level: StoredArray) -> Reading | None:
    """Return a level of the OME-NGFF image around it, up to 0.5: OmeNgffMetadataParser."""
    if is_of_systems(level):
        return None
    geometry = ngff.Ngff().read(level.context)
    return None if geometry is None or not geometry.placed else reading_of(geometry)


def _of_imagej(level: StoredArray) -> Reading | None:
    """Return an image of ImageJ: ImagePlusLegacyMetadataParser."""
    geometry = imagej.ImageJ().read(level.only(level.attributes))
    return None if geometry is None else reading_of(geometry)


def _of_cosem(level: StoredArray) -> Reading | None:
    """Return COSEM's ``transform``: N5CosemMetadataParser, which knows no key but ``ordering``."""
    stored = level.attributes.get("transform")
    keys = ("axes", "units", "scale", "translate")
    if not isinstance(stored, dict) or not all(isinstance(stored.get(key), list) for key in keys):
        return None
    transform = {key: stored[key] for key in keys}
    transform["ordering"] = "F" if stored.get("ordering") == "F" else "C"
    geometry = cosem.Cosem().read(level.only({"transform": transform}, attribute_order="auto"))
    return None if geometry is None else reading_of(geometry)


def _of_n5_viewer(level: StoredArray) -> Reading | None:
    """Return ``pixelResolution`` and factors: N5SingleScaleMetadataParser.

    Without factors, those of a level are guessed to be 2**level by its name.
    """
    resolution = level.attributes.get(_RESOLUTION)
    steps = resolution.get("dimensions") if isinstance(resolution, dict) else resolution
    if not isinstance(steps, list):
        return None
    attributes: dict[str, Any] = {_RESOLUTION: resolution}
    number = level_number(level.name)
    factors, used = level.attributes.get(_FACTORS), _FACTORS
    if not isinstance(factors, list):
        factor = 2 ** (number or 0)
        factors = [factor] * min(_SPATIAL, level.ndim)
        used = f"{_FACTORS} guessed by the name {level.name!r}" if factor != 1 else ""
    attributes[_FACTORS] = factors
    if _AFFINE in level.attributes:
        attributes[_AFFINE] = level.attributes[_AFFINE]
    geometry = n5_viewer.N5Viewer().read(level.only(attributes))
    if geometry is None:
        return None
    attribute = ", ".join(filter(None, [_RESOLUTION, used, *attributes.keys() & {_AFFINE}]))
    return _spatial(reading_of(geometry, names=False), attribute)


def _of_canonical(level: StoredArray) -> Reading | None:
    """Return ``spatialTransform``: CanonicalMetadataParser."""
    key = "spatialTransform"
    if key not in level.attributes:
        return None
    geometry = canonical.Canonical().read(level.only({key: level.attributes[key]}))
    return None if geometry is None else reading_of(geometry)


def _of_anything(level: StoredArray) -> Reading:
    """Return ``resolution``, ``offset``, ``unit`` and factors: N5GenericSingleScaleMetadataParser.

    Lists of another length are ignored. Without any, an array is in pixels.
    """
    attributes: dict[str, Any] = {
        key: value
        for key in ("resolution", "offset", _FACTORS)
        if isinstance(value := level.attributes.get(key), list) and len(value) == level.ndim
    }
    unit = level.attributes.get("unit")
    if isinstance(unit, str):
        attributes["unit"] = unit
    for dialect in (paintera.Paintera(), n5_viewer.N5Viewer()):
        with suppress(*ODD):
            geometry = dialect.read(level.only(attributes, lists_x_first=True))
            if geometry is not None:
                return _spatial(reading_of(geometry), ", ".join(attributes))
    axes = (SeenAxis(scale=1.0, offset=0.0),) * min(_SPATIAL, level.ndim)
    return Reading(axes=(SeenAxis(),) * (level.ndim - len(axes)) + axes)


def _spatial(reading: Reading, attribute: str) -> Reading:
    """Return a reading of the spatial axes alone."""
    axes = reading.axes or ()
    others = len(axes) - _SPATIAL
    seen = tuple(SeenAxis() if n < others else axis for n, axis in enumerate(axes))
    return Reading(axes=seen, attribute=attribute)
