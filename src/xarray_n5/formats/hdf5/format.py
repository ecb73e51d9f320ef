"""HDF5 as n5-hdf5 uses it: datasets are arrays in NumPy's axis order, groups are groups.

Files are recognised by their first bytes.

Source: n5-hdf5 1.4.2 and 2.2.1, and the HDF5 file format specification.
"""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xarray_n5.errors import MetadataError
from xarray_n5.formats.hdf5 import filters
from xarray_n5.formats.hdf5.attributes import split_attributes
from xarray_n5.formats.hdf5.filters import FilterLayout, filters_for
from xarray_n5.formats.protocol import Format
from xarray_n5.model.json import check_json
from xarray_n5.model.metadata import ArrayMetadata

if TYPE_CHECKING:
    from xarray_n5.model.metadata import Attributes, Metadata

SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ilp")
"""Suffixes of HDF5 files."""

SIGNATURE = b"\x89HDF\r\n\x1a\n"

_SUPERBLOCK, _NEWER_SUPERBLOCK = 96, 48
"""The size of the superblock at the beginning of a file, in older and in newer versions."""

_MAX_CHUNK_BYTES = (1 << 32) - 1

_NUMBERS = frozenset({"?", *"bhilqBHILQefdFD"})
"""NumPy's codes of the number types that can be written; platforms have several for one type."""


@dataclass(frozen=True, slots=True)
class Hdf5(Format):
    """The rules of HDF5, and the encoding of its chunks."""

    name: ClassVar[str] = "hdf5"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    one_writer: ClassVar[bool] = True

    decode = staticmethod(filters.decode)
    encode = staticmethod(filters.encode)
    peek = staticmethod(filters.peek)

    def complete(self, metadata: ArrayMetadata, layout: Attributes | None = None) -> ArrayMetadata:
        """Return a new array's metadata with its layout: little-endian, in whole chunks."""
        if layout:
            raise MetadataError(
                f"layout={dict(layout)} is for Zarr; in HDF5, `compression` alone selects filters"
            )
        dtype, shaped = metadata.dtype.newbyteorder("<"), bool(metadata.shape)
        nbytes = math.prod(metadata.chunks) * dtype.itemsize
        chosen = filters_for(metadata.compression, dtype, nbytes) if shaped else ()
        return replace(metadata, layout=FilterLayout(dtype, chosen, direct=shaped))

    def check(self, metadata: Metadata, where: str) -> None:
        """Raise if HDF5 cannot store a new node; `where` names it."""
        array = metadata if isinstance(metadata, ArrayMetadata) else None
        check_json(metadata.attributes, where)
        split_attributes(metadata.attributes, where, len(array.shape) if array else None)
        if array is None:
            return
        dtype = array.layout.dtype
        if dtype.char not in _NUMBERS and dtype.kind != "S":
            raise MetadataError(
                f"{where}: HDF5 cannot store elements of type {dtype}; convert them to numbers, "
                "or to bytes of a fixed length ('S')"
            )
        size = math.prod(array.chunks) * dtype.itemsize
        if size > _MAX_CHUNK_BYTES:
            raise MetadataError(
                f"{where}: chunks of {array.chunks} have {size} bytes, but HDF5 chunks hold at "
                f"most {_MAX_CHUNK_BYTES}; choose smaller chunks"
            )

    def assume(self, constraints: Attributes, where: str) -> ArrayMetadata:
        """Raise: the locations of chunks are only known from the file."""
        raise MetadataError(
            f"{where}: the chunks of an HDF5 file can only be located with the file's metadata; "
            f"open it without assume_metadata (got {sorted(constraints)})"
        )


def stamp_of(path: str) -> object:
    """Return a value that changes whenever a file is written; None if there is no file, or a stub.

    A stub is what remains if a file's first writer is killed: at most its superblock.
    """
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if is_stub(path, found):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def is_stub(path: str, found: os.stat_result) -> bool:
    """Return whether a file is at most the superblock of an HDF5 file."""
    if found.st_size > _SUPERBLOCK or not stat.S_ISREG(found.st_mode):
        return False
    with open(path, "rb") as file:
        start = file.read(_SUPERBLOCK + 1)
    version = start[len(SIGNATURE) : len(SIGNATURE) + 1]
    superblock = _SUPERBLOCK if version in {b"", b"\0", b"\1"} else _NEWER_SUPERBLOCK
    return len(start) <= superblock and start[: len(SIGNATURE)] == SIGNATURE[: len(start)]


def cut_short(path: str) -> tuple[int, int] | None:
    """Return the size of a file that ends early, and the size that its superblock states.

    None if it is large enough, or lacks more than one chunk: no write of a chunk was stopped.
    Source: HDF5 file format specification, II.A. Of the superblock's addresses, the third is that
    of the file's end.
    """
    with open(path, "rb") as file:
        stored, start = os.fstat(file.fileno()).st_size, file.read(_SUPERBLOCK)
    if len(start) < _SUPERBLOCK or not start.startswith(SIGNATURE):
        return None
    first, width = {0: (24, start[13]), 1: (28, start[13])}.get(start[8], (12, start[9]))
    stated = int.from_bytes(start[first + 2 * width : first + 3 * width], "little")
    return (stored, stated) if 0 < stated - stored <= _MAX_CHUNK_BYTES else None
