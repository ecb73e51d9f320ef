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
    from collections.abc import Iterable, Iterator, Mapping
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

_CODES = {
    "blosc:blosclz": 0,
    "blosc:lz4": 1,
    "blosc:lz4hc": 2,
    "blosc:zlib": 4,
    "blosc:zstd": 5,
}
"""Blosc's numbers of its compressors."""

_BLOSC_SHUFFLES: dict[Any, int] = {None: 0, "none": 0, "byte": 1, "bit": 2}
_SHUFFLES: dict[Any, bool] = {False: False, None: False, "none": False, True: True, "byte": True}

_DEFAULTS = {"complib": "blosc:lz4hc", "complevel": 5, "shuffle": "byte"}
_SMALL_DEFAULTS = {"complib": "lzf", "complevel": None, "shuffle": "byte"}


def write_samples(
    samples: Iterable[np.ndarray],
    folder: str | os.PathLike[str],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    compression: Mapping[str, Any] | None,
) -> list[str]:
    """Write samples into new files of a folder, and return their records.

    Parameters and errors are those of :func:`xarray_n5.hangar.to_hangar`.
    """
    path = local_path(folder)
    if ".hangar" in path.parts or (path / ".hangar").exists():
        hint = "its database would not know the new files; write to another folder"
        raise NodeExistsError(str(path), "", "a Hangar repository", hint)
    schema = _schema(shape, dtype)
    chosen = filters(compression, math.prod(schema.shape) * schema.dtype.itemsize)
    # Raises for shapes whose records would be too long.
    _record("0" * 8, "0" * 16, _SAMPLES, schema.shape)
    import_h5py("Hangar's files", filters=True)
    records: list[str] = []
    checked = (_checked(sample, schema) for sample in samples)
    first = next(checked, None)
    while first is not None:
        written, first = _write_file(path, schema, chosen, first, checked)
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
    chosen: Mapping[str, Any],
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
            _prepare(file, schema, chosen)
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


def _prepare(file: Any, schema: Schema, chosen: Mapping[str, Any]) -> None:
    """Create the datasets and attributes that Hangar creates."""
    size, itemsize = math.prod(schema.shape), schema.dtype.itemsize
    side = chunk_of(schema)
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


def filters(options: Mapping[str, Any] | None, nbytes: int) -> dict[str, Any]:
    """Return the filters for compression options, as :meth:`h5py.Group.create_dataset` has them.

    Parameters
    ----------
    options
        Values of "complib", "complevel", "shuffle" and optionally "backend". None for Hangar's
        defaults: "blosc:lz4hc", 5, "byte", or "lzf" for samples that are too small for Blosc.
    nbytes
        The size of a sample in bytes.

    Raises
    ------
    MetadataError
        If an option is unknown, missing or invalid.

    Examples
    --------
    >>> filters({"complib": "gzip", "complevel": 4, "shuffle": True}, 1000)
    {'compression': 'gzip', 'compression_opts': 4, 'shuffle': True}
    """
    defaults = _DEFAULTS if nbytes >= _BLOSC_LEAST else _SMALL_DEFAULTS
    given: dict[str, Any] = dict(defaults if options is None else options)
    complib, level = given.get("complib"), given.get("complevel")
    shuffle = given.get("shuffle", "missing")
    blosc = complib in _CODES
    for what, value, choices in (
        *(("the key", key, ("backend", "complib", "complevel", "shuffle")) for key in given),
        ("'backend'", given.get("backend", "00"), ("00",)),
        ("'complib'", complib, (*_CODES, "lzf", "gzip")),
        ("'complevel'", level, (False, None, "none") if complib == "lzf" else range(10)),
        ("'shuffle'", shuffle, tuple(_BLOSC_SHUFFLES if blosc else _SHUFFLES)),
    ):
        # True equals 1 and False equals 0, but neither is a level.
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            words = "0 to 9" if isinstance(choices, range) else " or ".join(map(repr, choices))
            raise MetadataError(f"compression options: {what} is {value!r}; expected {words}")
    if blosc and nbytes < _BLOSC_LEAST:
        raise MetadataError(
            f"'complib' is {complib!r}, which requires samples of at least {_BLOSC_LEAST} bytes, "
            f"got {nbytes}; choose 'lzf' or 'gzip'"
        )
    if blosc:
        numbers = (level, _BLOSC_SHUFFLES[shuffle], _CODES[str(complib)])
        return _filters(BLOSC, (0, 0, 0, 0, *numbers), shuffle=False)
    return _filters(complib, None if complib == "lzf" else level, shuffle=_SHUFFLES[shuffle])


def _filters(compression: object, options: object, *, shuffle: bool) -> dict[str, Any]:
    return {"compression": compression, "compression_opts": options, "shuffle": shuffle}


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
