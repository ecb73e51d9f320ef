"""HDF5 files: documents and chunks are what HDF5 tells of its groups and datasets.

A node's documents are made up when they are asked for; a chunk is its filter mask and the bytes
in the file (:mod:`xarray_n5.formats.hdf5.chunk_index`). What is kept of writes, in hidden folders
elsewhere, lies in one beside the file.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from xarray_n5.codecs.hdf5 import FAILURES, import_h5py
from xarray_n5.errors import ChunkError, N5Error, OneWriterError
from xarray_n5.formats.hdf5 import files
from xarray_n5.formats.hdf5.chunk_layout import ChunkLocation
from xarray_n5.formats.hdf5.filters import MASK_BYTES
from xarray_n5.formats.hdf5.links import FOLLOW, address_of, members_of
from xarray_n5.formats.hdf5.nodes import (
    DOCUMENTS,
    clear_chunk,
    delete_node,
    document_of,
    index_of,
    write_chunk,
    write_document,
)
from xarray_n5.formats.hdf5.sidecar import forget_former, is_kept, tidy
from xarray_n5.formats.hdf5.signature import is_hdf5, stamp_of
from xarray_n5.model.paths import join
from xarray_n5.stores.filesystems import local_path
from xarray_n5.stores.local import LocalStore
from xarray_n5.stores.object_info import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.formats.hdf5.chunk_index import ChunkIndex
    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index
    from xarray_n5.stores.protocol import Listing

_LOCAL = re.compile(r"(?:file|local)://")


def _me() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Hdf5Store:
    """A file."""

    file: str
    """The file's absolute path."""
    fsync: bool = False
    """Whether a write waits until it would outlive a power cut."""
    follow_external: bool = False
    """Whether external links, external storage and virtual datasets are read."""
    owner: str = field(default_factory=_me, compare=False)
    """The host and the process that may write."""
    batch: ClassVar[int] = 1
    formats: ClassVar[tuple[str, ...]] = ("hdf5",)
    one_writer: ClassVar[bool] = True

    @classmethod
    def at(cls, place: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at the path of a file that is HDF5, or will be by its name."""
        if isinstance(place, cls):
            return place
        path = _LOCAL.sub("", place) if isinstance(place, str) else local_path(place)
        if path is None and isinstance(place, os.PathLike):
            path = os.fsdecode(place)
        if path is None or "::" in path or "://" in path:
            return None
        path = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
        if not is_hdf5(path):
            return None
        import_h5py()  # or say now what is missing, not when something is half written
        return cls(path, follow_external=bool(options.get(FOLLOW)))

    @property
    def url(self) -> str:
        """The file's path."""
        return self.file

    @property
    def name(self) -> str:
        """What the file is called."""
        return os.path.basename(self.file)  # noqa: PTH119

    def identity(self, path: str) -> object:
        """Return what tells a node from others, by whichever links it is found."""
        with self._reading() as file:
            node = file.node(path) if file else None
            if node is None:
                return ("hdf5", os.path.realpath(self.file), path)
            return ("hdf5", os.path.realpath(node.file.filename), address_of(node)[1])

    @property
    def beside(self) -> LocalStore:
        """The directory in which the marks and records of writes into the file are kept."""
        return self._beside

    @property
    def _beside(self) -> LocalStore:
        folder, name = os.path.split(self.file)
        return LocalStore(f"{folder}/.{name}.kept", fsync=self.fsync)

    def _reading(self) -> AbstractContextManager[files.CachedFile | None]:
        return files.reading(self.file, follow=self.follow_external)

    # Reading

    def get(self, key: str) -> bytes | None:
        """Return a document, or a chunk's filter mask and bytes."""
        if is_kept(key):
            return self._beside.get(key)
        path, _, name = key.rpartition("/")
        if name in DOCUMENTS:
            with self._reading() as file:
                return document_of(file, path, name) if file else None
        found, stamp = self._find(path, name)
        while isinstance(found, ChunkLocation):
            # Outside the lock: others may read meanwhile, or write, and so move the chunk.
            try:
                data = found.read()
            except (EOFError, ValueError) as error:
                raise ChunkError("decode", self.file, key, str(error)) from error
            if stamp_of(self.file) == stamp:
                return data
            before = found
            found, stamp = self._find(path, name)
            if found == before:
                return data
        return found

    def _find(self, path: str, name: str) -> tuple[ChunkLocation | bytes | None, object]:
        """Return where a chunk is, or its bytes, and the file's stamp then."""
        with self._reading() as file:
            chunk = _chunk(file, path, name) if file else None
            if file is None or chunk is None:
                return None, None
            chunks, index = chunk
            try:
                place = chunks.find(index)
            except FAILURES as error:
                if isinstance(error, N5Error):
                    raise
                why = f"HDF5 cannot read it ({error}); hdf5plugin has filters that HDF5 has not"
                raise ChunkError("decode", self.file, join(path, name), why) from error
            return place, file.stamp

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return what is at each key; of documents, the file is opened once for all."""
        if any(key.rpartition("/")[2] not in DOCUMENTS for key in keys):
            return [self.get(key) for key in keys]
        with self._reading():
            return [self.get(key) for key in keys]

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:  # noqa: ARG002
        """Iterate over keys and the bytes there, one by one."""
        return ((key, self.get(key)) for key in keys)

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first bytes at `key`, and how many there are."""
        path, _, name = key.rpartition("/")
        found = None if is_kept(key) or name in DOCUMENTS else self._find(path, name)[0]
        if isinstance(found, ChunkLocation):
            return found.head(count)
        data = found if found is not None else self.get(key)
        return None if data is None else (data[:count], len(data))

    def exists(self, key: str) -> bool:
        """Return whether there is a document or a chunk at `key`."""
        if is_kept(key):
            return self._beside.exists(key)
        path, _, name = key.rpartition("/")
        if name in DOCUMENTS:
            return self.get(key) is not None
        with self._reading() as file:
            chunk = _chunk(file, path, name) if file else None
            return chunk is not None and chunk[0].exists(chunk[1])

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a group at `prefix`."""
        if is_kept(prefix):
            return self._beside.is_folder(prefix)
        with self._reading() as file:
            return file is not None and file.node(prefix) is not None

    def list(self, prefix: str) -> Listing:
        """Return names of nodes and of documents; chunks, of which there are more, are walked."""
        if is_kept(prefix):
            return self._beside.list(prefix)
        kept, _ = self._beside.list(prefix)
        hidden = tuple(name for name in kept if is_kept(name))
        with self._reading() as file:
            node = file.node(prefix) if file else None
            if file is None or node is None:
                # What is kept of a file that is no more stands in nobody's way.
                return (hidden if file else ()), ()
            documents = tuple(name for name in DOCUMENTS if document_of(file, prefix, name))
            inner = (
                () if hasattr(node, "shape") else members_of(file.node, prefix, follow=file.follow)
            )
            return (*hidden, *inner), documents

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return what lies directly under each prefix."""
        return [self.list(prefix) for prefix in prefixes]

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over all keys under `prefix`, relative to it."""
        kept = is_kept(prefix)
        yield from (key for key in self._beside.walk(prefix) if kept or is_kept(key))
        if kept:
            return
        yield from (key for key, _ in self._walk(prefix))

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over all keys under `prefix`, with their sizes; times are the file's."""
        kept = is_kept(prefix)
        found = self._beside.list_info(prefix)
        yield from (each for each in found if kept or is_kept(each.key))
        if kept:
            return
        for key, size in self._walk(prefix):
            yield ObjectInfo(key, size, os.stat(self.file).st_mtime)  # noqa: PTH116

    def _walk(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Iterate over the keys in the file, with their sizes; HDF5 is asked once for an array."""
        folders, names = self.list(prefix)
        for name in names:
            yield name, len(self.get(join(prefix, name)) or b"")
        with self._reading() as file:
            index = file.chunks(prefix) if file else None
            chunks = list(index.sizes()) if index else []
        for each, size in chunks:
            yield ".".join(map(str, each)) or "0", MASK_BYTES + size
        for folder in folders:
            if not is_kept(folder):
                yield from ((f"{folder}/{key}", n) for key, n in self._walk(join(prefix, folder)))

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over what stopped writes left: nothing in a file."""
        return iter(key for key in self._beside.list_partials(prefix) if is_kept(key))

    def etag(self, key: str) -> object:
        """Return what changes whenever the file is written, or None where it has no such key."""
        if is_kept(key):
            return self._beside.etag(key)
        return stamp_of(self.file) if self.exists(key) else None

    def parent(self) -> LocalStore:
        """Return the directory that the file is in."""
        return LocalStore(os.path.dirname(self.file))  # noqa: PTH120

    # Writing

    def with_fsync(self) -> Self:
        """Return the store with :attr:`fsync`."""
        return replace(self, fsync=True)

    def set(self, key: str, data: Buffer) -> None:
        """Make a document true, or store a chunk; the file is closed before others come."""
        if is_kept(key):
            self._beside.set(key, data)
            return
        if stamp_of(self.file) is None:
            forget_former(self._beside)
        path, _, name = key.rpartition("/")
        with self._writing() as file:
            if name in DOCUMENTS:
                write_document(file, path, name, bytes(data))
                return
            write_chunk(file, path, name, data)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove keys: of chunks, which HDF5 keeps once they are stored, the values alone."""
        chosen = list(keys)
        self._beside.delete([key for key in chosen if is_kept(key)])
        chunks = [key for key in chosen if not is_kept(key) and self.exists(key)]
        if not chunks:
            return
        with self._writing() as file:
            for key in chunks:
                clear_chunk(file, *key.rpartition("/")[::2])

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove a group or an array with all in it; its room in the file is not given back."""
        self._beside.delete_tree(prefix, first)
        tidy(self._beside, prefix)
        if is_kept(prefix) or not self.is_folder(prefix):
            return
        with self._writing() as file:
            delete_node(file, prefix)

    def _writing(self) -> Any:
        if self.owner != _me():
            raise OneWriterError(
                self.file, f"{_me()} cannot write what {self.owner} has opened for writing"
            )
        return files.writing(self.file, self._beside.root, fsync=self.fsync)


def _chunk(file: files.CachedFile, path: str, name: str) -> tuple[ChunkIndex, Index] | None:
    """Return the chunks of the dataset at a path, and which of them a name is; else None."""
    index = index_of(name)
    chunks = None if index is None else file.chunks(path)
    if index is None or chunks is None or len(index) != max(1, len(chunks.layout.chunks)):
        return None
    return chunks, index[: len(chunks.layout.chunks)]
