"""Read samples of Hangar's HDF5_00 files as Dask arrays: runs of rows, and blocks of runs.

A file has 100 datasets of 250 rows, with one flat sample per row.
"""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import tokenize

from xarray_n5.codecs.hdf5 import BLOSC, FAILURES, check_type, import_h5py, plugins_of
from xarray_n5.errors import ChunkError, MetadataError, N5Error, NodeNotFoundError, PathError
from xarray_n5.graph import Array, Task
from xarray_n5.hangar.records import (
    DATASETS,
    NUMBERED,
    ROWS,
    SampleRecord,
    Schema,
    digest_of,
    parse_record,
)
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    LocalPath = str | os.PathLike[str]

_MOST = 1 << 26
"""The largest block that is chosen automatically: 64 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangarFile:
    """A file's description, without its samples."""

    path: str
    schema: Schema
    runs: list[Run]
    """The written rows of each dataset, without digests."""
    stamp: tuple[int, int]
    """The time of the last change, and the size in bytes."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive rows of one dataset."""

    path: str
    dataset: int
    first: int
    digests: tuple[str | None, ...]
    """The xxh64 of each row's sample, or None if it is unknown."""

    def record(self, row: int, shape: tuple[int, ...]) -> str:
        """Return the record of the sample in one of the rows."""
        uid, digest = Path(self.path).stem, self.digests[row]
        return str(SampleRecord(uid, self.dataset, self.first + row, shape, digest))


def from_hangar(
    repo_or_files: LocalPath | Iterable[LocalPath],
    records: Iterable[str] | None = None,
    *,
    chunks: int | None = None,
) -> Array:
    """Open samples of Hangar's HDF5 files as a Dask array.

    Only metadata is read at once. Each task opens the files by their paths, and compares what it
    reads with the digest of its record, if it has one.

    Parameters
    ----------
    repo_or_files : str, os.PathLike or iterable of these
        A Hangar repository, a folder of HDF5 files, one file, or several: local, and at the same
        path on every worker. Files of the backend HDF5_00 are read.
    records : iterable of str, optional
        The records of the samples to read, in order: strings such as
        ``"00:rlUK3C:8067007c0f05c359:16:105:10 10"``. By default all written samples, committed or
        not, unchecked: file by file in order of their last change, in each file in order of
        writing. Only records know shapes that are smaller than the largest.
    chunks : int, optional
        The number of samples per block. By default a block is a run of consecutive rows of at most
        64 MiB; where the order differs from that of writing, runs
        are short, and larger blocks make a smaller graph.

    Returns
    -------
    dask.array.Array
        An array whose first axis is the samples.

    Raises
    ------
    NodeNotFoundError
        If there are no files, or not the one that a record names.
    MetadataError
        If a file or a record is not one of Hangar's, or samples of several shapes or types are
        requested.
    ChunkError
        When it is computed: if a sample cannot be decoded, or its digest differs from its record's.
    MissingPackageError
        If h5py or hdf5plugin is not installed.

    Examples
    --------
    >>> samples = np.arange(12, dtype="float32").reshape(2, 2, 3)
    >>> records = xarray_n5.hangar.to_hangar(samples, "files")
    >>> xarray_n5.hangar.from_hangar("files", records).shape
    (2, 2, 3)
    >>> xarray_n5.hangar.from_hangar("files", records[1:])[0].compute()
    array([[ 6.,  7.,  8.],
           [ 9., 10., 11.]], dtype=float32)
    """
    whole = isinstance(chunks, (int, np.integer)) and not isinstance(chunks, bool) and chunks > 0
    if chunks is not None and not whole:
        raise ValueError(f"chunks is {chunks!r}; expected a number of samples, or None")
    paths = find_files(repo_or_files)
    if records is None:
        files = [describe(path) for path in paths]
        schemas = [(file.path, file.schema) for file in files]
        runs = [run for file in files for run in file.runs]
        return _to_array(runs, _common(schemas), [file.stamp for file in files], chunks)
    if isinstance(records, (str, bytes)):
        raise MetadataError(f"{records!r} is a string; expected an iterable of records")
    parsed = list(map(parse_record, records))
    if not parsed:
        raise MetadataError("expected at least one record, which gives the shape")
    named = _find_named(parsed, paths)
    schemas = [(str(r), Schema(r.shape, named[r.uid].schema.dtype)) for r in parsed]
    stamps = [file.stamp for file in named.values()]
    return _to_array(_runs_of_records(parsed, named), _common(schemas), stamps, chunks)


