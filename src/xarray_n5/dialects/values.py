"""Parse lists of strings and numbers in attributes, in all variants found in files."""

from __future__ import annotations

import math
from typing import TypeVar

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
    result = tuple(map(_number, items)) if isinstance(items, list) else (math.nan,)
    if not all(math.isfinite(number) and (number > 0 or not positive) for number in result):
        kind = "positive, finite" if positive else "finite"
        raise ValueError(f"{key!r} is {value!r}; expected a list of {kind} numbers")
    return _fill(key, result, filler, ndim, exact=exact)


def _number(item: object) -> float:
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
