"""Transform samples to world positions and back, by affine matrices or coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.model.system_graph import SYSTEM, SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import xarray as xr
    from numpy.typing import ArrayLike

AXES = ("z", "y", "x")

START, STEP = "coordinates_start", "coordinates_step"
"""Attributes of matrices: the first coordinates of the level's samples along z, y, x, and the
steps, which identify the samples of a crop."""

AFFINE = "affine"
"""The attribute of variables, and the coordinate of views, for matrices."""

AFFINE_SIZES = "affine_sizes"
"""The encoding's key for the sizes of the dimensions that the matrix in the attributes is for."""

FRAME = "frame"
"""The encoding's key for coordinates that are distances in a view, not world positions."""

WORLD_SYSTEM, WORLD_SYSTEMS = "system", "systems"
"""Attributes of matrices of scenes: the coordinate system that they lead to, and all that there are
matrices for. The first is that of `AFFINE`."""

_FINE = 1024
"""Positions of coarsened samples are multiples of one over this, up to rounding."""

_NEAR = 1e-6


def to_world(dataset: xr.Dataset, points: ArrayLike, system: str | None = None) -> np.ndarray:
    """Return the positions of samples; see `ds.n5.to_world`."""
    matrices = _matrices(dataset) if system is None else _to_system(dataset, system)
    positions = _points(points, matrices.shape[-1] - 1)
    flat = positions.reshape(-1, positions.shape[-1])
    linear, offset = matrices[..., :-1], matrices[..., -1]
    moved: np.ndarray = flat @ np.swapaxes(linear, -1, -2) + offset[..., None, :]
    return moved.reshape(*matrices.shape[:-2], *positions.shape[:-1], moved.shape[-1])


def from_world(dataset: xr.Dataset, points: ArrayLike, system: str | None = None) -> np.ndarray:
    """Return the samples at positions; see `ds.n5.from_world`."""
    matrices = _matrices(dataset) if system is None else _to_system(dataset, system)
    places = _points(points, matrices.shape[-2])
    flat = places.reshape(-1, places.shape[-1])
    linear, offset = matrices[..., :-1], matrices[..., -1]
    try:
        samples = np.linalg.solve(linear, np.swapaxes(flat - offset[..., None, :], -1, -2))
    except np.linalg.LinAlgError as error:
        what = "of a view" if system is None else f"to {system!r}"
        raise ValueError(f"the affine {what} cannot be inverted: it is singular") from error
    return np.swapaxes(samples, -1, -2).reshape(*matrices.shape[:-2], *places.shape)


def _to_system(dataset: xr.Dataset, system: str) -> np.ndarray:
    """Return the matrix from samples to positions in a coordinate system of the image.

    Raises
    ------
    ValueError
        If the data do not have it.
    """
    placed_in = _placed_in(dataset)
    if system in placed_in:
        return _matrices(dataset, placed_in[system])
    known: dict[str, Any] = {}
    for variable in dataset.data_vars.values():
        known |= variable.encoding.get(SYSTEMS) or {}
        if intrinsic := variable.encoding.get(SYSTEM):
            dims = [axis for axis in AXES if axis in dataset.coords]
            known[intrinsic] = {"dims": dims, AFFINE: np.eye(len(dims), len(dims) + 1)}
    if system not in known:
        names = ", ".join(map(repr, {**placed_in, **known})) or "none"
        raise ValueError(
            f"there is no coordinate system {system!r}, expected one of: {names}. Images of "
            "OME-Zarr 0.6 as they were opened have them in the encoding; computed arrays do not"
        )
    placed = known[system]
    dims = list(placed["dims"])
    missing = [dim for dim in dims if dim not in dataset.coords]
    if missing:
        raise ValueError(
            f"there are no coordinates {', '.join(missing)}, by which {system!r} is computed; keep "
            "the coordinates of the image"
        )
    rows = np.asarray(placed[AFFINE], np.float64)
    matrix: np.ndarray = rows[:, :-1] @ _of_lines(dataset, dims)
    matrix[:, -1] += rows[:, -1]
    return matrix


