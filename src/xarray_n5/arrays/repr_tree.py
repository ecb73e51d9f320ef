"""What is in a group, as HTML that unfolds: its groups and arrays, and theirs."""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from xarray_n5.arrays.repr import SHOWN, array_body, times, unfinished_among
from xarray_n5.arrays.repr_html import fold, table, text, titled
from xarray_n5.errors import N5Error

if TYPE_CHECKING:
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group

_GROUPS = 12
"""How many groups are listed; each costs a listing and one batch of reads."""

_NODES = 100
"""How many groups and arrays are shown in all."""

_PLACED = 24
"""Of how many arrays the axes are looked up; each costs a batch of reads or two."""

_FEW = 8
"""A group of so few is shown unfolded."""


def group_html(group: Group) -> str:
    """Return a group's tree as HTML; what is large is shown in part, and what is not, is told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who opens it hears of what is odd
        return titled(f"<xarray_n5.Group {group.url!r}>", _Tree.of(group).body(group))


@dataclass(slots=True)
class _Tree:
    """What was found in groups, and of how many arrays the axes may still be looked up."""

    found: dict[str, tuple[Mapping[str, Array | Group], int]] = field(default_factory=dict)
    """By a group's path: what is in it, and how much more that is not here."""
    left: int = _PLACED
    unfinished: set[str] = field(default_factory=set)
    """The paths of arrays whose write has not ended."""

    @classmethod
    def of(cls, group: Group) -> _Tree:
        """Return what is in a group and the groups below it, the nearest first."""
        tree, room = cls(), _NODES
        tree._list(group, SHOWN)
        queue = deque([group])
        while queue and len(tree.found) <= _GROUPS and room:
            each = queue.popleft()
            if each is not group:
                with suppress(N5Error, OSError):
                    tree._list(each, min(SHOWN, room))
            children, _ = tree.found.get(each.path, ({}, 0))
            room = max(room - len(children), 0)
            queue.extend(child for child in children.values() if isinstance(child, Mapping))
        return tree

    def _list(self, group: Group, most: int) -> None:
        names = list(group)
        nodes = group.nodes(names[:most])
        self.unfinished |= unfinished_among(nodes.values())
        self.found[group.path] = (nodes, max(len(names) - most, 0))

    def body(self, group: Group) -> str:
        """Return what is in a group, and its attributes."""
        children, more = self.found.get(group.path, ({}, 0))
        parts = [self._group(n, c) for n, c in children.items() if isinstance(c, Mapping)]
        parts += [self._array(n, c) for n, c in children.items() if not isinstance(c, Mapping)]
        if more:
            parts.append(f"<div>{text(f'... {more} more', faint=True)}</div>")
        return "".join(parts) + _attributes(group.attrs)

    def _group(self, name: str, group: Group) -> str:
        children, more = self.found.get(group.path, (None, 0))
        if children is None:
            return fold(f"{text(f'{name}/')} {text('group, not looked into', faint=True)}", "")
        count = len(children) + more
        label = f"{text(f'{name}/')} {text(f'group of {count}' if count else 'group', faint=True)}"
        return fold(label, self.body(group), unfolded=count <= _FEW)

    def _array(self, name: str, array: Array) -> str:
        facts = f"{array.dtype}, {times(array.shape)} in chunks of {times(array.chunks)}"
        geometry = array.geometry() if self.left else None
        self.left = max(self.left - 1, 0)
        stopped = array.path in self.unfinished
        facts += ", unfinished" if stopped else ""
        body = array_body(array, geometry, unfinished=stopped) + _attributes(array.attrs)
        return fold(f"{text(name)} {text(facts, faint=True)}", body)


def array_html(array: Array) -> str:
    """Return an array as HTML: what it is, its axes, its chunks as a picture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stopped = bool(unfinished_among([array]))
        body = array_body(array, array.geometry(), unfinished=stopped)
    return titled(f"<xarray_n5.Array {array.url!r}>", body + _attributes(array.attrs))


def _attributes(attributes: Mapping[str, object]) -> str:
    if not attributes:
        return ""
    shown = islice(attributes.items(), SHOWN)
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in shown]
    if (more := len(attributes) - SHOWN) > 0:
        rows.append(("...", f"{more} more"))
    return fold(f"attributes {text(f'({len(attributes)})', faint=True)}", table(rows))
