"""Display settings of channels: names, colours and limits, from ``omero`` or by default."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.ngff_attributes import omero_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLORS = ("cyan", "yellow", "magenta", "red", "green", "blue")
"""napari's own colormaps for several channels."""

_OF_TWO = ("magenta", "green")

_HEX = re.compile(r"#?([0-9a-fA-F]{6})")


def channel_facts(
    group: Mapping[str, Any], index: int, count: int, dtype: np.dtype[Any]
) -> dict[str, Any]:
    """Return the arguments of a layer with one of several channels.

    Parameters
    ----------
    group
        The attributes of the image's group, which may have ``omero``.
    index, count
        The channel's index, and the number of channels.
    dtype
        The type of the values.

    Returns
    -------
    dict
        ``name`` if the channel has one, ``colormap``, ``blending``, ``visible`` and
        ``contrast_limits``, each if it is known.
    """
    stated = _channel(group, index)
    found: dict[str, Any] = {"blending": "additive"} if count > 1 else {}
    if color := _HEX.fullmatch(str(stated.get("color", ""))):
        found["colormap"] = f"#{color[1].lower()}"
    elif count > 1:
        names = _OF_TWO if count == len(_OF_TWO) else _COLORS
        found["colormap"] = names[index % len(names)]
    if isinstance(label := stated.get("label"), str) and label:
        found["name"] = label
    if stated.get("active") is False:
        found["visible"] = False
    if (limits := _limits(stated.get("window"), dtype)) is not None:
        found["contrast_limits"] = limits
    return found


def _channel(group: Mapping[str, Any], index: int) -> dict[str, Any]:
    match omero_of(group):
        case {"channels": list(channels)} if index < len(channels):
            return channels[index] if isinstance(channels[index], dict) else {}
    return {}


def _limits(window: object, dtype: np.dtype[Any]) -> tuple[float, float] | None:
    """Return the limits of a window, unless they are only those of the type."""
    match window:
        case {"start": int() | float() as start, "end": int() | float() as end}:
            if not (math.isfinite(start) and math.isfinite(end) and start < end):
                return None
            if dtype.kind in "iu":
                ends = np.iinfo(dtype)
                if start <= ends.min and end >= ends.max:
                    return None
            return float(start), float(end)
    return None