def _points(points: ArrayLike, ndim: int) -> np.ndarray:
    numbers = np.asarray(points, np.float64)
    if numbers.ndim == 0 or numbers.shape[-1] != ndim:
        names = ", ".join(AXES[-ndim:])
        raise ValueError(
            f"expected points of shape (..., {ndim}), for {names}, got {numbers.shape}"
        )
    return numbers


def in_view(dataset: xr.Dataset, dims: Iterable[str] = AXES) -> list[str]:
    """Return the axes among `dims` whose coordinates are distances in a view."""
    known = [axis for axis in AXES if axis in dims and axis in dataset.coords]
    return [axis for axis in known if dataset[axis].encoding.get(FRAME)]


def is_placed(dataset: xr.Dataset) -> bool:
    """Return whether a Dataset has, or had, matrices of the positions of its images."""
    return AFFINE in dataset.variables or bool(in_view(dataset))


def are_apart(dataset: xr.Dataset, dims: Iterable[str]) -> bool:
    """Return whether coordinates along `dims` are distances in views that are somewhere else."""
    axes = in_view(dataset, dims)
    origins = [f"origin_{axis}" for axis in axes]
    if all(name in dataset.coords for name in origins):
        return any(np.abs(dataset[name]).max() > _NEAR for name in origins)
    if AFFINE not in dataset.variables:
        return True
    rows = _matrices(dataset)
    for axis in (axis for axis in axes if dataset.sizes[axis]):
        row, (first, step) = AXES.index(axis), _line(dataset[axis].values)
        wanted = np.zeros(rows.shape[-1])
        wanted[[row, -1]] = step, first
        of_views = rows[..., row, :].copy()
        if dataset.sizes[axis] == 1:
            of_views[..., row] = step  # unknown
        if not np.allclose(of_views[~np.isnan(of_views).any(-1)], wanted, atol=_NEAR):
            return True
    return False


def placed_by_matrices(dataset: xr.Dataset) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Return the matrices from samples to positions, and the dimensions of views that they have.

    Returns None if coordinates alone place the samples.

    Raises
    ------
    ValueError
        If the coordinates are distances in a view, and its matrix is lost.
    """
    dims: tuple[str, ...] = ()
    if "affine" in dataset.variables:
        dims = tuple(str(dim) for dim in dataset["affine"].dims if dim not in {"axis", "column"})
    elif any(AFFINE in image.attrs for image in dataset.data_vars.values()):
        if _stored_matrix(dataset) is None:
            return None
    elif in_view(dataset):
        if all(f"origin_{axis}" in dataset.coords for axis in AXES):
            dims = tuple(map(str, dataset[f"origin_{AXES[0]}"].dims))
    else:
        return None
    return dims, _matrices(dataset)


def _placed_in(dataset: xr.Dataset) -> dict[str, str]:
    """Return the systems of a scene that the Dataset has matrices for, and their names."""
    return {
        str(variable.attrs[WORLD_SYSTEM]): str(name)
        for name, variable in dataset.variables.items()
        if str(name).startswith(AFFINE) and WORLD_SYSTEM in variable.attrs
    }


def _matrices(dataset: xr.Dataset, name: str = AFFINE) -> np.ndarray:
    """Return the matrices from samples of the Dataset to positions, the view's dimensions first."""
    if name in dataset.variables:
        affine = dataset[name]
        if "axis" in affine.coords:
            affine = affine.sel(axis=list(AXES))
        stored = np.asarray(affine.transpose(..., "axis", "column").values, np.float64)
        _check_origins(dataset)
        rows: np.ndarray = stored @ within(dataset)
        return rows
    if (matrix := _stored_matrix(dataset)) is not None:
        return matrix
    missing = [axis for axis in AXES if axis not in dataset.coords]
    if missing:
        raise ValueError(
            f"there is no affine, and no coordinates {', '.join(missing)}; open the data with "
            "the XML that describes them, or keep their coordinates"
        )
    return _by_coordinates(dataset)


def _stored_matrix(dataset: xr.Dataset) -> np.ndarray | None:
    """Return the matrix in a variable's attributes, or None."""
    for variable in dataset.data_vars.values():
        numbers = np.asarray(variable.attrs.get(AFFINE, ()))
        if numbers.shape == (len(AXES) * (len(AXES) + 1),):
            _check_whole(variable)
            return numbers.astype(np.float64).reshape(len(AXES), -1)
    return None


