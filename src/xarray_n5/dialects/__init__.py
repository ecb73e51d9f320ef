"""Dialects: conventions by which attributes describe axes.

A dialect reads the geometry of an array, or returns None if its attributes belong to another
dialect. The table is in order of precedence: scale, offset and unit come together from the first
dialect that has them, names from the first that has any.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects.array_dimensions import ArrayDimensions
from xarray_n5.dialects.bdv.dialect import Bdv
from xarray_n5.dialects.bigstitcher import BigStitcher
from xarray_n5.dialects.canonical import Canonical
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.dialects.write import default_attributes, default_pyramid
from xarray_n5.dialects.dimension_labels import DimensionLabels
from xarray_n5.dialects.funlib import Funlib
from xarray_n5.dialects.imagej import ImageJ
from xarray_n5.dialects.list_order import context_for
from xarray_n5.dialects.n5_viewer import N5Viewer
from xarray_n5.dialects.neuroglancer import Neuroglancer, in_si_units
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.paintera import Paintera
from xarray_n5.dialects.precedence import combine
from xarray_n5.dialects.protocol import ArrayContext, Dialect, DialectChoice, PyramidDialect
from xarray_n5.dialects.pyramids import complete_factors
from xarray_n5.dialects.tensorstore import TensorStore
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.keywords import suggest_keywords
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.model.axes import Geometry

__all__ = [
    "DIALECTS",
    "ArrayContext",
    "Dialect",
    "DialectChoice",
    "Funlib",
    "PyramidDialect",
    "check_pyramid",
    "diff",
    "geometry_of",
    "register_dialect",
    "resolve_geometry",
    "write_geometry",
    "write_pyramid",
]


_ROUNDING = 1e-9
"""The relative rounding error of a level's step from base level and factors."""

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


@suggest_keywords
def register_dialect(dialect: Dialect) -> None:
    """Register a metadata dialect, as the last one, or instead of a registered one of its type.

    Parameters
    ----------
    dialect : Dialect
        An object with a ``name``, the ``keys`` of its attributes, and the methods ``read`` and
        ``write``.

    Raises
    ------
    ValueError
        If a dialect of another type has its name.

    Examples
    --------
    Axes whose names funlib.persistence stores under another key:

    >>> from xarray_n5.dialects import Funlib
    >>> xarray_n5.register_dialect(Funlib(axis_names_attr="dims"))
    """
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
    for text in complaints:
        warn(f"{node.path or '/'}: {text}")
    return geometry


def resolve_geometry(
    node: ArrayContext, dialect: DialectChoice | None = None
) -> tuple[Geometry, list[str]]:
    """Return the geometry of an array, and messages about invalid attributes."""
    said: list[tuple[str, Geometry]] = []
    odd: list[str] = []
    node = node.without_users_own().without_units_of_values()
    keys: list[str] = []
    read = list(map(_known, DIALECTS if dialect is None else _listed(dialect)))
    for each in read:
        try:
            found = each.read(context_for(each, node))
        except ODD as error:
            named = any(repr(key) in str(error) for key in each.keys) or not each.keys
            which = "" if named else f" ({', '.join(each.keys)})"
            odd.append(f"{each.name} metadata{which} are ignored: {error}")
            continue
        if found is not None and found.ndim == len(node.shape):
            said.append((each.name, found))
            keys += each.keys
    if dialect is not None and not said:
        odd.append(f"no {' or '.join(each.name for each in read)} metadata describe its axes")
    geometry, against = combine(said, len(node.shape))
    return replace(geometry, keys=frozenset(keys)), odd + against


def write_geometry(
    geometry: Geometry,
    shape: tuple[int, ...],
    dialect: str | Iterable[str] | None = None,
    *,
    lists_x_first: bool = True,
) -> dict[str, Any]:
    """Return the attributes that describe an array's geometry.

    By default those of TensorStore, Neuroglancer and Fiji. COSEM's ``transform`` is added for
    offsets, for axes of time or channels, and for units that Neuroglancer knows only by their
    symbols; n5-universe's canonical metadata for an affine matrix.

    Parameters
    ----------
    geometry
        The axes, in C order.
    shape
        The array's shape, in C order.
    dialect
        The dialects to write instead.
    lists_x_first
        Whether the container's lists of axes are in the reverse of NumPy's order, as in N5.

    Raises
    ------
    ValueError
        If a dialect is unknown, or the dialects cannot describe the geometry.
    """
    node = ArrayContext(shape=shape, lists_x_first=lists_x_first)
    if dialect is not None:
        _, (attributes,) = write_pyramid([(node, geometry)], dialect, group=False)
        return attributes
    return default_attributes(geometry, node)


