"""All nodes of a container, read once, for the checks of a diagnosis."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.arrays.open import Walk
    from xarray_n5.formats.containers import Container
    from xarray_n5.stores.base import Listing

_LONG = 4096
"""The maximum number of entries of a directory that is listed."""


@dataclass(frozen=True)
class Survey:
    """The nodes from one group down."""

    container: Container
    root: str
    """The path of the group."""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """The arrays by their paths."""
    groups: Mapping[str, Group] = field(default_factory=dict)
    """The groups by their paths."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """The errors of unreadable nodes, by their paths."""
    xml: bytes | None = None
    """The XML that describes the container's images, if the user named it."""

    @classmethod
    def of(cls, walk: Walk, xml: bytes | None = None) -> Survey:
        """Return the survey of all nodes of a walk."""
        arrays: dict[str, Array] = {}
        groups: dict[str, Group] = {}
        unreadable: dict[str, str] = {}
        for entry in walk.nodes():
            if isinstance(entry.node, Array):
                arrays[entry.path] = entry.node
            elif isinstance(entry.node, Group):
                groups[entry.path] = entry.node
            elif entry.broken:
                unreadable[entry.path] = str(entry.problem)
        return cls(walk.container, walk.root.path, arrays, groups, unreadable, xml)

    @cached_property
    def children(self) -> Mapping[str, Mapping[str, Array]]:
        """The arrays directly in each group, by their names."""
        children: dict[str, dict[str, Array]] = {}
        for path, array in self.arrays.items():
            group, _, name = path.rpartition("/")
            if path:
                children.setdefault(group, {})[name] = array
        return children

    @cached_property
    def listings(self) -> Mapping[str, Listing]:
        """The entries of the directories of arrays with few chunks; one batch of requests."""
        paths = [path for path, array in self.arrays.items() if is_short(array.node)]
        if not self.container.documents or not paths:
            return {}
        try:
            return dict(zip(paths, self.container.store.list_many(paths), strict=True))
        except Exception:  # noqa: BLE001 - servers refuse in many ways
            return {}

    def url(self, path: str) -> str:
        """Return a node's location, for commands."""
        return join(self.container.url, path)

    def covers(self, path: str) -> bool:
        """Return whether a node would be in the survey if it were stored."""
        return not self.root or path == self.root or path.startswith(f"{self.root}/")


def is_short(io: ArrayNode) -> bool:
    """Return whether the directories of an array's chunks have few entries."""
    counts = io.metadata.grid.counts
    nested = "/" in io.key((0,) * len(counts)).removeprefix(io.path).lstrip("/")
    return (max(counts, default=1) if nested else math.prod(counts)) <= _LONG
