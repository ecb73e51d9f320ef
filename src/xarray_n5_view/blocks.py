"""Read parts of arrays; blocks of Dask are computed once, and the latest ones are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import xarray as xr

_KEPT = 1 << 28
"""The maximum size of the computed blocks that are kept, in bytes."""

Index = tuple[int, ...]


@dataclass(slots=True)
class Blocks:
    """The latest computed blocks of one array."""

    found: OrderedDict[Index, Future[np.ndarray]] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, data: xr.Variable, where: tuple[slice, ...]) -> np.ndarray:
        """Return a part of an array."""
        if data.chunks is None:
            return np.asarray(data[where].values)
        result = np.empty([each.stop - each.start for each in where], data.dtype)
        ends = [_overlaps(sides, each) for sides, each in zip(data.chunks, where, strict=True)]
        for parts in product(*ends):
            index = tuple(number for number, _, _ in parts)
            block = self._block(data, index)
            result[tuple(to for _, _, to in parts)] = block[tuple(of for _, of, _ in parts)]
        return result

    def _block(self, data: xr.Variable, index: Index) -> np.ndarray:
        """Return a block; if several threads need it, one computes it."""
        with self.lock:
            known = self.found.get(index)
            future: Future[np.ndarray] = Future() if known is None else known
            self.found[index] = future
            self.found.move_to_end(index)
        if known is not None:
            return known.result()
        try:
            array: Any = data.data
            future.set_result(np.asarray(array.blocks[index].compute()))
        except BaseException as error:
            future.set_exception(error)
            with self.lock:
                self.found.pop(index, None)
            raise
        self._forget()
        return future.result()

    def _forget(self) -> None:
        with self.lock:
            done = {k: f.result().nbytes for k, f in self.found.items() if f.done()}
            total = sum(done.values())
            for index, size in list(done.items())[:-1]:
                if total <= _KEPT:
                    break
                self.found.pop(index)
                total -= size


def _overlaps(sides: Sequence[int], where: slice) -> Iterator[tuple[int, slice, slice]]:
    """Iterate over the blocks that a range overlaps: their indices, the parts, and the targets."""
    for number, stop in enumerate(accumulate(sides)):
        start = stop - sides[number]
        first, last = max(start, where.start), min(stop, where.stop)
        if first < last:
            inside = slice(first - start, last - start)
            yield number, inside, slice(first - where.start, last - where.start)
