"""Readers of OME-NGFF: images in Zarr, by the specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.dialects import ngff
from xarray_n5.dialects.levels import listings
from xarray_n5.dialects.ngff_systems import has_systems
from xarray_n5.doctor.readers.protocol import Reading, reading_of, refused, unread
from xarray_n5.model.alerts import ODD

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage


@dataclass(frozen=True, slots=True)
class OmeNgff:
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
        geometry = ngff.Ngff().read(level.context)
    except ODD as error:
        return refused(f"'multiscales' of the group is invalid: {error}")
    if geometry is None:
        return unread("no group around it has 'multiscales' that list it")
    return reading_of(geometry)


def is_of_systems(level: StoredArray) -> bool:
    """Return whether a level is of an image of OME-Zarr 0.6, which many programs do not read."""
    return any(has_systems(image) for image, _, _ in listings(level.context))
