"""The overwrite policy: whether a node may be created, and what it replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.arrays.records import look
from xarray_n5.errors import N5Error, NodeExistsError
from xarray_n5.formats.protocol import Node
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Metadata


def hint_of(otherwise: str, *, resume: bool, unfinished: bool) -> str:
    """Return the hint for something that exists, which a write with ``mode="w-"`` refuses.

    Parameters
    ----------
    otherwise
        The hint if no write is unfinished, and none is resumed.
    resume
        Whether an unfinished write is to be resumed, which is not this one.
    unfinished
        Whether a write is unfinished.
    """
    if resume and unfinished:
        return (
            "it has an unfinished write of different data, or with other options: pass the same "
            "arguments to resume it, or start again with mode='w' and without resume=True"
        )
    if resume:
        return (
            "no write of it is unfinished: choose another path, or start again with mode='w' and "
            "without resume=True"
        )
    if unfinished:
        return "its write is unfinished: use resume=True, or mode='w' to replace it"
    return otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """The checked location of a new node: what is removed, and the groups around it.

    Nothing has been written.
    """

    container: Container
    node: Node
    """The present node."""
    groups: Sequence[Node]
    """The groups around it, the root first."""
    removes: bool
    """Whether a node, or the rest of a stopped replacement, is removed."""
    fresh: bool
    """Whether the container is new."""

    def complete_groups(self) -> None:
        """Write the documents that the groups around lack."""
        for group in self.groups:
            self.container.complete_group(group, fresh=self.fresh and not group.path)

    def clear(self) -> None:
        """Remove what is replaced, but for records of writes."""
        if self.removes:
            self.container.clear(self.node.path)

    def create_node(self, metadata: Metadata) -> None:
        """Create the node where nothing is any more."""
        path = self.node.path
        empty = Node(path=path, metadata=GroupMetadata(), described=False)
        node = empty if path and self.removes else self.node
        self.container.create(node, metadata, fresh=self.fresh and not path)

    def create(self, metadata: Metadata) -> None:
        """Make room for the node and create it, without a record of a write."""
        if self.removes:
            self.container.delete(self.node.path)
        self.complete_groups()
        self.create_node(metadata)


def check_overwrite(
    container: Container, node: Node, replacement: ArrayMetadata | None = None
) -> Overwrite:
    """Check that a node may be created; nothing is written.

    Parameters
    ----------
    container, node
        The container, and the present node.
    replacement
        The array that replaces another one. It is required to remove an array, or the chunks that a
        stopped replacement left.

    Raises
    ------
    NodeExistsError
        If there is anything that must stay.
    """
    groups = groups_around(container, node.path)
    existing, path = node.metadata, node.path
    if isinstance(existing, ArrayMetadata) and replacement is None:
        unfinished = _is_unfinished(container, path)
        hint = hint_of("use mode='w' to replace it", resume=False, unfinished=unfinished)
        raise NodeExistsError(container.url, path, "an array", hint)
    half = node.incomplete and _is_unfinished(container, path)
    if isinstance(existing, GroupMetadata) and existing.attributes and not half:
        hint = f"its attributes are {list(existing.attributes)}; delete it, or choose another path"
        raise NodeExistsError(container.url, path, "a group that is not empty", hint)
    arrays = [
        metadata for metadata in (existing, replacement) if isinstance(metadata, ArrayMetadata)
    ]
    if (other := container.occupant(path, arrays)) is not None:
        hint = f"it contains {other!r}; delete that first, or choose another path in the container"
        kind = (
            "an array with other files" if arrays[:1] == [existing] else "a group that is not empty"
        )
        raise NodeExistsError(container.url, path, kind, hint)
    check_alone(container, [*groups, node])
    root = groups[0] if groups else node
    removes = replacement is not None and container.exists(node)
    return Overwrite(
        container=container,
        node=node,
        groups=groups,
        removes=removes,
        fresh=not root.described and container.occupant("") is None,
    )


def groups_around(container: Container, path: str) -> list[Node]:
    """Return the groups around a node, the root first.

    Raises
    ------
    NodeExistsError
        If one of them is an array.
    """
    parts = path.split("/") if path else []
    groups = []
    for node in container.nodes(["/".join(parts[:depth]) for depth in range(len(parts))]):
        if isinstance(node, N5Error):
            raise node
        check_not_array(container, node)
        groups.append(node)
    return groups


def check_not_array(container: Container, node: Node) -> None:
    """Raise NodeExistsError if a node that must be a group is an array."""
    if isinstance(node.metadata, ArrayMetadata):
        hint = "an array cannot contain other nodes; choose another path"
        raise NodeExistsError(container.url, node.path, "an array", hint)


def check_removable(url: str, arrays: Mapping[str, ArrayNode]) -> None:
    """Raise NodeExistsError if an array to be removed contains anything that is not its own."""
    for name, array in arrays.items():
        if other := array.container.occupant(array.path, [array.metadata]):
            hint = f"it contains {other!r}, which would be deleted with it; move that away first"
            raise NodeExistsError(url, name, "an array with other files", hint)


def complete_group(container: Container, node: Node) -> None:
    """Write the documents that a directory and its parents need to be groups.

    Raises
    ------
    NodeExistsError
        If one of them is an array, or a node of another format.
    """
    groups = [*groups_around(container, node.path), node]
    check_alone(container, groups)
    for group in groups:
        container.complete_group(group)


def check_alone(container: Container, groups: Iterable[Node]) -> None:
    """Raise if a directory that the format does not describe is a node of another format.

    In N5 any directory is a group; documents of N5 in it would hide the other node.

    Raises
    ------
    NodeExistsError
        The error names the directory.
    """
    bare = [node.path for node in groups if not node.described]
    if bare and (foreign := container.foreign(bare)):
        what = f"it has {foreign[1]}; choose another path, or use that format"
        raise NodeExistsError(container.url, foreign[0], "another format", what)


def _is_unfinished(container: Container, path: str) -> bool:
    """Return whether a node has the record of an unfinished write."""
    return bool(look(container.uncached().store, path).opens)
