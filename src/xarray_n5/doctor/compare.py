"""Compare how programs read an image with the geometry that it has, and say it to people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from xarray_n5.doctor.readers import READERS
from xarray_n5.doctor.readers.protocol import refused
from xarray_n5.model.alerts import ODD
from xarray_n5.model.tolerances import ROUNDING, SAME
from xarray_n5.model.units import ratio, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.doctor.readers.protocol import Offsets, Reading, SeenAxis, StoredImage
    from xarray_n5.model.axes import Axis, Geometry

Verdict: TypeAlias = Literal["agrees", "silent", "differs", "refuses", "unread"]
"""Whether a program reads the same; "silent" without any axes, "refuses" because of attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first fact of a level that a program reads differently."""

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


def compare(image: StoredImage, expected: Sequence[Geometry]) -> list[Comparison]:
    """Compare each program's readings of an image with the expected geometries of its levels."""
    return [_compared(name, image, expected) for name in READERS]


def _compared(name: str, image: StoredImage, expected: Sequence[Geometry]) -> Comparison:
    try:
        readings = tuple(READERS[name].read(image))
    except ODD as error:
        readings = (refused(str(error)),) * len(image.levels)
    different = list(differences(readings, expected))
    verdict: Verdict
    if any(reading.fault for reading in readings):
        verdict, reason = "refuses", _why_closed(readings, image.names if image.grouped else ())
    elif different:
        verdict, reason = "differs", _why_different(different, readings, image, expected)
    elif not readings[0].opens:
        verdict, reason = "unread", _why_closed(readings, ())
    else:
        stated = any(geometry.named or geometry.placed for geometry in expected)
        silent = all(reading.silent for reading in readings if reading.opens)
        verdict = "silent" if silent or not stated else "agrees"
        reason = "; ".join(dict.fromkeys(_notes(readings, expected)))
    return Comparison(reader=name, readings=readings, verdict=verdict, reason=reason)


def _notes(readings: Sequence[Reading], expected: Sequence[Geometry]) -> Iterator[str]:
    """Yield notes on readings whose offsets differ by the program's convention."""
    for reading, geometry in zip(readings, expected, strict=True):
        pairs = zip(reading.axes or (), geometry.axes, strict=bool(reading.axes))
        if reading.note and any(_is_moved(seen, axis) for seen, axis in pairs):
            yield reading.note


def _is_moved(seen: SeenAxis, axis: Axis) -> bool:
    if seen.offset is None or seen.scale is None or axis.scale is None:
        return False
    return abs(seen.offset / seen.scale - axis.offset / axis.scale) > SAME


def differences(readings: Sequence[Reading], expected: Sequence[Geometry]) -> Iterator[Difference]:
    """Iterate over the differences of readings, at most one for each axis of a level.

    A fact that a program does not read, or that the attributes do not state, is not a difference,
    and neither is an offset where the program has none. Lengths are compared in metres or seconds.
    """
    if not readings or len(readings) != len(expected):
        return
    first = readings[0].axes
    for number, (reading, geometry) in enumerate(zip(readings, expected, strict=True)):
        if reading.axes is None or len(reading.axes) != geometry.ndim:
            continue
        for place, (seen, axis) in enumerate(zip(reading.axes, geometry.axes, strict=True)):
            offsets, base = reading.offsets, (0.0, 0.0)
            if offsets == "relative" and first is None:
                offsets = "ignored"
            elif offsets == "relative" and first is not None:
                base = (first[place].offset or 0.0, expected[0].axes[place].offset)
            fact = _first_difference(seen, axis, offsets, base)
            if fact is not None and (geometry.affine is None or fact[0] == "name"):
                field, theirs, ours = fact
                yield Difference(level=number, axis=place, field=field, theirs=theirs, ours=ours)


def _first_difference(
    seen: SeenAxis, axis: Axis, offsets: Offsets, base: tuple[float, float]
) -> tuple[str, object, object] | None:
    if seen.name is not None and axis.name and seen.name != axis.name:
        return "name", seen.name, axis.name
    if seen.scale is None or axis.scale is None or axis.labels is not None:
        return None
    times = _ratio(seen.unit, axis.unit)
    if times is None:
        return "unit", seen.unit, axis.unit
    if not math.isclose(seen.scale * times, axis.scale, rel_tol=SAME):
        field = "unit" if math.isclose(seen.scale, axis.scale, rel_tol=SAME) else "scale"
        return field, size_of(seen.scale, seen.unit), size_of(axis.scale, axis.unit)
    there, here = base
    moved, expected = ((seen.offset or 0.0) - there) * times, axis.offset - here
    known = offsets != "ignored" and seen.offset is not None
    if known and abs(moved - expected) > SAME * abs(axis.scale) + ROUNDING * abs(axis.offset):
        return "offset", size_of(moved / times, seen.unit), size_of(expected, axis.unit)
    return None


def _ratio(unit: str | None, other: str | None) -> float | None:
    """Return how large a unit is in another one; 1 if one is unknown, None if they differ in kind.

    >>> _ratio("m", "km"), _ratio(None, "nm"), _ratio("s", "nm")
    (0.001, 1.0, None)
    """
    return 1.0 if unit_of(unit) is None or unit_of(other) is None else ratio(unit, other)


def size_of(number: float, unit: str | None) -> str:
    """Return a length as a string.

    >>> size_of(4.0, "nm"), size_of(0.5, None)
    ('4 nm', '0.5')
    """
    return f"{number:g} {unit}" if unit else f"{number:g}"


def _why_closed(readings: Sequence[Reading], names: Sequence[str]) -> str:
    at, reason = next((n, closed.reason) for n, closed in enumerate(readings) if closed.reason)
    return f"{names[at]}: {reason}" if names else reason


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
    sources = geometry.sources
    ours = next((sources[key] for key in keys if key in sources), "its metadata")
    return (
        f"{where}{first.field} of {geometry.with_names().axes[first.axis].name} is {first.theirs} "
        f"({theirs}), expected {first.ours} (from {ours}){others}"
    )


def summary(reading: Reading) -> str:
    """Return the axes of a level as one line.

    >>> from xarray_n5.doctor.readers.protocol import Reading, SeenAxis
    >>> summary(Reading(axes=(SeenAxis(name="z", scale=40.0, offset=20.0, unit="nm"), SeenAxis())))
    'z 40 nm from 20, -'
    """
    parts = []
    for axis in reading.axes or ():
        start = f" from {axis.offset:g}" if axis.offset else ""
        size = "" if axis.scale is None else f"{size_of(axis.scale, axis.unit)}{start}"
        parts.append(" ".join(filter(None, [axis.name, size])) or "-")
    return ", ".join(parts)
