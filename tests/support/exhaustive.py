"""How many cases of large matrices run: few by default, all of them with ``N5_EXHAUSTIVE=1``.

``bash ci/exhaustive`` sets it, and runs the tests that ``bash ci/test`` leaves out: those marked
``exhaustive``, and with more cases those marked ``more``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FACTOR = int(os.environ.get("N5_EXHAUSTIVE") or 0)
"""Zero by default; larger numbers than 1 run that many times as many random cases."""

EXHAUSTIVE = FACTOR > 0

Item = TypeVar("Item")


def cases(few: int, many: int) -> int:
    """Return the number of random cases: `few`, or `many` in an exhaustive run."""
    return many * FACTOR if EXHAUSTIVE else few


def spread(items: Iterable[Item], few: int) -> list[Item]:
    """Return `few` of the items, evenly spread."""
    found = list(items)
    return [found[place] for place in _places(len(found), few)]


def some(items: Iterable[Any], few: int) -> list[Any]:
    """Return parameters of a test: `few` of the items, and the others in an exhaustive run."""
    found = list(items)
    return _marked(found, _places(len(found), few))


def seeds(few: int, many: int) -> list[Any]:
    """Return the numbers below `few`, and those below `many` in an exhaustive run."""
    return _marked(range(many * max(FACTOR, 1)), range(few))


def _places(count: int, few: int) -> list[int]:
    """Return `few` indices, evenly spread."""
    few = min(few, count)
    return [number * count // few for number in range(few)]


def _marked(items: Sequence[Any], chosen: Iterable[int]) -> list[Any]:
    """Return the chosen items, and in an exhaustive run the others, too, marked as such."""
    places = [*chosen]
    rest = sorted({*range(len(items))} - {*places}) if EXHAUSTIVE else []
    mark = pytest.mark.exhaustive
    return [
        *(items[place] for place in places),
        *(pytest.param(*_values(items[place]), marks=mark) for place in rest),
    ]


def _values(item: Any) -> tuple[Any, ...]:
    """Return an item as the values of its parameters."""
    return item if type(item) is tuple else (item,)
