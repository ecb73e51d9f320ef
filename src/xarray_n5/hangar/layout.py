"""What Hangar's HDF5_00 files look like, as numbers: datasets, chunks, and where samples go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from xxhash import xxh64_hexdigest

from xarray_n5.errors import MetadataError

DATASETS = 100
"""Datasets in a file, called "0" to "99"; the last of them stays empty."""

ROWS = 250
"""Samples in a dataset."""

VERSION = "0.5.2"
"""The version of Hangar whose files these are."""

_CHUNK = 255_000
"""The most bytes of a chunk."""

_CACHE = 100_000_000
"""The most bytes of the cache that Hangar notes for readers."""

_CACHE_WEIGHT = 0.75

DTYPES = ("?", *"BHILQbhilqefdg")
"""Types of numbers that samples may have, by numpy's codes."""

_NUMBERS = {np.dtype(code).num: np.dtype(code) for code in DTYPES}


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file is made for: samples of one type, of one shape or smaller.

    >>> Layout((5, 7, 9), np.dtype("f4")).chunks
    (1, 315)
    """

    shape: tuple[int, ...]
    """The shape of a sample, or the largest of them."""
    dtype: np.dtype[Any]
    """The type of their elements, in this machine's byte order."""

    def __post_init__(self) -> None:
        if self.dtype.num not in _NUMBERS:
            raise MetadataError(
                f"samples of {self.dtype} cannot be held by Hangar; booleans, integers and real "
                "floats can"
            )
        if self.size == 0:
            raise MetadataError(f"samples of shape {self.shape} have no elements to store")

    @property
    def size(self) -> int:
        """The elements of a row of each dataset."""
        return math.prod(self.shape)

    @property
    def chunks(self) -> tuple[int, int]:
        """The shape of a chunk: one row, or a part of it."""
        return 1, min(_CHUNK // self.dtype.itemsize, self.size)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the file's root, but for that of the compression."""
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
    """Return the xxh64 of the bytes of values in C order, as 16 hexadecimal digits.

    >>> digest_of(np.arange(100, dtype="float32").reshape(10, 10))
    'cff6c333cc6a5e44'
    """
    return xxh64_hexdigest(np.ascontiguousarray(values).data)


def numbered(number: object) -> np.dtype[Any] | None:
    """Return the type of a number in ``schema_dtype_num``; None where it is not known."""
    return _NUMBERS.get(number) if isinstance(number, int) else None


def following(dataset: int, row: int) -> tuple[int, int]:
    """Return where the sample goes that comes after one; in dataset "99", to a new file.

    >>> following(3, 249)
    (4, 0)
    """
    return (dataset, row + 1) if row + 1 < ROWS else (dataset + 1, 0)


def is_finished(dataset: int) -> bool:
    """Return whether a file takes no more samples: its last dataset is never written."""
    return remaining(dataset) <= 1


def remaining(dataset: int) -> int:
    """Return ``collections_remaining`` of a file whose next sample goes into a dataset."""
    return DATASETS - dataset


def next_prime(number: int) -> int:
    """Return the first prime that is not below a number.

    >>> next_prime(25000)
    25013
    """
    return next(
        each
        for each in count(max(number, 2))
        if all(each % divisor for divisor in range(2, math.isqrt(each) + 1))
    )
