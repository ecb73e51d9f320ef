"""TensorStore: labels and units of each array by itself, read strictly."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xarray_n5.doctor.readers import strict
from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, plain, refused, unread
from xarray_n5.model.units import split_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage

_TYPES = {f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)} | {
    *("float32", "float64")
}

_TYPES_3 = _TYPES | {"bool", "int2", "int4", "float16", "bfloat16", "complex64", "complex128"}

_CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")

_ZSTD: strict.Members = {"level": range(-131072, 23)}

_CODECS: Mapping[str, strict.Members] = {
    "raw": {},
    "gzip": {"level": range(-1, 10), "useZlib": (False, True)},
    "bzip2": {"blockSize": range(1, 10)},
    "xz": {"preset": range(10)},
    "blosc": {
        "cname": _CNAMES,
        "clevel": range(10),
        "shuffle": range(3),
        "blocksize": range(1 << 31),
    },
    "zstd": _ZSTD,
}
"""The codecs of N5, their members and the values of these; other members are errors."""

_NEEDED = {"blosc": {"cname", "clevel", "shuffle"}}

_CODECS_2: Mapping[str, strict.Members] = {
    "blosc": {**_CODECS["blosc"], "shuffle": range(-1, 3)},
    "bz2": {"level": range(1, 10)},
    "zlib": {"level": range(10)},
    "gzip": {"level": range(10)},
    "zstd": _ZSTD,
}
"""The compressors of Zarr v2, likewise."""

_CODECS_3 = {"blosc", "bytes", "crc32c", "gzip", "sharding_indexed", "transpose", "zstd"}

_LISTS = ("axes", "units", "resolution")


@dataclass(frozen=True, slots=True)
class TensorStore:
    """Labels, and the dimension units of arrays; an array begins at 0."""

    name: ClassVar[str] = "tensorstore"
    title: ClassVar[str] = "TensorStore"
    source: ClassVar[str] = (
        "google/tensorstore: driver/n5/metadata.cc, driver/zarr/metadata.cc, driver/zarr3"
    )

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the labels and units of each level."""
        read = {"n5": _n5, "zarr2": _zarr2, "zarr3": _zarr3}.get(image.format)
        if read is None:
            return [unread("it reads N5 and Zarr") for _ in image.levels]
        return [read(level) for level in image.levels]


def _n5(level: StoredArray) -> Reading:
    document = level.document
    problem = next(strict.codec(document.get("compression"), "type", _CODECS, _NEEDED), None)
    if document.get("dataType") not in _TYPES:
        problem = f"it does not read the type {document.get('dataType')!r}"
    if problem is not None:
        return unread(problem)
    own = {key: level.attributes[key] for key in _LISTS if key in level.attributes}
    for key in own:
        check = strict.numbers if key == "resolution" else strict.strings
        if (problem := check(own, key, level.ndim)) is not None:
            return refused(problem)
    if (problem := strict.unique("axes", own.get("axes", []))) is not None:
        return refused(problem)
    names = own.get("axes", [""] * level.ndim)
    if "units" not in own:  # a resolution without units is ignored
        axes = [SeenAxis(name=name or None) for name in names]
    else:
        scales = own.get("resolution", [1.0] * level.ndim)
        pairs = zip(names, scales, own["units"], strict=True)
        axes = [
            SeenAxis(name=name or None, scale=scale, unit=unit or None)
            for name, scale, unit in pairs
        ]
    said = ", ".join(key for key in own if key != "resolution" or "units" in own)
    return Reading(axes=tuple(reversed(axes)), attribute=said, offsets="ignored")


def _zarr2(level: StoredArray) -> Reading:
    document = level.document
    problem = next(_unknown(document), None)
    return plain(level.ndim) if problem is None else unread(problem)


def _unknown(document: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over what is not known in the metadata of an array of Zarr v2."""
    if document.get("filters"):
        yield "it does not read Zarr v2 with filters"
    if document.get("compressor") is not None:
        yield from strict.codec(document["compressor"], "id", _CODECS_2)
    kind, fill = document.get("dtype"), document.get("fill_value")
    if not isinstance(kind, str):
        yield "a field of a structured type must be selected"
    elif kind[1:2] in "OUMm":
        yield f"it does not read the type {kind!r}"
    elif fill is not None and not _fits(fill, kind[1:2], int(kind[2:] or 1)):
        yield f"the fill value {fill!r} is not valid for the type {kind!r}"


def _fits(fill: Any, kind: str, size: int) -> bool:
    """Return whether a fill value is as the specification of Zarr v2 has it."""
    match kind:
        case "b":
            return isinstance(fill, bool)
        case "i" | "u":
            number = isinstance(fill, (int, float)) and not isinstance(fill, bool)
            return number and float(fill).is_integer()
        case "S" | "V":
            try:
                return len(base64.b64decode(fill, validate=True)) == size
            except (TypeError, ValueError):
                return False
        case "c":
            return isinstance(fill, list) and len(fill) == 2  # noqa: PLR2004 - two parts
        case _:
            return not isinstance(fill, (bool, list)) and fill != ""


def _zarr3(level: StoredArray) -> Reading:
    document = level.document
    kind = document.get("data_type")
    used = [str(each.get("name") if isinstance(each, dict) else each) for each in _codecs(document)]
    unknown = [name for name in used if name not in _CODECS_3]
    if unknown or kind not in _TYPES_3:
        name = f"codec {unknown[0]!r}" if unknown else f"type {kind!r}"
        return unread(f"it does not read the {name}")
    names = document.get("dimension_names") or (None,) * level.ndim
    units = level.attributes.get("dimension_units")
    if units is not None and (problem := _invalid_units(units, level.ndim)) is not None:
        return refused(problem)
    if (problem := strict.unique("dimension_names", names)) is not None:
        return refused(problem)
    axes = tuple(map(_axis, names, units or (None,) * level.ndim))
    given = {"dimension_names": names, "dimension_units": units or ()}
    said = ", ".join(key for key in given if any(given[key]))
    return Reading(axes=axes, attribute=said, offsets="ignored")


def _codecs(document: Mapping[str, Any]) -> Iterator[Any]:
    """Iterate over the codecs of an array of Zarr v3 and of the chunks in its shards."""
    for codec in document.get("codecs") or ():
        yield codec
        inner = codec.get("configuration") if isinstance(codec, dict) else None
        if isinstance(inner, dict):
            yield from _codecs(inner)


def _invalid_units(units: Any, ndim: int) -> str | None:
    """Return why units are not strings or null for each axis, or None."""
    if not isinstance(units, list):
        return f"'dimension_units' is {units!r:.80}; it expects a list"
    given = {"dimension_units": ["" if unit is None else unit for unit in units]}
    return strict.strings(given, "dimension_units", ndim)


def _axis(name: str | None, unit: str | None) -> SeenAxis:
    if unit is None:
        return SeenAxis(name=name or None)
    scale, symbol = split_unit(unit)
    return SeenAxis(name=name or None, scale=scale, unit=symbol)
