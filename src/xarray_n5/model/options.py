"""Options that are one word of a few: a misspelt one must not mean the default."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_option(option: str, value: object, *allowed: str) -> None:
    """Raise where an option is none of the words that it takes.

    Raises
    ------
    ValueError
        Naming the option, what it was and what it may be.
    """
    if value not in allowed:
        raise ValueError(f"{option} is {value!r}; it takes {', '.join(map(repr, allowed))}")


def near(word: object, known: Iterable[str]) -> str:
    """Return the end of a message that asks whether a word like another one is meant.

    >>> near("chunksizes", ["chunks", "compression"]), near("a", ["chunks"])
    ("; did you mean 'chunks'?", '')
    """
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""
