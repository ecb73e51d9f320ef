"""Hangar's samples as Dask arrays: runs of rows, and blocks of runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, TypeAlias

from dask.base import tokenize

from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.graph import ArrayBlockwiseDep, in_one_layer
from xarray_n5.hangar.files import Run, read_runs
from xarray_n5.hangar.layout import DATASETS, ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import dask.array as da
    import numpy as np

    from xarray_n5.hangar.files import HangarFile, Schema
    from xarray_n5.hangar.records import Record

BlockSize: TypeAlias = "int | Literal['auto'] | None"
"""Samples per block; "auto" for 64 MiB, None for one run of rows."""

_MOST = 1 << 26
"""The largest block that is chosen automatically: 64 MiB."""


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


def to_array(
    runs: Sequence[Run], schema: Schema, stamps: Sequence[object], chunks: BlockSize
) -> da.Array:
    """Return runs as a Dask array of one layer, whose tasks hold paths and rows."""
    most = max(1, _MOST // max(1, math.prod(schema.shape) * schema.dtype.itemsize))
    blocks = blocks_of(runs, most, most if chunks == "auto" else chunks)
    counts = tuple(sum(len(run.digests) for run in block) for block in blocks)
    sizes = (counts, *((size,) for size in schema.shape))
    # One string: Dask is slow to hash many objects.
    rows = "\n".join(f"{run.path}:{run.dataset}:{run.first}:{run.digests}" for run in runs)
    name = f"from-hangar-{tokenize(rows, schema.dtype, stamps, sizes)}"
    return in_one_layer(name, _read, schema, _Blocks(sizes, blocks), sizes, schema.dtype)


def _read(schema: Schema, block: _Block) -> np.ndarray:
    return read_runs(block.runs, schema)


def runs_of_records(records: Sequence[Record], files: Mapping[str, HangarFile]) -> list[Run]:
    """Return runs of the samples of records of one shape, in their order.

    Raises
    ------
    MetadataError
        If a record does not fit its file.
    """
    starts = []
    for position, record in enumerate(records):
        _check_fits(record, files[record.uid])
        before = records[position - 1]
        place = (before.uid, before.dataset, before.row + 1)
        if position == 0 or (record.uid, record.dataset, record.row) != place:
            starts.append(position)
    runs = []
    for start, stop in zip(starts, [*starts[1:], len(records)], strict=True):
        first, digests = records[start], tuple(record.digest for record in records[start:stop])
        path = files[first.uid].path
        runs.append(Run(path=path, dataset=first.dataset, first=first.row, digests=digests))
    return runs


def runs_of_file(file: HangarFile) -> list[Run]:
    """Return one run for each dataset of a file with written rows; without digests."""
    return [
        Run(path=file.path, dataset=number, first=0, digests=(None,) * rows)
        for number, rows in enumerate(file.counts)
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
        pieces = [
            _part(run, start, start + most)
            for run in runs
            for start in range(0, len(run.digests), most)
        ]
        return [(piece,) for piece in pieces] or [()]
    blocks: list[list[Run]] = [[]]
    ends = [0, *accumulate(len(run.digests) for run in runs)]
    for run, begin in zip(runs, ends[:-1], strict=True):
        start = 0
        while start < len(run.digests):
            if (begin + start) % size == 0 and blocks[-1]:
                blocks.append([])
            stop = min(start + size - (begin + start) % size, len(run.digests))
            blocks[-1].append(_part(run, start, stop))
            start = stop
    return list(map(tuple, blocks))


def find_named(records: Sequence[Record], paths: Sequence[str]) -> dict[str, str]:
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
    named = {}
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
        named[record.uid] = min(several)
    return named


def _part(run: Run, start: int, stop: int) -> Run:
    return replace(run, first=run.first + start, digests=run.digests[start:stop])


def _check_fits(record: Record, file: HangarFile) -> None:
    largest = file.schema.shape
    if (
        record.dataset >= DATASETS
        or record.row >= ROWS
        or len(record.shape) != len(largest)
        or any(map(int.__gt__, record.shape, largest))
    ):
        raise MetadataError(
            f"the record {str(record)!r} does not fit {file.path}, which has {DATASETS} datasets "
            f"of {ROWS} rows, for samples of shape {largest}"
        )
