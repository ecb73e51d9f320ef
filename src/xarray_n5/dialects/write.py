"""Turn geometry into attributes: choose dialects, write, read back, and fix or refuse.

All that stores axes does it here: arrays, levels of pyramids, copies, and the doctor's fixes. What
is written is read back as others will read it, with the attributes that are stored around it, and
compared by meaning. What cannot be described is refused with :class:`MetadataError`.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from xarray_n5.dialects import find_dialects, resolve_geometry
from xarray_n5.dialects.axis_lists import (
    ArrayDimensions,
    DimensionLabels,
    Neuroglancer,
    TensorStore,
    in_si_units,
)
from xarray_n5.dialects.lists import complete_factors
from xarray_n5.dialects.ngff import Ngff, can_show
from xarray_n5.dialects.protocol import ArrayContext, Dialect, PyramidDialect
from xarray_n5.dialects.resolutions import N5Viewer
from xarray_n5.dialects.transforms import Canonical, Cosem
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import ROUNDING, Geometry, axis_kind
from xarray_n5.model.units import meant_unit, same_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.model.metadata import Attributes


_TRANSFORM = Cosem(transform_only=True)


def write_geometry(
    geometry: Geometry,
    shape: tuple[int, ...],
    dialect: str | Iterable[str] | None = None,
    *,
    lists_x_first: bool = True,
    where: str = "",
) -> dict[str, Any]:
    """Return the attributes that describe the geometry of a single array.

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
    where
        The location of the array, for errors.

    Raises
    ------
    MetadataError
        If a dialect is unknown, or the dialects cannot describe the geometry.
    """
    node = ArrayContext(shape=shape, lists_x_first=lists_x_first)
    with _refusing(where):
        if dialect is None:
            _, of_levels = _written([(node, geometry)], _of_array(geometry, node), group=False)
        else:
            _, of_levels = _checked([(node, geometry)], dialect, group=False)
    return of_levels[0]


def write_pyramid(
    levels: Sequence[tuple[ArrayContext, Geometry]],
    dialect: str | Iterable[str] | None = None,
    *,
    where: str = "",
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the attributes of a pyramid's group, and those of each level.

    By default those of Neuroglancer, n5-viewer and COSEM, as far as they can describe it; in Zarr
    those of xarray and OME-NGFF, with a warning if OME-NGFF has no such images.

    Parameters
    ----------
    levels
        The new levels with their paths and geometries; the base level first.
    dialect
        The dialects to write.
    where
        The location of the group, for errors.

    Raises
    ------
    MetadataError
        If a dialect is unknown, or the dialects together cannot describe the levels.
    """
    lack = _lack(levels) if dialect is None else ""
    with _refusing(where, lack):
        around, of_levels = _checked(levels, dialect, group=True)
    if lack:
        warn(f"{where}: viewers find no image here, as {lack}")
    return around, of_levels


def override(
    geometry: Geometry, node: ArrayContext, written: Attributes
) -> tuple[dict[str, Any], str | None]:
    """Return attributes by which an array is read as intended, and what is still misread.

    If stored attributes contradict those that are `written`, others are added that take precedence:
    names alone, an affine matrix, or COSEM's ``transform``.

    Parameters
    ----------
    geometry
        The axes, in C order.
    node
        The array, with the attributes that stay and the groups around it.
    written
        The attributes that are to be written.
    """
    attributes: dict[str, Any] = {}
    wrong: str | None = None
    for more in chain([{}], _overrides(geometry, node)):
        attributes = {**written, **more}
        wrong = misread(geometry, replace(node, attributes={**node.attributes, **attributes}))
        if wrong is None:
            break
    return attributes, wrong


def check_pyramid(
    nodes: Sequence[ArrayContext],
    geometries: Sequence[Geometry],
    what: str = "the group's and the levels'",
    *,
    group: bool = True,
    where: str = "",
) -> None:
    """Raise MetadataError if levels with all their attributes are read differently.

    The message names the difference, and the metadata as `what`.
    """
    for number, (node, geometry) in enumerate(zip(nodes, geometries, strict=True)):
        base = nodes[0] if group and number else None
        if wrong := misread(geometry, replace(node, base=base)):
            raise MetadataError(f"{_prefix(where)}{what} metadata cannot describe {wrong}")


