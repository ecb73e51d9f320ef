"""Write samples to new files of Hangar's HDF5_00, one after another, in the layout of Hangar."""

from __future__ import annotations

import math
import operator
import secrets
import string
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import BLOSC, import_h5py
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.hangar.read import Schema, local_path
from xarray_n5.hangar.records import DATASETS, ROWS, Record, check_length, digest_of, numbered

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_VERSION = "0.5.2"
"""The version of Hangar that writes the same files."""

_BOUNDS = ("v110", "v110")
"""The version of HDF5 for the structures of files, so that Hangar's h5py can read them."""

_SAMPLES = (DATASETS - 1) * ROWS
"""The number of samples of a file: its last dataset is never written."""

_LETTERS = string.ascii_lowercase + string.digits

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


def write_samples(
    samples: Iterable[np.ndarray],
    folder: str | os.PathLike[str],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> list[str]:
    """Write samples into new files of a folder, and return their records.

    Parameters and errors are those of :func:`xarray_n5.hangar.to_hangar`.
    """
    path = local_path(folder)
    if ".hangar" in path.parts or (path / ".hangar").exists():
        hint = "its database would not know the new files; write to another folder"
        raise NodeExistsError(str(path), "", "a Hangar repository", hint)
    schema = _schema(shape, dtype)
    # Raises for shapes whose records would be too long.
    _record("0" * 8, "0" * 16, _SAMPLES, schema.shape)
    import_h5py("Hangar's files", filters=True)
    records: list[str] = []
    checked = (_checked(sample, schema) for sample in samples)
    first = next(checked, None)
    while first is not None:
        written, first = _write_file(path, schema, first, checked)
        records += written
    return records


def _schema(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Schema:
    """Return the largest shape and the type of samples; raise if Hangar cannot store them."""
    kind = dtype.newbyteorder("=")
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise MetadataError(f"shape is {shape!r}; expected integers") from error
    if numbered(kind.num) is None:
        raise MetadataError(
            f"Hangar cannot store samples of {kind}; use booleans, integers or real floats"
        )
    if any(size <= 0 for size in sizes):
        raise MetadataError(f"shape is {shape!r}; expected sizes of at least 1")
    return Schema(sizes, kind)


def _write_file(
    folder: Path,
    schema: Schema,
    first: np.ndarray,
    others: Iterator[np.ndarray],
) -> tuple[list[str], np.ndarray | None]:
    """Write one file; return the records, and the first sample that it has no room for.

    It has a hidden name until it is complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    uid, partial, file = _new(folder)
    records: list[str] = []
    sample: np.ndarray | None = first
    try:
        with file:
            _prepare(file, schema)
            while sample is not None and len(records) < _SAMPLES:
                dataset, row = divmod(len(records), ROWS)
                flat = sample.reshape(-1)
                file[str(dataset)].write_direct(flat, None, (row, slice(0, flat.size)))
                records.append(_record(uid, digest_of(sample), len(records), sample.shape))
                sample = next(others, None)
            # As Hangar leaves them: the last location, and a full file has one dataset left.
            last = len(records) if len(records) == _SAMPLES else len(records) - 1
            dataset, row = divmod(last, ROWS)
            file.attrs.modify("next_location", (dataset, row))
            file.attrs.modify("collections_remaining", DATASETS - dataset)
        partial.rename(folder / f"{uid}.hdf5")
    except BaseException:
        with suppress(FileNotFoundError):
            partial.unlink()
        raise
    return records, sample


def _new(folder: Path) -> tuple[str, Path, Any]:
    """Create a hidden file, and return its unused name, path and handle."""
    h5py = import_h5py("Hangar's files", filters=True)
    while True:
        uid = "".join(secrets.choice(_LETTERS) for _ in range(8))
        partial = folder / f".{uid}.partial"
        if (folder / f"{uid}.hdf5").exists():
            continue
        with suppress(FileExistsError):  # which mode "x" raises
            return uid, partial, h5py.File(partial, "x", libver=_BOUNDS)


def _prepare(file: Any, schema: Schema) -> None:
    """Create the datasets and attributes that Hangar creates."""
    size, itemsize = math.prod(schema.shape), schema.dtype.itemsize
    side = chunk_of(schema)
    chosen: dict[str, Any] = _LZ4HC if size * itemsize >= _BLOSC_LEAST else _LZF
    for number in range(DATASETS):
        shape = (ROWS, size)
        layout = {"shape": shape, "maxshape": shape, "dtype": schema.dtype, "chunks": (1, side)}
        file.create_dataset(str(number), **layout, **chosen)
    cache = min(max(size * itemsize * ROWS, _CHUNK), _CACHE)
    options = chosen["compression_opts"]
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
        "compression_opts": False if options is None else options,
    }
    for name, value in attributes.items():
        file.attrs[name] = value


def chunk_of(schema: Schema) -> int:
    """Return the elements of a chunk: those of a row, or a part of them.

    >>> chunk_of(Schema((5, 7, 9), np.dtype("f4")))
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
    text = str(Record(uid, *divmod(number, ROWS), shape, digest))
    check_length(text)
    return text
