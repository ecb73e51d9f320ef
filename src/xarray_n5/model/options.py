"""Check options with a fixed set of values, and suggest the nearest one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_option(option: str, value: object, *allowed: str) -> None:
    """Raise ValueError unless an option has one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{option} is {value!r}; expected {' or '.join(map(repr, allowed))}")


def near(word: object, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for the most similar known word, or "".

    >>> near("chunksizes", ["chunks", "compression"]), near("a", ["chunks"])
    ("; did you mean 'chunks'?", '')
    """
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""
