"""Chunks of HDF5 datasets that are replaced: by others, or by the fill value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.formats.hdf5.chunk_index import MASK, PLAIN
from xarray_n5.formats.hdf5.stored import Stored

if TYPE_CHECKING:
    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index


def store_chunk(dataset: Any, index: Index, data: Buffer) -> None:
    """Store a chunk: as it is where filters are undone without HDF5, else through them."""
    stored, plain = Stored.of(dataset), memoryview(data)[MASK:]
    mask = int.from_bytes(memoryview(data)[:MASK], "little")
    if stored.direct and stored.chunked and mask != PLAIN:
        start = tuple(i * side for i, side in zip(index, stored.chunks, strict=True))
        _replace(dataset, start, bytes(plain), mask)
        return
    where = stored.selection(index)
    elements = np.frombuffer(plain, dataset.dtype).reshape(stored.chunks)
    dataset[where or ()] = elements[tuple(slice(each.stop - each.start) for each in where)]


def _replace(dataset: Any, start: tuple[int, ...], data: bytes, mask: int) -> None:
    """Store a chunk's bytes with their filter mask.

    HDF5 keeps the mask of a chunk that it replaces by as many bytes, so it must see another size
    first.
    """
    filtered = bool(dataset.id.get_create_plist().get_nfilters())
    if filtered and _mask_of(dataset, start, len(data)) not in {None, mask}:
        dataset.id.write_direct_chunk(start, data + b"\0", mask)
    dataset.id.write_direct_chunk(start, data, mask)


def _mask_of(dataset: Any, start: tuple[int, ...], size: int) -> int | None:
    """Return the filter mask of a stored chunk of a certain size; None where there is none."""
    try:
        mask, data = dataset.id.read_direct_chunk(start)
    except (OSError, RuntimeError, ValueError, MemoryError):
        return None
    return mask if len(data) == size else None


def fill_chunk(dataset: Any, index: Index) -> None:
    """Make a chunk hold the fill value, past all filters: who reads it needs none."""
    stored = Stored.of(dataset)
    whole = np.full(stored.chunks, dataset.fillvalue, dataset.dtype)
    if stored.direct and stored.chunked:
        count = dataset.id.get_create_plist().get_nfilters()
        start = tuple(i * side for i, side in zip(index, stored.chunks, strict=True))
        _replace(dataset, start, whole.tobytes(), (1 << count) - 1)
        return
    where = stored.selection(index)
    dataset[where or ()] = whole[tuple(slice(each.stop - each.start) for each in where)]
