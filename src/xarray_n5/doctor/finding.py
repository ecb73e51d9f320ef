"""The findings of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 8
"""The maximum number of names in a message."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a container that is damaged, missing or contradictory."""

    kind: str
    """What is wrong, as a word for programs: ``missing-level``, ``chunk-damaged``, ..."""
    path: str
    """The path of the node in its container."""
    message: str
    """What was expected, and what was found."""
    remedy: str
    """The remedy, with a command if there is one."""

    def __str__(self) -> str:
        return printable(f"{self.path or '/'}: {self.message}; {self.remedy}")


def listed(names: Sequence[str]) -> str:
    """Return names as a message lists them.

    >>> listed(["s1", "s2"])
    's1, s2'
    """
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
