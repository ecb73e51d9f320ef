"""Columns of Hangar's samples as Dask arrays and Datasets: runs of rows, and blocks of runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import xarray as xr
from dask.base import tokenize

from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.graph import ArrayBlockwiseDep, in_one_layer
from xarray_n5.hangar.files import Run, read_runs

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    import dask.array as da

    from xarray_n5.hangar.files import HangarFile, Schema
    from xarray_n5.hangar.records import Record

BlockSize: TypeAlias = "int | Literal['auto'] | None"
"""Samples per block; "auto" for 64 MiB, None for one run of rows."""

_MOST = 1 << 26
"""The largest block that is chosen automatically: 64 MiB."""


@dataclass(frozen=True, slots=True)
class Column:
    """Samples of one schema, with their names if records have them."""

    schema: Schema
    runs: tuple[Run, ...]
    stamps: tuple[tuple[int, int], ...]
    keys: tuple[int | str, ...] | None = None


class _Blocks(ArrayBlockwiseDep):
    """The runs of each block; Dask passes them to its task."""

    def __init__(
        self, chunks: tuple[tuple[int, ...], ...], blocks: Sequence[tuple[Run, ...]]
    ) -> None:
        super().__init__(chunks)
        self.blocks = blocks

    def __getitem__(self, index: tuple[int, ...]) -> _Block:
        return _Block(self.blocks[index[0]])


@dataclass(frozen=True, slots=True)
class _Block:
    """A block's runs; unlike a bare tuple, Dask never treats them as a task."""

    runs: tuple[Run, ...]


