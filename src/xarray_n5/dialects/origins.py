"""The origin of stacks of Janelia's render, and other lists that a group has for its levels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xarray_n5.dialects.pyramids import resolution_in
from xarray_n5.dialects.values import numbers
from xarray_n5.model.units import ratio, written_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes


def moved(geometry: Geometry, node: ArrayContext) -> Geometry:
    """Return a geometry moved to the origin of a stack of Janelia's render.

    ``translate`` of the group, or of the array, is in voxels of full resolution and in N5 order
    (saalfeldlab/render, NeuroglancerAttributes); levels do not repeat it.
    """
    around = (node.attributes, *node.parents[:1])
    source = next((each for each in around if {"translate", "scales"} <= each.keys()), {})
    ndim = len(node.shape)
    starts = numbers("translate", source.get("translate"), ndim, positive=False, filler=0.0)
    scales = resolution_in(source, "pixelResolution", ndim)
    if starts is None or scales is None or not any(starts):
        return geometry
    if geometry.affine is not None:
        raise ValueError("'translate' of the group cannot move an array with an affine matrix")
    whole = source["pixelResolution"]
    unit = whole.get("unit") if isinstance(whole, dict) else None
    shifts = [step * start for step, start in zip(scales, starts, strict=True)]
    axes = tuple(
        replace(own, offset=own.offset + shift * _times(unit, own.unit))
        if own.scale is not None
        else own
        for own, shift in zip(geometry.axes, by_axis(geometry, source, shifts), strict=True)
    )
    sources = [*filter(None, [geometry.sources.get("offset")]), "translate of the stack"]
    return replace(geometry, axes=axes, sources={**geometry.sources, "offset": ", ".join(sources)})


def by_axis(geometry: Geometry, group: Attributes, values: Sequence[float]) -> Sequence[float]:
    """Return a group's list by axis: in the order of its ``axes``, otherwise in N5 order."""
    listed, own = group.get("axes"), [each.name for each in geometry.axes]
    if isinstance(listed, list) and all(own) and sorted(map(str, listed)) == sorted(map(str, own)):
        known = dict(zip(listed, values, strict=False))
        return [known[name] for name in own]
    return values[::-1]


def _times(unit: object, own: str | None) -> float:
    text = written_unit(unit)
    times = 1.0 if text is None or own is None or text == own else ratio(text, own)
    if times is None:
        raise ValueError(f"'translate' of the group has the unit {text!r}, expected {own!r}")
    return times
