"""HDF5 files, opened by path and closed again within one operation; one lock for all.

No handle is kept, pickled or inherited by a fork, so other programs may write in between. Facts
about a file are kept until it changes. Chunks are read and decompressed outside the lock.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import MetadataError, N5Error, PathError
from xarray_n5.formats.hdf5.attributes import VERSION
from xarray_n5.formats.hdf5.chunk_index import ChunkIndex
from xarray_n5.formats.hdf5.chunk_layout import ChunkLayout
from xarray_n5.formats.hdf5.links import node_in, outside
from xarray_n5.formats.hdf5.opening import (
    check_stub,
    created,
    flush_h5py,
    open_to_read,
    open_to_write,
    sync,
)
from xarray_n5.formats.hdf5.signature import stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.stores.local import LocalStore

_N5_VERSION = "1.0.0"
"""The version on the root of new files, which all versions of n5-hdf5 accept."""

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
    _datasets: dict[str, tuple[ChunkIndex | None, object]] = field(default_factory=dict)
    """Each dataset by path, and the stamp of the other file that it is in."""

    @property
    def file(self) -> Any:
        """The h5py file, open for reading."""
        if self._handle is None:
            self._handle = open_to_read(self.path)
        return self._handle

    def close(self) -> None:
        """Close the file if it is open."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def node(self, path: str) -> Any:
        """Return the h5py group or dataset at a path; None if there is none."""
        return node_in(self.file, path, follow=self.follow)

    def chunks(self, path: str) -> ChunkIndex | None:
        """Return the chunks of the dataset at a path; None if there is no dataset with a shape.

        Raises
        ------
        PathError
            If its elements are in another file, unless `follow` is set.
        """
        index, stamp = self._datasets.get(path, (None, None))
        if path not in self._datasets or stamp != self._other_stamp(index):
            index = self._read_chunks(path)
            self._datasets[path] = index, self._other_stamp(index)
        return index

    def _read_chunks(self, path: str) -> ChunkIndex | None:
        node = self.node(path)
        if getattr(node, "shape", None) is None:
            return None
        if not self.follow and (why := outside(node)):
            raise PathError(f"{self.path}: {path!r}: {why}")
        return ChunkIndex(ChunkLayout.of(node), lambda: self.node(path))

    def _other_stamp(self, index: ChunkIndex | None) -> object:
        """Return the stamp of the file that an external link leads to; None for this file."""
        if index is None or index.layout.file == self.path:
            return None
        return stamp_of(index.layout.file)


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
        shared = flush_h5py(path)
        stamp = stamp_of(path)
        if stamp is None:
            check_stub(path)
            yield None
            return
        found = cache.files.pop((path, follow), None)
        if found is None or ((shared or found.stamp != stamp) and not found.users):
            found = CachedFile(path, stamp, follow)
        cache.files[path, follow] = found
        while len(cache.files) > _MAX_FILES:
            cache.files.popitem(last=False)
        found.users += 1
        try:
            with _failures(f"{path}: HDF5 cannot read it", ": the file is damaged; restore it"):
                yield found
        finally:
            found.users -= 1
            if not found.users:
                found.close()


@contextlib.contextmanager
def writing(path: str, folder: LocalStore, *, fsync: bool) -> Iterator[Any]:
    """Yield an h5py file for writing, alone in this process, and close it again.

    Between two writes the file is complete, and others may read it. A new file is created in
    `folder`, and appears under its name with its first content.
    """
    cache = _cache
    with cache.lock:
        for follow in (False, True):
            cache.files.pop((path, follow), None)
        new = stamp_of(path) is None
        if new:
            check_stub(path)
        with (
            created(path, folder) if new else open_to_write(path) as file,
            _failures(f"{path}: HDF5 cannot make this change"),
        ):
            if new:
                file.attrs[VERSION] = _N5_VERSION
            yield file
        with contextlib.suppress(OSError):
            os.utime(path)  # so that no two writes have the same time, which kernels round
        if fsync:
            sync(path)


@contextlib.contextmanager
def _failures(what: str, then: str = "") -> Iterator[None]:
    """Convert HDF5's errors; those of this package and of the system are not changed."""
    try:
        yield
    except FAILURES as error:
        if isinstance(error, N5Error) or getattr(error, "errno", None) is not None:
            raise
        raise MetadataError(f"{what} ({error}){then}") from error
