"""Numbers in the metadata of several formats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xarray_n5.errors import MetadataError

MOST_AXES = 64
"""The maximum number of axes, as in NumPy."""

LARGEST = 1 << 20
"""The maximum size of an element in bytes, which limits the size of a fill value."""

NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The strings that stand for numbers which JSON lacks."""

NOT_A_TIME = np.iinfo(np.int64).min


def whole_numbers(value: Any, key: str, where: str, least: int = 0) -> tuple[int, ...]:
    """Return the numbers of a member with one for each axis; 1.0, as some writers have it, is 1.

    Raises
    ------
    MetadataError
        If it is not a list of whole numbers of at least `least`, or is too long.
    """
    numbers = value if isinstance(value, list) else [None]
    if len(numbers) > MOST_AXES or not all(_is_whole(number, least) for number in numbers):
        raise MetadataError(
            f"{where}: {key!r} is {str(value)[:200]}; expected at most {MOST_AXES} whole numbers "
            f"from {least} to 2**63"
        )
    return tuple(map(int, numbers))


def _is_whole(number: object, least: int) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return least <= number < 1 << 63 and number == int(number)
