"""Where the samples of an array are, and where those of a target are, in one unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import xarray as xr

from xarray_n5.boxes.crop import coordinate_of
from xarray_n5.datasets.build import AXIS_UNITS
from xarray_n5.datasets.world import AFFINE, AXES, FRAME, placed_by_matrices
from xarray_n5.model.axes import ROUNDING
from xarray_n5.model.units import ratio, same_unit, written_unit

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import ArrayLike

Targets: TypeAlias = "Mapping[Hashable, ArrayLike | xr.DataArray]"
"""The coordinates of a result, by dimension."""

_NAME = "__placed__"


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where the samples of an array are."""

    samples: dict[str, np.ndarray]
    """The coordinates along each dimension that places its samples by itself."""
    units: dict[str, str | None]
    """The unit along each dimension with a position."""
    matrices: np.ndarray | None
    """The matrices from the samples to positions along z, y, x, if those place the samples; the
    dimensions of views come first."""
    dims: tuple[str, ...]
    """These dimensions."""

    @classmethod
    def of(cls, array: xr.DataArray, dataset: xr.Dataset | None = None) -> Placement:
        """Return where the samples of an array are.

        Parameters
        ----------
        array
            The array.
        dataset
            The Dataset that it is a variable of, which has the matrices of views.

        Raises
        ------
        ValueError
            If it is a view whose matrix is not known.
        """
        whole = array.to_dataset(name=_NAME) if dataset is None else dataset
        if not set(AXES) <= set(array.dims):
            _check_section(array)
            placed = None
        elif dataset is None or "affine" in whole.variables:
            placed = placed_by_matrices(whole)
        else:
            placed = placed_by_matrices(whole[[array.name]])
        units = {
            str(dim): written_unit(array.coords[dim].attrs.get("units"))
            for dim in array.dims
            if dim in array.coords
        }
        if placed is None:
            return cls({}, units, None, ())
        units |= dict.fromkeys(AXES, _unit_of_world(array, whole))
        dims, matrices = placed
        if (lines := _lines(matrices)) is None:
            return cls({}, units, matrices, dims)
        sizes = [array.sizes[axis] for axis in AXES]
        along = zip(AXES, lines, sizes, strict=True)
        samples = {axis: start + step * np.arange(n) for axis, (step, start), n in along}
        return cls(samples, units, None, ())

    def target(self, dim: str, given: Any) -> Target:
        """Return the coordinates that a user gave for a dimension; see :meth:`Target.of`."""
        if dim not in self.units:
            raise ValueError(
                f"the samples' dimension {dim!r} has no coordinates; assign some with "
                "assign_coords, in the unit of the target"
            )
        return Target.of(dim, given, self.units[dim])

    def coordinate(self, dim: str) -> xr.Variable:
        """Return the coordinate of samples that a matrix places along a dimension."""
        unit = self.units.get(dim)
        return xr.Variable((dim,), self.samples[dim], {"units": unit} if unit else {})

    def along(self, array: xr.DataArray, dim: str) -> np.ndarray:
        """Return the coordinates of samples along a dimension.

        Raises
        ------
        ValueError
            If they are not known, not numbers, or neither ascend nor descend.
        """
        return self.samples[dim] if dim in self.samples else coordinate_of(array, dim)[1]


def _check_section(array: xr.DataArray) -> None:
    """Raise ValueError if an array has lost a dimension that its matrix needs."""
    known = [axis for axis in AXES if axis in array.dims]
    in_view = any(array[axis].encoding.get(FRAME) for axis in known if axis in array.coords)
    if known and (in_view or AFFINE in array.attrs):
        lost = ", ".join(axis for axis in AXES if axis not in known)
        raise ValueError(
            f"a matrix places the samples along z, y, x, but the array has no dimension {lost}; "
            "select a section as a slice, such as isel(z=slice(5, 6))"
        )


