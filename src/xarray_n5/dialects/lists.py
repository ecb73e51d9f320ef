"""Lists and transforms in attributes, in all variants in files, as axes of arrays and of levels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from xarray_n5.model import transformations
from xarray_n5.model.axes import SAME, Axis, Geometry, centre_shift, kind_of
from xarray_n5.model.transformations import compose, parse_transformation
from xarray_n5.model.units import ratio, split_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.model.metadata import Attributes

T = TypeVar("T")

Kind: TypeAlias = Literal["positive", "non-zero", "finite"]
"""What finite numbers must be: steps of samples, those that may be reversed, and positions."""

_PROPER: Mapping[Kind, Callable[[float], bool]] = {
    "positive": lambda number: number > 0,
    "non-zero": bool,
    "finite": math.isfinite,
}


def texts(key: str, value: object, ndim: int, *, exact: bool = False) -> tuple[str, ...] | None:
    """Return `ndim` strings, or None if there is no attribute.

    A single string is for all axes, null is an empty string. A short list is for the first axes,
    unless it must be `exact`.

    Raises
    ------
    ValueError
        If the attribute is invalid; the message names `key`.
    """
    if value is None:
        return None
    items = [value] * ndim if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(i, (str, type(None))) for i in items):
        raise ValueError(f"{key!r} is {value!r}; expected a list of strings")
    return _fill(key, tuple(item or "" for item in items), "", ndim, exact=exact)


def numbers(
    key: str,
    value: object,
    ndim: int,
    *,
    kind: Kind = "positive",
    filler: float = 1.0,
    exact: bool = False,
    node: ArrayContext | None = None,
) -> tuple[float, ...] | None:
    """Return `ndim` numbers, or None if there is no attribute.

    A single number is for all axes; numbers may be strings. A short list is for the first axes,
    which are spatial in N5, with `filler` for the rest, unless it must be `exact`.

    For a `node`, invalid ones between valid ones are NaN, with a warning: :func:`axis` makes axes
    without coordinates of them.

    Raises
    ------
    ValueError
        If the attribute is invalid; the message names `key`.
    """
    if value is None:
        return None
    items = [value] * ndim if isinstance(value, (int, float, str)) else value
    result = [as_number(item, kind) for item in items] if isinstance(items, list) else [math.nan]
    valid = [number for number in result if not math.isnan(number)]
    text = f"{key!r} is {value!r}; expected a list of {kind} numbers"
    if len(valid) < len(result) and (node is None or not valid):
        raise ValueError(text)
    filled = _fill(key, tuple(result), filler, ndim, exact=exact)
    if node is not None and len(valid) < len(result):
        node.warn(f"{text}: axes with others have no coordinates")
    return filled


def as_number(item: object, kind: Kind = "finite") -> float:
    """Return a number, which may be a string; NaN if it is not one of its kind."""
    if isinstance(item, bool) or not isinstance(item, (int, float, str)):
        return math.nan
    try:
        number = float(item)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) and _PROPER[kind](number) else math.nan


def _fill(key: str, items: tuple[T, ...], filler: T, ndim: int, *, exact: bool) -> tuple[T, ...]:
    if len(items) > ndim or (exact and len(items) < ndim):
        raise ValueError(f"{key!r} has {len(items)} items, expected {ndim}, one for each axis")
    return items + (filler,) * (ndim - len(items))


def whole_number(value: float) -> float:
    """Return a whole float as an int: 40 instead of 40.0 in JSON.

    >>> whole_number(40.0), whole_number(0.5)
    (40, 0.5)
    """
    return int(value) if float(value).is_integer() and abs(value) < 1 << 53 else value


def matrix(transform: object, ndim: int, where: str = "transform") -> np.ndarray:
    """Return a transform, or a list of transforms applied in order, as n rows of n + 1 numbers.

    The words are those of n5-universe's canonical metadata and of all versions of OME-NGFF.

    Raises
    ------
    ValueError
        If one is invalid, not affine, or not for `ndim` axes, or its numbers are elsewhere.
    """
    rows = np.eye(ndim, ndim + 1)
    for step in _steps(transform):
        parsed = parse_transformation(step, where)
        rows = compose(rows, transformations.matrix(parsed, len(rows)))
    if len(rows) != ndim:
        raise ValueError(f"{where}: leads to {len(rows)} axes, expected {ndim}")
    return rows


def _steps(transform: Any) -> Iterator[Any]:
    """Iterate over the steps of a transform as in OME-Zarr 0.6, without the systems at its ends."""
    match transform:
        case {"type": "sequence", "transformations": [*parts]} | [*parts]:
            for part in parts:
                yield from _steps(part)
        case {"type": "scale_offset", "scale": [*scale], "offset": [*offset]}:
            rows = np.column_stack([np.diag(_without_strings(scale)), _without_strings(offset)])
            yield {"type": "affine", "affine": rows.tolist()}
        case {"type": "affine", "affine": [first, *_] as numbers} if not isinstance(first, list):
            ndim = math.isqrt(len(numbers))
            rows = np.reshape(_without_strings(numbers), (ndim, ndim + 1))
            yield {"type": "affine", "affine": rows.tolist()}
        case {**members}:
            ends = {"input", "output"}
            yield {key: _without_strings(v) for key, v in members.items() if key not in ends}
        case _:
            yield transform


def _without_strings(values: Any) -> Any:
    """Return a list with numbers instead of numbers in strings; other values unchanged."""
    if not isinstance(values, list):
        return values
    return [as_number(value) if isinstance(value, str) else value for value in values]


def per_axis(rows: np.ndarray) -> tuple[list[float], list[float]] | None:
    """Return scales and offsets, or None if a coordinate depends on several axes."""
    ndim = len(rows)
    square = rows[:, :ndim]
    if np.count_nonzero(square - np.diag(np.diag(square))):
        return None
    return np.diag(square).tolist(), rows[:, ndim].tolist()


def in_c_order(rows: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Convert a matrix from N5 order to C order of axes; its own inverse."""
    return as_tuples(np.concatenate([rows[::-1, -2::-1], rows[::-1, -1:]], axis=1))


