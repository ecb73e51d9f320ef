"""The protocol of dialects, the array that they read, and what several say together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import SAME, Axis, Geometry
from xarray_n5.model.metadata import user_attributes
from xarray_n5.model.paths import fused_in, number_in, view_in
from xarray_n5.model.units import ratio, same_unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from xarray_n5.model.metadata import Attributes


AttributeOrder: TypeAlias = Literal["auto", "C", "N5"]
"""The order of lists of axes: that of the dialect's writer, NumPy's, or x first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayContext:
    """An array with all metadata that describe its axes."""

    attributes: Attributes = field(default_factory=dict)
    """The array's own attributes; empty for a new array."""
    shape: tuple[int, ...]
    """The array's shape, in C order."""
    path: str = ""
    """The array's path in its container."""
    parents: tuple[Attributes, ...] = ()
    """The attributes of the groups around it, the nearest first."""
    base: ArrayContext | None = None
    """The base level, ``s0``, next to a coarser one."""
    coordinate_sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the one-dimensional arrays in its group, by name."""
    xml: bytes | None = None
    """The XML file next to a container of BigDataViewer."""
    lists_x_first: bool = True
    """Whether the container's lists of axes are in N5 order, which some dialects depend on."""
    attribute_order: AttributeOrder = "auto"
    """The order of lists of axes in attributes, if the user states it."""
    dtype: np.dtype[Any] | None = None
    """The type of the array's elements, or None if it is unknown."""
    ngff: str = "0.4"
    """The version of OME-NGFF that is written next to the array."""
    depth: int = 0
    """The number of groups between a new array and the group of its pyramid."""

    def warn(self, text: str) -> None:
        """Warn about metadata of the array."""
        warn(f"{self.path or '/'}: {text}")

    @property
    def level(self) -> int | None:
        """The number of the level that the array is called like, or None."""
        return number_in(self.path.rpartition("/")[2])

    @property
    def listed_path(self) -> str:
        """The path of a new array in the group of its pyramid."""
        return "/".join(self.path.split("/")[-1 - self.depth :])

    @property
    def view(self) -> tuple[int, int] | None:
        """The setup and timepoint of BigDataViewer that the array is called like, or None."""
        return view_in(self.path)

    @property
    def fused(self) -> bool:
        """Whether the array is called like a level of a fusion of BigStitcher-Spark."""
        return (
            self.level is not None and fused_in("/".join(self.path.split("/")[-2:-1])) is not None
        )

    def other(self, path: str, attributes: Attributes, shape: tuple[int, ...]) -> ArrayContext:
        """Return the context of another array in the same group."""
        return replace(self, path=path, attributes=attributes, shape=shape, base=None)

    def without_users_own(self) -> ArrayContext:
        """Return the context without the user's own attributes, which are not metadata of axes.

        The array's ``units`` are left out, too, if they are those of the values.
        """
        attributes, *parents = map(_without_own, (self.attributes, *self.parents))
        if units_of_values(attributes):
            del attributes["units"]
        return replace(self, attributes=attributes, parents=tuple(parents))


def _without_own(attributes: Attributes) -> dict[str, Any]:
    users = user_attributes(attributes)
    return {key: value for key, value in attributes.items() if key not in users}


def units_of_values(attributes: Attributes) -> bool:
    """Return whether ``units`` is a string about the values, as in CF, and not about axes.

    Next to a ``resolution``, a string may be the unit of all axes.
    """
    text = attributes.get("units")
    return isinstance(text, str) and ("resolution" not in attributes or unit_of(text) is None)


def is_of_funlib(attributes: Attributes) -> bool:
    """Return whether an array has lists of funlib.persistence, which are always in C order."""
    return bool({"voxel_size", "axis_names"} & attributes.keys())


@runtime_checkable
class Dialect(Protocol):
    """A convention for axes.

    It may have more members, which are tuples of names of attributes:

    - ``group_keys``: attributes of a group that describe the axes of an image, `keys` by default;
      another image in the group replaces them. Only arrays with one of `keys`, or with one of these
      around them, are read; all arrays if there are neither.
    - ``hidden_by``: attributes of the array or its group that are those of another dialect, unless
      the user chooses this one.
    - ``level_lists``: attributes of a group that show that it has levels.

    If ``views_only`` is true, only arrays with paths of BigDataViewer's views are read.

    If its lists may be in either order, ``list_order`` is that of its writers: "C", "N5", or
    "format" for N5 order in N5 and C order elsewhere.
    """

    name: ClassVar[str]

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes with its metadata, which become coordinates."""

    def read(self, node: ArrayContext) -> Geometry | None:
        """Return the geometry of an array, or None if its attributes are of another dialect.

        Raises ``ValueError`` that names the attribute if they are of this one, but invalid.
        """

    def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
        """Return the attributes that describe `geometry`; raise ValueError if they cannot.

        `node` is the new array, without attributes.
        """


DialectChoice: TypeAlias = "str | Dialect | Sequence[str | Dialect]"
"""Dialects to read, by name or themselves, the most trusted first."""


@runtime_checkable
class PyramidDialect(Protocol):
    """A dialect that also describes pyramids on their group."""

    def write_group(self, levels: Sequence[tuple[ArrayContext, Geometry]]) -> dict[str, Any]:
        """Return the attributes of the group around `levels`, the base level first."""


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
        for what, theirs, ours in axis_differences(a, b, shifted=shifted):
            name = a.name or b.name or number
            return _sentence(first, other, f"the {what} of axis {name!r}", ours, theirs)
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
