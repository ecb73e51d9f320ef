"""What other programs read of containers: a class for each, by the dialects that it reads.

A reader is a program with rules of its own: which attributes it reads first, which it requires,
and what it does without them. The parsing of attributes is that of the dialects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.dialects import resolve_geometry
from xarray_n5.doctor.readers.n5_universe import N5Universe
from xarray_n5.doctor.readers.neuroglancer import Neuroglancer
from xarray_n5.doctor.readers.ngff import OmeNgff
from xarray_n5.doctor.readers.protocol import listed, reading_of

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import Reader, Reading, StoredArray, StoredImage

__all__ = ["READERS"]


@dataclass(frozen=True, slots=True)
class XarrayN5:
    """The package itself: all dialects, in the order of precedence."""

    name: ClassVar[str] = "xarray_n5"
    title: ClassVar[str] = "xarray-n5"
    source: ClassVar[str] = "xarray_n5.dialects"

    def read(self, image: StoredImage) -> list[Reading]:
        """Return the axes of each level."""
        return [_resolved(level) for level in image.levels]


def _resolved(level: StoredArray) -> Reading:
    """Return the axes with the attributes that they are from, each dialect once."""
    geometry, _ = resolve_geometry(level.context)
    keys: dict[str, list[str]] = {}
    for source in dict.fromkeys(geometry.sources.values()):
        dialect, _, key = source.partition(": ")
        keys.setdefault(dialect, []).append(key)
    read = "; ".join(f"{dialect}: {listed(names)}" for dialect, names in keys.items())
    return replace(reading_of(geometry), attribute=read)


READERS: dict[str, Reader] = {
    XarrayN5.name: XarrayN5(),
    Neuroglancer.name: Neuroglancer(),
    N5Universe.name: N5Universe(),
    OmeNgff.name: OmeNgff(),
}
"""The programs, by name; the others are compared with what xarray-n5 reads."""