def as_tuples(rows: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Return a matrix as tuples, as in a geometry."""
    return tuple(tuple(row) for row in rows.tolist())


# Levels

FACTOR_LISTS = ("scales", "downsamplingFactors")
"""Attributes of a group that list the factors of its levels, the most trusted first."""


def factors_of(node: ArrayContext, *, of_array: bool = True) -> tuple[float, ...] | None:
    """Return the factors of a level relative to the base level, in N5 order, or None.

    The lists of the group, as in Neuroglancer and n5-viewer, take precedence over
    ``downsamplingFactors`` `of_array`, and those over BigDataViewer's list on the setup; of the
    group's lists, ``scales`` (n5-viewer's older key) over ``downsamplingFactors``.
    """
    ndim = len(node.shape)
    if node.level is not None and node.parents:
        for key in FACTOR_LISTS:
            if (listed := _listed(node.parents[0], key, node)) is not None:
                return numbers(key, listed, ndim)
    key = "downsamplingFactors"
    if of_array and node.attributes.get(key) is not None:
        return numbers(key, node.attributes[key], ndim)
    if node.view is not None and len(node.parents) > 1:
        return numbers(key, _listed(node.parents[1], key, node), ndim)
    return None


def base_and_factors(
    node: ArrayContext, key: str, values: tuple[float, ...], *, of_array: bool = True
) -> tuple[tuple[float, ...], tuple[float, ...] | None]:
    """Return the base level's resolution and the level's factors from a level's resolution.

    Most tools repeat the base level's resolution on each level. COSEM's write the level's own: then
    the base level, or the group, has a finer one.
    """
    factors = factors_of(node, of_array=of_array)
    if factors is None:
        return values, None
    around = [*node.parents[:1], *([node.base.attributes] if node.base else [])]
    for base in (resolution_in(attributes, key, len(values)) for attributes in around):
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
    node.warn(
        f"level {level} has no factors, and so no coordinates; add 'downsamplingFactors' to it or "
        "to its group"
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
    bare = tuple(axis(*facts, None) for facts in zip(names, units, strict=True))
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
    0, which some dialects require, has no coordinates. Neither has an axis with an invalid number,
    nor a unit, with which copies would give it a scale of 1.
    """
    if not isinstance(name, str | None):
        raise ValueError(f"an axis has the name {name!r}; expected a string")  # noqa: TRY004
    name = name or None
    times, text = split_unit(written_unit(unit))
    known = kind if kind in {"space", "time", "channel"} else kind_of(name, text)
    if math.isnan(offset) or (scale is not None and math.isnan(scale)):
        return Axis(name=name, kind=known)
    scale = None if scale is None else scale * times
    if known == "channel" and text is None and (scale, offset) == (1.0, 0.0):
        scale = None
    return Axis(name=name, kind=known, unit=text, scale=scale, offset=offset * times, factor=factor)


def labelled(axis: Axis, labels: Iterable[object], name: str | None = None) -> Axis:
    """Return an axis, perhaps with a name, that has a label for each sample and no coordinates."""
    bare = replace(axis, unit=None, scale=None, offset=0.0)
    return replace(bare, name=name or axis.name, labels=tuple(map(str, labels)))


def axes_in_order(
    names: Sequence[object],
    kinds: Sequence[object],
    units: Sequence[object],
    split: tuple[Sequence[float], Sequence[float]] | None,
) -> tuple[Axis, ...]:
    """Return axes in the order of their lists; without scales and offsets, those of a matrix."""
    scales, offsets = split or ((None,) * len(names), (0.0,) * len(names))
    facts = zip(names, units, scales, offsets, kinds, strict=True)
    return tuple(axis(n, u, scale, offset, kind=kind) for n, u, scale, offset, kind in facts)


