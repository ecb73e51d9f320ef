"""Neuroglancer: N5 by the attributes of all groups above, Zarr by its own file.

The rules are those of version 2.41.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.dialects.levels import images_in
from xarray_n5.dialects.pyramids import axes_at_level
from xarray_n5.dialects.values import numbers
from xarray_n5.doctor.readers.ngff import is_of_systems, read_ngff
from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, refused, unread
from xarray_n5.model.units import split_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage

_LEVEL = re.compile(r"s(0|[1-9]\d*)")
_DEFAULT_NAMES = ("x", "y", "z", "t", "c")
_SIZED = ("resolution", "axes", "units", "downsamplingFactors", "scales")
"""Attributes of groups from which the number of axes is known."""

_BOTH = {"0.4", "0.5-dev"}

_VERSIONS = {"zarr2": _BOTH, "zarr3": _BOTH | {"0.5"}}
"""The versions of OME-NGFF in each format of Zarr. Its main branch knows drafts of 0.6, whose
references to coordinate systems are strings; it refuses objects."""

_READ = {
    "n5": (
        *("dataType", re.compile(r"(?i:u?int(?:8|16|32)|uint64|float32)")),
        {"raw", "gzip", "zlib", "blosc", "zstd"},
    ),
    "zarr2": (
        *("dtype", re.compile(r"\|[ui]1|[<>](?:[ui][248]|f4)")),
        {"blosc", "zlib", "gzip", "zstd"},
    ),
    "zarr3": (
        *("data_type", re.compile(r"u?int(?:8|16|32)|uint64|float32")),
        {"blosc", "bytes", "crc32c", "gzip", "sharding_indexed", "transpose", "zstd"},
    ),
}
"""The member with the type, the types and the codecs that it reads, by format."""

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
        if not image.grouped or not all(_LEVEL.fullmatch(level.name) for level in image.levels):
            return [_array(level) for level in image.levels]
        return _group(image)


def _merged(*attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with those of groups above, of which the nearest counts."""
    merged: dict[str, Any] = {}
    for group in reversed(attributes):
        merged |= group
    return merged


def _array(level: StoredArray) -> Reading:
    attributes = _merged(level.attributes, *level.above)
    factors = attributes.get("downsamplingFactors")
    single = isinstance(factors, list) and not _is_nested(factors)
    return _at_level(level, attributes, factors if single else None)


def _group(image: StoredImage) -> list[Reading]:
    attributes = _merged(*image.levels[0].above)
    if (problem := next(_invalid_group(attributes), None)) is not None:
        return [refused(problem) for _ in image.levels]
    listed = attributes.get("scales", attributes.get("downsamplingFactors"))
    several = listed if isinstance(listed, list) and _is_nested(listed) else None
    readings = [_in_group(level, attributes, several) for level in image.levels]
    if several is not None or not any(reading.fault for reading in readings):
        return readings
    # One level that is invalid closes all; that one has a reason.
    return [refused("") if reading.opens else reading for reading in readings]


