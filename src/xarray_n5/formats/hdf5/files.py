"""HDF5 files, opened by path for as long as it takes to ask where things lie: one lock for all.

No handle is kept, pickled or inherited by a fork: other programs may write when nobody asks. What
is known of a file is kept until it changes. Chunks are read, and decompressed, without the lock.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError, N5Error, OneWriterError, PathError
from xarray_n5.formats.hdf5.birth import BOUNDS, born, flush_file, stamp_of
from xarray_n5.formats.hdf5.chunk_index import index_of
from xarray_n5.formats.hdf5.library import FAILURES, hdf5
from xarray_n5.formats.hdf5.links import members_of, node_in, outside
from xarray_n5.formats.hdf5.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.model.grid import Index


_PATIENCE = 2.0
"""For how many seconds a file is waited for that others write; five times of that to write."""

_LEFT = "it is being written, or its writer was stopped: `h5clear -s` mends the latter"

_WHAT = "HDF5 files"

_MOST_FILES = 32
"""Of how many files is kept what is known."""


class Files:
    """What is known of files, those used last at the end."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: OrderedDict[tuple[str, bool], KnownFile] = OrderedDict()


_files = Files()
_abandoned: list[Files] = []


def _forget() -> None:
    """Leave what is locked, and open, to the parent."""
    global _files  # noqa: PLW0603 - the one thing that a process has of its own
    _abandoned.append(_files)
    _files = Files()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@dataclass(slots=True)
class KnownFile:
    """What is known of a file; it is opened when more is asked for."""

    path: str
    stamp: object
    follow: bool = False
    """Whether links to other files are followed."""
    known: dict[str, Stored | None] = field(default_factory=dict)
    handle: Any = None
    users: int = 0

    @property
    def file(self) -> Any:
        """The file, open for reading."""
        if self.handle is None:
            self.handle = _open(self.path)
        return self.handle

    def close(self) -> None:
        """Close the file where it is open."""
        if self.handle is not None:
            self.handle.close()
            self.handle = None

    def node(self, path: str) -> Any:
        """Return the group or dataset at a path, or None."""
        return node_in(self.file, path, follow=self.follow)

    def members(self, path: str) -> list[str]:
        """Return the names of the groups and datasets in the group at a path."""
        return members_of(self.file, path, follow=self.follow)

    def stored(self, path: str) -> Stored | None:
        """Return what is known of the dataset at a path, or None."""
        known = self.known.get(path)
        moved = known is not None and known.elsewhere != self._elsewhere(known)
        if moved or path not in self.known:
            found = self.node(path)
            shaped = getattr(found, "shape", None) is not None
            if shaped and not self.follow and (why := outside(found)):
                raise PathError(f"{self.path}: {path!r}: {why}")
            known = self.known[path] = Stored.of(found) if shaped else None
            if known is not None:
                known.elsewhere = self._elsewhere(known)
        return known

    def chunk(self, path: str, name: str) -> tuple[Stored, Index] | None:
        """Return the dataset at a path, and which of its chunks a name is; else None."""
        index = index_of(name)
        stored = None if index is None else self.stored(path)
        if index is None or stored is None or len(index) != max(1, len(stored.chunks)):
            return None
        return stored, index[: len(stored.chunks)]

    def _elsewhere(self, stored: Stored) -> object:
        """Return the stamp of the file that an external link leads to; None of this one."""
        return None if stored.source == self.path else stamp_of(stored.source)


@contextlib.contextmanager
def reading(path: str, *, follow: bool = False) -> Iterator[KnownFile | None]:
    """Give what is known of a file, which is opened if need be; None where there is none.

    Raises
    ------
    MetadataError
        If HDF5 fails to read what it is asked for: the file is damaged.
    """
    files = _files
    with files.lock:
        shared = flush_own(path)
        stamp = stamp_of(path)
        if stamp is None:
            _check_left(path)
            yield None
            return
        found = files.known.pop((path, follow), None)
        if found is None or ((shared or found.stamp != stamp) and not found.users):
            found = KnownFile(path, stamp, follow)
        files.known[path, follow] = found
        while len(files.known) > _MOST_FILES:
            files.known.popitem(last=False)
        found.users += 1
        try:
            yield found
        except FAILURES as error:
            if isinstance(error, N5Error) or getattr(error, "errno", None) is not None:
                raise
            raise MetadataError(
                f"{path}: HDF5 cannot read it ({error}): the file is damaged; restore it"
            ) from error
        finally:
            found.users -= 1
            if not found.users:
                found.close()


