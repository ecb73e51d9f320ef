"""HDF5 files and their chunks: opened by path, closed within one operation, one lock for all.

No handle is kept, pickled or inherited by a fork, so other programs may write in between. Chunks
are decompressed outside the lock.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import ChunkError, MetadataError, N5Error, PathError
from xarray_n5.formats.hdf5 import opening
from xarray_n5.formats.hdf5.attributes import VERSION
from xarray_n5.formats.hdf5.chunks import Chunks
from xarray_n5.formats.hdf5.format import NO_FILTERS, split_mask
from xarray_n5.formats.hdf5.nodes import node_in, outside
from xarray_n5.formats.hdf5.opening import stamp_of
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.model.grid import Index
    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores.local import LocalStore

_N5_VERSION = "1.0.0"
"""The version on the root of new files, which all versions of n5-hdf5 accept."""

_ERRNO = re.compile(r"\berrno = (\d{1,9})\b")
_OF_DISKS = frozenset({"EFBIG", "ENOSPC", "EDQUOT", "EIO"})
"""The system's errors that h5py may raise as a RuntimeError, when it closes a file."""


class OpenFiles:
    """The files that this process reads at this moment, and the lock for all use of HDF5."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: dict[tuple[str, bool], OpenFile] = {}

    def begin(self, path: str, follow: bool, stamp: object) -> OpenFile:
        """Return a file for one more use, opened anew if it has changed since."""
        file = self.files.get((path, follow))
        if file is None or file.stamp != stamp:
            file = self.files[path, follow] = OpenFile(path, follow, stamp)
        file.users += 1
        return file

    def end(self, file: OpenFile) -> None:
        """End a use, the last of which closes the file."""
        file.users -= 1
        if not file.users:
            file.close()
            if self.files.get((file.path, file.follow)) is file:
                del self.files[file.path, file.follow]


_open = OpenFiles()
_abandoned: list[OpenFiles] = []


def _leave_to_parent() -> None:
    """Start afresh in a forked process; what is open or locked stays the parent's."""
    global _open  # noqa: PLW0603 - the only state of a process
    _abandoned.append(_open)
    _open = OpenFiles()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


@dataclass(slots=True)
class OpenFile:
    """A file that is read; it is opened when it is needed, and again after a write."""

    path: str
    follow: bool
    """Whether links to other files are followed."""
    stamp: object
    users: int = 0
    _handle: Any = None
    _chunks: dict[str, Chunks | None] = field(default_factory=dict)
    """The datasets whose chunks have been read since the file was opened, by path."""

    @property
    def file(self) -> Any:
        """The h5py file, open for reading."""
        if self._handle is None:
            self._handle = opening.open_to_read(self.path)
        return self._handle

    def close(self) -> None:
        """Close the file if it is open."""
        self._chunks.clear()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

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
        if path not in self._chunks:
            node = self.node(path)
            is_array = getattr(node, "shape", None) is not None
            if is_array and not self.follow and (why := outside(node)):
                raise PathError(f"{self.path}: {path!r}: {why}")
            self._chunks[path] = Chunks(node) if is_array else None
        return self._chunks[path]


@contextlib.contextmanager
def reading(path: str, *, follow: bool = False) -> Iterator[OpenFile | None]:
    """Yield a file for reading, which is opened if needed; None if there is none.

    Raises
    ------
    MetadataError
        If HDF5 fails because the file is damaged.
    """
    files = _open
    with files.lock:
        if (stamp := stamp_of(path)) is None:
            opening.check_stub(path)
            yield None
            return
        file = files.begin(path, follow, stamp)
        try:
            with _failures(path, "HDF5 cannot read it", ": the file is damaged; restore it"):
                yield file
        finally:
            files.end(file)


@contextlib.contextmanager
def kept_open(path: str, *, follow: bool) -> Iterator[None]:
    """Keep a file open between several uses, without the lock: others may use it meanwhile."""
    files = _open
    with files.lock:
        file = files.begin(path, follow, stamp_of(path))
    try:
        yield
    finally:
        with files.lock:
            files.end(file)


@contextlib.contextmanager
def writing(path: str, folder: LocalStore, *, fsync: bool) -> Iterator[Any]:
    """Yield an h5py file for writing, alone in this process, and close it again.

    Between two writes the file is complete, and others may read it. A new file is created in
    `folder`, and appears under its name with its first content.
    """
    files = _open
    with files.lock:
        for follow in (False, True):
            if file := files.files.get((path, follow)):
                file.close()
        new = stamp_of(path) is None
        if new:
            opening.check_stub(path)
        with (
            _failures(path, "HDF5 cannot make this change"),
            opening.created(path, folder) if new else opening.open_to_write(path) as written,
        ):
            if new:
                written.attrs[VERSION] = _N5_VERSION
            yield written
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
    chunks = Chunks(dataset)
    mask, payload = split_mask(chunk)
    if chunks.direct and mask != NO_FILTERS:
        _replace(dataset, chunks.start(index), bytes(payload), mask)
    else:
        _assign(dataset, chunks, index, np.frombuffer(payload, dataset.dtype))


def clear_chunk(dataset: Any, index: Index) -> None:
    """Set a chunk to the fill value, unfiltered: HDF5 never removes stored chunks."""
    chunks = Chunks(dataset)
    elements = np.full(math.prod(chunks.grid.chunks), dataset.fillvalue, dataset.dtype)
    if chunks.direct:
        skip_all = (1 << len(chunks.filters)) - 1
        _replace(dataset, chunks.start(index), elements.tobytes(), skip_all)
    else:
        _assign(dataset, chunks, index, elements)


def _assign(dataset: Any, chunks: Chunks, index: Index, elements: np.ndarray) -> None:
    inside = tuple(map(slice, chunks.grid.extent(index)))
    dataset[chunks.grid.slices(index)] = elements.reshape(chunks.grid.chunks)[inside]


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
