"""Paintera: its own groups, or the parsers of n5-universe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.dialects import paintera
from xarray_n5_doctor.readers.n5_universe import first, of_cosem, of_n5_viewer, of_ngff
from xarray_n5_doctor.readers.protocol import Reading, reading_of, unread

if TYPE_CHECKING:
    from xarray_n5_doctor.readers.protocol import Image, Level

_PARSERS = (of_ngff, of_cosem, of_n5_viewer)

_NO_SHIFT = "it places coarser levels without the shift of (factor - 1) / 2 voxels"

_NDIM = 3


@dataclass(frozen=True, slots=True)
class Paintera:
    """The resolution and the offset of the group ``data``, without units and names."""

    name: ClassVar[str] = "paintera"
    title: ClassVar[str] = "Paintera"
    source: ClassVar[str] = (
        "saalfeldlab/paintera: N5Helpers.GROUP_PARSERS, N5PainteraDataMultiScaleMetadata"
    )

    def read(self, image: Image) -> list[Reading]:
        """Return the axes of each level."""
        return [_read(level) for level in image.levels]


def _read(level: Level) -> Reading:
    if level.ndim < _NDIM:
        return unread("it shows arrays of three axes or more")
    found = first(level, (_of_data, *_PARSERS))
    axes = tuple(replace(axis, unit=None) for axis in found.axes or ())
    return replace(found, axes=axes)


def _of_data(level: Level) -> Reading | None:
    """Return a level in a group ``data``, by this group's resolution and offset."""
    parts = level.context.path.split("/")
    if parts[-2:-1] != ["data"] or not parts[-1].startswith("s") or not level.context.parents:
        return None
    group = level.context.parents[0]
    own = {
        "resolution": group.get("resolution", [1.0] * _NDIM),
        "offset": group.get("offset", [0.0] * _NDIM),
        "downsamplingFactors": level.attributes.get("downsamplingFactors"),
    }
    attributes = {key: value for key, value in own.items() if value is not None}
    found = paintera.Paintera().read(level.only(attributes, lists_x_first=True))
    if found is None:
        return None
    # An offset beside factors is final: the level has that of its group.
    axes = tuple(replace(axis, name=None) for axis in reading_of(found).axes or ())
    shifted = any(axis.factor != 1 for axis in found.axes)
    seen = Reading(axes=axes, attribute="resolution and offset of the group, downsamplingFactors")
    return replace(seen, offsets="ignored", note=_NO_SHIFT) if shifted else seen