def flush_own(path: str) -> bool:
    """Write out what this process has written through h5py into a file that it holds open.

    Returned is whether there is such a file: what is known of it may be out of date any moment.
    """
    h5py = sys.modules.get("h5py")
    if h5py is None or not h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
        return False
    with h5py._objects.phil:  # noqa: SLF001 - no thread may close files between the two calls
        found = h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)
        shared = [each for each in found if _is_written(each) and _is_at(path, each.name)]
        for each in shared:
            h5py.h5f.flush(each, h5py.h5f.SCOPE_LOCAL)
        return bool(shared)


def _is_written(file: Any) -> bool:
    return bool(file.valid and file.get_intent() & 1)  # H5F_ACC_RDWR


def _is_at(path: str, name: bytes) -> bool:
    try:
        return os.path.samefile(path, os.fsdecode(name))  # noqa: PTH121
    except OSError:
        return False


@contextlib.contextmanager
def writing(path: str, beside: str, *, flush: bool) -> Iterator[Any]:
    """Open a file for writing, all others of this process shut out, and close it again.

    So a file is whole between two writes, and others may read it then. A new one is made in the
    folder `beside`, and gets its name with the first thing in it.
    """
    files = _files
    with files.lock:
        for follow in (False, True):
            files.known.pop((path, follow), None)
        new = stamp_of(path) is None
        if new:
            _check_left(path)
        opened = born(path, beside) if new else _opened(path)
        with opened as file:
            try:
                yield file
            except FAILURES as error:
                if isinstance(error, N5Error) or getattr(error, "errno", None) is not None:
                    raise
                raise MetadataError(f"{path}: HDF5 cannot change it so ({error})") from error
        if flush:
            flush_file(path)


def _check_left(path: str) -> None:
    """Raise where a file of which there is only the beginning is being written."""
    if not os.path.exists(path):  # noqa: PTH110
        return
    h5py = hdf5(_WHAT)
    try:
        _patiently(lambda: h5py.File(path, "r").close(), _PATIENCE)
    except BlockingIOError as error:
        raise OneWriterError(path, "another program is writing it") from error
    except OSError:
        return  # its writer was killed


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file that exists for writing."""
    h5py = hdf5(_WHAT)
    try:
        file = _patiently(lambda: h5py.File(path, "r+", libver=BOUNDS), 5 * _PATIENCE)
    except BlockingIOError as error:
        raise OneWriterError(path, "another process has it open") from error
    except OSError as error:
        if "already open for write" in str(error):
            raise OneWriterError(path, _LEFT) from error
        if "already open" in str(error) or "lock" in str(error):
            raise OneWriterError(path, f"it is open elsewhere ({error})") from error
        raise _damaged(path, error) from error
    with file:
        yield file


def _open(path: str) -> Any:
    h5py = hdf5(_WHAT)
    try:
        return _patiently(lambda: h5py.File(path, "r"), _PATIENCE)
    except BlockingIOError as error:
        raise OneWriterError(path, "another program is writing it") from error
    except OSError as error:
        if "already open for write" not in str(error):
            raise _damaged(path, error) from error
    try:
        # Its writer lets others read it meanwhile.
        return h5py.File(path, "r", swmr=True, libver="latest")
    except OSError as error:
        raise OneWriterError(path, _LEFT) from error


def _damaged(path: str, error: OSError) -> Exception:
    """Return what is to be raised of a file that HDF5 does not open."""
    if error.errno is not None:
        return error  # the system's: no permission, say
    return MetadataError(f"{path}: HDF5 cannot open it ({error}); restore the file")


def _patiently(opening: Callable[[], Any], seconds: float) -> Any:
    """Open a file that others may have open for a moment, as this package does, or for long."""
    pause, until = 0.001, time.monotonic() + seconds
    while True:
        try:
            return opening()
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
