"""Pieces of HTML for dark and light pages, without external resources.

Strings come from files: all of them are escaped here, and not by callers.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from xarray_n5.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