def _invalid_group(attributes: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over what keeps a group from being read as a pyramid."""
    pixels = attributes.get("pixelResolution")
    sized = isinstance(pixels, dict) and "dimensions" in pixels
    if "dimensions" in attributes:
        yield "a group around it has the metadata of an array, and is read as one without chunks"
    elif not sized and not any(attributes.get(key) is not None for key in _SIZED):
        keys = ", ".join(map(repr, _SIZED))
        yield f"the groups around it have none of {keys}: the number of axes is unknown"
    scales = attributes.get("scales")
    if scales is not None and not (isinstance(scales, list) and _is_nested(scales)):
        yield "'scales' is not a list with the factors of each level"


def _in_group(
    level: StoredArray, attributes: Mapping[str, Any], several: Sequence[Any] | None
) -> Reading:
    """Return a level by the attributes of its group, and by the group's factors of all levels."""
    number = int(level.name[1:])
    if several is not None and number >= len(several):
        return refused("the group's list of factors does not have it, so that it is not shown")
    factors = _merged(level.attributes, *level.above).get("downsamplingFactors")
    if several is not None:
        factors = several[number]
    elif factors is None and number:
        return refused("it expects 'downsamplingFactors' on a coarser level")
    return _at_level(level, attributes, factors)


def _is_nested(factors: Sequence[Any]) -> bool:
    return bool(factors) and isinstance(factors[0], list)


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
    units = attributes.get("units")
    problems = (
        _unread_type(level, "n5"),
        _not_list(key, sizes, ndim, (int, float)),
        _not_list("axes", attributes.get("axes"), ndim, (str,)),
        _not_list("units", units, ndim, (str,)),
        _not_list("downsamplingFactors", factors, ndim, (int, float)),
        None if pixels is None else _not_unit("pixelResolution", [unit]),
        None if not isinstance(units, list) else _not_unit("units", units),
    )
    if problems[0] is not None:
        return unread(problems[0])
    if (problem := next(filter(None, problems), None)) is not None:
        return refused(problem)
    names: list[Any] = attributes.get("axes") or [
        *_DEFAULT_NAMES[:ndim],
        *(f"d{n}" for n in range(6, ndim + 1)),
    ]
    steps = numbers(key, sizes, ndim) or (1.0,) * ndim
    own_factors = numbers("downsamplingFactors", factors, ndim)
    axes = axes_at_level(names, units or [str(unit)] * ndim, steps, own_factors)
    labels = attributes.get("coordinateArrays")
    labelled = labels.keys() if isinstance(labels, dict) and "axes" in attributes else frozenset()
    seen = tuple(
        SeenAxis(name=axis.name)
        if axis.name in labelled
        else SeenAxis(name=axis.name, scale=axis.step, offset=axis.offset, unit=axis.unit)
        for axis in axes
    )
    listed = [name for name in ("axes", "units", key) if attributes.get(name) is not None]
    if any(factor != 1 for factor in own_factors or ()):
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


def _not_unit(key: str, units: Sequence[object]) -> str | None:
    for unit in units:
        if not (isinstance(unit, str) and _SI.fullmatch(unit)):
            return (
                f"{key!r} has the unit {unit!r}; it expects m, s or Hz with a prefix, such as 'um'"
            )
    return None


def _unread_type(level: StoredArray, form: str) -> str | None:
    """Return why Neuroglancer does not read an array's type or compression, or None."""
    document = level.document
    type_key, types, known = _READ[form]
    kind = document.get(type_key)
    if not isinstance(kind, str) or not types.fullmatch(kind):
        return f"it does not read the type {kind!r}"
    if document.get("filters"):
        return "it ignores filters, so that the values are wrong"
    if form == "zarr3":
        names = [codec.get("name") for codec in document.get("codecs") or ()]
    elif form == "zarr2":
        names = [codec.get("id") for codec in [document.get("compressor")] if codec]
    else:
        codec = document.get("compression")
        names = [codec.get("type") if codec else document.get("compressionType")]
    unknown = next((name for name in names if name not in known), None)
    return None if unknown is None else f"it does not read the compression {unknown!r}"


def _zarr(level: StoredArray, form: str) -> Reading:
    """Return a level of an image, or an array by itself."""
    if (problem := _unread_type(level, form)) is not None:
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
    unit = next((unit for unit in units if unit is not None and not _is_known(unit)), None)
    if unit is not None:
        return refused(f"'multiscales' has the unit {unit!r}; it expects whole words of OME-NGFF")
    return reading


def _is_known(unit: object) -> bool:
    return isinstance(unit, str) and _UNIT.fullmatch(unit) is not None


def _single(level: StoredArray, form: str) -> Reading:
    """Return an array of Zarr by its dimension names and units."""
    key, holder = "_ARRAY_DIMENSIONS", level.attributes
    if form == "zarr3":
        key, holder = "dimension_names", level.document
    names = _strings(holder, key, level.ndim)
    units = _strings(level.attributes, "dimension_units", level.ndim)
    axes = []
    for name, unit in zip(names, units, strict=True):
        scale, symbol = split_unit(unit)
        axes.append(SeenAxis(name=name, scale=None if symbol is None else scale, unit=symbol))
    read = [key] * any(names) + ["dimension_units"] * any(units)
    return Reading(axes=tuple(axes), attribute=", ".join(read), offsets="ignored")


def _strings(attributes: Mapping[str, Any], key: str, ndim: int) -> list[str | None]:
    """Return a list of strings, None for each that is missing or empty."""
    values = attributes.get(key)
    if not isinstance(values, list) or len(values) != ndim:
        return [None] * ndim
    return [value if value and isinstance(value, str) else None for value in values]
