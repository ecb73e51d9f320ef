"""HDF5 files and their chunks: opened by path, closed within one operation, one lock for all.

No handle is kept, pickled or inherited by a fork, so other programs may write in between. Facts
about a file are kept until it changes. Chunks are decompressed outside the lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import ChunkError, MetadataError, N5Error, PathError
from xarray_n5.formats.hdf5 import opening
from xarray_n5.formats.hdf5.attributes import VERSION
from xarray_n5.formats.hdf5.chunks import Chunks
from xarray_n5.formats.hdf5.format import NO_FILTERS, split_mask
from xarray_n5.formats.hdf5.links import (
    Members,
    address_of,
    groups_around,
    links_in,
    node_in,
    outside,
)
from xarray_n5.formats.hdf5.opening import stamp_of
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index
    from xarray_n5.stores.local import LocalStore

_N5_VERSION = "1.0.0"
"""The version on the root of new files, which all versions of n5-hdf5 accept."""

_ERRNO = re.compile(r"\berrno = (\d{1,9})\b")
_OF_DISKS = frozenset({"EFBIG", "ENOSPC", "EDQUOT", "EIO"})
"""The system's errors that h5py may raise as a RuntimeError, when it closes a file."""

_MAX_FILES = 32
"""The number of files whose facts are kept."""


class FileCache:
    """The files of this process, the last used at the end, and the lock for all use of HDF5."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: OrderedDict[tuple[str, bool], CachedFile] = OrderedDict()


_cache = FileCache()
_abandoned: list[FileCache] = []


def _leave_to_parent() -> None:
    """Start afresh in a forked process; what is open or locked stays the parent's."""
    global _cache  # noqa: PLW0603 - the only state of a process
    _abandoned.append(_cache)
    _cache = FileCache()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


@dataclass(slots=True)
class CachedFile:
    """A file and the facts about its datasets; it is opened when more are needed."""

    path: str
    stamp: object
    follow: bool = False
    """Whether links to other files are followed."""
    users: int = 0
    _handle: Any = None
    _opened: dict[str, Any] = field(default_factory=dict)
    """The datasets whose chunks are read while the file is open, by path."""
    _datasets: dict[str, tuple[Chunks | None, object]] = field(default_factory=dict)
    """Each dataset by path, and the stamp of the other file that it is in."""
    _members: dict[str, Members] = field(default_factory=dict)
    """The nodes below the groups at which walks began, by the paths of these."""

    @property
    def file(self) -> Any:
        """The h5py file, open for reading."""
        if self._handle is None:
            self._handle = opening.open_to_read(self.path)
        return self._handle

    def close(self) -> None:
        """Close the file if it is open."""
        self._opened.clear()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def leave(self) -> None:
        """End a use, the last of which closes the file."""
        self.users -= 1
        if not self.users:
            self.close()

    def node(self, path: str) -> Any:
        """Return the h5py group or dataset at a path; None if there is none."""
        return node_in(self.file, path, follow=self.follow)

    def chunks(self, path: str) -> Chunks | None:
        """Return the chunks of the dataset at a path; None if there is no dataset with a shape.

        Raises
        ------
        PathError
            If its elements are in another file, unless `follow` is set.
        """
        chunks, stamp = self._datasets.get(path, (None, None))
        if path not in self._datasets or stamp != self._other_stamp(chunks):
            chunks = self._read_chunks(path)
            self._datasets[path] = chunks, self._other_stamp(chunks)
        return chunks

    def children(self, path: str, top: str | None) -> list[str]:
        """Return the sorted names of the nodes in a group; hidden ones and circles are left out.

        In a walk that began at `top`, each group is in one group only, see :class:`Members`.
        """
        node = self.node(path)
        if node is None or hasattr(node, "shape"):
            return []
        if top is not None:
            members, address = self._members.get(top), address_of(node)
            if members is None or not members.is_current:
                members = self._members[top] = Members.below(self.node, top)
            while address not in members.names and members.level:
                members.read_level(self.node, follow=self.follow)
            if address in members.names:
                return members.names[address]
        outer = groups_around(self.node, path)
        links = links_in(node, follow=self.follow)
        return [name for name, to in links if to not in outer and not name.startswith(".")]

    def _read_chunks(self, path: str) -> Chunks | None:
        node = self.node(path)
        if getattr(node, "shape", None) is None:
            return None
        if not self.follow and (why := outside(node)):
            raise PathError(f"{self.path}: {path!r}: {why}")
        return Chunks(node, lambda: self._dataset(path))

    def _dataset(self, path: str) -> Any:
        """Return the dataset at a path, which is kept until the file is closed."""
        if path not in self._opened:
            self._opened[path] = self.node(path)
        return self._opened[path]

    def _other_stamp(self, chunks: Chunks | None) -> object:
        """Return the stamp of the file that an external link leads to; None for this file."""
        return None if chunks is None or chunks.file == self.path else stamp_of(chunks.file)


@contextlib.contextmanager
def reading(path: str, *, follow: bool = False) -> Iterator[CachedFile | None]:
    """Yield a file for reading, which is opened if needed; None if there is none.

    Raises
    ------
    MetadataError
        If HDF5 fails because the file is damaged.
    """
    cache = _cache
    with cache.lock:
        stamp = stamp_of(path)
        if stamp is None:
            opening.check_stub(path)
            yield None
            return
        file = cache.files.pop((path, follow), None)
        if file is None or file.stamp != stamp:
            if file is not None:
                file.close()
            file = CachedFile(path, stamp, follow)
        cache.files[path, follow] = file
        while len(cache.files) > _MAX_FILES:
            cache.files.popitem(last=False)
        file.users += 1
        try:
            with _failures(path, "HDF5 cannot read it", ": the file is damaged; restore it"):
                yield file
        finally:
            file.leave()


