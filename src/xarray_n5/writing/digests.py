"""Digests of an array's chunks, stored in small files next to them."""

from __future__ import annotations

import io
import math
import time
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.paths import DIGESTS, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.receipts import Receipts
    from xarray_n5.writing.write import Write

_ALL = "all.npz"
"""The file that collects all digests if no other write is running."""


_NUMBER = 8
"""The bytes of a number."""

_HEADER = 1 << 12
"""The maximum size of a header in bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Digests:
    """The known digests of an array's chunks."""

    values: np.ndarray
    """The XXH3 of each chunk, uint64, on the chunk grid."""
    known: np.ndarray
    """Whether the digest of each chunk is known."""


def read_digests(target: ArrayNode) -> Digests | None:
    """Return the digests that are stored next to an array, or None.

    Those of chunks at the array's former ends are unknown. A file without digests of this array is
    ignored with a warning.
    """
    names = _names(target)
    parts = [part for name in names if (part := _read(target, name)) is not None]
    if not parts:
        return None
    counts = target.metadata.grid.counts
    found = Digests(np.zeros(counts, np.uint64), np.zeros(counts, bool))
    for part in sorted(parts, key=lambda each: int(each["time"])):
        _add(found, target, part["indices"], part["xxh3"], tuple(map(int, part["shape"])))
    return found


def keep_digests(write: Write, receipts: Receipts, *, alone: bool) -> None:
    """Store the digests of chunks that were written, if requested or if others are stored.

    Each write has its own file; a write that is `alone` merges all of them into one.
    """
    target = write.target.refreshed()
    names = _names(target)
    if not names and not write.checksums:
        return
    receipts = receipts.chosen(~np.isnan(receipts.seconds))  # others were not written now
    shape = target.metadata.shape
    if not alone:
        name, now = f"{write.marker.token}.npz", time.time_ns()
        _save(target, name, receipts.indices, receipts.digests, now)
        return
    found = read_digests(target)
    if found is None:
        counts = target.metadata.grid.counts
        found = Digests(np.zeros(counts, np.uint64), np.zeros(counts, bool))
    _add(found, target, receipts.indices, receipts.digests, shape)
    _save(target, _ALL, np.argwhere(found.known), found.values[found.known], 0)
    target.store.delete([_key(target, name) for name in names if name != _ALL])


def _add(
    found: Digests,
    target: ArrayNode,
    indices: np.ndarray,
    digests: np.ndarray,
    shape: Sequence[int],
) -> None:
    """Add digests of chunks of an array that may have had another shape."""
    grid = target.metadata.grid
    inside = np.ones(len(indices), bool)
    same = np.ones(len(indices), bool)
    for axis, (now, then, side, count) in enumerate(
        zip(grid.shape, shape, grid.chunks, grid.counts, strict=True)
    ):
        ends = (indices[:, axis] + 1) * side
        inside &= indices[:, axis] < count
        same &= np.minimum(ends, now) == np.minimum(ends, then)
    spots = tuple(indices[inside].T) if indices.shape[1] else ...
    if inside.any():
        found.values[spots] = digests[inside]
        found.known[spots] = same[inside]


def _names(target: ArrayNode) -> list[str]:
    _, files = target.store.list(join(target.path, DIGESTS))
    return [name for name in files if name.endswith(".npz") and not name.startswith(".")]


def _key(target: ArrayNode, name: str) -> str:
    return join(target.path, DIGESTS, name)


def _read(target: ArrayNode, name: str) -> dict[str, np.ndarray] | None:
    store, key = target.store, _key(target, name)
    data = store.get(key) or b""
    try:
        return _parse(data, target)
    except (*ODD, EOFError, NotImplementedError, OSError, zipfile.BadZipFile, zlib.error) as error:
        warn(f"{join(store.url, key)}: not digests of this array ({error}); ignored, remove it")
        return None


def _parse(data: bytes, target: ArrayNode) -> dict[str, np.ndarray]:
    """Return the columns of a file of digests, each limited by the number of chunks in the grid."""
    grid = target.metadata.grid
    ndim, count = len(grid.shape), grid.size
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        found = {
            "indices": _column(file, "indices", "i", count * max(ndim, 1)),
            "xxh3": _column(file, "xxh3", "u", count),
            "shape": _column(file, "shape", "i", ndim),
            "time": _column(file, "time", "i", 1),
        }
    rows = found["xxh3"].size
    shapes = {"indices": (rows, ndim), "xxh3": (rows,), "shape": (ndim,), "time": ()}
    for name, expected in shapes.items():
        if found[name].shape != expected:
            raise ValueError(f"{name!r} has the shape {found[name].shape}, expected {expected}")
    if rows and ndim and found["indices"].min() < 0:
        raise ValueError("'indices' has negative numbers")
    return found


def _column(file: zipfile.ZipFile, name: str, kinds: str, most: int) -> np.ndarray:
    """Return an array of at most so many numbers, whose size is checked before it is unpacked."""
    info = file.getinfo(f"{name}.npy")
    # A larger array had more chunks, but its file is not compressed.
    limit = max(most * _NUMBER, info.compress_size) + _HEADER
    if info.file_size > limit:
        raise ValueError(f"{name!r} has {info.file_size} bytes, expected at most {limit}")
    with file.open(info) as member:
        raw = io.BytesIO(member.read(limit))
    read = np.lib.format.read_magic(raw)
    if read != (1, 0):
        raise ValueError(f"{name!r} has NumPy format version {read}, expected (1, 0)")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(raw)
    if dtype.kind not in kinds:
        raise ValueError(f"{name!r} has type {dtype}, expected whole numbers")
    if math.prod(shape) * dtype.itemsize != raw.getbuffer().nbytes - raw.tell():
        raise ValueError(f"{name!r} is not an array of shape {shape}")
    flat = np.frombuffer(raw.getbuffer(), dtype, offset=raw.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def _save(target: ArrayNode, name: str, indices: np.ndarray, digests: np.ndarray, now: int) -> None:
    file = io.BytesIO()
    shape = np.array(target.metadata.shape, np.int64)
    np.savez(file, indices=indices, xxh3=digests, shape=shape, time=np.array(now))
    target.store.set(_key(target, name), file.getvalue())
