"""Crop arrays in physical coordinates: the accessors' `crop`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import xarray as xr

from xarray_n5.boxes.neighbours import slack_of
from xarray_n5.datasets.world import are_apart
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import near
from xarray_n5.model.units import quantity_of, ratio, same_unit, unit_of, written_unit

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

Bound: TypeAlias = "float | str | None"
"""A coordinate, perhaps with a unit; None for the end of the axis."""

Bounds: TypeAlias = "tuple[Bound, Bound] | slice | str"
"""Both ends, or a string as :func:`pair_of` reads it."""

Cropped = TypeVar("Cropped", xr.DataArray, xr.Dataset, xr.DataTree)
Box = TypeVar("Box", xr.DataArray, xr.Dataset)

_NUMBER = re.compile(r"^[-+]?[\d.]*(?:[eE][-+]?\d+)?")
"""The number that a coordinate with a unit begins with."""


def crop(cropped: Cropped, bounds: Mapping[str, Bounds]) -> Cropped:
    """Return the box of an array, a Dataset or a tree; see the accessors' `crop`."""
    if isinstance(cropped, xr.DataTree):
        check({dim: size for node in cropped.subtree for dim, size in node.sizes.items()}, bounds)

        def of_node(dataset: xr.Dataset) -> xr.Dataset:
            return _crop(dataset, {d: pair for d, pair in bounds.items() if d in dataset.sizes})

        tree: Any = cropped.map_over_datasets(of_node)
        return tree  # type: ignore[no-any-return]
    check(cropped.sizes, bounds)
    box = _crop(cropped, bounds)
    for dim, pair in bounds.items():
        if cropped.sizes[dim] and not box.sizes[dim]:
            ends, unit = cropped[dim].values[[0, -1]], cropped[dim].attrs.get("units", "")
            what = f"{dim} is {ends[0]:g} to {ends[1]:g} {unit}".rstrip()
            warn(f"no samples are within the bounds {dim}={pair!r}: {what}")
    return box


def _crop(cropped: Box, bounds: Mapping[str, Bounds]) -> Box:
    """Return the box of an array or a Dataset."""
    if are_apart(cropped.coords.to_dataset(), {*map(str, bounds)}):
        warn(
            f"coordinates along {', '.join(bounds)} count from the first sample of each view, and "
            "views have positions of their own, so this is another box in each. For one of the "
            "world, use ds.n5.interp_like(grid.n5.crop(...)), grid = xarray_n5.world_grid(ds, ...)"
            "; an unrotated view opened alone, with setup= and timepoint=, has coordinates of the "
            "world"
        )
    return cropped.isel(windows_of(cropped, bounds))


def windows_of(of: xr.DataArray | xr.Dataset, bounds: Mapping[str, Bounds]) -> dict[str, slice]:
    """Return the samples in ranges of coordinates, by dimension; both ends are included."""
    return {dim: _window(of, dim, pair) for dim, pair in bounds.items()}


def check(sizes: Mapping[Hashable, int], bounds: Mapping[str, Bounds]) -> None:
    """Raise ValueError unless all bounds are pairs along existing dimensions."""
    for dim, pair in bounds.items():
        if dim not in sizes:
            known = [str(name) for name in sizes]
            gone = dim in {"pad", "fill_value"}
            hint = "; xarray's pad and reindex add samples" if gone else near(dim, known)
            raise ValueError(f"there is no dimension {dim!r} in {known}{hint}")
        pair_of(dim, pair)


def pair_of(dim: str, bounds: Bounds) -> tuple[Bound, Bound]:
    """Return both ends of a range. In a string, a unit may follow one of them only.

    >>> pair_of("z", "20:60 um"), pair_of("z", ":0.5"), pair_of("z", (0, 50))
    (('20 um', '60 um'), (None, '0.5'), (0, 50))

    Raises
    ------
    ValueError
        If it is not a range.
    """
    match bounds:
        case str():
            ends = [end.strip() for end in bounds.split(":")]
            units = [_NUMBER.sub("", end).strip() for end in ends]
            filled = [
                f"{end} {'' if unit else max(units)}".strip() if end else None
                for end, unit in zip(ends, units, strict=True)
            ]
            if len(filled) == 2 and any(filled):  # noqa: PLR2004
                return filled[0], filled[1]
        case (low, high):
            return low, high
        case slice(start=low, stop=high, step=None):
            return low, high
    raise ValueError(
        f"{dim}={bounds!r} is not a range; expected two coordinates such as {dim}=(0, 50), or a "
        f"string such as {dim}='20:60 um'"
    )


def _window(of: xr.DataArray | xr.Dataset, dim: str, bounds: Bounds) -> slice:
    """Return the samples in a range of coordinates, both ends included."""
    coordinate, values = coordinate_of(of, dim)
    limits = _limits(coordinate, dim, bounds)
    if not values.size:
        return slice(0, 0)
    slack = slack_of(values)
    sign = -1 if values[-1] < values[0] else 1
    low, high = sorted(sign * limit for limit in limits)
    start = int(np.searchsorted(sign * values, low - slack, "left"))
    return slice(start, int(np.searchsorted(sign * values, high + slack, "right")))


def coordinate_of(of: xr.DataArray | xr.Dataset, dim: str) -> tuple[xr.DataArray, np.ndarray]:
    """Return the coordinate of a dimension, and its values as float64.

    Raises
    ------
    ValueError
        If there is none, or its values are not numbers, or neither ascend nor descend.
    """
    if dim not in of.coords:
        raise ValueError(
            f"the dimension {dim!r} has no coordinates; assign some, or select by indices instead"
        )
    coordinate = of.coords[dim]
    if coordinate.dtype.kind not in "iuf":
        raise ValueError(f"the coordinates of {dim!r} are {coordinate.dtype}, not numbers; use sel")
    values = coordinate.to_numpy().astype(np.float64)
    steps = np.diff(values)
    if not (np.isfinite(values).all() and ((steps > 0).all() or (steps < 0).all())):
        raise ValueError(
            f"the coordinates of {dim!r} neither ascend nor descend; sort the array with sortby"
        )
    return coordinate, values


def _limits(coordinate: xr.DataArray, dim: str, bounds: Bounds) -> tuple[float, float]:
    """Return the two ends of a range in the unit of the coordinate."""
    low, high = (number_in(bound, coordinate, dim) for bound in pair_of(dim, bounds))
    return (-math.inf if low is None else low), (math.inf if high is None else high)


def number_in(bound: Bound, coordinate: xr.DataArray, dim: str) -> float | None:
    """Return a coordinate as a number in the unit of an axis; None for None.

    Raises
    ------
    ValueError
        If it is not a number, or has a unit that cannot be converted to that of the axis.
    """
    if bound is None:
        return None
    quantity = quantity_of(bound) if isinstance(bound, str) else (float(bound), None)
    if quantity is None or math.isnan(quantity[0]):
        raise ValueError(f"{dim} is {bound!r}; expected a number, perhaps with a unit, as '220 nm'")
    number, unit = quantity
    axis_unit = written_unit(coordinate.attrs.get("units"))
    if unit is None or same_unit(unit, axis_unit):
        return number
    factor = ratio(unit, axis_unit)
    if factor is None:
        what = f"are in {axis_unit!r}" if axis_unit else "have no unit"
        advice = "give a number, or set the attribute 'units' of the coordinate"
        if unit_of(unit) is None:
            advice = f"the unit {unit!r} is not known; expected a number and a unit, as '2.5 um'"
        raise ValueError(f"{dim} is {bound!r}, but the coordinates of {dim!r} {what}; {advice}")
    return number * factor
