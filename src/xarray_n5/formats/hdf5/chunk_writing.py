"""Replace chunks of HDF5 datasets, by others or by the fill value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.formats.hdf5.chunk_layout import ChunkLayout
from xarray_n5.formats.hdf5.filters import NO_FILTERS, split_mask

if TYPE_CHECKING:
    from xarray_n5.model.codec import Buffer
    from xarray_n5.model.grid import Index


def write_chunk(dataset: Any, index: Index, chunk: Buffer) -> None:
    """Store a chunk: its bytes, or through HDF5 elements that no filter was applied to."""
    layout = ChunkLayout.of(dataset)
    mask, payload = split_mask(chunk)
    if layout.direct and layout.chunked and mask != NO_FILTERS:
        _replace(dataset, layout.start(index), bytes(payload), mask)
    else:
        elements = np.frombuffer(payload, dataset.dtype).reshape(layout.grid.chunks)
        _assign(dataset, layout.grid.slices(index), elements)


def clear_chunk(dataset: Any, index: Index) -> None:
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
