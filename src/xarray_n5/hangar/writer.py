"""Write samples to new files of Hangar's HDF5_00, one after another."""

from __future__ import annotations

import operator
import secrets
import string
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import import_h5py
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.hangar.files import local_path
from xarray_n5.hangar.layout import DATASETS, ROWS, Layout, digest_of, filters
from xarray_n5.hangar.records import Record, check_length

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import DTypeLike

    from xarray_n5.hangar.layout import Filters

_BOUNDS = ("v110", "v110")
"""The version of HDF5 for the structures of files, so that Hangar's h5py can read them."""

_SAMPLES = (DATASETS - 1) * ROWS
"""The number of samples of a file: its last dataset is never written."""

_LETTERS = string.ascii_lowercase + string.digits


def write_samples(
    samples: Iterable[np.ndarray],
    folder: str | os.PathLike[str],
    shape: tuple[int, ...],
    dtype: DTypeLike,
    compression: Mapping[str, Any] | None,
) -> list[str]:
    """Write samples into new files of a folder, and return their records.

    Parameters and errors are those of :func:`xarray_n5.hangar.to_hangar`.
    """
    path = local_path(folder)
    if ".hangar" in path.parts or (path / ".hangar").exists():
        hint = "its database would not know the new files; write to another folder"
        raise NodeExistsError(str(path), "", "a Hangar repository", hint)
    kind = np.dtype(dtype).newbyteorder("=")
    layout = Layout(_whole(shape), kind)
    chosen = filters(compression, layout.size * kind.itemsize)
    # Raises for shapes whose records would be too long.
    _record("0" * 8, "0" * 16, _SAMPLES, layout.shape)
    import_h5py("Hangar's files", filters=True)
    records: list[str] = []
    checked = (_checked(sample, layout) for sample in samples)
    first = next(checked, None)
    while first is not None:
        written, first = _write_file(path, layout, chosen, first, checked)
        records += written
    return records


def _write_file(
    folder: Path, layout: Layout, chosen: Filters, first: np.ndarray, others: Iterator[np.ndarray]
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
            _prepare(file, layout, chosen)
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


def _prepare(file: Any, layout: Layout, chosen: Filters) -> None:
    """Create the datasets and attributes that Hangar creates."""
    for number in range(DATASETS):
        file.create_dataset(
            str(number),
            shape=(ROWS, layout.size),
            maxshape=(ROWS, layout.size),
            dtype=layout.dtype,
            chunks=layout.chunks,
            compression=chosen.compression,
            compression_opts=chosen.options,
            shuffle=chosen.shuffle,
        )
    for name, value in layout.attributes().items():
        file.attrs[name] = value
    file.attrs["compression_opts"] = False if chosen.options is None else chosen.options


def _checked(sample: Any, layout: Layout) -> np.ndarray:
    """Return a sample that fits; raise MetadataError otherwise."""
    if isinstance(sample, np.ma.MaskedArray):
        raise MetadataError(
            "the sample is masked, and Hangar's files do not store masks; fill it (filled())"
        )
    values = np.asarray(sample)
    if values.dtype.newbyteorder("=") != layout.dtype:
        raise MetadataError(f"expected a sample of {layout.dtype}, got {values.dtype}")
    if values.ndim != len(layout.shape) or any(map(int.__gt__, values.shape, layout.shape)):
        raise MetadataError(
            f"expected a sample of shape {layout.shape} or smaller, got {values.shape}"
        )
    return np.ascontiguousarray(values, layout.dtype).reshape(values.shape)


def _record(uid: str, digest: str, number: int, shape: tuple[int, ...]) -> str:
    dataset, row = divmod(number, ROWS)
    text = str(Record(uid=uid, digest=digest, dataset=dataset, row=row, shape=shape))
    check_length(text)
    return text


def _whole(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape as integers; raise if they are not sizes."""
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise MetadataError(f"shape is {shape!r}; expected integers") from error
    if any(size < 0 for size in sizes):
        raise MetadataError(f"shape is {shape!r}; expected sizes of at least 0")
    return sizes
