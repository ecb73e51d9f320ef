"""napari with napari-ome-zarr: the scale of the base level, without its translation.

Up to version 0.8 it also applied the translation. Versions 0.9 and 0.10 apply the first transform
of the base level, its scale in OME-NGFF 0.4 and 0.5, and 0.11 passes only the scale to napari.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xarray_n5_doctor.readers.ngff import image_of
from xarray_n5_doctor.readers.protocol import Reading, SeenAxis, unread

if TYPE_CHECKING:
    from xarray_n5_doctor.readers.protocol import Image

_NO_OFFSETS = "since version 0.9, it ignores translations: the image begins at 0"


@dataclass(frozen=True, slots=True)
class Napari:
    """napari with its usual plugin; with the reader of xarray-n5, it sees what xarray-n5 does."""

    name: ClassVar[str] = "napari_ome_zarr"
    title: ClassVar[str] = "napari-ome-zarr"
    source: ClassVar[str] = "ome/napari-ome-zarr: napari_ome_zarr/ome_zarr_reader.py"

    def read(self, image: Image) -> list[Reading]:
        """Return the base level's axes, and names and units for the others.

        napari places coarser levels by their shapes.
        """
        if not image.format.startswith("zarr"):
            return [
                unread("it reads OME-Zarr; the reader of xarray-n5 for napari reads this")
            ] * len(image.levels)
        base, *coarse = map(image_of, image.levels)
        return [_placed(base), *map(_by_shape, coarse)]


def _placed(found: Reading) -> Reading:
    if found.axes is None:
        return found
    axes = tuple(replace(axis, offset=None if axis.scale is None else 0.0) for axis in found.axes)
    moved = any(axis.offset for axis in found.axes)
    return replace(found, axes=axes, note=_NO_OFFSETS if moved else "")


def _by_shape(found: Reading) -> Reading:
    if found.axes is None:
        return found
    axes = tuple(SeenAxis(name=axis.name) for axis in found.axes)
    return replace(found, axes=axes)
