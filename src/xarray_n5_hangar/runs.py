"""Group samples into runs of consecutive rows, and runs into the blocks of tasks."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5_hangar.files import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5_hangar.files import HangarFile
    from xarray_n5_hangar.records import Record


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
