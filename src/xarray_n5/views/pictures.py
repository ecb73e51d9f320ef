"""Sections as pictures: contrast, colours of labels, a scale bar, true proportions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import MissingPackageError
from xarray_n5.units import unit_of

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.axes import Axis
    from xarray_n5.views.sections import Section

_DPI = 100

_ROUND = (1, 2, 5, 10)
"""Lengths that people read at a glance, and their tenfold."""

_PART = 0.25
"""How much of a picture's width a scale bar takes at most."""


def draw(
    section: Section,
    place: Path,
    *,
    pixels: int = 800,
    percentile: tuple[float, float] = (0.1, 99.9),
    labels: bool | None = None,
) -> None:
    """Draw a section into a file; no display is needed.

    Parameters
    ----------
    section
        What is drawn.
    place
        The file, whose suffix tells its kind.
    pixels
        How long its longer side is.
    percentile
        The percentiles of the values that are black and white.
    labels
        Whether values are labels, each of a colour; those of uint64 are by default.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    ValueError
        If values are complex, or texts.
    """
    figures, canvas = _matplotlib()
    values = section.values
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{section.title}: {values.dtype} cannot be drawn")
    as_labels = values.dtype == np.uint64 if labels is None else labels
    shown = colours(values) if as_labels else grey(values, percentile)
    tall, wide = (
        size * abs(axis.step)
        for size, axis in zip(values.shape, _alike(section.rows, section.columns), strict=True)
    )
    longest = max(tall, wide)
    # A side of one sample beside thousands is still seen.
    size = tuple(max(16.0, pixels * side / longest) / _DPI for side in (wide, tall))
    figure = figures.Figure(figsize=size, dpi=_DPI)
    canvas(figure)
    area = figure.add_axes((0, 0, 1, 1))
    area.set_axis_off()
    area.imshow(
        shown, aspect="auto", interpolation="nearest", cmap="gray", extent=(0, wide, tall, 0)
    )
    _scale_bar(area, section.columns, wide, tall)
    figure.savefig(place, dpi=_DPI)


def grey(values: np.ndarray, percentile: tuple[float, float]) -> np.ndarray:
    """Return values from 0, at the lower percentile, to 1; what is not finite is 0.

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
    # Neighbouring numbers get hues that are far from each other (the golden ratio's multiples).
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    hue = (mixed >> np.uint64(40)).astype("f8") / (1 << 24)
    light = 0.65 + 0.35 * ((mixed >> np.uint64(16)) & np.uint64(0xFF)).astype("f8") / 255
    turns = (hue[..., None] + np.array([0, 1 / 3, 2 / 3])) * 2 * math.pi
    found: np.ndarray = light[..., None] * (0.55 + 0.45 * np.cos(turns))
    found[numbers == 0] = 0
    return found


def round_length(most: float) -> float:
    """Return the longest of 1, 2, 5, 10, ... that is at most so long.

    >>> round_length(7.3), round_length(0.13), round_length(1e4)
    (5.0, 0.1, 10000.0)
    """
    power = 10.0 ** math.floor(math.log10(most))
    fitting = [step * power for step in _ROUND if step * power <= most * (1 + 1e-9)]
    return float(f"{max(fitting, default=power):.12g}")


def _alike(rows: Axis, columns: Axis) -> tuple[Axis, Axis]:
    """Return both axes in one unit; where they have none in common, as if all steps were 1."""
    one, other = unit_of(rows.unit), unit_of(columns.unit)
    if rows.unit == columns.unit or (one is None and other is None):
        return rows, columns
    from dataclasses import replace

    if one is None or other is None or one.quantity != other.quantity:
        return replace(rows, scale=1.0), replace(columns, scale=1.0)
    return replace(rows, scale=rows.step * one.size / other.size), columns


def _scale_bar(area: Any, axis: Axis, wide: float, tall: float) -> None:
    """Draw a bar of a round length at the lower right, and write the length above it."""
    length = round_length(wide * _PART)
    unit = (unit_of(axis.unit) and str(unit_of(axis.unit).symbol)) or axis.unit or "samples"  # type: ignore[union-attr]
    right, bottom = 0.97 * wide, 0.96 * tall
    outline: dict[str, Any] = {"linewidth": 1, "edgecolor": "black", "facecolor": "white"}
    from matplotlib import patheffects
    from matplotlib.patches import Rectangle

    area.add_patch(Rectangle((right - length, bottom), length, -0.012 * tall, **outline))
    area.text(
        right - length / 2,
        bottom - 0.03 * tall,
        f"{length:g} {unit.replace('um', 'µm')}",
        color="white",
        ha="center",
        va="bottom",
        fontsize=11,
        path_effects=[patheffects.withStroke(linewidth=2, foreground="black")],
    )


def _matplotlib() -> tuple[Any, Any]:
    """Return matplotlib's figures, and a canvas that needs no display."""
    try:
        from matplotlib import figure
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise MissingPackageError("pictures", "plot", error) from error
    return figure, FigureCanvasAgg