@contextlib.contextmanager
def kept_open(path: str, *, follow: bool) -> Iterator[None]:
    """Keep a file open between several uses, without the lock: others may use it meanwhile."""
    cache = _cache
    with reading(path, follow=follow) as file:
        if file is not None:
            file.users += 1
    try:
        yield
    finally:
        if file is not None:
            with cache.lock:
                file.leave()


@contextlib.contextmanager
def writing(path: str, folder: LocalStore, *, fsync: bool) -> Iterator[Any]:
    """Yield an h5py file for writing, alone in this process, and close it again.

    Between two writes the file is complete, and others may read it. A new file is created in
    `folder`, and appears under its name with its first content.
    """
    cache = _cache
    with cache.lock:
        for follow in (False, True):
            if (known := cache.files.pop((path, follow), None)) is not None:
                known.close()
        new = stamp_of(path) is None
        if new:
            opening.check_stub(path)
        with (
            _failures(path, "HDF5 cannot make this change"),
            opening.created(path, folder) if new else opening.open_to_write(path) as file,
        ):
            if new:
                file.attrs[VERSION] = _N5_VERSION
            yield file
        with contextlib.suppress(OSError):
            os.utime(path)  # so that no two writes have the same time, which kernels round
        if fsync:
            opening.sync(path)


@contextlib.contextmanager
def _failures(path: str, what: str, then: str = "") -> Iterator[None]:
    """Convert HDF5's errors, also of closing the file; those of this package are not changed."""
    try:
        yield
    except FAILURES as error:
        if isinstance(error, N5Error):
            raise
        number = int(match[1]) if (match := _ERRNO.search(str(error))) else 0
        if errno.errorcode.get(number) in _OF_DISKS:
            raise OSError(number, os.strerror(number), path) from error
        if getattr(error, "errno", None) is not None:
            raise
        if isinstance(error, RecursionError):
            then = ": its groups are nested too deeply; open one of them"
        raise MetadataError(f"{path}: {what} ({error}){then}") from error


def chunk_name(index: Sequence[int]) -> str:
    """Return a chunk's name below its array.

    >>> chunk_name((0, 12)), chunk_name(())
    ('0.12', '0')
    """
    return ".".join(map(str, index)) or "0"


def read_chunk(file: str, path: str, index: Index, *, follow: bool) -> bytes | None:
    """Return a stored chunk; None if it is not stored."""
    with reading(file, follow=follow) as known:
        chunks = known.chunks(path) if known else None
        try:
            return None if chunks is None else chunks.read(index)
        except FAILURES as error:
            if isinstance(error, N5Error):
                raise
            advice = "; hdf5plugin has further filters" if isinstance(error, OSError) else ""
            why = f"HDF5 cannot read it ({error}){advice}"
            raise ChunkError("decode", file, join(path, chunk_name(index)), why) from error


def write_chunk(dataset: Any, index: Index, chunk: Buffer) -> None:
    """Store a chunk: its bytes, or its unfiltered elements, through HDF5."""
    chunks = Chunks(dataset, lambda: dataset)
    mask, payload = split_mask(chunk)
    if chunks.direct and chunks.chunked and mask != NO_FILTERS:
        _replace(dataset, chunks.start(index), bytes(payload), mask)
    else:
        elements = np.frombuffer(payload, dataset.dtype).reshape(chunks.grid.chunks)
        _assign(dataset, chunks.grid.slices(index), elements)


def clear_chunk(dataset: Any, index: Index) -> None:
    """Set a chunk to the fill value, unfiltered: HDF5 never removes stored chunks."""
    chunks = Chunks(dataset, lambda: dataset)
    elements = np.full(chunks.grid.chunks, dataset.fillvalue, dataset.dtype)
    if chunks.direct and chunks.chunked:
        skip_all = (1 << len(chunks.filters)) - 1
        _replace(dataset, chunks.start(index), elements.tobytes(), skip_all)
    else:
        _assign(dataset, chunks.grid.slices(index), elements)


def _assign(dataset: Any, selection: tuple[slice, ...], elements: np.ndarray) -> None:
    dataset[selection] = elements[tuple(slice(part.stop - part.start) for part in selection)]


def _replace(dataset: Any, start: tuple[int, ...], data: bytes, mask: int) -> None:
    """Store a chunk's bytes with their filter mask.

    HDF5 keeps the former mask if the size stays the same, so another size is stored first.
    """
    filtered = bool(dataset.id.get_create_plist().get_nfilters())
    if filtered and _mask_of(dataset, start, len(data)) not in {None, mask}:
        dataset.id.write_direct_chunk(start, data + b"\0", mask)
    dataset.id.write_direct_chunk(start, data, mask)


def _mask_of(dataset: Any, start: tuple[int, ...], size: int) -> int | None:
    """Return the filter mask of a stored chunk; None if it is not stored or of another size."""
    try:
        mask, data = dataset.id.read_direct_chunk(start)
    except (OSError, RuntimeError, ValueError, MemoryError):
        return None
    return mask if len(data) == size else None
