"""Check the units in names of NumPy's types of times before NumPy parses them."""

from __future__ import annotations

import re

_UNIT = re.compile(r"(?:[1-9]\d{0,9})?[a-zA-Zμ]+")


def check_time_units(name: str) -> None:
    """Raise if the name of a type has a time unit that is not a positive multiple of one.

    NumPy divides by the multiple when it compares types, and by a divisor when it parses one: a
    zero ends the process.

    Raises
    ------
    ValueError
        If it has one.

    Examples
    --------
    >>> check_time_units("<M8[10ns]")
    >>> check_time_units("<M8[0s]")
    Traceback (most recent call last):
    ValueError: '<M8[0s]' has no valid time unit; expected a positive multiple of one, such as [10s]
    """
    units = re.findall(r"\[([^\]]*)", name)
    if not all(map(_UNIT.fullmatch, units)):
        raise ValueError(
            f"{name[:100]!r} has no valid time unit; expected a positive multiple of one, such as "
            "[10s]"
        )