def to_array(column: Column, chunks: BlockSize) -> da.Array:
    """Return a column as a Dask array of one layer, whose tasks hold paths and rows."""
    schema = column.schema
    most = max(1, _MOST // max(1, schema.nbytes))
    blocks = blocks_of(column.runs, most, most if chunks == "auto" else chunks)
    counts = tuple(sum(len(run.digests) for run in runs) for runs in blocks)
    sizes = (counts, *((size,) for size in schema.shape))
    # One string: Dask is slow to hash many objects.
    rows = "\n".join(f"{run.path}:{run.dataset}:{run.first}:{run.digests}" for run in column.runs)
    name = f"from-hangar-{tokenize(rows, schema.dtype, column.stamps, sizes)}"
    return in_one_layer(name, _read, schema, _Blocks(sizes, blocks), sizes, schema.dtype)


def _read(schema: Schema, block: _Block) -> np.ndarray:
    return read_runs(block.runs, schema)


def to_dataset(columns: Mapping[str, Column], chunks: BlockSize) -> xr.Dataset:
    """Return columns as a Dataset; those with the same names of samples share their dimension."""
    arrays = {name: to_array(column, chunks) for name, column in columns.items()}
    shared = len({(column.keys, len(arrays[name])) for name, column in columns.items()}) == 1
    variables: dict[str, Any] = {}
    for name, column in columns.items():
        samples = _free("sample" if shared else f"{name}_sample", columns)
        axes = (_free(f"{name}_{axis}", columns) for axis in range(len(column.schema.shape)))
        variables[name] = xr.Variable((samples, *axes), arrays[name])
        if column.keys is not None:
            variables[samples] = xr.Variable(samples, _labels(column.keys, name))
    return xr.Dataset(variables).set_coords(variables.keys() - columns.keys())


def _free(name: str, columns: Container[str]) -> str:
    """Return a dimension's name, with underscores appended until no column has it."""
    while name in columns:
        name += "_"
    return name


def _labels(keys: Sequence[int | str], column: str) -> np.ndarray:
    """Return the labels of samples: integers, or strings unless all are integers."""
    if all(isinstance(key, int) for key in keys):
        return np.array(keys)
    return np.array(unique_names(keys, f"{column}: samples"))


def unique_names(keys: Iterable[object], what: str) -> list[str]:
    """Return keys as strings; raise if two of them become the same string."""
    known: dict[str, object] = {}
    for key in keys:
        if str(key) in known:
            raise MetadataError(
                f"{what} are called {known[str(key)]!r} and {key!r}, which would become one name; "
                "rename one of them"
            )
        known[str(key)] = key
    return list(known)


def runs_of_records(records: Sequence[Record], files: Mapping[str, HangarFile]) -> list[Run]:
    """Return runs of the samples of records, in the order of the records.

    Parameters
    ----------
    records
        Records of samples of one shape.
    files
        The records' files by their uids.

    Raises
    ------
    MetadataError
        If a record does not fit its file.
    """
    starts = []
    for position, record in enumerate(records):
        _check_fits(record, files[record.uid])
        if position == 0 or not _follows(record, records[position - 1]):
            starts.append(position)
    ends = [*starts[1:], len(records)]
    return [_run(records[s:e], files[records[s].uid]) for s, e in zip(starts, ends, strict=True)]


def runs_of_rows(path: str, counts: Iterable[int]) -> list[Run]:
    """Return one run for each dataset of a file, from its number of rows; without digests."""
    return [
        Run(path=path, dataset=number, first=0, digests=(None,) * rows)
        for number, rows in enumerate(counts)
    ]


def blocks_of(runs: Sequence[Run], most: int, size: int | None) -> list[tuple[Run, ...]]:
    """Return the runs of each block; at least one block, possibly without runs.

    Parameters
    ----------
    runs
        The runs in the order of the samples.
    most
        The maximum number of samples of a block if `size` is None.
    size
        The samples of each block, from any number of runs; None for one run per block.
    """
    if size is None:
        pieces = [_part(run, s, s + most) for run in runs for s in range(0, _rows(run), most)]
        return [(piece,) for piece in pieces] or [()]
    blocks: list[list[Run]] = [[]]
    ends = [0, *accumulate(map(_rows, runs))]
    for run, begin in zip(runs, ends[:-1], strict=True):
        start = 0
        while start < _rows(run):
            if (begin + start) % size == 0 and blocks[-1]:
                blocks.append([])
            stop = min(start + size - (begin + start) % size, _rows(run))
            blocks[-1].append(_part(run, start, stop))
            start = stop
    return list(map(tuple, blocks))


def find_named(records: Iterable[Record], paths: Sequence[str]) -> dict[str, str]:
    """Return the paths of the files that records name, by their uids.

    Raises
    ------
    NodeNotFoundError
        If a file is not among `paths`, of which there is at least one.
    MetadataError
        If two of `paths` have the file's name.
    """
    known: dict[str, set[str]] = {}
    for path in paths:
        known.setdefault(PurePath(path).stem, set()).add(path)
    found = {}
    for record in records:
        several = known.get(record.uid, set())
        if not several:
            hint = f"the record {str(record)!r} names it; fetch its data first"
            where = PurePath(paths[0]).parent
            raise NodeNotFoundError(str(where), f"{record.uid}.hdf5", "file", hint)
        if len(several) > 1:
            raise MetadataError(
                f"the record {str(record)!r} names more than one file: {sorted(several)}; pass one"
            )
        found[record.uid] = min(several)
    return found


def _rows(run: Run) -> int:
    return len(run.digests)


def _part(run: Run, start: int, stop: int) -> Run:
    return replace(run, first=run.first + start, digests=run.digests[start:stop])


def _run(records: Sequence[Record], file: HangarFile) -> Run:
    first, digests = records[0], tuple(record.digest for record in records)
    return Run(
        path=file.path,
        dataset=first.dataset,
        first=first.row,
        digests=digests,
        backend=first.backend,
    )


def _follows(record: Record, before: Record) -> bool:
    """Return whether a sample is stored in the row after another one's."""
    return (
        (record.uid, record.dataset) == (before.uid, before.dataset)
        and record.row == before.row + 1
        and record.backend == before.backend
    )


def _check_fits(record: Record, file: HangarFile) -> None:
    largest = file.schema.shape
    if (
        record.dataset >= file.datasets
        or record.row >= file.rows
        or len(record.shape) != len(largest)
        or any(map(int.__gt__, record.shape, largest))
    ):
        raise MetadataError(
            f"the record {str(record)!r} does not fit {file.path}, which has {file.datasets} "
            f"datasets of {file.rows} rows, for samples of shape {largest}"
        )
