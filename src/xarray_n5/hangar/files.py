"""Hangar's HDF5 files: their schema, and runs of rows with samples.

The layout is that of Hangar's backend HDF5_00: 100 datasets of 250 rows, one sample per row. Files
of HDF5_01, whose rows have the shape of their sample, can be read, too.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import BLOSC, check_type, plugins_of
from xarray_n5.errors import ChunkError, MetadataError
from xarray_n5.hangar.handles import HANDLES, hdf5
from xarray_n5.hangar.layout import digest_of, numbered
from xarray_n5.hangar.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Schema:
    """The shape and the type of samples."""

    shape: tuple[int, ...]
    """The shape of each sample; of a file's, the largest."""
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The size of a sample in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        """Return a name for samples of the schema, such as ``float32_5x7x9``."""
        return "_".join(filter(None, (str(self.dtype), "x".join(map(str, self.shape)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class HangarFile:
    """A file's description, without its samples."""

    path: str
    schema: Schema
    datasets: int
    """The number of datasets."""
    rows: int
    """The rows of each of them."""
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
    backend: str = "00"

    def record(self, row: int, shape: tuple[int, ...]) -> Record:
        """Return the record of the sample in one of the rows."""
        return Record(
            uid=PurePath(self.path).stem,
            dataset=self.dataset,
            row=self.first + row,
            shape=shape,
            digest=self.digests[row],
            backend=self.backend,
        )


def describe(path: str) -> HangarFile:
    """Return a file's description; no sample is read.

    Raises
    ------
    MetadataError
        If it is not one of Hangar's files.
    NodeNotFoundError
        If it does not exist.
    """
    with HANDLES.reading(path) as file:
        dataset = _dataset(file, 0, path)
        named = file.attrs.get("schema_shape", dataset.shape[1:])
        # The attribute `schema_dtype_num` has other meanings on other machines.
        schema = Schema(tuple(int(size) for size in np.ravel(named)), _native(dataset, path))
        _selection(dataset, 0, (1, *schema.shape), path)
        counts = {"datasets": len(file), "rows": int(dataset.shape[0])}
    found = os.stat(path)  # noqa: PTH116 - the path is a string
    stamp = (found.st_mtime_ns, found.st_size)
    return HangarFile(path=path, schema=schema, stamp=stamp, **counts)


def written_rows(path: str) -> list[int]:
    """Return the number of written rows of each dataset, up to the last one with any.

    Stored chunks are counted: the attributes of a killed writer are outdated.
    """
    counts = []
    with HANDLES.reading(path) as file:
        for number in range(len(file)):
            rows = _rows(_dataset(file, number, path))
            if rows == 0:
                break
            counts.append(rows)
    return counts


def read_runs(runs: Sequence[Run], schema: Schema) -> np.ndarray:
    """Return the samples of runs, in the order of `runs`, along the first axis.

    Raises
    ------
    ChunkError
        If a row cannot be decoded, or its digest differs from its record's.
    MetadataError
        If a file does not have the rows.
    """
    shape, dtype = schema.shape, schema.dtype
    read: list[np.ndarray] = [np.empty((0, *shape), dtype)] * len(runs)
    for path, positions in _by_path(runs).items():
        opened: dict[int, Any] = {}
        with HANDLES.reading(path) as file:
            for position in positions:
                run = runs[position]
                if run.dataset not in opened:
                    opened[run.dataset] = _dataset(file, run.dataset, path)
                read[position] = _read_rows(opened[run.dataset], run, shape)
    for run, rows in zip(runs, read, strict=True):
        _check_digests(run, rows)
    if len(read) == 1:
        return read[0].astype(dtype, copy=False)
    return np.concatenate([np.empty((0, *shape), dtype), *read], dtype=dtype, casting="unsafe")


def _by_path(runs: Sequence[Run]) -> dict[str, list[int]]:
    """Return the positions of each file's runs, in the order of storage."""
    found: dict[str, list[int]] = {}
    for position in sorted(range(len(runs)), key=lambda k: (runs[k].dataset, runs[k].first)):
        found.setdefault(runs[position].path, []).append(position)
    return found


def _read_rows(dataset: Any, run: Run, shape: tuple[int, ...]) -> np.ndarray:
    """Return the samples of one run, in their stored type."""
    where, sizes = _selection(dataset, run.first, (len(run.digests), *shape), run.path)
    rows = np.empty((len(run.digests), *shape), _native(dataset, run.path))
    if rows.size:
        try:
            dataset.read_direct(rows.reshape(sizes), where)
        except (OSError, RuntimeError, ValueError) as error:
            why = f"{error}, in {len(rows)} rows from this one on"
            raise ChunkError("decode", run.path, str(run.record(0, shape)), why) from error
    return rows


def _check_digests(run: Run, rows: np.ndarray) -> None:
    for row, digest in enumerate(run.digests):
        sample = rows[row, ...]
        if digest is None or digest_of(sample) == digest or _agrees(run.path, sample, digest):
            continue
        why = (
            f"the xxh64 of the stored sample is {digest_of(sample)}, expected {digest} by the "
            "record: the file was changed or damaged after it was written, or the record belongs "
            "to another file"
        )
        raise ChunkError("decode", run.path, str(run.record(row, rows.shape[1:])), why)


def _agrees(path: str, row: np.ndarray, digest: str) -> bool:
    """Return whether a sample has a digest with the type in the file's attribute.

    Hangar also accepts that: it confuses all-zero samples of different types.
    """
    with HANDLES.reading(path) as file:
        named = numbered(int(file.attrs.get("schema_dtype_num", -1)))
    return named not in {None, row.dtype} and digest_of(row.astype(named)) == digest


def _dataset(file: Any, number: int, path: str) -> Any:
    """Return a dataset; raise if it is a link, or its data are in other files."""
    h5py, name = hdf5(), str(number)
    link = file.get(name, getlink=True) if name in file else None
    if not isinstance(link, h5py.HardLink):
        found = "nothing" if link is None else "a link"
        raise MetadataError(
            f"{path}: expected the dataset {name!r}, found {found}: it is not a file of Hangar's, "
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
    found: np.dtype[Any] = dataset.dtype.newbyteorder("=")
    if numbered(found.num) is None:
        raise MetadataError(f"{path}: samples of {dataset.dtype}; expected real numbers")
    return found


def _selection(
    dataset: Any, first: int, sizes: tuple[int, ...], path: str
) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """Return the part of a dataset with samples, and its shape: flat, or of samples."""
    count, *shape = sizes
    flat = (count, math.prod(shape))
    for each in (flat, sizes) if dataset.ndim == len(flat) else (sizes,):
        starts = (first, *(0 for _ in each[1:]))
        ends = [start + size for start, size in zip(starts, each, strict=True)]
        if len(each) == dataset.ndim and all(map(int.__le__, ends, map(int, dataset.shape))):
            return tuple(map(slice, starts, ends)), each
    raise MetadataError(
        f"{path}: dataset {dataset.name[1:]!r} of shape {dataset.shape} does not have rows "
        f"{first} to {first + count - 1} of shape {tuple(shape)}; the record belongs to another "
        "file"
    )


def _rows(dataset: Any) -> int:
    """Return the number of written rows; those before the last one count, too."""
    chunks = dataset.id.get_num_chunks()
    per_row = math.prod(
        math.ceil(size / chunk)
        for size, chunk in zip(dataset.shape[1:], dataset.chunks[1:], strict=True)
    )
    rows = int(dataset.shape[0])
    if chunks == 0 or chunks * dataset.chunks[0] == rows * per_row:
        return rows if chunks else 0
    starts: list[int] = []
    dataset.id.chunk_iter(lambda chunk: starts.append(chunk.chunk_offset[0]))
    return min(max(starts) + int(dataset.chunks[0]), rows)
