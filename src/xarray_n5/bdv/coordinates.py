"""The coordinates of an image's views: ids and names of setups, positions, and matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from xarray_n5.bdv.loaders import ViewId
from xarray_n5.bdv.project import KINDS, NDIM
from xarray_n5.datasets.placed import matrices
from xarray_n5.datasets.world import AXES
from xarray_n5.dialects.lists import axes_at_level, in_c_order, per_axis
from xarray_n5.model.axes import ROUNDING, Axis, Geometry, centre_shift
from xarray_n5.model.units import written_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.bdv.project import Project, ViewSetup

Arrangement = Literal["grid", "flat"]
"""A dimension for each attribute of setups that differs, or one dimension of setups."""

_WIDE = 1 << 20
"""The maximum number of characters in an array of names; more are an array of objects."""

WORLD = "world_scale"
"""Attribute of matrices: the size of a unit of BigDataViewer's world along z, y, x."""

VOXEL, VOXEL_UNIT = "voxel_size", "voxel_unit"
"""Attributes of the coordinate of setups: the size of the level's voxels along z, y, x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSelection:
    """The views of a project that are opened."""

    timepoints: tuple[int, ...]
    setups: tuple[int, ...]
    single_timepoint: bool = False
    """Whether the only time point is a coordinate instead of a dimension."""
    single_setup: bool = False
    arrangement: Arrangement | None = None
    """By default a grid, if the setups form one with more than one sample."""


@dataclass(frozen=True, slots=True)
class StackedAxes:
    """The stacked axes of an image, and the position of each view along them."""

    dims: tuple[str, ...]
    numbers: tuple[tuple[int, ...], ...]
    """The ids along each dimension."""
    positions: Mapping[ViewId, tuple[int, ...]]
    coords: Mapping[str, xr.Variable]
    """Ids and names of setups, and of their channels, tiles, angles and illuminations."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(map(len, self.numbers))


def arrange(project: Project, selection: ViewSelection) -> StackedAxes:
    """Return the stacked axes of an image of all selected views.

    Raises
    ------
    ValueError
        If a grid is required, and the setups do not form one.
    """
    timepoints, arrangement = selection.timepoints, selection.arrangement
    setups = [project.setups[number] for number in selection.setups]
    kinds = _grid(setups)
    if arrangement == "grid" and kinds is None and not selection.single_setup:
        raise ValueError(
            f"the {len(setups)} setups do not form a grid of channels, tiles, angles and "
            "illuminations; use setups='flat'"
        )
    dims: dict[str, tuple[int, ...]] = {}
    coords: dict[str, xr.Variable] = {}
    if selection.single_timepoint:
        coords["t"] = xr.Variable((), timepoints[0])
        rows: list[tuple[int, ...]] = [()]
    else:
        dims["t"] = timepoints
        rows = [(row,) for row in range(len(timepoints))]
    of_setups: dict[str, tuple[int, ...]] = {}
    places: list[tuple[int, ...]] = [()]
    if kinds is not None and (kinds or arrangement == "grid") and arrangement != "flat":
        of_setups = kinds
        places = [tuple(ids.index(s.attributes[k]) for k, ids in kinds.items()) for s in setups]
    elif not selection.single_setup:
        of_setups = {"setup": selection.setups}
        places = [(place,) for place in range(len(setups))]
    dims |= of_setups
    coords |= _coords(of_setups, setups, places, project)
    positions = {
        ViewId(time, setup.id): (*row, *place)
        for time, row in zip(timepoints, rows, strict=True)
        for setup, place in zip(setups, places, strict=True)
    }
    return StackedAxes(tuple(dims), tuple(dims.values()), positions, coords)


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


def _coords(
    dims: Mapping[str, tuple[int, ...]],
    setups: Sequence[ViewSetup],
    places: Sequence[tuple[int, ...]],
    project: Project,
) -> dict[str, xr.Variable]:
    """Return the ids and names of setups, and of their channels, tiles, angles, illuminations.

    Parameters
    ----------
    dims
        The dimensions of setups: "setup", those that differ in a grid, or none.
    setups, places
        The setups, and their positions along these.
    project
        The project.
    """
    shape = tuple(map(len, dims.values()))
    ids, names = np.zeros(shape, np.int64), np.full(shape, "", object)
    for setup, place in zip(setups, places, strict=True):
        ids[place], names[place] = setup.id, setup.name or ""
    coords = {"setup": xr.Variable(tuple(dims), ids)}
    if any(setup.name for setup in setups):
        coords["setup_name"] = xr.Variable(tuple(dims), _strings(names))
    for kind in KINDS:
        along = tuple(dim for dim in dims if dim in {kind, "setup"})
        several = setups if along else setups[:1]
        listed: Sequence[int | None] = [setup.attributes.get(kind) for setup in several]
        numbers = dims.get(kind, listed)
        if all(number is None for number in numbers):
            continue
        called = ["" if n is None else project.name_of(kind, n) for n in numbers]
        known = [-1 if number is None else number for number in numbers]
        of_kind = {f"{kind}_name": _strings(np.array(called, object)), kind: np.array(known)}
        for name, values in of_kind.items():
            if name not in dims:
                coords[name] = xr.Variable(along, values if along else values[0])
    return coords


def _strings(names: np.ndarray) -> np.ndarray:
    """Return an array of strings; of objects if one long name would exhaust memory."""
    width = max(map(len, names.flat), default=0)
    return names if width * names.size > _WIDE else names.astype(str)


