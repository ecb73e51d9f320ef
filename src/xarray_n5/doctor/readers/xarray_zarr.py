"""xarray's own engine for Zarr: names of dimensions, and arrays that are named like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, unread

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage

_KEYS = {"zarr2": "_ARRAY_DIMENSIONS", "zarr3": "dimension_names"}


@dataclass(frozen=True, slots=True)
class XarrayZarr:
    """xarray with zarr-python 3, which reads no N5."""

    name: ClassVar[str] = "xarray_zarr"
    title: ClassVar[str] = "xarray (Zarr)"
    source: ClassVar[str] = "pydata/xarray: xarray/backends/zarr.py"

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the names of the dimensions of each level."""
        if image.format not in _KEYS:
            return [unread("it reads Zarr") for _ in image.levels]
        key = _KEYS[image.format]
        problem = _problem(image, key)
        return [
            _names(level, key) if problem is None else unread(problem) for level in image.levels
        ]


def _problem(image: StoredImage, key: str) -> str | None:
    """Return why the group of an image is not opened as a Dataset, or None."""
    if any(level.root for level in image.levels):
        return "it opens groups, and the container is an array"
    sizes: dict[str | None, int] = {}
    for member in image.members.values():
        names = _listed(member, key)
        if names is None:
            return f"it expects {key!r} of each array in a group"
        for name, size in zip(names, member.context.shape, strict=True):
            if sizes.setdefault(name, size) != size:
                return f"arrays in the group have different sizes along {name}"
    return None


def _listed(level: StoredArray, key: str) -> list[str | None] | None:
    """Return the names of all dimensions, or None if they are not listed."""
    found = (level.attributes if key == "_ARRAY_DIMENSIONS" else level.document).get(key)
    if not isinstance(found, list) or len(found) != level.ndim:
        return None
    return [None if each is None else str(each) for each in found]


def _names(level: StoredArray, key: str) -> Reading:
    names = _listed(level, key) or []
    return Reading(axes=tuple(SeenAxis(name=name) for name in names), attribute=key)
