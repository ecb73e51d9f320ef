"""Plain text and HTML tables for descriptions, safe to print."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dask.utils import format_bytes

from xarray_n5.codecs import to_json
from xarray_n5.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression


def as_text(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title, and a line for each row, safe to print.

    >>> print(as_text("<Thing>", [("size", "3"), ("colour", "red")]))
    <Thing>
        size    3
        colour  red
    """
    lines = [(printable(label), printable(text)) for label, text in rows]
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join([printable(title), *(f"    {one:{width}}  {more}" for one, more in lines)])


def as_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a title and a table as HTML; strings are escaped.

    >>> as_html("<Thing>", [])
    '<div><strong>&lt;Thing&gt;</strong></div>'
    """
    return titled(title, table(rows))


def times(sizes: Sequence[int]) -> str:
    """Return a shape in words.

    >>> times((2, 3)), times(())
    ('2 x 3', 'one number')
    """
    return " x ".join(map(str, sizes)) or "one number"


def amount(count: int, nbytes: int, thing: str = "chunk") -> str:
    """Return the number of chunks, or of shards, and the size of one in words.

    >>> amount(1, 2048), amount(24, 131072)
    ('1 chunk of 2.00 kiB', '24 chunks of 128.00 kiB')
    """
    return f"{count} {thing}{'s' * (count != 1)} of {format_bytes(nbytes)}"


def show_geometry(geometry: Geometry) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for axes, with the source of each fact."""
    rows = []
    for axis in geometry.with_names().axes:
        name, _, where = str(axis).partition(": ")
        rows.append((name, where))
    return f"<xarray_n5.Geometry, {geometry.ndim} axes>", rows + geometry_rows(geometry)


def axes_line(geometry: Geometry) -> str:
    """Return the axes and the positions of their samples in a line.

    >>> from xarray_n5.model.axes import Axis, Geometry
    >>> axes_line(Geometry((Axis(), Axis(unit="nm", offset=3.0), Axis(unit="um", scale=2.0))))
    'z; y: start 3, step 1 nm; x: start 0, step 2 µm'
    """
    axes = geometry.with_names().axes
    return "; ".join(str(axis) if axis.placed else str(axis.name) for axis in axes)


def show_compression(compression: Compression) -> str:
    """Return the name of a compression and its parameters, except those that are false.

    >>> from xarray_n5.codecs import resolve
    >>> show_compression(resolve("gzip")), show_compression(resolve(None))
    ('gzip (level=6)', 'raw')
    """
    members = to_json(compression)
    name = [members.pop(key) for key in ("type", "id") if key in members][-1]
    shown = [f"{k}={v}" for k, v in members.items() if v is not None and v is not False]
    return f"{name} ({', '.join(shown)})" if shown else str(name)


def geometry_rows(geometry: Geometry) -> list[tuple[str, str]]:
    """Return rows for facts of several axes: the affine, the sources."""
    rows = [("affine", ", ".join(f"{n:g}" for n in row)) for row in geometry.affine or ()]
    return rows + [(fact, f"from {where}") for fact, where in geometry.sources.items()]


_SIDE = 120.0
"""The length of the longest side of a picture."""

_LEAST = 0.15
"""The minimum length of a side, as a part of that."""

_LINES = 24
"""The maximum number of pieces of an axis that are drawn; more are merged."""

_SLOPE = 0.5
"""The length of the axis in depth, across and up, as a part of its own."""

_LABEL = 18
"""The maximum number of letters of a name next to an edge."""

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
    right_label = f'<text x="{x:.0f}" y="{y:.0f}" transform="rotate(90 {x:.0f} {y:.0f})">'
    return (
        f'<svg width="{width:.0f}" height="{height:.0f}" role="img" '
        'style="overflow: visible; font-size: 11px">'
        f'<path d="{_path([chunk])}Z" fill="#e07b39" fill-opacity="0.75"/>'
        f'<path d="{_path(lines)}" {_OUTLINE} stroke-width="0.6" opacity="0.6"/>'
        f'<path d="{_path(edges)}" {_OUTLINE} stroke-width="1.4"/>'
        f'<g fill="currentColor" text-anchor="middle">{under}'
        + (f"{right_label}{labels[1]}</text>" if labels[1] else "")
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


LONGEST = 200
"""The maximum number of characters of a string that are shown."""

_CELL = "text-align: left; vertical-align: top; padding: 0 1em 0 0; white-space: pre-wrap"

_FAINT = "opacity: 0.65; font-weight: normal"


def shorten(text: str) -> str:
    """Return a string, truncated if it is long.

    >>> len(shorten("a" * 1000))
    200
    """
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def text(words: str, *, faint: bool = False) -> str:
    """Return a string as HTML, escaped.

    >>> text("<b>"), text("of 3", faint=True)
    ('&lt;b&gt;', '<span style="opacity: 0.65; font-weight: normal">of 3</span>')
    """
    shown = escape(printable(shorten(words)))
    return f'<span style="{_FAINT}">{shown}</span>' if faint else shown


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table of strings; the first of each row is its heading."""
    lines = [_row(["th"] * len(head), head)] if head else []
    lines += [_row(["th", *["td"] * (len(row) - 1)], row) for row in rows]
    return f'<table style="margin: 0">{"".join(lines)}</table>' if lines else ""


def fold(label: str, body: str, *, unfolded: bool = False) -> str:
    """Return HTML that unfolds under a label, HTML as well."""
    opened = " open" if unfolded else ""
    return (
        f'<details{opened} style="margin: 0"><summary style="cursor: pointer; '
        f'display: list-item">{label}</summary><div style="padding: 0.2em 0 0.4em 1.2em">'
        f"{body}</div></details>"
    )


def side_by_side(*parts: str) -> str:
    """Return pieces of HTML side by side, if there is room."""
    inner = "".join(f"<div>{part}</div>" for part in parts if part)
    style = "display: flex; flex-wrap: wrap; gap: 0.6em 2em; align-items: flex-start"
    return f'<div style="{style}">{inner}</div>'


def titled(title: str, body: str) -> str:
    """Return HTML under a title."""
    return f"<div><strong>{text(title)}</strong>{body}</div>"


def _row(tags: Sequence[str], cells: Sequence[str]) -> str:
    inner = (
        f'<{tag} style="{_CELL}">{text(cell)}</{tag}>'
        for tag, cell in zip(tags, cells, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"
