"""Combine what several dialects say about an array, and find where they disagree."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.tolerances import SAME
from xarray_n5.model.units import ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Said = tuple[str, Geometry]


def combine(said: Sequence[Said], ndim: int) -> tuple[Geometry, list[str]]:
    """Return the combined geometry, and a message for each dialect that disagrees.

    Scale, offset and unit come together from the first dialect that has them; one that counts in
    voxels of unknown size comes last. Names come from the first that has any. Missing units and
    labels come from another dialect whose scales agree.
    """
    named = [reading for reading in said if reading[1].named]
    placed = [reading for reading in said if reading[1].placed and not reading[1].relative]
    relative = [reading for reading in said if reading[1].placed and reading[1].relative]
    first = next(iter([*placed, *relative, *named]), None)
    if first is None:
        return Geometry((Axis(),) * ndim), []
    result = replace(first[1], sources=_sources(first, ("units", "scale", "offset", "labels")))
    against = [disagreement(first, other) for other in placed[1:]]
    for other in placed[1:]:
        result = _completed(result, other)
    if named:
        result = _renamed(result, named[0])
        against += [names_disagreement(named[0], other) for other in named[1:]]
    result, hidden = _without_hidden_names(result)
    systems = next((g.systems for _, g in said if g.systems and _is_placed_as(g, result)), None)
    result = replace(result, dialects=tuple(name for name, _ in said), systems=systems)
    return result, [*filter(None, against), *hidden]


def _without_hidden_names(geometry: Geometry) -> tuple[Geometry, list[str]]:
    """Return the geometry without names that are not printable, and a message about them.

    xarray prints names of dimensions unescaped.
    """
    names = [axis.name for axis in geometry.axes if not (axis.name or "").isprintable()]
    if not names:
        return geometry, []
    axes = (replace(a, name=None) if a.name in names else a for a in geometry.axes)
    message = f"the names of axes {names} are not printable and are ignored"
    return replace(geometry, axes=tuple(axes)), [message]


def _sources(said: Said, fields: tuple[str, ...]) -> dict[str, str]:
    name, geometry = said
    # Registered dialects need not state which attribute they read.
    default = {"names": name} | ({"scale": name} if geometry.placed else {})
    known = {field: f"{name}: {where}" for field, where in geometry.sources.items()} or default
    return {field: known[field] for field in fields if field in known}


def _renamed(geometry: Geometry, named: Said) -> Geometry:
    pairs = zip(geometry.axes, named[1].axes, strict=True)
    axes = tuple(
        replace(axis, name=other.name, kind=axis.kind or other.kind) for axis, other in pairs
    )
    return replace(geometry, axes=axes, sources={**geometry.sources, **_sources(named, ("names",))})


def _completed(geometry: Geometry, other: Said) -> Geometry:
    """Return a geometry with missing units and labels from another dialect."""
    theirs = other[1]
    if geometry.affine is not None or theirs.affine is not None:
        return geometry
    axes, sources = list(geometry.axes), dict(geometry.sources)
    for number, (axis, more) in enumerate(zip(geometry.axes, theirs.axes, strict=True)):
        if axis.labels is None and more.labels is not None:
            axes[number] = replace(axis, labels=more.labels)
            sources |= _sources(other, ("labels",))
        elif axis.kind != "channel" and _lacks_unit_of(axis, more):
            axes[number] = replace(axis, unit=more.unit)
            sources |= _sources(other, ("units",))
    return replace(geometry, axes=tuple(axes), sources=sources)


def _lacks_unit_of(axis: Axis, more: Axis) -> bool:
    """Return whether an axis has no unit, but the scale of one that has."""
    return axis.unit is None and more.unit is not None and _same(axis.step, more.step)


def _is_placed_as(one: Geometry, other: Geometry) -> bool:
    """Return whether the coordinates of two geometries are the same numbers."""
    return one.affine == other.affine and all(
        _same(a.step, b.step)
        and same_unit(a.unit, b.unit)
        and abs(a.offset - b.offset) <= SAME * max(abs(a.step), abs(a.offset))
        for a, b in zip(one.axes, other.axes, strict=True)
        if a.kind == "space"
    )


def disagreement(first: Said, other: Said) -> str | None:
    """Return the first disagreement of two dialects about the positions of samples, or None."""
    one, two = first[1], other[1]
    if one.affine is not None or two.affine is not None:
        return None
    if two.sources.get("scale") == "units":
        return None  # units alone mean a scale of 1 that is not written
    shifted = "offset" in one.sources and "offset" in two.sources
    for number, (a, b) in enumerate(zip(one.axes, two.axes, strict=True)):
        for field, theirs, ours in axis_differences(a, b, shifted=shifted):
            name = a.name or b.name or number
            return _sentence(first, other, f"the {field} of axis {name!r}", ours, theirs)
    return None


def axis_differences(a: Axis, b: Axis, *, shifted: bool) -> Iterator[tuple[str, object, object]]:
    """Iterate over the differences of two axes, of the second and of the first: field, b's, a's.

    A fact that one of them lacks is not a difference; offsets are compared if both are `shifted`.
    """
    if a.scale is None or b.scale is None or a.labels is not None or b.labels is not None:
        return
    sized = ratio(b.unit, a.unit)
    times = 1.0 if sized is None else sized
    stated = a.unit is not None and b.unit is not None
    if stated and sized is None and not same_unit(a.unit, b.unit):
        yield "unit", b.unit, a.unit
    elif not _same(a.scale, b.scale * times):
        yield "scale", _text(b.scale, b.unit), _text(a.scale, a.unit)
    elif shifted and abs(a.offset - b.offset * times) > SAME * max(abs(a.scale), abs(a.offset)):
        yield "offset", _text(b.offset, b.unit), _text(a.offset, a.unit)


def names_disagreement(first: Said, other: Said) -> str | None:
    """Return the disagreement of two dialects about the names of axes, or None."""
    ours, theirs = ([axis.name for axis in reading[1].axes] for reading in (first, other))
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a and b]
    if all(a == b for a, b in both):
        return None
    return _sentence(first, other, "the names of the axes in C order", ours, theirs)


def _sentence(first: Said, other: Said, what: str, ours: object, theirs: object) -> str:
    return (
        f"{first[0]} and {other[0]} metadata disagree on {what}: {ours} and {theirs}; using "
        f"{first[0]} (dialect={other[0]!r} uses the other)"
    )


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME)


def _text(number: float, unit: str | None) -> str:
    return f"{number:g} {unit}" if unit else f"{number:g}"
