"""Convert Datasets to registrations: the transforms of views to the positions of their samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.bdv.coordinates import VOXEL, VOXEL_UNIT, WORLD
from xarray_n5.bdv.images import PROJECT
from xarray_n5.bdv.project import CALIBRATION, NDIM, Registration, Transform
from xarray_n5.datasets.world import AFFINE, AXES, WORLD_SYSTEM, placed_by_matrices, within
from xarray_n5.dialects.lists import as_tuples, in_c_order
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import ROUNDING
from xarray_n5.model.units import ratio, same_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.bdv.loaders import ViewId
    from xarray_n5.bdv.project import Project
    from xarray_n5.model.axes import Axis


@dataclass(frozen=True, kw_only=True)
class DatasetPositions:
    """The positions of a Dataset's samples, and the size of a unit of the world."""

    dataset: xr.Dataset
    voxel_size: tuple[float, ...] | None
    """The voxel size along z, y, x."""
    unit: str | None
    """The unit of the voxel size."""
    matrices: xr.DataArray
    """The matrices from samples to positions, in the unit of the world."""
    world: tuple[float, ...]
    """The size of a unit of the world along z, y, x."""
    calibrated: bool
    """Whether the first step of a registration is a calibration."""

    @classmethod
    def of(cls, dataset: xr.Dataset, before: Project | None) -> DatasetPositions:
        """Return the positions of a Dataset's samples.

        Parameters
        ----------
        dataset
            The base level of an image.
        before
            The project that the views are added to, whose world they share.

        Raises
        ------
        MetadataError
            If coordinates are not evenly spaced, or their units cannot be converted.
        """
        axes = _axes(dataset)
        size, unit = _voxel_size(dataset, axes)
        facts = dataset["affine"].attrs if "affine" in dataset.variables else {}
        matrices, of_places = _matrices(dataset, axes, unit)
        basis = facts.get("world_unit", "calibration")
        world = tuple(facts.get(WORLD, (min(size or (1.0,)),) * NDIM))
        wanted = of_places if WORLD in facts else unit
        if before is not None and before.registrations and before.world.basis != "unknown":
            world, basis = before.world.scale[::-1], before.world.basis
            wanted = before.world.unit
        if size is not None and (factor := _converted(unit, wanted)) != 1:
            size, unit = tuple(side * factor for side in size), wanted
        if (factor := _converted(of_places, wanted)) != 1:
            matrices = matrices * factor
        return cls(
            dataset=dataset,
            voxel_size=size,
            unit=unit,
            matrices=matrices,
            world=world,
            calibrated=basis == "calibration" and size is not None,
        )

    def registration(self, view: ViewId, position: Mapping[str, int]) -> Registration | None:
        """Return the registration of a view; None if its matrix is unknown.

        The one that the Dataset was opened with is kept, with its steps, if it is still the view's.
        """
        rows = _at(self.matrices, position)
        if not np.isfinite(rows).all():
            return None
        world = np.array(self.world)[:, None]
        total = rows / world
        if "registration" in self.dataset.variables:
            registered = self.dataset["registration"]
            stated = _at(registered, position)
            project = registered.encoding.get(PROJECT)
            known = None if project is None else project.registrations.get(view)
            if known is not None and not np.array_equal(in_c_order(stated), known.total):
                raise MetadataError(
                    "the coordinate 'registration' was changed, but it shows what was opened, and "
                    "is not written; change 'affine'"
                )
            if np.array_equal(stated * world, rows):
                if known is not None:
                    return Registration(known.transforms)
                total = stated
        return Registration(self._steps(np.array(in_c_order(total))))

    def _steps(self, total: np.ndarray) -> tuple[Transform, ...]:
        """Return a matrix as BigStitcher's steps: the movement, and the calibration before it."""
        if not self.calibrated or self.voxel_size is None:
            return (Transform("registration", as_tuples(total)),)
        scales = (np.array(self.voxel_size) / np.array(self.world))[::-1]
        calibration = Transform(CALIBRATION, as_tuples(np.eye(NDIM, NDIM + 1) * [*scales, 1.0]))
        rest = np.array(total)
        rest[:, :NDIM] = total[:, :NDIM] / scales
        if np.array_equal(rest, np.eye(NDIM, NDIM + 1)):
            return (calibration,)
        is_shift = np.allclose(rest[:, :NDIM], np.eye(NDIM), rtol=0, atol=ROUNDING)
        name = "Translation" if is_shift else "registration"
        return (Transform(name, as_tuples(rest)), calibration)


