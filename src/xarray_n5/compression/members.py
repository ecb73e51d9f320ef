"""What the members of a compression's JSON object may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Collection


def check_integer(member: str, found: object, lowest: int, highest: int) -> None:
    """Refuse what is not an integer from `lowest` to `highest`; `member` is "type member"."""
    if type(found) is not int or not lowest <= found <= highest:
        msg = f"compression {member} must be an integer from {lowest} to {highest}, not {found!r}"
        raise MetadataError(msg)


def check_boolean(member: str, found: object) -> None:
    """Refuse what is neither true nor false."""
    if type(found) is not bool:
        msg = f"compression {member} must be true or false, not {found!r}"
        raise MetadataError(msg)


def check_choice(member: str, found: object, allowed: Collection[str]) -> None:
    """Refuse what is not one of the names in `allowed`."""
    if not isinstance(found, str) or found not in allowed:
        msg = f"compression {member} must be one of {', '.join(allowed)}, not {found!r}"
        raise MetadataError(msg)
