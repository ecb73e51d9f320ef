"""Read samples of Hangar's HDF5 files as Dask arrays, and write samples into such files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import xarray as xr

from xarray_n5.errors import MetadataError
from xarray_n5.graph import as_graph
from xarray_n5.hangar.columns import (
    Column,
    find_named,
    runs_of_records,
    runs_of_rows,
    to_array,
    to_dataset,
    unique_names,
)
from xarray_n5.hangar.files import Schema, describe, written_rows
from xarray_n5.hangar.records import parse_record
from xarray_n5.hangar.repository import find_files, read_records
from xarray_n5.hangar.writer import HangarWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from xarray_n5.hangar.columns import BlockSize
    from xarray_n5.hangar.files import HangarFile
    from xarray_n5.hangar.repository import LocalPath

    Records = Iterable[str] | Mapping[int | str, str]


def from_hangar(
    repo_or_files: LocalPath | Iterable[LocalPath],
    records: Records | Mapping[str, Records] | None = None,
    *,
    chunks: BlockSize = None,
) -> da.Array | xr.Dataset:
    """Open samples of Hangar's HDF5 files as a Dask array, or columns of them as a Dataset.

    Only metadata is read at once. Each task opens the files by their paths, also while Hangar
    writes them, and compares what it reads with the digest of its record, if it has one.

    Parameters
    ----------
    repo_or_files : str, os.PathLike or iterable of these
        A Hangar repository, a folder of HDF5 files, one file, or several: local, and at the same
        path on every worker. Files of the backends 00 and 01 are read.
    records : iterable of str or mapping, optional
        The records of the samples to read, in order: strings such as
        ``"00:rlUK3C:8067007c0f05c359:16:105:10 10"``, a mapping of the samples' names to them, or a
        mapping of columns' names to either, such as :func:`hangar_records` returns. By default all
        written samples, committed or not, unchecked: file by file in order of their last change, in
        each file in order of writing. Only records know columns, names, and shapes that are smaller
        than the largest.
    chunks : int or "auto", optional
        The number of samples per block, or "auto" for blocks of 64 MiB. By default a block is a run
        of consecutive rows of at most that size; where the order differs from that of writing, runs
        are short, and larger blocks make a smaller graph.

    Returns
    -------
    dask.array.Array or xarray.Dataset
        An array whose first axis is the samples. A Dataset if `records` is a mapping, or if samples
        of several shapes or types were written, whose variables are then called such as
        ``float32_5x7x9``. Its first dimension is ``sample`` if all columns have the same names of
        samples (or none, and equal lengths), otherwise ``<column>_sample``; the others are
        ``<column>_0``, ``<column>_1`` and so on.

    Raises
    ------
    NodeNotFoundError
        If there are no files, or not the one that a record names.
    MetadataError
        If a file or a record is not one of Hangar's, or samples of several shapes or types are
        requested as one array.
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
    chunks = _block_size(chunks)
    files = find_files(repo_or_files)
    if isinstance(records, Mapping):
        names = unique_names(records, "columns")
        chosen = (_chosen(files, *each) for each in zip(records.values(), names, strict=True))
        return to_dataset(dict(zip(names, chosen, strict=True)), chunks)
    if records is not None:
        return to_array(_chosen(files, records, "the records"), chunks)
    columns = _written(files)
    if len(columns) == 1:
        return to_array(columns[0], chunks)
    return to_dataset({str(column.schema): column for column in columns}, chunks)


def hangar_records(repo: str | os.PathLike[str], ref: str = "HEAD") -> dict[str, Any]:
    """Read the records of the samples in a Hangar repository from its databases.

    Parameters
    ----------
    repo : str or os.PathLike
        The folder that contains ``.hangar``. No other program may write to it at the same time.
    ref : str, default: "HEAD"
        "HEAD" for the last commit of the branch that is checked out for writing, the name of a
        branch, the digest of a commit, or "STAGED" for what is added, committed or not.

    Returns
    -------
    dict
        For each column, the names of its samples and their records, sorted, integers before
        strings. A part of a nested sample is called ``sample/part``. Records of other backends than
        00 and 01 are included, although :func:`from_hangar` refuses them.

    Raises
    ------
    NodeNotFoundError
        If there is no such repository, branch or commit.
    MetadataError
        If the databases are not as Hangar 0.5 writes them, or are open in this process.
    MissingPackageError
        If lmdb is not installed.

    Examples
    --------
    >>> records = xarray_n5.hangar.hangar_records("repo", "master")  # doctest: +SKIP
    >>> records["image"]["0"]  # doctest: +SKIP
    '00:rlUK3C:8067007c0f05c359:16:105:10 10'
    >>> images = xarray_n5.hangar.from_hangar("repo", records["image"])  # doctest: +SKIP
    """
    return read_records(repo, ref)


