"""The expected geometry of an image, and the dialects that contradict it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xarray_n5.dialects import DIALECTS, is_shown, read, resolve_geometry
from xarray_n5.doctor.compare import differences
from xarray_n5.doctor.readers.protocol import Reading, reading_of
from xarray_n5.model.alerts import ODD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.doctor.compare import Difference
    from xarray_n5.doctor.readers.protocol import StoredArray, StoredImage
    from xarray_n5.model.axes import Geometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A dialect in the attributes that contradicts the geometry that is used."""

    dialect: str
    difference: Difference


def expected_geometry(image: StoredImage, dialect: str | None = None) -> tuple[Geometry, ...]:
    """Return the geometry of each level, by one dialect before all others, or by precedence."""
    order = None if dialect is None else [dialect, *(name for name in DIALECTS if name != dialect)]
    return tuple(resolve_geometry(level.context, order)[0] for level in image.levels)


def describes(image: StoredImage, dialect: str) -> bool:
    """Return whether a dialect describes all levels of an image."""
    return all(_read(level, dialect) is not None for level in image.levels)


def leading(geometry: Geometry) -> str | None:
    """Return the dialect that a geometry is from, or None if there is none."""
    sources = geometry.sources
    source = next((sources[key] for key in ("scale", "units", "names") if key in sources), None)
    return None if source is None else source.partition(":")[0]


def conflicts(image: StoredImage, expected: Sequence[Geometry]) -> list[Conflict]:
    """Return the dialects that contradict the geometry of the levels."""
    contradicting = []
    for name in DIALECTS:
        readings = tuple(_stated(level, name) for level in image.levels)
        first = next(differences(readings, expected), None)
        if first is not None:
            contradicting.append(Conflict(dialect=name, difference=first))
    return contradicting


def _stated(level: StoredArray, dialect: str) -> Reading:
    """Return the facts that a dialect states about a level, without those that it implies."""
    geometry = _read(level, dialect)
    if geometry is None:
        return Reading(axes=None)
    sizes = geometry.sources.get("scale")
    if (geometry.placed and geometry.relative) or sizes == "units":  # voxels of unknown size
        axes = (replace(axis, scale=None, offset=0.0) for axis in geometry.axes)
        geometry = replace(geometry, axes=tuple(axes))
    if "offset" in geometry.sources:
        return reading_of(geometry)
    implied = any(axis.factor != 1 for axis in geometry.axes)  # factors place a coarser level
    return replace(reading_of(geometry), offsets="relative" if implied else "ignored")


def _read(level: StoredArray, dialect: str) -> Geometry | None:
    reader = DIALECTS[dialect]
    node = level.context.without_users_own().without_units_of_values()
    try:
        geometry = read(reader, node) if is_shown(reader, node, node.signs) else None
    except ODD:
        return None
    return geometry if geometry is not None and geometry.ndim == level.ndim else None
