"""Neuroglancer: N5 by the attributes of all groups above, Zarr by its own file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects.levels import images_in
from xarray_n5.dialects.pyramids import axes_at_level
from xarray_n5.dialects.values import numbers
from xarray_n5.doctor.readers import strict
from xarray_n5.doctor.readers.ngff import is_of_systems, read_ngff
from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, refused, unread
from xarray_n5.model.units import split_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage

_COMPRESSIONS = {"raw", "gzip", "zlib", "blosc", "zstd"}
_TYPES = {f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32)} | {
    *("uint64", "float32")
}
_LEVEL = re.compile(r"s(0|[1-9]\d*)")
_DEFAULT_NAMES = ("x", "y", "z", "t", "c")
_SIZED = ("resolution", "axes", "units", "downsamplingFactors", "scales")
"""Attributes of groups from which the number of axes is known."""

_BOTH = {"0.4", "0.5-dev"}

_VERSIONS = {"zarr2": _BOTH, "zarr3": _BOTH | {"0.5"}}
"""The versions of OME-NGFF in each format of Zarr. Its main branch knows drafts of 0.6, whose
references to coordinate systems are strings; it refuses objects."""

_TYPE_2 = re.compile(r"\|[ui]1|[<>](?:[ui][248]|f4)")
_TYPE_3 = re.compile(r"u?int(?:8|16|32)|uint64|float32")

_COMPRESSORS = {"blosc", "zlib", "gzip", "zstd"}
_CODECS = {"blosc", "bytes", "crc32c", "gzip", "sharding_indexed", "transpose", "zstd"}

_PREFIXES = (
    "yotta|zetta|exa|peta|tera|giga|mega|kilo|hecto|deca|"
    "deci|centi|milli|micro|nano|pico|femto|atto|zepto|yocto"
)
_UNIT = re.compile(
    rf"(?:{_PREFIXES})?(?:meter|second)|angstrom|foot|inch|mile|parsec|yard|minute|hour|day"
)
"""The units of OME-NGFF that it knows; src/datasource/zarr/ome.ts."""

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

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level."""
        if image.format in _VERSIONS:
            return [_zarr(level, image.format) for level in image.levels]
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


def _array(level: StoredArray) -> Reading:
    if (problem := _codec(level.document)) is not None:
        return unread(problem)
    said = _merged(level.attributes, *level.above)
    factors = said.get("downsamplingFactors")
    own = factors if isinstance(factors, list) and not _is_nested(factors) else None
    return _at_level(said, level.ndim, own)


def _group(image: StoredImage) -> list[Reading]:
    said = _merged(*image.levels[0].above)
    if (problem := next(_invalid_group(said), None)) is not None:
        return [refused(problem) for _ in image.levels]
    listed = said.get("scales", said.get("downsamplingFactors"))
    several = listed if isinstance(listed, list) and _is_nested(listed) else None
    readings = [_in_group(level, said, several) for level in image.levels]
    if several is not None or not any(each.fault for each in readings):
        return readings
    # One level that is invalid closes all; that one has a reason.
    return [refused("") if each.opens else each for each in readings]


def _invalid_group(said: Mapping[str, Any]) -> Iterator[str]:
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


def _in_group(
    level: StoredArray, said: Mapping[str, Any], several: Sequence[Any] | None
) -> Reading:
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
    return None if name in _COMPRESSIONS else f"it does not read the compression {name!r}"


def _zarr(level: StoredArray, form: str) -> Reading:
    """Return a level of an image, or an array by itself."""
    problem = _codec_2(level.document) if form == "zarr2" else _codec_3(level.document)
    if problem is not None:
        return unread(problem)
    group = next((each for each in level.context.parents if any(images_in(each))), {})
    ome = group.get("ome")
    image = next(iter(images_in(group)), {})
    version = ome.get("version") if isinstance(ome, dict) else image.get("version")
    found = read_ngff(level)
    if found.fault:
        return found
    if found.axes is None or (version is None and not is_of_systems(level)):
        return _single(level, form)
    if version not in _VERSIONS[form]:
        return refused(f"it reads OME-NGFF {', '.join(sorted(_VERSIONS[form]))}, not {version!r}")
    units = [each.get("unit") for each in image.get("axes") or () if isinstance(each, dict)]
    unit = next((unit for unit in units if unit is not None and not _is_known(unit)), None)
    if unit is not None:
        return refused(f"'multiscales' has the unit {unit!r}; it expects whole words of OME-NGFF")
    return found


def _is_known(unit: object) -> bool:
    return isinstance(unit, str) and _UNIT.fullmatch(unit) is not None


def _codec_2(document: Mapping[str, Any]) -> str | None:
    """Return why the type or the compressor of an array of Zarr v2 is not known, or None."""
    kind, codec = document.get("dtype"), document.get("compressor")
    if not isinstance(kind, str) or not _TYPE_2.fullmatch(kind):
        return f"it does not read the type {kind!r}"
    if codec is not None and codec.get("id") not in _COMPRESSORS:
        return f"it does not read the compressor {codec.get('id')!r}"
    return "it ignores filters, so that the values are wrong" if document.get("filters") else None


def _codec_3(document: Mapping[str, Any]) -> str | None:
    """Return why the type or a codec of an array of Zarr v3 is not known, or None."""
    kind, codecs = document.get("data_type"), document.get("codecs") or ()
    if not isinstance(kind, str) or not _TYPE_3.fullmatch(kind):
        return f"it does not read the type {kind!r}"
    names = [str(each.get("name")) for each in codecs if isinstance(each, dict)]
    unknown = next((name for name in names if name not in _CODECS), None)
    return None if unknown is None else f"it does not read the codec {unknown!r}"


def _single(level: StoredArray, form: str) -> Reading:
    """Return an array of Zarr by its dimension names and units."""
    key = "dimension_names" if form == "zarr3" else "_ARRAY_DIMENSIONS"
    given = _strings(level.document if form == "zarr3" else level.attributes, key, level.ndim)
    sized = _strings(level.attributes, "dimension_units", level.ndim)
    axes = []
    for name, unit in zip(given, sized, strict=True):
        scale, symbol = split_unit(unit)
        placed = symbol is not None
        axes.append(SeenAxis(name=name, scale=scale if placed else None, unit=symbol))
    said = [key] if any(given) else []
    said += ["dimension_units"] if any(sized) else []
    return Reading(axes=tuple(axes), attribute=", ".join(said), offsets="ignored")


def _strings(attributes: Mapping[str, Any], key: str, ndim: int) -> list[str | None]:
    """Return a list of strings, None for each that is missing or empty."""
    found = attributes.get(key)
    if not isinstance(found, list) or len(found) != ndim:
        return [None] * ndim
    return [each if each and isinstance(each, str) else None for each in found]
