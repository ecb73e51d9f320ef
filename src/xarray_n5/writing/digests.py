"""Digests of an array's chunks, kept in small files beside them."""

from __future__ import annotations

import io
import time
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5.paths import DIGESTS, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.array import Array
    from xarray_n5.writing.receipts import Receipts
    from xarray_n5.writing.writes import Write

_ALL = "all.npz"
"""The file that all are gathered in when nobody else writes."""


@dataclass(frozen=True, slots=True, eq=False)
class Digests:
    """What each chunk held when it was written, as far as that is known."""

    values: np.ndarray
    """The xxh64 of each chunk, uint64, on the chunk grid."""
    known: np.ndarray
    """Of which chunks they are."""


def read_digests(array: Array) -> Digests | None:
    """Return the digests that are kept beside an array; None where there are none.

    Chunks at the array's ends that reach further now than they did are not known.

    Raises
    ------
    MetadataError
        If a file holds something else.
    """
    names = _names(array)
    if not names:
        return None
    counts = array.grid.counts
    found = Digests(np.zeros(counts, np.uint64), np.zeros(counts, bool))
    for part in sorted((_read(array, name) for name in names), key=lambda each: each["time"]):
        _add(found, array, part["indices"], part["xxh64"], tuple(map(int, part["shape"])))
    return found


def keep_digests(write: Write, receipts: Receipts, *, alone: bool) -> None:
    """Keep the digests of chunks that were written, where some are kept or are asked for.

    Each write has a file of its own. Who knows of no other gathers them in one.
    """
    array = write.target.renewed()
    names = _names(array)
    if not names and not write.checksums:
        return
    receipts = receipts.chosen(~np.isnan(receipts.seconds))  # of others nothing was seen
    shape = array.shape
    if not alone:
        name, now = f"{write.underway.token}.npz", time.time_ns()
        _save(array, name, receipts.indices, receipts.digests, now)
        return
    found = read_digests(array)
    if found is None:
        counts = array.grid.counts
        found = Digests(np.zeros(counts, np.uint64), np.zeros(counts, bool))
    _add(found, array, receipts.indices, receipts.digests, shape)
    _save(array, _ALL, np.argwhere(found.known), found.values[found.known], 0)
    array.container.delete([_key(array, name) for name in names if name != _ALL])


def _add(
    found: Digests,
    array: Array,
    indices: np.ndarray,
    digests: np.ndarray,
    shape: Sequence[int],
) -> None:
    """Add digests of chunks of an array that had another shape, perhaps."""
    inside = np.ones(len(indices), bool)
    same = np.ones(len(indices), bool)
    for axis, (now, then, side, count) in enumerate(
        zip(array.shape, shape, array.chunks, array.grid.counts, strict=True)
    ):
        ends = (indices[:, axis] + 1) * side
        inside &= indices[:, axis] < count
        same &= np.minimum(ends, now) == np.minimum(ends, then)
    spots = tuple(indices[inside].T) if indices.shape[1] else ...
    if inside.any():
        found.values[spots] = digests[inside]
        found.known[spots] = same[inside]


def _names(array: Array) -> list[str]:
    _, files = array.container.list(join(array.path, DIGESTS))
    return [name for name in files if name.endswith(".npz") and not name.startswith(".")]


def _key(array: Array, name: str) -> str:
    return join(array.path, DIGESTS, name)


def _read(array: Array, name: str) -> dict[str, np.ndarray]:
    store, key = array.container, _key(array, name)
    data = store.get(key) or b""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {each: found[each] for each in ("indices", "xxh64", "shape", "time")}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        where = join(store.url, key)
        raise MetadataError(f"{where}: no digests ({error}); remove the file") from error


def _save(array: Array, name: str, indices: np.ndarray, digests: np.ndarray, now: int) -> None:
    file = io.BytesIO()
    shape = np.array(array.shape, np.int64)
    np.savez(file, indices=indices, xxh64=digests, shape=shape, time=np.array(now))
    array.container.set(_key(array, name), file.getvalue())
