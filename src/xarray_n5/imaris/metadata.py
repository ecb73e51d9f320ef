"""The attributes of an Imaris file: strings, extents, channels and times.

Source: ImarisWriter, and the specification of Imaris 5.5 files. Every value is a string, stored as
a list of single characters. What is missing or invalid is None: files of other programs have less.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SPACE = {"z": 2, "y": 1, "x": 0}
"""The axes of data in C order, and their numbers in names of attributes."""

_MOST_DIGITS = 9
"""The maximum number of digits in a name."""

_FINEST = 2.0**-50
"""The smallest step relative to a position that float64 can hold."""

_JITTER = 0.001
"""The resolution of stored times, in seconds."""


def text(attributes: Mapping[str, Any], key: str) -> str | None:
    """Return a string, or None.

    >>> text({"Unit": ["u", "m"]}, "Unit"), text({"Unit": [""]}, "Unit")
    ('um', None)
    """
    value = attributes.get(key)
    if isinstance(value, list) and all(isinstance(character, str) for character in value):
        value = "".join(value)
    return (value.replace("\0", "").strip() or None) if isinstance(value, str) else None


def numbers(attributes: Mapping[str, Any], key: str) -> list[float]:
    """Return the finite numbers in a string; none if there is another word.

    >>> numbers({"Color": "0 0.5 1"}, "Color"), numbers({"Color": "0 x 1"}, "Color")
    ([0.0, 0.5, 1.0], [])
    """
    try:
        values = [float(word) for word in (text(attributes, key) or "").split()]
    except ValueError:
        return []
    return values if all(map(math.isfinite, values)) else []


def numbered(names: Iterable[str], word: str) -> tuple[int, ...]:
    """Return the sorted numbers of names that are a word and a number.

    >>> numbered(["TimePoint 10", "TimePoint 2", "Other"], "TimePoint")
    (2, 10)
    """
    ends = [name.removeprefix(f"{word} ") for name in names if name.startswith(f"{word} ")]
    plain = (end for end in ends if end.isascii() and end.isdecimal() and len(end) <= _MOST_DIGITS)
    return tuple(sorted(int(end) for end in plain if end == str(int(end))))


def sizes(attributes: Mapping[str, Any], stored: Sequence[int], where: str) -> tuple[int, ...]:
    """Return the shape of an array without padding; `where` is for warnings."""
    shape = list(stored)
    for number, (axis, samples) in enumerate(zip(SPACE, stored, strict=True)):
        values = numbers(attributes, key := f"ImageSize{axis.upper()}")
        if len(values) == 1 and values[0].is_integer() and 1 <= values[0] <= samples:
            shape[number] = int(values[0])
        else:
            warn(
                f"{where}: {key!r} is {text(attributes, key)!r}, but {samples} samples are stored; "
                "all of them are read"
            )
    return tuple(shape)


class Extent(NamedTuple):
    """The edges of the image along an axis, which all levels share."""

    start: float
    length: float


def extent(info: Mapping[str, Any], axis: str, samples: int, where: str) -> Extent | None:
    """Return the extent of an image with a number of samples along an axis, or None.

    Of a file without metadata, it is None; otherwise, a warning names the file `where`.
    """
    if not info:
        return None
    keys = [f"{end}{SPACE[axis]}" for end in ("ExtMin", "ExtMax")]
    values = sorted(numbers(info, key) for key in keys)
    if all(len(letters) == 1 for letters in values):
        (low,), (high,) = values
        length = high - low or float(samples)  # as ImarisWriter does
        if math.isfinite(length) and length / samples > abs(low) * _FINEST:
            return Extent(low, length)
    warn(
        f"{where}: axis {axis!r} extends from {text(info, keys[0])!r} to "
        f"{text(info, keys[1])!r}; it has no coordinates"
    )
    return None


def channel_names(channels: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """Return the names of all channels; None if one has no name, or that of another."""
    names = tuple(name for channel in channels if (name := text(channel, "Name")) is not None)
    return names if len(names) == len({*names}) == len(channels) else None


def omero(channels: Sequence[Mapping[str, Any]], labels: Sequence[str] | None) -> dict[str, Any]:
    """Return channels as OME-Zarr describes them: colours, and ranges of display; or nothing.

    All channels need a ``Color``, of red, green and blue from 0 to 1.
    """
    shown: list[dict[str, Any]] = []
    for at, channel in enumerate(channels):
        parts = numbers(channel, "Color")
        if len(parts) != len("rgb") or not all(0 <= part <= 1 for part in parts):
            return {}
        label = {} if labels is None else {"label": labels[at]}
        color = "".join(f"{math.floor(part * 255 + 0.5):02X}" for part in parts)
        shown.append({**label, "color": color, "active": True})
        ends = numbers(channel, "ColorRange")
        if len(ends) == len(("start", "end")) and ends[0] < ends[1]:
            shown[-1]["window"] = dict(zip(("min", "max", "start", "end"), ends * 2, strict=True))
    return {"omero": {"channels": shown}}


def times(
    info: Mapping[str, Any], timepoints: Sequence[int]
) -> tuple[Axis, dict[str, xr.Variable]]:
    """Return the axis of time, and the times since the first one if they are not regular.

    Times that do not increase are ignored. Timepoint 0 is called "TimePoint1".
    """
    axis = Axis(name="t", kind="time")
    texts = [text(info, f"TimePoint{timepoint + 1}") or "" for timepoint in timepoints]
    try:
        dates = [datetime.fromisoformat(date) for date in texts]
        since = np.array([(date - dates[0]).total_seconds() for date in dates])
    except (ValueError, TypeError, OverflowError):
        return axis, {}
    if since.size == 1 or not (np.diff(since) > 0).all():
        return axis, {}
    step = float(since[-1]) / (since.size - 1)
    if np.abs(since - step * np.arange(since.size)).max() <= _JITTER:
        return replace(axis, scale=step, unit="s"), {}
    return axis, {"t": xr.Variable("t", since, {"units": "s"})}
