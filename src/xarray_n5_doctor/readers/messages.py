"""Format comparisons and readings for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5_doctor.readers.compare import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.axes import Geometry
    from xarray_n5_doctor.readers.compare import Comparison
    from xarray_n5_doctor.readers.protocol import Image, Reading


def reason_of(comparison: Comparison, image: Image, expected: Sequence[Geometry]) -> str:
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


def _difference(comparison: Comparison, image: Image, expected: Sequence[Geometry]) -> str:
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

    >>> from xarray_n5_doctor.readers.protocol import Reading, SeenAxis
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
