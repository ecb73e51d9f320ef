"""Levels of pyramids: their factors, the positions of their samples, and the origin of stacks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.values import in_c_order, numbers, per_axis, whole_number
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry, centre_shift, kind_of
from xarray_n5.model.tolerances import SAME
from xarray_n5.model.units import ratio, split_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.metadata import Attributes

_FACTORS = "downsamplingFactors"


def factors_of(node: ArrayContext, *, own: bool = True) -> tuple[float, ...] | None:
    """Return the factors of a level relative to the base level, in N5 order, or None.

    The lists of the group, as in Neuroglancer and n5-viewer, take precedence over the array's `own`
    ``downsamplingFactors``, and those over BigDataViewer's list on the setup; of the group's lists,
    ``scales`` (n5-viewer's older key) over ``downsamplingFactors``.
    """
    ndim = len(node.shape)
    if node.level is not None and node.parents:
        for key in ("scales", "downsamplingFactors"):
            if (listed := _listed(node.parents[0], key, node)) is not None:
                return numbers(key, listed, ndim)
    key = "downsamplingFactors"
    if own and node.attributes.get(key) is not None:
        return numbers(key, node.attributes[key], ndim)
    if node.view is not None and len(node.parents) > 1:
        return numbers(key, _listed(node.parents[1], key, node), ndim)
    return None


def base_and_factors(
    node: ArrayContext, key: str, values: tuple[float, ...], *, own: bool = True
) -> tuple[tuple[float, ...], tuple[float, ...] | None]:
    """Return the base level's resolution and the level's factors from a level's resolution.

    Most tools repeat the base level's resolution on each level. COSEM's write the level's own: then
    the base level, or the group, has a finer one.
    """
    factors = factors_of(node, own=own)
    if factors is None:
        return values, None
    around = [*node.parents[:1], *([node.base.attributes] if node.base else [])]
    for base in (resolution_in(each, key, len(values)) for each in around):
        if base is not None and not alike(values, base):
            whole = [step * factor for step, factor in zip(base, factors, strict=True)]
            if alike(values, whole):
                return base, factors
    return values, factors


def check_level(node: ArrayContext, factors: Sequence[float] | None) -> bool:
    """Return whether a level's coordinates are known; warn if it is coarse without factors."""
    level = node.level or 0
    if factors is not None or not level:
        return True
    warn(
        f"{node.path}: level {level} has no factors, and so no coordinates; add "
        "'downsamplingFactors' to it or to its group"
    )
    return False


def axes_at_level(
    names: Sequence[str],
    units: Sequence[str | None],
    scales: Sequence[float | None],
    factors: Sequence[float] | None = None,
    offsets: Sequence[float] | None = None,
) -> tuple[Axis, ...]:
    """Return a level's axes in C order, from the base level's lists in N5 order."""
    ndim = len(names)
    made = []
    for name, unit, scale, factor, offset in zip(
        names, units, scales, factors or (1.0,) * ndim, offsets or (0.0,) * ndim, strict=True
    ):
        shift = 0.0 if scale is None else centre_shift(scale, factor)
        step = None if scale is None else scale * factor
        made.append(axis(name, unit, step, offset + shift, factor))
    return tuple(made[::-1])


def axes_under(
    names: Sequence[str],
    units: Sequence[str | None],
    rows: np.ndarray,
    factors: Sequence[float] | None,
) -> tuple[tuple[Axis, ...], tuple[tuple[float, ...], ...] | None]:
    """Return a level's axes in C order, and a matrix if `rows` is not per axis.

    Parameters
    ----------
    names, units, factors
        Lists in N5 order.
    rows
        The matrix from samples of the base level to coordinates, in N5 order.
    """
    split = per_axis(rows)
    if split is not None and min(split[0]) > 0:
        return axes_at_level(names, units, split[0], factors, split[1]), None
    ndim = len(names)
    times = factors or (1.0,) * ndim
    level = np.diag([*times, 1.0])
    level[:ndim, ndim] = [centre_shift(1.0, factor) for factor in times]
    bare = tuple(axis(*each, None) for each in zip(names, units, strict=True))
    return bare[::-1], in_c_order(rows @ level)


def axis(
    name: object,
    unit: object,
    scale: float | None,
    offset: float = 0.0,
    factor: float = 1.0,
    kind: object = None,
) -> Axis:
    """Return an axis from its metadata.

    A number before a unit multiplies it, as in TensorStore. A channel axis with scale 1 and offset
    0, which some dialects require, has no coordinates.
    """
    if not isinstance(name, str | None):
        raise ValueError(f"an axis has the name {name!r}; expected a string")  # noqa: TRY004
    name = name or None
    times, text = split_unit(written_unit(unit))
    found = kind if kind in {"space", "time", "channel"} else kind_of(name, text)
    scale = None if scale is None else scale * times
    if found == "channel" and text is None and (scale, offset) == (1.0, 0.0):
        scale = None
    return Axis(
        name=name,
        kind=found,
        unit=text,
        scale=scale,
        offset=offset * times,
        factor=factor,
    )


def over(geometry: Geometry, base: Geometry | None) -> Geometry:
    """Return a level's geometry with its factors relative to `base`."""
    if base is None or base.affine or geometry.affine or base.ndim != geometry.ndim:
        return geometry
    axes = tuple(
        replace(own, factor=own.step / under.step)
        if (own.scale is None) == (under.scale is None) and own.step / under.step > 0
        else own
        for own, under in zip(geometry.axes, base.axes, strict=True)
    )
    return replace(geometry, axes=axes)


def steps(geometry: Geometry) -> list[float]:
    """Return the scales of the base level in N5 order, for JSON."""
    return [whole_number(each.base[0]) for each in geometry.axes[::-1]]


def factors_in(geometry: Geometry) -> list[float]:
    """Return the factors in N5 order, for JSON."""
    return [whole_number(each.factor) for each in geometry.axes[::-1]]


def factors_if_any(geometry: Geometry) -> dict[str, Any]:
    """Return the attribute ``downsamplingFactors`` if an array is downsampled."""
    factors = factors_in(geometry)
    return {"downsamplingFactors": factors} if any(factor != 1 for factor in factors) else {}


def complete_factors(own: Sequence[dict[str, Any]], ndim: int) -> None:
    """Add ``downsamplingFactors`` to all levels if any level has them.

    Some readers, such as webknossos, need the factors of the base level.
    """
    if any(_FACTORS in attributes for attributes in own):
        for attributes in own:
            attributes.setdefault(_FACTORS, [1] * ndim)


def resolution_in(attributes: Attributes, key: str, ndim: int) -> tuple[float, ...] | None:
    """Return the resolution in attributes, or None if there is no valid one."""
    found = attributes.get(key)
    try:
        return numbers(key, found.get("dimensions") if isinstance(found, dict) else found, ndim)
    except ValueError:
        return None


def alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether numbers are equal up to rounding."""
    return all(math.isclose(a, b, rel_tol=SAME) for a, b in zip(one, other, strict=True))


def _listed(group: Attributes, key: str, node: ArrayContext) -> object:
    """Return a level's factors from a group's list of levels."""
    listed = group.get(key)
    level = node.level or 0
    if not isinstance(listed, list) or not all(isinstance(item, list) for item in listed):
        return None
    return listed[level] if level < len(listed) else None


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
