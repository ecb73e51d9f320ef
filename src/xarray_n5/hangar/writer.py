"""Write samples to new files of Hangar's HDF5_00, one after another."""

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
from xarray_n5.hangar.handles import HANDLES, hdf5, identity_of
from xarray_n5.hangar.layout import (
    DATASETS,
    ROWS,
    Layout,
    digest_of,
    filters,
    following,
    is_finished,
    remaining,
)
from xarray_n5.hangar.records import Record, check_length
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, DTypeLike

RENAMES_OPEN_FILES = os.name != "nt"
"""Whether an open file can be renamed; not on Windows."""

BOUNDS = ("v110", "v110")
"""The version of HDF5 for the structures of files, so that Hangar's h5py can read them."""

_LETTERS = string.ascii_lowercase + string.digits


class HangarWriter:
    """Write samples of one type into new files, in the layout of Hangar's HDF5_00.

    A file holds 24,750 samples, then a new one is created; existing files are never changed. When
    :meth:`write` returns, its sample survives a kill of the process. Other processes may read at
    the same time.

    Parameters
    ----------
    folder : str or os.PathLike
        A local folder for the files, created if it does not exist. A Hangar repository is refused,
        because its database would not know the new files.
    shape : tuple of int
        The shape of samples; where shapes differ, the largest size along each axis.
    dtype : dtype
        The type of samples: booleans, integers or real floats.
    compression : mapping, optional
        Hangar's options: "complib", one of "blosc:blosclz", "blosc:lz4", "blosc:lz4hc",
        "blosc:zlib", "blosc:zstd", "lzf" and "gzip"; "complevel", 0 to 9, or None with "lzf";
        "shuffle", None, "none", "byte" or "bit" with Blosc, otherwise a boolean, None, "none" or
        "byte"; "backend", only "00". By default "blosc:lz4hc", 5 and "byte", or "lzf" for samples
        of 16 bytes and less.

    Raises
    ------
    MetadataError
        If the type, the shape or the compression is invalid. Nothing is written then.
    NodeExistsError
        If the folder is a Hangar repository.
    PathError
        If the folder is a URL.
    MissingPackageError
        If h5py or hdf5plugin is not installed.

    Examples
    --------
    >>> with xarray_n5.hangar.HangarWriter("files", (2, 3), "uint8") as writer:
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
            url = redact_urls(os.fspath(folder))
            raise PathError(f"{url!r}: Hangar's files can only be written on local disks")
        self._folder = Path(folder).absolute()
        if any(".hangar" in each for each in (self._folder.parts, _names(self._folder))):
            hint = "its database would not know the new files; write to another folder"
            raise NodeExistsError(str(self._folder), "", "a Hangar repository", hint)
        kind = np.dtype(dtype).newbyteorder("=")
        self._layout = Layout(_whole(shape), kind)
        self._filters = filters(compression, self._layout.size * kind.itemsize)
        # Raises for shapes whose records would be too long.
        self._record("0" * 8, "0" * 16, DATASETS, ROWS, self._layout.shape)
        self._hdf5 = hdf5()
        self._process = os.getpid()
        self._lock = Lock()
        self._file: Any = None
        self._dataset: Any = None
        self._uid = ""
        self._identity = (0, 0)
        self._position = (0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a HangarWriter cannot be sent to another process; create one in each process"
        )

    def write(self, sample: ArrayLike) -> str:
        """Write one sample.

        Parameters
        ----------
        sample : array_like
            An array of the writer's type and number of axes, along no axis larger.

        Returns
        -------
        str
            The sample's record, for :func:`~xarray_n5.hangar.from_hangar`.

        Raises
        ------
        MetadataError
            If the sample's type or shape does not fit. Nothing is written then.
        RuntimeError
            If the writer was forked; make one in each process.

        Examples
        --------
        >>> with xarray_n5.hangar.HangarWriter("files", (2, 3), "uint8") as writer:
        ...     writer.write(np.ones((1, 3), "uint8")).split(":")[-1]
        '1 3'
        """
        values = self._checked(sample)
        digest = digest_of(values)
        with self._lock:
            if self._process != os.getpid():
                raise RuntimeError(
                    "the process of this HangarWriter was forked; create a writer in each process"
                )
            number, row = self._advance()
            self._dataset.write_direct(values.reshape(-1), None, (row, slice(0, values.size)))
            self._dataset.flush()
            uid = self._uid
        return self._record(uid, digest, number, row, values.shape)

    def close(self) -> None:
        """Close the open file; later samples go into a new one.

        Examples
        --------
        >>> writer = xarray_n5.hangar.HangarWriter("files", (2, 3), "uint8")
        >>> record = writer.write(np.ones((2, 3), "uint8"))
        >>> writer.close()
        """
        with self._lock:
            if self._file is not None and self._process == os.getpid():
                self._finish()

    def __del__(self) -> None:
        # At exit, HDF5 closes its files itself; after a fork they belong to the parent.
        if getattr(self, "_file", None) is None or sys.is_finalizing():
            return
        if self._process == os.getpid():
            self.close()

    def _checked(self, sample: ArrayLike) -> np.ndarray:
        if isinstance(sample, np.ma.MaskedArray):
            raise MetadataError(
                "the sample is masked, and Hangar's files do not store masks; fill it (filled())"
            )
        found = np.asarray(sample)
        largest = self._layout.shape
        if found.dtype.newbyteorder("=") != self._layout.dtype:
            raise MetadataError(f"expected a sample of {self._layout.dtype}, got {found.dtype}")
        if found.ndim != len(largest) or any(map(int.__gt__, found.shape, largest)):
            raise MetadataError(
                f"expected a sample of shape {largest} or smaller, got {found.shape}"
            )
        return np.ascontiguousarray(found, self._layout.dtype).reshape(found.shape)

    def _advance(self) -> tuple[int, int]:
        """Return the next sample's dataset and row, in a new file if none is open or it is full."""
        if self._file is not None:
            self._position = following(*self._position)
            if is_finished(self._position[0]):
                self._finish()
        if self._file is None:
            self._begin()
        if self._position[1] == 0:
            self._dataset = self._file[str(self._position[0])]
        return self._position

    def _begin(self) -> None:
        """Create a file under a hidden name; it is renamed when it can be read."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._uid, partial, file = self._new()
        self._identity = identity_of(str(partial))
        HANDLES.written.add(self._identity)
        try:
            self._prepare(file)
            self._file = self._published(file, partial)
        except BaseException:
            self._close(file)
            partial.unlink(missing_ok=True)
            raise
        self._position = (0, 0)

    def _new(self) -> tuple[str, Path, Any]:
        """Create a hidden file, and return its unused name, path and handle."""
        while True:
            uid = "".join(secrets.choice(_LETTERS) for _ in range(8))
            partial = self._folder / f".{uid}.partial"
            try:
                # Mode "x" fails for existing files.
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
        """Switch the file to single writer, multiple readers, rename it, and return it."""
        if RENAMES_OPEN_FILES:
            file.swmr_mode = True
            partial.rename(self._path(self._uid))
            return file
        file.close()
        path = partial.rename(self._path(self._uid))
        return _reopened(self._hdf5, path)

    def _prepare(self, file: Any) -> None:
        """Create the datasets and attributes that Hangar creates."""
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
            file.attrs.modify("next_location", self._position)
            file.attrs.modify("collections_remaining", remaining(self._position[0]))
        finally:
            self._close(file)

    def _close(self, file: Any) -> None:
        try:
            file.close()
        finally:
            HANDLES.written.discard(self._identity)

    @staticmethod
    def _record(uid: str, digest: str, dataset: int, row: int, shape: tuple[int, ...]) -> str:
        text = str(Record(uid=uid, digest=digest, dataset=dataset, row=row, shape=shape))
        check_length(text)
        return text


def _reopened(h5py: Any, path: Path) -> Any:
    """Open a file in SWMR mode at once; h5py would open it exclusively."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    flags = h5py.h5f.ACC_RDWR | h5py.h5f.ACC_SWMR_WRITE
    return h5py.File(h5py.h5f.open(os.fsencode(path), flags, fapl=access))


def _whole(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape as integers; raise if they are not sizes."""
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise MetadataError(f"shape is {shape!r}; expected integers") from error
    if any(size < 0 for size in sizes):
        raise MetadataError(f"shape is {shape!r}; expected sizes of at least 0")
    return sizes


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - names are enough