def write_pyramid(
    levels: Sequence[tuple[ArrayContext, Geometry]],
    dialect: str | Iterable[str] | None = None,
    *,
    group: bool = True,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the attributes of a pyramid's group, and those of each level.

    By default those of Neuroglancer, n5-viewer and COSEM, as far as they can describe it; in Zarr
    those of xarray and OME-NGFF.

    Parameters
    ----------
    levels
        The new levels with their paths and geometries; the base level first.
    dialect
        The dialects to write.
    group
        Whether there is a group whose attributes may describe the levels.

    Raises
    ------
    ValueError
        If a dialect is unknown, or the dialects together cannot describe the levels.
    """
    wanted = None if dialect is None else _names(dialect)
    around, own = default_pyramid(levels) if wanted is None else _written(levels, wanted, group)
    nodes = [
        replace(node, attributes=attributes, parents=(around,) if group else ())
        for attributes, (node, _) in zip(own, levels, strict=True)
    ]
    geometries = [geometry for _, geometry in levels]
    check_pyramid(nodes, geometries, " and ".join(wanted or ("the default",)), group=group)
    return around, own


def check_pyramid(
    nodes: Sequence[ArrayContext], geometries: Sequence[Geometry], what: str, *, group: bool = True
) -> None:
    """Raise ValueError if the geometries of levels would be read differently from attributes.

    The message names the difference, and the metadata as `what`.
    """
    for node, geometry in zip(nodes, geometries, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            base = nodes[0] if group and node is not nodes[0] else None
            again = geometry_of(replace(node, base=base))
        if difference := diff(geometry, again):
            raise ValueError(f"{what} metadata cannot describe {difference}")


def _written(
    levels: Sequence[tuple[ArrayContext, Geometry]],
    wanted: Sequence[str],
    group: bool,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the attributes of several dialects on a pyramid's group, and on each level."""
    around: dict[str, Any] = {}
    own: list[dict[str, Any]] = [{} for _ in levels]
    for name in wanted:
        known = _known(name)
        if group and isinstance(known, PyramidDialect):
            _merge(around, known.write_group(levels), name)
        for attributes, (node, geometry) in zip(own, levels, strict=True):
            written = known.write(geometry, node)
            if not written and not group:
                raise ValueError(
                    f"{name} metadata cannot be written on a single array; write a pyramid with "
                    "xarray_n5.pyramid(array, ...), or choose another dialect"
                )
            _merge(attributes, written, name)
    if group:
        complete_factors(own, len(levels[0][0].shape))
    return around, own


def _merge(attributes: dict[str, Any], more: dict[str, Any], name: str) -> None:
    if _clash(attributes, more):
        # Units may be as the user wrote them, or as Neuroglancer reads them.
        spelt, more = in_si_units(attributes), in_si_units(more)
        if clash := _clash(spelt, more):
            raise ValueError(
                f"{name} metadata require another value of {clash!r}; omit one dialect"
            )
        attributes |= spelt
    attributes |= more


def _clash(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    return next((key for key in other if one.get(key, other[key]) != other[key]), None)


def diff(geometry: Geometry, again: Geometry) -> str | None:
    """Return the first fact of a geometry that another one contradicts or lacks, or None."""
    if geometry.affine is not None and geometry.affine != again.affine:
        return f"the affine transform {geometry.affine}"
    for one, other in zip(geometry.with_names().axes, again.with_names().axes, strict=True):
        near = _ROUNDING * abs(one.step) if one.factor != 1 else 0.0
        placed = one.scale is not None or one.offset != 0
        for what, before, after, same in (
            ("name", one.name, other.name, one.name == other.name),
            ("labels", one.labels, other.labels, one.labels in {None, other.labels}),
            ("unit", one.unit, other.unit, one.unit is None or same_unit(one.unit, other.unit)),
            ("scale", one.step, other.step, not placed or abs(one.step - other.step) <= near),
            (
                "offset",
                one.offset,
                other.offset,
                not placed or abs(one.offset - other.offset) <= near,
            ),
        ):
            if not same:
                backwards = " (an axis in reverse direction)" if one.step < 0 else ""
                name = f"{one.name!r}{backwards}"
                return f"the {what} of axis {name}, {before!r}: it would be read as {after!r}"
    return None


def _listed(dialect: str | Dialect | Iterable[str | Dialect]) -> list[str | Dialect]:
    listed = [dialect] if isinstance(dialect, str | Dialect) else list(dialect)
    if not listed:
        raise ValueError(f"dialect is empty; expected some of {', '.join(DIALECTS)}")
    return listed


def _names(dialect: str | Iterable[str]) -> list[str]:
    """Return the names of dialects to write, which must be readable without options."""
    listed = _listed(dialect)
    if others := [each for each in listed if not isinstance(each, str)]:
        raise TypeError(
            f"expected the names of dialects to write, got {others[0]!r}; use register_dialect() "
            f"to make it the dialect {others[0].name!r}, which is read without options"
        )
    return [each for each in listed if isinstance(each, str)]


def _known(name: str | Dialect) -> Dialect:
    if isinstance(name, Dialect) and not isinstance(name, type):
        return name
    try:
        return DIALECTS[str(name)]
    except KeyError:
        raise ValueError(
            f"unknown dialect {name!r}; expected one of {', '.join(DIALECTS)}"
        ) from None
