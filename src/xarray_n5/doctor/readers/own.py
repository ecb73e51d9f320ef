"""xarray-n5: all dialects, in the order of precedence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.dialects import resolve_geometry
from xarray_n5.doctor.readers.protocol import listed, reading_of

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import Reading, StoredImage
    from xarray_n5.model.axes import Geometry


@dataclass(frozen=True, slots=True)
class XarrayN5:
    """The package itself, and its reader for napari."""

    name: ClassVar[str] = "xarray_n5"
    title: ClassVar[str] = "xarray-n5"
    source: ClassVar[str] = "xarray_n5.dialects"

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level."""
        return [_read(resolve_geometry(level.context)[0]) for level in image.levels]


def _read(geometry: Geometry) -> Reading:
    """Return the axes with the attributes that they are from, each dialect once."""
    keys: dict[str, list[str]] = {}
    for source in dict.fromkeys(geometry.sources.values()):
        dialect, _, key = source.partition(": ")
        keys.setdefault(dialect, []).append(key)
    said = "; ".join(f"{dialect}: {listed(each)}" for dialect, each in keys.items())
    return replace(reading_of(geometry), attribute=said)
