"""Strings from files and servers, made safe to print.

A name, unit or attribute may hold escape sequences that retitle a terminal, clear it or hide a
line. Every message, warning, text repr and line of the command line passes through here.
"""

from __future__ import annotations

import re
import unicodedata

_LONGEST = 4000
"""The longest message, in characters."""

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control, format and surrogate characters and of line separators."""

_UNUSUAL = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    r"""Return `text` with control and formatting characters escaped, as in a string's repr.

    Letters of all languages stay as they are.

    >>> printable("µm\x1b[2J")
    'µm\\x1b[2J'
    """
    return text if text.isprintable() else _UNUSUAL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if unicodedata.category(character) not in _ESCAPED:
        return character
    return character.encode("unicode_escape").decode("ascii")


def message(text: str) -> str:
    """Return a message that is safe to print; of a long one the beginning and the end.

    >>> len(message("a" * 100_000))
    4000
    """
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[: half - 5]} ... {text[-half:]}"
    return printable(text)
