"""Walk over the nodes below a group; nodes that cannot be read are reported, not raised."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import open_node
from xarray_n5.errors import N5Error, UnfinishedWriteWarning
from xarray_n5.formats import TITLES, Hdf5, is_container_name
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.dialects.protocol import AttributeOrder
    from xarray_n5.formats.containers import Container

_CHUNK = re.compile(r"\d+([./]\d+)*")
"""Names of chunks, and of the directories that they are in."""

_DEPTH = 32
"""The maximum number of axes of an array whose directories are followed."""


@dataclass(frozen=True, slots=True)
class Found:
    """A node, or something else, below a group."""

    path: str
    """Its path in the container."""
    node: Array | Group | None
    """The node; None if it is not a node, or cannot be read."""
    problem: Exception | str = ""
    """Why it could not be opened."""
    broken: bool = False
    """Whether it is damaged; otherwise it is a container to be opened separately."""

    @property
    def name(self) -> str:
        """Its name in the group."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk over a container."""

    container: Container
    root: Array | Group
    """Where the walk begins."""

    @classmethod
    def at(
        cls,
        url: object,
        path: str,
        options: Mapping[str, Any] | None,
        *,
        whole: bool = False,
        attribute_order: AttributeOrder = "auto",
    ) -> Walk:
        """Return a walk that begins at a node; metadata are read once, or `whole` in batches."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWriteWarning)  # walks report them
            root = open_node(
                url,
                path,
                storage_options=options,
                attribute_order=attribute_order,
                missing="error",
                whole=whole,
            )
        return cls(root.container, root)

    @property
    def is_plain(self) -> bool:
        """Whether the walk begins in a bare directory that is not named like a container."""
        inside = self.container.format.one_writer or is_container_name(self.container.name)
        return isinstance(self.root, Group) and not inside and not self.root.node.described

    def children(self, group: Group) -> Iterator[Found]:
        """Iterate over the content of a group, by name."""
        names = sorted(group)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is left out")
            warnings.simplefilter("ignore", UnfinishedWriteWarning)
            nodes = group.nodes(names)
        others = [] if group.node.described else self._files(group.path)
        for name in sorted({*names, *others}):
            path, node = join(group.path, name), nodes.get(name)
            if name in others:
                yield Found(path, None, "HDF5: open it separately")
            elif node is None:
                try:
                    group.nodes([name], strict=True)
                except (N5Error, OSError, ValueError) as error:
                    yield Found(path, None, error, broken=True)
            else:
                yield self.seen(node)

    def seen(self, node: Array | Group) -> Found:
        """Return a node, unless it is a group only because any directory is one."""
        if isinstance(node, Array) or node.node.described:
            return Found(node.path, node)
        if foreign := self.container.foreign([node.path]):
            return Found(node.path, None, f"{TITLES[foreign[1]]}: open it separately")
        if self._like_chunks(node.path):
            document = self.container.where("").rpartition("/")[2]
            lost = f"has files that look like chunks, but no {document}"
            return Found(node.path, None, lost, broken=True)
        return Found(node.path, node)

    def nodes(self) -> Iterator[Found]:
        """Iterate over all nodes, groups before their content, and over everything else."""

        def below(item: Found) -> Iterator[Found]:
            yield item
            if isinstance(item.node, Group):
                for child in self.children(item.node):
                    yield from below(child)

        yield from below(self.seen(self.root))

    def arrays(self) -> Iterator[Found]:
        """Iterate over all arrays, and over everything that is not a node."""
        return (item for item in self.nodes() if not isinstance(item.node, Group))

    def _files(self, path: str) -> list[str]:
        """Return the HDF5 files in a directory."""
        return [name for name in self.container.store.list(path)[1] if name.endswith(Hdf5.suffixes)]

    def _like_chunks(self, path: str) -> bool:
        """Return whether a directory has only numbers as names, down to a file."""
        for _ in range(_DEPTH):
            folders, files = self.container.store.list(path)
            inner = [name for name in folders if not name.startswith(".")]
            if not all(map(_CHUNK.fullmatch, inner)):
                return False
            if any(map(_CHUNK.fullmatch, files)):
                return True
            if not inner or not set(files).isdisjoint(TITLES):
                return False
            path = f"{path}/{inner[0]}".lstrip("/")
        return False