def _voxel_size(
    dataset: xr.Dataset, axes: Sequence[Axis | None]
) -> tuple[tuple[float, ...] | None, str | None]:
    """Return the size of a Dataset's voxels along z, y, x and its unit."""
    setup = dataset.coords.get("setup")
    stated = None if setup is None else setup.attrs.get(VOXEL)
    if setup is not None and stated is not None and "affine" in dataset.variables:
        steps = np.abs(np.diag(within(dataset)))[:NDIM]
        sizes = tuple((np.array(stated, float) * steps).tolist())
        return sizes, setup.attrs.get(VOXEL_UNIT)
    known = [axis for axis in axes if axis is not None]
    if not known:
        opened = setup is not None and PROJECT in setup.encoding
        return (None, None) if opened else ((1.0,) * NDIM, "pixel")
    unit = known[-1].unit
    return tuple(
        1.0 if axis is None else abs(axis.step) * _converted(axis.unit, unit) for axis in axes
    ), unit


def _axes(dataset: xr.Dataset) -> list[Axis | None]:
    """Return the axes z, y, x by their coordinates; None for those without any.

    Raises
    ------
    MetadataError
        If a coordinate is not evenly spaced.
    """
    axes = [axis_along(dataset, name) for name in AXES]
    for name, axis in zip(AXES, axes, strict=True):
        counts = axis is None or axis.placed or dataset[name].dtype.kind in "iu"
        if not counts or (axis is not None and axis.labels is not None):
            raise MetadataError(
                f"the coordinate {name!r} is not evenly spaced, but voxels of a project have one "
                f"size; resample the image, or drop the coordinate with drop_vars({name!r})"
            )
    return axes


def axis_along(data: xr.Dataset | xr.DataArray, name: str) -> Axis | None:
    """Return an axis by its coordinate; None if there is none.

    One that is not evenly spaced has no position, which users of this function check.
    """
    if name not in data.coords:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (axis,) = geometry_from(data.coords[name]).axes
    return axis


def _matrices(
    dataset: xr.Dataset, axes: Sequence[Axis | None], unit: str | None
) -> tuple[xr.DataArray, str | None]:
    """Return the matrices from samples to positions, and the unit of positions."""
    origins = [f"origin_{name}" for name in AXES if f"origin_{name}" in dataset.variables]
    if AFFINE in dataset.variables or not origins:
        try:
            placed = placed_by_matrices(dataset)
        except ValueError as error:
            raise MetadataError(str(error)) from error
        if placed is not None:
            dims, values = placed
            if AFFINE in dataset.variables:
                _warn_of_unit(dataset[AFFINE], unit)
                unit = dataset[AFFINE].attrs.get("units", unit)
            return xr.DataArray(values, dims=(*dims, "axis", "column")), unit
    scales, starts = np.ones(NDIM), []
    for row, (name, axis) in enumerate(zip(AXES, axes, strict=True)):
        start: Any = xr.DataArray(0.0)
        if f"origin_{name}" in origins:
            start = dataset[f"origin_{name}"].reset_coords(drop=True)
            start = start * _converted(start.attrs.get("units"), unit)
        if axis is not None:
            factor = _converted(axis.unit, unit)
            scales[row] = axis.step * factor
            start = start + axis.offset * factor
        starts.append(start)
    moved = xr.concat(xr.broadcast(*starts), "axis")
    dims = tuple(str(dim) for dim in moved.dims if dim != "axis")
    matrices = np.zeros((*(moved.sizes[dim] for dim in dims), NDIM, NDIM + 1))
    matrices[..., :NDIM] = np.diag(scales)
    matrices[..., NDIM] = moved.transpose(*dims, "axis").values
    return xr.DataArray(matrices, dims=(*dims, "axis", "column")), unit


def _warn_of_unit(affine: xr.DataArray, unit: str | None) -> None:
    """Warn if the world of a scene has no unit but its voxels have one, or the reverse."""
    system, stated = affine.attrs.get(WORLD_SYSTEM), affine.attrs.get("units")
    if system is not None and (stated is None) != (unit is None):
        warn(
            f"positions in {system!r} are in the unit {stated!r}, and voxel sizes in {unit!r}, but "
            "a project has one unit; set the units of 'affine', z, y and x"
        )


def _converted(unit: str | None, other: str | None) -> float:
    """Return the factor that converts one unit to another.

    Raises
    ------
    MetadataError
        If they cannot be converted.
    """
    if unit is None or other is None or same_unit(unit, other):
        return 1.0
    factor = ratio(unit, other)
    if factor is None:
        raise MetadataError(
            f"cannot convert lengths in {unit!r} and in {other!r} to the one unit of a project; "
            "convert the coordinates"
        )
    return factor


def _at(several: xr.DataArray, position: Mapping[str, int]) -> np.ndarray:
    """Return the matrix of a view; one without its dimensions applies to all views."""
    one = several.isel({dim: n for dim, n in position.items() if dim in several.dims})
    matrix: np.ndarray = np.asarray(one.transpose("axis", "column").values, np.float64)
    return matrix
