"""Hangar's records: strings with the location, shape and digest of a sample."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from xxhash import xxh64_hexdigest

from xarray_n5.errors import MetadataError

DATASETS = 100
"""Datasets of a file, called "0" to "99"; the last one is never written."""

ROWS = 250
"""Rows of a dataset, one for each sample."""

DTYPES = ("?", *"BHILQbhilqefdg")
"""The types of samples, as NumPy's type codes."""

NUMBERED = {np.dtype(code).num: np.dtype(code) for code in DTYPES}
"""These types, by their numbers in ``schema_dtype_num``."""

_LONGEST = 255
"""The maximum length of a record: Hangar stores the length in one byte."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The shape and the type of samples; of a file's, the largest shape."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


_UID = "00:(?P<uid>[A-Za-z0-9_-]+)"
_DIGEST = "(?P<digest>[0-9a-f]{16})"
_SHAPE = "(?P<shape>|[0-9]+(?: [0-9]+)*)"
_FORMS = (
    re.compile(f"{_UID}:{_DIGEST}:(?P<dataset>[0-9]+):(?P<row>[0-9]+):{_SHAPE}"),
    re.compile(rf"{_UID}\${_DIGEST}\$(?P<dataset>[0-9]+) (?P<row>[0-9]+)\*{_SHAPE}"),
    re.compile(rf"{_UID}\$(?P<dataset>[0-9]+) (?P<row>[0-9]+)\*{_SHAPE}"),
)
"""The forms of records since Hangar 0.5, 0.4 and 0.3; the last one has no digests."""


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """The location, shape and digest of one sample.

    >>> parse_record("00:rlUK3C:8067007c0f05c359:16:105:10 10").shape
    (10, 10)
    """

    uid: str
    """The name of the file, without ``.hdf5``."""
    dataset: int
    """The dataset, whose name in the file is this number."""
    row: int
    """The index along the dataset's first axis."""
    shape: tuple[int, ...]
    """The shape of the sample."""
    digest: str | None
    """The xxh64 of its bytes, as 16 hexadecimal digits; None in records of Hangar 0.3."""

    def __str__(self) -> str:
        """Return the record as Hangar 0.5 writes it; without a digest, as Hangar 0.3 did."""
        sizes = " ".join(map(str, self.shape))
        if self.digest is None:
            return f"00:{self.uid}${self.dataset} {self.row}*{sizes}"
        return f"00:{self.uid}:{self.digest}:{self.dataset}:{self.row}:{sizes}"


def parse_record(text: object) -> SampleRecord:
    """Parse a record in any of Hangar's three forms.

    Raises
    ------
    MetadataError
        If it is not a record of HDF5_00, or longer than Hangar can read.
    """
    if not isinstance(text, str):
        raise MetadataError(f"{text!r} is not a record of Hangar's; expected a string")
    check_length(text)
    match = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    if match is None:
        raise MetadataError(
            f"{text!r} is not a record of Hangar's HDF5_00 files; expected "
            "00:<uid>:<16 hexadecimal digits>:<dataset>:<row>:<sizes>"
        )
    parts = match.groupdict()
    shape = tuple(map(int, parts["shape"].split()))
    place = int(parts["dataset"]), int(parts["row"])
    return SampleRecord(parts["uid"], *place, shape, parts.get("digest"))


def check_length(text: str) -> None:
    """Raise MetadataError if a record is longer than Hangar can read."""
    if len(text) > _LONGEST:
        raise MetadataError(
            f"the record {text[:60]!r}... has {len(text)} characters, expected at most {_LONGEST}"
        )


def digest_of(values: np.ndarray) -> str:
    """Return the xxh64 of an array's bytes in C order, as 16 hexadecimal digits.

    >>> digest_of(np.arange(100, dtype="float32").reshape(10, 10))
    'cff6c333cc6a5e44'
    """
    return xxh64_hexdigest(np.ascontiguousarray(values).data)
