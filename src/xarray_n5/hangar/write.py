"""Write samples to new files of Hangar's HDF5_00, one after another, in the layout of Hangar."""

from __future__ import annotations

import math
import operator
import secrets
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import xarray as xr

from xarray_n5.codecs.hdf5 import BLOSC, import_h5py
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.graph import as_graph
from xarray_n5.hangar.read import local_path
from xarray_n5.hangar.records import (
    DATASETS,
    NUMBERED,
    ROWS,
    SampleRecord,
    Schema,
    check_length,
    digest_of,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

_VERSION = "0.5.2"
"""The version of Hangar that writes the same files."""

_BOUNDS = ("v110", "v110")
"""The version of HDF5 for the structures of files, so that Hangar's h5py can read them."""

_SAMPLES = (DATASETS - 1) * ROWS
"""The number of samples of a file: its last dataset is never written."""

_CHUNK = 255_000
"""The largest chunk in bytes."""

_CACHE = 100_000_000
"""The largest chunk cache, in bytes, that Hangar recommends to readers."""

_BLOSC_LEAST = 17
"""The smallest sample, in bytes, that Blosc compresses."""

_LZ4HC = {"compression": BLOSC, "compression_opts": (0, 0, 0, 0, 5, 1, 2), "shuffle": False}
"""Hangar's default: Blosc with LZ4HC at level 5, and bytes shuffled."""

_LZF = {"compression": "lzf", "compression_opts": None, "shuffle": True}
"""Hangar's default for samples that are too small for Blosc."""


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
    path = local_path(folder)
    if ".hangar" in path.parts or (path / ".hangar").exists():
        hint = "its database would not know the new files; write to another folder"
        raise NodeExistsError(str(path), "", "a Hangar repository", hint)
    source = as_graph(samples.data if isinstance(samples, xr.DataArray) else samples)
    if isinstance(source, (np.ndarray, da.Array)):
        if not source.ndim or any(map(math.isnan, source.shape[1:])):
            raise MetadataError(
                f"the samples are an array of shape {source.shape}: its first axis is the samples, "
                "and the others must be known (call compute_chunk_sizes() of a Dask array)"
            )
        sizes, dtype, stream = source.shape[1:], source.dtype, _rows(source)
    else:
        given = map(np.asanyarray, source)
        first = next(given, None)
        if first is None:
            return []
        sizes, dtype, stream = first.shape, first.dtype, chain([first], given)
    schema = _schema(sizes if shape is None else shape, dtype)
    # Raises for shapes whose records would be too long.
    _record("0" * 8, "0" * 16, _SAMPLES, schema.shape)
    import_h5py("Hangar's files", filters=True)
    checked = (_checked(sample, schema) for sample in stream)
    records: list[str] = []
    for sample in checked:
        records += _write_file(path, schema, chain([sample], islice(checked, _SAMPLES - 1)))
    return records


def _rows(source: np.ndarray | da.Array) -> Iterator[np.ndarray]:
    """Iterate over the first axis; of a Dask array, computing block by block."""
    if isinstance(source, np.ndarray):
        yield from source
        return
    whole = source.rechunk(dict.fromkeys(range(1, source.ndim), -1))
    for number in range(whole.numblocks[0]):
        yield from whole.blocks[number].compute()


def _schema(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Schema:
    """Return the largest shape and the type of samples; raise if Hangar cannot store them."""
    kind = dtype.newbyteorder("=")
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise MetadataError(f"shape is {shape!r}; expected integers") from error
    if kind.num not in NUMBERED:
        raise MetadataError(
            f"Hangar cannot store samples of {kind}; use booleans, integers or real floats"
        )
    if any(size <= 0 for size in sizes):
        raise MetadataError(f"shape is {shape!r}; expected sizes of at least 1")
    return Schema(sizes, kind)


def _write_file(folder: Path, schema: Schema, samples: Iterable[np.ndarray]) -> list[str]:
    """Write one file, whose name is hidden until it is complete; return the records."""
    folder.mkdir(parents=True, exist_ok=True)
    uid = secrets.token_hex(4)
    while (folder / f"{uid}.hdf5").exists():
        uid = secrets.token_hex(4)
    partial = folder / f".{uid}.partial"
    file = import_h5py("Hangar's files").File(partial, "x", libver=_BOUNDS)
    records: list[str] = []
    try:
        with file:
            _prepare(file, schema)
            for sample in samples:
                dataset, row = divmod(len(records), ROWS)
                flat = sample.reshape(-1)
                file[str(dataset)].write_direct(flat, None, (row, slice(0, flat.size)))
                records.append(_record(uid, digest_of(sample), len(records), sample.shape))
            # As Hangar leaves them: the last location, and a full file has one dataset left.
            last = len(records) if len(records) == _SAMPLES else len(records) - 1
            dataset, row = divmod(last, ROWS)
            file.attrs.modify("next_location", (dataset, row))
            file.attrs.modify("collections_remaining", DATASETS - dataset)
        partial.rename(folder / f"{uid}.hdf5")
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return records


def _prepare(file: Any, schema: Schema) -> None:
    """Create the datasets and attributes that Hangar creates."""
    size, itemsize = math.prod(schema.shape), schema.dtype.itemsize
    side = _chunk_of(schema)
    chosen: dict[str, Any] = _LZ4HC if size * itemsize >= _BLOSC_LEAST else _LZF
    for number in range(DATASETS):
        shape = (ROWS, size)
        layout = {"shape": shape, "maxshape": shape, "dtype": schema.dtype, "chunks": (1, side)}
        file.create_dataset(str(number), **layout, **chosen)
    cache = min(max(size * itemsize * ROWS, _CHUNK), _CACHE)
    attributes = {
        "HANGAR_VERSION": _VERSION,
        "schema_shape": schema.shape,
        "schema_dtype_num": schema.dtype.num,
        "next_location": (0, 0),
        "collection_max_size": ROWS,
        "collection_total": DATASETS,
        "collections_remaining": DATASETS,
        "rdcc_nbytes": cache,
        "rdcc_w0": 0.75,
        "rdcc_nslots": _next_prime(math.ceil(cache / (side * itemsize)) * 100),
        "chunk_shape": (side,),
        "compression_opts": chosen["compression_opts"] or False,
    }
    for name, value in attributes.items():
        file.attrs[name] = value


def _chunk_of(schema: Schema) -> int:
    """Return the elements of a chunk: those of a row, or a part of them.

    >>> _chunk_of(Schema((5, 7, 9), np.dtype("f4")))
    315
    """
    return min(_CHUNK // schema.dtype.itemsize, math.prod(schema.shape))


def _next_prime(number: int) -> int:
    """Return the smallest prime that is at least a number.

    >>> _next_prime(25000)
    25013
    """
    numbers = count(max(number, 2))
    return next(n for n in numbers if all(n % d for d in range(2, math.isqrt(n) + 1)))


def _checked(sample: Any, schema: Schema) -> np.ndarray:
    """Return a sample that fits; raise MetadataError otherwise."""
    if isinstance(sample, np.ma.MaskedArray):
        raise MetadataError("Hangar's files do not store masks; fill the sample (filled())")
    values = np.asarray(sample)
    if values.dtype.newbyteorder("=") != schema.dtype:
        raise MetadataError(f"expected a sample of {schema.dtype}, got {values.dtype}")
    if values.ndim != len(schema.shape) or any(map(int.__gt__, values.shape, schema.shape)):
        raise MetadataError(
            f"expected a sample of shape {schema.shape} or smaller, got {values.shape}"
        )
    return np.ascontiguousarray(values, schema.dtype).reshape(values.shape)


def _record(uid: str, digest: str, number: int, shape: tuple[int, ...]) -> str:
    text = str(SampleRecord(uid, *divmod(number, ROWS), shape, digest))
    check_length(text)
    return text
