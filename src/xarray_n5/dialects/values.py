"""Lists of texts and numbers in attributes, as people really write them."""

from __future__ import annotations

import math
from typing import TypeVar

T = TypeVar("T")


def texts(key: str, value: object, ndim: int) -> tuple[str, ...] | None:
    """Return a list of `ndim` texts, or None where there is nothing.

    One text stands for all axes; null for no text; a list that is too short for its first axes.

    Raises
    ------
    ValueError
        If the attribute is anything else; it names `key`.
    """
    if value is None:
        return None
    items = [value] * ndim if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(i, (str, type(None))) for i in items):
        raise ValueError(f"{key!r} is {value!r}; a list of texts is needed")
    return _fill(key, tuple(item or "" for item in items), "", ndim)


def numbers(key: str, value: object, ndim: int) -> tuple[float, ...] | None:
    """Return a list of `ndim` positive numbers, or None where there is nothing.

    One number stands for all axes; numbers may be texts; a list that is too short is for the
    first axes, since those of space stand before channel and time in N5.

    Raises
    ------
    ValueError
        If the attribute is anything else; it names `key`.
    """
    if value is None:
        return None
    items = [value] * ndim if isinstance(value, (int, float, str)) else value
    result = tuple(map(_number, items)) if isinstance(items, list) else (math.nan,)
    if not all(math.isfinite(number) and number > 0 for number in result):
        raise ValueError(f"{key!r} is {value!r}; a list of positive, finite numbers is needed")
    return _fill(key, result, 1.0, ndim)


def _number(item: object) -> float:
    """Return `item` as a number, which may be written as a text; NaN where it is none."""
    if isinstance(item, bool) or not isinstance(item, (int, float, str)):
        return math.nan
    try:
        return float(item)
    except (ValueError, OverflowError):
        return math.nan


def _fill(key: str, items: tuple[T, ...], filler: T, ndim: int) -> tuple[T, ...]:
    if len(items) > ndim:
        raise ValueError(f"{key!r} has {len(items)} items, the array {ndim} axes")
    return items + (filler,) * (ndim - len(items))


def whole_number(value: float) -> float:
    """Return an int where `value` is one: 40 reads better than 40.0 in a file.

    >>> whole_number(40.0), whole_number(0.5)
    (40, 0.5)
    """
    return int(value) if float(value).is_integer() and abs(value) < 1 << 53 else value