def _common(schemas: Sequence[tuple[str, Schema]]) -> Schema:
    """Return the schema of all named files or records; raise MetadataError if some differ."""
    first = schemas[0][1]
    for name, schema in schemas:
        if schema != first:
            raise MetadataError(
                "samples of several shapes or types cannot be one array: "
                f"{first.dtype} of {first.shape} and, of {name!r}, {schema.dtype} of "
                f"{schema.shape}; pass the records or the files of each separately"
            )
    return first


# Files


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
    if not Path(path).exists():
        raise NodeNotFoundError(str(path), "", "HDF5 file")
    if not Path(path).is_file():
        raise MetadataError(f"{path}: expected a regular file; name another one")
    status = Path(path).stat()
    return status.st_mtime_ns, status.st_size


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file for one read; any failure of HDF5 is a MetadataError."""
    h5py = import_h5py("Hangar's files", filters=True)
    _stamp(path)
    try:
        # Each chunk is read once, so a cache would only use memory.
        with h5py.File(path, "r", libver="latest", rdcc_nbytes=0, rdcc_nslots=1) as file:
            yield file
    except PermissionError:
        raise
    except FAILURES as error:
        if isinstance(error, N5Error):
            raise
        raise MetadataError(
            f"{path}: HDF5 cannot read it ({error}): it is damaged, open in a writer, or not a "
            "file of Hangar's"
        ) from error


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
        dtype = dataset.dtype.newbyteorder("=")
        if dtype.num not in NUMBERED:
            raise MetadataError(f"{path}: samples of {dtype}; expected real numbers")
        schema = Schema(tuple(int(size) for size in np.ravel(named)), dtype)
        _check_rows(dataset, 0, 1, schema.shape, path)
        counts = (_rows(_dataset(file, number, path)) for number in range(len(file)))
        runs = [Run(path, n, 0, (None,) * rows) for n, rows in enumerate(takewhile(bool, counts))]
    return HangarFile(path=path, schema=schema, runs=runs, stamp=stamp)


def _dataset(file: Any, number: int, path: str) -> Any:
    """Return a dataset; raise if it is a link, or its data are in other files."""
    h5py, name = import_h5py("Hangar's files", filters=True), str(number)
    link = file.get(name, getlink=True) if name in file else None
    dataset = file[name] if isinstance(link, h5py.HardLink) else None
    if not isinstance(dataset, h5py.Dataset) or dataset.chunks is None or dataset.external:
        raise MetadataError(f"{path}: {name!r} is not a chunked dataset in it, as Hangar's are")
    if unknown := plugins_of(dataset) - {BLOSC}:
        raise MetadataError(f"{path}: {name!r} has filters {sorted(unknown)}, unlike Hangar's")
    check_type(dataset.id.get_type())
    return dataset


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
    starts: list[int] = []
    if dataset.id.get_num_chunks():
        dataset.id.chunk_iter(lambda chunk: starts.append(chunk.chunk_offset[0]))
    return min(max(starts) + int(dataset.chunks[0]), int(dataset.shape[0])) if starts else 0


# Samples


def _to_array(
    runs: Sequence[Run], schema: Schema, stamps: Sequence[object], chunks: int | None
) -> Array:
    """Return runs as a Dask array of one layer, whose tasks hold paths and rows."""
    most = max(1, _MOST // max(1, math.prod(schema.shape) * schema.dtype.itemsize))
    blocks = [block for run in runs for block in _blocks([run], most)]
    blocks = (blocks if chunks is None else _blocks(runs, chunks)) or [[]]
    counts = tuple(sum(len(run.digests) for run in block) for block in blocks)
    sizes = (counts, *((size,) for size in schema.shape))
    # One string: Dask is slow to hash many objects.
    rows = "\n".join(f"{run.path}:{run.dataset}:{run.first}:{run.digests}" for run in runs)
    name = f"from-hangar-{tokenize(rows, schema.dtype, stamps, sizes)}"
    keys = [(name, number, *(0 for _ in schema.shape)) for number in range(len(blocks))]
    tasks = zip(keys, blocks, strict=True)
    graph = {key: Task(key, _read, schema, block) for key, block in tasks}
    return Array(graph, name, sizes, dtype=schema.dtype)


def _blocks(runs: Sequence[Run], size: int) -> list[list[Run]]:
    """Return the runs of each block of `size` samples; the last one may have fewer."""
    blocks: list[list[Run]] = []
    room = 0
    for run in runs:
        start = 0
        while start < len(run.digests):
            if room == 0:
                blocks.append([])
                room = size
            digests = run.digests[start : start + room]
            blocks[-1].append(replace(run, first=run.first + start, digests=digests))
            start, room = start + len(digests), room - len(digests)
    return blocks


def _runs_of_records(records: Sequence[SampleRecord], files: Mapping[str, HangarFile]) -> list[Run]:
    """Return runs of the samples of records of one shape, in their order.

    Raises
    ------
    MetadataError
        If a record does not fit its file.
    """
    runs: list[Run] = []
    for record in records:
        file = files[record.uid]
        largest = file.schema.shape
        fits = record.dataset < DATASETS and record.row < ROWS
        fits = fits and len(record.shape) == len(largest)
        if not fits or any(map(int.__gt__, record.shape, largest)):
            raise MetadataError(
                f"the record {str(record)!r} does not fit {file.path}, which has {DATASETS} "
                f"datasets of {ROWS} rows, for samples of shape {largest}"
            )
        last = runs[-1] if runs else None
        place = last and (last.path, last.dataset, last.first + len(last.digests))
        if last and place == (file.path, record.dataset, record.row):
            runs[-1] = replace(last, digests=(*last.digests, record.digest))
        else:
            runs.append(Run(file.path, record.dataset, record.row, (record.digest,)))
    return runs


def _find_named(records: Sequence[SampleRecord], paths: Sequence[str]) -> dict[str, HangarFile]:
    """Return the files that records name, by their uids.

    Raises
    ------
    NodeNotFoundError
        If a file is not among `paths`, of which there is at least one.
    MetadataError
        If two of `paths` have the file's name.
    """
    named = {}
    for record in {record.uid: record for record in records}.values():
        several = sorted({path for path in paths if Path(path).stem == record.uid})
        if not several:
            hint = f"the record {str(record)!r} names it; fetch its data first"
            raise NodeNotFoundError(str(Path(paths[0]).parent), f"{record.uid}.hdf5", "file", hint)
        if len(several) > 1:
            raise MetadataError(
                f"the record {str(record)!r} names more than one file: {several}; pass one"
            )
        named[record.uid] = describe(several[0])
    return named


def _read(schema: Schema, runs: Sequence[Run]) -> np.ndarray:
    """Return the samples of runs, in their order, along the first axis."""
    samples = np.empty((sum(len(run.digests) for run in runs), *schema.shape), schema.dtype)
    start = 0
    for run in runs:
        stop = start + len(run.digests)
        _read_run(run, samples[start:stop])
        start = stop
    return samples


def _read_run(run: Run, rows: np.ndarray) -> None:
    """Read the samples of a run into an array.

    Hangar also accepts a digest of the sample in the type that the file's attribute names: it
    confuses all-zero samples of different types.

    Raises
    ------
    ChunkError
        If a row cannot be decoded, or its digest differs from its record's.
    MetadataError
        If the file does not have the rows.
    """
    count, shape = len(rows), rows.shape[1:]
    with _opened(run.path) as file:
        dataset = _dataset(file, run.dataset, run.path)
        _check_rows(dataset, run.first, count, shape, run.path)
        if rows.size:
            flat = rows.reshape(count, -1)
            where = slice(run.first, run.first + count), slice(0, flat.shape[1])
            try:
                dataset.read_direct(flat, where)
            except (OSError, RuntimeError, ValueError) as error:
                why = f"{error}, in {count} rows from this one on"
                raise ChunkError("decode", run.path, run.record(0, shape), why) from error
        other = NUMBERED.get(int(file.attrs.get("schema_dtype_num", -1)))
    for row, digest in enumerate(run.digests):
        sample = rows[row, ...]
        if digest is None or digest_of(sample) == digest:
            continue
        if other is not None and digest_of(sample.astype(other)) == digest:
            continue
        why = f"the xxh64 of the stored sample is {digest_of(sample)}, expected {digest} by the "
        why += "record: the file was changed or damaged, or the record belongs to another file"
        raise ChunkError("decode", run.path, run.record(row, shape), why)
