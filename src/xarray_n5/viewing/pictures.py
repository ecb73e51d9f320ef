"""Sections as pictures: contrast, colours of labels, a scale bar, true proportions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MissingPackageError
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5.model.units import same_unit, unit_of

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.model.axes import Axis
    from xarray_n5.viewing.sections import Section

_DPI = 100

_ROUND = (1, 2, 5, 10)
"""Round lengths of a scale bar, up to powers of ten."""

_PART = 0.25
"""The maximum length of a scale bar, as a part of the picture's width."""

_SMALLEST = 64
"""The minimum sides of a picture with a legible scale bar, in pixels."""


def draw(
    section: Section,
    place: Path,
    *,
    pixels: int = 800,
    percentile: tuple[float, float] = (0.1, 99.9),
    labels: bool | None = None,
) -> None:
    """Draw a section to a file, without a display.

    Parameters
    ----------
    section
        The section.
    place
        The file; its suffix selects the format.
    pixels
        The length of the longer side.
    percentile
        The percentiles of the values that are drawn black and white.
    labels
        Whether to draw each label in its own colour; by default if the section has labels.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    ValueError
        If values are complex numbers or strings.
    """
    figures, canvas = _matplotlib()
    values = section.values
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{section.title!r}: cannot draw values of type {values.dtype}")
    as_labels = section.is_labels if labels is None else labels
    shown = colours(values) if as_labels else grey(values, percentile)
    tall, wide = (
        size * abs(axis.step)
        for size, axis in zip(values.shape, _alike(section.rows, section.columns), strict=True)
    )
    longest = max(tall, wide)
    # A side of one sample remains visible.
    size = tuple(max(16.0, pixels * side / longest) / _DPI for side in (wide, tall))
    figure = figures.Figure(figsize=size, dpi=_DPI)
    canvas(figure)
    area = figure.add_axes((0, 0, 1, 1))
    area.set_axis_off()
    area.imshow(
        shown, aspect="auto", interpolation="nearest", cmap="gray", extent=(0, wide, tall, 0)
    )
    _scale_bar(area, section.columns, wide)
    figure.savefig(place, dpi=_DPI)


def grey(values: np.ndarray, percentile: tuple[float, float]) -> np.ndarray:
    """Return values scaled from 0 to 1 between percentiles; 0 where they are not finite.

    >>> grey(np.array([[0, 5, 10]]), (0, 100)).tolist()
    [[0.0, 0.5, 1.0]]
    """
    numbers = values.astype("f8")
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return np.zeros(values.shape)
    low, high = np.percentile(finite, percentile)
    span = high - low if high > low else 1.0
    found: np.ndarray = np.nan_to_num((numbers - low) / span, nan=0.0, posinf=1.0, neginf=0.0)
    return found.clip(0, 1)


def colours(labels: np.ndarray) -> np.ndarray:
    """Return a colour for each label, the same in every picture; 0 is black."""
    numbers = labels.astype("u8")
    # Neighbouring numbers get very different hues (multiples of the golden ratio).
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    hue = (mixed >> np.uint64(40)).astype("f8") / (1 << 24)
    light = 0.65 + 0.35 * ((mixed >> np.uint64(16)) & np.uint64(0xFF)).astype("f8") / 255
    turns = (hue[..., None] + np.array([0, 1 / 3, 2 / 3])) * 2 * math.pi
    found: np.ndarray = light[..., None] * (0.55 + 0.45 * np.cos(turns))
    found[numbers == 0] = 0
    return found


def round_length(most: float) -> float:
    """Return the longest of 1, 2, 5, 10, ... that is at most `length`.

    >>> round_length(7.3), round_length(0.13), round_length(1e4)
    (5.0, 0.1, 10000.0)
    """
    power = 10.0 ** math.floor(math.log10(most))
    fitting = [step * power for step in _ROUND if step * power <= most * (1 + ROUNDING)]
    return float(f"{max(fitting, default=power):.12g}")


def _alike(rows: Axis, columns: Axis) -> tuple[Axis, Axis]:
    """Return both axes in one unit; if there is no common one, as if all steps were 1."""
    one, other = unit_of(rows.unit), unit_of(columns.unit)
    if same_unit(rows.unit, columns.unit) or (one is None and other is None):
        return rows, columns
    if one is None or other is None or one.quantity != other.quantity:
        return replace(rows, scale=1.0), replace(columns, scale=1.0)
    return replace(rows, scale=rows.step * one.size / other.size), columns


def _scale_bar(area: Any, axis: Axis, wide: float) -> None:
    """Draw a scale bar of a round length at the lower right, with its length above."""
    from matplotlib.patches import Rectangle

    width, height = area.figure.canvas.get_width_height()
    if min(width, height) < _SMALLEST:
        return
    length = round_length(wide * _PART)
    unit = (unit_of(axis.unit) and str(unit_of(axis.unit).symbol)) or axis.unit or "samples"  # type: ignore[union-attr]
    # In pixels from the lower left, so that it is equally legible in pictures of any size; drawn in
    # inches, which vector formats support, too.
    size = min(15.0, max(8.0, 0.03 * max(width, height)))
    gap, thick = size / 2, max(2.0, size / 4)
    bar = length / wide * width
    text = area.text(
        0,
        (2.5 * gap + thick) / _DPI,
        f"{length:g} {unit.replace('um', 'µm')}",
        transform=area.figure.dpi_scale_trans,
        color="white",
        ha="center",
        va="bottom",
        fontsize=size * 72 / _DPI,
        zorder=3,
    )
    extent = text.get_window_extent()
    across = max(bar, extent.width)
    middle = width - 2 * gap - across / 2
    text.set_x(middle / _DPI)
    for x, y, w, h, colour, opaque in (
        (middle - across / 2 - gap, gap, across + 2 * gap, extent.y1 - gap / 2, "black", 0.75),
        (middle - bar / 2, 2 * gap, bar, thick, "white", 1.0),
    ):
        area.add_patch(
            Rectangle(
                (x / _DPI, y / _DPI),
                w / _DPI,
                h / _DPI,
                transform=area.figure.dpi_scale_trans,
                facecolor=colour,
                alpha=opaque,
                linewidth=0,
                zorder=2,
            )
        )


def _matplotlib() -> tuple[Any, Any]:
    """Return matplotlib's figures, and a canvas without a display."""
    try:
        from matplotlib import figure
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise MissingPackageError("pictures", "plot", error) from error
    return figure, FigureCanvasAgg
