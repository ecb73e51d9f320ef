"""Compare how programs, and dialects, read an image with the geometry that it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from xarray_n5.dialects import DIALECTS, is_shown, read, resolve_geometry
from xarray_n5.dialects.protocol import axis_differences
from xarray_n5.doctor.neuroglancer import read_neuroglancer
from xarray_n5.doctor.readers import (
    read_all_dialects,
    read_n5_universe,
    read_ngff,
    reading_of,
    refused,
    unread,
)
from xarray_n5.model.alerts import ODD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xarray_n5.doctor.images import StoredArray, StoredImage
    from xarray_n5.doctor.readers import Reading
    from xarray_n5.model.axes import Axis, Geometry

Verdict: TypeAlias = Literal["agrees", "silent", "differs", "refuses", "unread"]
"""Whether a program reads the same; "silent" without any axes, "refuses" because of attributes."""


class Reader(NamedTuple):
    """A program that opens containers, by its own rules."""

    title: str
    """The program, as users know it."""
    read: Callable[[StoredImage], Sequence[Reading]]
    """A function that returns the axes of each level as the program sees them."""


def _read_ome_zarr(image: StoredImage) -> list[Reading]:
    if not image.format.startswith("zarr"):
        return [unread("it reads OME-Zarr") for _ in image.levels]
    return [read_ngff(level) for level in image.levels]


READERS: dict[str, Reader] = {
    "xarray_n5": Reader("xarray-n5", lambda image: [*map(read_all_dialects, image.levels)]),
    # google/neuroglancer: src/datasource/n5/frontend.ts, src/datasource/zarr
    "neuroglancer": Reader("Neuroglancer", read_neuroglancer),
    # saalfeldlab/n5-viewer: N5ViewerCreator; n5-ij: N5Importer; n5-universe: metadata
    "n5_universe": Reader(
        "n5-universe (Fiji)", lambda image: [*map(read_n5_universe, image.levels)]
    ),
    # ngff.openmicroscopy.org, 0.4 to 0.6; ome/ome-zarr-py
    "ome_ngff": Reader("OME-NGFF", _read_ome_zarr),
}
"""The programs, by name; the others are compared with what xarray-n5 reads."""


class Difference(NamedTuple):
    """The first fact of a level that is read differently."""

    level: int
    axis: int
    field: str
    theirs: object
    ours: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How a program reads an image, and whether that is right."""

    reader: str
    readings: tuple[Reading, ...]
    verdict: Verdict
    reason: str
    """Why a program disagrees or opens nothing, or what it does in its own way."""

    @property
    def agrees(self) -> bool:
        """Whether nothing is read differently or refused."""
        return self.verdict not in {"differs", "refuses"}


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


def conflicts(image: StoredImage, expected: Sequence[Geometry]) -> dict[str, Difference]:
    """Return the dialects that contradict the geometry of the levels, by their first difference."""
    contradicting = {}
    for name in DIALECTS:
        readings = tuple(_stated(level, name) for level in image.levels)
        if (first := next(differences(readings, expected), None)) is not None:
            contradicting[name] = first
    return contradicting


def _stated(level: StoredArray, dialect: str) -> Reading:
    """Return the facts that a dialect states about a level, without those that it implies."""
    geometry = _read(level, dialect)
    if geometry is None:
        return unread("")
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
    node = level.context.without_users_own()
    try:
        geometry = read(reader, node) if is_shown(reader, node) else None
    except ODD:
        return None
    return geometry if geometry is not None and geometry.ndim == level.ndim else None


def compare(image: StoredImage, expected: Sequence[Geometry]) -> list[Comparison]:
    """Compare each program's readings of an image with the expected geometries of its levels."""
    return [_compared(name, image, expected) for name in READERS]


def _compared(name: str, image: StoredImage, expected: Sequence[Geometry]) -> Comparison:
    try:
        readings = tuple(READERS[name].read(image))
    except ODD as error:
        readings = (refused(str(error)),) * len(image.levels)
    different = list(differences(readings, expected))
    closed = ((n, reading.reason) for n, reading in enumerate(readings) if reading.reason)
    level, reason = next(closed, (0, ""))
    verdict: Verdict
    if any(reading.fault for reading in readings):
        verdict, reason = "refuses", f"{image.names[level]}: {reason}" if image.grouped else reason
    elif different:
        verdict, reason = "differs", _why_different(different, readings, image, expected)
    elif not readings[0].opens:
        verdict = "unread"
    else:
        stated = any(geometry.named or geometry.placed for geometry in expected)
        silent = all(reading.silent for reading in readings if reading.opens)
        moved = any(axis.offset for axis in expected[0].axes if axis.placed)
        verdict = "silent" if silent or not stated else "agrees"
        reason = readings[0].note if moved else ""
    return Comparison(reader=name, readings=readings, verdict=verdict, reason=reason)


def differences(readings: Sequence[Reading], expected: Sequence[Geometry]) -> Iterator[Difference]:
    """Iterate over the differences of readings, at most one for each axis of a level.

    A fact that a program does not read, or that the attributes do not state, is not a difference,
    and neither is an offset where the program has none. Lengths are compared in metres or seconds.
    """
    first = readings[0].axes
    for number, (reading, geometry) in enumerate(zip(readings, expected, strict=True)):
        if reading.axes is None or len(reading.axes) != geometry.ndim:
            continue
        over = first if reading.offsets == "relative" else None
        shifted = reading.offsets == "absolute" or over is not None
        for at, (seen, axis) in enumerate(zip(reading.axes, geometry.axes, strict=True)):
            if seen.name and axis.name and seen.name != axis.name:
                yield Difference(number, at, "name", seen.name, axis.name)
            elif geometry.affine is None:
                pair = axis, seen
                if over is not None:
                    pair = _over(axis, expected[0].axes[at]), _over(seen, over[at])
                for fact in islice(axis_differences(*pair, shifted=shifted), 1):
                    yield Difference(number, at, *fact)


def _over(axis: Axis, base: Axis) -> Axis:
    """Return an axis whose offset is that over the base level."""
    return replace(axis, offset=axis.offset - base.offset)


def _why_different(
    different: Sequence[Difference],
    readings: Sequence[Reading],
    image: StoredImage,
    expected: Sequence[Geometry],
) -> str:
    first, more = different[0], len(different) - 1
    geometry, reading = expected[first.level], readings[first.level]
    where = f"{image.names[first.level]}: " if image.grouped else ""
    others = f"; {more} more difference{'s' if more > 1 else ''}" if more else ""
    theirs = f"from {reading.attribute}" if reading.attribute else "by default"
    keys = {"name": ("names",), "unit": ("units", "scale")}.get(first.field, (first.field, "scale"))
    ours = next((geometry.sources[k] for k in keys if k in geometry.sources), "its metadata")
    return (
        f"{where}{first.field} of {geometry.with_names().axes[first.axis].name} is {first.theirs} "
        f"({theirs}), expected {first.ours} (from {ours}){others}"
    )
