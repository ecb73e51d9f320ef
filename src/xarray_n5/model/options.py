"""Check what users pass: options with few values, names of encodings, parameters as in JSON."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
    nearest = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[nearest[0]]!r}?" if nearest else ""


def refuse_encodings(name: object, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for the first of the unknown encodings of a variable."""
    for key in unknown:
        hint = near(key, known) or f"; expected one of {', '.join(sorted(known))}"
        raise ValueError(f"unexpected encoding for variable {name!r}: {key!r}{hint}")


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Raise MetadataError unless a parameter is an integer from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MetadataError(f"{name!r} is {value!r}; expected an integer from {low} to {high}")


def check_boolean(name: str, value: object) -> None:
    """Raise MetadataError unless a parameter is a boolean."""
    if not isinstance(value, bool):
        raise MetadataError(f"{name!r} is {value!r}; expected true or false")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise MetadataError unless a parameter is one of `choices`."""
    if value not in choices:
        raise MetadataError(f"{name!r} is {value!r}; expected one of {', '.join(choices)}")


def as_int(value: object) -> object:
    """Return a whole float as an int: Gson sometimes writes 6 as 6.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