def _unit_of_world(array: xr.DataArray, dataset: xr.Dataset) -> str | None:
    """Return the unit of the positions that matrices map to."""
    if "affine" in dataset.variables:
        return written_unit(dataset["affine"].attrs.get("units"))
    if AXIS_UNITS in array.encoding:
        units = dict(zip(array.dims, array.encoding[AXIS_UNITS], strict=False))
        return written_unit(units.get(AXES[-1]))
    x = array.coords.get(AXES[-1])
    return None if x is None else written_unit(x.attrs.get("units"))


def _lines(matrices: np.ndarray) -> list[tuple[float, float]] | None:
    """Return the step and the start along each axis, if matrices neither rotate nor differ."""
    matrix = matrices.reshape(-1, *matrices.shape[-2:])[0]
    linear = matrix[:, :-1]
    steps = np.diag(linear)
    rest = np.abs(linear - np.diag(steps)).max()
    if not (np.array_equal(matrices, np.broadcast_to(matrix, matrices.shape)) and steps.all()):
        return None
    return None if rest else list(zip(steps.tolist(), matrix[:, -1].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The coordinates of a result along a dimension."""

    coordinate: xr.Variable
    """That of the result."""
    values: np.ndarray
    """Its values in the unit of the source."""

    @classmethod
    def of(cls, dim: str, given: Any, unit: str | None) -> Target:
        """Return the coordinates that a user gave for a dimension of a source, which has a unit.

        Raises
        ------
        ValueError
            If they are not numbers along this dimension, or have another kind of unit.
        """
        is_labelled = isinstance(given, (xr.DataArray, xr.Variable))
        if is_labelled and given.dims not in {(), (dim,)}:
            raise ValueError(
                f"the target for {dim!r} has the dimensions {given.dims}; expected one, {dim!r}"
            )
        if is_labelled and isinstance(given, xr.DataArray) and given.encoding.get(FRAME):
            raise ValueError(
                f"the coordinate {dim!r} of the target is a distance in a view of a project, not a "
                "position; make a target with xarray_n5.world_grid"
            )
        values = np.asarray(given)
        if values.ndim > 1 or values.dtype.kind not in "iuf":
            raise ValueError(
                f"the target for {dim!r} has shape {values.shape} and type {values.dtype}; "
                "expected numbers along one dimension"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"the target for {dim!r} has coordinates that are not finite")
        attrs = dict(given.attrs) if is_labelled else {"units": unit} if unit else {}
        encoding = dict(given.encoding) if is_labelled else {}
        factor = factor_of(dim, attrs.get("units"), unit)
        dims = (dim,) if values.ndim else ()
        return cls(xr.Variable(dims, values, attrs, encoding), np.atleast_1d(values) * factor)


def factor_of(dim: str, unit: str | None, other: str | None) -> float:
    """Return the factor that converts the unit of a target to that of a source."""
    unit, other = written_unit(unit), written_unit(other)
    if same_unit(unit, other):
        return 1.0
    factor = ratio(unit, other)
    if factor is None:
        target, source = (f"in {u!r}" if u else "without a unit" for u in (unit, other))
        raise ValueError(
            f"the target for {dim!r} is {target}, but the samples are {source}; set the attribute "
            "'units' of its coordinate"
        )
    return factor


def inverse(matrices: np.ndarray) -> np.ndarray:
    """Return the inverse of matrices of n rows of n + 1; NaN for those that are not finite.

    Raises
    ------
    ValueError
        If one is singular.
    """
    square = np.zeros((*matrices.shape[:-2], *(matrices.shape[-1:] * 2)))
    square[..., :-1, :] = matrices
    square[..., -1, -1] = 1
    known = np.isfinite(square).all((-2, -1))
    square[~known] = np.nan
    try:
        square[known] = np.linalg.inv(square[known])
    except np.linalg.LinAlgError as error:
        raise ValueError("the affine of a view cannot be inverted: it is singular") from error
    return square[..., :-1, :]


def are_equal(samples: np.ndarray, targets: np.ndarray) -> bool:
    """Return whether targets are at all of the samples, up to rounding."""
    if samples.shape != targets.shape:
        return False
    near = ROUNDING * float(np.abs(np.diff(samples)).min(initial=np.inf)) if samples.size > 1 else 0
    return bool((np.abs(samples - targets) <= near).all())
