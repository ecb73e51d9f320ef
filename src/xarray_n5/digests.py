"""Digests of an array's chunks, kept in one small file beside them."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.paths import DIGESTS, join

if TYPE_CHECKING:
    from xarray_n5.array import Array
    from xarray_n5.receipts import Receipts


@dataclass(frozen=True, slots=True, eq=False)
class Digests:
    """What each chunk held when it was written, as far as that is known."""

    shape: tuple[int, ...]
    """The array's shape then: chunks at its ends hold something else when it grows."""
    values: np.ndarray
    """The xxh64 of each chunk, uint64, on the chunk grid."""
    known: np.ndarray
    """Of which chunks they are."""

    def for_array(self, array: Array) -> Digests:
        """Return the digests of chunks that reach as far now as they did then."""
        counts = array.grid.counts
        values, known = np.zeros(counts, np.uint64), np.zeros(counts, bool)
        both = tuple(slice(0, min(a, b)) for a, b in zip(counts, self.known.shape, strict=True))
        values[both], known[both] = self.values[both], self.known[both]
        for axis, (now, then, side) in enumerate(
            zip(array.shape, self.shape, array.chunks, strict=True)
        ):
            ends = (np.arange(counts[axis]) + 1) * side
            moved = np.minimum(ends, now) != np.minimum(ends, then)
            known[(slice(None),) * axis + (moved,)] = False
        return Digests(array.shape, values, known)


def read_digests(array: Array) -> Digests | None:
    """Return the digests that are kept beside an array, or None where there are none.

    Raises
    ------
    MetadataError
        If their file holds something else.
    """
    store, key = array.container, join(array.path, DIGESTS)
    document = store.get(key)
    if document is None:
        return None
    try:
        with np.load(io.BytesIO(document), allow_pickle=False) as found:
            shape = tuple(map(int, found["shape"]))
            return Digests(shape, found["xxh64"], found["known"])
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        where = join(store.url, key)
        raise MetadataError(f"{where}: no digests ({error}); remove the file") from error


def keep_digests(array: Array, receipts: Receipts, *, anew: bool) -> None:
    """Keep the digests of chunks that were written, beside those that are kept; or begin to."""
    found = read_digests(array)
    if found is None and not anew:
        return
    array = array.renewed()
    counts = array.grid.counts
    empty = Digests(array.shape, np.zeros(counts, np.uint64), np.zeros(counts, bool))
    now = empty if found is None else found.for_array(array)
    receipts = receipts.chosen(~np.isnan(receipts.seconds))  # of others nothing was seen
    spots = tuple(receipts.indices.T)
    if len(receipts):
        now.values[spots] = receipts.digests if spots else receipts.digests[-1]
        now.known[spots] = True
    file = io.BytesIO()
    np.savez(file, xxh64=now.values, known=now.known, shape=np.array(now.shape, np.int64))
    array.container.set(join(array.path, DIGESTS), file.getvalue())
