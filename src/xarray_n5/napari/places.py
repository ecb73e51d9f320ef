"""The position of a layer: its scale and offset, or an affine matrix, and its units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.datasets.build import AXIS_UNITS
from xarray_n5.datasets.world import AFFINE, AXES, within
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.images.tree import Variable
    from xarray_n5.model.axes import Axis
    from xarray_n5.model.image import Image


def place_of(image: Image[Variable], selection: Mapping[str, int | slice]) -> dict[str, Any]:
    """Return the arguments that position a layer like the coordinates of the array.

    If only a matrix does, such as the registration of a view, it is ``affine``, and the scale is
    that of samples.

    Parameters
    ----------
    image
        The image, whose finest level is positioned.
    selection
        The index, or the slice, of the layer along some dimensions.

    Returns
    -------
    dict
        ``scale`` and ``translate``, or ``affine``; ``axis_labels``; ``units`` if any is known.
    """
    base = image.base.first.array
    part = base.isel(dict(selection))
    if is_lifted(image, selection):
        part = part.expand_dims(AXES[0], part.dims.index(AXES[1]))
    axes = geometry_from(part).axes
    stated = base.encoding.get(AXIS_UNITS) or [None] * base.ndim
    by_dim = dict(zip(base.dims, stated, strict=True))
    units = [axis.unit or by_dim.get(dim) for axis, dim in zip(axes, part.dims, strict=True)]
    matrix = _of_attributes(base, selection)
    views = _of_views(image, selection)
    if matrix is None and len(views):
        matrix = _matrix(axes)
        facts = image.base.first.dataset[AFFINE].attrs
        known = [at for at, name in enumerate(AXES) if name in part.dims]
        rows = [part.dims.index(AXES[at]) for at in known]
        matrix[np.ix_(rows, [*rows, -1])] = views[0][np.ix_(known, [*known, -1])]
        if np.linalg.matrix_rank(matrix) < len(matrix):  # a section needs the axis that it lost
            matrix = _matrix(axes)
        for row in rows:
            units[row] = facts.get("units", None if facts else units[row])
    placed = _transform(_matrix(axes) if matrix is None else matrix)
    placed["axis_labels"] = tuple(str(dim) for dim in part.dims)
    words = [unit_of(unit) for unit in units]
    if any(words):
        placed["units"] = tuple("pixel" if unit is None else unit.word for unit in words)
    return placed


def is_lifted(image: Image[Variable], selection: Mapping[str, int | slice]) -> bool:
    """Return whether a flat image of y and x is not in the plane z = 0."""
    own = image.base.first.array.dims
    views = _of_views(image, selection)
    flat = AXES[0] not in own and {*AXES[1:]} <= {*own}
    return flat and bool(views[:, 0, 1:].any())


def is_moved(image: Image[Variable], selection: Mapping[str, int | slice]) -> bool:
    """Return whether a view has several positions, such as one per time point."""
    views = _of_views(image, selection)
    return not np.allclose(views, views[:1], rtol=ROUNDING, atol=ROUNDING)


def _of_views(image: Image[Variable], selection: Mapping[str, int | slice]) -> np.ndarray:
    """Return the matrices from samples to positions of all views in a selection that have one."""
    shape = (-1, len(AXES), len(AXES) + 1)
    affine = _registrations(image.base.first.dataset)
    if affine is None:
        return np.empty((0, *shape[1:]))
    own = {dim: at for dim, at in selection.items() if dim in affine.dims}
    several = affine.isel(own).to_numpy().reshape(shape)
    found: np.ndarray = several[np.isfinite(several).all(axis=(1, 2))]
    return found


def _registrations(dataset: xr.Dataset) -> xr.DataArray | None:
    """Return the matrices from samples, also of a stored crop, to positions, z y x."""
    if not {AFFINE, "column"} <= {*dataset.coords}:
        return None  # it is none of ours
    affine = dataset[AFFINE]
    affine = affine.sel(axis=list(AXES)) if "axis" in affine.coords else affine
    affine = affine.transpose(..., "axis", "column")
    return affine.copy(data=affine.to_numpy() @ within(dataset))


def _matrix(axes: Sequence[Axis]) -> np.ndarray:
    """Return the matrix from samples to coordinates."""
    steps = [1.0 if axis.labels is not None else axis.step for axis in axes]
    matrix = np.diag([*steps, 1.0])
    matrix[:-1, -1] = [axis.offset for axis in axes]
    return matrix


def _of_attributes(array: xr.DataArray, selection: Mapping[str, int | slice]) -> np.ndarray | None:
    """Return the matrix in the attributes of an array, for the remaining dimensions."""
    numbers = np.asarray(array.attrs.get("affine", ()))
    ndim = array.ndim
    if numbers.shape != (ndim * (ndim + 1),) or numbers.dtype.kind not in "iuf":
        return None
    matrix = np.vstack([numbers.reshape(ndim, ndim + 1).astype(np.float64), np.eye(ndim + 1)[-1]])
    indexed = {dim for dim, at in selection.items() if isinstance(at, int)}
    kept = [row for row, dim in enumerate(array.dims) if dim not in indexed]
    for column, dim in enumerate(array.dims):
        at = selection.get(str(dim), 0)
        start = at if isinstance(at, int) else at.indices(array.sizes[dim])[0]
        matrix[:, -1] += matrix[:, column] * start
    kept.append(ndim)
    matrix = matrix[np.ix_(kept, kept)]
    matrix[-1] = np.eye(len(matrix))[-1]
    usable = np.isfinite(matrix).all() and np.linalg.matrix_rank(matrix) == len(matrix)
    return matrix if usable else None


def _transform(matrix: np.ndarray) -> dict[str, Any]:
    """Return a matrix as a scale and a translation if possible, otherwise unchanged."""
    scale = np.diag(matrix)[:-1]
    if np.array_equal(matrix[:-1, :-1], np.diag(scale)) and (scale > 0).all():
        return {"scale": tuple(scale.tolist()), "translate": tuple(matrix[:-1, -1].tolist())}
    return {"affine": matrix}
