"""Samples into new files of Hangar's HDF5_00, one after another."""

from __future__ import annotations

import operator
import os
import secrets
import string
import sys
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from xarray_n5.errors import MetadataError, NodeExistsError, PathError
from xarray_n5.hangar.handles import HANDLES, hdf5, place_of
from xarray_n5.hangar.layout import (
    DATASETS,
    ROWS,
    Layout,
    digest_of,
    following,
    is_finished,
    remaining,
)
from xarray_n5.hangar.options import filters
from xarray_n5.hangar.records import Record
from xarray_n5.stores.redaction import hide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, DTypeLike

RENAMES_OPEN_FILES = os.name != "nt"
"""Whether a file may be renamed while it is open: Windows refuses it."""

BOUNDS = ("v110", "v110")
"""The version of HDF5 whose structures files have: the one that Hangar's h5py reads."""

_LETTERS = string.ascii_lowercase + string.digits


class HangarWriter:
    """Write samples of one type into new files, in the layout of Hangar's HDF5_00.

    A file takes 24,750 samples, then another one is begun; a file that exists is never written
    to. Each sample is on its way to the disk when :meth:`write` returns: where the process is
    killed, those before it can be read. Other processes may read while this one writes.

    Parameters
    ----------
    folder
        A local folder for the files; it is made where it is missing. A Hangar repository is
        refused: its database would not know them.
    shape
        The shape of a sample, or, where they differ, the largest size along each axis.
    dtype
        The type of their elements: booleans, integers or real floats.
    compression
        Hangar's options: "complib", one of "blosc:blosclz", "blosc:lz4", "blosc:lz4hc",
        "blosc:zlib", "blosc:zstd", "lzf" and "gzip"; "complevel", 0 to 9, None with "lzf";
        "shuffle", None, "none", "byte" or "bit" with Blosc, else a boolean, None, "none" or
        "byte"; "backend", which may be "00". By default "blosc:lz4hc", 5 and "byte", and "lzf"
        where a sample has no more than 16 bytes.

    Raises
    ------
    MetadataError
        If the type, the shape or the compression cannot be had. Nothing was written then.
    NodeExistsError
        If the folder is a Hangar repository.
    PathError
        If the folder is a URL.
    MissingPackageError
        If h5py or hdf5plugin is not installed.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> with HangarWriter(mkdtemp(), (2, 3), "uint8") as writer:
    ...     record = writer.write(np.ones((2, 3), "uint8"))
    >>> record.split(":")[2:]
    ['ee18e7d7b7680c64', '0', '0', '2 3']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        shape: tuple[int, ...],
        dtype: DTypeLike,
        compression: Mapping[str, Any] | None = None,
    ) -> None:
        if "://" in os.fspath(folder):
            raise PathError(
                f"{hide(os.fspath(folder))!r}: Hangar's files are written on local disks only"
            )
        self._folder = Path(folder).absolute()
        if any(".hangar" in each for each in (self._folder.parts, _names(self._folder))):
            hint = "write into a folder of its own: its database would not know of new files"
            raise NodeExistsError(str(self._folder), "", "a Hangar repository", hint)
        kind = np.dtype(dtype).newbyteorder("=")
        self._layout = Layout(_whole(shape), kind)
        self._filters = filters(compression, self._layout.size * kind.itemsize)
        # The longest record that there can be.
        self._record("0" * 8, "0" * 16, DATASETS, ROWS, self._layout.shape)
        self._hdf5 = hdf5()
        self._process = os.getpid()
        self._lock = Lock()
        self._file: Any = None
        self._dataset: Any = None
        self._uid = ""
        self._inode = (0, 0)
        self._place = (0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a writer of Hangar's files belongs to one process; make one in each")

    def write(self, sample: ArrayLike) -> str:
        """Write one sample.

        Parameters
        ----------
        sample
            Of the writer's type and number of axes, and along none larger.

        Returns
        -------
        str
            Its record, which :func:`~xarray_n5.from_hangar` takes.

        Raises
        ------
        MetadataError
            If it is of another type or shape. Nothing was written then.
        """
        values = self._checked(sample)
        digest = digest_of(values)
        with self._lock:
            if self._process != os.getpid():
                raise RuntimeError(
                    "a writer of Hangar's files was forked; make one in each process"
                )
            number, row = self._advance()
            self._dataset.write_direct(values.reshape(-1), None, (row, slice(0, values.size)))
            self._dataset.flush()
            uid = self._uid
        return self._record(uid, digest, number, row, values.shape)

    def close(self) -> None:
        """Close the file that is open; a sample that is written later goes into a new one."""
        with self._lock:
            if self._file is not None and self._process == os.getpid():
                self._finish()

    def __del__(self) -> None:
        # HDF5 closes all files by itself where Python is ending; a fork's are its parent's.
        if getattr(self, "_file", None) is None or sys.is_finalizing():
            return
        if self._process == os.getpid():
            self.close()

    def _checked(self, sample: ArrayLike) -> np.ndarray:
        if isinstance(sample, np.ma.MaskedArray):
            raise MetadataError("a masked sample; Hangar's files keep no masks: fill it (filled())")
        found = np.asarray(sample)
        largest = self._layout.shape
        if found.dtype.newbyteorder("=") != self._layout.dtype:
            raise MetadataError(f"a sample of {found.dtype}; these files hold {self._layout.dtype}")
        if found.ndim != len(largest) or any(map(int.__gt__, found.shape, largest)):
            raise MetadataError(f"a sample of shape {found.shape}; these files hold {largest}")
        return np.ascontiguousarray(found, self._layout.dtype).reshape(found.shape)

    def _advance(self) -> tuple[int, int]:
        """Go to where the next sample lies; begin a file where none is open or one is full."""
        if self._file is not None:
            self._place = following(*self._place)
            if is_finished(self._place[0]):
                self._finish()
        if self._file is None:
            self._begin()
        if self._place[1] == 0:
            self._dataset = self._file[str(self._place[0])]
        return self._place

    def _begin(self) -> None:
        """Make a file under a hidden name; readers find it when it is whole."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._uid, partial, file = self._new()
        self._inode = place_of(str(partial))
        HANDLES.written.add(self._inode)
        try:
            self._prepare(file)
            self._file = self._published(file, partial)
        except BaseException:
            self._close(file)
            partial.unlink(missing_ok=True)
            raise
        self._place = (0, 0)

    def _new(self) -> tuple[str, Path, Any]:
        """Return a name that no file has, and a new file that keeps it from other writers."""
        while True:
            uid = "".join(secrets.choice(_LETTERS) for _ in range(8))
            partial = self._folder / f".{uid}.partial"
            try:
                # "x" makes a file or fails: none that exists is touched.
                file = self._hdf5.File(partial, "x", libver=BOUNDS)
            except FileExistsError:
                continue
            if not self._path(uid).exists():
                return uid, partial, file
            file.close()
            partial.unlink()

    def _path(self, uid: str) -> Path:
        return self._folder / f"{uid}.hdf5"

    def _published(self, file: Any, partial: Path) -> Any:
        """Open the file for its readers, give it its name, and return it."""
        if RENAMES_OPEN_FILES:
            file.swmr_mode = True
            partial.rename(self._path(self._uid))
            return file
        file.close()
        path = partial.rename(self._path(self._uid))
        return _reopened(self._hdf5, path)

    def _prepare(self, file: Any) -> None:
        """Make what Hangar makes."""
        for number in range(DATASETS):
            file.create_dataset(
                str(number),
                shape=(ROWS, self._layout.size),
                maxshape=(ROWS, self._layout.size),
                dtype=self._layout.dtype,
                chunks=self._layout.chunks,
                compression=self._filters.compression,
                compression_opts=self._filters.options,
                shuffle=self._filters.shuffle,
            )
        for name, value in self._layout.attributes().items():
            file.attrs[name] = value
        options = self._filters.options
        file.attrs["compression_opts"] = False if options is None else options
        file.flush()

    def _finish(self) -> None:
        file, self._file, self._dataset = self._file, None, None
        try:
            file.attrs.modify("next_location", self._place)
            file.attrs.modify("collections_remaining", remaining(self._place[0]))
        finally:
            self._close(file)

    def _close(self, file: Any) -> None:
        try:
            file.close()
        finally:
            HANDLES.written.discard(self._inode)

    @staticmethod
    def _record(uid: str, digest: str, dataset: int, row: int, shape: tuple[int, ...]) -> str:
        return Record(uid=uid, digest=digest, dataset=dataset, row=row, shape=shape).text()


def _reopened(h5py: Any, path: Path) -> Any:
    """Open a file for a single writer from the first; h5py alone would open it for itself first."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    flags = h5py.h5f.ACC_RDWR | h5py.h5f.ACC_SWMR_WRITE
    return h5py.File(h5py.h5f.open(os.fsencode(path), flags, fapl=access))


def _whole(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape whose sizes are numbers of elements."""
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise MetadataError(f"shape is {shape!r}; whole numbers are needed") from error
    if any(size < 0 for size in sizes):
        raise MetadataError(f"shape is {shape!r}; sizes are not negative")
    return sizes


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - names are enough
