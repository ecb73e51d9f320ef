"""Hangar's HDF5 files: which samples are in them, and runs of their rows.

The layout is that of Hangar's HDF5_00 backend: 100 datasets, each of 250 samples, a sample's
elements in one row. Files of HDF5_01, whose rows keep the shape of a sample, are read likewise.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import ChunkError, MetadataError
from xarray_n5.hangar.handles import HANDLES, hdf5
from xarray_n5.hangar.layout import digest_of, numbered
from xarray_n5.hangar.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class HangarFile:
    """What a file says of its samples."""

    path: str
    shape: tuple[int, ...]
    """The shape of its samples, or the largest of them."""
    dtype: np.dtype[Any]
    """The type of their elements, as it is stored."""
    datasets: int
    rows: int
    """How many datasets there are, and rows in each."""
    stamp: tuple[int, int]
    """When it was last changed, and its bytes then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive rows of one dataset: what one task reads."""

    path: str
    dataset: int
    first: int
    digests: tuple[str | None, ...]
    """The xxh64 of each row's sample, where it is known."""
    backend: str = "00"

    def record(self, row: int, shape: tuple[int, ...]) -> Record:
        """Return the record of the sample in one of the rows."""
        return Record(
            uid=os.path.basename(self.path).removesuffix(".hdf5"),  # noqa: PTH119 - a text is cut
            dataset=self.dataset,
            row=self.first + row,
            shape=shape,
            digest=self.digests[row],
            backend=self.backend,
        )


def describe(path: str) -> HangarFile:
    """Return what a file says of its samples; none of them is read.

    Raises
    ------
    MetadataError
        If it is none of Hangar's.
    NodeNotFoundError
        If there is none.
    """
    with HANDLES.reading(path) as file:
        dataset = _dataset(file, 0, path)
        named = file.attrs.get("schema_shape", dataset.shape[1:])
        shape = tuple(int(size) for size in np.ravel(named))
        # The attribute's number stands for other types on other machines.
        dtype = _native(dataset, path)
        _selection(dataset, 0, (1, *shape), path)
        counts = {"datasets": len(file), "rows": int(dataset.shape[0])}
    found = os.stat(path)  # noqa: PTH116 - a text is what it takes
    stamp = (found.st_mtime_ns, found.st_size)
    return HangarFile(path=path, shape=shape, dtype=dtype, stamp=stamp, **counts)


def written_rows(path: str) -> list[int]:
    """Return how many samples each dataset holds, up to the last that holds any.

    Chunks are counted, since a writer that was killed left attributes of before.
    """
    counts = []
    with HANDLES.reading(path) as file:
        for number in range(len(file)):
            rows = _rows(_dataset(file, number, path))
            if rows == 0:
                break
            counts.append(rows)
    return counts


def read_runs(runs: Sequence[Run], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return the samples of runs of rows, one after another along the first axis.

    Parameters
    ----------
    runs
        Where they lie.
    shape, dtype
        Of each of them.

    Raises
    ------
    ChunkError
        If a row cannot be decoded, or its digest is not that of its record.
    MetadataError
        If a file has no such rows.
    """
    read: list[np.ndarray] = [np.empty((0, *shape), dtype)] * len(runs)
    for path, places in _by_path(runs).items():
        opened: dict[int, Any] = {}
        with HANDLES.reading(path) as file:
            for place in places:
                number = runs[place].dataset
                if number not in opened:
                    opened[number] = _dataset(file, number, path)
                read[place] = _rows_of(opened[number], runs[place], shape)
    for run, rows in zip(runs, read, strict=True):
        _check_digests(run, rows)
    if len(read) == 1:
        return read[0].astype(dtype, copy=False)
    return np.concatenate([np.empty((0, *shape), dtype), *read], dtype=dtype, casting="unsafe")


def _by_path(runs: Sequence[Run]) -> dict[str, list[int]]:
    """Return the places of the runs in each file, in the order in which they are stored."""
    found: dict[str, list[int]] = {}
    for place in sorted(range(len(runs)), key=lambda k: (runs[k].dataset, runs[k].first)):
        found.setdefault(runs[place].path, []).append(place)
    return found


def _rows_of(dataset: Any, run: Run, shape: tuple[int, ...]) -> np.ndarray:
    """Return the rows of one run, as they are stored."""
    where, sizes = _selection(dataset, run.first, (len(run.digests), *shape), run.path)
    rows = np.empty((len(run.digests), *shape), _native(dataset, run.path))
    if rows.size:
        try:
            dataset.read_direct(rows.reshape(sizes), where)
        except (OSError, RuntimeError, ValueError) as error:
            record = str(run.record(0, shape))
            why = f"{error}, in {len(rows)} rows from this one on"
            raise ChunkError("decode", run.path, record, why) from error
    return rows


def _check_digests(run: Run, rows: np.ndarray) -> None:
    for row, digest in enumerate(run.digests):
        if (
            digest is not None
            and digest_of(rows[row, ...]) != digest
            and not _agrees(run.path, rows[row, ...], digest)
        ):
            why = (
                f"the xxh64 of what is stored is {digest_of(rows[row, ...])}, the record says "
                f"{digest}: the file was changed or damaged after it was written, or the record is "
                "another file's"
            )
            raise ChunkError("decode", run.path, str(run.record(row, rows.shape[1:])), why)


def _agrees(path: str, row: np.ndarray, digest: str) -> bool:
    """Return whether a sample has a digest as the type that the file's attribute names.

    Hangar tries that, too: it takes all zeros of one type for those of another.
    """
    with HANDLES.reading(path) as file:
        named = numbered(int(file.attrs.get("schema_dtype_num", -1)))
    if named is None or named == row.dtype:
        return False
    return digest_of(row.astype(named)) == digest


def _dataset(file: Any, number: int, path: str) -> Any:
    """Return a dataset; one that lies in other files is refused."""
    h5py, name = hdf5(), str(number)
    link = file.get(name, getlink=True) if name in file else None
    if not isinstance(link, h5py.HardLink):
        found = "nothing" if link is None else "a link"
        raise MetadataError(
            f"{path}: no dataset {name!r} ({found} is there): it is no file of Hangar's, or not "
            "the one that a record names"
        )
    found = file[name]
    if not isinstance(found, h5py.Dataset) or found.chunks is None or found.external:
        raise MetadataError(f"{path}: {name!r} is no dataset in chunks, as Hangar's are")
    return found


def _native(dataset: Any, path: str) -> np.dtype[Any]:
    found: np.dtype[Any] = dataset.dtype.newbyteorder("=")
    if numbered(found.num) is None:
        raise MetadataError(f"{path}: samples of {dataset.dtype}; Hangar's are real numbers")
    return found


def _selection(
    dataset: Any, first: int, sizes: tuple[int, ...], path: str
) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """Return which part of a dataset samples are, and its shape: flat, or that of a sample."""
    count, *shape = sizes
    flat = (count, math.prod(shape))
    for each in (flat, sizes) if dataset.ndim == len(flat) else (sizes,):
        starts = (first, *(0 for _ in each[1:]))
        ends = [start + size for start, size in zip(starts, each, strict=True)]
        if len(each) == dataset.ndim and all(map(int.__le__, ends, map(int, dataset.shape))):
            return tuple(map(slice, starts, ends)), each
    raise MetadataError(
        f"{path}: dataset {dataset.name[1:]!r} of shape {dataset.shape} does not hold rows {first} "
        f"to {first + count - 1} of shape {tuple(shape)}; the record is another file's"
    )


def _rows(dataset: Any) -> int:
    """Return how many rows are written: none before the last is left out."""
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
