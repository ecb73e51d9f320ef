"""Checks of parameters."""

from __future__ import annotations


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Raise ValueError where a parameter is no whole number between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name!r} is {value!r}; a whole number from {low} to {high} is needed")
