"""Read samples of Hangar's HDF5 files as Dask arrays, and write samples into such files."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

import dask.array as da
import numpy as np
import xarray as xr

from xarray_n5.errors import MetadataError
from xarray_n5.graph import as_graph
from xarray_n5.hangar.read import (
    Schema,
    describe,
    find_files,
    find_named,
    runs_of_records,
    to_array,
)
from xarray_n5.hangar.records import parse_record
from xarray_n5.hangar.write import write_samples

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from xarray_n5.hangar.read import LocalPath


def from_hangar(
    repo_or_files: LocalPath | Iterable[LocalPath],
    records: Iterable[str] | None = None,
    *,
    chunks: int | None = None,
) -> da.Array:
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
        schema = files[0].schema
        for file in files:
            _check_alike(file.path, file.schema, schema)
        runs = [run for file in files for run in file.runs]
        return to_array(runs, schema, [file.stamp for file in files], chunks)
    if isinstance(records, (str, bytes)):
        raise MetadataError(f"{records!r} is a string; expected an iterable of records")
    parsed = list(map(parse_record, records))
    if not parsed:
        raise MetadataError("expected at least one record, which gives the shape")
    named = {uid: describe(path) for uid, path in find_named(parsed, paths).items()}
    schema = Schema(parsed[0].shape, named[parsed[0].uid].schema.dtype)
    for record in parsed:
        _check_alike(str(record), Schema(record.shape, named[record.uid].schema.dtype), schema)
    stamps = [file.stamp for file in named.values()]
    return to_array(runs_of_records(parsed, named), schema, stamps, chunks)


def to_hangar(
    samples: da.Array | xr.DataArray | npt.ArrayLike | Iterable[npt.ArrayLike],
    folder: str | os.PathLike[str],
    *,
    shape: tuple[int, ...] | None = None,
) -> list[str]:
    """Write samples into new HDF5 files, in the layout and compression of Hangar's HDF5_00.

    Parameters
    ----------
    samples : array_like or iterable of array_like
        An array of NumPy, Dask or xarray whose first axis is the samples; blocks of Dask are
        computed one after another. Or an iterable of samples, of any shapes.
    folder : str or os.PathLike
        A local folder, created if it does not exist; files in it are not changed. A file appears
        when it is complete: after 24,750 samples, or after the last one.
    shape : tuple of int, optional
        The largest size of samples along each axis; by default the shape of the first one.

    Returns
    -------
    list of str
        The record of each sample, for :func:`from_hangar`. Keep them: they are stored nowhere.

    Raises
    ------
    MetadataError
        If the type or a shape is invalid.
    NodeExistsError
        If the folder is a Hangar repository, whose database would not know the files.
    PathError
        If the folder is a URL.
    MissingPackageError
        If h5py or hdf5plugin is not installed.

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
    return write_samples(stream, folder, sizes if shape is None else shape, dtype)


def _rows(source: np.ndarray | da.Array) -> Iterator[np.ndarray]:
    """Iterate over the first axis; of a Dask array, computing block by block."""
    if isinstance(source, np.ndarray):
        yield from source
        return
    whole = source.rechunk(dict.fromkeys(range(1, source.ndim), -1))
    for number in range(whole.numblocks[0]):
        yield from whole.blocks[number].compute()


def _check_alike(what: str, schema: Schema, first: Schema) -> None:
    if schema != first:
        raise MetadataError(
            "samples of several shapes or types cannot be one array: "
            f"{first.dtype} of {first.shape} and, of {what!r}, {schema.dtype} of {schema.shape}; "
            "pass the records or the files of each separately"
        )


def _check_samples(source: np.ndarray | da.Array) -> None:
    shape: Sequence[float] = source.shape
    if not shape or any(map(math.isnan, shape[1:])):
        raise MetadataError(
            f"the samples are an array of shape {shape}: its first axis is the samples, and the "
            "others must be known (call compute_chunk_sizes() of a Dask array)"
        )
