"""Readers of OME-NGFF: images in Zarr, by the specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.dialects import ngff
from xarray_n5.model.alerts import ODD
from xarray_n5_doctor.readers.protocol import reading_of, refused, unread

if TYPE_CHECKING:
    from xarray_n5_doctor.readers.protocol import Image, Level, Reading


@dataclass(frozen=True, slots=True)
class OmeZarr:
    """Programs that read OME-NGFF as it is specified, such as ome-zarr-py."""

    name: ClassVar[str] = "ome_ngff"
    title: ClassVar[str] = "OME-NGFF"
    source: ClassVar[str] = "ngff.openmicroscopy.org, 0.4 and 0.5; ome/ome-zarr-py"

    def read(self, image: Image) -> list[Reading]:
        """Return the axes of each level of an image."""
        if not image.format.startswith("zarr"):
            return [unread("it reads OME-Zarr") for _ in image.levels]
        return [image_of(level) for level in image.levels]


def image_of(level: Level) -> Reading:
    """Return a level as the image around it describes it."""
    try:
        found = ngff.Ngff().read(level.context)
    except ODD as error:
        return refused(f"'multiscales' of the group is invalid: {error}")
    if found is None:
        return unread("no group around it has 'multiscales' that list it")
    return reading_of(found)
