"""The pending chunks of an interrupted write, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from xarray_n5.graph import ArrayBlockwiseDep

if TYPE_CHECKING:
    import dask.array as da

    from xarray_n5.model.grid import Index
    from xarray_n5.model.receipts import Receipts
    from xarray_n5.writing.write import Write


class Pending(ArrayBlockwiseDep):
    """The pending chunks of each block of an array.

    Parameters
    ----------
    source
        Blocks that do not share chunks.
    write
        The target and the options of the write.
    before
        The receipts of chunks that have been written.
    """

    def __init__(self, source: da.Array, write: Write, before: Receipts) -> None:
        super().__init__(source.chunks)
        box = write.box
        self.missing = np.ones(tuple(map(len, box)), bool)
        if len(before):
            done = [before.indices[:, axis] - side.start for axis, side in enumerate(box)]
            self.missing[tuple(done)] = False
        self.firsts = [
            ((start + np.concatenate([[0], np.cumsum(sizes)])) // side - these.start).astype(int)
            for sizes, side, start, these in zip(
                source.chunks, write.target.metadata.chunks, write.start, box, strict=True
            )
        ]
        for firsts, these in zip(self.firsts, box, strict=True):
            firsts[-1] = len(these)

    def __getitem__(self, idx: tuple[int, ...]) -> np.ndarray:
        spans = zip(idx, self.firsts, strict=True)
        return self.missing[tuple(slice(firsts[i], firsts[i + 1]) for i, firsts in spans)]

    def blocks(self) -> list[tuple[int, ...]]:
        """Return the indices of blocks with pending chunks."""
        if not self.missing.size:
            return []
        counts = self.missing.astype(np.int64)
        for axis, firsts in enumerate(self.firsts):
            counts = np.add.reduceat(counts, firsts[:-1], axis=axis)
        return [tuple(map(int, index)) for index in np.argwhere(counts)]


@dataclass(frozen=True, slots=True)
class Done:
    """The progress of an interrupted run within one block."""

    first: Index
    """The block's first chunk."""
    left: np.ndarray
    """Which of its chunks are pending."""

    def __contains__(self, index: object) -> bool:
        place = zip(cast("Index", index), self.first, strict=True)
        return not self.left[tuple(one - first for one, first in place)]
