"""Affine transforms from samples to coordinates: matrices, and their scales and offsets."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "identity": frozenset(),
        "scale": frozenset({"scale"}),
        "translation": frozenset({"translation"}),
        "scale_offset": frozenset({"scale", "offset"}),
        "affine": frozenset({"affine"}),
        "sequence": frozenset({"transformations"}),
    }
)
"""The members with the numbers of each type of transform."""


def matrix(transform: object, ndim: int) -> np.ndarray:
    """Return a transform, or a list of transforms applied in order, as n rows of n + 1 numbers.

    The words are those of n5-universe's canonical metadata and of OME-NGFF: ``identity``,
    ``scale``, ``translation``, ``scale_offset``, ``affine``, ``sequence``.

    Raises
    ------
    ValueError
        If its type is unknown, or it does not have `ndim` axes, or its numbers are elsewhere.
    """
    whole = np.eye(ndim + 1)
    for each in transform if isinstance(transform, list) else [transform]:
        step = np.eye(ndim + 1)
        step[:ndim] = _one(each, ndim)
        whole = step @ whole
    if not np.isfinite(whole).all():
        raise ValueError(f"{transform!r} has numbers that are not finite")
    return whole[:ndim]


def per_axis(rows: np.ndarray) -> tuple[list[float], list[float]] | None:
    """Return scales and offsets, or None if a coordinate depends on several axes."""
    ndim = len(rows)
    square = rows[:, :ndim]
    if np.count_nonzero(square - np.diag(np.diag(square))):
        return None
    return np.diag(square).tolist(), rows[:, ndim].tolist()


def in_c_order(rows: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Convert a matrix from N5 order to C order of axes; its own inverse."""
    return as_tuples(np.concatenate([rows[::-1, -2::-1], rows[::-1, -1:]], axis=1))


def as_tuples(rows: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Return a matrix as tuples, as in a geometry."""
    return tuple(tuple(row) for row in rows.tolist())


def _one(transform: Any, ndim: int) -> np.ndarray:
    kind = transform["type"]
    if kind not in _WORDS:
        raise ValueError(f"unknown type of transform {kind!r}")
    if kind != "identity" and not transform.keys() & _WORDS[kind]:
        raise ValueError(f"{transform!r} does not contain its numbers")
    if kind == "sequence":
        return matrix(list(transform["transformations"]), ndim)
    if kind == "affine":
        return np.array(transform["affine"], dtype=np.float64).reshape(ndim, ndim + 1)
    rows = np.eye(ndim, ndim + 1)
    for word in _WORDS[kind] & transform.keys():
        if word == "scale":
            rows[:, :ndim] = np.diag(_vector(transform[word], ndim))
        else:
            rows[:, ndim] = _vector(transform[word], ndim)
    return rows


def _vector(values: Sequence[Any], ndim: int) -> np.ndarray:
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (ndim,):
        raise ValueError(f"{values!r}: expected a list of {ndim} numbers")
    return vector