def over(geometry: Geometry, base: Geometry | None) -> Geometry:
    """Return a level's geometry with its factors relative to `base`."""
    if base is None or base.affine or geometry.affine or base.ndim != geometry.ndim:
        return geometry
    axes = tuple(
        replace(coarse, factor=coarse.step / under.step)
        if (coarse.scale is None) == (under.scale is None) and coarse.step / under.step > 0
        else coarse
        for coarse, under in zip(geometry.axes, base.axes, strict=True)
    )
    return replace(geometry, axes=axes)


FACTS = ("names", "units", "scale", "offset")
"""Facts about axes that have a source."""


def geometry_of_lists(
    axes: Sequence[Axis],
    sources: Mapping[str, str | None],
    affine: tuple[tuple[float, ...], ...] | None = None,
) -> Geometry:
    """Return axes with the sources of their facts, without those of facts that they lack."""
    named, with_unit = any(axis.name for axis in axes), any(axis.unit for axis in axes)
    absent = {"names": not named, "units": not with_unit}
    known = {fact: where for fact, where in sources.items() if where and not absent.get(fact)}
    return Geometry(tuple(axes), known, affine=affine)


def steps(geometry: Geometry) -> list[float]:
    """Return the scales of the base level in N5 order, for JSON."""
    return [whole_number(axis.base[0]) for axis in geometry.axes[::-1]]


def factors_in(geometry: Geometry) -> list[float]:
    """Return the factors in N5 order, for JSON."""
    return [whole_number(axis.factor) for axis in geometry.axes[::-1]]


def factors_if_any(geometry: Geometry) -> dict[str, Any]:
    """Return the attribute ``downsamplingFactors`` if an array is downsampled."""
    factors = factors_in(geometry)
    return {"downsamplingFactors": factors} if any(factor != 1 for factor in factors) else {}


def complete_factors(of_levels: Sequence[dict[str, Any]], ndim: int) -> None:
    """Add ``downsamplingFactors`` to all levels if any level has them.

    Some readers, such as webknossos, need the factors of the base level.
    """
    key = "downsamplingFactors"
    if any(key in attributes for attributes in of_levels):
        for attributes in of_levels:
            attributes.setdefault(key, [1] * ndim)


def resolution_in(attributes: Attributes, key: str, ndim: int) -> tuple[float, ...] | None:
    """Return the resolution in attributes, or None if there is no valid one."""
    try:
        return numbers(key, steps_and_unit(attributes.get(key))[0], ndim)
    except ValueError:
        return None


def steps_and_unit(resolution: Any) -> tuple[Any, Any]:
    """Return the numbers of a ``pixelResolution``, which may be a list, and its unit, if any."""
    if isinstance(resolution, dict):
        return resolution.get("dimensions"), resolution.get("unit")
    return resolution, None


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
    source = next(
        (attributes for attributes in around if {"translate", "scales"} <= attributes.keys()), {}
    )
    ndim = len(node.shape)
    starts = numbers("translate", source.get("translate"), ndim, kind="finite", filler=0.0)
    scales = resolution_in(source, "pixelResolution", ndim)
    if starts is None or scales is None or not any(starts):
        return geometry
    if geometry.affine is not None:
        raise ValueError("'translate' of the group cannot move an array with an affine matrix")
    _, unit = steps_and_unit(source["pixelResolution"])
    shifts = [step * start for step, start in zip(scales, starts, strict=True)]
    axes = tuple(
        replace(listed, offset=listed.offset + shift * _times(unit, listed.unit))
        if listed.scale is not None
        else listed
        for listed, shift in zip(geometry.axes, by_axis(geometry, source, shifts), strict=True)
    )
    sources = [*filter(None, [geometry.sources.get("offset")]), "translate of the stack"]
    return replace(geometry, axes=axes, sources={**geometry.sources, "offset": ", ".join(sources)})


def by_axis(geometry: Geometry, group: Attributes, values: Sequence[float]) -> Sequence[float]:
    """Return a group's list by axis: in the order of its ``axes``, otherwise in N5 order."""
    listed, names = group.get("axes"), [axis.name or "" for axis in geometry.axes]
    if isinstance(listed, list) and all(names) and sorted(map(str, listed)) == sorted(names):
        known = dict(zip(map(str, listed), values, strict=False))
        return [known[name] for name in names]
    return values[::-1]


def _times(unit: object, known: str | None) -> float:
    text = written_unit(unit)
    times = 1.0 if text is None or known is None or text == known else ratio(text, known)
    if times is None:
        raise ValueError(f"'translate' of the group has the unit {text!r}, expected {known!r}")
    return times
