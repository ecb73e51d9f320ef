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

BAD: frozenset[Verdict] = frozenset({"differs", "refuses"})
"""The verdicts that are disagreements."""


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
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    """What the program does in its own way, whatever the attributes are."""

    @property
    def agrees(self) -> bool:
        """Whether nothing is read differently or refused."""
        return self.verdict not in BAD


def compare(image: StoredImage, expected: Sequence[Geometry]) -> list[Comparison]:
    """Compare each program's readings of an image with the expected geometries of its levels."""
    return [comparison_of(name, _readings(name, image), expected) for name in READERS]


def _readings(name: str, image: StoredImage) -> tuple[Reading, ...]:
    try:
        return tuple(READERS[name].read(image))
    except ODD as error:
        return (refused(str(error)),) * len(image.levels)


def comparison_of(
    name: str, readings: tuple[Reading, ...], expected: Sequence[Geometry]
) -> Comparison:
    """Return a program's readings with their verdict."""
    found = tuple(differences(readings, expected))
    verdict = _verdict(readings, found, stated=any(each.named or each.placed for each in expected))
    notes = tuple(dict.fromkeys(_notes(readings, expected)))
    return Comparison(
        reader=name, readings=readings, verdict=verdict, differences=found, notes=notes
    )


def _verdict(readings: Sequence[Reading], found: Sequence[Difference], *, stated: bool) -> Verdict:
    if any(each.fault for each in readings):
        return "refuses"
    if found:
        return "differs"
    if not readings[0].opens:
        return "unread"
    silent = all(each.silent for each in readings if each.opens)
    return "silent" if silent or not stated else "agrees"


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
    moved, own = ((seen.offset or 0.0) - there) * times, axis.offset - here
    known = offsets != "ignored" and seen.offset is not None
    if known and abs(moved - own) > SAME * abs(axis.scale) + ROUNDING * abs(axis.offset):
        return "offset", size_of(moved / times, seen.unit), size_of(own, axis.unit)
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


def reason_of(comparison: Comparison, image: StoredImage, expected: Sequence[Geometry]) -> str:
    """Return why a program disagrees or opens nothing, and notes on its conventions."""
    match comparison.verdict:
        case "differs":
            return _difference(comparison, image, expected)
        case "refuses" | "unread":
            pairs = zip(image.names, comparison.readings, strict=True)
            name, closed = next(each for each in pairs if each[1].reason)
            where = f"{name}: " if comparison.verdict == "refuses" and image.grouped else ""
            return f"{where}{closed.reason}"
    return "; ".join(comparison.notes)


def _difference(comparison: Comparison, image: StoredImage, expected: Sequence[Geometry]) -> str:
    first = comparison.differences[0]
    geometry = expected[first.level]
    reading = comparison.readings[first.level]
    name = geometry.with_names().axes[first.axis].name
    where = f"{image.names[first.level]}: " if image.grouped else ""
    more = len(comparison.differences) - 1
    others = f"; {more} more differences" if more > 1 else "; 1 more difference" if more else ""
    theirs = f"from {reading.attribute}" if reading.attribute else "by default"
    # Where offsets are compared as they are, the note is why one differs.
    noted = first.field == "offset" and reading.offsets == "absolute" and reading.note
    return (
        f"{where}{first.field} of {name} is {first.theirs} ({theirs}), expected {first.ours} "
        f"(from {_source(geometry, first.field)}){others}{f'; {reading.note}' if noted else ''}"
    )


def _source(geometry: Geometry, field: str) -> str:
    """Return the attribute that a fact is from, with its dialect."""
    keys = {"name": ("names",), "unit": ("units", "scale")}.get(field, (field, "scale"))
    return next((geometry.sources[key] for key in keys if key in geometry.sources), "its metadata")


def summary(reading: Reading) -> str:
    """Return the axes of a level as one line.

    >>> from xarray_n5.doctor.readers.protocol import Reading, SeenAxis
    >>> summary(Reading(axes=(SeenAxis(name="z", scale=40.0, offset=20.0, unit="nm"), SeenAxis())))
    'z 40 nm from 20, -'
    """
    if reading.axes is None:
        return ""
    parts = []
    for axis in reading.axes:
        start = f" from {axis.offset:g}" if axis.offset else ""
        size = "" if axis.scale is None else f"{size_of(axis.scale, axis.unit)}{start}"
        parts.append(" ".join(filter(None, [axis.name, size])) or "-")
    return ", ".join(parts)
