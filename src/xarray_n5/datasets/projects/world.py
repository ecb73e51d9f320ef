"""Lead positions of samples to places and back, by the affine matrices or the coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.datasets.projects.places import AXES, START, STEP

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import ArrayLike

_FINE = 1024
"""Positions of coarsened samples are multiples of one over this, within rounding."""

_NEAR = 1e-6


def to_world(dataset: xr.Dataset, points: ArrayLike) -> np.ndarray:
    """Return the places of samples; see :meth:`DatasetAccessor.to_world`."""
    matrices, positions = _matrices(dataset), _points(points)
    flat = positions.reshape(-1, len(AXES))
    linear, offset = matrices[..., :-1], matrices[..., -1]
    found: np.ndarray = flat @ np.swapaxes(linear, -1, -2) + offset[..., None, :]
    return found.reshape(*matrices.shape[:-2], *positions.shape)


def from_world(dataset: xr.Dataset, points: ArrayLike) -> np.ndarray:
    """Return the samples at places; see :meth:`DatasetAccessor.from_world`."""
    matrices, places = _matrices(dataset), _points(points)
    flat = places.reshape(-1, len(AXES))
    linear, offset = matrices[..., :-1], matrices[..., -1]
    try:
        found = np.linalg.solve(linear, np.swapaxes(flat - offset[..., None, :], -1, -2))
    except np.linalg.LinAlgError as error:
        raise ValueError("the affine of a view cannot be inverted: it is flat") from error
    return np.swapaxes(found, -1, -2).reshape(*matrices.shape[:-2], *places.shape)


def _points(points: ArrayLike) -> np.ndarray:
    found = np.asarray(points, np.float64)
    if found.ndim == 0 or found.shape[-1] != len(AXES):
        raise ValueError(f"expected points of shape (..., 3), for z, y and x, got {found.shape}")
    return found


def _matrices(dataset: xr.Dataset) -> np.ndarray:
    """Return the matrices from samples of the Dataset to places, the dimensions of views first."""
    if "affine" in dataset.variables:
        affine = dataset["affine"]
        if "axis" in affine.coords:
            affine = affine.sel(axis=list(AXES))
        stored = np.asarray(affine.transpose(..., "axis", "column").values, np.float64)
        rows: np.ndarray = stored @ _within(dataset, affine.attrs)
        return rows
    missing = [axis for axis in AXES if axis not in dataset.coords]
    if missing:
        raise ValueError(
            f"the Dataset has no affine, and no coordinates {', '.join(missing)}: open it as a "
            "project, or keep its coordinates"
        )
    found = np.zeros((len(AXES), len(AXES) + 1))
    for row, axis in enumerate(AXES):
        found[row, -1], found[row, row] = _line(dataset[axis].values)
    return found


def _within(dataset: xr.Dataset, facts: dict[str, object]) -> np.ndarray:
    """Return the matrix from samples of the Dataset to those of the level that it is a part of."""
    found = np.eye(len(AXES) + 1)
    starts, steps = facts.get(START), facts.get(STEP)
    if not isinstance(starts, list) or not isinstance(steps, list):
        return found
    for row, (axis, start, step) in enumerate(zip(AXES, starts, steps, strict=True)):
        if axis in dataset.coords and dataset[axis].size:
            first, distance = _line(dataset[axis].values)
            found[row, -1] = _exact((first - start) / step)
            found[row, row] = _exact(distance / step) if dataset[axis].size > 1 else 1.0
    return found


def _line(values: np.ndarray) -> tuple[float, float]:
    """Return the first coordinate, and the distance between two."""
    numbers = np.atleast_1d(np.asarray(values, np.float64))
    if numbers.size == 1:
        return float(numbers[0]), 1.0
    return float(numbers[0]), float(numbers[-1] - numbers[0]) / (numbers.size - 1)


def _exact(number: float) -> float:
    """Return a number without rounding errors, if it is one that indexing can lead to."""
    near = round(number * _FINE) / _FINE
    return near if abs(near - number) <= _NEAR else number
