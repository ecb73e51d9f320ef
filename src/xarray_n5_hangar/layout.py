"""The layout of Hangar's HDF5_00 files in numbers: datasets, rows, chunks, attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from xxhash import xxh64_hexdigest

from xarray_n5.errors import MetadataError

DATASETS = 100
"""Datasets of a file, called "0" to "99"; the last one is never written."""

ROWS = 250
"""Rows of a dataset, one for each sample."""

VERSION = "0.5.2"
"""The version of Hangar that writes the same files."""

_CHUNK = 255_000
"""The largest chunk in bytes."""

_CACHE = 100_000_000
"""The largest chunk cache, in bytes, that Hangar recommends to readers."""

_CACHE_WEIGHT = 0.75

DTYPES = ("?", *"BHILQbhilqefdg")
"""The types of samples, as NumPy's type codes."""

_NUMBERS = {np.dtype(code).num: np.dtype(code) for code in DTYPES}


@dataclass(frozen=True, slots=True)
class Layout:
    """The datasets of a file, for samples of one type and at most one shape.

    >>> Layout((5, 7, 9), np.dtype("f4")).chunks
    (1, 315)
    """

    shape: tuple[int, ...]
    """The largest shape of a sample."""
    dtype: np.dtype[Any]
    """The type of samples, in native byte order."""

    def __post_init__(self) -> None:
        if self.dtype.num not in _NUMBERS:
            raise MetadataError(
                f"Hangar cannot store samples of {self.dtype}; use booleans, integers or real "
                "floats"
            )
        if self.size == 0:
            raise MetadataError(f"samples of shape {self.shape} have no elements to store")

    @property
    def size(self) -> int:
        """The elements of a row."""
        return math.prod(self.shape)

    @property
    def chunks(self) -> tuple[int, int]:
        """The shape of a chunk: a row, or a part of one."""
        return 1, min(_CHUNK // self.dtype.itemsize, self.size)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the file's root, except ``compression_opts``."""
        cache = min(max(self.size * self.dtype.itemsize * ROWS, _CHUNK), _CACHE)
        slots = math.ceil(cache / (self.chunks[1] * self.dtype.itemsize)) * 100
        return {
            "HANGAR_VERSION": VERSION,
            "schema_shape": self.shape,
            "schema_dtype_num": self.dtype.num,
            "next_location": (0, 0),
            "collection_max_size": ROWS,
            "collection_total": DATASETS,
            "collections_remaining": DATASETS,
            "rdcc_nbytes": cache,
            "rdcc_w0": _CACHE_WEIGHT,
            "rdcc_nslots": next_prime(slots),
            "chunk_shape": self.chunks[1:],
        }


def digest_of(values: np.ndarray) -> str:
    """Return the xxh64 of an array's bytes in C order, as 16 hexadecimal digits.

    >>> digest_of(np.arange(100, dtype="float32").reshape(10, 10))
    'cff6c333cc6a5e44'
    """
    return xxh64_hexdigest(np.ascontiguousarray(values).data)


def numbered(number: object) -> np.dtype[Any] | None:
    """Return the type of a number in ``schema_dtype_num``, or None if it is unknown."""
    return _NUMBERS.get(number) if isinstance(number, int) else None


def following(dataset: int, row: int) -> tuple[int, int]:
    """Return the dataset and row after a sample; dataset 99 means a new file.

    >>> following(3, 249)
    (4, 0)
    """
    return (dataset, row + 1) if row + 1 < ROWS else (dataset + 1, 0)


def is_finished(dataset: int) -> bool:
    """Return whether a file is full: its last dataset is never written."""
    return remaining(dataset) <= 1


def remaining(dataset: int) -> int:
    """Return a file's ``collections_remaining`` when its next sample goes into `dataset`."""
    return DATASETS - dataset


def next_prime(number: int) -> int:
    """Return the smallest prime that is at least a number.

    >>> next_prime(25000)
    25013
    """
    return next(
        each
        for each in count(max(number, 2))
        if all(each % divisor for divisor in range(2, math.isqrt(each) + 1))
    )
