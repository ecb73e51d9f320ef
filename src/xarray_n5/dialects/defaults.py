"""The attributes that are written by default: those that most readers support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.dialects.array_dimensions import ArrayDimensions
from xarray_n5.dialects.canonical import Canonical
from xarray_n5.dialects.cosem import Cosem
from xarray_n5.dialects.n5_viewer import N5Viewer
from xarray_n5.dialects.neuroglancer import Neuroglancer, in_si_units
from xarray_n5.dialects.ngff import Ngff, can_show
from xarray_n5.dialects.pyramids import complete_factors
from xarray_n5.dialects.tensorstore import TensorStore
from xarray_n5.model.axes import Axis, Geometry, kind_of
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext


def default_attributes(geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
    """Return the attributes of a single array.

    If lists of axes are not in N5 order, these are names for xarray and COSEM's ``transform``,
    which states its order.
    """
    placed = geometry.placed or any(axis.unit for axis in geometry.axes)
    if not node.lists_x_first:
        attributes = ArrayDimensions().write(geometry, node)
        return attributes | (_transform(geometry, node) if placed else {})
    attributes = in_si_units(verbatim := TensorStore().write(geometry, node))
    respelled = attributes != verbatim
    scales = [axis.scale for axis in geometry.axes if axis.scale is not None]
    backwards = any(scale < 0 for scale in scales)
    apart = scales and any(axis.kind in {"time", "channel"} for axis in geometry.axes)
    if any(axis.offset for axis in geometry.axes) or apart or backwards or respelled:
        attributes |= _transform(geometry, node)
    if any(axis.labels for axis in geometry.axes):
        texts = tuple(Axis(name=axis.name, labels=axis.labels) for axis in geometry.axes)
        attributes |= Neuroglancer().write(Geometry(texts), node)
    if geometry.affine is not None:
        attributes |= Canonical().write(geometry, node)
    return attributes


def default_pyramid(
    levels: Sequence[tuple[ArrayContext, Geometry]],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the attributes of a pyramid's group, and those of each level.

    In N5, those of Neuroglancer and n5-viewer, if these can describe it, and COSEM's. In Zarr,
    names for xarray, OME-NGFF, and COSEM's ``transform``, which keeps units verbatim.
    """
    if not levels[0][0].lists_x_first:
        axes = levels[0][1].axes
        shown = can_show([axis.kind or kind_of(axis.name, axis.unit) for axis in axes])
        own = [ArrayDimensions().write(g, node) | _transform(g, node) for node, g in levels]
        return (Ngff().write_group(levels) if shown else {}), own
    around = Neuroglancer().write_group(levels)
    around["multiscales"] = Cosem().write_group(levels)["multiscales"]
    own = [Neuroglancer().write(g, node) | _transform(g, node) for node, g in levels]
    if _is_n5_viewers(levels):
        around |= N5Viewer().write_group(levels)
        own = [
            said | N5Viewer().write(g, node) for said, (node, g) in zip(own, levels, strict=True)
        ]
        around, own = in_si_units(around), [in_si_units(each) for each in own]
    complete_factors(own, len(levels[0][0].shape))
    return around, own


def _transform(geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
    return {"transform": Cosem().write(geometry, node)["transform"]}


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
            own.step > 0 and abs(own.base[1] - under.offset) <= ROUNDING * own.step
            for _, geometry in levels
            for own, under in zip(geometry.axes, base, strict=True)
        )
    )
