"""The positions of views: coordinates of z, y and x, origins, and affine matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.datasets.world import AXES, START, STEP
from xarray_n5.dialects.pyramids import axes_at_level
from xarray_n5.dialects.transforms import per_axis
from xarray_n5.model.axes import centre_shift
from xarray_n5.model.units import written_unit
from xarray_n5_bdv.registrations import NDIM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.model.axes import Axis
    from xarray_n5_bdv.loaders import View
    from xarray_n5_bdv.project import Project, ViewSetup
    from xarray_n5_bdv.stack_axes import Outer

COLUMNS = (*AXES, "1")
"""The columns of matrices: of samples along z, y, x, and the constants."""

WORLD = "world_scale"
"""Attribute of matrices: the size of a unit of BigDataViewer's world along z, y, x."""

VOXEL, VOXEL_UNIT = "voxel_size", "voxel_unit"
"""Attributes of the coordinate of setups: the size of the level's voxels along z, y, x."""

_SAME = 1e-9
"""The relative difference up to which numbers are equal, for rounding."""


@dataclass(frozen=True, slots=True)
class Places:
    """The axes z, y, x of an image's level, and more coordinates."""

    axes: tuple[Axis, ...]
    coords: Mapping[str, xr.Variable]
    source: str
    """The source of the axes."""
    in_world: bool
    """Whether coordinates are world positions, or distances in a view."""


def places_of(
    project: Project,
    outer: Outer,
    stored: Sequence[View],
    factors: tuple[float, ...] | None,
    setup: ViewSetup,
) -> Places:
    """Return the positions of an image's samples at a level.

    The coordinates are those of the world, in physical units, if all views share one scale and
    offset; if they only share the scale, coordinates begin at 0, and origins position the views;
    otherwise they are samples times the voxel size. The matrices are always exact.

    Parameters
    ----------
    project, outer
        The project, and the image's other dimensions.
    stored
        The existing views, which determine the kind of coordinates.
    factors
        The factors of the level along z, y, x.
    setup
        One of the setups, whose voxel sizes are equal.
    """
    world = project.world
    known = {view: found[0] for view in outer.positions if (found := project.physical(view))}
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
            coords |= _origins(known, outer, written_unit(unit))
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
    coords |= _matrices(project, known, outer, factors)
    if "affine" in coords and all(axis.scale for axis in axes):
        coords["affine"].attrs[START] = [axis.offset for axis in axes]
        coords["affine"].attrs[STEP] = [axis.step for axis in axes]
    in_world = not known or (shared is not None and shared[1] is not None)
    return Places(axes, coords, source, in_world)


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
    if not scales or not np.allclose(scales, scales[0], rtol=_SAME, atol=0):
        return None
    scale, offset = np.array(scales[0]), np.array(offsets[0])
    near = np.abs(np.array(offsets) - offset) <= _SAME * np.maximum(scale, np.abs(offset))
    return scale, (offset if near.all() else None)


def _matrices(
    project: Project,
    known: Mapping[View, np.ndarray],
    outer: Outer,
    factors: tuple[float, ...] | None,
) -> dict[str, xr.Variable]:
    """Return the matrices of views as they are registered, and those of the level's samples."""
    if not known:
        return {}
    world, dims = project.world, (*outer.dims, "axis", "column")
    registered = np.full((*outer.shape, NDIM, NDIM + 1), np.nan)
    for view in known:
        registered[outer.positions[view]] = _in_c_order(project.registrations[view].total)
    facts: dict[str, Any] = {
        "long_name": "from samples of the base level to BigDataViewer's world, as registered"
    }
    found = {
        "axis": xr.Variable(("axis",), list(AXES)),
        "column": xr.Variable(("column",), list(COLUMNS)),
        "registration": xr.Variable(dims, registered, facts),
    }
    if factors is None:
        return found
    level = np.diag([*factors, 1.0])
    level[:NDIM, NDIM] = [centre_shift(1.0, factor) for factor in factors]
    affine = np.full_like(registered, np.nan)
    for view, rows in known.items():
        affine[outer.positions[view]] = _in_c_order(rows)
    if any(factor != 1 for factor in factors):
        affine = affine @ level
    facts = {"long_name": "from samples of this level to positions", "world_unit": world.basis}
    facts |= {WORLD: list(world.scale[::-1])}
    unit = written_unit(world.unit)
    facts |= {"units": unit} if unit else {}
    return {**found, "affine": xr.Variable(dims, affine, facts)}


def _origins(
    known: Mapping[View, np.ndarray], outer: Outer, unit: str | None
) -> dict[str, xr.Variable]:
    """Return the position of sample 0 of the base level of each view."""
    values = np.full((NDIM, *outer.shape), np.nan)
    for view, rows in known.items():
        for own, offset in zip(values, rows[::-1, NDIM], strict=True):
            own[outer.positions[view]] = offset
    dims = outer.dims
    if "t" in dims:
        least, most = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
        if np.array_equal(least, most, equal_nan=True):
            values, dims = least, dims[1:]
    facts = {"long_name": "position of the view's first sample"} | ({"units": unit} if unit else {})
    return {
        f"origin_{axis}": xr.Variable(dims, own, facts)
        for axis, own in zip(AXES, values, strict=True)
    }


def _in_c_order(rows: np.ndarray) -> np.ndarray:
    """Convert a matrix for x, y, z to one for z, y, x."""
    return np.concatenate([rows[::-1, -2::-1], rows[::-1, -1:]], axis=1)
