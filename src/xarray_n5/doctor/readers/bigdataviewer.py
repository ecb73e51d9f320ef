"""BigDataViewer and BigStitcher: projects of views, by their XML."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.dialects.bdv import Bdv
from xarray_n5.doctor.readers.protocol import reading_of, refused, unread
from xarray_n5.model.alerts import ODD

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import Reading, StoredArray, StoredImage

_KEY = "downsamplingFactors"


@dataclass(frozen=True, slots=True)
class BigDataViewer:
    """The registrations and voxel sizes of the XML, and the factors on the setup."""

    name: ClassVar[str] = "bigdataviewer"
    title: ClassVar[str] = "BigDataViewer"
    source: ClassVar[str] = "bigdataviewer/bigdataviewer-core: bdv/img/n5, bdv/img/hdf5"

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level of a view."""
        return [_read(level, image.format) for level in image.levels]


def _read(level: StoredArray, form: str) -> Reading:
    if form not in {"n5", "hdf5"} or level.context.view is None:
        return unread("it opens projects: setupS/timepointT/sL with an XML next to the container")
    if level.context.xml is None:
        return unread("no XML next to the container describes its views")
    context = level.context
    if form == "n5":
        parents = context.parents
        setup = parents[1] if len(parents) > 1 else {}
        listed = setup.get(_KEY)
        if not isinstance(listed, list) or not all(isinstance(each, list) for each in listed):
            return refused(f"the setup has no {_KEY!r} with a list for each level")
        context = replace(context, attributes={}, parents=({}, setup, *parents[2:]), base=None)
    try:
        found = Bdv().read(context)
    except ODD as error:
        return refused(f"{_KEY!r} of the setup is invalid: {error}")
    return unread("it opens images of three axes") if found is None else reading_of(found)
