"""Affine matrices of transformations: see :mod:`xarray_n5.model.transformations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.model.paths import join, normalize_path
from xarray_n5.model.systems import MOST_AXES
from xarray_n5.model.transformations import PROJECTED, Transformation

Loader: TypeAlias = Callable[[str], Any]
"""Opens the array at a path, relative to the group of the graph: an object with ``shape`` and
``dtype`` that NumPy can convert, such as :class:`xarray_n5.Array`. It is read only if it is small.
"""


def matrix(transformation: Transformation, n_in: int, load: Loader | None = None) -> np.ndarray:
    """Return a transformation of points with `n_in` coordinates as an affine matrix.

    Returns
    -------
    numpy.ndarray
        ``n_out`` rows of ``n_in + 1`` numbers, the last column for the offset.

    Raises
    ------
    MetadataError
        If it is not affine, is for another number of axes, or its array cannot be loaded.

    Examples
    --------
    >>> from xarray_n5.model.transformations import parse_transformation
    >>> matrix(parse_transformation({"type": "scale", "scale": [2, 0.5]}), 2)
    array([[2. , 0. , 0. ],
           [0. , 0.5, 0. ]])
    """
    if reason := transformation.reason:
        raise MetadataError(f"{transformation}: {reason}; only affine ones can be computed")
    with np.errstate(all="ignore"):
        rows = _ROWS[transformation.type](transformation, n_in, load)
    if not np.isfinite(rows).all():
        raise MetadataError(f"{transformation}: its numbers are too large")
    return rows


def inverse(transformation: Transformation, n_in: int, load: Loader | None = None) -> np.ndarray:
    """Return the matrix from the output of a transformation to its input with `n_in` axes.

    That of ``bijection`` is its ``inverse``.

    Raises
    ------
    MetadataError
        If it has no inverse: it is not affine, not square, or singular.
    """
    rows = matrix(transformation, n_in, load)
    if transformation.type == "bijection":
        return matrix(transformation.parts[1], len(rows), load)
    linear = rows[:, :-1]
    if linear.shape[0] != linear.shape[1]:
        raise MetadataError(f"{transformation}: no inverse from {len(rows)} to {n_in} axes")
    with np.errstate(all="ignore"):
        back = np.linalg.inv(linear) if np.linalg.cond(linear) <= _SINGULAR else linear * np.nan
        whole = np.concatenate([back, -back @ rows[:, -1:]], axis=1)
    if not np.isfinite(whole).all():
        raise MetadataError(f"{transformation}: no inverse, its matrix is singular")
    return whole


_SINGULAR = 1e14
"""The condition number from which a matrix counts as singular."""


def compose(first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """Return the matrix that applies one matrix after another one.

    Raises
    ------
    MetadataError
        If the second matrix is for another number of axes, or the numbers are too large.
    """
    if then.shape[1] != len(first) + 1:
        raise MetadataError(
            f"a transformation to {len(first)} axes precedes one from {then.shape[1] - 1} axes"
        )
    with np.errstate(all="ignore"):
        rows: np.ndarray = then[:, :-1] @ first
        rows[:, -1] += then[:, -1]
    if not np.isfinite(rows).all():
        raise MetadataError("the numbers of several transformations are too large")
    return rows


def _sized(transformation: Transformation, values: np.ndarray, n_in: int, size: int) -> np.ndarray:
    """Return values; raise unless their `size` is that of points with `n_in` coordinates."""
    if size != n_in:
        raise MetadataError(f"{transformation}: is for {size} axes, expected {n_in}")
    return values


def _identity(_: Transformation, n_in: int, __: Loader | None) -> np.ndarray:
    return np.eye(n_in, n_in + 1)


def _map_axis(one: Transformation, n_in: int, _: Loader | None) -> np.ndarray:
    own = one.members["mapAxis"]
    rows: np.ndarray = _sized(one, np.eye(n_in, n_in + 1), n_in, len(own))[own]
    return rows


def _translation(one: Transformation, n_in: int, _: Loader | None) -> np.ndarray:
    values = np.asarray(one.members["translation"], np.float64)
    rows = np.eye(n_in, n_in + 1)
    rows[:, -1] = _sized(one, values, n_in, values.size)
    return rows


def _scale(one: Transformation, n_in: int, _: Loader | None) -> np.ndarray:
    values = np.asarray(one.members["scale"], np.float64)
    return np.diag(_sized(one, values, n_in, values.size)) @ np.eye(n_in, n_in + 1)


def _affine(one: Transformation, n_in: int, load: Loader | None) -> np.ndarray:
    rows = _numbers(one, load)
    return _sized(one, rows, n_in, rows.shape[1] - 1)


def _rotation(one: Transformation, n_in: int, load: Loader | None) -> np.ndarray:
    rows = _numbers(one, load)
    if rows.shape[0] != rows.shape[1]:
        raise MetadataError(f"{one}: has the shape {rows.shape}, expected a square matrix")
    return _sized(one, np.pad(rows, ((0, 0), (0, 1))), n_in, len(rows))


def _numbers(one: Transformation, load: Loader | None) -> np.ndarray:
    """Return the numbers of a matrix, which may be in an array."""
    if one.type in one.members:
        return np.asarray(one.members[one.type], np.float64)
    path = join(one.base, normalize_path(one.members["path"]))
    if load is None:
        raise MetadataError(f"{one}: its numbers are in the array {path!r}, which is not read here")
    array = load(path)
    shape = tuple(array.shape)
    small = len(shape) == len(("row", "column")) and all(0 < n <= MOST_AXES + 1 for n in shape)
    if not small or np.dtype(array.dtype).kind not in "iuf":
        raise MetadataError(
            f"{one}: the array {path!r} has the shape {shape} of {array.dtype}; expected a matrix "
            f"of numbers for up to {MOST_AXES} axes"
        )
    return np.asarray(array).astype(np.float64)


def _sequence(one: Transformation, n_in: int, load: Loader | None) -> np.ndarray:
    rows = np.eye(n_in, n_in + 1)
    for part in one.parts:
        rows = compose(rows, matrix(part, len(rows), load))
    return rows


def _by_dimension(one: Transformation, n_in: int, load: Loader | None) -> np.ndarray:
    rows = np.zeros((sum(len(out) for _, out in one.spans), n_in + 1))
    for part, (into, out) in zip(one.parts, one.spans, strict=True):
        own = matrix(part, len(into), load)
        if len(own) != len(out) or any(index >= n_in for index in into):
            raise MetadataError(
                f"{one}: its {part} is from axes {[*into]} to {[*out]}; expected {len(own)} output "
                f"axes, and input axes below {n_in}"
            )
        rows[np.ix_(out, into)] = own[:, :-1]
        rows[[*out], -1] = own[:, -1]
    return rows


def _project_axis(one: Transformation, n_in: int, _: Loader | None) -> np.ndarray:
    dropped, created = ({*one.members.get(key, ())} for key in PROJECTED)
    kept = [index for index in range(n_in) if index not in dropped]
    n_out = len(kept) + len(created)
    if max(dropped, default=0) >= n_in or max(created, default=0) >= n_out:
        raise MetadataError(
            f"{one}: drops {sorted(dropped)} of {n_in} axes and creates {sorted(created)} of "
            f"{n_out}"
        )
    rows = np.zeros((n_out, n_in + 1))
    rows[[index for index in range(n_out) if index not in created], kept] = 1
    return rows


def _bijection(one: Transformation, n_in: int, load: Loader | None) -> np.ndarray:
    return matrix(one.parts[0], n_in, load)


_ROWS: Mapping[str, Callable[[Transformation, int, Loader | None], np.ndarray]] = MappingProxyType(
    {
        "identity": _identity,
        "mapAxis": _map_axis,
        "translation": _translation,
        "scale": _scale,
        "affine": _affine,
        "rotation": _rotation,
        "sequence": _sequence,
        "byDimension": _by_dimension,
        "projectAxis": _project_axis,
        "bijection": _bijection,
    }
)
"""What makes a matrix of each type of :data:`AFFINE`."""
