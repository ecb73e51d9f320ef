"""Hangar's HDF5_00 files: their schema, and runs of rows with samples.

A file has 100 datasets of 250 rows, with one flat sample per row.
"""

from __future__ import annotations

import math
import os
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import BLOSC, FAILURES, check_type, import_h5py, plugins_of
from xarray_n5.errors import ChunkError, MetadataError, N5Error, NodeNotFoundError, PathError
from xarray_n5.hangar.layout import digest_of, numbered
from xarray_n5.hangar.records import Record
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    LocalPath = str | os.PathLike[str]

_FLAGS = 11
"""The offset of the byte that shows whether a writer has a file open, since HDF5 1.10."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The shape and the type of samples; of a file's, the largest shape."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HangarFile:
    """A file's description, without its samples."""

    path: str
    schema: Schema
    counts: tuple[int, ...]
    """The number of written rows of each dataset, up to the last one with any."""
    stamp: tuple[int, int]
    """The time of the last change, and the size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive rows of one dataset."""

    path: str
    dataset: int
    first: int
    digests: tuple[str | None, ...]
    """The xxh64 of each row's sample, or None if it is unknown."""

    def record(self, row: int, shape: tuple[int, ...]) -> Record:
        """Return the record of the sample in one of the rows."""
        return Record(
            uid=PurePath(self.path).stem,
            dataset=self.dataset,
            row=self.first + row,
            shape=shape,
            digest=self.digests[row],
        )


def find_files(paths: LocalPath | Iterable[LocalPath]) -> list[str]:
    """Return the HDF5 files at one path, or at several.

    Parameters
    ----------
    paths
        Files and folders. For a folder, the files in it and in its subfolders; for a repository,
        those of HDF5_00; in order of their last change.

    Raises
    ------
    NodeNotFoundError
        If there are none.
    PathError
        If a path is a URL, or a file in a folder is a symbolic link that leads out of it.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [file for path in several for file in _files_at(path)]
    if not files:
        raise NodeNotFoundError(str(paths), "", "HDF5 file")
    return files


def _files_at(given: LocalPath) -> list[str]:
    path = local_path(given)
    if not path.exists():
        raise NodeNotFoundError(str(path), "", "HDF5 file or folder")
    if not path.is_dir():
        return [str(path)]
    repository = path if path.name == ".hangar" else path / ".hangar"
    folder = repository / "data/00" if repository.is_dir() else path
    files = [*folder.glob("*.hdf5"), *folder.glob("*/*.hdf5")]
    if not files:
        hint = "expected files called *.hdf5 in it or in its subfolders"
        raise NodeNotFoundError(os.fspath(given), "", "HDF5 file", hint)
    # Hangar links within its repository.
    root = next((up for up in (folder, *folder.parents) if up.name == ".hangar"), path)
    for file in files:
        if not file.resolve().is_relative_to(root.resolve()):
            raise PathError(
                f"{file}: it is a symbolic link to {file.resolve()}, out of {root}; if you trust "
                "it, pass that file itself"
            )
    return [str(file) for file in sorted(files, key=lambda file: (_stamp(file)[0], file.name))]


def local_path(path: LocalPath) -> Path:
    """Return an absolute path; raise PathError if it is a URL."""
    if "://" in os.fspath(path):
        url = redact_urls(os.fspath(path))
        raise PathError(f"{url!r}: Hangar's files are read and written on local disks only")
    return Path(path).absolute()


def _stamp(path: str | Path) -> tuple[int, int]:
    """Return the time of a file's last change, and its size."""
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise NodeNotFoundError(str(path), "", "HDF5 file") from error
    if not Path(path).is_file():
        raise MetadataError(f"{path}: expected a regular file; name another one")
    return status.st_mtime_ns, status.st_size


def describe(path: str) -> HangarFile:
    """Return a file's description; no sample is read.

    Stored chunks are counted: the attributes of a killed writer are outdated.

    Raises
    ------
    MetadataError
        If it is not one of Hangar's files.
    NodeNotFoundError
        If it does not exist.
    """
    stamp = _stamp(path)
    with _opened(path) as file:
        dataset = _dataset(file, 0, path)
        named = file.attrs.get("schema_shape", dataset.shape[1:])
        # The attribute `schema_dtype_num` has other meanings on other machines.
        schema = Schema(tuple(int(size) for size in np.ravel(named)), _native(dataset, path))
        _check_rows(dataset, 0, 1, schema.shape, path)
        counts: list[int] = []
        for number in range(len(file)):
            counts.append(_rows(_dataset(file, number, path)))
            if counts[-1] == 0:
                break
    return HangarFile(path=path, schema=schema, counts=tuple(filter(None, counts)), stamp=stamp)


def read_runs(runs: Sequence[Run], schema: Schema) -> np.ndarray:
    """Return the samples of runs, in the order of `runs`, along the first axis.

    Raises
    ------
    ChunkError
        If a row cannot be decoded, or its digest differs from its record's.
    MetadataError
        If a file does not have the rows.
    """
    samples = np.empty((sum(len(run.digests) for run in runs), *schema.shape), schema.dtype)
    start = 0
    for run in runs:
        stop = start + len(run.digests)
        with _opened(run.path) as file:
            rows = _read_rows(file, run, schema.shape)
            _check_digests(file, run, rows)
        samples[start:stop] = rows
        start = stop
    return samples


