"""Neuroglancer: N5 by the attributes of all groups above, Zarr by its own file.

The rules are those of version 2.41.2. Its coordinates are those of voxels' corners; here they are
those of centres, as everywhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeGuard

from xarray_n5.dialects.axis_lists import ArrayDimensions
from xarray_n5.dialects.groups import images_in
from xarray_n5.dialects.lists import axes_at_level
from xarray_n5.doctor.readers import Reading, is_of_systems, read_ngff, refused, unread
from xarray_n5.model.axes import Axis
from xarray_n5.model.paths import number_in
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.doctor.images import StoredArray, StoredImage

_SIZED = ("resolution", "axes", "units", "downsamplingFactors", "scales")
"""Attributes of groups from which the number of axes is known."""

_VERSIONS = {"zarr2": {"0.4", "0.5-dev"}, "zarr3": {"0.4", "0.5-dev", "0.5"}}
"""The versions of OME-NGFF in each format of Zarr. Its main branch knows drafts of 0.6, whose
references to coordinate systems are strings; it refuses objects."""

_TYPES = {*("i1", "i2", "i4", "u1", "u2", "u4", "u8", "f4")}
_COMPRESSIONS = {"raw", "gzip", "blosc", "zstd"}

_SI = re.compile("((Y|Z|E|P|T|G|M|k|h|da|d|c|m|\u00b5|u|n|p|f|a|z|y)?(m|s|Hz|rad/s))?")
"""Neuroglancer's units (src/util/si_units.ts): "", and four units with SI prefixes."""

_NO_OFFSET = "its N5 has no offsets: the image begins at 0"


def read_neuroglancer(image: StoredImage) -> list[Reading]:
    """Return the axes of each level: the base level's resolution and the factors of levels.

    Raises ValueError if invalid attributes close the image.
    """
    levels = image.levels
    reason = "it reads N5 and Zarr" if image.format not in {"n5", *_VERSIONS} else ""
    if reason := next(filter(None, [reason, *map(_unread_type, levels)]), ""):
        return [unread(reason) for _ in levels]
    if image.format in _VERSIONS:
        return [_zarr(level, image.format) for level in levels]
    if image.grouped and all(number_in(level.name) is not None for level in levels):
        return _group(levels)
    readings = []
    for level in levels:
        attributes = _merged(level.attributes, *level.above.values())
        factors = attributes.get("downsamplingFactors")
        readings.append(_at_level(level, attributes, None if _is_nested(factors) else factors))
    return readings


def _unread_type(level: StoredArray) -> str:
    """Return why Neuroglancer does not read an array's type or compression, or ""."""
    metadata = level.metadata
    if metadata.dtype.str[1:] not in _TYPES:
        return f"it does not read the type {metadata.dtype}"
    if getattr(metadata.layout, "filters", ()):
        return "it ignores filters, so that the values are wrong"
    name = metadata.compression.name
    return "" if name in _COMPRESSIONS else f"it does not read the compression {name!r}"


