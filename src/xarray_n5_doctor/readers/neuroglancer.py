"""Neuroglancer: N5 by the attributes of all groups above, Zarr by its own file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects.pyramids import axes_at_level
from xarray_n5.dialects.values import numbers
from xarray_n5_doctor.readers import neuroglancer_zarr, strict
from xarray_n5_doctor.readers.protocol import Reading, SeenAxis, refused, unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5_doctor.readers.protocol import Image, Level

_CODECS = {"raw", "gzip", "zlib", "blosc", "zstd"}
_TYPES = {f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32)} | {
    *("uint64", "float32")
}
_LEVEL = re.compile(r"s(0|[1-9]\d*)")
_DEFAULT_NAMES = ("x", "y", "z", "t", "c")
_SIZED = ("resolution", "axes", "units", "downsamplingFactors", "scales")
"""Attributes of groups from which the number of axes is known."""

_NO_OFFSET = "its N5 has no offsets: the image begins at 0"


@dataclass(frozen=True, slots=True)
class Neuroglancer:
    """The base level's resolution and the factors of levels.

    Its coordinates are those of voxels' corners; here they are those of centres, as everywhere.
    """

    name: ClassVar[str] = "neuroglancer"
    title: ClassVar[str] = "Neuroglancer"
    source: ClassVar[str] = (
        "google/neuroglancer: src/datasource/n5/frontend.ts, src/datasource/zarr"
    )

    def read(self, image: Image) -> list[Reading]:
        """Return the axes of each level."""
        if image.format in neuroglancer_zarr.VERSIONS:
            return [neuroglancer_zarr.read(level, image.format) for level in image.levels]
        if image.format != "n5":
            return [unread("it reads N5 and Zarr") for _ in image.levels]
        if not image.grouped or not all(_LEVEL.fullmatch(each.name) for each in image.levels):
            return [_array(level) for level in image.levels]
        return _group(image)


def _merged(*attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with those of groups above, of which the nearest counts."""
    merged: dict[str, Any] = {}
    for each in reversed(attributes):
        merged |= each
    return merged


def _array(level: Level) -> Reading:
    if (problem := _codec(level.document)) is not None:
        return unread(problem)
    said = _merged(level.attributes, *level.above)
    factors = said.get("downsamplingFactors")
    own = factors if isinstance(factors, list) and not _is_nested(factors) else None
    return _at_level(said, level.ndim, own)


def _group(image: Image) -> list[Reading]:
    said = _merged(*image.levels[0].above)
    if (problem := next(_odd_group(said), None)) is not None:
        return [refused(problem) for _ in image.levels]
    listed = said.get("scales", said.get("downsamplingFactors"))
    several = listed if isinstance(listed, list) and _is_nested(listed) else None
    readings = [_in_group(level, said, several) for level in image.levels]
    if several is not None or not any(each.fault for each in readings):
        return readings
    # One level that is invalid closes all; that one has a reason.
    return [refused("") if each.opens else each for each in readings]


def _odd_group(said: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over what keeps a group from being read as a pyramid."""
    pixels = said.get("pixelResolution")
    sized = isinstance(pixels, dict) and "dimensions" in pixels
    if "dimensions" in said:
        yield "a group around it has the metadata of an array, and is read as one without chunks"
    elif not sized and not any(said.get(key) is not None for key in _SIZED):
        keys = ", ".join(map(repr, _SIZED))
        yield f"the groups around it have none of {keys}: the number of axes is unknown"
    scales = said.get("scales")
    if scales is not None and not (isinstance(scales, list) and _is_nested(scales)):
        yield "'scales' is not a list with the factors of each level"


def _in_group(level: Level, said: Mapping[str, Any], several: Sequence[Any] | None) -> Reading:
    """Return a level by the attributes of its group, and by the group's factors of all levels."""
    number = int(level.name[1:])
    if (problem := _codec(level.document)) is not None:
        return unread(problem)
    if several is not None:
        if number < len(several):
            return _at_level(said, level.ndim, several[number])
        return refused("the group's list of factors does not have it, so that it is not shown")
    factors = _merged(level.attributes, *level.above).get("downsamplingFactors")
    if factors is None and number:
        return refused("it expects 'downsamplingFactors' on a coarser level")
    return _at_level(said, level.ndim, factors)


def _is_nested(factors: Sequence[Any]) -> bool:
    return bool(factors) and isinstance(factors[0], list)


def _at_level(said: Mapping[str, Any], ndim: int, factors: object) -> Reading:
    """Return a level, by the attributes of its group or of itself, and by its factors."""
    problem, resolution, unit, key = _checked(said, ndim, factors)
    if problem is not None:
        return refused(problem)
    units = said.get("units") or (unit,) * ndim
    scales = numbers(key, resolution, ndim) or (1.0,) * ndim
    given = said.get("axes") or [*_DEFAULT_NAMES[:ndim], *(f"d{n}" for n in range(6, ndim + 1))]
    level = numbers("downsamplingFactors", factors, ndim)
    axes = axes_at_level(given, units, scales, level)
    labels = said.get("coordinateArrays")
    labelled = labels.keys() if isinstance(labels, dict) and "axes" in said else frozenset()
    seen = tuple(
        SeenAxis(name=axis.name)
        if axis.name in labelled
        else SeenAxis(name=axis.name, scale=axis.step, offset=axis.offset, unit=axis.unit)
        for axis in axes
    )
    listed = [each for each in ("axes", "units", key) if said.get(each) is not None]
    listed += ["downsamplingFactors"] if level and any(each != 1 for each in level) else []
    reading = Reading(axes=seen, attribute=", ".join(listed), offsets="relative")
    return replace(reading, note=_NO_OFFSET)


def _checked(
    said: Mapping[str, Any], ndim: int, factors: object
) -> tuple[str | None, Any, str, str]:
    """Return why attributes are invalid, and the resolution, the default unit and their key."""
    key, unit, resolution = "resolution", "nm", said.get("resolution")
    problems = [strict.numbers(said, key, ndim, positive=True)] if resolution is not None else []
    lists = (name for name in ("axes", "units") if said.get(name) is not None)
    problems += [strict.strings(said, name, ndim) for name in lists]
    whole = said.get("pixelResolution")
    if whole is not None:
        if not isinstance(whole, dict) or not isinstance(whole.get("unit"), str):
            problems.append("'pixelResolution' is not an object with a unit")
        else:
            unit = whole["unit"]
            problems.append(strict.si_units("pixelResolution", [unit]))
            if whole.get("dimensions") is not None:
                key, resolution = "pixelResolution", whole["dimensions"]
                problems.append(strict.numbers({key: resolution}, key, ndim, positive=True))
    if factors is not None:
        problems.append(
            strict.numbers({"f": factors}, "f", ndim, positive=True)
            and f"the factors are {factors!r:.80}; it expects {ndim} positive numbers"
        )
    problem = next(filter(None, problems), None)
    if problem is None and said.get("units") is not None:
        problem = strict.si_units("units", said["units"])
    return problem, resolution, unit, key


def _codec(document: Mapping[str, Any]) -> str | None:
    """Return why the type or the compression of an N5 array is not known, or None."""
    kind = document.get("dataType")
    if str(kind).lower() not in _TYPES:
        return f"it does not read the type {kind!r}"
    codec = document.get("compression")
    name = codec.get("type") if isinstance(codec, dict) else document.get("compressionType")
    return None if name in _CODECS else f"it does not read the compression {name!r}"
