"""Dialects: conventions by which attributes describe axes.

A dialect reads the geometry of an array, or returns None if its attributes belong to another
dialect. The table is in order of precedence: scale, offset and unit come together from the first
dialect that has them, names from the first that has any.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.dialects.bdv import Bdv, BigStitcher
from xarray_n5.dialects.canonical import Canonical
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.dialects.dimension_names import ArrayDimensions, DimensionLabels
from xarray_n5.dialects.funlib import Funlib
from xarray_n5.dialects.imagej import ImageJ
from xarray_n5.dialects.list_order import context_for
from xarray_n5.dialects.n5_viewer import N5Viewer
from xarray_n5.dialects.neuroglancer import Neuroglancer, TensorStore
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.ngff_systems import VERSION, WRITTEN
from xarray_n5.dialects.paintera import Paintera
from xarray_n5.dialects.protocol import ArrayContext, Dialect, DialectChoice, PyramidDialect
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.tolerances import SAME
from xarray_n5.model.units import ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "DIALECTS",
    "ArrayContext",
    "Dialect",
    "DialectChoice",
    "Funlib",
    "PyramidDialect",
    "find_dialects",
    "geometry_of",
    "register_dialect",
    "resolve_geometry",
]


DIALECTS: dict[str, Dialect] = {
    Cosem.name: Cosem(),
    Ngff.name: Ngff(),
    Bdv.name: Bdv(),
    BigStitcher.name: BigStitcher(),
    N5Viewer.name: N5Viewer(),
    Canonical.name: Canonical(),
    Funlib.name: Funlib(),
    TensorStore.name: TensorStore(),
    Neuroglancer.name: Neuroglancer(),
    Paintera.name: Paintera(),
    ImageJ.name: ImageJ(),
    ArrayDimensions.name: ArrayDimensions(),
    DimensionLabels.name: DimensionLabels(),
}


_VERSIONS: dict[str, Dialect] = {WRITTEN: Ngff(VERSION)}
"""Dialects by the names that choose the version that they write."""


def all_keys() -> frozenset[str]:
    """Return the attributes that any dialect may read."""
    return array_keys() | group_keys() | level_lists()


def array_keys() -> frozenset[str]:
    """Return the attributes by which any dialect describes an array."""
    return frozenset().union(*(dialect.keys for dialect in DIALECTS.values()))


def group_keys() -> frozenset[str]:
    """Return the attributes by which any dialect describes an image on its group."""
    return frozenset().union(
        *(getattr(dialect, "group_keys", _group_signs(dialect)) for dialect in DIALECTS.values())
    )


def level_lists() -> frozenset[str]:
    """Return the attributes of a group by which any dialect shows that it has levels."""
    return frozenset().union(
        *(getattr(dialect, "level_lists", ()) for dialect in DIALECTS.values())
    )


def _group_signs(dialect: Dialect) -> tuple[str, ...]:
    return getattr(dialect, "group_signs", dialect.keys)


def register_dialect(dialect: Dialect) -> None:
    """Register a metadata dialect, as the last one, or instead of a registered one of its type.

    Parameters
    ----------
    dialect : Dialect
        An object with a ``name``, the ``keys`` of its attributes, and the methods ``read`` and
        ``write``.

    Raises
    ------
    TypeError
        If it is not such an object.
    ValueError
        If a dialect of another type has its name.

    Examples
    --------
    Axes whose names funlib.persistence stores under another key:

    >>> from xarray_n5.dialects import Funlib
    >>> xarray_n5.register_dialect(Funlib(axis_names_attr="dims"))
    """
    if isinstance(dialect, type) or not isinstance(dialect, Dialect):
        raise TypeError(f"expected an object with name, keys, read and write, got {dialect!r}")
    known = DIALECTS.get(dialect.name)
    if known is not None and type(known) is not type(dialect):
        raise ValueError(
            f"a dialect named {dialect.name!r} is already registered; choose another name"
        )
    DIALECTS[dialect.name] = dialect


def geometry_of(node: ArrayContext, dialect: DialectChoice | None = None) -> Geometry:
    """Return the geometry that an array's attributes describe; invalid ones only warn.

    Parameters
    ----------
    node
        The array.
    dialect
        The dialects to read, by name or themselves, the most trusted first; by default all in
        the order of the table.

    Raises
    ------
    ValueError
        If a dialect is unknown.
    """
    geometry, complaints = resolve_geometry(node, dialect)
    if dialect is None and "offset" not in geometry.sources:
        complaints += _ignored_offset(node, geometry.dialects)
    for text in complaints:
        warn(f"{node.path or '/'}: {text}")
    return geometry


def resolve_geometry(
    node: ArrayContext, dialect: DialectChoice | None = None
) -> tuple[Geometry, list[str]]:
    """Return the geometry of an array, and messages about invalid attributes."""
    readings: list[tuple[str, Geometry]] = []
    invalid: list[str] = []
    node = node.without_users_own().without_units_of_values()
    keys: list[str] = []
    dialects = list(DIALECTS.values()) if dialect is None else find_dialects(dialect)
    signs = node.signs
    for known in dialects:
        if not is_shown(known, node, signs, chosen=dialect is not None):
            continue
        try:
            geometry = read(known, node)
        except ODD as error:
            named = any(repr(key) in str(error) for key in known.keys) or not known.keys
            which = "" if named else f" ({', '.join(known.keys)})"
            invalid.append(f"{known.name} metadata{which} are ignored: {error}")
            continue
        if geometry is None:
            continue
        if (count := getattr(geometry, "ndim", geometry)) != len(node.shape):
            invalid.append(
                f"{known.name} metadata are ignored: they describe {count!r} axes, the array has "
                f"{len(node.shape)}"
            )
            continue
        readings.append((known.name, geometry))
        keys += known.keys
    if dialect is not None and not readings:
        invalid.append(f"no {' or '.join(k.name for k in dialects)} metadata describe its axes")
    completed = frozenset().union(
        *(getattr(known, "completes", ()) for known in dialects if known.name in dict(readings))
    )
    geometry, disagreements = combine(
        [each for each in readings if each[0] not in completed], len(node.shape)
    )
    names = tuple(name for name, _ in readings)
    return replace(geometry, keys=frozenset(keys), dialects=names), invalid + disagreements


def is_shown(
    dialect: Dialect,
    node: ArrayContext,
    signs: tuple[set[str], set[str]],
    *,
    chosen: bool = False,
) -> bool:
    """Return whether an array has attributes that may be those of a dialect."""
    own, around = signs
    if not chosen and (hidden_by := getattr(dialect, "hidden_by", ())):
        near = own.union(*node.parents[:1])
        if not near.isdisjoint(hidden_by):
            return False
    of_array, of_group = getattr(dialect, "signs", dialect.keys), _group_signs(dialect)
    unsigned = not (of_array or of_group)
    return unsigned or not own.isdisjoint(of_array) or not around.isdisjoint(of_group)


def read(dialect: Dialect, node: ArrayContext) -> Geometry | None:
    """Return what a dialect reads, from lists in the order that the user states."""
    return dialect.read(node if node.attribute_order == "auto" else context_for(dialect, node))


def find_dialects(choice: DialectChoice) -> list[Dialect]:
    """Return dialects by their names; dialects themselves are returned as they are."""
    listed = [choice] if isinstance(choice, str | Dialect) else list(choice)
    if not listed:
        raise ValueError(f"dialect is empty; expected some of {', '.join(DIALECTS)}")
    return [_known(item) for item in listed]


def _known(item: str | Dialect) -> Dialect:
    if isinstance(item, Dialect) and not isinstance(item, type):
        return item
    try:
        return _VERSIONS.get(str(item)) or DIALECTS[str(item)]
    except KeyError:
        raise ValueError(
            f"unknown dialect {item!r}; expected one of {', '.join({**DIALECTS, **_VERSIONS})}"
        ) from None


def _ignored_offset(node: ArrayContext, names: tuple[str, ...]) -> list[str]:
    """Return a message if ``axes`` or ``units`` are why an offset is not one of Paintera's."""
    around = (node.attributes, *node.parents[:1])
    if Paintera.name in names or not all(any(k in a for a in around) for k in Paintera.signs):
        return []
    paintera, found = Paintera(), None
    with suppress(*ODD):
        found = read(paintera, node)
    if found is None or not any(axis.base[1] for axis in found.axes):
        return []
    both = [paintera.name, *names]
    ignored = f"{found.sources['offset']!r} is ignored next to 'axes' or 'units'"
    return [f"{' and '.join(both)} metadata disagree: {ignored} (dialect={both!r} uses it)"]