def _merged(*attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with those of groups above, of which the nearest counts."""
    merged: dict[str, Any] = {}
    for group in reversed(attributes):
        merged |= group
    return merged


def _group(levels: Sequence[StoredArray]) -> list[Reading]:
    attributes = _merged(*levels[0].above.values())
    listed = attributes.get("scales", attributes.get("downsamplingFactors"))
    several = listed if _is_nested(listed) else None
    pixels = attributes.get("pixelResolution")
    sized = isinstance(pixels, dict) and "dimensions" in pixels
    if "dimensions" in attributes:
        why = "a group around it has the metadata of an array, and is read as one without chunks"
        raise ValueError(why)
    if not sized and all(attributes.get(key) is None for key in _SIZED):
        keys = ", ".join(map(repr, _SIZED))
        raise ValueError(f"the groups around it have none of {keys}: the axes are unknown")
    if attributes.get("scales") is not None and several is None:
        raise ValueError("'scales' is not a list with the factors of each level")
    readings = []
    for level in levels:
        number = number_in(level.name) or 0
        factors = _merged(level.attributes, *level.above.values()).get("downsamplingFactors")
        if several is None and factors is None and number:
            raise ValueError("it expects 'downsamplingFactors' on a coarser level")
        if several is not None and number >= len(several):
            why = "the group's list of factors does not have it, so that it is not shown"
            readings.append(refused(why))
        else:
            factors = factors if several is None else several[number]
            readings.append(_at_level(level, attributes, factors))
    return readings


def _is_nested(factors: object) -> TypeGuard[list[Any]]:
    return isinstance(factors, list) and bool(factors) and isinstance(factors[0], list)


def _at_level(level: StoredArray, attributes: Mapping[str, Any], factors: object) -> Reading:
    """Return a level, by the attributes of its group or of itself, and by its factors."""
    ndim, unit = level.ndim, "nm"
    key, sizes = "resolution", attributes.get("resolution")
    pixels = attributes.get("pixelResolution")
    if pixels is not None:
        pixels = pixels if isinstance(pixels, dict) else {}
        (unit,) = _units("pixelResolution", [pixels.get("unit")])
        if pixels.get("dimensions") is not None:
            key, sizes = "pixelResolution", pixels["dimensions"]
    names = _list("axes", attributes.get("axes"), ndim, str)
    default_names = [*"xyztc", *(f"d{number}" for number in range(6, ndim + 1))][:ndim]
    units = _list("units", attributes.get("units"), ndim, str) or [unit] * ndim
    steps = _list(key, sizes, ndim, (int, float)) or [1.0] * ndim
    by = _list("downsamplingFactors", factors, ndim, (int, float))
    axes = axes_at_level(names or default_names, _units("units", units), steps, by)
    listed = [name for name in ("axes", "units", key) if attributes.get(name) is not None]
    listed += ["downsamplingFactors"] * any(factor != 1 for factor in by or ())
    return Reading(axes=axes, attribute=", ".join(listed), offsets="relative", note=_NO_OFFSET)


def _list(key: str, value: Any, ndim: int, types: type | tuple[type, ...]) -> list[Any] | None:
    """Return a list of an item for each axis; raise ValueError if it is not one."""
    if value is None:
        return None
    fits = isinstance(value, list) and len(value) == ndim
    fits = fits and all(isinstance(n, types) and not isinstance(n, bool) for n in value)
    if fits and (types is str or all(n > 0 for n in value)):
        return list(value)
    kind = "strings" if types is str else "positive numbers"
    raise ValueError(f"{key!r} is {value!r:.80}; it expects a list of {ndim} {kind}")


def _units(key: str, units: Sequence[Any]) -> Sequence[str]:
    """Return units; raise ValueError if one is not known to Neuroglancer."""
    for unit in units:
        if not (isinstance(unit, str) and _SI.fullmatch(unit)):
            expected = "it expects m, s or Hz with a prefix, such as 'um'"
            raise ValueError(f"{key!r} has the unit {unit!r}; {expected}")
    return units


def _zarr(level: StoredArray, form: str) -> Reading:
    """Return a level of an image, or an array by itself."""
    group = next((group for group in level.context.parents if any(images_in(group))), {})
    ome = group.get("ome")
    image = next(iter(images_in(group)), {})
    version = ome.get("version") if isinstance(ome, dict) else image.get("version")
    reading = read_ngff(level)
    if reading.fault:
        return reading
    if reading.axes is None or (version is None and not is_of_systems(level)):
        names = ArrayDimensions().read(level.context)
        axes = (Axis(),) * level.ndim if names is None else names.axes
        return Reading(axes=axes, attribute="_ARRAY_DIMENSIONS" if names else "", offsets="ignored")
    if version not in _VERSIONS[form]:
        raise ValueError(f"it reads OME-NGFF {sorted(_VERSIONS[form])}, not {version!r}")
    for axis in image.get("axes") or ():
        unit = axis.get("unit") if isinstance(axis, dict) else None
        known = None if unit is None else unit_of(str(unit))
        if unit is not None and (known is None or known.word != unit):
            why = f"'multiscales' has the unit {unit!r}; it expects whole words of OME-NGFF"
            raise ValueError(why)
    return reading
