"""Neuroglancer: N5 by the attributes of all groups above, Zarr by its own file.

The rules are those of version 2.41.2. Its coordinates are those of voxels' corners; here they are
those of centres, as everywhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeGuard

from xarray_n5.dialects.levels import images_in
from xarray_n5.dialects.lists import axes_at_level, numbers
from xarray_n5.doctor.readers import Reading, SeenAxis, is_of_systems, read_ngff, refused, unread
from xarray_n5.model.units import split_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.doctor.images import StoredArray, StoredImage

_LEVEL = re.compile(r"s(0|[1-9]\d*)")
_DEFAULT_NAMES = ("x", "y", "z", "t", "c")
_SIZED = ("resolution", "axes", "units", "downsamplingFactors", "scales")
"""Attributes of groups from which the number of axes is known."""

_BOTH = {"0.4", "0.5-dev"}

_VERSIONS = {"zarr2": _BOTH, "zarr3": _BOTH | {"0.5"}}
"""The versions of OME-NGFF in each format of Zarr. Its main branch knows drafts of 0.6, whose
references to coordinate systems are strings; it refuses objects."""

_TYPES = {*("i1", "i2", "i4", "u1", "u2", "u4", "u8", "f4")}
_COMPRESSIONS = {"raw", "gzip", "blosc", "zstd"}

_SI = re.compile("((Y|Z|E|P|T|G|M|k|h|da|d|c|m|\u00b5|u|n|p|f|a|z|y)?(m|s|Hz|rad/s))?")
"""Neuroglancer's units (src/util/si_units.ts): "", and four units with SI prefixes."""

_PREFIXES = (
    "yotta|zetta|exa|peta|tera|giga|mega|kilo|hecto|deca|"
    "deci|centi|milli|micro|nano|pico|femto|atto|zepto|yocto"
)
_UNIT = re.compile(
    rf"(?:{_PREFIXES})?(?:meter|second)|angstrom|foot|inch|mile|parsec|yard|minute|hour|day"
)
"""The units of OME-NGFF that it knows; src/datasource/zarr/ome.ts."""

_NO_OFFSET = "its N5 has no offsets: the image begins at 0"


def read_neuroglancer(image: StoredImage) -> list[Reading]:
    """Return the axes of each level: the base level's resolution and the factors of levels."""
    if image.format in _VERSIONS:
        return [_zarr(level, image.format) for level in image.levels]
    if image.format != "n5":
        return [unread("it reads N5 and Zarr") for _ in image.levels]
    if image.grouped and all(_LEVEL.fullmatch(level.name) for level in image.levels):
        return _group(image)
    readings = []
    for level in image.levels:
        attributes = _merged(level.attributes, *level.above)
        factors = attributes.get("downsamplingFactors")
        single = isinstance(factors, list) and not _is_nested(factors)
        readings.append(_at_level(level, attributes, factors if single else None))
    return readings


