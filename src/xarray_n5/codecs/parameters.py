"""Check parameters of compressions; errors name them as in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Sequence


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
