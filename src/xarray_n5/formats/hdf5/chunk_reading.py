"""Read chunks of HDF5 files: locate them with HDF5, read and decompress them outside its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import ChunkError, N5Error
from xarray_n5.formats.hdf5 import files
from xarray_n5.formats.hdf5.chunk_layout import ChunkLocation
from xarray_n5.formats.hdf5.signature import stamp_of
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.grid import Index


def name_of(index: Sequence[int]) -> str:
    """Return a chunk's name below its array.

    >>> name_of((0, 12)), name_of(())
    ('0.12', '0')
    """
    return ".".join(map(str, index)) or "0"


def read_chunk(file: str, path: str, index: Index, *, follow: bool) -> bytes | None:
    """Return a stored chunk; None if it is not stored."""
    found, stamp = find_chunk(file, path, index, follow=follow)
    while isinstance(found, ChunkLocation):
        # Another thread may write meanwhile, and so move the chunk.
        try:
            data = found.read()
        except (EOFError, ValueError) as error:
            raise ChunkError("decode", file, join(path, name_of(index)), str(error)) from error
        before = found
        if stamp_of(file) != stamp:
            found, stamp = find_chunk(file, path, index, follow=follow)
        if found == before:
            return data
    return found


def find_chunk(
    file: str, path: str, index: Index, *, follow: bool
) -> tuple[ChunkLocation | bytes | None, object]:
    """Return where a chunk is, or the stored chunk itself, and the file's stamp."""
    with files.reading(file, follow=follow) as known:
        chunks = known.chunks(path) if known else None
        if known is None or chunks is None:
            return None, None
        try:
            return chunks.find(index), known.stamp
        except FAILURES as error:
            if isinstance(error, N5Error):
                raise
            why = f"HDF5 cannot read it ({error}); hdf5plugin has filters that HDF5 has not"
            raise ChunkError("decode", file, join(path, name_of(index)), why) from error