def _merged(*attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with those of groups above, of which the nearest counts."""
    merged: dict[str, Any] = {}
    for group in reversed(attributes):
        merged |= group
    return merged


def _group(image: StoredImage) -> list[Reading]:
    attributes = _merged(*image.levels[0].above)
    listed = attributes.get("scales", attributes.get("downsamplingFactors"))
    several = listed if _is_nested(listed) else None
    pixels = attributes.get("pixelResolution")
    sized = isinstance(pixels, dict) and "dimensions" in pixels
    problem = ""
    if "dimensions" in attributes:
        problem = (
            "a group around it has the metadata of an array, and is read as one without chunks"
        )
    elif not sized and not any(attributes.get(key) is not None for key in _SIZED):
        keys = ", ".join(map(repr, _SIZED))
        problem = f"the groups around it have none of {keys}: the number of axes is unknown"
    elif attributes.get("scales") is not None and several is None:
        problem = "'scales' is not a list with the factors of each level"
    if problem:
        return [refused(problem) for _ in image.levels]
    readings = []
    for level in image.levels:
        number = int(level.name[1:])
        factors = _merged(level.attributes, *level.above).get("downsamplingFactors")
        if several is not None and number >= len(several):
            why = "the group's list of factors does not have it, so that it is not shown"
            readings.append(refused(why))
        elif several is None and factors is None and number:
            readings.append(refused("it expects 'downsamplingFactors' on a coarser level"))
        else:
            factors = factors if several is None else several[number]
            readings.append(_at_level(level, attributes, factors))
    if several is not None or not any(reading.fault for reading in readings):
        return readings
    # One level that is invalid closes all; that one has a reason.
    return [refused("") if reading.opens else reading for reading in readings]


def _is_nested(factors: object) -> TypeGuard[list[Any]]:
    return isinstance(factors, list) and bool(factors) and isinstance(factors[0], list)


def _at_level(level: StoredArray, attributes: Mapping[str, Any], factors: object) -> Reading:
    """Return a level, by the attributes of its group or of itself, and by its factors."""
    ndim = level.ndim
    unit: object = "nm"
    key, sizes = "resolution", attributes.get("resolution")
    pixels = attributes.get("pixelResolution")
    if pixels is not None:
        stored = pixels if isinstance(pixels, dict) else {}
        unit = stored.get("unit")
        if stored.get("dimensions") is not None:
            key, sizes = "pixelResolution", stored["dimensions"]
    names, units = attributes.get("axes"), attributes.get("units")
    if (problem := _unread_type(level)) is not None:
        return unread(problem)
    problems = (
        _not_list(key, sizes, ndim, (int, float)),
        _not_list("axes", names, ndim, (str,)),
        _not_list("units", units, ndim, (str,)),
        _not_list("downsamplingFactors", factors, ndim, (int, float)),
        *(_not_unit("units", stored) for stored in units or ()),
        None if pixels is None else _not_unit("pixelResolution", unit),
    )
    if (problem := next(filter(None, problems), None)) is not None:
        return refused(problem)
    names = names or [*_DEFAULT_NAMES[:ndim], *(f"d{n}" for n in range(6, ndim + 1))]
    steps = numbers(key, sizes, ndim) or (1.0,) * ndim
    factors_read = numbers("downsamplingFactors", factors, ndim)
    axes = axes_at_level(names, units or [str(unit)] * ndim, steps, factors_read)
    seen = tuple(SeenAxis(axis.name, axis.step, axis.offset, axis.unit) for axis in axes)
    listed = [name for name in ("axes", "units", key) if attributes.get(name) is not None]
    if any(factor != 1 for factor in factors_read or ()):
        listed.append("downsamplingFactors")
    return Reading(axes=seen, attribute=", ".join(listed), offsets="relative", note=_NO_OFFSET)


def _not_list(key: str, value: Any, ndim: int, types: tuple[type, ...]) -> str | None:
    """Return why a value is not a list of an item for each axis, numbers positive; or None."""
    if value is None:
        return None
    kind = "strings" if str in types else "positive numbers"
    fits = isinstance(value, list) and len(value) == ndim
    fits = fits and all(isinstance(n, types) and not isinstance(n, bool) for n in value)
    if fits and (str in types or all(n > 0 for n in value)):
        return None
    return f"{key!r} is {value!r:.80}; it expects a list of {ndim} {kind}"


def _not_unit(key: str, unit: object) -> str | None:
    if isinstance(unit, str) and _SI.fullmatch(unit):
        return None
    return f"{key!r} has the unit {unit!r}; it expects m, s or Hz with a prefix, such as 'um'"


def _unread_type(level: StoredArray) -> str | None:
    """Return why Neuroglancer does not read an array's type or compression, or None."""
    metadata = level.metadata
    if metadata.dtype.str[1:] not in _TYPES:
        return f"it does not read the type {metadata.dtype}"
    if getattr(metadata.layout, "filters", ()):
        return "it ignores filters, so that the values are wrong"
    if (name := metadata.compression.name) not in _COMPRESSIONS:
        return f"it does not read the compression {name!r}"
    return None


def _zarr(level: StoredArray, form: str) -> Reading:
    """Return a level of an image, or an array by itself."""
    if (problem := _unread_type(level)) is not None:
        return unread(problem)
    group = next((group for group in level.context.parents if any(images_in(group))), {})
    ome = group.get("ome")
    image = next(iter(images_in(group)), {})
    version = ome.get("version") if isinstance(ome, dict) else image.get("version")
    reading = read_ngff(level)
    if reading.fault:
        return reading
    if reading.axes is None or (version is None and not is_of_systems(level)):
        return _single(level, form)
    if version not in _VERSIONS[form]:
        return refused(f"it reads OME-NGFF {', '.join(sorted(_VERSIONS[form]))}, not {version!r}")
    units = [axis.get("unit") for axis in image.get("axes") or () if isinstance(axis, dict)]
    for unit in units:
        if unit is not None and not _UNIT.fullmatch(str(unit)):
            why = f"'multiscales' has the unit {unit!r}; it expects whole words of OME-NGFF"
            return refused(why)
    return reading


def _single(level: StoredArray, form: str) -> Reading:
    """Return an array of Zarr by its dimension names and units."""
    names = _strings(level, "_ARRAY_DIMENSIONS")
    units = _strings(level, "dimension_units")
    axes = []
    for name, unit in zip(names, units, strict=True):
        scale, symbol = split_unit(unit)
        axes.append(SeenAxis(name=name, scale=None if symbol is None else scale, unit=symbol))
    key = "dimension_names" if form == "zarr3" else "_ARRAY_DIMENSIONS"
    read = [key] * any(names) + ["dimension_units"] * any(units)
    return Reading(axes=tuple(axes), attribute=", ".join(read), offsets="ignored")


def _strings(level: StoredArray, key: str) -> list[str | None]:
    """Return a list of strings, None for each that is missing or empty."""
    values = level.attributes.get(key)
    if not isinstance(values, list) or len(values) != level.ndim:
        return [None] * level.ndim
    return [value if value and isinstance(value, str) else None for value in values]
