"""Coordinates of images in the world of a scene, along axes that are not of space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from xarray_n5.model.system_graph import space_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.systems import CoordinateSystem, SystemAxis

F = TypeVar("F", bound=str)

SCENE = "ngff-0.6"
"""The dialect of writes that are scenes of OME-Zarr."""


def scene_format(url: object, form: F | None) -> F | Literal["zarr3"] | None:
    """Return the format of a scene: that which the user chose, or that of a name ``*.zarr``."""
    return form or ("zarr3" if str(url).rstrip("/\\").endswith(".zarr") else None)


@dataclass(frozen=True, slots=True)
class Line:
    """The coordinates of an image along an axis of its world that is not one of space."""

    axis: SystemAxis
    """The world's axis."""
    own: str | None
    """The image's axis along which they change, or None if the whole image is at `start`."""
    step: float
    start: float


def lines_aside(
    rows: np.ndarray, start: Sequence[SystemAxis], end: CoordinateSystem
) -> tuple[list[Line], list[str]]:
    """Return an image's coordinates along axes such as time, and why others are not known.

    Parameters
    ----------
    rows, start, end
        The matrix from the axes of the image to those of the world.
    """
    lines: list[Line] = []
    problems: list[str] = []
    space = space_axes(end.axes)
    for axis, row in ((axis, rows[n]) for n, axis in enumerate(end.axes) if n not in space):
        at = np.flatnonzero(row[:-1]).tolist()
        names = [start[n].name for n in at]
        if not names:
            lines.append(Line(axis, None, 0.0, float(row[-1])))
        elif len(names) == 1 and _are_alike(start[at[0]], axis):
            lines.append(Line(axis, names[0], float(row[at[0]]), float(row[-1])))
        else:
            shown = " and ".join(map(repr, names))
            problems.append(f"the axis {axis.name!r} of {end.name!r} depends on {shown}")
    return lines, problems


def _are_alike(one: SystemAxis, other: SystemAxis) -> bool:
    """Return whether axes have the same type or, without a type of both, the same name."""
    if None in {one.type, other.type}:
        return one.name.lower() == other.name.lower()
    return one.type == other.type