def misread(geometry: Geometry, node: ArrayContext) -> str | None:
    """Return the first fact of a geometry that is read differently from a node, or None."""
    return diff(geometry, read_back(node)[0])


def read_back(node: ArrayContext) -> tuple[Geometry, list[str]]:
    """Return the geometry that attributes describe, and messages about invalid ones; never warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return resolve_geometry(node)


def warn_misspelt_units(where: str, geometries: Iterable[Geometry]) -> None:
    """Warn about units that no program knows and that are similar to known ones."""
    for unit in dict.fromkeys(axis.unit for geometry in geometries for axis in geometry.axes):
        if (meant := meant_unit(unit)) is not None:
            warn(f"{where}: unknown unit {unit!r}; did you mean {meant!r}?")


def diff(geometry: Geometry, again: Geometry) -> str | None:
    """Return the first fact of a geometry that another one contradicts or lacks, or None."""
    if geometry.affine is not None and geometry.affine != again.affine:
        return f"the affine transform {geometry.affine}"
    for one, other in zip(geometry.with_names().axes, again.with_names().axes, strict=True):
        near = ROUNDING * abs(one.step) if one.factor != 1 else 0.0
        placed = one.scale is not None or one.offset != 0
        same = {
            "name": one.name == other.name,
            "labels": one.labels in {None, other.labels},
            "unit": one.unit is None or same_unit(one.unit, other.unit),
            "step": not placed or abs(one.step - other.step) <= near,
            "offset": not placed or abs(one.offset - other.offset) <= near,
        }
        field = next((name for name, is_same in same.items() if not is_same), None)
        if field is not None:
            before, after = getattr(one, field), getattr(other, field)
            what = "scale" if field == "step" else field
            backwards = " (an axis in reverse direction)" if one.step < 0 else ""
            axis = f"{one.name!r}{backwards}"
            return f"the {what} of axis {axis}, {before!r}: it would be read as {after!r}"
    return None


def _lack(levels: Sequence[tuple[ArrayContext, Geometry]]) -> str:
    """Return why OME-NGFF cannot describe levels in Zarr with several axes of space, or ""."""
    node, base = levels[0]
    kinds = [axis_kind(axis) for axis in base.axes]
    if node.lists_x_first or kinds.count("space") < 2 or can_show(kinds):  # noqa: PLR2004
        return ""
    axes = ", ".join(str(axis.name) for axis in base.with_names().axes)
    return (
        f"OME-Zarr has no images with the axes {axes}; expected at most one of time, one of "
        "channels, then two or three of space: select along others, or transpose"
    )


@contextmanager
def _refusing(where: str, lack: str = "") -> Iterator[None]:
    """Raise MetadataError, with the location, for what dialects cannot describe."""
    try:
        yield
    except ValueError as error:
        why = f": {lack}" if lack else ""
        raise MetadataError(f"{_prefix(where)}{error}{why}") from error


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""


def _overrides(geometry: Geometry, node: ArrayContext) -> Iterator[dict[str, Any]]:
    """Iterate over attributes that take precedence over others, the least first."""
    if geometry.named and not geometry.placed:
        yield DimensionLabels().write(geometry, node)
    yield (_TRANSFORM if geometry.affine is None else Canonical()).write(geometry, node)


def _checked(
    levels: Sequence[tuple[ArrayContext, Geometry]],
    dialect: str | Iterable[str] | None,
    *,
    group: bool,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the attributes of a group and of its levels, or of an array, after reading them."""
    if dialect is None:
        what = "the default"
        around, of_levels = _written(levels, _of_pyramid(levels), group=True)
        around, *of_levels = map(in_si_units, (around, *of_levels))
    else:
        names = _names(dialect)
        what, dialects = " and ".join(names), find_dialects(names)
        for name, known in zip(names, dialects, strict=True):
            if not group and not known.write(levels[0][1], levels[0][0]):
                raise ValueError(
                    f"{name} metadata cannot be written on a single array; write an image of one "
                    "level with xarray_n5.pyramid(array, url, levels=0), or choose another dialect"
                )
        around, of_levels = _written(levels, dialects, group=group)
    nodes = [
        replace(node, attributes=attributes, parents=(*({},) * node.depth, around) if group else ())
        for attributes, (node, _) in zip(of_levels, levels, strict=True)
    ]
    check_pyramid(nodes, [geometry for _, geometry in levels], what, group=group)
    return around, of_levels


