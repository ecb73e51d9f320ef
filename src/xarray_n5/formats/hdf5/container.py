"""An HDF5 file as a container: its groups and datasets as metadata, its chunks by index.

A chunk's bytes are its filter mask and its bytes in the file (see ``format``). They are decoded
outside HDF5's lock.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from xarray_n5.errors import N5Error, NodeNotFoundError, OneWriterError
from xarray_n5.formats.hdf5 import files, nodes
from xarray_n5.formats.hdf5.attributes import VERSION
from xarray_n5.formats.hdf5.format import MASK_BYTES, Hdf5
from xarray_n5.formats.hdf5.nodes import (
    Members,
    address_of,
    check_inside,
    children,
    links_in,
    node_in,
)
from xarray_n5.formats.hdf5.opening import Sidecar, stamp_of
from xarray_n5.formats.protocol import Node
from xarray_n5.model.grid import index_of
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import join
from xarray_n5.stores.base import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.formats.protocol import Kind
    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Attributes, Buffer, Metadata


def _this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Hdf5Container:
    """A file on a local disk, opened for each operation and closed again."""

    file: str
    """The file's absolute path."""
    fsync: bool = False
    """Whether writes wait until they have reached the disk."""
    follow_external: bool = False
    """Whether external links, external storage and virtual datasets are read."""
    members: Members | None = field(default=None, compare=False)
    """The nodes that a walk has found: below its beginning, each group is listed once."""
    owner: str = field(default_factory=_this_process, compare=False)
    """The host and process that may write, and no other."""
    format: ClassVar[Hdf5] = Hdf5()
    batch: ClassVar[int] = 1
    documents: ClassVar[frozenset[str]] = frozenset()

    @property
    def url(self) -> str:
        """The file's path."""
        return self.file

    @property
    def name(self) -> str:
        """The file's name."""
        return os.path.basename(self.file)

    @property
    def store(self) -> Sidecar:
        """The directory next to the file for hidden files."""
        return Sidecar.of(self.file, fsync=self.fsync)

    @property
    def lists_x_first(self) -> bool:
        """Whether n5-hdf5 wrote the file, whose lists are in the order of N5, or it is new."""
        with self._reading() as file:
            return file is None or VERSION in file.node("").attrs

    def identity(self, path: str) -> object:
        """Return the file and the address in it, which all links to a node share."""
        with self._reading() as file:
            node = file.node(path) if file else None
            file_path = self.file if node is None else node.file.filename
            place = path if node is None else address_of(node)[-1]
            return ("hdf5", os.path.realpath(file_path), place)

    def where(self, path: str) -> str:
        """Return a node's location: the file and the path in it."""
        return join(self.file, path)

    def etag(self, path: str) -> object:
        """Return a value that changes whenever the file is written; None for an absent node."""
        with self._reading() as file:
            return None if file is None or file.node(path) is None else file.stamp

    def with_fsync(self) -> Self:
        """Return the container whose writes have reached the disk when they return."""
        return replace(self, fsync=True)

    # Operations that a single file does not need

    def _itself(self) -> Self:
        """Return the container itself, which keeps nothing that could be out of date."""
        return self

    cached = fresh = quiet = _itself

    def walking(self, path: str) -> Self:
        """Return the container for a walk that begins at a group."""
        return replace(self, members=Members(path))

    def uncached(self) -> Self:
        """Return the container without what a walk keeps."""
        return replace(self, members=None)

    def _nothing(self, *args: object, **options: object) -> None:
        """Do nothing: HDF5 distinguishes arrays from groups, and keeps its metadata consistent."""

    parent = foreign = check_array = check_version = consolidate = renew = _nothing

    # Nodes

    def node(self, path: str) -> Node:
        """Return the node at `path`: a group without attributes if there is none."""
        with self._reading() as file:
            metadata = nodes.read(file, path, self.where(path)) if file else None
        return Node(path=path, metadata=metadata or GroupMetadata(), described=metadata is not None)

    def nodes(self, paths: Sequence[str], *, verify: bool = True) -> list[Node | N5Error]:
        """Return the nodes at several paths, or why one cannot be read."""
        several: list[Node | N5Error] = []
        with self._reading():  # opened once
            for path in paths:
                try:
                    several.append(self.node(path))
                except N5Error as error:
                    several.append(error)
        return several

    def exists(self, node: Node) -> bool:
        """Return whether there is a node."""
        return node.described

    def children(self, path: str) -> tuple[str, ...]:
        """Return the sorted names of the nodes directly in a group, but for hidden ones."""
        with self._reading() as file:
            if file is None or not hasattr(file.node(path), "keys"):
                return ()
            find = self.members.children if self.members else children
            return tuple(find(file.node, path, follow=file.follow))

    def occupant(self, path: str, arrays: Sequence[ArrayMetadata] = ()) -> str | None:
        """Return the first node in a group, which prevents a new node there."""
        with self._reading() as file:
            links = links_in(file.node(path), follow=file.follow) if file else ()
            return next((name for name, _ in links), None)

    # Changes of nodes

    def create(self, before: Node, metadata: Metadata, *, fresh: bool = False) -> None:
        """Create a group, or a dataset in place of an empty group."""
        with self._writing() as file:
            nodes.create(file, before.path, metadata, self.where(before.path))

    def complete_group(self, node: Node, *, fresh: bool = False) -> None:
        """Create a group unless it exists."""
        if not node.described:
            with self._writing() as file:
                if node_in(file, node.path) is None:
                    file.create_group(node.path)

    def change_attributes(
        self, path: str, change: Callable[[Attributes], Attributes], kind: Kind
    ) -> Attributes:
        """Replace a node's user attributes by the result of `change`; return those."""
        with self._changing(path, kind) as (file, node):
            return nodes.change_attributes(file, path, node, change, self.where(path))

    def resize(self, path: str, shape: tuple[int, ...]) -> None:
        """Change a dataset's shape; its chunks stay."""
        with self._changing(path, "array") as (_, dataset):
            nodes.resize(dataset, shape, self.where(path))

    def delete(self, path: str) -> None:
        """Remove a node and everything below it; the file does not become smaller."""
        self.store.delete_tree(path, "")
        self.clear(path)

    def clear(self, path: str) -> None:
        """Remove a node and everything below it, but no records of writes, next to the file."""
        if self.etag(path) is not None:
            with self._writing() as file:
                nodes.delete(file, path)

    # Chunks

    def chunk_key(self, path: str, metadata: ArrayMetadata, index: Sequence[int]) -> str:
        """Return the name of a chunk: its index below the array's path."""
        return join(path, files.chunk_name(index))

    def chunk_index(self, metadata: ArrayMetadata, key: str) -> Index | None:
        """Return the chunk that a name below an array means, or None."""
        return index_of(key.split("."), len(metadata.shape))

    def walk(self, path: str) -> Iterator[str]:
        """Iterate over the names of the chunks in a dataset."""
        return (files.chunk_name(index) for index, _ in self._sizes(path))

    def get_chunk(self, path: str, metadata: ArrayMetadata, index: Index) -> bytes | None:
        """Return a chunk's filter mask and bytes, or None if it is not stored."""
        return files.read_chunk(self.file, path, index, follow=self.follow_external)

    def get_chunks(
        self, path: str, metadata: ArrayMetadata, indices: Iterable[Index], ahead: int
    ) -> Iterator[tuple[Index, bytes | None]]:
        """Iterate over chunks and their bytes, one after another."""
        with files.kept_open(self.file, follow=self.follow_external):
            for index in indices:
                yield index, self.get_chunk(path, metadata, index)

    def head_chunks(
        self, path: str, metadata: ArrayMetadata, indices: Iterable[Index], count: int
    ) -> Iterator[tuple[bytes, int] | None]:
        """Iterate over the first `count` bytes of chunks and their sizes; None if not stored."""
        for _, chunk in self.get_chunks(path, metadata, indices, 1):
            yield None if chunk is None else (chunk[:count], len(chunk))

    def has_chunk(self, path: str, metadata: ArrayMetadata, index: Index) -> bool:
        """Return whether a chunk is stored."""
        with self._reading() as file:
            chunks = file.chunks(path) if file else None
            return chunks is not None and chunks.exists(index)

    def set_chunks(
        self,
        path: str,
        metadata: ArrayMetadata,
        items: Iterable[tuple[Index, Buffer | None]],
        ahead: int,
    ) -> Iterator[None]:
        """Store chunks, or remove those without bytes; between two, others may use the file."""
        for index, data in items:
            if data is None:
                self.delete_chunks(path, metadata, [index])
            else:
                with self._changing(path, "array") as (_, dataset):
                    check_inside(dataset)
                    files.write_chunk(dataset, index, data)
            yield

    def delete_chunks(self, path: str, metadata: ArrayMetadata, indices: Iterable[Index]) -> None:
        """Set chunks to the fill value: HDF5 never removes stored ones."""
        stored = [index for index in indices if self.has_chunk(path, metadata, index)]
        if stored:
            with self._changing(path, "array") as (_, dataset):
                check_inside(dataset)
                for index in stored:
                    files.clear_chunk(dataset, index)

    def list_chunks(
        self, path: str, metadata: ArrayMetadata, rest: list[str] | None = None
    ) -> Iterator[Index]:
        """Iterate over the stored chunks."""
        return (index for index, _ in self._sizes(path))

    def list_chunk_info(
        self, path: str, metadata: ArrayMetadata
    ) -> Iterator[tuple[Index, ObjectInfo]]:
        """Iterate over the stored chunks with their sizes; times are the file's."""
        for index, size in self._sizes(path):
            changed = os.stat(self.file).st_mtime
            yield index, ObjectInfo(files.chunk_name(index), MASK_BYTES + size, changed)

    def _sizes(self, path: str) -> list[tuple[Index, int]]:
        with self._reading() as file:
            chunks = file.chunks(path) if file else None
            return list(chunks.sizes()) if chunks else []

    # The file

    def _reading(self) -> AbstractContextManager[files.OpenFile | None]:
        return files.reading(self.file, follow=self.follow_external)

    def _writing(self) -> AbstractContextManager[Any]:
        if self.owner != _this_process():
            why = f"{_this_process()} cannot write what {self.owner} has opened for writing"
            raise OneWriterError(self.file, why)
        if stamp_of(self.file) is None:
            self.store.remove_records()
        return files.writing(self.file, self.store.folder, fsync=self.fsync)

    @contextlib.contextmanager
    def _changing(self, path: str, kind: Kind) -> Iterator[tuple[Any, Any]]:
        """Yield the file, open for writing, and an existing node in it."""
        if stamp_of(self.file) is None:
            raise NodeNotFoundError(self.url, path, kind)
        with self._writing() as file:
            node = node_in(file, path)
            if node is None or (kind == "array" and not nodes.is_dataset(node)):
                raise NodeNotFoundError(self.url, path, kind)
            yield file, node
