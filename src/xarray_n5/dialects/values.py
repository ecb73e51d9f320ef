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
        msg = f"{key!r} is {value!r}; a list of texts is needed"
        raise ValueError(msg)
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
    try:
        if not isinstance(items, list) or any(isinstance(item, bool) for item in items):
            raise TypeError
        result = tuple(float(item) for item in items)
    except (TypeError, ValueError):
        msg = f"{key!r} is {value!r}; a list of numbers is needed"
        raise ValueError(msg) from None
    if not all(math.isfinite(number) and number > 0 for number in result):
        msg = f"{key!r} is {value!r}; numbers must be positive and finite"
        raise ValueError(msg)
    return _fill(key, result, 1.0, ndim)


def _fill(key: str, items: tuple[T, ...], filler: T, ndim: int) -> tuple[T, ...]:
    if len(items) > ndim:
        msg = f"{key!r} has {len(items)} items, the array {ndim} axes"
        raise ValueError(msg)
    return items + (filler,) * (ndim - len(items))


def whole_number(value: float) -> float:
    """Return an int where `value` is one: 40 reads better than 40.0 in a file.

    >>> whole_number(40.0), whole_number(0.5)
    (40, 0.5)
    """
    return int(value) if float(value).is_integer() and abs(value) < 1 << 53 else value
