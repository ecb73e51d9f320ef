"""Checks of parameters; their errors name the member as it stands in the file."""

from __future__ import annotations


def check_range(member: str, value: object, low: int, high: int) -> None:
    """Raise ValueError where a parameter is no whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{member!r} is {value!r}; a whole number from {low} to {high} is needed")


def check_boolean(member: str, value: object) -> None:
    """Raise ValueError where a parameter is neither true nor false."""
    if not isinstance(value, bool):
        raise ValueError(f"{member!r} is {value!r}; true or false is needed")  # noqa: TRY004
