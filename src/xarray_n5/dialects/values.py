"""Lists of texts and numbers in attributes, as people really write them."""

from __future__ import annotations

import math
from typing import TypeVar

T = TypeVar("T")


def texts(key: str, value: object, ndim: int, *, exact: bool = False) -> tuple[str, ...] | None:
    """Return a list of `ndim` texts, or None where there is nothing.

    One text stands for all axes; null for no text; a list that is too short for its first axes,
    unless it must be `exact`.

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
    """Return a list of `ndim` numbers, or None where there is nothing.

    One number stands for all axes; numbers may be texts; a list that is too short is for the
    first axes, since those of space stand before channel and time in N5; `filler` for the rest,
    unless the list must be `exact`.

    Raises
    ------
    ValueError
        If the attribute is anything else; it names `key`.
    """
    if value is None:
        return None
    items = [value] * ndim if isinstance(value, (int, float, str)) else value
    result = tuple(map(_number, items)) if isinstance(items, list) else (math.nan,)
    if not all(math.isfinite(number) and (number > 0 or not positive) for number in result):
        kind = "positive, finite" if positive else "finite"
        raise ValueError(f"{key!r} is {value!r}; a list of {kind} numbers is needed")
    return _fill(key, result, filler, ndim, exact=exact)


def _number(item: object) -> float:
    """Return `item` as a number, which may be written as a text; NaN where it is none."""
    if isinstance(item, bool) or not isinstance(item, (int, float, str)):
        return math.nan
    try:
        return float(item)
    except (ValueError, OverflowError):
        return math.nan


def _fill(key: str, items: tuple[T, ...], filler: T, ndim: int, *, exact: bool) -> tuple[T, ...]:
    if len(items) > ndim or (exact and len(items) < ndim):
        raise ValueError(f"{key!r} has {len(items)} items, the array {ndim} axes")
    return items + (filler,) * (ndim - len(items))


def whole_number(value: float) -> float:
    """Return an int where `value` is one: 40 reads better than 40.0 in a file.

    >>> whole_number(40.0), whole_number(0.5)
    (40, 0.5)
    """
    return int(value) if float(value).is_integer() and abs(value) < 1 << 53 else value