def _read_rows(file: Any, run: Run, shape: tuple[int, ...]) -> np.ndarray:
    """Return the samples of one run, in their stored type."""
    dataset, count = _dataset(file, run.dataset, run.path), len(run.digests)
    _check_rows(dataset, run.first, count, shape, run.path)
    rows = np.empty((count, *shape), _native(dataset, run.path))
    if rows.size:
        flat = rows.reshape(count, -1)
        where = slice(run.first, run.first + count), slice(0, flat.shape[1])
        try:
            dataset.read_direct(flat, where)
        except (OSError, RuntimeError, ValueError) as error:
            why = f"{error}, in {count} rows from this one on"
            raise ChunkError("decode", run.path, str(run.record(0, shape)), why) from error
    return rows


def _check_digests(file: Any, run: Run, rows: np.ndarray) -> None:
    """Raise ChunkError if a sample differs from its record's digest.

    Hangar also accepts a digest of the sample in the type that the file's attribute names: it
    confuses all-zero samples of different types.
    """
    other = numbered(int(file.attrs.get("schema_dtype_num", -1)))
    for row, digest in enumerate(run.digests):
        sample = rows[row, ...]
        if digest is None or digest_of(sample) == digest:
            continue
        if other is not None and digest_of(sample.astype(other)) == digest:
            continue
        why = (
            f"the xxh64 of the stored sample is {digest_of(sample)}, expected {digest} by the "
            "record: the file was changed or damaged after it was written, or the record belongs "
            "to another file"
        )
        raise ChunkError("decode", run.path, str(run.record(row, rows.shape[1:])), why)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file for one read.

    Raises
    ------
    MetadataError
        If it is not an HDF5 file.
    MissingPackageError
        If h5py or hdf5plugin is not installed.
    """
    h5py = import_h5py("Hangar's files", filters=True)
    # Each chunk is read once, so a cache would only use memory.
    options = {"libver": "latest", "rdcc_nbytes": 0, "rdcc_nslots": 1}
    _stamp(path)
    try:
        try:
            file = h5py.File(path, "r", **options)
        except PermissionError:
            raise
        except OSError as error:
            # With SWMR, HDF5 would retry for ever to read the missing end of a truncated file.
            if "truncated file" in str(error) and not _has_writer(path):
                raise
            file = h5py.File(path, "r", swmr=True, **options)
    except PermissionError:
        raise
    except OSError as error:
        raise MetadataError(
            f"{path}: cannot be opened for reading: {error}. Expected a complete HDF5 file, or one "
            "whose writer has it open in HDF5's SWMR mode"
        ) from error
    with closing(file):
        try:
            yield file
        except FAILURES as error:
            if isinstance(error, N5Error):
                raise
            raise MetadataError(
                f"{path}: HDF5 cannot read it ({error}): it is damaged, or not a file of "
                "Hangar's; restore it"
            ) from error


def _has_writer(path: str) -> bool:
    """Return whether a file is marked as open for writing; a killed writer leaves the mark."""
    with Path(path).open("rb") as file:
        start = file.read(_FLAGS + 1)
    return len(start) > _FLAGS and bool(start[_FLAGS])


def _dataset(file: Any, number: int, path: str) -> Any:
    """Return a dataset; raise if it is a link, or its data are in other files."""
    h5py, name = import_h5py("Hangar's files", filters=True), str(number)
    link = file.get(name, getlink=True) if name in file else None
    if not isinstance(link, h5py.HardLink):
        what = "nothing" if link is None else "a link"
        raise MetadataError(
            f"{path}: expected the dataset {name!r}, found {what}: it is not a file of Hangar's, "
            "or not the one that a record names"
        )
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.chunks is None or dataset.external:
        raise MetadataError(f"{path}: {name!r} is not a chunked dataset, as Hangar's are")
    if unknown := plugins_of(dataset) - {BLOSC}:
        raise MetadataError(f"{path}: {name!r} has filters {sorted(unknown)}, unlike Hangar's")
    check_type(dataset.id.get_type())
    return dataset


def _native(dataset: Any, path: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = dataset.dtype.newbyteorder("=")
    if numbered(dtype.num) is None:
        raise MetadataError(f"{path}: samples of {dataset.dtype}; expected real numbers")
    return dtype


def _check_rows(dataset: Any, first: int, count: int, shape: tuple[int, ...], path: str) -> None:
    """Raise MetadataError if a dataset does not have rows of a shape."""
    sizes = tuple(map(int, dataset.shape))
    if len(sizes) == 2 and first + count <= sizes[0] and math.prod(shape) <= sizes[1]:  # noqa: PLR2004
        return
    raise MetadataError(
        f"{path}: dataset {dataset.name[1:]!r} of shape {sizes} does not have rows {first} to "
        f"{first + count - 1} of shape {shape}, as in HDF5_00; the record belongs to another file"
    )


def _rows(dataset: Any) -> int:
    """Return the number of written rows; those before the last one count, too."""
    if dataset.id.get_num_chunks() == 0:
        return 0
    starts: list[int] = []
    dataset.id.chunk_iter(lambda chunk: starts.append(chunk.chunk_offset[0]))
    return min(max(starts) + int(dataset.chunks[0]), int(dataset.shape[0]))
