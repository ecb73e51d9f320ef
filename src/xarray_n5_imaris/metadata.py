"""The attributes of an Imaris file: strings, extents, channels and times.

Source: ImarisWriter, and the specification of Imaris 5.5 files. Every value is a string, stored as
a list of single characters. What is missing or invalid is None: files of other programs have less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPACE = {"z": 2, "y": 1, "x": 0}
"""The axes of data in C order, and their numbers in names of attributes."""

_MOST_DIGITS = 9
"""The maximum number of digits in a name."""

_FINEST = 2.0**-50
"""The smallest step relative to a position that float64 can hold."""

_JITTER = 0.001
"""The resolution of stored times, in seconds."""


def text(attributes: Mapping[str, Any], key: str) -> str | None:
    """Return a text, or None.

    >>> text({"Unit": ["u", "m"]}, "Unit"), text({"Unit": [""]}, "Unit")
    ('um', None)
    """
    value = attributes.get(key)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = "".join(value)
    if not isinstance(value, str):
        return None
    return value.replace("\0", "").strip() or None


def number(attributes: Mapping[str, Any], key: str) -> float | None:
    """Return a finite number, or None."""
    try:
        value = float(text(attributes, key) or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def size(attributes: Mapping[str, Any], axis: str, stored: int, where: str) -> int:
    """Return the number of samples along an axis that are not padding; `where` is for warnings."""
    key = f"ImageSize{axis.upper()}"
    value = number(attributes, key)
    if value is not None and value == int(value) and 1 <= value <= stored:
        return int(value)
    warn(
        f"{where}: {key!r} is {text(attributes, key)!r}, but {stored} samples are stored; all of "
        "them are read"
    )
    return stored


def numbered(names: Sequence[str], word: str) -> dict[int, str]:
    """Return the names that are a word and a number, by their numbers, in their order.

    >>> numbered(["TimePoint 10", "TimePoint 2", "Other"], "TimePoint")
    {2: 'TimePoint 2', 10: 'TimePoint 10'}
    """
    found = {}
    for name in names:
        first, _, rest = name.partition(" ")
        plain = rest.isascii() and rest.isdecimal() and len(rest) <= _MOST_DIGITS
        if first == word and plain and rest == str(int(rest)):
            found[int(rest)] = name
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Extent:
    """The edges of the image along an axis, which all levels share."""

    start: float
    length: float

    @classmethod
    def of(cls, info: Mapping[str, Any], axis: str, samples: int, where: str) -> Extent | None:
        """Return the extent of an axis, with a number of samples at the finest level, or None.

        Of a file without metadata, it is None; otherwise, a warning names the file `where`.
        """
        if not info:
            return None
        keys = [f"{end}{SPACE[axis]}" for end in ("ExtMin", "ExtMax")]
        low, high = (number(info, key) for key in keys)
        if low is not None and high is not None:
            low, high = min(low, high), max(low, high)
            length = high - low or float(samples)  # as ImarisWriter does
            if math.isfinite(length) and length / samples > abs(low) * _FINEST:
                return cls(low, length)
        warn(
            f"{where}: axis {axis!r} extends from {text(info, keys[0])!r} to "
            f"{text(info, keys[1])!r}; it has no coordinates"
        )
        return None


def channel_names(channels: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """Return the names of all channels; None if one has no name, or that of another."""
    names = [text(each, "Name") for each in channels]
    found = tuple(name for name in names if name is not None)
    return found if len(found) == len({*found}) == len(channels) else None


def seconds(info: Mapping[str, Any], timepoints: Sequence[int]) -> np.ndarray | None:
    """Return the times of timepoints since the first one, if they increase, or None.

    Timepoint 0 is called "TimePoint1".
    """
    texts = [text(info, f"TimePoint{timepoint + 1}") for timepoint in timepoints]
    try:
        times = [datetime.fromisoformat(each or "") for each in texts]
        found = np.array([(each - times[0]).total_seconds() for each in times])
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.size > 1 and (np.diff(found) > 0).all() else None


def regular_step(times: np.ndarray) -> float | None:
    """Return the distance between times, as far as they are stored, or None if it varies."""
    step = float(times[-1]) / (len(times) - 1)
    even = np.abs(times - step * np.arange(len(times))).max() <= _JITTER
    return step if even else None
