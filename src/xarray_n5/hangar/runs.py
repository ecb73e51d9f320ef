"""Samples as runs of consecutive rows, and runs as the blocks that tasks read."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING

from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.hangar.files import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.hangar.files import HangarFile
    from xarray_n5.hangar.records import Record


def runs_of_records(records: Sequence[Record], files: Mapping[str, HangarFile]) -> list[Run]:
    """Return runs of the samples that records tell of, in their order.

    Parameters
    ----------
    records
        Of samples of one shape.
    files
        The files by their uids; those that records name are among them.

    Raises
    ------
    MetadataError
        If a record does not fit its file.
    """
    starts = []
    for place, record in enumerate(records):
        _check_fits(record, files[record.uid])
        if place == 0 or not _follows(record, records[place - 1]):
            starts.append(place)
    ends = [*starts[1:], len(records)]
    return [_run(records[s:e], files[records[s].uid]) for s, e in zip(starts, ends, strict=True)]


def runs_of_rows(path: str, counts: Iterable[int]) -> list[Run]:
    """Return a run for each dataset, of as many rows as it holds; nobody knows their digests."""
    return [
        Run(path=path, dataset=number, first=0, digests=(None,) * rows)
        for number, rows in enumerate(counts)
    ]


def blocks_of(runs: Sequence[Run], most: int, size: int | None) -> list[tuple[Run, ...]]:
    """Return the runs of each block.

    Parameters
    ----------
    runs
        In the order of the samples.
    most
        How many samples a block has at most that is made of one run.
    size
        How many samples each block has, of as many runs as that takes; None for one run in each.

    Returns
    -------
    list of tuple of Run
        At least one block: without samples, it has no runs.
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
    """Return the files that records name, by their uids.

    Parameters
    ----------
    records
        Of any samples.
    paths
        All files that there are: at least one.

    Raises
    ------
    NodeNotFoundError
        If one is not among them.
    MetadataError
        If two of them have the name of one.
    """
    known: dict[str, set[str]] = {}
    for path in paths:
        known.setdefault(PurePath(path).stem, set()).add(path)
    found = {}
    for record in records:
        several = known.get(record.uid, set())
        if not several:
            hint = f"the record {str(record)!r} names it; what was not fetched has no file"
            where = PurePath(paths[0]).parent
            raise NodeNotFoundError(str(where), f"{record.uid}.hdf5", "file", hint)
        if len(several) > 1:
            raise MetadataError(f"the record {str(record)!r} may be of any of {sorted(several)}")
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
    """Return whether a sample lies right behind another one."""
    return (
        (record.uid, record.dataset) == (before.uid, before.dataset)
        and record.row == before.row + 1
        and record.backend == before.backend
    )


def _check_fits(record: Record, file: HangarFile) -> None:
    sizes = zip(record.shape, file.shape, strict=False)
    if (
        record.dataset >= file.datasets
        or record.row >= file.rows
        or len(record.shape) != len(file.shape)
        or any(size > largest for size, largest in sizes)
    ):
        raise MetadataError(
            f"the record {str(record)!r} does not fit {file.path}, which has {file.datasets} "
            f"datasets of {file.rows} rows, for samples of shape {file.shape}"
        )
