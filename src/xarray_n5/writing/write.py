"""What a task must know of the write that it is part of."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import ge
from typing import TYPE_CHECKING, Any

from xarray_n5.model.chunking import touched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.model.grid import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a task must know to write its block, and the last one to end the write."""

    target: Array
    """The array, without its attributes."""
    start: tuple[int, ...]
    """Where in it the source begins."""
    shape: tuple[int, ...]
    """How far the source reaches."""
    marker: WriteMarker
    """The write's mark."""
    fresh: bool = True
    """Whether the array was made for this write: the chunks that are there are its own."""
    journal: bool = False
    """Whether tasks keep records of what they wrote: that a chunk is there does not tell it."""
    resumed: bool = False
    """Whether chunks that are there have been written by this write already."""
    only: frozenset[Index] | None = None
    """The chunks that are written, where others are right already; None for all."""
    again: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Parts of the grid, from and to along each axis, that others have written since it began."""
    checksums: bool = False
    """Whether digests are kept beside the data."""
    part: bool = False
    """Whether this is one of several writes, which end together."""
    deferred: bool = False
    """Whether it is computed later than it was asked for."""
    planned: bool = False
    """Whether its mark is that of a planned write until its first task runs."""
    whole: WriteMarker | None = None
    """The mark of the Dataset or the tree that it is part of."""
    dims: tuple[str, ...] = ()
    """What the axes are called in the receipts."""

    @property
    def box(self) -> tuple[range, ...]:
        """The chunks that are written, along each axis."""
        return tuple(map(touched, self.start, self.shape, self.target.chunks))

    def facts(self) -> dict[str, Any]:
        """Return what is said of the write while it is under way."""
        return {
            "start": self.start,
            "shape": self.shape,
            "fresh": self.fresh,
            "journal": self.journal,
            **({} if self.whole is None else {"whole": [self.whole.path, self.whole.token]}),
            "by": writer_name(),
            "began": now(),
        }

    def leave_mark(self) -> None:
        """Leave the mark of a write that begins, or is planned."""
        leave = self.marker.plan if self.planned else self.marker.begin
        leave(self.facts())

    def is_whole(self) -> bool:
        """Return whether all of the array, as it is now, is written."""
        shape = self.target.renewed().shape
        return not any(self.start) and all(map(ge, self.shape, shape))

    def is_again(self, index: Index) -> bool:
        """Return whether others have written a chunk since the write began."""
        return any(
            all(low <= place < high for place, (low, high) in zip(index, part, strict=True))
            for part in self.again
        )

    def covers(self, index: Sequence[int]) -> bool:
        """Return whether all of a chunk is written, not a part of it."""
        sides = zip(
            index, self.start, self.shape, self.target.chunks, self.target.shape, strict=True
        )
        return all(a <= i * c and min((i + 1) * c, s) <= a + n for i, a, n, c, s in sides)

    def __contains__(self, index: Index) -> bool:
        """Whether a chunk is written."""
        return len(index) == len(self.box) and all(
            place in side for place, side in zip(index, self.box, strict=True)
        )


def now() -> str:
    """Return the time, as marks tell it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def writer_name() -> str:
    """Return who writes: a worker's address, or a host and a process."""
    if "distributed.worker" in sys.modules:
        from distributed import get_worker

        try:
            return str(get_worker().address)
        except ValueError:
            pass
    return f"{socket.gethostname()}:{os.getpid()}"