def _written(
    levels: Sequence[tuple[ArrayContext, Geometry]],
    dialects: Sequence[Dialect],
    *,
    group: bool,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the attributes of several dialects on a pyramid's group, and on each level."""
    around: dict[str, Any] = {}
    of_levels: list[dict[str, Any]] = [{} for _ in levels]
    for dialect in dialects:
        if group and isinstance(dialect, PyramidDialect):
            _merge(around, dialect.write_group(levels), dialect.name)
        for attributes, (node, geometry) in zip(of_levels, levels, strict=True):
            _merge(attributes, dialect.write(geometry, node), dialect.name)
    if group:
        complete_factors(of_levels, len(levels[0][0].shape))
    return around, of_levels


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


def _names(dialect: str | Iterable[str]) -> list[str]:
    """Return the names of dialects to write, which must be readable without options."""
    listed = [dialect] if isinstance(dialect, str | Dialect) else list(dialect)
    for item in listed:
        if isinstance(item, Dialect):
            raise TypeError(
                f"expected the names of dialects to write, got {item!r}; use register_dialect() "
                f"to make it the dialect {item.name!r}, which is read without options"
            )
    return listed


def _of_array(geometry: Geometry, node: ArrayContext) -> list[Dialect]:
    """Return the default dialects of a single array.

    If lists of axes are not in N5 order, these are names for xarray and COSEM's ``transform``,
    which states its order.
    """
    axes = geometry.axes
    if not node.lists_x_first:
        placed = geometry.placed or any(axis.unit for axis in axes)
        return [ArrayDimensions(), *([_TRANSFORM] if placed else [])]
    steps = [axis.scale for axis in axes if axis.scale is not None]
    apart = steps and any(axis.kind in {"time", "channel"} for axis in axes)
    backwards = any(step < 0 for step in steps)
    listed = TensorStore().write(geometry, node)
    hidden = any(axis.offset for axis in axes) or in_si_units(listed) != listed
    of_matrix: list[Dialect] = [] if geometry.affine is None else [Canonical()]
    return [Neuroglancer(), *([_TRANSFORM] if hidden or apart or backwards else []), *of_matrix]


def _of_pyramid(levels: Sequence[tuple[ArrayContext, Geometry]]) -> list[Dialect]:
    """Return the default dialects of a pyramid.

    In N5, those of Neuroglancer and n5-viewer, if these can describe it, and COSEM's. In Zarr,
    names for xarray, OME-NGFF, and COSEM's ``transform``, which keeps units verbatim.
    """
    if levels[0][0].lists_x_first:
        return [Neuroglancer(), _TRANSFORM, *([N5Viewer()] if _is_n5_viewers(levels) else [])]
    shown = can_show([axis_kind(axis) for axis in levels[0][1].axes])
    return [ArrayDimensions(), _TRANSFORM, *([Ngff()] if shown else [])]


def _is_n5_viewers(levels: Sequence[tuple[ArrayContext, Geometry]]) -> bool:
    """Return whether n5-viewer's attributes describe the levels' positions.

    It has one unit, and centres each sample on the samples that it covers.
    """
    base = levels[0][1].axes
    units = [axis.unit for axis in base if axis.scale is not None]
    return (
        bool(units)
        and same_unit(*units)
        and all(
            axis.step > 0 and abs(axis.base[1] - under.offset) <= ROUNDING * axis.step
            for _, geometry in levels
            for axis, under in zip(geometry.axes, base, strict=True)
        )
    )