Said = tuple[str, Geometry]


def combine(said: Sequence[Said], ndim: int) -> tuple[Geometry, list[str]]:
    """Return the combined geometry, and a message for each dialect that disagrees.

    Scale, offset and unit come together from the first dialect that has them; one that counts in
    voxels of unknown size comes last. Names come from the first that has any. Missing units and
    labels come from another dialect whose scales agree.
    """
    named = [each for each in said if each[1].named]
    placed = [each for each in said if each[1].placed and not each[1].relative]
    relative = [each for each in said if each[1].placed and each[1].relative]
    first = next(iter([*placed, *relative, *named]), None)
    if first is None:
        return Geometry((Axis(),) * ndim), []
    result = replace(first[1], sources=_sources(first, ("units", "scale", "offset", "labels")))
    against = [_against(first, other) for other in placed[1:]]
    for other in placed[1:]:
        result = _completed(result, other)
    if named:
        result = _renamed(result, named[0])
        against += [_against_names(named[0], other) for other in named[1:]]
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


def _against(first: Said, other: Said) -> str | None:
    """Return the first disagreement of two dialects about the positions of samples, or None."""
    one, two = first[1], other[1]
    if one.affine is not None or two.affine is not None:
        return None
    if two.sources.get("scale") == "units":
        return None  # units alone mean a scale of 1 that is not written
    shifted = "offset" in one.sources and "offset" in two.sources
    for number, (a, b) in enumerate(zip(one.axes, two.axes, strict=True)):
        for field, theirs, ours in _facts(a, b, shifted=shifted):
            name = a.name or b.name or number
            return _sentence(first, other, f"the {field} of axis {name!r}", ours, theirs)
    return None


def _facts(a: Axis, b: Axis, *, shifted: bool) -> Iterator[tuple[str, object, object]]:
    """Iterate over the differences of two axes: field, theirs, ours."""
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


def _against_names(first: Said, other: Said) -> str | None:
    ours, theirs = ([axis.name for axis in each[1].axes] for each in (first, other))
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
