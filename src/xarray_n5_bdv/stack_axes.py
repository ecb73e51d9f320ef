"""The dimensions before z, y and x: time points, and setups as a grid or in a row."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import xarray as xr

from xarray_n5_bdv.loaders import View
from xarray_n5_bdv.project import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5_bdv.project import Project, ViewSetup

Arrangement = Literal["grid", "flat"]

_WIDE = 1 << 20
"""The maximum number of characters in an array of names; more are an array of objects."""


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer dimensions of an image, and the position of each view along them."""

    dims: tuple[str, ...]
    numbers: tuple[tuple[int, ...], ...]
    """The ids along each dimension."""
    positions: Mapping[View, tuple[int, ...]]
    coords: Mapping[str, xr.Variable]
    """Ids and names of setups, and of their channels, tiles, angles and illuminations."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(map(len, self.numbers))


def arrange(
    project: Project,
    timepoints: Sequence[int],
    setups: Sequence[int],
    arrangement: Arrangement | None = None,
    *,
    single_timepoint: bool = False,
    single_setup: bool = False,
) -> Outer:
    """Return the outer dimensions of an image of all views of some time points and setups.

    Parameters
    ----------
    project
        The project.
    timepoints, setups
        Their ids.
    arrangement
        "grid": a dimension for each attribute of setups that differs; "flat": one dimension of
        setups; by default the grid, if the setups form one with more than one sample.
    single_timepoint, single_setup
        Whether the only time point, or the only setup, is a coordinate instead of a dimension.

    Raises
    ------
    ValueError
        If a grid is required, and the setups do not form one.
    """
    found = [project.setups[number] for number in setups]
    kinds = _grid(found)
    if arrangement == "grid" and kinds is None and not single_setup:
        raise ValueError(
            f"the {len(found)} setups do not form a grid of channels, tiles, angles and "
            "illuminations; use setups='flat'"
        )
    dims: dict[str, tuple[int, ...]] = {}
    coords: dict[str, xr.Variable] = {}
    if single_timepoint:
        coords["t"] = xr.Variable((), timepoints[0])
    else:
        dims["t"] = tuple(timepoints)
    if single_setup:
        places: list[tuple[int, ...]] = [()]
        coords |= _along((), found, project)
    elif kinds is not None and (kinds or arrangement == "grid") and arrangement != "flat":
        dims |= kinds
        places = [tuple(ids.index(s.attributes[k]) for k, ids in kinds.items()) for s in found]
        coords |= _of_grid(kinds, found, places, project)
    else:
        dims["setup"] = tuple(setups)
        places = [(place,) for place in range(len(setups))]
        coords |= _along(("setup",), found, project)
    rows: Iterable[tuple[int, ...]] = (
        [()] if single_timepoint else ((n,) for n in range(len(timepoints)))
    )
    positions = {
        View(time, setup.id): (*row, *place)
        for (time, row), (setup, place) in itertools.product(
            zip(timepoints, rows, strict=True), zip(found, places, strict=True)
        )
    }
    return Outer(tuple(dims), tuple(dims.values()), positions, coords)


def _grid(setups: Sequence[ViewSetup]) -> dict[str, tuple[int, ...]] | None:
    """Return the ids of the attributes that differ, or None if setups do not form a full grid."""
    kinds: dict[str, tuple[int, ...]] = {}
    for kind in KINDS:
        ids = {setup.attributes.get(kind) for setup in setups}
        if len(ids) > 1:
            known = sorted(number for number in ids if number is not None)
            if len(known) < len(ids):
                return None
            kinds[kind] = tuple(known)
    places = {tuple(setup.attributes[kind] for kind in kinds) for setup in setups}
    full = math.prod(map(len, kinds.values()))
    return kinds if len(places) == len(setups) == full else None


def _of_grid(
    kinds: Mapping[str, tuple[int, ...]],
    setups: Sequence[ViewSetup],
    places: Sequence[tuple[int, ...]],
    project: Project,
) -> dict[str, xr.Variable]:
    """Return the coordinates of setups that form a grid."""
    shape = tuple(map(len, kinds.values()))
    ids, names = np.zeros(shape, np.int64), np.full(shape, None)
    for setup, place in zip(setups, places, strict=True):
        ids[place], names[place] = setup.id, setup.name or ""
    dims = tuple(kinds)
    coords = {"setup": xr.Variable(dims, ids)}
    if any(setup.name for setup in setups):
        flat = _strings([str(name) for name in names.ravel()])
        coords["setup_name"] = xr.Variable(dims, flat.reshape(shape))
    for kind in KINDS:
        if kind in kinds:
            called = [project.name_of(kind, number) for number in kinds[kind]]
            coords[f"{kind}_name"] = xr.Variable((kind,), _strings(called))
        elif kind in setups[0].attributes:
            number = setups[0].attributes[kind]
            coords[kind] = xr.Variable((), number)
            coords[f"{kind}_name"] = xr.Variable((), project.name_of(kind, number))
    return coords


def _along(
    dims: tuple[str, ...], setups: Sequence[ViewSetup], project: Project
) -> dict[str, xr.Variable]:
    """Return the coordinates of setups in a row, or of a single one."""

    def variable(values: Sequence[int] | Sequence[str]) -> xr.Variable:
        strings = all(isinstance(each, str) for each in values)
        array = _strings([str(each) for each in values]) if strings else np.array(values)
        return xr.Variable(dims, array if dims else array[0])

    coords = {"setup": variable([setup.id for setup in setups])}
    if any(setup.name for setup in setups):
        coords["setup_name"] = variable([setup.name or "" for setup in setups])
    for kind in KINDS:
        ids = [setup.attributes.get(kind) for setup in setups]
        if any(number is not None for number in ids):
            coords[kind] = variable([-1 if number is None else number for number in ids])
            called = ["" if n is None else project.name_of(kind, n) for n in ids]
            coords[f"{kind}_name"] = variable(called)
    return coords


def _strings(names: Sequence[str]) -> np.ndarray:
    """Return an array of strings; of objects if one long name would exhaust memory."""
    width = max(map(len, names), default=0)
    return np.array(names, object if width * len(names) > _WIDE else None)