def _check_whole(variable: xr.DataArray) -> None:
    """Raise ValueError if an array is a selection of that which its matrix places.

    There are no coordinates that show which one.
    """
    sizes = variable.encoding.get(AFFINE_SIZES, {})
    if any(variable.sizes.get(dim, size) != size for dim, size in sizes.items() if dim in AXES):
        raise ValueError(
            f"the matrix of {variable.name!r} is for samples {sizes}, of which this is a selection "
            f"{dict(variable.sizes)} without coordinates: its place is not known. Transform or "
            "interpolate the whole array, and select from the result"
        )


def _by_coordinates(dataset: xr.Dataset) -> np.ndarray:
    """Return the matrices of coordinates, which may count from the origins of views."""
    origins: list[xr.DataArray] = []
    if in_view(dataset):
        names = [f"origin_{axis}" for axis in AXES]
        if not {*names} <= {*dataset.coords}:
            raise ValueError(
                "the coordinates are distances in a view, whose position is in 'affine', a "
                "coordinate of the Dataset that was opened; use the methods of its accessor n5"
            )
        origins = [dataset[name] for name in names]
    matrix = _of_lines(dataset, AXES)
    matrices = np.tile(matrix, (*(origins[0].shape if origins else ()), 1, 1))
    for row, origin in enumerate(origins):
        matrices[..., row, -1] += origin.values
    return matrices


def _of_lines(dataset: xr.Dataset, dims: Sequence[str]) -> np.ndarray:
    """Return the matrix from samples to coordinates along some dimensions."""
    matrix = np.zeros((len(dims), len(dims) + 1))
    for row, dim in enumerate(dims):
        matrix[row, -1], matrix[row, row] = _line(dataset[dim].values)
    return matrix


def within(dataset: xr.Dataset) -> np.ndarray:
    """Return the matrix from samples of the Dataset to those of the level that it is part of."""
    matrix, facts = np.eye(len(AXES) + 1), dataset["affine"].attrs
    lists: Any = [numbers for numbers in map(facts.get, (START, STEP)) if isinstance(numbers, list)]
    if [len(numbers) for numbers in lists] != [len(AXES)] * 2:
        return matrix
    for row, (dim, start, step) in enumerate(zip(AXES, *lists, strict=True)):
        if dim in dataset.coords and dataset[dim].size:
            first, distance = _line(dataset[dim].values)
            matrix[row, -1] = _exact((first - start) / step)
            matrix[row, row] = _exact(distance / step) if dataset[dim].size > 1 else 1.0
    return matrix


def _check_origins(dataset: xr.Dataset) -> None:
    """Raise ValueError if the two positions of a view differ, since one of them was changed.

    They are the matrix and, where coordinates are distances in a view, its origin.
    """
    affine = dataset[AFFINE]
    units, starts = affine.attrs.get("units"), affine.attrs.get(START)
    for axis in in_view(dataset):
        row, name = AXES.index(axis), f"origin_{axis}"
        if name not in dataset.coords or units not in {None, dataset[name].attrs.get("units")}:
            continue
        start = starts[row] if isinstance(starts, list) else dataset[axis].values.flat[0]
        rows = affine.sel(axis=axis) if "axis" in affine.coords else affine.isel(axis=row)
        apart = rows.isel(column=-1, drop=True) - start - dataset[name]
        if (abs(apart) > _NEAR * (1 + abs(dataset[name]))).any():
            origins, matrices = [f"origin_{dim}" for dim in AXES], [AFFINE, "registration"]
            raise ValueError(
                f"'affine' and {name!r} place a view {float(abs(apart).max()):g} apart; drop what "
                f"is out of date, by drop_vars({matrices}) or drop_vars({origins})"
            )


def _line(values: np.ndarray) -> tuple[float, float]:
    """Return the first coordinate, and the step."""
    numbers = np.atleast_1d(np.asarray(values, np.float64))
    if numbers.size == 1:
        return float(numbers[0]), 1.0
    return float(numbers[0]), float(numbers[-1] - numbers[0]) / (numbers.size - 1)


def _exact(number: float) -> float:
    """Return a number without rounding errors, if it is one that indexing can produce."""
    near = round(number * _FINE) / _FINE
    return near if abs(near - number) <= _NEAR else number
