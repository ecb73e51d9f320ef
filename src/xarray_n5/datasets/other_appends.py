"""Other appends to a group: those that are beginning, that go behind, or that are in the way."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.marker import find_markers
from xarray_n5.errors import NodeExistsError
from xarray_n5.model.paths import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.writing.request import WriteOptions

BEGINNING = 5.0
"""The seconds after which an append has resized the arrays, unless it was stopped."""


def wait_for_others(group: Group, mine: WriteMarker, how: WriteOptions) -> bool:
    """Wait until other appends have resized the arrays; return whether there are others.

    One that was stopped there never does: after some seconds, it is not waited for.
    """
    if how.store.concurrency == 1 or UNFINISHED not in how.container.store.list(group.path)[1]:
        return False
    until = time.monotonic() + BEGINNING
    while True:
        others = other_appends(mine, how)
        left = [facts for _, facts in others if not facts.get("grown")]
        if not left or time.monotonic() >= until:
            return bool(others)
        time.sleep(0.1)


def other_appends(mine: WriteMarker, how: WriteOptions) -> list[tuple[WriteMarker, dict[str, Any]]]:
    """Return the markers of other appends, and their facts."""
    found = [(each, each.facts() or {}) for each in find_markers(how.store, mine.path)[0]]
    return [
        (other, facts)
        for other, facts in found
        if other != mine and not facts.get("done")
        if isinstance(facts.get("start"), int) and facts.get("grows")
    ]


def note(other: WriteMarker, fact: str) -> None:
    """Note a fact in the marker of another append, unless it has ended meanwhile."""
    if now := other.facts():
        other.as_found(now).update({**now, fact: True})


@dataclass(frozen=True, slots=True)
class Alone:
    """Whether an append in a store without locks is the only one at its place."""

    mine: WriteMarker
    facts: Mapping[str, Any]
    before: Collection[WriteMarker]
    """The markers that it found before it began."""

    def check(self) -> None:
        """Raise if another append to the same place has begun since.

        Each append stores its marker before it looks, so that one of two sees the other at least.
        It withdraws, and has changed nothing. Those that go behind it are no obstacle.

        Raises
        ------
        NodeExistsError
            If there is another.
        """
        start, end = self.facts["start"], _ends(self.facts)
        for other in find_markers(self.mine.store, self.mine.path, but=self.mine)[0]:
            found = {} if other in self.before else other.facts() or {}
            if (
                isinstance(found.get("start"), int)
                and found["start"] < end
                and _ends(found) > start
            ):
                where = f"samples {found['start']} to {_ends(found)}"
                raise other_append(self.mine.store.url, self.mine.path, where)

    def is_helped(self) -> bool:
        """Return whether an append behind it has resized arrays for it."""
        facts = self.mine.facts() or {}
        return bool(facts.get("helped") or facts.get("grown"))


def _ends(facts: Mapping[str, Any]) -> int:
    """Return where the samples of an append end."""
    return max((size for _, size in (facts.get("grows") or {}).values()), default=0)


def other_append(url: str, path: str, found: str) -> NodeExistsError:
    """Return the error of an append that withdraws."""
    hint = "nothing was written: call again when it has ended, which appends behind it"
    return NodeExistsError(url, path, f"another append that began at the same time: {found}", hint)
