"""Dask arrays from Hangar's HDF5 files and back: one task a run of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import xarray as xr

from xarray_n5.errors import MetadataError
from xarray_n5.hangar.columns import Column, texts_of, to_array, to_dataset
from xarray_n5.hangar.files import describe, written_rows
from xarray_n5.hangar.places import find_files
from xarray_n5.hangar.records import parse_record
from xarray_n5.hangar.refs import read_records
from xarray_n5.hangar.runs import find_named, runs_of_records, runs_of_rows
from xarray_n5.hangar.writer import HangarWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from xarray_n5.hangar.columns import ChunkIO
    from xarray_n5.hangar.files import HangarFile
    from xarray_n5.hangar.places import Place

    Records = Iterable[str] | Mapping[int | str, str]


def from_hangar(
    repo_or_files: Place | Iterable[Place],
    records: Records | Mapping[str, Records] | None = None,
    *,
    chunks: ChunkIO = None,
) -> da.Array | xr.Dataset:
    """Return samples that Hangar stored in HDF5 files as a dask array, or columns as a Dataset.

    Of the files only what they say of themselves is read; the samples are read in tasks, which
    open the files by their paths, for Hangar's writer may be at work. Where a record has a
    digest, what is read must have it.

    Parameters
    ----------
    repo_or_files
        A Hangar repository, a folder of HDF5 files, one file, or several. They are local, and
        every worker sees them at the same path. Backends 00 and 01 are read.
    records
        Hangar's records, which say which samples to read, and in which order: texts such as
        ``"00:rlUK3C:8067007c0f05c359:16:105:10 10"``, or a mapping of names of columns to them
        (or to mappings of the samples' names to them), such as :func:`hangar_records` returns.
        By default all that was written, committed or not, file by file in order of their last
        change, and within each in order of writing; it has no digests. Which samples a column
        has, their names, and shapes smaller than the largest, only records say.
    chunks
        How many samples a block has, or "auto" for as many as have 64 MiB; by default a run of
        consecutive rows, cut where it has more. Where the order is not that of writing, runs are
        short, and larger blocks make a smaller graph.

    Returns
    -------
    dask.array.Array or xarray.Dataset
        An array whose first axis is the samples. Where `records` is a mapping, or samples of
        several shapes or types were written, a Dataset of them, whose names are then such as
        ``float32_5x7x9``. The first dimension is ``sample`` where all columns have the same
        names of samples, or without names as many, and else ``<column>_sample``; the others are
        ``<column>_0``, ``<column>_1`` and so on.

    Raises
    ------
    NodeNotFoundError
        If there are no files, or not that which a record names.
    MetadataError
        If something is no file or no record of Hangar's, or samples of several shapes or types
        were to be one array.
    ChunkError
        When it is computed: if a sample cannot be decoded, or is not what its record says.
    MissingPackageError
        If h5py or hdf5plugin is not installed.
    """
    chunks = _checked_chunks(chunks)
    files = find_files(repo_or_files)
    if isinstance(records, Mapping):
        names = texts_of(records, "columns")
        chosen = map(_chosen, repeat(files), records.values(), names)
        return to_dataset(dict(zip(names, chosen, strict=True)), chunks)
    if records is not None:
        return to_array(_chosen(files, records, "the records"), chunks)
    columns = _written(files)
    if len(columns) == 1:
        return to_array(columns[0], chunks)
    return to_dataset({column.schema: column for column in columns}, chunks)


def hangar_records(repo: str | os.PathLike[str], ref: str = "HEAD") -> dict[str, Any]:
    """Return the records of the samples in a Hangar repository, as its database has them.

    Parameters
    ----------
    repo
        The folder that has ``.hangar`` in it. Nobody may write to it meanwhile.
    ref
        "HEAD" for the last commit of the branch that is checked out for writing, a branch's
        name, a commit's digest, or "STAGED" for what is added and may not be committed.

    Returns
    -------
    dict
        For each column, the samples' names and their records; numbers come before texts, each
        in order. A part of a nested sample is called ``sample/part``. Records of other backends
        than 00 and 01 are there, too, but :func:`from_hangar` refuses them.

    Raises
    ------
    NodeNotFoundError
        If there is no such repository, branch or commit.
    MetadataError
        If the database is not as Hangar 0.5 leaves it.
    MissingPackageError
        If lmdb is not installed.
    """
    return read_records(repo, ref)


def to_hangar(
    samples: Any,
    folder: str | os.PathLike[str],
    *,
    shape: tuple[int, ...] | None = None,
    compression: Mapping[str, Any] | None = None,
) -> list[str]:
    """Store samples in new HDF5 files, in the layout of Hangar's HDF5_00.

    Parameters
    ----------
    samples
        An array whose first axis is the samples: of numpy, of dask, whose blocks are then
        computed one after another, or of xarray. Or an iterable of samples, which may be of
        several shapes.
    folder
        A local folder, made where it is missing; what is in it stays as it is.
    shape
        The largest size of samples along each axis; by default the shape of the first one.
    compression
        As in :class:`HangarWriter`.

    Returns
    -------
    list of str
        The record of each sample, which :func:`from_hangar` takes. Nothing else keeps them.

    Raises
    ------
    MetadataError, NodeExistsError, PathError, MissingPackageError
        As in :class:`HangarWriter`. What was written before a sample is refused stays.
    """
    source = samples.data if isinstance(samples, xr.DataArray) else samples
    if isinstance(source, (np.ndarray, da.Array)):
        _check_samples(source)
        sizes, dtype, stream = source.shape[1:], source.dtype, _rows(source)
    else:
        given = map(np.asanyarray, source)
        first = next(given, None)
        if first is None:
            return []
        sizes, dtype, stream = first.shape, first.dtype, chain([first], given)
    with HangarWriter(folder, sizes if shape is None else shape, dtype, compression) as writer:
        return list(map(writer.write, stream))


def _rows(source: np.ndarray | da.Array) -> Iterator[np.ndarray]:
    """Yield what lies along the first axis; of a dask array, block by block."""
    if isinstance(source, np.ndarray):
        yield from source
        return
    whole = source.rechunk(dict.fromkeys(range(1, source.ndim), -1))
    for number in range(whole.numblocks[0]):
        yield from whole.blocks[number].compute()


def _chosen(files: Sequence[str], found: Records, what: str) -> Column:
    """Return the samples that records name, in their order."""
    if isinstance(found, (str, bytes)):
        raise MetadataError(f"{what}: {found!r} is one text; an iterable of records is needed")
    keys = tuple(found) if isinstance(found, Mapping) else None
    texts = found.values() if isinstance(found, Mapping) else found
    records = [parse_record(each) for each in texts]
    if not records:
        raise MetadataError(f"{what}: none are given, so nothing says of which shape samples are")
    named = find_named(records, files)
    opened = {uid: describe(path) for uid, path in named.items()}
    for each in records:
        _check_alike(what, "shapes", str(each), each.shape, records[0].shape)
        _check_alike(what, "types", str(each), opened[each.uid].dtype, opened[records[0].uid].dtype)
    runs = tuple(runs_of_records(records, opened))
    stamps = tuple(each.stamp for each in opened.values())
    return Column(records[0].shape, opened[records[0].uid].dtype, runs, stamps, keys)


def _written(files: Sequence[str]) -> list[Column]:
    """Return all samples of each shape and type, in order of writing."""
    alike: dict[Any, list[HangarFile]] = {}
    for path in files:
        file = describe(path)
        alike.setdefault((file.shape, file.dtype), []).append(file)
    columns = []
    for (shape, dtype), several in alike.items():
        rows = (runs_of_rows(each.path, written_rows(each.path)) for each in several)
        stamps = tuple(each.stamp for each in several)
        columns.append(Column(shape, dtype, tuple(run for of in rows for run in of), stamps))
    return columns


def _check_alike(what: str, kind: str, record: str, found: object, first: object) -> None:
    if found != first:
        raise MetadataError(
            f"{what}: samples of several {kind}, {first} and, of {record!r}, {found}, make no one "
            "array; give the records of each by themselves, as {name: records}"
        )


def _check_samples(source: np.ndarray | da.Array) -> None:
    shape: tuple[float, ...] = source.shape
    if not shape or any(map(math.isnan, shape[1:])):
        raise MetadataError(
            f"samples in an array of shape {shape}: its first axis is the samples, and the others "
            "must be known (compute_chunk_sizes() of dask's arrays finds them out)"
        )
    if isinstance(getattr(source, "_meta", source), np.ma.MaskedArray):
        raise MetadataError(
            "samples in a masked array; Hangar's files keep no masks: fill it (filled(), "
            "dask.array.ma.filled)"
        )


def _checked_chunks(chunks: object) -> ChunkIO:
    if chunks is None:
        return None
    if chunks == "auto":
        return "auto"
    if isinstance(chunks, bool) or not isinstance(chunks, (int, np.integer)) or chunks < 1:
        raise ValueError(f"chunks is {chunks!r}; it takes a number of samples, 'auto' or None")
    return int(chunks)
