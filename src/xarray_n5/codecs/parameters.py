"""Checks of parameters, which are named as in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Raise MetadataError where a parameter is no whole number between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MetadataError(f"{name!r} is {value!r}; a whole number from {low} to {high} is needed")


def check_boolean(name: str, value: object) -> None:
    """Raise MetadataError where a parameter is neither true nor false."""
    if not isinstance(value, bool):
        raise MetadataError(f"{name!r} is {value!r}; true or false is needed")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise MetadataError where a parameter is not one of the names in `choices`."""
    if value not in choices:
        raise MetadataError(f"{name!r} is {value!r}; one of {', '.join(choices)} is needed")
