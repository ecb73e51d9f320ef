"""Axes as xarray's dimensions and coordinates."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr

from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry, kind_of, names
from xarray_n5.model.options import check_option
from xarray_n5.model.units import written_unit

Origin: TypeAlias = Literal["center", "corner"]

MOST = 1 << 27
"""How many samples of one Dataset get coordinates: 1 GiB of them."""


@dataclass(slots=True)
class Room:
    """How many samples may still get coordinates, so that small files cannot fill memory."""

    left: int = field(default_factory=lambda: MOST)

    def take(self, size: int) -> bool:
        """Return whether there is room for an axis of a size, which is then taken."""
        fits = size <= self.left
        self.left -= size if fits else 0
        return fits


_WIDE = 1 << 20
_SPARSE = 4
"""How much wider an array of strings may be than its strings, in characters: by how many at
least, and by which factor."""

_EVEN = 1e-6
"""By how much of a step an evenly spaced coordinate may be off, for rounding."""

_COARSE = 0.1
"""By how much of a step numbers may be rounded, if they are to tell where samples lie."""

_EXACT = 2.0**53
"""Up to where float64 tells whole numbers apart."""

_DECODED = frozenset(
    f"{unit}s"
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond")
)
"""Units whose numbers xarray would turn into timedeltas."""


def dims_of(geometry: Geometry) -> tuple[str, ...]:
    """Return the names of an array's dimensions."""
    return names(geometry.axes)


def coords_of(
    geometry: Geometry,
    shape: tuple[int, ...],
    origin: Origin = "center",
    room: Room | None = None,
) -> dict[str, xr.Variable]:
    """Return a coordinate for each axis of which anything is known but its name.

    Parameters
    ----------
    geometry
        The axes, in the order of `shape`.
    shape
        The array's shape.
    origin
        Where place 0 lies in the first voxel of the base level: at its centre, or at its corner.
        All levels of a pyramid move by the same half of a base voxel.
    room
        How many samples may get coordinates; axes that are too long for it get none, and warn.

    Returns
    -------
    dict
        One-dimensional variables by dimension: float64 places, or texts.
    """
    check_option("origin", origin, "center", "corner")
    found: dict[str, xr.Variable] = {}
    room = Room() if room is None else room
    for name, axis, size in zip(names(geometry.axes), geometry.axes, shape, strict=True):
        if not axis.placed:
            continue
        if not room.take(size):
            warn(
                f"axis {name!r} has {size} samples, too many for coordinates in memory; it gets "
                "none"
            )
            continue
        values = _values(axis, size, origin)
        if values.dtype.kind == "f" and not np.isfinite(values[[0, -1]] if size else values).all():
            warn(f"axis {name!r} ends at places that are no finite numbers; it gets no coordinates")
            continue
        encoding: dict[str, Any] = {}
        if values.dtype.kind == "f" and size:
            encoding = {"step": axis.step, "start": float(values[0]), "size": size}
            encoding |= {"shift": axis.base[0] / 2} if origin == "corner" else {}
        found[name] = xr.Variable((name,), values, _attributes(axis), encoding)
    return found


def geometry_from(array: xr.DataArray) -> Geometry:
    """Return the axes of a DataArray: names, units, and places where they are regular.

    Texts become labels. Numbers that only count samples say nothing; other coordinates that are
    no evenly spaced numbers are left out with a warning.
    """
    return Geometry(tuple(_axis(array, str(dim)) for dim in array.dims))


def _axis(array: xr.DataArray, dim: str) -> Axis:
    found = array.coords.get(dim)
    if found is None:
        return Axis(name=dim)
    values = found.to_numpy()
    if not values.size:
        return Axis(name=dim)
    unit = written_unit(found.attrs.get("units"))
    kind = kind_of(dim, unit)
    if all(isinstance(text, str) for text in values.tolist()):
        return Axis(name=dim, kind=kind, labels=tuple(map(str, values.tolist())))
    counted = values.dtype.kind in "iu" or (values.dtype.kind == "f" and kind == "channel")
    if counted and not unit and np.array_equal(values, np.arange(values.size)):
        return Axis(name=dim, kind=kind)
    step = _step(values, _stored_step(found))
    if step is not None:
        start = float(values[0]) - float(found.encoding.get("shift", 0.0))
        return Axis(name=dim, kind=kind, unit=unit, scale=step, offset=start)
    warn(
        f"the coordinate {dim!r} ({values.dtype}) is no evenly spaced numbers, which scale and "
        "offset could tell; it is left out"
    )
    return Axis(name=dim, kind=kind)


def _stored_step(found: xr.DataArray) -> float | None:
    """Return the distance between samples in the file, where the first is still one of those."""
    match found.encoding:
        case {"step": step, "start": start, "size": size}:
            at = (float(found[0]) - start) / step
            near = abs(at - round(at)) <= _EVEN
            return float(step) if near and 0 <= round(at) < size else None
    return None


def _step(values: np.ndarray, stored: float | None) -> float | None:
    """Return the distance between evenly spaced numbers, None where they are not.

    It is the distance that gives exactly the numbers again: that in the file, or the shortest.
    Where none does, as with a crop, whose offset is rounded, it is the shortest that is as near
    as rounding lets it be.
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
    beside = [float(np.nextafter(step, to)) for to in (-np.inf, np.inf)]
    candidates = [*([] if stored is None else [stored]), *shorts, step, *beside]
    fits = {each: exact[0] + each * count for each in candidates}
    near = max(rounding, np.finfo(np.float64).eps * np.abs(exact).max())
    same = (d for d, fit in fits.items() if np.array_equal(fit.astype(values.dtype), values))
    close = (d for d, fit in fits.items() if np.abs(exact - fit).max() <= near)
    even = (d for d in [step] if np.abs(exact - fits[d]).max() <= _EVEN * abs(d))
    return next(itertools.chain(same, close, even), None)


def _values(axis: Axis, size: int, origin: Origin) -> np.ndarray:
    if axis.labels is not None:
        return _labels(axis.labels)
    offset = axis.offset + (axis.base[0] / 2 if origin == "corner" else 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.arange(size, dtype=np.float64)
        values *= axis.step
        values += offset
        return values


def _labels(labels: tuple[str, ...]) -> np.ndarray:
    """Return labels as an array of strings; as objects where one long label would fill memory."""
    width = max(map(len, labels), default=0)
    sparse = width * len(labels) > _WIDE + _SPARSE * sum(map(len, labels))
    return np.array(labels, object if sparse else None)


def _attributes(axis: Axis) -> dict[str, Any]:
    if axis.unit is None:
        return {}
    return {"units": axis.unit[:-1] if axis.unit in _DECODED else axis.unit}
