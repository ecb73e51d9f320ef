"""Convert axes to xarray's dimensions and coordinates, and back."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import SAME, Axis, Geometry, kind_of, names
from xarray_n5.model.units import written_unit

MOST = 1 << 27
"""The maximum number of samples of a Dataset with coordinates: 1 GiB of them."""


@dataclass(slots=True)
class Room:
    """A budget of samples with coordinates, so that small files cannot exhaust memory."""

    left: int = field(default_factory=lambda: MOST)

    def take(self, size: int) -> bool:
        """Return whether the budget suffices for an axis of a size, and charge it."""
        fits = size <= self.left
        self.left -= size if fits else 0
        return fits


_WIDE = 1 << 20
_SPARSE = 4
"""The limit on an array of strings, relative to its longest useful width in characters: an absolute
minimum, and a factor."""

_COARSE = 0.1
"""The rounding error of numbers that can still locate samples, as a part of the step."""

_EXACT = 2.0**53
"""The largest whole number up to which float64 is exact."""

_DECODED = frozenset(
    f"{unit}s"
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond")
)
"""Units whose numbers xarray would decode as timedeltas."""


def coords_of(
    geometry: Geometry, shape: tuple[int, ...], room: Room | None = None
) -> dict[str, xr.Variable]:
    """Return a coordinate for each axis with more than a name.

    Parameters
    ----------
    geometry
        The axes, in the order of `shape`.
    shape
        The array's shape.
    room
        The budget of samples; axes that exceed it have no coordinates, and warn.

    Returns
    -------
    dict
        One-dimensional variables by dimension: float64 positions, or strings.
    """
    coords: dict[str, xr.Variable] = {}
    room = Room() if room is None else room
    for name, axis, size in zip(names(geometry.axes), geometry.axes, shape, strict=True):
        if not axis.placed:
            continue
        if not room.take(size):
            warn(
                f"axis {name!r} has {size} samples, too many for coordinates in memory; it has no "
                "coordinates"
            )
            continue
        values = _values(axis, size)
        if values.dtype.kind == "f" and not np.isfinite(values[[0, -1]] if size else values).all():
            warn(f"axis {name!r} has positions that are not finite; it has no coordinates")
            continue
        encoding: dict[str, Any] = {}
        if values.dtype.kind == "f" and size:
            encoding = {"step": axis.step, "start": float(values[0]), "size": size}
        coords[name] = xr.Variable((name,), values, _attributes(axis), encoding)
    return coords


def geometry_from(array: xr.DataArray) -> Geometry:
    """Return the axes of a DataArray: names, units, and positions if they are regular.

    Strings become labels. Numbers that only count samples are ignored; other coordinates that are
    not evenly spaced numbers are omitted with a warning.
    """
    return Geometry(tuple(_axis(array, str(dim)) for dim in array.dims))


def _axis(array: xr.DataArray, dim: str) -> Axis:
    coordinate = array.coords.get(dim)
    if coordinate is None:
        return Axis(name=dim)
    values = coordinate.to_numpy()
    if not values.size:
        return Axis(name=dim)
    unit = written_unit(coordinate.attrs.get("units"))
    kind = kind_of(dim, unit)
    if all(isinstance(text, str) for text in values.tolist()):
        return Axis(name=dim, kind=kind, labels=tuple(map(str, values.tolist())))
    counted = values.dtype.kind in "iu" or (values.dtype.kind == "f" and kind == "channel")
    if counted and not unit and np.array_equal(values, np.arange(values.size)):
        return Axis(name=dim, kind=kind)
    step = _step(values, _stored_step(coordinate))
    if step is not None:
        return Axis(name=dim, kind=kind, unit=unit, scale=step, offset=float(values[0]))
    warn(
        f"the coordinate {dim!r} ({values.dtype}) is omitted: expected evenly spaced numbers, "
        "which a scale and an offset describe"
    )
    return Axis(name=dim, kind=kind)


def step_of(coordinate: xr.DataArray) -> float | None:
    """Return the distance between evenly spaced numbers; None if there is none.

    A single number has the distance of the file that it is from.
    """
    stored = _stored_step(coordinate) if coordinate.size else None
    return _step(coordinate.to_numpy(), stored) if coordinate.size > 1 else stored


def _stored_step(coordinate: xr.DataArray) -> float | None:
    """Return the distance between samples in the file, if the first is still one of those."""
    match coordinate.encoding:
        case {"step": step, "start": start, "size": size}:
            at = (float(coordinate[0]) - start) / step
            near = abs(at - round(at)) <= SAME
            return float(step) if near and 0 <= round(at) < size else None
    return None


def _step(values: np.ndarray, stored: float | None) -> float | None:
    """Return the distance between evenly spaced numbers, or None.

    It is the distance that reproduces the numbers exactly: that in the file, or the shortest. If
    there is none, as for a crop, whose offset is rounded, it is the shortest that agrees up to
    rounding.
    """
    if values.dtype.kind not in "iuf":
        return None
    exact = values.astype(np.float64)
    if not np.isfinite(exact).all() or np.abs(exact).max() > _EXACT:
        return None
    if values.size == 1:
        return 1.0 if stored is None else stored
    step = float((exact[-1] - exact[0]) / (values.size - 1))
    rounding = np.finfo(values.dtype).eps * np.abs(exact).max() if values.dtype.kind == "f" else 0.0
    if not step or rounding > _COARSE * abs(step):
        return None
    count = np.arange(values.size)
    shorts = [float(f"{step:.{digits}g}") for digits in range(1, 18)]
    neighbours = [float(np.nextafter(step, to)) for to in (-np.inf, np.inf)]
    candidates = [*([] if stored is None else [stored]), *shorts, step, *neighbours]
    fits = {distance: exact[0] + distance * count for distance in candidates}
    near = max(rounding, np.finfo(np.float64).eps * np.abs(exact).max())
    kept = values.dtype if values.dtype.kind == "f" else np.float64
    same = (d for d, fit in fits.items() if np.array_equal(fit.astype(kept), values))
    close = (d for d, fit in fits.items() if np.abs(exact - fit).max() <= near)
    even = (d for d in [step] if np.abs(exact - fits[d]).max() <= SAME * abs(d))
    return next(itertools.chain(same, close, even), None)


def _values(axis: Axis, size: int) -> np.ndarray:
    if axis.labels is not None:
        return _labels(axis.labels)
    offset = axis.offset
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.arange(size, dtype=np.float64)
        before = np.rint(offset / axis.step)
        if before * axis.step == offset and abs(before) + size < _EXACT:
            # A part of an image has the coordinates of the whole one, to the last bit.
            values += before
            offset = 0.0
        values *= axis.step
        values += offset
        return values


def _labels(labels: tuple[str, ...]) -> np.ndarray:
    """Return labels as an array of strings; as objects if one long label would exhaust memory."""
    width = max(map(len, labels), default=0)
    sparse = width * len(labels) > _WIDE + _SPARSE * sum(map(len, labels))
    return np.array(labels, object if sparse else None)


def _attributes(axis: Axis) -> dict[str, Any]:
    if axis.unit is None:
        return {}
    return {"units": axis.unit[:-1] if axis.unit in _DECODED else axis.unit}
