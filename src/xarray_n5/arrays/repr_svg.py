"""Draw chunk grids as small pictures: a bar, a sheet or a box, cut into chunks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIDE = 120.0
"""The length of the longest side of a picture."""

_LEAST = 0.15
"""The minimum length of a side, as a part of that."""

_LINES = 24
"""The maximum number of pieces of an axis that are drawn; more are merged."""

_SLOPE = 0.5
"""The length of the axis in depth, across and up, as a part of its own."""

_LABEL = 18
"""The maximum number of letters of a name beside an edge."""

_MARGIN = 26.0

_OUTLINE = 'fill="none" stroke="currentColor"'


def chunk_picture(
    names: Sequence[str], shape: Sequence[int], chunks: Sequence[int], lengths: Sequence[float]
) -> str:
    """Return a picture of a chunk grid as SVG, in the colour of the text around it.

    Of more than three axes, the last three are shown. An array without elements has none.

    Parameters
    ----------
    names, shape, chunks
        For each axis, in C order: its name, its number of elements, and a chunk.
    lengths
        The relative lengths of the axes.
    """
    if not shape or 0 in shape:
        return ""
    sides = _sides(lengths[-3:])
    cuts = [
        [side * at / size for at in _cuts(size, chunk)]
        for size, chunk, side in zip(shape[-3:], chunks[-3:], sides, strict=True)
    ]
    labels = [
        escape(f"{_short(name)} {size}") for name, size in zip(names[-3:], shape[-3:], strict=True)
    ]
    while len(sides) < 3:  # noqa: PLR2004 - a sheet is a box without depth
        missing = _SIDE * _LEAST if len(sides) == 1 else 0.0
        sides, cuts, labels = [missing, *sides], [[0.0, missing], *cuts], ["", *labels]
    return _box(sides, cuts, labels)


def _sides(lengths: Sequence[float]) -> list[float]:
    longest = max(map(abs, lengths))
    return [_SIDE * max(abs(length) / longest, _LEAST) for length in lengths]


def _cuts(size: int, chunk: int) -> list[int]:
    """Return the positions where an axis is cut, with its ends; only some if there are many.

    >>> _cuts(10, 4), _cuts(1000, 1)[:3]
    ([0, 4, 8, 10], [0, 42, 84])
    """
    step = chunk * -(-size // (chunk * _LINES))
    return [*range(0, size, step), size]


def _short(name: str) -> str:
    return name if len(name) <= _LABEL else f"{name[: _LABEL - 1]}\N{HORIZONTAL ELLIPSIS}"


def _box(sides: list[float], cuts: list[list[float]], labels: list[str]) -> str:
    """Return a box seen from the front, above and the right."""
    deep = _SLOPE * sides[0]
    left, top = 2.0, deep + 2
    right, bottom = left + sides[2], top + sides[1]
    into = [_SLOPE * at for at in cuts[0]]
    lines = [[(left + x, bottom), (left + x, top), (left + x + deep, top - deep)] for x in cuts[2]]
    lines += [[(left, top + y), (right, top + y), (right + deep, top + y - deep)] for y in cuts[1]]
    lines += [[(left + z, top - z), (right + z, top - z), (right + z, bottom - z)] for z in into]
    if not deep:
        lines = [line[:2] for line in lines[: len(cuts[2]) + len(cuts[1])]]
    edges = [line for number, line in enumerate(lines) if _outer(number, cuts)]
    wide, high = cuts[2][1], cuts[1][1]
    chunk = [(left, top), (left + wide, top), (left + wide, top + high), (left, top + high)]
    width, height = right + deep + 2 + _MARGIN, bottom + 2 + _MARGIN
    under = f'<text x="{left + sides[2] / 2:.0f}" y="{bottom + 16:.0f}">{labels[2]}</text>'
    x, y = right + deep + 14, (top + bottom) / 2 - deep
    beside = f'<text x="{x:.0f}" y="{y:.0f}" transform="rotate(90 {x:.0f} {y:.0f})">'
    return (
        f'<svg width="{width:.0f}" height="{height:.0f}" role="img" '
        'style="overflow: visible; font-size: 11px">'
        f'<path d="{_path([chunk])}Z" fill="#e07b39" fill-opacity="0.75"/>'
        f'<path d="{_path(lines)}" {_OUTLINE} stroke-width="0.6" opacity="0.6"/>'
        f'<path d="{_path(edges)}" {_OUTLINE} stroke-width="1.4"/>'
        f'<g fill="currentColor" text-anchor="middle">{under}'
        + (f"{beside}{labels[1]}</text>" if labels[1] else "")
        + (_into(labels[0], right + deep / 2, bottom - deep / 2) if labels[0] else "")
        + "</g></svg>"
    )


def _into(label: str, x: float, y: float) -> str:
    """Return the name of the axis in depth, below its edge."""
    return f'<text x="{x + 6:.0f}" y="{y + 13:.0f}" style="text-anchor: start">{label}</text>'


def _outer(number: int, cuts: list[list[float]]) -> bool:
    """Return whether a line is the first or the last of its axis."""
    for axis in (2, 1, 0):
        if number < len(cuts[axis]):
            return number in {0, len(cuts[axis]) - 1}
        number -= len(cuts[axis])
    return False


def _path(lines: list[list[tuple[float, float]]]) -> str:
    return "".join("M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in line) for line in lines)
