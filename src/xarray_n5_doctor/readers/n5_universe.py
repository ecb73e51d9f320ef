"""The metadata parsers of n5-universe, which n5-viewer, Fiji's n5-ij and Paintera try in turn.

Lists are in N5 order in every format.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects import canonical, cosem, imagej, n5_viewer, ngff, paintera
from xarray_n5.model.alerts import ODD
from xarray_n5_doctor.readers.protocol import Reading, SeenAxis, reading_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5_doctor.readers.protocol import Level

_FACTORS, _RESOLUTION, _AFFINE = "downsamplingFactors", "pixelResolution", "affineTransform"

_NUMBERED = re.compile(r"s?(\d+)")
"""Names by which the factors of a level are guessed."""

_SPATIAL = 3


def of_ngff(level: Level) -> Reading | None:
    """Return a level of the OME-NGFF image around it: OmeNgffMetadataParser."""
    found = ngff.Ngff().read(level.context)
    return None if found is None or not found.placed else reading_of(found)


def of_imagej(level: Level) -> Reading | None:
    """Return an image of ImageJ: ImagePlusLegacyMetadataParser."""
    found = imagej.ImageJ().read(level.only(level.attributes))
    return None if found is None else reading_of(found)


def of_cosem(level: Level) -> Reading | None:
    """Return COSEM's ``transform``: N5CosemMetadataParser, which knows no key but ``ordering``."""
    said = level.attributes.get("transform")
    keys = ("axes", "units", "scale", "translate")
    if not isinstance(said, dict) or not all(isinstance(said.get(key), list) for key in keys):
        return None
    order = {"ordering": "F"} if said.get("ordering") == "F" else {"ordering": "C"}
    transform = {key: said[key] for key in keys} | order
    found = cosem.Cosem().read(level.only({"transform": transform}, attribute_order="auto"))
    return None if found is None else reading_of(found)


def of_n5_viewer(level: Level) -> Reading | None:
    """Return ``pixelResolution`` and factors: N5SingleScaleMetadataParser.

    Without factors, those of a level are guessed to be 2**level by its name.
    """
    resolution = level.attributes.get(_RESOLUTION)
    steps = resolution.get("dimensions") if isinstance(resolution, dict) else resolution
    if not isinstance(steps, list):
        return None
    own: dict[str, Any] = {_RESOLUTION: resolution}
    guess = _NUMBERED.fullmatch(level.name)
    factors, said = level.attributes.get(_FACTORS), _FACTORS
    if not isinstance(factors, list):
        factor = 2 ** int(guess[1]) if guess else 1
        factors = [factor] * min(_SPATIAL, level.ndim)
        said = f"{_FACTORS} guessed by the name {level.name!r}" if factor != 1 else ""
    own |= {_FACTORS: factors}
    own |= {_AFFINE: level.attributes[_AFFINE]} if _AFFINE in level.attributes else {}
    found = n5_viewer.N5Viewer().read(level.only(own))
    if found is None:
        return None
    attribute = ", ".join(filter(None, [_RESOLUTION, said, _AFFINE if _AFFINE in own else ""]))
    return _spatial(reading_of(found, names=False), attribute)


def of_canonical(level: Level) -> Reading | None:
    """Return ``spatialTransform``: CanonicalMetadataParser."""
    key = "spatialTransform"
    if key not in level.attributes:
        return None
    found = canonical.Canonical().read(level.only({key: level.attributes[key]}))
    return None if found is None else reading_of(found)


def of_anything(level: Level) -> Reading:
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


def first(level: Level, parsers: tuple[Callable[[Level], Reading | None], ...]) -> Reading:
    """Return a level by the first parser that can read it."""
    for parse in parsers:
        try:
            found = parse(level)
        except ODD:
            continue
        if found is not None:
            return found
    return of_anything(level)
