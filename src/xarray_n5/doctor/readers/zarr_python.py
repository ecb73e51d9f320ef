"""zarr-python 2: arrays of N5 and of Zarr v2, without any notion of axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xarray_n5.doctor.readers.protocol import plain, unread
from xarray_n5.model.times import check_time_units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.doctor.readers.protocol import Reading, StoredArray, StoredImage

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "raw": (),
    "gzip": ("level",),
    "bzip2": ("blockSize",),
    "xz": ("preset",),
    "lzma": ("format", "check", "preset", "filters"),
    "blosc": ("cname", "clevel", "shuffle", "blocksize"),
}
"""The members of N5's codecs that it reads without defaults."""

_OTHERS: Mapping[str, frozenset[str]] = {
    "zstd": frozenset({"id", "level", "checksum"}),
    "lz4": frozenset({"id", "acceleration"}),
    "zlib": frozenset({"id", "level"}),
}
"""Codecs that it hands to numcodecs with all members, and the members that these know."""


@dataclass(frozen=True, slots=True)
class ZarrPython:
    """zarr-python 2 with its N5Store."""

    name: ClassVar[str] = "zarr_python_2"
    title: ClassVar[str] = "zarr-python 2"
    source: ClassVar[str] = "zarr-developers/zarr-python: zarr/n5.py in 2.18"

    def read(self, image: StoredImage) -> list[Reading]:
        """Return whether each level is opened."""
        if image.format not in {"n5", "zarr2"}:
            return [unread("it reads N5 and Zarr v2") for _ in image.levels]
        return [_n5(each) if image.format == "n5" else plain(each.ndim) for each in image.levels]


def _n5(level: StoredArray) -> Reading:
    problem = _codec(level.document)
    if problem is None and level.root and "n5" not in level.document:
        problem = "it expects 'n5', the version, on an array that is the root of a container"
    return plain(level.ndim) if problem is None else unread(problem)


def _codec(document: Mapping[str, Any]) -> str | None:
    """Return why the type or the compression of an N5 array is not known, or None."""
    kind = document.get("dataType")
    try:
        check_time_units(str(kind))
        known = np.dtype(str(kind)).kind != "O"
    except (TypeError, ValueError):
        known = False
    if not known:
        return f"it does not read the type {kind!r}"
    codec = document.get("compression")
    if not isinstance(codec, dict) or "type" not in codec:
        return "it expects 'compression' with a type; 'compressionType' is an older key"
    name = codec["type"]
    if name in _OTHERS:
        unknown = sorted(codec.keys() - {"type"} - _OTHERS[name])
        return (
            f"the compression {name!r} has the unknown member {unknown[0]!r}" if unknown else None
        )
    if name not in _PARAMETERS:
        return f"it does not read the compression {name!r}"
    missing = [key for key in _PARAMETERS[name] if key not in codec]
    return f"the compression {name!r} lacks {missing[0]!r}" if missing else None
