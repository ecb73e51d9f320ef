"""Find the nodes of a tree that are copied."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.open import Walk
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xarray_n5.arrays.group import Group


def sorted_nodes(
    group: Group, without: Collection[str]
) -> tuple[dict[str, Array], dict[str, Group]]:
    """Return the arrays and the groups of a tree by their paths in it, base levels first."""
    arrays: dict[str, Array] = {}
    groups = {"": group}
    others: list[str] = []
    for path, node in _below(group, "", without, others):
        if isinstance(node, Array):
            arrays[path] = node
        else:
            groups[path] = node
    if others:
        more = f"; and {len(others) - 1} more" if others[1:] else ""
        warn(f"{others[0]}{more}")
    return dict(sorted(arrays.items())), groups


def _below(
    group: Group, path: str, without: Collection[str], others: list[str]
) -> Iterator[tuple[str, Array | Group]]:
    """Iterate over the nodes of a tree; add messages about arrays of other formats to `others`.

    Raises
    ------
    MetadataError
        If a group is an array that has lost its metadata.
    """
    inner = {name: join(path, name) for name in group}
    if all(map(str.isdigit, inner)):  # or there are none
        found = Walk(group).seen(group)
        if found.broken:
            hint = f", or leave the array out with without={path!r}" if path else ""
            raise MetadataError(f"{group.url} {found.problem}; restore it{hint}")
        if found.node is None:
            others.append(f"{group.url} is not copied: {found.problem}")
            return
    if path:
        yield path, group
    names = [n for n, at in inner.items() if not any(fnmatch(at, each) for each in without)]
    for name, node in group.nodes(names, strict=True).items():
        if isinstance(node, Array):
            yield inner[name], node
        else:
            yield from _below(node, inner[name], without, others)
