"""Containers whose nodes are documents, and whose chunks are values, in a key-value store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, tee
from typing import TYPE_CHECKING, Self

from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats import TITLES, consolidated, structure
from xarray_n5.formats.protocol import Node
from xarray_n5.formats.structure import (
    change_documents,
    get_documents,
    prefetch_documents,
    read_nodes,
    replace_documents,
    settle,
    where,
)
from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.alerts import REFUSED
from xarray_n5.model.json import MOST_BYTES, near
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import HIDDEN, is_own, is_partial, join
from xarray_n5.stores import CachedStore, LocalStore, heads, uncached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.errors import N5Error
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Documents, KeyedFormat, Kind
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Attributes, Buffer, Metadata
    from xarray_n5.stores.base import ObjectInfo, Store

_FOREIGN = frozenset({".zarray", ".zgroup", "zarr.json", "attributes.json"})
"""Files that identify a directory as a node of some format."""


_MOST_COMPARED = 1000
"""The maximum number of names that are compared with a misspelt one."""

_SHOWN = 10
"""The maximum number of names that an error lists."""


@dataclass(frozen=True, slots=True)
class KeyedContainer:
    """A key-value store and the format of its content."""

    store: Store
    format: KeyedFormat
    renews: bool = True
    """Whether consolidated metadata is updated after each change."""

    @property
    def url(self) -> str:
        """The store's location."""
        return self.store.url

    @property
    def name(self) -> str:
        """The name of the container's directory."""
        return self.store.name

    @property
    def batch(self) -> int:
        """The number of keys that are worth requesting together."""
        return self.store.concurrency

    @property
    def lists_x_first(self) -> bool:
        """Whether lists of axes in attributes are in the order of N5's tools."""
        return self.format.lists_x_first

    @property
    def documents(self) -> AbstractSet[str]:
        """The names of the files that describe a node."""
        return frozenset(self.format.documents)

    def identity(self, path: str) -> object:
        """Return a node's identity, as its store defines it."""
        return self.store.identity(path)

    def where(self, path: str) -> str:
        """Return the location of a node's first document."""
        return where(self.store, path, self.format)

    def etag(self, path: str) -> object:
        """Return the etag of a node's first document."""
        return self.store.etag(join(path, self.format.documents[0]))

    # The same container, otherwise

    def cached(self) -> Self:
        """Return the container with documents and listings read once."""
        known = isinstance(self.store, CachedStore)
        return self if known else replace(self, store=CachedStore(self.store))

    def fresh(self) -> Self:
        """Return the container without caches."""
        return replace(self, store=self.store.fresh())

    def uncached(self) -> Self:
        """Return the container without what :meth:`cached` keeps."""
        return replace(self, store=uncached(self.store))

    def quiet(self) -> Self:
        """Return the container that leaves consolidated metadata to :meth:`renew`."""
        return replace(self, renews=False)

    def with_fsync(self) -> Self:
        """Return the container whose writes have reached the disk when they return."""
        return replace(self, store=self.store.with_fsync())

    def parent(self) -> Self | None:
        """Return the directory around as a container."""
        above = self.store.parent()
        return None if above is None else replace(self, store=above)

    # Nodes

    def node(self, path: str) -> Node:
        """Return the node at `path`."""
        documents = get_documents(self.store, path, self.format)
        node = structure.described(self.store, self.format, path, documents)
        return settle(self.store, self.format, [node])[0]

    def nodes(self, paths: Sequence[str], *, verify: bool = True) -> list[Node | N5Error]:
        """Return the nodes at several paths, or why one cannot be read; one batch."""
        if not verify:
            return read_nodes(self.store, self.format, paths)
        prefetch_documents(self.store, paths, self.format)
        read = read_nodes(self.store, self.format, paths)
        nodes = [node for node in read if isinstance(node, Node)]
        settled = iter(settle(self.store, self.format, nodes))
        return [next(settled) if isinstance(node, Node) else node for node in read]

    def exists(self, node: Node) -> bool:
        """Return whether there is a node; one without documents is a directory."""
        store, path = self.store, node.path
        return node.described or store.is_folder(path) or any(store.list(path))

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names of possible nodes in a group, from a listing, which is always current.

        If a server cannot list, the root's consolidated metadata is used.
        """
        try:
            folders, files = self.store.list(path)
        except REFUSED:
            named = self._consolidated(path)
            if named is None:
                raise
            folders = named
        else:
            if not folders and not files:
                folders = self._consolidated(path) or ()
        return tuple(name for name in folders if not name.startswith("."))

    def _consolidated(self, path: str) -> tuple[str, ...] | None:
        return consolidated.names_in(self.store, path, self.format.documents)

    def occupant(self, path: str, arrays: Sequence[ArrayMetadata] = ()) -> str | None:
        """Return the first obstacle to creating a node: something that must stay; None if none."""
        documents = self.documents
        if not arrays:
            folders, files = self.store.list(path)
            names = ((n, n in _FOREIGN or not n.startswith(".")) for n in (*folders, *files))
            return next((name for name, stays in names if stays and name not in documents), None)
        for key in self.walk(path):
            chunk = any(self.format.chunk_index(array, key) is not None for array in arrays)
            if not (chunk or is_partial(key) or is_own(key) or key in documents):
                return key
        return None

    def foreign(self, paths: Sequence[str]) -> tuple[str, str] | None:
        """Return the first path that is a node of another format, and the file that shows it."""
        names = sorted(_FOREIGN - self.documents)
        keys = [(path, name) for path in paths for name in names]
        contents = self.store.get_many([join(*key) for key in keys]) if keys else ()
        return next(
            (k for k, content in zip(keys, contents, strict=True) if content is not None), None
        )

    def is_false(self, node: Node) -> bool:
        """Return whether a node that is a group has the metadata of an array."""
        return isinstance(self.format.read(node.documents, ""), ArrayMetadata)

    def check_array(self, path: str, metadata: ArrayMetadata) -> None:
        """Raise if an array without any chunk turns out to be a group."""
        structure.check_array(self.store, self.format, path, metadata)

    def check_version(self) -> None:
        """Warn if the root states a version that is newer than the supported ones."""
        with suppress(PermissionError):  # nodes below the root may be readable
            root = get_documents(self.store, "", self.format)
            self.format.check_container(root, self.where(""))

    # Changes of nodes

    def create(self, before: Node, metadata: Metadata, *, fresh: bool = False) -> None:
        """Write a node's documents, the one that identifies it last."""
        path, old, at = before.path, before.documents, self.where(before.path)
        if fresh:
            old = {**old, **self.format.above(old, at, fresh=True)}
        names = replace_documents(self.store, path, old, self.format.create(metadata, old, at))
        self._renew(path, names)
        if isinstance(metadata, ArrayMetadata):
            structure.known_array(self.store, path)

    def complete_group(self, node: Node, *, fresh: bool = False) -> None:
        """Write the documents that a group lacks; existing ones are kept."""
        lacking = partial(self.format.above, where=self.where(node.path), fresh=fresh)
        kept = isinstance(self.store, CachedStore)  # and knows what has been written meanwhile
        if lacking(get_documents(self.store, node.path, self.format) if kept else node.documents):
            self._renew(node.path, change_documents(self.store, node.path, self.format, lacking))

    def change_attributes(
        self, path: str, change: Callable[[Attributes], Attributes], kind: Kind
    ) -> Attributes:
        """Replace a node's user attributes by the result of `change`; return those."""
        at, items = self.where(path), dict[str, object]()

        def changed(before: Documents) -> Documents:
            nonlocal items
            node = self.format.read(before, at)
            if kind == "array" and not isinstance(node, ArrayMetadata):
                raise NodeNotFoundError(self.url, path, "array")
            if kind == "group":
                node = self.format.as_group(before, at)
            items = dict(change(node.attributes))
            return self.format.with_attributes(before, items, at)

        self._renew(path, change_documents(self.store, path, self.format, changed))
        return items

    def resize(self, path: str, shape: tuple[int, ...]) -> None:
        """Change an array's shape in its document."""
        resized = partial(self.format.with_shape, shape=shape, where=self.where(path))
        self._renew(path, change_documents(self.store, path, self.format, resized))

    def delete(self, path: str) -> None:
        """Remove a node and all below it, its first document before all else."""
        self.store.delete_tree(path, self.format.documents[0])
        self._renew(path, self.format.documents, below=True)

    def clear(self, path: str) -> None:
        """Remove a node and all below it, its first document first, but no records of writes."""
        folders, files = self.store.list(path)
        documents = [name for name in self.format.documents if name in files]
        self.store.delete([join(path, name) for name in documents])
        for folder in folders:
            if folder != HIDDEN:
                self.store.delete_tree(join(path, folder), "")
        self.store.delete([join(path, name) for name in files if name not in documents])
        self._renew(path, self.format.documents, below=True)

    def _renew(self, path: str, names: Sequence[str], *, below: bool = False) -> None:
        if self.renews:
            consolidated.renew(self.store, [path], names, below=below)

    def renew(self, paths: Sequence[str]) -> None:
        """Update existing consolidated metadata after nodes have changed."""
        consolidated.renew(self.store, paths, self.format.documents)

    def consolidate(self, path: str) -> None:
        """Write a group's consolidated metadata."""
        consolidated.consolidate(self.store, path, self.format.documents)

    # Chunks

    def chunk_key(self, path: str, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return a chunk's key in the store."""
        return join(path, self.format.chunk_key(metadata, index))

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the chunk that a key relative to the array names, or None."""
        return self.format.chunk_index(metadata, key)

    def walk(self, path: str) -> Iterator[str]:
        """Iterate over all keys below a node, relative to it."""
        return (info.key for info in self.store.list_info(path, sizes=False))

    def get_chunk(self, path: str, metadata: ArrayMetadata, index: Index) -> bytes | None:
        """Return a chunk's bytes, or None if it is not stored."""
        return self.store.get(self.chunk_key(path, metadata, index), metadata.most_stored)

    def get_chunks(
        self, path: str, metadata: ArrayMetadata, indices: Iterable[Index], ahead: int
    ) -> Iterator[tuple[Index, bytes | None]]:
        """Iterate over chunks and their bytes; at most `ahead` are requested at once."""
        indices, keyed = tee(indices)
        keys = (self.chunk_key(path, metadata, index) for index in keyed)
        fetched = self.store.fetch(keys, ahead, metadata.most_stored)
        return ((index, data) for index, (_, data) in zip(indices, fetched, strict=True))

    def head_chunks(
        self, path: str, metadata: ArrayMetadata, indices: Iterable[Index], count: int
    ) -> Iterator[tuple[bytes, int] | None]:
        """Iterate over the first `count` bytes of chunks and their sizes; None if not stored."""
        return heads(self.store, (self.chunk_key(path, metadata, i) for i in indices), count)

    def has_chunk(self, path: str, metadata: ArrayMetadata, index: Index) -> bool:
        """Return whether a chunk is stored."""
        return self.store.exists(self.chunk_key(path, metadata, index))

    def set_chunks(
        self,
        path: str,
        metadata: ArrayMetadata,
        items: Iterable[tuple[Index, Buffer | None]],
        ahead: int,
    ) -> Iterator[None]:
        """Store chunks in turn, or remove those without bytes; at most `ahead` at once."""
        keyed = ((self.chunk_key(path, metadata, index), data) for index, data in items)
        return (None for _ in self.store.set_many(keyed, ahead))

    def delete_chunks(self, path: str, metadata: ArrayMetadata, indices: Iterable[Index]) -> None:
        """Remove chunks; those that are not stored are ignored."""
        self.store.delete([self.chunk_key(path, metadata, index) for index in indices])

    def list_chunks(
        self, path: str, metadata: ArrayMetadata, rest: list[str] | None = None
    ) -> Iterator[Index]:
        """Iterate over the stored chunks, even those beyond the array's ends.

        The keys of other files are added to `rest`.
        """
        for key in self.walk(path):
            index = self.format.chunk_index(metadata, key)
            if index is not None:
                yield index
            elif rest is not None:
                rest.append(key)

    def list_chunk_info(
        self, path: str, metadata: ArrayMetadata
    ) -> Iterator[tuple[Index, ObjectInfo]]:
        """Iterate over the stored chunks with their sizes and times."""
        for info in self.store.list_info(path):
            index = self.format.chunk_index(metadata, info.key)
            if index is not None:
                yield index, info


# Errors for nodes that do not exist, with a hint at what exists instead


def not_found(container: Container, node: Node, kind: Kind) -> NodeNotFoundError:
    """Return the error for opening a node that is absent, or of another kind."""
    hint = ""
    if kind == "group" and isinstance(node.metadata, ArrayMetadata):
        hint = "it is an array: use open_array"
    elif kind == "array" and isinstance(container, KeyedContainer) and container.is_false(node):
        return structure.not_an_array(container.store, node.path)
    else:
        with suppress(*REFUSED):  # a server that lists nothing must not hide the real error
            hint = _hint(container, node.path)
    return NodeNotFoundError(container.url, node.path, kind, hint)


def _hint(container: Container, path: str) -> str:
    """Return a hint at what exists instead of a node; "" if that is unknown."""
    store = container.store if isinstance(container, KeyedContainer) else None
    if store is not None and (store.exists(path) or store.exists("")):
        return _file(store)
    names = container.children(path)
    while path and not names and not container.node(path).described:
        path = path.rpartition("/")[0]
        names = container.children(path)
    if foreign := container.foreign([path]):
        return f"{path or '/'!r} is {TITLES[foreign[1]]} ({foreign[1]}): pass its format, or none"
    if names:
        shown = ", ".join([*names[:_SHOWN], *["..."] * (len(names) > _SHOWN)])
        return f"{path or '/'!r} holds {shown}"
    return "" if container.node(path).described else _absent(store)


def _absent(store: Store | None) -> str:
    """Return whether a local container is empty or does not exist, with a similar name."""
    parent = None if store is None else store.parent()
    if store is None or parent is None or not isinstance(uncached(parent), LocalStore):
        return "the container is empty or does not exist"
    names = list(islice(chain(*parent.list("")), _MOST_COMPARED))
    if store.name in names or parent.exists(store.name):
        return "the container is empty"
    return f"the container does not exist{near(store.name, names)}"


def _file(store: Store) -> str:
    """Return the kind of a file that is not a container."""
    head = store.head("", LOOK)
    reader = None if head is None else scene_reader(head[0])
    if reader is not None:
        return reader.hint(store.get("", MOST_BYTES) or b"")
    return "it is a file, but not an HDF5 file on a local disk"
