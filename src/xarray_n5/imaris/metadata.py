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

from xarray_n5.dialects.values import whole_number
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
    found = numbers(attributes, key)
    return found[0] if len(found) == 1 else None


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


def omero(
    channels: Sequence[Mapping[str, Any]], labels: Sequence[str] | None, dtype: np.dtype[Any]
) -> dict[str, Any] | None:
    """Return channels with their colours and ranges of display as OME-Zarr describes them, or None.

    All channels need a ``Color``, of red, green and blue from 0 to 1. The range is ``ColorRange``,
    or for whole numbers that of the type.
    """
    found: list[dict[str, Any]] = []
    for at, each in enumerate(channels):
        parts = numbers(each, "Color")
        if len(parts) != len("rgb") or not all(0 <= part <= 1 for part in parts):
            return None
        own = {} if labels is None else {"label": labels[at]}
        color = "".join(f"{math.floor(part * 255 + 0.5):02X}" for part in parts)
        found.append({**own, "color": color, "active": True, **_window(each, dtype)})
    return {"channels": found} if found else None


def _window(channel: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the range of display of a channel, if it is known."""
    shown = numbers(channel, "ColorRange")
    shown = shown if len(shown) == len(("start", "end")) and shown[0] < shown[1] else []
    if dtype.kind in "iu":
        ends = [float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)]
        shown = shown or ends
    else:
        ends = shown
    known = zip(("min", "max", "start", "end"), [*ends, *shown], strict=False)
    return {"window": {key: whole_number(each) for key, each in known}} if shown else {}


def numbers(attributes: Mapping[str, Any], key: str) -> list[float]:
    """Return the finite numbers of a text; none if there is another word.

    >>> numbers({"Color": "0 0.5 1"}, "Color"), numbers({"Color": "0 x 1"}, "Color")
    ([0.0, 0.5, 1.0], [])
    """
    try:
        found = [float(each) for each in (text(attributes, key) or "").split()]
    except ValueError:
        return []
    return found if all(map(math.isfinite, found)) else []


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
