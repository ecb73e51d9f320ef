"""The layout of Hangar's HDF5_00 files: datasets, rows, chunks, attributes, and filters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh64_hexdigest

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

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

_BLOSC = 32001
"""The registered number of HDF5's Blosc filter."""

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

_LEVELS = range(10)
_NO_LEVEL = (False, None, "none")
_BLOSC_SHUFFLES: dict[Any, int] = {None: 0, "none": 0, "byte": 1, "bit": 2}
_SHUFFLES: dict[Any, bool] = {False: False, None: False, "none": False, True: True, "byte": True}

_KEYS = ("backend", "complib", "complevel", "shuffle")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a dataset, as :meth:`h5py.Group.create_dataset` expects them."""

    compression: int | str
    """The number of a filter, or its name in h5py."""
    options: tuple[int, ...] | int | None
    """The filter's options; Hangar stores them in the attribute ``compression_opts``."""
    shuffle: bool
    """Whether HDF5's own shuffle filter comes first."""


def filters(options: Mapping[str, Any] | None, nbytes: int) -> Filters:
    """Return the filters for compression options.

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
    Filters(compression='gzip', options=4, shuffle=True)
    """
    given = _defaults(nbytes) if options is None else dict(options)
    for key in given:
        _check("the key", key, _KEYS)
    _check("'backend'", given.get("backend", "00"), ("00",))
    complib = given.get("complib")
    _check("'complib'", complib, (*_CODES, "lzf", "gzip"))
    if complib in _CODES:
        return _blosc(given, str(complib), nbytes)
    _check("'shuffle'", given.get("shuffle", "missing"), tuple(_SHUFFLES))
    shuffle = _SHUFFLES[given["shuffle"]]
    if complib == "lzf":
        _check("'complevel'", given.get("complevel"), _NO_LEVEL)
        return Filters(compression="lzf", options=None, shuffle=shuffle)
    _check("'complevel'", given.get("complevel"), _LEVELS)
    return Filters(compression="gzip", options=given["complevel"], shuffle=shuffle)


def _defaults(nbytes: int) -> dict[str, Any]:
    if nbytes < _BLOSC_LEAST:
        return {"complib": "lzf", "complevel": None, "shuffle": "byte"}
    return {"complib": "blosc:lz4hc", "complevel": 5, "shuffle": "byte"}


def _blosc(given: Mapping[str, Any], complib: str, nbytes: int) -> Filters:
    _check("'complevel'", given.get("complevel"), _LEVELS)
    _check("'shuffle'", given.get("shuffle", "missing"), tuple(_BLOSC_SHUFFLES))
    if nbytes < _BLOSC_LEAST:
        raise MetadataError(
            f"'complib' is {complib!r}, which requires samples of at least {_BLOSC_LEAST} bytes, "
            f"got {nbytes}; choose 'lzf' or 'gzip'"
        )
    numbers = (given["complevel"], _BLOSC_SHUFFLES[given["shuffle"]], _CODES[complib])
    return Filters(compression=_BLOSC, options=(0, 0, 0, 0, *numbers), shuffle=False)


def _check(what: str, value: Any, choices: tuple[Any, ...] | range) -> None:
    # True equals 1 and False equals 0, but neither is a level.
    if not any(type(value) is type(each) and value == each for each in choices):
        words = "0 to 9" if isinstance(choices, range) else " or ".join(map(repr, choices))
        raise MetadataError(f"compression options: {what} is {value!r}; expected {words}")