def positions_of(
    project: Project,
    stacked: StackedAxes,
    stored: Sequence[ViewId],
    factors: tuple[float, ...] | None,
    setup: ViewSetup,
) -> tuple[Geometry, dict[str, xr.Variable], bool]:
    """Return an image's axes at a level, more coordinates, and whether they are in the world.

    The coordinates are those of the world, in physical units, if all views share one scale and
    offset; if they only share the scale, coordinates begin at 0, and origins position the views;
    otherwise they are samples times the voxel size. The matrices are always exact.

    Parameters
    ----------
    project, stacked
        The project, and the image's other axes.
    stored
        The existing views, which determine the kind of coordinates.
    factors
        The factors of the level along z, y, x.
    setup
        One of the setups, whose voxel sizes are equal.
    """
    world = project.world
    known = {view: placed[0] for view in stacked.positions if (placed := project.physical(view))}
    size, unit = setup.voxel_size, setup.unit
    coords: dict[str, xr.Variable] = {}
    shared = _shared_scale([known.get(view) for view in stored])
    source = "ViewRegistration of the XML"
    offsets: np.ndarray = np.zeros(NDIM)
    if shared is not None:
        size, unit, offset = tuple(shared[0][::-1].tolist()), world.unit, shared[1]
        if offset is not None:
            offsets = offset
        else:
            coords |= _origins(known, stacked, written_unit(unit))
    else:
        source = "voxelSize of the XML"
    scales: tuple[float | None, ...] = (None,) * NDIM
    if factors is not None:
        scales = size[::-1] if size is not None else (1.0,) * NDIM
    axes = axes_at_level(
        AXES[::-1],
        (unit if size is not None else None,) * NDIM,
        scales,
        None if factors is None else factors[::-1],
        offsets.tolist() if factors is not None else None,
    )
    lines = axes if all(axis.scale for axis in axes) else ()
    coords |= _matrices(project, known, stacked, factors, lines)
    in_world = not known or (shared is not None and shared[1] is not None)
    kinds: dict[str, Any] = {"t": "time", "channel": "channel"}
    outer = tuple(Axis(name=dim, kind=kinds.get(dim)) for dim in stacked.dims)
    sources = dict.fromkeys(("names", "units", "scale", "offset"), f"bdv: {source}")
    return Geometry((*outer, *axes), sources, dialects=("bdv",)), coords, in_world


def _shared_scale(
    matrices: Sequence[np.ndarray | None],
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return the scale that views share, x y z, and the offset if they share it, too."""
    scales, offsets = [], []
    for rows in matrices:
        split = None if rows is None else per_axis(rows)
        if split is None or min(split[0]) <= 0:
            return None
        scales.append(split[0])
        offsets.append(split[1])
    if not scales or not np.allclose(scales, scales[0], rtol=ROUNDING, atol=0):
        return None
    scale, offset = np.array(scales[0]), np.array(offsets[0])
    near = np.abs(np.array(offsets) - offset) <= ROUNDING * np.maximum(scale, np.abs(offset))
    return scale, (offset if near.all() else None)


def _matrices(
    project: Project,
    known: Mapping[ViewId, np.ndarray],
    stacked: StackedAxes,
    factors: tuple[float, ...] | None,
    axes: Sequence[Axis],
) -> dict[str, xr.Variable]:
    """Return the matrices of views as they are registered, and those of the level's samples."""
    if not known:
        return {}
    world, dims = project.world, stacked.dims
    registered = np.full((*stacked.shape, NDIM, NDIM + 1), np.nan)
    for view in known:
        registered[stacked.positions[view]] = in_c_order(project.registrations[view].total)
    facts: dict[str, Any] = {
        "long_name": "from samples of the base level to BigDataViewer's world, as registered"
    }
    variables = matrices("registration", dims, registered, facts)
    if factors is None:
        return variables
    level = np.diag([*factors, 1.0])
    level[:NDIM, NDIM] = [centre_shift(1.0, factor) for factor in factors]
    affine = np.full_like(registered, np.nan)
    for view, rows in known.items():
        affine[stacked.positions[view]] = in_c_order(rows)
    if any(factor != 1 for factor in factors):
        affine = affine @ level
    facts = {"long_name": "from samples of this level to positions", "world_unit": world.basis}
    facts |= {WORLD: list(world.scale[::-1])}
    unit = written_unit(world.unit)
    facts |= {"units": unit} if unit else {}
    return {**variables, **matrices("affine", dims, affine, facts, axes)}


def _origins(
    known: Mapping[ViewId, np.ndarray], stacked: StackedAxes, unit: str | None
) -> dict[str, xr.Variable]:
    """Return the position of sample 0 of the base level of each view."""
    values = np.full((NDIM, *stacked.shape), np.nan)
    for view, rows in known.items():
        for of_axis, offset in zip(values, rows[::-1, NDIM], strict=True):
            of_axis[stacked.positions[view]] = offset
    dims = stacked.dims
    if "t" in dims:
        least, most = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
        if np.array_equal(least, most, equal_nan=True):
            values, dims = least, dims[1:]
    facts = {"long_name": "position of the view's first sample"} | ({"units": unit} if unit else {})
    return {
        f"origin_{axis}": xr.Variable(dims, of_axis, facts)
        for axis, of_axis in zip(AXES, values, strict=True)
    }
