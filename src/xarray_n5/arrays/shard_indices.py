"""Cache the indices of shards that an array has read."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from xarray_n5.model.grid import Index

_MOST = 1 << 25
"""The maximum size of the indices that an array keeps: 32 MiB."""


class Indices:
    """The latest indices of shards that an array has read. It is pickled empty.

    An index is kept with the earlier stamp of its file, and is not used for another file.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Index, tuple[np.ndarray, object]] = OrderedDict()
        self._nbytes = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return Indices, ()

    def get(self, shard: Index, stamp: object) -> np.ndarray | None:
        """Return the index of a shard, if it is known for the file with this stamp."""
        with self._lock:
            index, before = self._kept.get(shard, (None, None))
        return index if stamp == before else None

    def add(self, shard: Index, index: np.ndarray, stamp: object) -> None:
        """Keep the index of a shard, and the stamp from before it was read; forget the oldest."""
        with self._lock:
            self._remove(shard)
            self._kept[shard] = index, stamp
            self._nbytes += index.nbytes
            while self._nbytes > _MOST and len(self._kept) > 1:
                self._remove(next(iter(self._kept)))

    def forget(self, shards: Iterable[Index]) -> None:
        """Forget the indices of shards that are written."""
        with self._lock:
            for shard in shards:
                self._remove(shard)

    def _remove(self, shard: Index) -> None:
        found = self._kept.pop(shard, None)
        self._nbytes -= 0 if found is None else found[0].nbytes
