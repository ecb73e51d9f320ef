"""Read and write chunks of HDF5 datasets: HDF5 locates them, and they are read outside its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.codecs.hdf5 import FAILURES
from xarray_n5.errors import ChunkError, N5Error
from xarray_n5.formats.hdf5 import files
from xarray_n5.formats.hdf5.chunk_layout import ChunkLayout, ChunkLocation
from xarray_n5.formats.hdf5.filters import NO_FILTERS, split_mask
from xarray_n5.formats.hdf5.signature import stamp_of
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index


def name(index: Sequence[int]) -> str:
    """Return a chunk's name below its array.

    >>> name((0, 12)), name(())
    ('0.12', '0')
    """
    return ".".join(map(str, index)) or "0"


def read(file: str, path: str, index: Index, *, follow: bool) -> bytes | None:
    """Return a stored chunk; None if it is not stored."""
    found, stamp = find(file, path, index, follow=follow)
    while isinstance(found, ChunkLocation):
        # Another thread may write meanwhile, which moves the chunk.
        try:
            data = found.read()
        except (EOFError, ValueError) as error:
            raise ChunkError("decode", file, join(path, name(index)), str(error)) from error
        before = found
        if stamp_of(file) != stamp:
            found, stamp = find(file, path, index, follow=follow)
        if found == before:
            return data
    return found


def find(
    file: str, path: str, index: Index, *, follow: bool
) -> tuple[ChunkLocation | bytes | None, object]:
    """Return the location of a chunk, or the stored chunk itself, and the file's stamp."""
    with files.reading(file, follow=follow) as known:
        chunks = known.chunks(path) if known else None
        if known is None or chunks is None:
            return None, None
        try:
            return chunks.find(index), known.stamp
        except FAILURES as error:
            if isinstance(error, N5Error):
                raise
            advice = "; hdf5plugin has further filters" if isinstance(error, OSError) else ""
            why = f"HDF5 cannot read it ({error}){advice}"
            raise ChunkError("decode", file, join(path, name(index)), why) from error


def write(dataset: Any, index: Index, chunk: Buffer) -> None:
    """Store a chunk: its bytes, or its unfiltered elements, through HDF5."""
    layout = ChunkLayout.of(dataset)
    mask, payload = split_mask(chunk)
    if layout.direct and layout.chunked and mask != NO_FILTERS:
        _replace(dataset, layout.start(index), bytes(payload), mask)
    else:
        elements = np.frombuffer(payload, dataset.dtype).reshape(layout.grid.chunks)
        _assign(dataset, layout.grid.slices(index), elements)


def clear(dataset: Any, index: Index) -> None:
    """Set a chunk to the fill value, unfiltered: HDF5 never removes stored chunks."""
    layout = ChunkLayout.of(dataset)
    elements = np.full(layout.grid.chunks, dataset.fillvalue, dataset.dtype)
    if layout.direct and layout.chunked:
        skip_all = (1 << len(layout.filters)) - 1
        _replace(dataset, layout.start(index), elements.tobytes(), skip_all)
    else:
        _assign(dataset, layout.grid.slices(index), elements)


def _assign(dataset: Any, selection: tuple[slice, ...], elements: np.ndarray) -> None:
    dataset[selection] = elements[tuple(slice(each.stop - each.start) for each in selection)]


def _replace(dataset: Any, start: tuple[int, ...], data: bytes, mask: int) -> None:
    """Store a chunk's bytes with their filter mask.

    HDF5 keeps the former mask if the size stays the same, so another size is stored first.
    """
    filtered = bool(dataset.id.get_create_plist().get_nfilters())
    if filtered and _mask_of(dataset, start, len(data)) not in {None, mask}:
        dataset.id.write_direct_chunk(start, data + b"\0", mask)
    dataset.id.write_direct_chunk(start, data, mask)


def _mask_of(dataset: Any, start: tuple[int, ...], size: int) -> int | None:
    """Return the filter mask of a stored chunk; None if it is not stored or of another size."""
    try:
        mask, data = dataset.id.read_direct_chunk(start)
    except (OSError, RuntimeError, ValueError, MemoryError):
        return None
    return mask if len(data) == size else None
