"""Neuroglancer's Zarr: images of OME-NGFF, or arrays by the names and units of dimensions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects.pyramids import images_in
from xarray_n5.model.units import split_unit
from xarray_n5_doctor.readers.ngff import image_of
from xarray_n5_doctor.readers.protocol import Reading, SeenAxis, refused, unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5_doctor.readers.protocol import Level

_BOTH = {"0.4", "0.5-dev"}

VERSIONS = {"zarr2": _BOTH, "zarr3": _BOTH | {"0.5", "0.6.dev1", "0.6.dev3", "0.6"}}
"""The versions of OME-NGFF in each format."""

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


def read(level: Level, form: str) -> Reading:
    """Return a level of an image, or an array by itself."""
    problem = _codec_2(level.document) if form == "zarr2" else _codec_3(level.document)
    if problem is not None:
        return unread(problem)
    group = next((each for each in level.context.parents if any(images_in(each))), {})
    ome = group.get("ome")
    image = next(iter(images_in(group)), {})
    version = ome.get("version") if isinstance(ome, dict) else image.get("version")
    found = image_of(level)
    if found.fault:
        return found
    if found.axes is None or version is None:
        return _single(level, form)
    if version not in VERSIONS[form]:
        return refused(f"it reads OME-NGFF {', '.join(sorted(VERSIONS[form]))}, not {version!r}")
    units = [each.get("unit") for each in image.get("axes") or () if isinstance(each, dict)]
    odd = next((unit for unit in units if unit is not None and not _is_known(unit)), None)
    if odd is not None:
        return refused(f"'multiscales' has the unit {odd!r}; it expects whole words of OME-NGFF")
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


def _single(level: Level, form: str) -> Reading:
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
