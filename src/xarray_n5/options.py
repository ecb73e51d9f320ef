"""Options that are one word of a few: a misspelt one must not mean the default."""

from __future__ import annotations


def check_option(option: str, value: object, *allowed: str) -> None:
    """Raise where an option is none of the words that it takes.

    Raises
    ------
    ValueError
        Naming the option, what it was and what it may be.
    """
    if value not in allowed:
        raise ValueError(f"{option} is {value!r}; it takes {', '.join(map(repr, allowed))}")
