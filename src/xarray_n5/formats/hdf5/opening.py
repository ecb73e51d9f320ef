"""Open HDF5 files with h5py while other programs may read or write them; the state of a file.

A hidden directory next to a file has the records and digests of writes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from xarray_n5.codecs.hdf5 import import_h5py
from xarray_n5.errors import MetadataError, OneWriterError
from xarray_n5.formats.hdf5.format import MAX_CHUNK_BYTES
from xarray_n5.model.paths import HIDDEN, final_key, partial_key
from xarray_n5.stores.base import ObjectInfo
from xarray_n5.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.stores.base import Listing

SIGNATURE = b"\x89HDF\r\n\x1a\n"

_SUPERBLOCK = 96
"""The maximum size of the superblock at the beginning of a file; the root group follows."""

_BOUNDS = ("earliest", "v110")
"""The versions of HDF5 whose structures are written; HDF5 1.10 reads all of them."""

_PATIENCE = 2.0
"""The seconds that readers wait for another program's write; writers wait five times as long."""

_LEFT_OPEN = "already open for write"
"""What HDF5's errors say of a file that its writer has not closed."""

_CUT_SHORT = re.compile(r"eof = (\d{1,20}), \D+ = 0, stored_eof = (\d{1,20})\b")
"""What they say of a file that ends early: its size, and the one that it states."""


def open_to_read(path: str) -> Any:
    """Open an existing file, also while a writer lets others read it (SWMR)."""
    try:
        return _open(path, "r", _PATIENCE)
    except OSError as error:
        if _LEFT_OPEN in str(error):
            with contextlib.suppress(OSError):
                return _open(path, "r", 0, swmr=True, libver="latest")
        raise _failure(path, error) from error


def open_to_write(path: str) -> Any:
    """Open an existing file for writing."""
    try:
        return _open(path, "r+", 5 * _PATIENCE, libver=_BOUNDS)
    except OSError as error:
        raise _failure(path, error) from error


@contextlib.contextmanager
def created(path: str, folder: LocalStore) -> Iterator[Any]:
    """Create a file under a hidden name in `folder`; rename it once it is closed."""
    h5py, name = import_h5py(), os.path.basename(path)
    folder.make_folder("")
    # Those whose writer was killed.
    folder.delete([other for other in folder.list("")[1] if final_key(other) == name])
    hidden = partial_key(name)
    partial = f"{folder.url}/{hidden}"
    try:
        with h5py.File(partial, "w-", libver=_BOUNDS) as file:
            yield file
        sync(partial)
        _rename(partial, path)
    finally:
        folder.delete([hidden])
        folder.clear_folder("")


def _rename(partial: str, path: str) -> None:
    """Rename a new file, unless another process has created one meanwhile."""
    taken = OneWriterError(path, "another process has created it at the same time")
    if stamp_of(path) is not None:
        raise taken
    if os.path.exists(path):
        os.replace(partial, path)
        return
    try:
        os.link(partial, path)
    except FileExistsError as error:
        raise taken from error
    except OSError:
        os.replace(partial, path)


def check_stub(path: str) -> None:
    """Raise if a file that is only a stub is open elsewhere, because its writer is running."""
    if not os.path.exists(path):
        return
    try:
        _open(path, "r", _PATIENCE).close()
    except BlockingIOError as error:
        raise _failure(path, error) from error
    except OSError:
        return  # its writer was killed


def sync(path: str) -> None:
    """Wait until a file has reached the disk."""
    file = os.open(path, os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _failure(path: str, error: OSError) -> Exception:
    """Return the error of a file that HDF5 cannot open."""
    if _LEFT_OPEN in str(error):
        left = "it is being written, or its writer was stopped: in that case, run `h5clear -s`"
        return OneWriterError(path, left)
    if isinstance(error, BlockingIOError) or "already open" in str(error):
        return OneWriterError(path, f"another program is writing it, or has it open ({error})")
    if error.errno is not None:
        return error  # the system's, such as a missing permission
    sizes = _CUT_SHORT.search(str(error))
    stored, stated = map(int, sizes.groups()) if sizes else (0, 0)
    if not 0 < stated - stored <= MAX_CHUNK_BYTES:  # otherwise it lacks more than one write
        return MetadataError(f"{path}: HDF5 cannot open it ({error}); restore the file")
    return MetadataError(
        f"{path}: HDF5 cannot open it: it has {stored} bytes, but states {stated}. After a write "
        f"that failed, `truncate -s {stated} {shlex.quote(path)}` makes it open again; then run "
        "`xarray-n5 verify`. If it is a copy, copy it again"
    )


def _open(path: str, mode: str, seconds: float, **options: Any) -> Any:
    """Open a file; wait while others have it open."""
    h5py = import_h5py()
    pause, until = 0.001, time.monotonic() + seconds
    while True:
        try:
            return h5py.File(path, mode, **options)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


@dataclass(frozen=True, slots=True)
class Sidecar(LocalStore):
    """The directory of one file; it disappears with the last file in it.

    Files that belong to a former file of the same name are not listed; the first write removes
    them.
    """

    @classmethod
    def of(cls, file: str, *, fsync: bool) -> Self:
        """Return the directory of a file."""
        folder, name = os.path.split(file)
        return cls(folder, fsync=fsync, inside=f".{name}.kept")

    @property
    def url(self) -> str:
        """The file's path."""
        return f"{self.root}/{self.inside[1:].removesuffix('.kept')}"

    @property
    def folder(self) -> LocalStore:
        """The directory itself."""
        return LocalStore(self.root, fsync=self.fsync, inside=self.inside)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove a directory, and its parents that are empty then."""
        LocalStore.delete_tree(self, prefix, first)
        self._prune(prefix)

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory or a symbolic link, and its parents that are empty then."""
        LocalStore.clear_folder(self, prefix)
        self._prune(prefix)

    def _prune(self, prefix: str) -> None:
        while prefix:
            prefix = prefix.rpartition("/")[0]
            LocalStore.clear_folder(self, prefix)

    def list(self, prefix: str) -> Listing:
        """Return the names under `prefix`; none if there is no file."""
        return LocalStore.list(self, prefix) if stamp_of(self.url) is not None else ((), ())

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over files under `prefix`, with the HDF5 file's time: each write changes it."""
        yield from LocalStore.list_info(self, prefix, sizes=sizes)
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(self.url)
            name = os.path.basename(self.url)
            yield ObjectInfo(name, status.st_size, status.st_mtime)

    def remove_records(self) -> None:
        """Remove the records of writes into a former file of the same name."""
        keys = [info.key for info in LocalStore.list_info(self, "", sizes=False)]
        for folder in {key.partition(HIDDEN)[0] for key in keys if HIDDEN in key.split("/")}:
            self.delete_tree(f"{folder}{HIDDEN}", "")


# The state of a file, without HDF5


def stamp_of(path: str) -> object:
    """Return a value that changes whenever a file is written; None if there is no file, or a stub.

    A stub is what remains if a file's first writer is killed: at most its superblock.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if is_stub(path, status):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def is_stub(path: str, status: os.stat_result) -> bool:
    """Return whether a file is at most the superblock of an HDF5 file."""
    if status.st_size > _SUPERBLOCK or not stat.S_ISREG(status.st_mode):
        return False
    with open(path, "rb") as file:
        return SIGNATURE.startswith(file.read(len(SIGNATURE)))
