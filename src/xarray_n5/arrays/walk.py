"""What is below a node, one after another: what cannot be read is told, and the walk goes on."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.stores.protocol import Store

_FORMATS = {
    ".zarray": "Zarr v2",
    ".zgroup": "Zarr v2",
    "zarr.json": "Zarr v3",
    "attributes.json": "N5",
}
"""Which format a directory has that holds a file of such a name."""

_HDF5 = (".h5", ".hdf5", ".hdf")

_CHUNK = re.compile(r"\d+([./]\d+)*")
"""What chunks, and the directories that they are in, are called."""

_DEPTH = 32
"""How many axes arrays have at most; numpy has as many."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something below a group."""

    path: str
    """Where it is in the container."""
    node: Array | Group | None
    """What it is; None of what is no node, or cannot be read."""
    problem: str = ""
    """Why there is no node."""
    broken: bool = False
    """Whether that is damage; else it is something that is opened by itself."""

    @property
    def name(self) -> str:
        """Its name in the group."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Walk:
    """A container, seen by its groups."""

    store: Store
    root: Array | Group
    """Where the walk begins."""

    @classmethod
    def at(
        cls,
        container: object,
        path: str,
        options: Mapping[str, Any] | None,
        *,
        whole: bool = False,
    ) -> Walk:
        """Return a walk that begins at a place; metadata are read once, or `whole` in batches."""
        from xarray_n5.arrays.detect import open_place
        from xarray_n5.arrays.group import open_node
        from xarray_n5.errors import UnfinishedWriteWarning
        from xarray_n5.stores import CachedStore

        store, inner = open_place(container, path, options, None)
        store = CachedStore(store)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWriteWarning)  # who walks reports them
            return cls(store, open_node(store, inner, missing="error", whole=whole))

    @property
    def is_plain(self) -> bool:
        """Whether the walk begins in a directory that nothing but its being there makes a group."""
        from xarray_n5.arrays.array import Array
        from xarray_n5.formats.hdf5.signature import SUFFIXES

        inside = self.store.one_writer or self.store.name.endswith((".n5", ".zarr", *SUFFIXES))
        return not isinstance(self.root, Array) and not inside and not self._documents(self.root)

    def children(self, group: Group) -> Iterator[Found]:
        """Iterate over what is directly in a group, by name."""
        from xarray_n5.errors import N5Error, UnfinishedWriteWarning
        from xarray_n5.model.paths import join

        names = sorted(group)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is left out")
            warnings.simplefilter("ignore", UnfinishedWriteWarning)
            nodes = group.nodes(names)
        others = [] if self._documents(group) else self._files(group.path)
        for name in sorted({*names, *others}):
            path, node = join(group.path, name), nodes.get(name)
            if name in others:
                yield Found(path, None, "HDF5: open it by itself")
            elif node is None:
                try:
                    group.nodes([name], strict=True)
                except (N5Error, OSError, ValueError) as error:
                    yield Found(path, None, str(error), broken=True)
            else:
                yield self.seen(node)

    def seen(self, node: Array | Group) -> Found:
        """Return a node, unless it is a group only because any directory is one."""
        from xarray_n5.arrays.array import Array
        from xarray_n5.formats import get_format

        if isinstance(node, Array) or self._documents(node) or self.store.one_writer:
            return Found(node.path, node)
        document = get_format(node.format).documents[0]
        _, files = self.store.list(node.path)
        kinds = [_FORMATS[name] for name in files if name in _FORMATS and name != document]
        if kinds and node.format == "n5":
            return Found(node.path, None, f"{kinds[0]}: open it by itself")
        if self._like_chunks(node.path):
            lost = f"holds files that look like chunks, but no {document}"
            return Found(node.path, None, lost, broken=True)
        return Found(node.path, node)

    def arrays(self) -> Iterator[Found]:
        """Iterate over all arrays, and over what is no node, but no groups."""
        from xarray_n5.arrays.array import Array

        def below(found: Found) -> Iterator[Found]:
            if found.node is None or isinstance(found.node, Array):
                yield found
                return
            for child in self.children(found.node):
                yield from below(child)

        yield from below(self.seen(self.root))

    def _documents(self, group: Group) -> bool:
        from xarray_n5.formats import get_format
        from xarray_n5.formats.keyed import get_documents

        return bool(get_documents(self.store, group.path, get_format(group.format)))

    def _files(self, path: str) -> list[str]:
        """Return the HDF5 files in a directory."""
        return [name for name in self.store.list(path)[1] if name.endswith(_HDF5)]

    def _like_chunks(self, path: str) -> bool:
        """Return whether a directory holds nothing but numbers, down to a file."""
        for _ in range(_DEPTH):
            folders, files = self.store.list(path)
            inner = [name for name in folders if not name.startswith(".")]
            if not all(map(_CHUNK.fullmatch, inner)):
                return False
            if any(map(_CHUNK.fullmatch, files)):
                return True
            if not inner or not set(files).isdisjoint(_FORMATS):
                return False
            path = f"{path}/{inner[0]}".lstrip("/")
        return False
