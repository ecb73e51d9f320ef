"""Digests of an array's chunks, stored next to them by a write of the whole array."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.paths import DIGESTS, join

if TYPE_CHECKING:
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.receipts import Receipts


def read_digests(node: ArrayNode) -> np.ndarray | None:
    """Return the XXH3 of each chunk, uint64 on the chunk grid, as stored next to an array.

    Unknown ones are 0. None if there are none, or those of another shape; a file without digests
    of this array is ignored with a warning.
    """
    key = join(node.path, DIGESTS)
    data = node.store.get(key)
    if data is None:
        return None
    grid = node.metadata.grid
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            if any(member.compress_type != zipfile.ZIP_STORED for member in file.infolist()):
                raise ValueError("it is compressed")
        with np.load(io.BytesIO(data)) as arrays:
            shape, digests = arrays["shape"].tolist(), np.asarray(arrays["xxh3"])
        if shape == [*grid.shape] and (digests.dtype.str, digests.shape) != ("<u8", grid.counts):
            raise ValueError(f"they are {digests.dtype} of shape {digests.shape}")
    except (*ODD, EOFError, MemoryError, NotImplementedError, OSError, zipfile.BadZipFile) as error:
        where = join(node.store.url, key)
        warn(f"{where}: not digests of this array ({error}); ignored, remove it")
        return None
    return digests if shape == [*grid.shape] else None


def keep_digests(node: ArrayNode, receipts: Receipts) -> None:
    """Store the digests of a write of a whole array; 0 for chunks that an earlier run stored.

    If that write was repaired, the digests of the other chunks are kept.
    """
    before = read_digests(node)
    values = np.zeros(node.metadata.grid.counts, "<u8") if before is None else before.copy()
    written = receipts.chosen(~np.isnan(receipts.seconds))
    if len(written):
        values[tuple(written.indices.T) if values.ndim else ...] = written.digests
    file = io.BytesIO()
    np.savez(file, xxh3=values, shape=np.array(node.metadata.shape, "<i8"))
    node.store.set(join(node.path, DIGESTS), file.getvalue())
