"""Readers of OME-NGFF: images in Zarr, by the specification, or as napari-ome-zarr has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.dialects import ngff
from xarray_n5.dialects.levels import listings
from xarray_n5.dialects.ngff_systems import has_systems
from xarray_n5.doctor.readers.protocol import Reading, SeenAxis, reading_of, refused, unread
from xarray_n5.model.alerts import ODD

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage

_NOT_CHECKED = "it reads OME-NGFF 0.4 and 0.5; OME-Zarr 0.6 only since mid-2026, not checked here"

_NO_OFFSETS = "since version 0.9, it ignores translations: the image begins at 0"


@dataclass(frozen=True, slots=True)
class OmeZarr:
    """Programs that read OME-NGFF as it is specified, such as ome-zarr-py."""

    name: ClassVar[str] = "ome_ngff"
    title: ClassVar[str] = "OME-NGFF"
    source: ClassVar[str] = "ngff.openmicroscopy.org, 0.4 to 0.6; ome/ome-zarr-py"

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level of an image."""
        if not image.format.startswith("zarr"):
            return [unread("it reads OME-Zarr") for _ in image.levels]
        return [read_ngff(level) for level in image.levels]


def read_ngff(level: StoredArray) -> Reading:
    """Return a level as the image around it describes it."""
    try:
        found = ngff.Ngff().read(level.context)
    except ODD as error:
        return refused(f"'multiscales' of the group is invalid: {error}")
    if found is None:
        return unread("no group around it has 'multiscales' that list it")
    return reading_of(found)


def is_of_systems(level: StoredArray) -> bool:
    """Return whether a level is of an image of OME-Zarr 0.6, which many programs do not read."""
    return any(has_systems(image) for image, _, _ in listings(level.context))


@dataclass(frozen=True, slots=True)
class Napari:
    """napari with its usual plugin; with the reader of xarray-n5, it sees what xarray-n5 does.

    It passes the scale of the base level to napari, without its translation. Up to version 0.8 it
    also applied the translation. Versions 0.9 and 0.10 apply the first transform of the base level,
    its scale in OME-NGFF 0.4 and 0.5, and 0.11 passes only the scale.
    """

    name: ClassVar[str] = "napari_ome_zarr"
    title: ClassVar[str] = "napari-ome-zarr"
    source: ClassVar[str] = "ome/napari-ome-zarr: napari_ome_zarr/ome_zarr_reader.py"

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the base level's axes, and names and units for the others.

        napari places coarser levels by their shapes.
        """
        if not image.format.startswith("zarr"):
            return [
                unread("it reads OME-Zarr; the reader of xarray-n5 for napari reads this")
            ] * len(image.levels)
        if any(map(is_of_systems, image.levels)):
            return [unread(_NOT_CHECKED)] * len(image.levels)
        base, *coarse = map(read_ngff, image.levels)
        return [_placed(base), *map(_by_shape, coarse)]


def _placed(found: Reading) -> Reading:
    if found.axes is None:
        return found
    axes = tuple(replace(axis, offset=None if axis.scale is None else 0.0) for axis in found.axes)
    moved = any(axis.offset for axis in found.axes)
    return replace(found, axes=axes, offsets="ignored", note=_NO_OFFSETS if moved else "")


def _by_shape(found: Reading) -> Reading:
    if found.axes is None:
        return found
    axes = tuple(SeenAxis(name=axis.name) for axis in found.axes)
    return replace(found, axes=axes)
