"""How viewers show channels: the colours of their dyes, and contrast from the data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xarray_n5.dialects.groups import colors_of, images_of, omero_of, with_omero

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group

_PERCENTILES = (0.1, 99.9)
"""The percentiles of a channel that are shown as black and in its full colour."""

_MOST = 1 << 22
"""The maximum number of samples of a channel that are read: those in the middle."""


_HEX = re.compile("#?([0-9a-fA-F]{6})")


def channel_colors(array: xr.DataArray, dim: Hashable, attributes: Mapping[str, Any]) -> list[str]:
    """Return the colour of each channel, such as "#00ff00".

    These are those of ``omero`` in the attributes of the image, or else those of
    :func:`colors_of` for the names of channels.
    """
    names = [array.coords[n] for n in (f"{dim}_name", dim) if n in array.coords]
    known = [n.values for n in names if n.dims == (dim,) and n.dtype.kind in "UOT"]
    count = array.sizes[dim]
    colors = colors_of(known[0].tolist() if known else [""] * count)
    match omero_of(attributes):
        case {"channels": [*channels]} if len(channels) == count:
            stated = [
                channel.get("color") if isinstance(channel, dict) else "" for channel in channels
            ]
            hexes = [_HEX.fullmatch(str(color)) for color in stated]
            colors = [hit[1] if hit else c for hit, c in zip(hexes, colors, strict=True)]
    return [f"#{color.lower()}" for color in colors]


def with_windows(attributes: Mapping[str, Any], group: Group) -> dict[str, Any]:
    """Return attributes of an image with windows for the channels that are to get one.

    Parameters
    ----------
    attributes
        New attributes of the image's group, whose ``omero`` may have windows that are None.
    group
        The group, in which all levels are stored. The coarsest one is read.
    """
    match images_of(attributes), omero_of(attributes):
        case [{"datasets": [*_, {"path": str(level)}]} as image], {"channels": [*channels]}:
            lack = [isinstance(c, dict) and c.get("window", {}) is None for c in channels]
        case _:
            lack = []
    if not any(lack):
        return dict(attributes)
    kinds = [axis.get("type") for axis in image.get("axes") or _axes_of_systems(image)]
    if group.container.lists_x_first:
        kinds.reverse()
    array = cast("Array", group[level])
    at = kinds.index("channel") if "channel" in kinds else None
    shown = [
        {**channel, "window": window_of(_middle(array, at, number))} if lacks else channel
        for number, (channel, lacks) in enumerate(zip(channels, lack, strict=True))
    ]
    return with_omero(attributes, {**omero_of(attributes), "channels": shown})


def _axes_of_systems(image: Mapping[str, Any]) -> list[Any]:
    """Return the axes of an image of OME-Zarr 0.6."""
    return list(image["coordinateSystems"][0]["axes"])


def _middle(array: Array, axis: int | None, channel: int) -> np.ndarray:
    """Return the samples in the middle of a channel."""
    sides = [1 if at == axis else size for at, size in enumerate(array.shape)]
    while np.prod(sides, dtype=float) > _MOST:
        longest = sides.index(max(sides))
        sides[longest] = -(-sides[longest] // 2)
    starts = [
        channel if at == axis else (size - side) // 2
        for at, (size, side) in enumerate(zip(array.shape, sides, strict=True))
    ]
    return np.asarray(array[tuple(slice(i, i + n) for i, n in zip(starts, sides, strict=True))])


def window_of(values: np.ndarray) -> dict[str, float]:
    """Return the window of some samples; that of zeros if none is a finite number."""
    known = values[np.isfinite(values)] if values.dtype.kind == "f" else values.ravel()
    if known.dtype.kind not in "biuf" or not known.size:
        known = np.zeros(1, "u1")
    start, end = np.percentile(known, _PERCENTILES, method="nearest").tolist()
    ends = {"min": known.min().item(), "max": known.max().item(), "start": start, "end": end}
    # Viewers divide by the difference.
    return ends if start < end else {**ends, "max": max(ends["max"], start + 1), "end": start + 1}