def to_hangar(
    samples: da.Array | xr.DataArray | npt.ArrayLike,
    folder: str | os.PathLike[str],
    *,
    shape: tuple[int, ...] | None = None,
    compression: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write samples into new HDF5 files, in the layout of Hangar's HDF5_00.

    Parameters
    ----------
    samples : array_like or iterable of array_like
        An array of NumPy, Dask or xarray whose first axis is the samples; blocks of Dask are
        computed one after another. Or an iterable of samples, of any shapes.
    folder : str or os.PathLike
        A local folder, created if it does not exist; files in it are not changed.
    shape : tuple of int, optional
        The largest size of samples along each axis; by default the shape of the first one.
    compression : mapping, optional
        Hangar's options, such as ``{"complib": "blosc:zstd"}``, as in :class:`HangarWriter`.

    Returns
    -------
    list of str
        The record of each sample, for :func:`from_hangar`. Keep them: they are stored nowhere.

    Raises
    ------
    MetadataError
        If the type, a shape or the compression is invalid.
    NodeExistsError
        If the folder is a Hangar repository.
    PathError
        If the folder is a URL.
    MissingPackageError
        If h5py or hdf5plugin is not installed. Samples that were written before an error stay.

    Examples
    --------
    >>> samples = np.arange(12, dtype="float32").reshape(2, 2, 3)
    >>> records = xarray_n5.hangar.to_hangar(samples, "files")
    >>> [record.split(":")[-1] for record in records]
    ['2 3', '2 3']
    """
    source = as_graph(samples.data if isinstance(samples, xr.DataArray) else samples)
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
    """Iterate over the first axis; of a Dask array, computing block by block."""
    if isinstance(source, np.ndarray):
        yield from source
        return
    whole = source.rechunk(dict.fromkeys(range(1, source.ndim), -1))
    for number in range(whole.numblocks[0]):
        yield from whole.blocks[number].compute()


def _chosen(files: Sequence[str], given: Records, what: str) -> Column:
    """Return the samples of records, in their order."""
    if isinstance(given, (str, bytes)):
        raise MetadataError(f"{what}: {given!r} is a string; expected an iterable of records")
    keys = tuple(given) if isinstance(given, Mapping) else None
    records = list(map(parse_record, given.values() if isinstance(given, Mapping) else given))
    if not records:
        raise MetadataError(f"{what}: expected at least one record, which gives the shape")
    opened = {uid: describe(path) for uid, path in find_named(records, files).items()}
    dtype = opened[records[0].uid].schema.dtype
    for each in records:
        _check_alike(what, "shapes", str(each), each.shape, records[0].shape)
        _check_alike(what, "types", str(each), opened[each.uid].schema.dtype, dtype)
    schema = Schema(records[0].shape, dtype)
    stamps = tuple(each.stamp for each in opened.values())
    return Column(schema, tuple(runs_of_records(records, opened)), stamps, keys)


def _written(files: Sequence[str]) -> list[Column]:
    """Return all samples of each schema, in order of writing."""
    alike: dict[Schema, list[HangarFile]] = {}
    for file in map(describe, files):
        alike.setdefault(file.schema, []).append(file)
    columns = []
    for schema, several in alike.items():
        runs = chain.from_iterable(runs_of_rows(f.path, written_rows(f.path)) for f in several)
        columns.append(Column(schema, tuple(runs), tuple(file.stamp for file in several)))
    return columns


def _check_alike(what: str, kind: str, record: str, found: object, first: object) -> None:
    if found != first:
        raise MetadataError(
            f"{what}: samples of several {kind} cannot be one array: {first} and, of {record!r}, "
            f"{found}; pass the records of each separately, as {{name: records}}"
        )


def _check_samples(source: np.ndarray | da.Array) -> None:
    shape: tuple[float, ...] = source.shape
    if not shape or any(map(math.isnan, shape[1:])):
        raise MetadataError(
            f"the samples are an array of shape {shape}: its first axis is the samples, and the "
            "others must be known (call compute_chunk_sizes() of a Dask array)"
        )
    if isinstance(getattr(source, "_meta", source), np.ma.MaskedArray):
        raise MetadataError(
            "the samples are masked, and Hangar's files do not store masks; fill them (filled(), "
            "dask.array.ma.filled)"
        )


def _block_size(chunks: object) -> BlockSize:
    if chunks is None:
        return None
    if chunks == "auto":
        return "auto"
    if isinstance(chunks, bool) or not isinstance(chunks, (int, np.integer)) or chunks < 1:
        raise ValueError(f"chunks is {chunks!r}; expected a number of samples, 'auto' or None")
    return int(chunks)
