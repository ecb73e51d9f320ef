"""HDF5 files, opened by path for as long as it takes to ask where things lie: one lock for all.

No handle is kept, pickled or inherited by a fork: other programs may write when nobody asks. What
is known of a file is kept until it changes. Chunks are read, and decompressed, without the lock.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError, OneWriterError
from xarray_n5.storage.hdf5_chunks import index_of
from xarray_n5.storage.hdf5_library import hdf5
from xarray_n5.storage.hdf5_stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.grid import Index


SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ilp")
"""How the names of HDF5 files end."""

_SIGNATURE = b"\x89HDF\r\n\x1a\n"

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
        self.known: OrderedDict[str, KnownFile] = OrderedDict()


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
        return node_in(self.file, path)

    def stored(self, path: str) -> Stored | None:
        """Return what is known of the dataset at a path, or None."""
        known = self.known.get(path)
        moved = known is not None and known.elsewhere != self._elsewhere(known)
        if moved or path not in self.known:
            found = self.node(path)
            shaped = getattr(found, "shape", None) is not None
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


def node_in(file: Any, path: str) -> Any:
    """Return the group or dataset at a path of an open file, or None."""
    import h5py

    try:
        found = file[path or "/"]
    except KeyError:
        return None
    return found if isinstance(found, h5py.Group | h5py.Dataset) else None


def stamp_of(path: str) -> object:
    """Return what changes whenever a file is written, or None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextlib.contextmanager
def reading(path: str) -> Iterator[KnownFile | None]:
    """Give what is known of a file, which is opened if need be; None where there is none."""
    files = _files
    with files.lock:
        stamp = stamp_of(path)
        if stamp is None:
            yield None
            return
        found = files.known.pop(path, None)
        if found is None or (found.stamp != stamp and not found.users):
            found = KnownFile(path, stamp)
        files.known[path] = found
        while len(files.known) > _MOST_FILES:
            files.known.popitem(last=False)
        found.users += 1
        try:
            yield found
        finally:
            found.users -= 1
            if not found.users:
                found.close()


@contextlib.contextmanager
def writing(path: str, *, flush: bool) -> Iterator[Any]:
    """Open a file for writing, all others of this process shut out, and close it again.

    So a file is whole between two writes, and others may read it then.
    """
    h5py = hdf5(_WHAT)
    files = _files
    with files.lock:
        files.known.pop(path, None)
        try:
            file = _patiently(lambda: h5py.File(path, "a"), 5 * _PATIENCE)
        except BlockingIOError as error:
            raise OneWriterError(path, "another process has it open") from error
        except OSError as error:
            if "already open for write" in str(error):
                raise OneWriterError(path, _LEFT) from error
            if "already open" in str(error) or "lock" in str(error):
                raise OneWriterError(path, f"it is open elsewhere ({error})") from error
            raise _damaged(path, error) from error
        try:
            yield file
        finally:
            file.close()
        if flush:
            _flush(path)


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


def _flush(path: str) -> None:
    file = os.open(path, os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def is_hdf5(path: str) -> bool:
    """Return whether there is an HDF5 file, or nothing, but a name that an HDF5 file would have."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            start = file.read(len(_SIGNATURE))
            if not start:
                return path.endswith(SUFFIXES)
            at = 512  # a user's own bytes may come first, as many as a power of two
            while start and start != _SIGNATURE and at < 1 << 16:
                file.seek(at)
                start, at = file.read(len(_SIGNATURE)), at * 2
            return start == _SIGNATURE
    except IsADirectoryError:
        return False
    except OSError:
        return path.endswith(SUFFIXES) and not os.path.isdir(path)  # noqa: PTH112
