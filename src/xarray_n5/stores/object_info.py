"""What stores say of their files."""

from __future__ import annotations

from typing import NamedTuple


class ObjectInfo(NamedTuple):
    """A file that a store has."""

    key: str
    """Its key, relative to the prefix that was asked for."""
    size: int
    """Its bytes."""
    time: float | None
    """When it was written last, in seconds since 1970, where the store knows."""
