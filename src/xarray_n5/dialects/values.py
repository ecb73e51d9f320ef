"""Parse lists of strings and numbers in attributes, and transforms, in all variants in files."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")


def texts(key: str, value: object, ndim: int, *, exact: bool = False) -> tuple[str, ...] | None:
    """Return `ndim` strings, or None if there is no attribute.

    A single string is for all axes, null is an empty string. A short list is for the first axes,
    unless it must be `exact`.

    Raises
    ------
    ValueError
        If the attribute is invalid; the message names `key`.
    """
    if value is None:
        return None
    items = [value] * ndim if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(i, (str, type(None))) for i in items):
        raise ValueError(f"{key!r} is {value!r}; expected a list of strings")
    return _fill(key, tuple(item or "" for item in items), "", ndim, exact=exact)


def numbers(
    key: str,
    value: object,
    ndim: int,
    *,
    positive: bool = True,
    filler: float = 1.0,
    exact: bool = False,
) -> tuple[float, ...] | None:
    """Return `ndim` numbers, or None if there is no attribute.

    A single number is for all axes; numbers may be strings. A short list is for the first axes,
    which are spatial in N5, with `filler` for the rest, unless it must be `exact`.

    Raises
    ------
    ValueError
        If the attribute is invalid; the message names `key`.
    """
    if value is None:
        return None
    items = [value] * ndim if isinstance(value, (int, float, str)) else value
    result = tuple(map(as_number, items)) if isinstance(items, list) else (math.nan,)
    if not all(math.isfinite(number) and (number > 0 or not positive) for number in result):
        kind = "positive, finite" if positive else "finite"
        raise ValueError(f"{key!r} is {value!r}; expected a list of {kind} numbers")
    return _fill(key, result, filler, ndim, exact=exact)


def as_number(item: object) -> float:
    """Return a number, which may be a string; NaN if it is not a number."""
    if isinstance(item, bool) or not isinstance(item, (int, float, str)):
        return math.nan
    try:
        return float(item)
    except (ValueError, OverflowError):
        return math.nan


def _fill(key: str, items: tuple[T, ...], filler: T, ndim: int, *, exact: bool) -> tuple[T, ...]:
    if len(items) > ndim or (exact and len(items) < ndim):
        raise ValueError(f"{key!r} has {len(items)} items, expected {ndim}, one for each axis")
    return items + (filler,) * (ndim - len(items))


def whole_number(value: float) -> float:
    """Return a whole float as an int: 40 instead of 40.0 in JSON.

    >>> whole_number(40.0), whole_number(0.5)
    (40, 0.5)
    """
    return int(value) if float(value).is_integer() and abs(value) < 1 << 53 else value


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
